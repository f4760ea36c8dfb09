//! Requests in notes: which answer they need, and their outcome.

use serde::{Deserialize, Serialize};

use crate::json::{Raw, Shape};

/// The kind of answer a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// Permission to use a tool.
    Permission,
    /// Answers to the questions of `AskUserQuestion`.
    #[serde(alias = "answers")]
    Question,
    /// Approval of the plan of `ExitPlanMode`.
    #[serde(alias = "plan_approval")]
    Plan,
    /// Something that this version does not know. It can only be denied.
    Unknown,
}

impl RequestKind {
    /// The kind of a `can_use_tool` request. A question or a plan in an unexpected shape is an ordinary
    /// permission request, for which the input is shown as it is.
    pub fn of(tool: &str, input: Option<Raw<'_>>) -> Self {
        match (tool, input) {
            ("AskUserQuestion", Some(input)) if has_questions(input) => Self::Question,
            ("ExitPlanMode" | "exit_plan_mode", input) if may_have_plan(input) => Self::Plan,
            _ => Self::Permission,
        }
    }
}

fn has_questions(input: Raw<'_>) -> bool {
    let has_text = |object: Raw<'_>, key| object.get(key).and_then(Raw::text).is_some();
    let is_question = |question: Raw<'_>| {
        let options = question.get("options").filter(|it| it.shape() != Shape::Null);
        has_text(question, "question")
            && options.is_none_or(|options| {
                options.shape() == Shape::Array
                    && options.items().all(|option| has_text(option, "label"))
            })
    };
    let Some(questions) = input.get("questions") else { return false };
    questions.items().next().is_some() && questions.items().all(is_question)
}

/// 2.1.325 leaves the plan out if the agent has written no plan file.
fn may_have_plan(input: Option<Raw<'_>>) -> bool {
    let Some(input) = input else { return true };
    let plan = input.get("plan").map(Raw::shape);
    input.shape() == Shape::Object && matches!(plan, None | Some(Shape::String | Shape::Null))
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Allowed,
    /// Allowed, and a rule was remembered for such calls.
    AllowedAndRemembered,
    Denied,
    /// Denied because no answer came in time.
    Expired,
    /// The agent withdrew it, or is gone.
    Withdrawn,
}
