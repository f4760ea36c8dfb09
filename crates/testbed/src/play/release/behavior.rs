//! What some releases do and others do not, and the versions that do it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::scenario::AgentVersionRange;

/// Something that came or went with a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlayerBehavior {
    /// A second `initialize` is answered, and not refused.
    AcceptsReinitialization,
    /// An answer to a permission request may leave out the input.
    AllowsWithoutInput,
    /// Lines of a file start with a padded number and an arrow.
    ArrowLineNumbers,
    /// After an empty reply, the model is asked once to say something.
    AsksAfterEmptyReply,
    /// The end of a background command starts a turn.
    BackgroundCommandsReport,
    /// A mode that allows everything can be set only in a session that was started for it.
    BypassNeedsLaunch,
    /// A mode that is none is refused.
    ChecksModeNames,
    /// `/clear` starts another session.
    ClearStartsSession,
    /// The summary of a conversation is announced with two `status` lines.
    CompactionStatus,
    /// A reply that hit the limit of output tokens is continued three times.
    ContinuesAfterLimit,
    /// After a refusal the model may go on once.
    ContinuesAfterRefusal,
    /// A file must be read before it is edited.
    EditNeedsRead,
    /// The host may change a plan with its approval.
    EditedPlans,
    /// A reply without blocks is an error of the turn.
    EmptyReplyIsError,
    /// Turns that end with an error are failures, also for the exit code.
    ErrorsAreFailures,
    /// The result of a command that failed starts with its exit code.
    ExitCodeInResult,
    /// A sub-agent prints its texts if the host asks for them.
    ForwardsSubagentText,
    /// A call whose hook does not answer in time does not run.
    HookTimeoutDenies,
    /// Lines without an object, or of an unknown type, are ignored. Otherwise they end the process.
    IgnoresUnknownLines,
    /// Lines of white space are ignored. Otherwise they end the process.
    IgnoresBlankLines,
    /// Empty lines are ignored. Otherwise they end the process.
    IgnoresEmptyLines,
    /// Patterns for commands in `--allowedTools` allow nothing.
    IgnoresAllowedPatterns,
    /// The model may ask questions although no host answers them.
    AsksWithoutPrompts,
    /// The model may plan although no host approves it.
    PlansWithoutPrompts,
    /// An interrupt closes the events of the stream.
    InterruptClosesStream,
    /// What the model had said before an interrupt is part of the history.
    InterruptKeepsReply,
    /// The answer to an interrupt lists the prompts that wait.
    InterruptListsQueue,
    /// Prompts that arrive during a turn become part of a result of a tool.
    JoinsPromptsToResults,
    /// Commands are stopped when SIGINT ends the process.
    KillsToolsOnInterrupt,
    /// Commands are stopped when SIGTERM ends the process.
    KillsToolsOnTermination,
    /// The output of a slash command is printed.
    LocalCommandOutput,
    /// Prompts that wait are sent to the model together.
    MergesQueuedPrompts,
    /// Files that the model has not read may be overwritten if everything is allowed.
    OverwritesUnread,
    /// In plan mode, a denied write is explained with the mode.
    PlanModeDenial,
    /// The result of a sub-agent is what it said last, and nothing else.
    PlainSubagentReports,
    /// A prompt may be added to the history without a reply.
    PromptsWithoutReply,
    /// The notes on an answer are for the model too.
    QuestionNotes,
    /// The answers to questions are introduced as those of the user.
    QuestionsOfUser,
    /// A control request of an unknown kind is refused. Otherwise it gets no answer.
    RefusesUnknownControl,
    /// A prompt is echoed before the events of its reply.
    ReplayBeforeReply,
    /// A stream that failed is requested as a stream again.
    RetriesStreams,
    /// A change of the mode by the host is announced with a `status` line.
    SetModeStatus,
    /// A session that is missing is named in a `result` line.
    MissingSessionResult,
    /// It is named on stderr beside that line too.
    MissingSessionOnStderr,
    /// SIGINT ends the turn with a result.
    SigintEndsTurn,
    /// Each request to the model is announced with a `status` line.
    StatusRequesting,
    /// Sub-agents run in the background unless the call says otherwise.
    SubagentsInBackground,
    /// The messages that ask the model to continue are printed.
    SyntheticPrompts,
    /// Teams of agents can be made, if they are switched on.
    Teams,
    /// A budget of tokens can be set for thinking.
    ThinkingBudgets,
    /// Thinking can be switched off by leaving it out of the request.
    ThinkingLeftOut,
    /// A slash command that does not exist is answered without the model.
    UnknownCommandsAnswered,
    /// That answer names the command.
    UnknownCommandsNamed,
}

