//! What the agent says about a session, in one vocabulary for all versions of the protocol.

use serde::{Deserialize, Serialize};

use crate::json::Raw;
use crate::note::Actor;
use crate::outgoing::JsonObject;

/// A change of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum AcpUpdate {
    /// A whole message of a user.
    UserMessage {
        id: String,
        text: String,
        /// Who sent it, if it was someone else or is not known to the client.
        by: Option<Actor>,
    },
    /// Text to be added to a message or thought of the agent.
    Chunk {
        author: Speaker,
        id: String,
        text: String,
        /// The call whose sub-agent says it.
        parent: Option<String>,
    },
    /// The whole text of a message or thought, in place of what was sent before. Version 1 cannot
    /// replace anything, so it is a message of its own there.
    Replaced {
        author: Speaker,
        id: String,
        text: String,
        parent: Option<String>,
    },
    ToolCall(Box<ToolCallUpdate>),
    /// The whole to-do list.
    Plan(Vec<PlanStep>),
    Commands(Vec<OfferedCommand>),
    /// All configuration options. Old clients get the mode separately.
    Options(Vec<ConfigOption>),
    Info {
        title: Option<String>,
        /// In RFC 3339.
        updated_at: Option<String>,
    },
    Usage {
        /// Tokens in the context.
        used: u64,
        /// The size of the context.
        size: u64,
        /// In dollars, for the whole session.
        cost: Option<f64>,
    },
    Notice {
        severity: NoticeSeverity,
        title: String,
        description: Option<String>,
    },
    /// The conversation was summarised.
    Compaction {
        id: String,
        summary: Option<String>,
    },
    /// A sub-agent works in a session of its own.
    SubAgent {
        /// The session of the sub-agent.
        session: String,
        title: Option<String>,
        description: Option<String>,
        activity: SessionActivity,
    },
    /// Only version 2 has it; in version 1 the answer to a prompt says that it is over.
    Activity(SessionActivity),
}

/// Who speaks in a message of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    Agent,
    /// The agent thinks.
    Thought,
}

/// What a session is doing.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionActivity {
    Running,
    /// It waits for a person.
    RequiresAction,
    Idle {
        /// Why the last turn ended; none if nothing is known about it.
        stop: Option<StopReason>,
        usage: Option<TokenUsage>,
    },
}

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    EndTurn,
    MaxTurnRequests,
    Refusal,
    Cancelled,
    /// With an error, for a person.
    Error(String),
}

/// The tokens of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// A new or changed tool call. What is none has not changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCallUpdate {
    pub id: String,
    /// Whether the client has not heard of it.
    pub is_new: bool,
    /// The tool's name.
    pub name: Option<String>,
    pub title: Option<String>,
    pub kind: Option<CallKind>,
    pub status: Option<CallStatus>,
    pub content: Option<Vec<CallContent>>,
    /// Absolute paths, with a line.
    pub locations: Option<Vec<(String, Option<u64>)>>,
    pub raw_input: Option<JsonObject>,
    pub raw_output: Option<String>,
    /// The call whose sub-agent makes it.
    pub parent: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    Read,
    Edit,
    Search,
    Execute,
    Think,
    Fetch,
    SwitchMode,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

/// What a call shows.
#[derive(Clone, Debug, PartialEq)]
pub enum CallContent {
    /// In Markdown.
    Text(String),
    Diff(CallDiff),
}

/// The change of a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallDiff {
    pub path: String,
    /// None for a new file.
    pub before: Option<String>,
    pub after: String,
    /// The first line of the part in the old and in the new file; 1 if it is not known.
    pub lines: (u64, u64),
}

/// A step of the to-do list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    pub text: String,
    pub status: CallStatus,
}

/// A slash command, without the slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedCommand {
    pub name: String,
    pub description: String,
    pub hint: Option<String>,
}

/// A setting with a choice of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigOption {
    pub id: &'static str,
    pub name: &'static str,
    pub description: &'static str,
    pub category: ConfigCategory,
    pub current: String,
    pub values: Vec<ConfigValueOption>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigCategory {
    Mode,
    Model,
    ThoughtLevel,
}

/// A value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigValueOption {
    pub value: String,
    pub name: String,
    pub description: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeSeverity {
    Info,
    Warning,
    Error,
}

/// A choice that a person has when the agent asks for permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionChoice {
    pub id: String,
    pub name: String,
    pub kind: PermissionChoiceKind,
}

/// What a choice means. The agent decides for how long an answer counts; its name says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionChoiceKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

impl TokenUsage {
    pub fn total(self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

impl CallKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Search => "search",
            Self::Execute => "execute",
            Self::Think => "think",
            Self::Fetch => "fetch",
            Self::SwitchMode => "switch_mode",
            Self::Other => "other",
        }
    }
}

