//! Prompts that were put together lately.
//!
//! Telegram tells that a message was edited and not what it said before, and it also tells so when
//! nothing changed that anybody sees. A prompt of several messages can be reworded only as long as
//! the others are known.

use std::collections::VecDeque;

use super::part::{Part, joined};
use crate::deed::quoted;

/// How many are remembered.
const MOST: usize = 64;

/// Prompts that were put together lately, by their parts.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<Vec<Part>>);

/// What an edit means for a prompt.
#[derive(Debug, PartialEq)]
pub(super) enum Edit {
    /// Nothing.
    Nothing,
    /// All its words from here on.
    Whole(String),
    /// The words of this part; what the others are, or whether there are any, is not known.
    Part(String),
}

impl Recent {
    pub(super) fn remember(&mut self, parts: Vec<Part>) {
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(parts);
    }

    /// Takes the edited form of a message.
    pub(super) fn edit(&mut self, part: Part) -> Edit {
        let same = |it: &Part| it.chat == part.chat && it.message == part.message;
        let Some(parts) = self.0.iter_mut().find(|parts| parts.iter().any(same)) else {
            return Edit::Part(whole(&[part]));
        };
        let before = whole(parts);
        if let Some(old) = parts.iter_mut().find(|it| same(it)) {
            old.text = part.text;
        }
        let after = whole(parts);
        if before == after { Edit::Nothing } else { Edit::Whole(after) }
    }
}

fn whole(parts: &[Part]) -> String {
    quoted(parts.first().and_then(Part::quote), &joined(parts))
}
