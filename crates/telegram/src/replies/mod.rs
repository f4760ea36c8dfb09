//! What is said to people in reply to commands, and when something could not be done.
//!
//! Pure. Short, plain words; what goes wrong is said with what to do about it. Everything is a
//! [`Said`]; where only words fit, as in the answer to a tap, [`Said::words`] has them without marks.

mod choices;
mod data;
mod help;
mod queue;
mod sessions;
mod status;
mod tapped;
#[cfg(test)]
mod tests;
mod trouble;
mod wording;

pub use choices::{
    Model, mode_set, model_set, models, models_offered, modes, named_mode, no_such_mode, verbosity,
    verbosity_set,
};
pub use data::meaning;
pub use help::{commands, help, unknown};
pub use queue::{queue, queued, reworded, too_late_to_reword, unqueued};
pub use sessions::{ambiguous, begun, no_such_session, not_a_root, resumed, sessions};
pub use status::{cost, status};
pub use tapped::{answered, deleted, fell_over, too_old};
pub use trouble::{left, no_session, not_done, not_fetched, not_opened, not_sent, outcome};
pub use wording::{already_empty, compacting, no_changes, nothing_to_stop, stopping};

use view::telegram::{Mark, Text};

use crate::call::Buttons;

/// A reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// What it says.
    pub text: Text,
    /// What is under it.
    pub buttons: Buttons,
}

impl Said {
    /// Its words alone.
    pub fn words(&self) -> &str {
        self.text.words()
    }
}

impl From<&str> for Said {
    fn from(words: &str) -> Self {
        Self::from(Text::plain(words))
    }
}

impl From<String> for Said {
    fn from(words: String) -> Self {
        Self::from(Text::plain(&words))
    }
}

impl From<Text> for Said {
    fn from(text: Text) -> Self {
        Self { text, buttons: Buttons::new() }
    }
}

/// Words of which those between backticks are code.
fn marked(words: &str) -> Text {
    let mut text = Text::default();
    for (index, piece) in words.split('`').enumerate() {
        if index % 2 == 0 {
            text.push(piece);
        } else {
            text.push_marked(Mark::Code, piece);
        }
    }
    text
}

/// The beginning of some words, in one line.
fn cut(words: &str, most: usize) -> String {
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}
