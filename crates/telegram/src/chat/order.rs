//! What comes first.
//!
//! Replies to people, then the outcomes of requests, then what was said and asked in its order, then
//! files, then what is going on.

use view::telegram::{Mark, Text};
use view::{Item, ItemId, Place, Request};

use super::card::{self, Shown};
use super::{Chat, Moment, Urgency, words};
use crate::call::{Buttons, Call, SendMessage, Words};
use crate::memory::{Asking, CardMemory, Sending};
use crate::place::MessageId;

/// What a call is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Task {
    /// The first of the replies.
    Reply,
    /// A card for a request.
    Card(String),
    /// The card of a request shows something else.
    Recard(String),
    /// The card of a request shows what came of it.
    Settle(String),
    /// Words are asked for.
    Ask(String, Asking),
    /// A message that has done its work goes.
    Litter(MessageId),
    /// A part of a post, and how many parts there are.
    Post(Sending, usize),
    /// The first of the files.
    File,
    /// The progress message, sent or edited.
    Progress,
    /// The progress message goes.
    Away,
    /// What is being written.
    Draft,
    /// The bot is busy.
    Typing,
    /// None of ours.
    Stray,
}

/// A call, and what it is for.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) task: Task,
    pub(super) call: Call,
    pub(super) urgency: Urgency,
}

/// What to do.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    Do(Box<Step>),
    Wait(Moment),
    Rest,
}

impl Chat {
    pub(super) fn plan(&self, now: Moment) -> Plan {
        if self.under_way.is_some() || self.unwanted {
            return Plan::Rest;
        }
        let due = match self.reply() {
            None if self.begun => self
                .settling()
                .or_else(|| self.changing())
                .or_else(|| self.telling())
                .or_else(|| self.clearing())
                .or_else(|| self.file()),
            reply => reply,
        };
        let plan = match due {
            Some(step) => Plan::Do(Box::new(step)),
            None if self.begun => self.passing(now),
            None => Plan::Rest,
        };
        match plan {
            Plan::Do(mut step) if self.untagged.as_ref() == Some(&step.task) => {
                step.call.speak_plainly();
                Plan::Do(step)
            }
            plan => plan,
        }
    }

    fn reply(&self) -> Option<Step> {
        let saying = self.replies.front()?;
        let mut message = self.message(saying.words.clone(), saying.buttons.clone());
        message.reply_to = saying.to;
        message.loud = true;
        Some(Step { task: Task::Reply, call: Call::Send(message), urgency: Urgency::Awaited })
    }

    /// Cards whose requests wait no longer.
    fn settling(&self) -> Option<Step> {
        let shown = self.memory.cards.iter().filter(|(_, card)| !card.settled);
        let mut settled = shown.filter_map(|(id, card)| {
            let shown = self.settled(id, card)?;
            Some((id, self.edit(card.message?, shown)))
        });
        let (id, call) = settled.next()?;
        Some(Step { task: Task::Settle(id.clone()), call, urgency: Urgency::Awaited })
    }

    /// Cards that show something else since somebody tapped, and words to be asked for.
    fn changing(&self) -> Option<Step> {
        let requests = &self.document.requests;
        let request = |id: &str| requests.iter().find(|request| request.id == id);
        for (id, asking) in &self.asking {
            let (Some(request), Some(card)) = (request(id), self.memory.cards.get(id)) else {
                continue;
            };
            let text = card::asking(request, card, *asking);
            let Shown { words, .. } = Shown::new(&text, Buttons::new());
            let mut message = self.message(words, Buttons::new());
            message.reply_to = card.message;
            message.force_reply = true;
            message.loud = true;
            let task = Task::Ask(id.clone(), *asking);
            return Some(Step { task, call: Call::Send(message), urgency: Urgency::Awaited });
        }
        requests.iter().find_map(|request| {
            let card = self.memory.cards.get(&request.id)?;
            let message = card.message?;
            let known = self.shown.get(&request.id)?;
            let wanted = self.card(request, card);
            (wanted != *known).then(|| Step {
                task: Task::Recard(request.id.clone()),
                call: self.edit(message, wanted),
                urgency: Urgency::Awaited,
            })
        })
    }

    /// What was said and asked, in order.
    fn telling(&self) -> Option<Step> {
        let asked = self.document.requests.iter().find(|request| self.is_without_card(request));
        let place = asked.and_then(|request| self.place_of(request));
        if let Some(step) = self.telling_before(place) {
            return Some(step);
        }
        let request = asked?;
        let known = self.memory.cards.get(&request.id).filter(|card| !card.settled);
        let so_far = known.cloned().unwrap_or_default();
        let Shown { words, buttons } = self.card(request, &so_far);
        let mut message = self.message(words, buttons);
        message.loud = true;
        let task = Task::Card(request.id.clone());
        Some(Step { task, call: Call::Send(message), urgency: Urgency::Awaited })
    }

