//! Structured output: the tool with which the model gives the value that `--json-schema` describes.

use serde_json::{Value, json};

use crate::play::event::ToolOutcome;
use crate::play::session::PlayerSession;
use crate::play::session::conversation::PlayerAgent;

/// The name of the tool.
pub(crate) const STRUCTURED_OUTPUT: &str = "StructuredOutput";

/// How many values that do not match the schema end the turn.
const MOST_ATTEMPTS: u32 = 5;

const REMINDER: &str = "[structured-output-enforce] You MUST call the StructuredOutput tool to \
                        complete this request. Call this tool now.";

/// What the turn knows of the value.
#[derive(Clone, Debug, Default)]
pub(crate) struct StructuredOutput {
    /// The value that matches the schema.
    pub(crate) value: Option<Value>,
    /// Values that did not match.
    failures: u32,
    last_error: String,
    /// Whether the model was reminded of the tool, which happens once.
    is_reminded: bool,
}

impl StructuredOutput {
    /// The error that ends the turn, if the model has tried too often.
    pub(crate) fn exhausted(&self) -> Option<String> {
        (self.failures >= MOST_ATTEMPTS).then(|| {
            format!(
                "Failed to provide valid structured output after {} attempts — last \
                 StructuredOutput error: {}",
                self.failures, self.last_error
            )
        })
    }
}

impl PlayerSession {
    /// Runs a call of the tool.
    pub(crate) fn take_structured_output(&mut self, call: &str, value: &Value) {
        let errors = self.args.json_schema.as_ref().map(|it| it.errors(value)).unwrap_or_default();
        let outcome = if errors.is_empty() {
            let text = "Structured output provided successfully";
            if let Some(turn) = &mut self.turn {
                turn.structured_output.value = Some(value.clone());
            }
            ToolOutcome::plain(text, text.into())
        } else {
            let error = format!("Output does not match required schema: {}", errors.join(", "));
            if let Some(turn) = &mut self.turn {
                turn.structured_output.failures += 1;
                turn.structured_output.last_error.clone_from(&error);
            }
            ToolOutcome::failure(&error)
        };
        self.finish_call(call, outcome);
    }

    /// Reminds the model of the tool if its reply ends the turn without a value. Returns whether the
    /// turn goes on.
    pub(crate) fn remind_of_structured_output(&mut self) -> bool {
        let Some(turn) = self.turn.as_mut().filter(|_| self.args.json_schema.is_some()) else {
            return false;
        };
        let output = &mut turn.structured_output;
        if output.value.is_some() || std::mem::replace(&mut output.is_reminded, true) {
            return false;
        }
        self.ask_to_continue(&PlayerAgent::Main, REMINDER, json!({}));
        true
    }

    /// The definition of the tool for the model.
    pub(crate) fn structured_output_definition(&self) -> Option<Value> {
        let schema = self.args.json_schema.as_ref()?;
        Some(json!({
            "name": STRUCTURED_OUTPUT,
            "description": "Returns the final response in the requested format.",
            "input_schema": schema.value(),
        }))
    }
}
