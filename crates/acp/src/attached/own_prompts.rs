//! The prompts that a client sent and that are not answered yet. Pure.
//!
//! The notes of the session say how a prompt ended: its state becomes final, and the end of its turn
//! follows in the same batch. Every prompt is answered once.

use uuid::Uuid;
use wire::acp::RpcId;
use wire::note::{Note, PromptState, TurnEnding};

/// The open prompts of a client.
#[derive(Debug, Default)]
pub(crate) struct OwnPrompts {
    open: Vec<OpenPrompt>,
    ended: Vec<EndedPrompt>,
}

#[derive(Debug)]
struct OpenPrompt {
    prompt: Uuid,
    /// The request to answer; none if it was answered when the prompt was taken.
    rpc: Option<RpcId>,
    /// The turn it started or joined.
    turn: Option<u64>,
    state: PromptState,
}

/// A prompt that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndedPrompt {
    pub(crate) rpc: Option<RpcId>,
    pub(crate) end: PromptEnd,
}

/// How a prompt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PromptEnd {
    /// With its turn.
    Turn(u64, TurnEnding),
    /// It was removed before the agent started with it.
    Cancelled,
    /// It is not known whether it ran.
    Lost,
    /// No agent could be started for it, for this reason.
    NoAgent(String),
}

impl OwnPrompts {
    pub(crate) fn add(&mut self, prompt: Uuid, rpc: Option<RpcId>) {
        self.open.push(OpenPrompt { prompt, rpc, turn: None, state: PromptState::Queued });
    }

    /// The request was answered otherwise.
    pub(crate) fn remove(&mut self, prompt: Uuid) {
        self.open.retain(|it| it.prompt != prompt);
    }

    pub(crate) fn contains(&self, prompt: Uuid) -> bool {
        self.open.iter().any(|it| it.prompt == prompt)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The prompt of a request.
    pub(crate) fn of_request(&self, rpc: &str) -> Option<Uuid> {
        let is = |it: &&OpenPrompt| it.rpc.as_ref().is_some_and(|it| it.as_str() == rpc);
        self.open.iter().find(is).map(|it| it.prompt)
    }

    /// The prompts that the agent has not started with.
    pub(crate) fn waiting(&self) -> Vec<Uuid> {
        let waiting = self.open.iter().filter(|it| it.state == PromptState::Queued);
        waiting.map(|it| it.prompt).collect()
    }

    /// Whether the agent works on one of them.
    pub(crate) fn has_started(&self) -> bool {
        self.open.iter().any(|it| matches!(it.state, PromptState::Written | PromptState::Accepted))
    }

    /// Takes the next note of the session. Returns the turn that a prompt of the client started.
    pub(crate) fn observe(&mut self, note: &Note) -> Option<u64> {
        match note {
            Note::TurnStarted { turn, prompts } => {
                let mut is_own = false;
                for own in self.open.iter_mut().filter(|it| prompts.contains(&it.prompt)) {
                    own.turn = Some(*turn);
                    is_own = true;
                }
                return is_own.then_some(*turn);
            }
            Note::PromptStateChanged { prompt, state } => {
                for own in self.open.iter_mut().filter(|it| it.prompt == *prompt) {
                    own.state = *state;
                }
                if *state == PromptState::Cancelled {
                    self.end_where(|it| it.prompt == *prompt, &PromptEnd::Cancelled);
                }
            }
            Note::TurnEnded { turn, ending } => {
                let end = PromptEnd::Turn(*turn, ending.clone());
                self.end_where(|it| it.state.is_final(), &end);
            }
            _ => {}
        }
        None
    }

    /// The prompts that ended, after all notes that are there were taken.
    pub(crate) fn take_ended(&mut self) -> Vec<EndedPrompt> {
        // No turn ended with it: the agent died before it started with the prompt.
        self.end_where(|it| it.state == PromptState::Indeterminate, &PromptEnd::Lost);
        std::mem::take(&mut self.ended)
    }

    /// All open prompts, which end for a reason that is no note of theirs.
    pub(crate) fn take_all(&mut self, end: &PromptEnd) -> Vec<EndedPrompt> {
        self.end_where(|_| true, end);
        std::mem::take(&mut self.ended)
    }

    fn end_where(&mut self, matches: impl Fn(&OpenPrompt) -> bool, end: &PromptEnd) {
        let (over, open) = std::mem::take(&mut self.open).into_iter().partition(|it| matches(it));
        self.open = open;
        let over: Vec<OpenPrompt> = over;
        self.ended.extend(over.into_iter().map(|it| EndedPrompt { rpc: it.rpc, end: end.clone() }));
    }
}

#[cfg(test)]
mod tests {
    use super::{EndedPrompt, OwnPrompts, PromptEnd};
    use uuid::Uuid;
    use wire::acp::RpcId;
    use wire::note::{ExitCause, Note, PromptState, TurnEnding};

