//! How much memory an item takes, and how it is made to take less.

use crate::call::SubAgentState;
use crate::item::{Body, Item};

/// What an item weighs beside its texts, with its entries in the indexes: an estimate, and rather
/// too much than too little.
const ITEM_WEIGHT: usize = 640;

/// A text that is longer than this goes when its item is lightened.
const LONG: usize = 256;

/// Whether nothing is expected to happen to it any more.
pub(super) fn is_finished(item: &Item) -> bool {
    let waits = match &item.body {
        Body::Call(call) => {
            call.state.is_open()
                || call.agent.as_ref().is_some_and(|it| it.state == SubAgentState::Running)
        }
        Body::Prompt(prompt) => !prompt.state.is_final(),
        _ => false,
    };
    !item.open && !waits
}

/// What an item weighs, in bytes of memory.
pub(super) fn weight(item: &Item) -> usize {
    ITEM_WEIGHT + texts(item)
}

/// The bytes of an item's texts, with something for the fields of a call.
pub(super) fn texts(item: &Item) -> usize {
    match &item.body {
        Body::Prompt(prompt) => prompt.text.len(),
        Body::Text { text } | Body::Thinking { text, .. } | Body::Failure { text, .. } => {
            text.len()
        }
        Body::Call(call) => {
            let outcome = call
                .outcome
                .as_ref()
                .map_or(0, |it| it.text.len() + it.hunks.as_ref().map_or(0, String::len));
            512 + call.input.len() + call.target.len() + outcome
        }
        Body::Hook(hook) => hook.output.len(),
        Body::Compaction(compaction) => compaction.summary.len(),
        Body::Notice(notice) => notice.text.len(),
        Body::Raw(raw) => raw.text.len(),
        Body::Retry(_) | Body::Interruption | Body::Agent(_) | Body::Reset | Body::Media { .. } => {
            0
        }
    }
}

/// Takes the long texts from an item; what is left tells what it was.
pub(super) fn lighten(item: &mut Item) {
    let mut shed = false;
    let mut cut = |text: &mut String| {
        if text.len() > LONG {
            *text = String::new();
            shed = true;
        }
    };
    match &mut item.body {
        Body::Prompt(prompt) => cut(&mut prompt.text),
        Body::Text { text } | Body::Thinking { text, .. } | Body::Failure { text, .. } => cut(text),
        Body::Call(call) => {
            cut(&mut call.input);
            if let Some(outcome) = &mut call.outcome {
                cut(&mut outcome.text);
                if let Some(hunks) = &mut outcome.hunks {
                    cut(hunks);
                }
            }
        }
        Body::Hook(hook) => cut(&mut hook.output),
        Body::Compaction(compaction) => cut(&mut compaction.summary),
        Body::Notice(notice) => cut(&mut notice.text),
        Body::Raw(raw) => cut(&mut raw.text),
        Body::Retry(_) | Body::Interruption | Body::Agent(_) | Body::Reset | Body::Media { .. } => {
        }
    }
    item.shed |= shed;
}
