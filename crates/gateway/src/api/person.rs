//! Who did something, as it is sent.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wire::note::Actor;

/// Who did something, and from where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Person {
    /// A name a person would know.
    pub name: String,
    /// The way it came: `terminal`, `browser`, `telegram`, `api`, `rule`.
    pub via: String,
}

impl From<Actor> for Person {
    fn from(Actor { name, via }: Actor) -> Self {
        Self { name, via }
    }
}
