//! Requests: the agent waits for a person.

use serde::{Deserialize, Serialize};
use wire::consent::{self, Disclosure, Rule};
use wire::note::Wants;

use crate::call::{Call, CallState};
use crate::item::ItemId;
use crate::subject::Verb;

/// The agent waits for a person. Shown where its call stands and again above the composer, which
/// is why all a card needs is here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The agent's id of it.
    pub id: String,
    /// The call it is about, where the conversation has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemId>,
    /// What sort of answer it wants.
    pub wants: Wants,
    /// The tool.
    pub tool: String,
    /// What the tool does, in a word.
    pub verb: Verb,
    /// What it would do it to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// What the tool would be given, as JSON.
    pub input: String,
    /// What the call is for, in the model's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Why the agent's program asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The path that made it ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_path: Option<String>,
    /// Rules that would spare the question next time, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<String>,
    /// Since when it waits, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// When it will be refused for want of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// The rules that *Always* offers, the narrowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

impl Request {
    /// What a client must show in full before *Allow* can be pressed.
    pub fn disclosures(&self) -> Vec<Disclosure> {
        consent::disclosures(&self.tool, &self.input)
    }

    /// The call it is about, as far as the request tells.
    pub fn call(&self) -> Call {
        Call {
            tool: self.tool.clone(),
            verb: self.verb,
            target: self.target.clone(),
            input: self.input.clone(),
            state: CallState::Waiting,
            began: None,
            ended: None,
            progress: None,
            outcome: None,
            permission: None,
            agent: None,
        }
    }
}
