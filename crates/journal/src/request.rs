//! What an agent asked a person, and what came of it.

use wire::note::{Actor, Outcome, Wants};

/// A request to a person as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// The agent's id of it.
    pub id: String,
    /// What sort of answer it wants.
    pub wants: Wants,
    /// The tool it is about.
    pub tool_name: String,
    /// The call it is about.
    pub tool_use_id: Option<String>,
    /// What the tool would be given, as JSON that nothing here looks into.
    pub input: String,
    /// What the agent would have remembered, as JSON.
    pub suggestions: Option<String>,
    /// The sub-agent that asks; the main agent where none is named.
    pub agent: Option<String>,
    /// When it was asked, in milliseconds since 1970.
    pub opened: u64,
    /// When it will be refused for want of an answer.
    pub expires: Option<u64>,
    /// What came of it; it is open where nothing did.
    pub resolution: Option<Resolution>,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The answer, or why there is none.
    pub outcome: Outcome,
    /// Who gave it.
    pub by: Option<Actor>,
    /// What was said with it.
    pub message: Option<String>,
    /// When, in milliseconds since 1970.
    pub at: u64,
}