/// The versions of each behavior, and a scenario with that condition.
pub(super) const TABLE: &[(PlayerBehavior, &str, &str)] = &[
    (PlayerBehavior::AcceptsReinitialization, ">=2.1.161", "initialize"),
    (PlayerBehavior::AllowsWithoutInput, ">=2.1.207", "permission-no-input"),
    (PlayerBehavior::ArrowLineNumbers, "<2.1.86", "read-lines"),
    (PlayerBehavior::AsksAfterEmptyReply, ">=2.1.182", "empty-answer"),
    (PlayerBehavior::BackgroundCommandsReport, ">=2.1.120", "shell-background"),
    (PlayerBehavior::BypassNeedsLaunch, ">=2.1.75", "set-mode-refused"),
    (PlayerBehavior::ChecksModeNames, ">=2.1.213", "set-mode-refused"),
    (PlayerBehavior::ClearStartsSession, ">=2.1.117", "slash-clear"),
    (PlayerBehavior::CompactionStatus, ">=2.1.37", "slash-compact"),
    (PlayerBehavior::ContinuesAfterLimit, ">=2.1.5", "max-tokens"),
    (PlayerBehavior::ContinuesAfterRefusal, ">=2.1.282", "refusal"),
    (PlayerBehavior::EditNeedsRead, "<2.1.208", "edit-unread"),
    (PlayerBehavior::EditedPlans, ">=2.1.80", "plan-edit"),
    (PlayerBehavior::EmptyReplyIsError, "<2.1.77", "empty-answer"),
    (PlayerBehavior::ErrorsAreFailures, ">=2.1.88", "max-turns"),
    (PlayerBehavior::ExitCodeInResult, ">=2.1.37", "bash-failure"),
    (PlayerBehavior::ForwardsSubagentText, ">=2.1.120", "subagent-text"),
    (PlayerBehavior::HookTimeoutDenies, ">=2.1.197", "hook-timeout"),
    (PlayerBehavior::IgnoresUnknownLines, ">=2.1.47", "input-unknown-type"),
    (PlayerBehavior::IgnoresBlankLines, ">=2.1.208", "input-blank-line"),
    (PlayerBehavior::IgnoresEmptyLines, ">=2.1.39", "input-empty-line"),
    (PlayerBehavior::IgnoresAllowedPatterns, ">=2.1.5 <2.1.129", "allowed-tools-pattern"),
    (PlayerBehavior::AsksWithoutPrompts, ">=2.0.71 <2.1.187", "question-without-prompts"),
    (PlayerBehavior::PlansWithoutPrompts, ">=2.0.51 <2.1.187", "plan-mode-without-prompts"),
    (PlayerBehavior::InterruptClosesStream, ">=2.1.290", "interrupt-partial"),
    (PlayerBehavior::InterruptKeepsReply, ">=2.1.197", "interrupt-partial"),
    (PlayerBehavior::InterruptListsQueue, ">=2.1.205", "interrupt-queued"),
    (PlayerBehavior::JoinsPromptsToResults, "<2.1.154", "fold-in-tool"),
    (PlayerBehavior::KillsToolsOnInterrupt, ">=2.1.197", "sigint-in-tool"),
    (PlayerBehavior::KillsToolsOnTermination, ">=2.1.212", "sigterm-in-tool"),
    (PlayerBehavior::LocalCommandOutput, ">=2.1.71 <2.1.326", "slash-cost"),
    (PlayerBehavior::MergesQueuedPrompts, ">=2.1.85", "queue-merged"),
    (PlayerBehavior::OverwritesUnread, ">=2.1.228", "write-unread"),
    (PlayerBehavior::PlanModeDenial, ">=2.1.136", "mode-plan"),
    (PlayerBehavior::PlainSubagentReports, "<2.1.198", "subagent-default"),
    (PlayerBehavior::PromptsWithoutReply, ">=2.1.197", "should-query"),
    (PlayerBehavior::QuestionNotes, ">=2.1.71", "question-notes"),
    (PlayerBehavior::QuestionsOfUser, "<2.1.145", "question"),
    (PlayerBehavior::RefusesUnknownControl, ">=2.1.40", "unknown-control"),
    (PlayerBehavior::ReplayBeforeReply, ">=2.1.211", "replay-order"),
    (PlayerBehavior::RetriesStreams, ">=2.1.186", "sse-error-then-text"),
    (PlayerBehavior::SetModeStatus, ">=2.1.120", "set-mode"),
    (PlayerBehavior::MissingSessionResult, ">=2.1.8", "resume-unknown"),
    (PlayerBehavior::MissingSessionOnStderr, ">=2.1.120", "resume-unknown"),
    (PlayerBehavior::SigintEndsTurn, ">=2.1.79", "sigint-streaming"),
    (PlayerBehavior::StatusRequesting, ">=2.1.197", "partial-messages"),
    (PlayerBehavior::SubagentsInBackground, ">=2.1.198", "subagent-default"),
    (PlayerBehavior::SyntheticPrompts, ">=2.1.269", "max-tokens"),
    (PlayerBehavior::Teams, ">=2.1.33 <2.1.178", "team-create"),
    (PlayerBehavior::ThinkingBudgets, "<2.1.45", "thinking-budget"),
    (PlayerBehavior::ThinkingLeftOut, "<2.1.166", "thinking-off"),
    (PlayerBehavior::UnknownCommandsAnswered, "<2.1.274", "slash-unknown"),
    (PlayerBehavior::UnknownCommandsNamed, ">=2.1.0 <2.1.274", "slash-unknown"),
];

static VERSIONS: LazyLock<BTreeMap<PlayerBehavior, AgentVersionRange>> = LazyLock::new(|| {
    let parsed = TABLE.iter().filter_map(|(it, range, _)| Some((*it, range.parse().ok()?)));
    parsed.collect()
});

impl PlayerBehavior {
    pub(super) fn versions(self) -> AgentVersionRange {
        VERSIONS.get(&self).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::{TABLE, VERSIONS};

    #[test]
    fn the_versions_of_each_behavior_are_a_condition_of_its_scenario() {
        let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        for (behavior, range, scenario) in TABLE {
            let path = scenarios.join(format!("{scenario}.scenario"));
            let text = std::fs::read_to_string(path).unwrap();
            let condition = format!("[{range}] ");
            assert!(
                text.lines().any(|line| line.starts_with(&condition)),
                "{behavior:?}: {scenario} has no step for {range}"
            );
        }
        let names: BTreeSet<_> = TABLE.iter().map(|(behavior, ..)| behavior).collect();
        assert_eq!(names.len(), TABLE.len());
        assert_eq!(VERSIONS.len(), TABLE.len());
    }
}