impl CallStatus {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl NoticeSeverity {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl ConfigCategory {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Model => "model",
            Self::ThoughtLevel => "thought_level",
        }
    }
}

impl PermissionChoice {
    /// The choice that a plain *Allow* or *Deny* stands for: the narrowest of that meaning.
    pub fn narrowest(choices: &[Self], allows: bool) -> Option<&Self> {
        let mut same = choices.iter().filter(|it| it.kind.allows() == allows);
        let first = same.clone().next();
        same.find(|it| !it.kind.lasts()).or(first)
    }

    /// The choices that an agent offers. One of an unknown kind counts as a refusal: nothing may be
    /// allowed because of a word that is not known.
    pub fn list(options: Raw<'_>) -> Vec<Self> {
        let read = |option: Raw<'_>| {
            let text = |key| Some(option.get(key)?.text()?.decode().into_owned());
            let id = text("optionId")?;
            let kind = match text("kind").as_deref() {
                Some("allow_once") => PermissionChoiceKind::AllowOnce,
                Some("allow_always") => PermissionChoiceKind::AllowAlways,
                Some("reject_always") => PermissionChoiceKind::RejectAlways,
                _ => PermissionChoiceKind::RejectOnce,
            };
            Some(Self { name: text("name").unwrap_or_else(|| id.clone()), id, kind })
        };
        options.items().filter_map(read).collect()
    }
}

impl PermissionChoiceKind {
    /// Whether the agent may go on with what it asked for.
    pub const fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }

    /// Whether it counts for later calls too.
    pub const fn lasts(self) -> bool {
        matches!(self, Self::AllowAlways | Self::RejectAlways)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow_once",
            Self::AllowAlways => "allow_always",
            Self::RejectOnce => "reject_once",
            Self::RejectAlways => "reject_always",
        }
    }
}

impl StopReason {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTurnRequests => "max_turn_requests",
            Self::Refusal => "refusal",
            Self::Cancelled => "cancelled",
            Self::Error(_) => "error",
        }
    }
}

impl CallDiff {
    /// The change as a patch that `git apply` reads.
    pub(super) fn git_patch(&self) -> String {
        let name = &self.path;
        let (before, after) = (self.before.as_deref(), self.after.as_str());
        let old_name = match before {
            Some(_) => format!("--- {name}"),
            None => "new file mode 100644\n--- /dev/null".to_owned(),
        };
        let old: Vec<&str> = before.unwrap_or_default().split_inclusive('\n').collect();
        let new: Vec<&str> = after.split_inclusive('\n').collect();
        // Lines that are the same at both ends are context.
        let same = |(a, b): &(&&str, &&str)| a == b;
        let head = old.iter().zip(&new).take_while(same).count();
        let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(same).count();
        let start =
            |line: u64, count: usize| if count == 0 { line.saturating_sub(1) } else { line };
        let (old_start, new_start) =
            (start(self.lines.0, old.len()), start(self.lines.1, new.len()));
        let (old_count, new_count) = (old.len(), new.len());
        let mut patch = format!(
            "diff --git {name} {name}\n{old_name}\n+++ {name}\n\
             @@ -{old_start},{old_count} +{new_start},{new_count} @@\n"
        );
        let mut push = |sign: char, line: &str| {
            patch.push(sign);
            patch.push_str(line);
            if !line.ends_with('\n') {
                patch.push_str("\n\\ No newline at end of file\n");
            }
        };
        old[..head].iter().for_each(|line| push(' ', line));
        old[head..old.len() - tail].iter().for_each(|line| push('-', line));
        new[head..new.len() - tail].iter().for_each(|line| push('+', line));
        old[old.len() - tail..].iter().for_each(|line| push(' ', line));
        patch
    }
}

#[cfg(test)]
mod tests {
    use super::CallDiff;

    #[test]
    fn a_change_becomes_a_patch_with_context() {
        let diff = CallDiff {
            path: "/p/a".to_owned(),
            before: Some("one\ntwo\nthree\n".to_owned()),
            after: "one\n2\nthree\n".to_owned(),
            lines: (4, 4),
        };
        assert_eq!(
            diff.git_patch(),
            "diff --git /p/a /p/a\n--- /p/a\n+++ /p/a\n@@ -4,3 +4,3 @@\n one\n-two\n+2\n three\n"
        );
        let new = CallDiff { before: None, after: "x".to_owned(), lines: (1, 1), ..diff };
        assert_eq!(
            new.git_patch(),
            "diff --git /p/a /p/a\nnew file mode 100644\n--- /dev/null\n+++ /p/a\n@@ -0,0 +1,1 @@\n\
             +x\n\\ No newline at end of file\n"
        );
    }
}
