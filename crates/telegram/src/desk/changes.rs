//! The changes of a turn, as a file that any program shows in colours.

use std::fmt::Write as _;

use journal::SessionId;
use view::diff::Diff;
use view::{Body, CallState, Conversation, Subject};

use super::errand::{Came, Means};
use super::following::folded;
use crate::call::Call;
use crate::place::Place;
use crate::replies;

/// The changes of a turn; of the last that changed something where none is named.
pub(super) async fn of(
    means: &Means,
    place: Place,
    shown: Option<SessionId>,
    turn: Option<u64>,
) -> Came {
    let Some(shown) = shown else { return Came::saying(replies::no_session()) };
    let document = match folded(means.sessions.journal(), shown).await {
        Ok(document) => document,
        Err(error) => return Came::saying(replies::not_opened(&error.into())),
    };
    let changed = document.turns.iter().rev().find(|it| !it.files.is_empty());
    let turn = turn.or_else(|| changed.map(|it| it.number));
    match turn.map(|turn| (turn, written(&document, turn))) {
        Some((turn, text)) if !text.is_empty() => {
            let name = format!("turn-{turn}.diff");
            Came {
                sends: vec![Call::SendText { place, name, text, loud: false }],
                ..Came::default()
            }
        }
        _ => Came::saying(replies::no_changes()),
    }
}

fn written(document: &Conversation, turn: u64) -> String {
    let mut out = String::new();
    for item in document.items.iter().filter(|it| it.turn == turn) {
        let Body::Call(call) = &item.body else { continue };
        if call.state != CallState::Done {
            continue;
        }
        let Some(diff) = Diff::of(call).filter(|it| !it.is_empty()) else {
            if let Subject::Write { path, content } = call.subject() {
                let _ = writeln!(out, "--- /dev/null\n+++ {path}\n@@ line 1 @@");
                for line in content.lines() {
                    let _ = writeln!(out, "+{line}");
                }
            }
            continue;
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "--- {0}\n+++ {0}", call.target);
        for hunk in &diff.hunks {
            let number = hunk.lines.iter().find_map(|it| it.number).unwrap_or(1);
            let _ = writeln!(out, "@@ line {number} @@");
            for line in &hunk.lines {
                let _ = writeln!(out, "{}{}", line.change.sign(), line.text());
            }
        }
    }
    out
}
