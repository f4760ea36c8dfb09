//! What the player can be told to do wrong, each of it seen in a real agent.

use std::fmt;

/// Something that an agent does and a client must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AcpMisbehavior {
    PermissionFirst,
    NoMessageId,
    NoUsage,
    LateUpdates,
    SecondPromptCancels,
    AnswersTogether,
    ErrorAsText,
    SystemError,
    SignIn,
    UninvitedFs,
    UninvitedQuestions,
    LoadFails,
    InUse,
    DestroysHistory,
    NoLoad,
    NoResume,
    NoSteering,
    IgnoresCancel,
    UpdatesAfterCancel,
    CancelBeforeAnswer,
    WithdrawsPermission,
    DenyCancels,
    TwoAlways,
    EmptyInputFirst,
    TerminalOutput,
    CumulativeCost,
    StdoutNoise,
    UnknownMessages,
    NeverAnswers,
    DiesMidTurn,
    HalfLine,
    HangsAtNew,
    SlowExit,
}

/// A row of the table.
pub(crate) struct AcpMisbehaviorInfo {
    pub(crate) misbehavior: AcpMisbehavior,
    pub(crate) name: &'static str,
    /// What happens, and which agent does it.
    pub(crate) description: &'static str,
}

const fn info(
    misbehavior: AcpMisbehavior,
    name: &'static str,
    description: &'static str,
) -> AcpMisbehaviorInfo {
    AcpMisbehaviorInfo { misbehavior, name, description }
}

/// Everything the player can do wrong, in the order of the help text.
pub(crate) const MISBEHAVIORS: &[AcpMisbehaviorInfo] = &[
    info(
        AcpMisbehavior::PermissionFirst,
        "permission-first",
        "asks for permission before any `tool_call`, and shows no output (gemini)",
    ),
    info(
        AcpMisbehavior::NoMessageId,
        "no-message-id",
        "sends chunks without a `messageId` (gemini, copilot, qwen)",
    ),
    info(AcpMisbehavior::NoUsage, "no-usage", "reports no tokens (gemini)"),
    info(
        AcpMisbehavior::LateUpdates,
        "late-updates",
        "goes on writing after it has answered the prompt (claude)",
    ),
    info(
        AcpMisbehavior::SecondPromptCancels,
        "second-prompt-cancels",
        "a prompt during a turn cancels that turn (gemini, copilot)",
    ),
    info(
        AcpMisbehavior::AnswersTogether,
        "answers-together",
        "answers two prompts when both turns are over (opencode)",
    ),
    info(
        AcpMisbehavior::ErrorAsText,
        "error-as-text",
        "reports an error as text and says `end_turn` (copilot)",
    ),
    info(
        AcpMisbehavior::SystemError,
        "system-error",
        "the same with `usage: null` and the status `systemError` (codex)",
    ),
    info(
        AcpMisbehavior::SignIn,
        "sign-in",
        "answers `session/new` with -32000 until someone has signed in (droid)",
    ),
    info(
        AcpMisbehavior::UninvitedFs,
        "uninvited-fs",
        "calls `fs/write_text_file` although the client cannot do that (opencode)",
    ),
    info(
        AcpMisbehavior::UninvitedQuestions,
        "uninvited-questions",
        "calls `elicitation/create` although the client cannot do that",
    ),
    info(AcpMisbehavior::LoadFails, "load-fails", "cannot load or resume a session"),
    info(
        AcpMisbehavior::InUse,
        "in-use",
        "refuses to load or resume: another client uses the session (codex)",
    ),
    info(
        AcpMisbehavior::DestroysHistory,
        "destroys-history",
        "loading a session fails and destroys its history (gemini)",
    ),
    info(AcpMisbehavior::NoLoad, "no-load", "cannot load sessions, and says so"),
    info(
        AcpMisbehavior::NoResume,
        "no-resume",
        "can load sessions but not resume them (gemini, copilot)",
    ),
    info(
        AcpMisbehavior::NoSteering,
        "no-steering",
        "nothing can be added to a running turn (opencode, gemini, copilot)",
    ),
    info(
        AcpMisbehavior::IgnoresCancel,
        "ignores-cancel",
        "ignores `session/cancel` and must be killed",
    ),
    info(
        AcpMisbehavior::UpdatesAfterCancel,
        "updates-after-cancel",
        "sends five more updates before it answers a cancelled prompt (opencode)",
    ),
    info(
        AcpMisbehavior::CancelBeforeAnswer,
        "cancel-before-answer",
        "ends a cancelled turn before its request is answered (claude, codex)",
    ),
    info(
        AcpMisbehavior::WithdrawsPermission,
        "withdraws-permission",
        "withdraws a permission request with `$/cancel_request` (claude, codex)",
    ),
    info(AcpMisbehavior::DenyCancels, "deny-cancels", "a denied call ends the turn (codex)"),
    info(
        AcpMisbehavior::TwoAlways,
        "two-always",
        "offers two options of the kind `allow_always` (qwen, vibe)",
    ),
    info(
        AcpMisbehavior::EmptyInputFirst,
        "empty-input-first",
        "starts a call with an empty `rawInput` and updates it later (claude)",
    ),
    info(
        AcpMisbehavior::TerminalOutput,
        "terminal-output",
        "has the output of commands only in `_meta.terminal_output` (codex)",
    ),
    info(
        AcpMisbehavior::CumulativeCost,
        "cumulative-cost",
        "reports the cost of the whole session with every turn (claude)",
    ),
    info(
        AcpMisbehavior::StdoutNoise,
        "stdout-noise",
        "prints lines that are not JSON on stdout (kimi)",
    ),
    info(
        AcpMisbehavior::UnknownMessages,
        "unknown-messages",
        "sends an unknown notification, update and request (qwen)",
    ),
    info(AcpMisbehavior::NeverAnswers, "never-answers", "writes its reply and never ends the turn"),
    info(AcpMisbehavior::DiesMidTurn, "dies-mid-turn", "exits after the first words of a reply"),
    info(AcpMisbehavior::HalfLine, "half-line", "the same, in the middle of a line"),
    info(AcpMisbehavior::HangsAtNew, "hangs-at-new", "never answers `session/new` (pi)"),
    info(
        AcpMisbehavior::SlowExit,
        "slow-exit",
        "exits 7 s after its stdin has been closed (codex)",
    ),
];

impl AcpMisbehavior {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        MISBEHAVIORS.iter().find(|it| it.name == name).map(|it| it.misbehavior)
    }
}

impl fmt::Display for AcpMisbehaviorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {:<22} {}", self.name, self.description)
    }
}

#[cfg(test)]
mod tests {
    use super::{AcpMisbehavior, MISBEHAVIORS};

    #[test]
    fn every_misbehavior_is_found_by_its_name() {
        for it in MISBEHAVIORS {
            assert_eq!(AcpMisbehavior::from_name(it.name), Some(it.misbehavior), "{}", it.name);
        }
        assert_eq!(AcpMisbehavior::from_name("nonsense"), None);
    }
}
