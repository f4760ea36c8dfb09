//! The progress message: what is going on, while a turn runs.
//!
//! There is one, without a sound, at the end of the chat; it is edited, goes when something else was
//! said below it, and comes again. It tells that the agent thinks, never what. Whatever came of it is
//! no loss, so nothing of it is remembered but its number.

use std::collections::BTreeMap;
use std::time::Duration;

use view::telegram::{Mark, Text, prose};
use view::{Body, Card, Conversation, Item, ItemId, Phase, phrase};

use super::card::{Shown, button};
use super::draft::Draft;
use super::nonce::Nonce;
use super::order::{Plan, Step, Task};
use super::{Chat, Moment, Urgency, words};
use crate::call::{Call, SendMessage};
use crate::place::Kind;

/// A turn that is over sooner has none.
const PATIENCE: Duration = Duration::from_secs(2);

/// So much text is worth showing before that.
const WORTH: usize = 200;

/// A tool that is done sooner is not shown.
const BRIEF: Duration = Duration::from_millis(500);

/// Tools that are shown.
const TOOLS: usize = 4;

/// Characters of a tool's target, and of what is being written.
const TARGET: usize = 80;
const WRITING: usize = 2_500;

/// What is known of the progress message, for as long as the process lives.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// The running turn, and since when it was seen to run.
    turn: Option<(u64, Moment)>,
    /// Since when calls were seen to run.
    calls: BTreeMap<ItemId, Moment>,
    /// What the message shows.
    shown: Option<Shown>,
    /// When it was last sent or edited.
    spoke: Option<Moment>,
    /// Whether something else was said below it.
    buried: bool,
    /// The turn that the chat was told of with a sign of typing.
    typed: Option<u64>,
    /// The turn for which there is none, because it was refused.
    refused: Option<u64>,
    pub(super) draft: Draft,
}

impl Live {
    pub(super) fn observe(&mut self, document: &Conversation, running: Option<u64>, now: Moment) {
        if self.turn.map(|(turn, _)| turn) != running {
            self.turn = running.map(|turn| (turn, now));
            self.calls.clear();
        }
        let open = |item: &Item| matches!(&item.body, Body::Call(call) if call.state.is_open());
        for item in &document.items {
            if item.parent.is_none() && Some(item.turn) == running && open(item) {
                self.calls.entry(item.id.clone()).or_insert(now);
            }
        }
    }

    /// Goes on after a life that may have spoken just before.
    pub(super) fn resume(&mut self, now: Moment) {
        self.spoke.get_or_insert(now);
        self.draft.resume(now);
    }

    /// A call is under way.
    pub(super) fn speaks(&mut self, task: &Task, now: Moment) {
        match task {
            Task::Progress => self.spoke = Some(now),
            Task::Draft => self.draft.speaks(now),
            Task::Typing => self.typed = self.turn.map(|(turn, _)| turn),
            _ => {}
        }
    }

    pub(super) fn shows(&mut self, shown: Shown) {
        if self.shown.is_none() {
            self.draft.is_gone();
        }
        self.shown = Some(shown);
        self.buried = false;
    }

    /// Something else was said, below the message if there is one.
    pub(super) fn is_buried(&mut self, exists: bool) {
        self.buried = exists;
        self.draft.is_gone();
    }

    /// The message is not there any more.
    pub(super) fn is_away(&mut self) {
        self.shown = None;
        self.buried = false;
    }

    pub(super) fn is_refused(&mut self) {
        self.refused = self.turn.map(|(turn, _)| turn);
    }

    pub(super) fn begin_anew(&mut self) {
        self.is_away();
        self.draft.is_gone();
    }
}

impl Chat {
    /// What to do where nothing has to be done.
    pub(super) fn passing(&self, now: Moment) -> Plan {
        let Some((turn, since)) = self.live.turn else {
            return self.away(Urgency::Due).unwrap_or(Plan::Rest);
        };
        if self.live.buried
            && !self.is_asking()
            && let Some(away) = self.away(Urgency::Passing)
        {
            return away;
        }
        let mut wait = Wait { now, until: None };
        if let Some(step) = self.showing(turn, since, &mut wait) {
            return Plan::Do(Box::new(step));
        }
        if let Some((at, step)) = self.drafting()
            && wait.is_over(at)
        {
            return Plan::Do(Box::new(step));
        }
        if self.memory.progress.is_none() && self.live.typed != Some(turn) {
            let call = Call::Typing(self.memory.place);
            return Plan::Do(Box::new(Step {
                task: Task::Typing,
                call,
                urgency: Urgency::Passing,
            }));
        }
        wait.until.map_or(Plan::Rest, Plan::Wait)
    }

    fn away(&self, urgency: Urgency) -> Option<Plan> {
        let message = self.memory.progress?;
        let call = Call::Delete { chat: self.memory.place.chat, message };
        Some(Plan::Do(Box::new(Step { task: Task::Away, call, urgency })))
    }

    /// Whether it is the people's turn, not the agent's.
    fn is_asking(&self) -> bool {
        matches!(self.document.status.phase, Phase::Waiting { .. })
    }

    /// The message, where it is to be sent or says something else.
    fn showing(&self, turn: u64, since: Moment, wait: &mut Wait) -> Option<Step> {
        if self.live.refused == Some(turn) {
            return None;
        }
        let (shown, worth) = self.progress(turn, since, wait);
        let pace = match self.memory.kind {
            Kind::Private => Duration::from_millis(1_100),
            Kind::Group => Duration::from_secs(3),
        };
        let at = self.live.spoke.map_or(Moment::ZERO, |spoke| spoke + pace);
        let call = match self.memory.progress {
            Some(_) if self.live.shown.as_ref() == Some(&shown) => return None,
            Some(message) => self.edit(message, shown),
            None if self.is_asking() => return None,
            None if !worth && !wait.is_over(since + PATIENCE) => return None,
            None => Call::Send(self.message(shown.words, shown.buttons)),
        };
        let step = Step { task: Task::Progress, call, urgency: Urgency::Passing };
        wait.is_over(at).then_some(step)
    }