    fn telling_before(&self, place: Option<Place>) -> Option<Step> {
        let post = self.post(place)?;
        let part = post.sending.sent;
        let of = post.parts.len();
        let words = post.parts.get(part)?.clone();
        let buttons = if part + 1 == of { post.buttons } else { Buttons::new() };
        let mut message = self.message(words, buttons);
        message.loud = post.loud && part == 0;
        let task = Task::Post(post.sending, of);
        Some(Step { task, call: Call::Send(message), urgency: Urgency::Due })
    }

    fn clearing(&self) -> Option<Step> {
        let &message = self.litter.first()?;
        let call = Call::Delete { chat: self.memory.place.chat, message };
        Some(Step { task: Task::Litter(message), call, urgency: Urgency::Due })
    }

    fn file(&self) -> Option<Step> {
        let file = self.files.front()?;
        let call = Call::SendFile {
            place: self.memory.place,
            path: file.path.clone(),
            picture: file.picture,
            caption: None,
            loud: false,
        };
        Some(Step { task: Task::File, call, urgency: Urgency::Due })
    }

    /// Whether a request has no card. An agent that was started anew may use an id again.
    fn is_without_card(&self, request: &Request) -> bool {
        let card = self.memory.cards.get(&request.id).filter(|card| !card.settled);
        !self.given_up.contains(&request.id) && card.is_none_or(|card| card.message.is_none())
    }

    /// Where the call stands that a request is about.
    fn place_of(&self, request: &Request) -> Option<Place> {
        self.item(request.item.as_ref()?).filter(|item| !item.open).map(|item| item.place)
    }

    pub(super) fn item(&self, id: &ItemId) -> Option<&Item> {
        self.document.items.iter().rfind(|item| item.id == *id)
    }

    /// A message without a sound that answers nobody.
    pub(super) fn message(&self, words: Words, buttons: Buttons) -> SendMessage {
        SendMessage {
            place: self.memory.place,
            words,
            buttons,
            loud: false,
            reply_to: None,
            force_reply: false,
        }
    }

    pub(super) fn edit(&self, message: MessageId, shown: Shown) -> Call {
        let Shown { words, buttons } = shown;
        Call::Edit { chat: self.memory.place.chat, message, words, buttons }
    }

    /// What a call is for that is not what would be done now: time has passed since it was asked
    /// for, and only what is going on depends on that.
    pub(super) fn task_of(&self, call: &Call) -> Task {
        match call {
            Call::Draft { .. } => Task::Draft,
            Call::Typing(_) => Task::Typing,
            Call::Edit { message, .. } if self.memory.progress == Some(*message) => Task::Progress,
            Call::Delete { message, .. } if self.memory.progress == Some(*message) => Task::Away,
            Call::Send(message) if self.memory.progress.is_none() && self.is_progress(message) => {
                Task::Progress
            }
            _ => Task::Stray,
        }
    }

    /// What the memory of a card is once it was sent.
    pub(super) fn card_sent(&mut self, id: &str, message: Option<MessageId>) {
        let request = self.document.requests.iter().find(|request| request.id == id);
        let base = self.document.head.cwd.as_deref();
        let title = request.map(|request| card::title(request, base)).unwrap_or_default();
        let card = self.memory.cards.entry(id.to_owned()).or_default();
        if card.settled {
            *card = CardMemory::default();
        }
        if !title.is_empty() {
            card.title = title;
        }
        card.message = message.or(card.message);
        card.since = self.document.revision.0;
    }

    /// Says that something could not be shown, and why.
    pub(super) fn apologise(&mut self, what: &str, why: &str) {
        let mut text = Text::plain(&format!("⚠️ {what} "));
        text.push_marked(Mark::Italic, &words::shortened_to(why, 200));
        self.say(text, Buttons::new(), None);
    }
}

impl Call {
    /// Lets it say the same without tags.
    fn speak_plainly(&mut self) {
        match self {
            Self::Send(SendMessage { words, .. }) | Self::Edit { words, .. } => {
                *words = words::plainly(words);
            }
            Self::SendFile { caption, .. } => {
                *caption = caption.as_ref().map(words::plainly);
            }
            Self::Draft { .. }
            | Self::Delete { .. }
            | Self::SendText { .. }
            | Self::Typing(_)
            | Self::Answer { .. } => {}
        }
    }
}
