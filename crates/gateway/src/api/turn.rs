//! Turns of a conversation, as they are sent.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use view::Turn;
use view::html::{Look, turn_end};

/// A turn, and the line that ends it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ShownTurn {
    /// The turn.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub turn: Turn,
    /// The line that ends it; empty while it runs.
    pub html: String,
}

impl ShownTurn {
    pub(crate) fn new(turn: Turn, look: Look<'_>) -> Self {
        let mut html = String::new();
        turn_end(&turn, look, &mut html);
        Self { turn, html }
    }
}
