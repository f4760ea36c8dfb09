//! The progress of a run, and what can end it.

use std::io;
use std::time::Duration;

use journal::{Journal, SessionId, SessionStatus};
use session::{RequestAnswer, Session, SessionOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};
use uuid::Uuid;
use view::wording;
use wire::consent;
use wire::note::{Actor, ExitCause, HoldReason, Note, PromptState, TurnEnding};

use crate::exit::CommandStatus;

/// The progress of a run, derived from the notes of the session.
#[derive(Debug, Default)]
pub(super) struct RunProgress {
    /// The prompt of the run; none if the run only follows a turn that is already running.
    prompt_id: Option<Uuid>,
    prompt_is_final: bool,
    ending: Option<TurnEnding>,
    cause: Option<ExitCause>,
    /// What a spent budget asks, if the prompt waits for the answer.
    budget_question: Option<String>,
}

impl RunProgress {
    pub(super) fn new(prompt_id: Option<Uuid>) -> Self {
        Self { prompt_id, ..Self::default() }
    }

    /// Takes a note, and returns whether the run may be over.
    pub(super) fn observe(&mut self, note: &Note) -> bool {
        match note {
            Note::TurnStarted { .. } => {
                self.ending = None;
                self.cause = None;
                false
            }
            Note::TurnEnded { ending, .. } => {
                self.ending = Some(ending.clone());
                true
            }
            Note::PromptStateChanged { prompt, state } if Some(*prompt) == self.prompt_id => {
                self.prompt_is_final = state.is_final();
                *state == PromptState::Cancelled
            }
            Note::AgentExited { cause } => {
                self.cause = Some(cause.clone());
                true
            }
            // The queue may have been held before the prompt came, or be held because of it.
            Note::PromptQueued { prompt, .. } => Some(*prompt) == self.prompt_id,
            Note::QueueHeld { reason: HoldReason::Budget { .. }, .. } => true,
            _ => false,
        }
    }

    /// Whether the run is over. The journal writes the status together with the notes, so it is never
    /// behind them.
    pub(super) async fn is_over(
        &mut self,
        journal: &Journal,
        id: SessionId,
    ) -> Result<bool, journal::Error> {
        let Some(record) = journal.session(id).await? else { return Ok(true) };
        Ok(match record.status {
            SessionStatus::Running | SessionStatus::Waiting => false,
            SessionStatus::Idle | SessionStatus::Dead => {
                let is_done = self.prompt_id.is_none() || self.prompt_is_final;
                if !is_done {
                    let options = SessionOptions::from_json(&record.options, record.directory);
                    let hold = options.ok().and_then(|it| it.queue_hold);
                    self.budget_question = hold.as_ref().and_then(wording::budget_question);
                }
                is_done || self.budget_question.is_some()
            }
            SessionStatus::Failed => true,
        })
    }

    /// What a spent budget asks, if the prompt waits for the answer.
    pub(super) fn budget_question(&self) -> Option<&str> {
        self.budget_question.as_deref()
    }

    pub(super) fn exit_status(&self) -> CommandStatus {
        match (&self.ending, &self.cause) {
            (Some(TurnEnding::Completed), _) => CommandStatus::Success,
            (
                Some(TurnEnding::Aborted {
                    cause: ExitCause::NotStarted { .. } | ExitCause::NotReady,
                }),
                _,
            )
            | (None, Some(_)) => CommandStatus::Error,
            (Some(_), _) => CommandStatus::Negative,
            (None, None) if self.prompt_is_final => CommandStatus::Negative,
            (None, None) => CommandStatus::Success,
        }
    }

    /// Why no turn started.
    pub(super) fn start_failure(&self) -> Option<&ExitCause> {
        self.cause.as_ref().filter(|_| self.exit_status() == CommandStatus::Error)
    }
}

/// Why a run stopped following its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowEnd {
    /// There is nothing more to do.
    Finished,
    /// The user left, possibly while the agent works.
    Detached,
}

/// A second Ctrl-C within this time leaves the session.
pub(super) const DOUBLE_PRESS: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunSignal {
    /// SIGINT: stop the turn.
    Interrupt,
    /// SIGTERM or SIGHUP: leave.
    Terminate,
}

/// The signals that a run handles.
pub(super) struct RunSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl RunSignals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> RunSignal {
        tokio::select! {
            _ = self.interrupt.recv() => RunSignal::Interrupt,
            _ = self.terminate.recv() => RunSignal::Terminate,
            _ = self.hang_up.recv() => RunSignal::Terminate,
        }
    }
}

/// Denies a request because no user is there to answer, or the user does not want to be asked.
pub(super) async fn deny_unattended(session: &Session, request: &str) {
    let answer = RequestAnswer::Deny { message: consent::UNATTENDED.to_owned(), interrupt: false };
    let by = Actor { name: "towpath".to_owned(), via: "rule".to_owned() };
    // Fails if the request has been resolved meanwhile.
    let _ = session.answer(request, answer, by).await;
}

#[cfg(test)]
mod tests {
    use super::RunProgress;
    use crate::exit::CommandStatus;
    use uuid::Uuid;
    use wire::note::{ExitCause, Note, PromptState, TurnEnding};

    fn exit_status(notes: &[Note]) -> CommandStatus {
        let mut progress = RunProgress::new(Some(Uuid::nil()));
        for note in notes {
            progress.observe(note);
        }
        progress.exit_status()
    }

    fn over(ending: TurnEnding) -> Note {
        Note::TurnEnded { turn: 1, ending }
    }

    #[test]
    fn the_last_turn_decides_the_exit_status() {
        let began = || Note::TurnStarted { turn: 1, prompts: Vec::new() };
        let failed = || over(TurnEnding::Failed { message: "no".to_owned() });
        assert_eq!(exit_status(&[began(), over(TurnEnding::Completed)]), CommandStatus::Success);
        assert_eq!(exit_status(&[began(), failed()]), CommandStatus::Negative);
        assert_eq!(
            exit_status(&[began(), failed(), began(), over(TurnEnding::Completed)]),
            CommandStatus::Success
        );
        assert_eq!(exit_status(&[began(), over(TurnEnding::Interrupted)]), CommandStatus::Negative);
    }

    #[test]
    fn an_agent_that_did_not_start_is_an_error() {
        let gone = Note::AgentExited { cause: ExitCause::NotReady };
        assert_eq!(exit_status(&[gone]), CommandStatus::Error);
        let cancelled =
            Note::PromptStateChanged { prompt: Uuid::nil(), state: PromptState::Cancelled };
        assert_eq!(exit_status(&[cancelled]), CommandStatus::Negative);
    }
}
