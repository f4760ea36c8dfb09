//! Items that are a line beside the conversation: what happened to it, not what was said in it.

use crate::item::{AgentNews, Body, Level, RawReason};
use crate::phrase;

/// A line beside the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// How much it matters.
    pub level: Level,
    /// The line.
    pub text: String,
    /// What there is to read for who wants to know more.
    pub more: String,
}

impl Remark {
    /// The remark an item is; nothing for prompts, words, thoughts and calls.
    pub fn of(body: &Body) -> Option<Self> {
        let line = |level, text: String| Self { level, text, more: String::new() };
        Some(match body {
            Body::Prompt(_) | Body::Text { .. } | Body::Thinking { .. } | Body::Call(_) => {
                return None;
            }
            Body::Hook(hook) => {
                let failed = hook.outcome.as_deref().is_some_and(|outcome| outcome != "success");
                let state = match (&hook.outcome, hook.exit_code) {
                    (None, _) => "runs".to_owned(),
                    (Some(outcome), Some(code)) if failed => format!("{outcome}, code {code}"),
                    (Some(outcome), _) => outcome.clone(),
                };
                let name = if hook.name.is_empty() { &hook.event } else { &hook.name };
                let level = if failed { Level::Warning } else { Level::Info };
                Self { more: hook.output.clone(), ..line(level, format!("Hook {name}: {state}")) }
            }
            Body::Compaction(compaction) => {
                let numbers = match (compaction.before, compaction.after) {
                    (Some(before), Some(after)) => {
                        format!(": {} → {} tokens", phrase::count(before), phrase::count(after))
                    }
                    (Some(before), None) => format!(": {} tokens before", phrase::count(before)),
                    _ => String::new(),
                };
                let text = format!("The history was summarised{numbers}");
                Self { more: compaction.summary.clone(), ..line(Level::Info, text) }
            }
            Body::Retry(retry) => {
                let status = retry.status.map(|it| format!(" with {it}")).unwrap_or_default();
                let error = &retry.error;
                let error = if error.is_empty() { String::new() } else { format!(" ({error})") };
                let attempt = match (retry.attempt, retry.of) {
                    (Some(attempt), Some(of)) => format!(", attempt {attempt} of {of}"),
                    (Some(attempt), None) => format!(", attempt {attempt}"),
                    _ => String::new(),
                };
                line(Level::Warning, format!("The API failed{status}{error}{attempt}"))
            }
            Body::Failure { name, text } => {
                let name = name.as_deref().map(|name| format!("{name}: ")).unwrap_or_default();
                line(Level::Error, format!("{name}{text}"))
            }
            Body::Interruption => line(Level::Warning, "Interrupted".to_owned()),
            Body::Notice(notice) => line(notice.level, notice.text.clone()),
            Body::Agent(AgentNews::Started { resumed: false }) => {
                line(Level::Info, "The agent was started".to_owned())
            }
            Body::Agent(AgentNews::Started { resumed: true }) => {
                line(Level::Info, "The agent took up the conversation again".to_owned())
            }
            Body::Agent(AgentNews::Gone { cause }) => {
                let text = phrase::cause(cause);
                let level = match cause {
                    wire::note::Cause::Parked | wire::note::Cause::Closed => Level::Info,
                    _ => Level::Error,
                };
                line(level, text)
            }
            Body::Reset => line(Level::Info, "The conversation was begun anew".to_owned()),
            Body::Media { name } => line(Level::Info, format!("[{name}]")),
            Body::Raw(raw) => {
                let text = match &raw.reason {
                    RawReason::Unknown => format!("Unknown event {}", raw.name),
                    RawReason::Mismatch { reason } => {
                        format!("Event {} in an unexpected shape: {reason}", raw.name)
                    }
                    RawReason::Noise => "Not an event".to_owned(),
                };
                let level = match raw.reason {
                    RawReason::Mismatch { .. } => Level::Warning,
                    RawReason::Unknown | RawReason::Noise => Level::Info,
                };
                Self { more: raw.text.clone(), ..line(level, text) }
            }
        })
    }

    /// Whether it tells only of the machinery, and is shown only to who asks for everything.
    pub fn is_housekeeping(body: &Body) -> bool {
        match body {
            Body::Agent(AgentNews::Started { .. }) => true,
            Body::Hook(hook) => {
                hook.outcome.as_deref() == Some("success") && hook.output.is_empty()
            }
            _ => false,
        }
    }
}
