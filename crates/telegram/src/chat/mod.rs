//! A chat: the replica of a session in one place of Telegram.
//!
//! Pure. It is shown what the session's document becomes ([`Chat::begin`], [`Chat::take`]), says on
//! request what to do next ([`Chat::next`]) and is told what came of that ([`Chat::came`]). There is
//! at most one call under way; until its outcome is known there is no next.
//!
//! What must be told, in order: what is said on the way (silent, merged where it waits), cards for
//! requests (loud), answers (loud, cut at the limit), the end of a turn. What may be skipped: the
//! progress message and drafts, of which only the newest state is ever shown.
//!
//! Each file is a part of that: `piece` says what is to be told and `post` makes messages of it;
//! `card`, `question`, `remember` and `settle` show requests, `answering` reads what people
//! do with them; `progress` and `draft` show what is going on; `order` says what comes first,
//! `coming` what follows from how it went, and `follow` keeps the replica small.
//!
//! A call whose outcome nobody knows is made again: better twice than never.

mod answering;
mod card;
mod coming;
mod draft;
mod follow;
mod nonce;
mod order;
mod piece;
mod post;
mod progress;
mod question;
mod remember;
mod settle;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use view::telegram::{LIMIT, Text};
use view::{Conversation, Gap, Update};
use wire::note::Actor;

use crate::call::{Buttons, Call, Failure, Reply, Words};
use crate::memory::{Asking, PlaceMemory};
use crate::place::{MessageId, Place};
use order::{Plan, Task};

/// A point in time: how long after the bridge was started.
pub type Moment = Duration;

/// The replica of a session in one place.
#[derive(Debug)]
pub struct Chat {
    memory: PlaceMemory,
    /// What is not told yet of the session's document, and the running turn.
    document: Conversation,
    /// Whether there is a document at all; without one, nothing is known to be settled or over.
    begun: bool,
    /// The first turn whose cost is known.
    costs_from: u64,
    /// Answers to people, message by message.
    replies: VecDeque<Saying>,
    files: VecDeque<Attached>,
    /// Words that are to be asked for, by the request.
    asking: Vec<(String, Asking)>,
    /// Messages that have done their work.
    litter: Vec<MessageId>,
    under_way: Option<(Task, Call)>,
    /// What was refused for its tags, and goes in plain words next.
    untagged: Option<Task>,
    /// Nobody wants to hear from us, until somebody speaks.
    unwanted: bool,
    /// What cards show, by the request.
    shown: BTreeMap<String, card::Shown>,
    /// Requests whose cards were refused.
    given_up: BTreeSet<String>,
    live: progress::Live,
}

/// A message in reply to a person.
#[derive(Debug)]
struct Saying {
    words: Words,
    buttons: Buttons,
    to: Option<MessageId>,
}

/// A file of the agent's.
#[derive(Debug)]
struct Attached {
    path: PathBuf,
    picture: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// This, as soon as the chat may be spoken to.
    Do(Call, Urgency),
    /// Nothing before that moment, unless something happens.
    Wait(Moment),
    /// Nothing, unless something happens.
    Rest,
}

/// How much it matters; what matters more goes first where several wait for the same chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nice to see: progress, drafts, typing.
    Passing,
    /// Must come.
    Due,
    /// Somebody waits for it: a card, its outcome, an answer to a command.
    Awaited,
}

/// What a tap, or a reply to a card, means.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    /// The request is answered so.
    Answer {
        /// Which.
        request: String,
        /// How.
        answer: session::machine::Answer,
    },
    /// The running turn is to stop.
    Stop,
    /// A prompt that waits is taken back.
    Unqueue(uuid::Uuid),
    /// The changes of a turn are to be shown.
    Diff {
        /// Which turn.
        turn: u64,
    },
    /// The place is to show that session.
    Resume(journal::SessionId),
    /// The same as if it had been written: a choice under the reply to a command.
    Command(crate::front::Command),
    /// The card has changed by it, and nothing else: a choice was ticked, words were asked for.
    Card,
    /// It is too late; why, in a few words.
    Stale(String),
}

impl Chat {
    /// A chat that goes on from what is remembered.
    pub fn new(memory: PlaceMemory) -> Self {
        Self {
            memory,
            document: Conversation::default(),
            begun: false,
            costs_from: 0,
            replies: VecDeque::new(),
            files: VecDeque::new(),
            asking: Vec::new(),
            litter: Vec::new(),
            under_way: None,
            untagged: None,
            unwanted: false,
            shown: BTreeMap::new(),
            given_up: BTreeSet::new(),
            live: progress::Live::default(),
        }
    }

    /// What is to be remembered. Whoever changes a chat keeps it before the next call is made.
    pub fn memory(&self) -> &PlaceMemory {
        &self.memory
    }

