//! What there is to tell, piece by piece, in the order of the document.
//!
//! What becomes of an item depends on what comes after it: words are an answer if the turn ends with
//! them, and only said on the way if a tool is used next. Until that is known they are held, and with
//! them everything behind them.

use view::{AgentNews, Body, Call, Item, Level, Place, Speaker, Subject, Turn, Verb};
use wire::note::TurnEnding;

use super::Chat;

/// Something to tell, or not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece<'a> {
    /// An item, and what becomes of it.
    Item(&'a Item, Fate),
    /// The end of a turn, which was not told.
    End(&'a Turn),
}

/// What becomes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is not for telling.
    Passed,
    /// Nobody knows yet.
    Held,
    /// It is told without a sound, together with others.
    Silent,
    /// It is told with a sound: an answer, or something that went wrong.
    Loud,
}

/// The items of one turn that are not told yet.
struct Section<'a> {
    turn: Option<&'a Turn>,
    over: bool,
    /// Whether the end of the turn is still to be told.
    ends: bool,
    items: Vec<&'a Item>,
}

impl Chat {
    /// What is to be told behind [`told`](crate::memory::PlaceMemory::told), in order.
    pub(super) fn pieces(&self, verbosity: u8) -> Vec<Piece<'_>> {
        let mut pieces = Vec::new();
        for section in self.sections() {
            let fates = (0..section.items.len()).map(|at| {
                let item = section.items[at];
                Piece::Item(item, self.fate(&section, at, verbosity))
            });
            pieces.extend(fates);
            pieces.extend(section.turn.filter(|_| section.ends).map(Piece::End));
        }
        pieces
    }

    /// Whether a turn is over. The agent's own word of it comes before the last of its lines.
    pub(super) fn is_over(&self, turn: &Turn) -> bool {
        let last = self.document.turns.last().is_none_or(|last| last.number <= turn.number);
        let open = match turn.began {
            Some(_) => self.document.status.turn_since.is_some(),
            None => self.document.status.phase.is_busy(),
        };
        !last || (turn.end.is_some() && !open)
    }

    fn sections(&self) -> Vec<Section<'_>> {
        let told = self.memory.told;
        let untold = |item: &&Item| !item.open && item.parent.is_none() && item.place > told;
        let mut items = self.document.items.iter().filter(untold).peekable();
        let mut sections = Vec::new();
        let turns = &self.document.turns;
        // What stands before the first turn, or belongs to turns that were let go.
        let before = turns.first().map_or(Place(u64::MAX, 0), |first| Place(first.first, 0));
        let mut early = Vec::new();
        while let Some(item) = items.next_if(|item| item.place < before) {
            early.push(item);
        }
        sections.push(Section { turn: None, over: true, ends: false, items: early });
        for (at, turn) in turns.iter().enumerate() {
            let end = turns.get(at + 1).map_or(Place(u64::MAX, 0), |next| Place(next.first, 0));
            let mut own = Vec::new();
            while let Some(item) = items.next_if(|item| item.place < end) {
                own.push(item);
            }
            let over = self.is_over(turn);
            let ends = over && turn.number > self.memory.turn;
            sections.push(Section { turn: Some(turn), over, ends, items: own });
        }
        sections
    }

    fn fate(&self, section: &Section<'_>, at: usize, verbosity: u8) -> Fate {
        let item = section.items[at];
        let rest = &section.items[at + 1..];
        let next_call = rest.iter().find_map(|item| called(item));
        // What a turn ends with is loud, and what comes after its end only if something is wrong.
        let last = match (next_call, section.over) {
            (None, true) => Fate::Loud,
            (None, false) => Fate::Held,
            (Some(_), _) => Fate::Silent,
        };
        let aside = if next_call.is_none() && section.ends { Fate::Loud } else { Fate::Silent };
        let if_tools = if verbosity >= 2 { Fate::Silent } else { Fate::Passed };
        let how =
            section.turn.filter(|_| section.over).and_then(|it| it.end.as_ref()?.how.as_ref());
        match &item.body {
            Body::Prompt(prompt)
                if prompt.speaker != Speaker::Person
                    || self.is_ours(item)
                    || self.was_told_before(item) =>
            {
                Fate::Passed
            }
            Body::Prompt(_) | Body::Compaction(_) | Body::Reset => Fate::Silent,
            // One that was let go to save memory said something, and that is told.
            Body::Text { text } if text.trim().is_empty() && !item.shed => Fate::Passed,
            Body::Text { .. } if verbosity == 0 => brief(section.over, next_call, rest),
            Body::Call(call) if is_plan(call) => Fate::Silent,
            Body::Call(call) if asks(call) => Fate::Passed,
            Body::Call(call) if verbosity >= 2 && call.state.is_open() && !section.over => {
                Fate::Held
            }
            Body::Call(_) | Body::Media { .. } | Body::Raw(_) => if_tools,
            Body::Hook(hook) if hook.outcome.is_some() => if_tools,
            Body::Thinking { .. }
            | Body::Retry(_)
            | Body::Hook(_)
            | Body::Agent(AgentNews::Started { .. }) => Fate::Passed,
            // The line that ends the turn says the same again.
            Body::Interruption if how == Some(&TurnEnding::Interrupted) => Fate::Passed,
            Body::Failure { text, .. } if matches!(how, Some(TurnEnding::Failed { message }) if message == text) => {
                Fate::Passed
            }
            Body::Agent(AgentNews::Gone { cause }) if matches!(how, Some(TurnEnding::Cut { cause: known }) if known == cause) => {
                Fate::Passed
            }
            Body::Text { .. }
            | Body::Interruption
            | Body::Failure { .. }
            | Body::Agent(AgentNews::Gone { .. }) => last,
            Body::Notice(notice) if notice.level == Level::Error && section.over => Fate::Loud,
            Body::Notice(_) => aside,
        }
    }

    /// Whether a prompt was told where it stood before: one that a turn did not answer moves to the
    /// turn that does.
    fn was_told_before(&self, item: &Item) -> bool {
        item.place.0 > item.first && self.memory.told.0 >= item.first
    }

    /// Whether a prompt was written here.
    fn is_ours(&self, item: &Item) -> bool {
        let id = item.id.as_str().strip_prefix("p:").and_then(|id| id.parse().ok());
        id.is_some_and(|id: uuid::Uuid| self.memory.prompts.values().any(|known| *known == id))
    }
}

/// What becomes of words where only answers are told. Those before a question are part of it; those
/// before anything else are told only if the turn says nothing after them.
fn brief(over: bool, next_call: Option<&Call>, rest: &[&Item]) -> Fate {
    let answered = || {
        rest.iter().any(|item| match &item.body {
            Body::Text { text } => !text.trim().is_empty(),
            Body::Call(call) => asks(call),
            _ => false,
        })
    };
    match next_call {
        Some(call) if asks(call) => Fate::Silent,
        Some(_) if answered() => Fate::Passed,
        _ if over => Fate::Loud,
        _ => Fate::Held,
    }
}

fn called(item: &Item) -> Option<&Call> {
    match &item.body {
        Body::Call(call) => Some(call),
        _ => None,
    }
}

/// Whether a call is itself a question to a person, whose card tells all of it.
fn asks(call: &Call) -> bool {
    matches!(call.verb, Verb::Ask | Verb::Plan)
}

/// Whether a call submits a plan, which is read like an answer.
pub(super) fn is_plan(call: &Call) -> bool {
    call.verb == Verb::Plan && matches!(call.subject(), Subject::Plan(_))
}
