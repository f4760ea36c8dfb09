//! How the work that was asked for goes, as the notes tell it.

use journal::{Journal, SessionId, Status};
use uuid::Uuid;
use wire::note::{Cause, Note, PromptState, TurnEnding};

use crate::verdict::Verdict;

/// How the work goes.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// The prompt whose end is waited for; whatever runs where there is none.
    asked: Option<Uuid>,
    asked_is_settled: bool,
    ending: Option<TurnEnding>,
    cause: Option<Cause>,
}

impl Course {
    /// Nothing has happened yet; what matters is a prompt, or whatever runs.
    pub(super) fn of(asked: Option<Uuid>) -> Self {
        Self { asked, ..Self::default() }
    }

    /// Takes in a note; whether the work may be over with it.
    pub(super) fn take(&mut self, note: &Note) -> bool {
        match note {
            Note::TurnBegan { .. } => {
                self.ending = None;
                self.cause = None;
                false
            }
            Note::TurnOver { ending, .. } => {
                self.ending = Some(ending.clone());
                true
            }
            Note::PromptBecame { prompt, state } if Some(*prompt) == self.asked => {
                self.asked_is_settled = state.is_final();
                *state == PromptState::Cancelled
            }
            Note::AgentGone { cause } => {
                self.cause = Some(cause.clone());
                true
            }
            _ => false,
        }
    }

    /// Whether nothing more is to come of it. The status is written down together with the notes, so
    /// it is never behind them.
    pub(super) async fn is_over(
        &self,
        journal: &Journal,
        id: SessionId,
    ) -> Result<bool, journal::Error> {
        let status = journal.session(id).await?.map(|record| record.status);
        Ok(match status {
            Some(Status::Running | Status::Waiting) => false,
            Some(Status::Idle | Status::Dead) => self.asked.is_none() || self.asked_is_settled,
            Some(Status::Failed) | None => true,
        })
    }

    /// How it went.
    pub(super) fn verdict(&self) -> Verdict {
        match (&self.ending, &self.cause) {
            (Some(TurnEnding::Completed), _) => Verdict::Done,
            (Some(TurnEnding::Cut { cause: Cause::NotStarted { .. } | Cause::NotReady }), _) => {
                Verdict::CouldNotTry
            }
            (Some(_), _) => Verdict::No,
            (None, Some(_)) => Verdict::CouldNotTry,
            (None, None) if self.asked_is_settled => Verdict::No,
            (None, None) => Verdict::Done,
        }
    }

    /// Why there was no turn at all.
    pub(super) fn obstacle(&self) -> Option<&Cause> {
        self.cause.as_ref().filter(|_| self.verdict() == Verdict::CouldNotTry)
    }
}

#[cfg(test)]
mod tests {
    use super::Course;
    use crate::verdict::Verdict;
    use uuid::Uuid;
    use wire::note::{Cause, Note, PromptState, TurnEnding};

    fn verdict(notes: &[Note]) -> Verdict {
        let mut course = Course::of(Some(Uuid::nil()));
        for note in notes {
            course.take(note);
        }
        course.verdict()
    }

    fn over(ending: TurnEnding) -> Note {
        Note::TurnOver { turn: 1, ending }
    }

    #[test]
    fn the_last_turn_decides() {
        let began = || Note::TurnBegan { turn: 1, prompts: Vec::new() };
        let failed = || over(TurnEnding::Failed { message: "no".to_owned() });
        assert_eq!(verdict(&[began(), over(TurnEnding::Completed)]), Verdict::Done);
        assert_eq!(verdict(&[began(), failed()]), Verdict::No);
        assert_eq!(
            verdict(&[began(), failed(), began(), over(TurnEnding::Completed)]),
            Verdict::Done
        );
        assert_eq!(verdict(&[began(), over(TurnEnding::Interrupted)]), Verdict::No);
    }

    #[test]
    fn an_agent_that_never_began_was_no_try() {
        let gone = Note::AgentGone { cause: Cause::NotReady };
        assert_eq!(verdict(&[gone]), Verdict::CouldNotTry);
        let cancelled = Note::PromptBecame { prompt: Uuid::nil(), state: PromptState::Cancelled };
        assert_eq!(verdict(&[cancelled]), Verdict::No);
    }
}