    const ONE: Uuid = Uuid::from_u128(1);
    const TWO: Uuid = Uuid::from_u128(2);

    fn state(prompt: Uuid, state: PromptState) -> Note {
        Note::PromptStateChanged { prompt, state }
    }

    fn two() -> OwnPrompts {
        let mut prompts = OwnPrompts::default();
        prompts.add(ONE, Some(RpcId::number(1)));
        prompts.add(TWO, Some(RpcId::number(2)));
        prompts
    }

    #[test]
    fn a_prompt_ends_with_its_turn_and_the_queued_one_stays() {
        let mut prompts = two();
        assert_eq!(prompts.observe(&Note::TurnStarted { turn: 4, prompts: vec![ONE] }), Some(4));
        prompts.observe(&state(ONE, PromptState::Written));
        assert!(prompts.has_started());
        assert_eq!(prompts.waiting(), [TWO]);
        prompts.observe(&state(ONE, PromptState::Done));
        assert_eq!(prompts.take_ended(), []);
        prompts.observe(&Note::TurnEnded { turn: 4, ending: TurnEnding::Completed });
        let end = PromptEnd::Turn(4, TurnEnding::Completed);
        assert_eq!(prompts.take_ended(), [EndedPrompt { rpc: Some(RpcId::number(1)), end }]);
        assert_eq!(prompts.take_ended(), []);
        assert!(prompts.contains(TWO) && !prompts.has_started());
    }

    #[test]
    fn a_removed_prompt_ends_at_once_and_other_turns_end_nothing() {
        let mut prompts = two();
        assert_eq!(prompts.observe(&Note::TurnStarted { turn: 4, prompts: Vec::new() }), None);
        prompts.observe(&Note::TurnEnded { turn: 4, ending: TurnEnding::Completed });
        assert_eq!(prompts.take_ended(), []);
        prompts.observe(&state(TWO, PromptState::Cancelled));
        let rpc = Some(RpcId::number(2));
        assert_eq!(prompts.take_ended(), [EndedPrompt { rpc, end: PromptEnd::Cancelled }]);
    }

    #[test]
    fn a_prompt_whose_agent_died_ends_with_the_turn_or_as_lost() {
        let mut prompts = two();
        let exited = Note::AgentExited { cause: ExitCause::Lost };
        let ending = TurnEnding::Aborted { cause: ExitCause::Lost };
        for note in [
            state(ONE, PromptState::Indeterminate),
            exited.clone(),
            Note::TurnEnded { turn: 1, ending: ending.clone() },
        ] {
            prompts.observe(&note);
        }
        assert_eq!(prompts.take_ended()[0].end, PromptEnd::Turn(1, ending));
        prompts.observe(&state(TWO, PromptState::Indeterminate));
        prompts.observe(&exited);
        assert_eq!(prompts.take_ended()[0].end, PromptEnd::Lost);
        assert!(prompts.is_empty());
    }
}
