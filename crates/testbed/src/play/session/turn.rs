//! A turn: from prompts to a result.

use std::time::SystemTime;

use serde_json::Value;

use crate::play::queue::Prompt;
use crate::play::tally::Tokens;

/// What is being answered, and what was counted while doing so.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) folded: Vec<Prompt>,
    pub(crate) stage: TurnStage,
    pub(crate) began: SystemTime,
    pub(crate) origin: Option<Value>,
    /// Lines of the user's side, which `num_turns` counts.
    pub(crate) user_lines: u32,
    /// Replies that asked for tools.
    pub(crate) rounds: u32,
    pub(crate) denials: Vec<Value>,
    pub(crate) tokens: Tokens,
    pub(crate) first_tokens: Option<Tokens>,
    pub(crate) first_request: Option<SystemTime>,
    pub(crate) first_event: Option<SystemTime>,
    pub(crate) first_answer: Option<SystemTime>,
    pub(crate) api_millis: u64,
    pub(crate) stop_reason: Option<String>,
    pub(crate) text: String,
    /// Whether the first line of the answer named the prompts.
    pub(crate) named: bool,
    /// Context that hooks gave.
    pub(crate) context: Vec<String>,
    /// Why a hook keeps the prompt from the model.
    pub(crate) blocked: Option<String>,
    /// Whether a hook already kept the turn from stopping.
    pub(crate) held: bool,
    /// The id that hooks know the prompt by.
    pub(crate) prompt_id: String,
    /// How often a classifier stopped the model.
    pub(crate) safety_stops: u32,
}

/// Where a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnStage {
    /// Hooks look at the prompt.
    Submitting,
    /// The model is asked.
    Talking,
    /// Hooks look at the end.
    Stopping,
}

impl Turn {
    /// A turn about some prompts.
    pub(crate) fn new(prompts: Vec<Prompt>, began: SystemTime, prompt_id: String) -> Self {
        let origin = prompts.first().and_then(|prompt| prompt.origin.clone());
        Self {
            prompts,
            folded: Vec::new(),
            stage: TurnStage::Submitting,
            began,
            origin,
            user_lines: 0,
            rounds: 0,
            denials: Vec::new(),
            tokens: Tokens::default(),
            first_tokens: None,
            first_request: None,
            first_event: None,
            first_answer: None,
            api_millis: 0,
            stop_reason: None,
            text: String::new(),
            named: false,
            context: Vec::new(),
            blocked: None,
            held: false,
            prompt_id,
            safety_stops: 0,
        }
    }

    /// Ids of the prompts it answers, as far as a host gave them.
    pub(crate) fn uuids(&self) -> Vec<String> {
        let prompts = self.prompts.iter().chain(&self.folded);
        prompts.filter(|prompt| prompt.stamped).map(|prompt| prompt.uuid.clone()).collect()
    }

    /// The id of the prompt that it answers above all.
    pub(crate) fn uuid(&self) -> Option<String> {
        let mut prompts = self.prompts.iter().rev();
        prompts.find(|prompt| prompt.stamped).map(|prompt| prompt.uuid.clone())
    }
}
