//! A tool call on its way from the model's words to its result.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::talk::Speaker;
use crate::play::input::{Marked, Outcome};

/// A tool call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) input: Value,
    pub(crate) speaker: Speaker,
    pub(crate) stage: Stage,
    /// How it was decided, for the line of its result.
    pub(crate) meta: Option<Value>,
    /// A hook's word on it.
    pub(crate) verdict: Option<HookVerdict>,
    /// Its result as the model gets it.
    pub(crate) result: Option<Value>,
    /// What came of it, while hooks look at it.
    pub(crate) outcome: Option<Outcome>,
    /// What hooks want said beside its result.
    pub(crate) remarks: Vec<String>,
    /// When it began to run.
    pub(crate) began: Option<SystemTime>,
}

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Behind another call that must end first.
    Waiting,
    /// What it would touch is looked at.
    Inspecting,
    /// Hooks are asked about it.
    Hooked,
    /// Somebody is asked about it.
    Asked,
    /// It runs.
    Running,
    /// Hooks are told about it.
    Told,
    /// It has its result.
    Done,
}

/// What a hook says about a call before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookVerdict {
    Allow,
    Deny(String),
    Ask,
}

impl Call {
    /// Reads a `tool_use` block.
    pub(crate) fn read(block: &Value, speaker: Speaker) -> Self {
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        let tool = match text("name").as_str() {
            "Agent" => "Task".to_owned(),
            name => name.to_owned(),
        };
        Self {
            id: text("id"),
            tool,
            input: block["input"].clone(),
            speaker,
            stage: Stage::Waiting,
            meta: None,
            verdict: None,
            result: None,
            outcome: None,
            remarks: Vec::new(),
            began: None,
        }
    }

    /// Whether it has its result.
    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Whether it may run beside others like it.
    pub(crate) fn is_harmless(&self) -> bool {
        matches!(
            self.tool.as_str(),
            "Read" | "Glob" | "Grep" | "Task" | "WebFetch" | "WebSearch" | "ListAgents"
        )
    }

    /// The `tool_result` block of an outcome; marks and order as 2.1.325 writes them.
    pub(crate) fn block(&self, outcome: &Outcome) -> Value {
        let (id, content) = (&self.id, &outcome.content);
        match outcome.marked {
            Marked::Not => json!({ "tool_use_id": id, "type": "tool_result", "content": content }),
            Marked::Success => {
                json!({ "tool_use_id": id, "type": "tool_result", "content": content, "is_error": false })
            }
            Marked::Error => {
                json!({ "type": "tool_result", "content": content, "is_error": true, "tool_use_id": id })
            }
        }
    }
}
