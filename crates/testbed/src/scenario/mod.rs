//! Conversations with an agent, written down: what `docs/scenarios.md` describes, in types.
//!
//! A scenario is data. The API reads [`Reply`]s from it and knows nothing of steps; the runner reads
//! [`Run`]s and knows nothing of HTTP.

mod names;
mod parse;
mod pattern;
mod reply;
mod step;
mod version;

pub use names::Names;
pub use parse::LoadError;
pub use pattern::{Mismatch, holds_words, match_value, matches_text};
pub use reply::{Block, Fault, Hold, Reply, Trouble};
pub use step::{Expectation, Item, Order, Run, Signal, Start, Step, Target};
pub use version::{Range, Version};

/// One conversation.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file's name without its ending.
    pub name: String,
    /// What it shows, in a sentence.
    pub title: String,
    /// More about it.
    pub about: String,
    /// Versions it is meant for.
    pub versions: Range,
    /// What must be there before the agent starts.
    pub start: Start,
    /// What the model answers, in the order of the requests.
    pub replies: Vec<Item<Reply>>,
    /// The agent's runs, one process each, in order.
    pub runs: Vec<Item<Run>>,
}