    /// Takes the document as it stands: at the start, and after a gap. It may reach back further
    /// than this chat needs.
    pub fn begin(&mut self, conversation: Conversation, now: Moment) {
        // What is new may stand before what is still being written, with nothing else left here; a
        // document that is known to be cut would not take it in.
        self.document = Conversation { more: false, ..conversation };
        self.begun = true;
        self.costs_from = if self.memory.from == 0 { 0 } else { u64::MAX };
        // Nobody knows when the last life spoke; it may have been just now.
        self.live.resume(now);
        self.tidy(now);
    }

    /// Takes what changed in the document.
    pub fn take(&mut self, update: &Update, now: Moment) -> Result<(), Gap> {
        self.document.apply(update)?;
        self.tidy(now);
        Ok(())
    }

    /// What to do next. Nothing while a call is under way.
    pub fn next(&self, now: Moment) -> Next {
        match self.plan(now) {
            Plan::Do(step) => Next::Do(step.call, step.urgency),
            Plan::Wait(moment) => Next::Wait(moment),
            Plan::Rest => Next::Rest,
        }
    }

    /// A call that [`next`](Self::next) asked for just before is under way.
    pub fn under_way(&mut self, call: &Call, now: Moment) {
        let task = match self.plan(now) {
            Plan::Do(step) if step.call == *call => step.task,
            _ => self.task_of(call),
        };
        self.live.speaks(&task, now);
        self.under_way = Some((task, call.clone()));
    }

    /// What came of the call under way.
    pub fn came(&mut self, outcome: Result<Reply, Failure>, now: Moment) {
        if let Some((task, call)) = self.under_way.take() {
            self.conclude(task, call, outcome);
            if self.begun {
                self.tidy(now);
            }
        }
    }

    /// Something to be said in reply to a person: to a command, or because something failed.
    #[expect(clippy::needless_pass_by_value, reason = "whoever says something is done with it")]
    pub fn say(&mut self, words: Text, buttons: Buttons, to: Option<MessageId>) {
        self.unwanted = false;
        let mut to = to;
        let mut parts = words.messages(LIMIT);
        let last = parts.pop();
        for words in parts {
            self.replies.push_back(Saying { words, buttons: Buttons::new(), to: to.take() });
        }
        self.replies.extend(last.map(|words| Saying { words, buttons, to }));
    }

    /// A file of the agent's, to be sent once what it says is sent.
    pub fn attach(&mut self, path: PathBuf, picture: bool) {
        self.files.push_back(Attached { path, picture });
    }

    /// How much is told from here on: 0 answers, 1 what is said on the way too, 2 tools too.
    pub fn set_verbosity(&mut self, verbosity: u8) {
        self.memory.verbosity = verbosity.min(2);
    }

    /// The place has another number: a group was upgraded, or a topic made anew. What was shown in
    /// the old one is not there any more.
    pub fn moved(&mut self, place: Place) {
        self.memory.place = place;
        self.memory.progress = None;
        self.memory.prompts.clear();
        self.memory.cards.retain(|_, card| !card.settled);
        for card in self.memory.cards.values_mut() {
            card.message = None;
            card.asking = None;
        }
        self.litter.clear();
        self.shown.clear();
        self.live.begin_anew();
        self.unwanted = false;
    }

    /// Somebody else said something in the place: what is going on is shown below it from here on.
    pub fn spoken_below(&mut self) {
        self.unwanted = false;
        self.live.is_buried(self.memory.progress.is_some());
    }

    /// What to do before the place shows another session: nothing of this one is left that looks as
    /// if it were still going on here.
    pub fn leave(&self) -> Vec<Call> {
        let chat = self.memory.place.chat;
        let away = self.memory.progress.map(|message| Call::Delete { chat, message });
        let open = self.memory.cards.values().filter(|card| !card.settled);
        let cards = open.filter_map(|card| Some(self.edit(card.message?, settle::left(card))));
        away.into_iter().chain(cards).collect()
    }

    /// Somebody speaks here, so they want to hear from us.
    pub fn spoken_to(&mut self) {
        self.unwanted = false;
    }

    /// A message of a person became a prompt: an edit of the one may reword the other.
    pub fn prompted(&mut self, messages: &[MessageId], prompt: uuid::Uuid) {
        self.spoken_below();
        self.memory.prompts.extend(messages.iter().map(|&message| (message, prompt)));
    }

    /// What a tap means.
    pub fn tapped(&mut self, message: MessageId, data: &str, by: &Actor) -> Meaning {
        // Who answers is told by the session, to everybody in the same words.
        let _ = by;
        self.unwanted = false;
        self.read_tap(message, data)
    }

    /// What words mean that reply to a message of ours; nothing where they are a prompt.
    pub fn replied(&mut self, to: MessageId, words: &str) -> Option<Meaning> {
        self.unwanted = false;
        self.read_reply(to, words)
    }
}
