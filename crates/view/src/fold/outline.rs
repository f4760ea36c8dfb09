//! The prompts of a whole session, for finding one's way in it.

use serde::{Deserialize, Serialize};

use super::Fold;
use crate::item::{Item, ItemBody, Position, PromptAuthor};

/// How many prompts are remembered after their items were evicted, the newest ones.
const MAX_REMEMBERED: usize = 10_000;

/// How much of a prompt is shown, in characters.
const MAX_TEXT: usize = 160;

/// A prompt of a session, as a line of its outline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutlinePrompt {
    pub position: Position,
    pub turn: u64,
    /// In milliseconds since 1970, if known.
    pub at: Option<u64>,
    /// Where its text begins.
    pub text: String,
}

impl OutlinePrompt {
    /// The line of an item, if it is a prompt of a person to the main agent.
    fn of(item: &Item) -> Option<Self> {
        let ItemBody::Prompt(prompt) = &item.body else { return None };
        if prompt.author != PromptAuthor::User || item.parent.is_some() {
            return None;
        }
        let words = prompt.text.chars().take(4 * MAX_TEXT).collect::<String>();
        let words: Vec<_> = words.split_whitespace().collect();
        let mut text: String = words.join(" ").chars().take(MAX_TEXT).collect();
        if text.is_empty() && prompt.images > 0 {
            text = if prompt.images == 1 {
                "1 image".into()
            } else {
                format!("{} images", prompt.images)
            };
        }
        let Item { position, turn, at, .. } = *item;
        Some(Self { position, turn, at, text })
    }
}

/// Prompts whose items the fold no longer has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct EvictedPrompts(std::collections::VecDeque<OutlinePrompt>);

impl EvictedPrompts {
    /// The memory that they take, about.
    pub(super) fn bytes(&self) -> usize {
        self.0.len() * (size_of::<OutlinePrompt>() + MAX_TEXT)
    }

    pub(super) fn add(&mut self, item: &Item) {
        let Some(prompt) = OutlinePrompt::of(item) else { return };
        self.0.push_back(prompt);
        if self.0.len() > MAX_REMEMBERED {
            self.0.pop_front();
        }
    }
}

impl Fold {
    /// All prompts of people to the main agent, in order; of a very long session the newest ones.
    pub fn outline(&self) -> Vec<OutlinePrompt> {
        let evicted = self.evicted_prompts.0.iter().cloned();
        let mut all: Vec<_> =
            evicted.chain(self.items.iter().filter_map(OutlinePrompt::of)).collect();
        all.sort_by_key(|prompt| prompt.position);
        all.dedup_by_key(|prompt| prompt.position);
        all
    }
}