    /// What the message is to show, and whether it is worth showing at once.
    fn progress(&self, turn: u64, since: Moment, wait: &mut Wait) -> (Shown, bool) {
        let mut text = Text::default();
        let mut worth = false;
        if !self.drafts()
            && let Some((_, written)) = self.writing()
        {
            worth = written.chars().count() >= WORTH;
            let end = words::end_of(written.trim_end(), WRITING);
            let begins = if end.len() < written.trim_end().len() { "…" } else { "" };
            text = prose(&format!("{begins}{end}"));
            text.push("\n\n");
        }
        let tools = self.tools(turn, wait);
        worth |= !tools.is_empty();
        let mut line = match &self.document.status.phase {
            // A tool that is done in no time is not worth two edits.
            Phase::Running { .. } if tools.is_empty() => phase(&Phase::Working),
            now => phase(now),
        };
        if let Some(elapsed) = elapsed(since, wait) {
            line = format!("{line} · {elapsed}");
        }
        text.push_marked(Mark::Italic, &line);
        for tool in tools {
            text.push("\n");
            text.append(&tool);
        }
        if !self.document.queue.is_empty() {
            let waiting =
                phrase::several(self.document.queue.len(), "prompt waits", "prompts wait");
            words::line(&mut text, Mark::Italic, &waiting);
        }
        let nonce = Nonce::of_turn(self.memory.session, turn);
        let buttons = vec![vec![button("■ Stop", &nonce, &format!("x{turn}"))]];
        (Shown::of_end(&text, buttons), worth)
    }

    /// The last of the tools that take their time, a line each.
    fn tools(&self, turn: u64, wait: &mut Wait) -> Vec<Text> {
        let base = self.document.head.cwd.as_deref();
        let mut tools = Vec::new();
        for item in &self.document.items {
            let Body::Call(call) = &item.body else { continue };
            if item.parent.is_some() || item.turn != turn || item.open {
                continue;
            }
            let visible = if call.state.is_open() {
                let began = self.live.calls.get(&item.id).copied().unwrap_or(wait.now);
                wait.is_over(began + BRIEF)
            } else {
                call.duration_ms().is_some_and(|took| u128::from(took) >= BRIEF.as_millis())
            };
            if visible {
                let card = Card::of(call, base);
                let mut tool = Text::plain(&format!("{} {} ", card.mark, card.verb));
                tool.push_marked(Mark::Code, &words::shortened_to(&card.target, TARGET));
                tools.push(tool);
            }
        }
        tools.split_off(tools.len().saturating_sub(TOOLS))
    }

    /// Whether a message is the progress message.
    pub(super) fn is_progress(&self, message: &SendMessage) -> bool {
        let Some((turn, _)) = self.live.turn else { return false };
        let stop = Nonce::of_turn(self.memory.session, turn).with(&format!("x{turn}"));
        message.buttons.iter().flatten().any(|button| button.data == stop)
    }
}

/// What waits for its time, and until when at most.
struct Wait {
    now: Moment,
    until: Option<Moment>,
}

impl Wait {
    /// Whether that moment has come; where not, it is waited for.
    fn is_over(&mut self, at: Moment) -> bool {
        if at > self.now {
            self.until = Some(self.until.map_or(at, |until| until.min(at)));
        }
        at <= self.now
    }
}

impl Shown {
    /// The end of a text that is too long for a message.
    fn of_end(text: &Text, buttons: crate::Buttons) -> Self {
        let mut shown = Self::new(text, buttons);
        if let Some(last) = text.messages(view::telegram::LIMIT).pop() {
            shown.words = last;
        }
        shown
    }
}

/// What is going on, in a word or two. Thoughts stay where they are.
fn phase(phase: &Phase) -> String {
    match phase {
        Phase::Starting => "Starting…".to_owned(),
        Phase::Idle | Phase::Working | Phase::Thinking { .. } => "Thinking…".to_owned(),
        Phase::Writing => "Writing…".to_owned(),
        Phase::Running { .. } => "Working…".to_owned(),
        Phase::Waiting { .. } => "Waiting for you…".to_owned(),
        Phase::Retrying { attempt: Some(attempt), of: Some(of), .. } => {
            format!("The API failed, trying again ({attempt} of {of})…")
        }
        Phase::Retrying { .. } => "The API failed, trying again…".to_owned(),
        Phase::Compacting => "Summarising the history…".to_owned(),
        Phase::Interrupting => "Stopping…".to_owned(),
        Phase::Stalled { .. } => "Nothing heard for a while…".to_owned(),
        Phase::Gone(_) => "The agent is gone…".to_owned(),
    }
}

/// How long the turn has been running, so roughly that it seldom changes.
fn elapsed(since: Moment, wait: &mut Wait) -> Option<String> {
    let seconds = wait.now.saturating_sub(since).as_secs();
    let step = match seconds {
        0..60 => 10,
        60..600 => 60,
        _ => 300,
    };
    let rounded = seconds / step * step;
    wait.is_over(since + Duration::from_secs(rounded + step));
    match rounded {
        0 => None,
        1..60 => Some(format!("{rounded} s")),
        60..3600 => Some(format!("{} min", rounded / 60)),
        _ => Some(format!("{} h {:02} min", rounded / 3600, rounded / 60 % 60)),
    }
}
