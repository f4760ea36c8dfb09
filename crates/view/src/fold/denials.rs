//! Calls that were denied: live, in the `result` of their turn, or known from that alone.

use wire::event::TurnEnded;
use wire::json::Raw;
use wire::note::{self, RequestKind};

use super::Fold;
use super::calls::call_mut;
use crate::call::{Call, CallPermission, CallState};
use crate::item::{Item, ItemBody, ItemId, NoticeItem, NoticeLevel};
use crate::tool::{self, ToolAction};
use crate::wording;

/// How many denied calls are shown of a turn of which only the result was recorded.
const MAX_SHOWN_DENIALS: usize = 100;

impl Fold {
    /// Marks a call as denied; `false` if there is no such call.
    pub(super) fn call_denied(&mut self, id: &ItemId, message: Option<String>) -> bool {
        let before = self.change(id, |item| {
            let call = call_mut(item)?;
            let permission =
                call.permission.get_or_insert(CallPermission::new(None, RequestKind::Permission));
            permission.outcome.get_or_insert(note::Outcome::Denied);
            if message.is_some() {
                permission.message = message;
            }
            let before = call.state;
            call.state = match (before, permission.outcome) {
                // A question that a person allowed without an answer is listed too.
                (
                    CallState::Done,
                    Some(note::Outcome::Allowed | note::Outcome::AllowedAndRemembered),
                ) => CallState::Done,
                // The CLI counts a question that an interrupt cancelled as denied.
                (_, Some(note::Outcome::Withdrawn)) => CallState::Unanswered,
                _ => CallState::Denied,
            };
            Some((before, call.state))
        });
        if let Some(Some((CallState::Done, CallState::Denied))) = before {
            // Its result does not say that it failed, but it changed nothing.
            self.take_back_file_edit(id);
        }
        before.is_some()
    }

    /// Shows the denied calls of a turn of which only the result was recorded.
    pub(super) fn show_denials(&mut self, ended: &TurnEnded<'_>, turn: u64) {
        let mut hidden = 0;
        for (index, denial) in ended.denials().enumerate() {
            if index >= MAX_SHOWN_DENIALS {
                hidden += 1;
                continue;
            }
            let position = self.next_position();
            let id = match denial.tool_use_id {
                Some(id) => ItemId::call(&id.decode()),
                None => ItemId::line(position),
            };
            if self.items.has(&id) {
                continue;
            }
            let tool = denial.tool_name.map(|it| it.decode().into_owned()).unwrap_or_default();
            let call = Call {
                target: denial.tool_input.map(tool::target).unwrap_or_default(),
                input: denial.tool_input.map_or("{}", Raw::as_str).to_owned(),
                started: self.entry.at,
                ..Call::new(tool)
            };
            self.add_item(id.clone(), turn, None, position, ItemBody::Call(Box::new(call)));
            self.call_denied(&id, None);
        }
        if hidden > 0 {
            let text = format!("{} more calls were denied", wording::grouped(hidden));
            self.add_line_item(ItemBody::Notice(NoticeItem { level: NoticeLevel::Warning, text }));
        }
    }

    /// Undoes the count of a file that turned out not to be changed.
    fn take_back_file_edit(&mut self, id: &ItemId) {
        let Some(Item { turn, body: ItemBody::Call(call), .. }) = self.items.get(id) else {
            return;
        };
        if !matches!(call.action, ToolAction::Write | ToolAction::Edit) {
            return;
        }
        if let Some(path) = edited_path(call) {
            self.uncount_file_edit(*turn, &path);
        }
    }
}

/// The file that a call changes.
pub(super) fn edited_path(call: &Call) -> Option<String> {
    let input = Raw::parse(&call.input)?;
    let path = input.get("file_path").or(input.get("notebook_path"))?;
    Some(path.text()?.decode().into_owned())
}
