//! Output of terminals that calls show.
//!
//! A terminal may print before a call refers to it. Version 1 has no messages for terminals; there some
//! agents attach the output to their calls, outside the protocol.

use serde::{Deserialize, Serialize};
use wire::acp::event::terminal_bytes;
use wire::json::{Raw, Text};

use super::calls::append_output;
use super::id_of;
use crate::fold::calls::call_mut;
use crate::fold::{Fold, Visibility, prefix};
use crate::item::ItemId;

/// How many terminals are remembered.
const MAX_TERMINALS: usize = 256;

/// How much output of a terminal is kept until a call refers to it.
const UNCLAIMED_BYTES: usize = 64 << 10;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::fold) struct TerminalState {
    /// The call that shows it.
    call: Option<ItemId>,
    /// The output, until there is a call.
    text: String,
    /// The beginning of a character that is not complete yet.
    incomplete: Vec<u8>,
    has_exited: bool,
}

impl TerminalState {
    /// The next output as text.
    fn decode(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.incomplete);
        all.extend_from_slice(bytes);
        let valid = match std::str::from_utf8(&all) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Ok(_) | Err(_) => all.len(),
        };
        self.incomplete = all.split_off(valid);
        String::from_utf8_lossy(&all).into_owned()
    }
}

impl Fold {
    fn terminal_mut(&mut self, id: String) -> &mut TerminalState {
        if self.acp.terminals.len() >= MAX_TERMINALS && !self.acp.terminals.contains_key(&id) {
            self.acp.terminals.pop_first();
        }
        self.acp.terminals.entry(id).or_default()
    }

    /// A call shows a terminal.
    pub(super) fn link_terminal(&mut self, terminal: String, call: &ItemId) {
        let state = self.terminal_mut(terminal);
        state.call = Some(call.clone());
        let text = std::mem::take(&mut state.text);
        self.call_printed(call, &text);
    }

    /// A terminal with all of its output, or with its end.
    pub(super) fn terminal_changed(
        &mut self,
        id: Text<'_>,
        output: Option<Raw<'_>>,
        exit_status: Option<Raw<'_>>,
    ) -> Visibility {
        let state = self.terminal_mut(id_of(id));
        let mut visibility = Visibility::Hidden;
        if let Some(output) = output {
            state.incomplete.clear();
            let text = String::from_utf8_lossy(&terminal_bytes(output)).into_owned();
            if let Some(call) = state.call.clone() {
                visibility = self.replace_output(&call, &text);
            } else {
                state.text = prefix(&text, UNCLAIMED_BYTES);
            }
        }
        if let Some(status) = exit_status {
            let code = status.get("exitCode").and_then(Raw::number);
            return self.terminal_exited(&id_of(id), code).max_visible(visibility);
        }
        visibility
    }

    pub(super) fn terminal_printed(&mut self, id: Text<'_>, data: Option<Raw<'_>>) -> Visibility {
        let Some(data) = data else { return Visibility::Hidden };
        let state = self.terminal_mut(id_of(id));
        let text = state.decode(&terminal_bytes(data));
        if let Some(call) = state.call.clone() {
            return self.call_printed(&call, &text);
        }
        let room = UNCLAIMED_BYTES.saturating_sub(state.text.len());
        state.text.push_str(&text[..text.floor_char_boundary(room)]);
        Visibility::Hidden
    }

    /// A terminal ended. That it failed is not in its output.
    fn terminal_exited(&mut self, id: &str, code: Option<f64>) -> Visibility {
        let Some(state) = self.acp.terminals.get_mut(id) else { return Visibility::Hidden };
        if std::mem::replace(&mut state.has_exited, true) {
            return Visibility::Hidden;
        }
        match (state.call.clone(), code) {
            (Some(call), Some(code)) if code != 0.0 => {
                self.call_printed(&call, &format!("\nExit code {code}"))
            }
            _ => Visibility::Hidden,
        }
    }

    fn call_printed(&mut self, call: &ItemId, text: &str) -> Visibility {
        if text.is_empty() {
            return Visibility::Hidden;
        }
        let seq = self.entry.seq;
        let changed = self.change(call, |item| {
            if let Some(call) = call_mut(item) {
                append_output(call, seq, text);
            }
        });
        changed.map_or(Visibility::Hidden, |()| Visibility::Visible)
    }

    fn replace_output(&mut self, call: &ItemId, text: &str) -> Visibility {
        let seq = self.entry.seq;
        let changed = self.change(call, |item| {
            let Some(call) = call_mut(item) else { return };
            if let Some(result) = &mut call.result {
                result.text.clear();
                result.omitted_bytes = 0;
            }
            append_output(call, seq, text);
        });
        changed.map_or(Visibility::Hidden, |()| Visibility::Visible)
    }

    /// Output that an agent attaches to a call.
    pub(super) fn terminal_meta(&mut self, call: &ItemId, meta: Raw<'_>) {
        for key in ["terminal_output", "terminal_output_delta"] {
            let data = meta.get(key).and_then(|it| it.get("data")?.text());
            if let Some(data) = data {
                self.call_printed(call, &data.decode());
            }
        }
        let Some(exit) = meta.get("terminal_exit") else { return };
        let id = exit.get("terminal_id").and_then(Raw::text).map(id_of).unwrap_or_default();
        self.terminal_exited(&id, exit.get("exit_code").and_then(Raw::number));
    }
}

impl Visibility {
    /// Visible if either is.
    fn max_visible(self, other: Self) -> Self {
        if self == Self::Visible { self } else { other }
    }
}
