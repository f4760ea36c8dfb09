//! How turns end, as the agent's `result` tells.

use wire::event::{Ending, TurnEnded};
use wire::json::{Raw, Shape, Text};
use wire::note::TurnEnding;

use super::turns::Deeds;
use super::{Fold, Heard};
use crate::item::{Body, ItemId};
use crate::turn::TurnEnd;

impl Fold {
    /// `result`.
    pub(super) fn ended(&mut self, ended: &TurnEnded<'_>) -> Heard {
        let number = self.working_turn();
        let record = self.turns.record(number);
        let how = ending(ended, record.is_some_and(|it| it.interrupted));
        if record.is_some_and(|it| it.deeds < Deeds::Spoke) {
            self.show_last_words(ended, number, &how);
        }
        self.spend(number, ended);
        let (at, began) = (self.now.at, self.turns.record(number).and_then(|it| it.turn.began));
        let end = TurnEnd {
            how: Some(how),
            reason: ended
                .terminal_reason
                .or(match ended.ending {
                    Some(Ending::Error(name) | Ending::Other(name)) => Some(name),
                    _ => None,
                })
                .map(|reason| reason.decode().into_owned()),
            at,
            duration_ms: ended.duration_ms.or_else(|| Some(at?.saturating_sub(began?))),
        };
        self.change_turn(number, |record| {
            record.turn.origin = ended.origin.map(|it| it.decode().into_owned());
        });
        for denial in ended.denials().filter_map(|denial| denial.tool_use_id) {
            self.denied(&ItemId::call(&denial.decode()), None);
        }
        if self.turns.noted {
            // The note that follows ends the turn; this is what the agent says of it.
            self.change_turn(number, |record| record.turn.end = Some(end));
        } else {
            self.close_turn(Some(end));
        }
        Heard::Shown
    }

    /// A slash command, or a recording of the result alone, says its words only here.
    pub(super) fn show_last_words(&mut self, ended: &TurnEnded<'_>, number: u64, how: &TurnEnding) {
        let words = ended.result.map(Text::decode).unwrap_or_default();
        if words.trim().is_empty() {
            return;
        }
        let text = words.into_owned();
        let body = match how {
            TurnEnding::Failed { .. } => Body::Failure { name: None, text },
            _ => Body::Text { text },
        };
        let place = self.next_place();
        self.put_at(ItemId::line(place), number, None, place, body);
    }
}

/// How a turn ended, as its `result` tells.
fn ending(ended: &TurnEnded<'_>, interrupted: bool) -> TurnEnding {
    let reason = ended.terminal_reason.map(Text::decode);
    let aborted = reason.as_deref().is_some_and(|reason| reason.starts_with("aborted"));
    if aborted || (interrupted && ended.failed()) {
        return TurnEnding::Interrupted;
    }
    if !ended.failed() {
        return TurnEnding::Completed;
    }
    let words = ended.result.map(|it| it.decode().into_owned()).filter(|it| !it.is_empty());
    let message = words.or_else(|| first_error(ended.errors?)).or_else(|| match ended.ending {
        Some(Ending::Error(name) | Ending::Other(name)) => Some(name.decode().into_owned()),
        _ => None,
    });
    TurnEnding::Failed { message: message.unwrap_or_default() }
}

fn first_error(errors: Raw<'_>) -> Option<String> {
    let first = errors.items().next()?;
    Some(match first.shape() {
        Shape::String => first.text()?.decode().into_owned(),
        _ => first.get("message").and_then(Raw::text)?.decode().into_owned(),
    })
}
