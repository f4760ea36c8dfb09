//! What is known of a conversation beside its items, and what of it a client has to be told.

use std::collections::BTreeMap;

use view::{
    AgentInfo, ConversationHead, Fold, Patch, Request, Revision, SessionUsage, Todo, TodoState,
    TurnEnd, Update, wording,
};
use wire::acp::{CallStatus, PlanStep, StopReason, TokenUsage};
use wire::note::{ExitCause, TurnEnding};

/// How many turns are remembered for the answers to their prompts.
const KEPT_TURNS: usize = 16;

/// What is known of the conversation beside its items.
#[derive(Default)]
pub(super) struct DocumentState {
    pub(super) head: ConversationHead,
    pub(super) agent: Option<AgentInfo>,
    pub(super) requests: Vec<Request>,
    pub(super) todos: Vec<Todo>,
    pub(super) usage: SessionUsage,
    pub(super) turns: BTreeMap<u64, (Option<TurnEnd>, TokenUsage)>,
    pub(super) changed: ChangedParts,
}

/// What has changed since the client was told.
#[expect(clippy::struct_excessive_bools, reason = "they are independent parts of a document")]
#[derive(Clone, Copy, Default)]
pub(super) struct ChangedParts {
    pub(super) title: bool,
    pub(super) todos: bool,
    pub(super) usage: bool,
    pub(super) settings: bool,
}

impl DocumentState {
    pub(super) fn apply(&mut self, update: &Update) {
        for patch in &update.patches {
            match patch {
                Patch::Head { head } => {
                    self.changed.title |= self.head.title != head.title;
                    self.changed.settings |= self.head.mode != head.mode;
                    self.head.clone_from(head);
                }
                Patch::Agent { agent } => {
                    self.agent = Some((**agent).clone());
                    self.changed.settings = true;
                }
                Patch::Requests { requests } => self.requests.clone_from(requests),
                Patch::Todos { todos } => {
                    self.changed.todos |= self.todos != *todos;
                    self.todos.clone_from(todos);
                }
                Patch::Usage { usage } => {
                    let shown = |it: &SessionUsage| (it.context, it.window, it.cost);
                    self.changed.usage |= shown(&self.usage) != shown(usage);
                    self.usage.clone_from(usage);
                }
                Patch::Turn { turn } => {
                    let tokens = TokenUsage {
                        input: turn.tokens.input,
                        output: turn.tokens.output,
                        cache_read: turn.tokens.cache_read,
                        cache_write: turn.tokens.cache_write,
                    };
                    self.turns.insert(turn.number, (turn.end.clone(), tokens));
                    while self.turns.len() > KEPT_TURNS {
                        self.turns.pop_first();
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes everything from a document whose changes are no longer known one by one.
    pub(super) fn replace(&mut self, fold: &Fold) {
        let whole = fold.conversation(1);
        let head = Patch::Head { head: Box::new(whole.head) };
        let rest = [
            head,
            Patch::Requests { requests: whole.requests },
            Patch::Todos { todos: whole.todos },
            Patch::Usage { usage: whole.usage },
        ];
        let agent = whole.agent.map(|agent| Patch::Agent { agent: Box::new(agent) });
        let turns = whole.turns.into_iter().map(|turn| Patch::Turn { turn: Box::new(turn) });
        let patches = rest.into_iter().chain(agent).chain(turns).collect();
        self.apply(&Update { from: Revision(0), to: whole.revision, patches });
    }

    pub(super) fn stop_reason(&self, turn: u64) -> (Option<StopReason>, Option<TokenUsage>) {
        let Some((end, usage)) = self.turns.get(&turn) else { return (None, None) };
        let ending = end.as_ref().and_then(|it| it.ending.as_ref());
        let stop = ending.map(|ending| stop_reason(ending, end.as_ref()));
        (stop, Some(*usage).filter(|it| it.total() > 0))
    }
}

/// A to-do as a step of the plan.
pub(super) fn plan_step(todo: &Todo) -> PlanStep {
    let status = match todo.state {
        TodoState::Pending => CallStatus::Pending,
        TodoState::Doing => CallStatus::InProgress,
        TodoState::Done => CallStatus::Completed,
    };
    PlanStep { text: todo.text.clone(), status }
}

/// Why a turn stopped, for a client.
pub(super) fn stop_reason(ending: &TurnEnding, end: Option<&TurnEnd>) -> StopReason {
    let reason = end.and_then(|it| it.reason.as_deref()).unwrap_or_default();
    match ending {
        TurnEnding::Completed if reason.contains("refusal") => StopReason::Refusal,
        TurnEnding::Completed => StopReason::EndTurn,
        TurnEnding::Interrupted | TurnEnding::Aborted { cause: ExitCause::Closed } => {
            StopReason::Cancelled
        }
        TurnEnding::Failed { .. } if reason.contains("max_turns") => StopReason::MaxTurnRequests,
        TurnEnding::Failed { message } => StopReason::Error(message.clone()),
        TurnEnding::Aborted { cause } => StopReason::Error(wording::stop_cause(cause)),
    }
}
