//! What the session wants done: the only way it reaches the world.

use std::time::Duration;

use serde_json::Value;

/// The number of a request to the model, never used twice.
pub(crate) type RequestNumber = u64;

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Writes a line to stdout.
    Print(Value),
    /// Writes a line to stderr.
    Complain(String),
    /// Adds a line to a session's transcript.
    Record {
        /// The session.
        session: String,
        /// The line.
        entry: Value,
    },
    /// Asks the model.
    Ask {
        /// The number that its answers carry.
        number: RequestNumber,
        /// The body of the request.
        body: Value,
    },
    /// Stops listening to an answer.
    Hush(RequestNumber),
    /// Looks at what a call would touch, before anybody is asked about it.
    Inspect(Work),
    /// Runs a tool.
    Run(Work),
    /// Ends a tool that runs.
    Stop(String),
    /// Starts a shell command in the background.
    Background {
        /// The call.
        work: Work,
        /// The task's id.
        task: String,
    },
    /// Ends a background task.
    Kill(String),
    /// Wakes the session after a while.
    Wake {
        /// What for.
        timer: Timer,
        /// When.
        after: Duration,
    },
    /// Runs a shell command that the host typed.
    Shell {
        /// The command.
        command: String,
    },
    /// Runs a hook that the settings name.
    Hook {
        /// The id that its outcome carries.
        id: String,
        /// The command.
        command: String,
        /// What it reads.
        input: Value,
        /// How long it may take.
        limit: Duration,
    },
    /// Puts files back to what they were before a prompt.
    Rewind {
        /// The control request that wants it.
        request: Value,
        /// The prompt.
        prompt: String,
        /// Whether only to say what would change.
        dry: bool,
    },
    /// Remembers that files change from here on under a prompt.
    Checkpoint(String),
    /// Adds permission rules to the project's local settings.
    SaveRules(Value),
    /// Ends the process, once everything printed is out.
    End(u8),
}

/// A tool call to be carried out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Work {
    /// The call's id.
    pub(crate) call: String,
    /// The tool.
    pub(crate) tool: String,
    /// Its input.
    pub(crate) input: Value,
    /// The session it belongs to.
    pub(crate) session: String,
}

/// What the session waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The next attempt of a request that failed.
    Retry(RequestNumber),
    /// The answer of a hook.
    Hook(String),
}
