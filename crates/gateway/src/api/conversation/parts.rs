//! The parts of a conversation beside its items, as clients see them: status, queue, requests,
//! usage, turns.
//!
//! Clients get these types and not those of `view`, so that the API changes only on purpose and
//! has a schema.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use view::html::{HtmlOptions, turn_end};
use view::{CallState, SessionPhase, TodoState};
use wire::note::{Delivery, ExitCause, HoldReason, PromptState, TurnEnding};

use crate::limits::MAX_TODO_BYTES;
use crate::problem::ActorResponse;

/// What a session is, as far as its agent has reported it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Head)]
pub(crate) struct HeadResponse {
    /// The CLI's session id.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The permission mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<String>,
    /// The working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    /// The version of the CLI.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// A next prompt that the agent suggests.
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<String>,
}

impl From<view::ConversationHead> for HeadResponse {
    fn from(it: view::ConversationHead) -> Self {
        Self {
            session: it.session,
            title: it.title,
            model: it.model,
            mode: it.mode,
            effort: it.effort,
            cwd: it.cwd,
            version: it.version,
            suggestion: it.suggestion,
        }
    }
}

/// What a session is doing.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Status)]
pub(crate) struct StatusResponse {
    phase: PhaseResponse,
    /// When the phase started, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    /// When the running turn started.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_since: Option<u64>,
    /// Whether queued prompts wait until the queue is resumed.
    queue_held: bool,
    /// The budget that holds the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<SpentBudgetResponse>,
    /// How many prompts are sent later.
    schedules: u32,
    /// When the next of them is sent, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_schedule: Option<u64>,
    /// What someone has to do before the agent works.
    #[serde(skip_serializing_if = "Option::is_none")]
    sign_in: Option<SignInResponse>,
}

/// The agent does nothing before someone signs in with the agent's own program.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = SignIn)]
pub(crate) struct SignInResponse {
    /// What to do.
    text: String,
    /// The ways to sign in that the agent names.
    methods: Vec<String>,
}

impl From<view::SignInNeed> for SignInResponse {
    fn from(view::SignInNeed { text, methods }: view::SignInNeed) -> Self {
        Self { text, methods }
    }
}

/// A budget that is spent, so that queued prompts wait. To resume the queue allows the same amount again.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = SpentBudget)]
pub(crate) struct SpentBudgetResponse {
    /// Dollars.
    spent: f64,
    /// How many dollars were allowed.
    limit: f64,
    /// Whether it is the budget of the day, for all sessions.
    of_day: bool,
    /// What to ask a person: `$5.02 of $5.00 spent. Go on?`.
    question: String,
}

impl SpentBudgetResponse {
    fn of(hold: &HoldReason) -> Option<Self> {
        let HoldReason::Budget { spent, limit, day } = *hold else { return None };
        let question = view::wording::budget_question(hold)?;
        Some(Self { spent, limit, of_day: day.is_some(), question })
    }
}

/// What a session can be doing.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schema(as = SessionPhase)]
pub(crate) enum PhaseResponse {
    /// Waits for a prompt.
    Idle,
    /// The agent process is starting.
    Starting,
    /// The model has not started to answer, or nothing more is known.
    Working,
    Thinking {
        /// How much so far, estimated.
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
    },
    Writing,
    /// A tool runs.
    Running {
        tool: String,
        target: String,
        /// The item of the call.
        item: String,
        /// How many other tools run at the same time.
        others: u32,
    },
    /// A user has to answer.
    Waiting {
        /// How many requests are open.
        requests: u32,
    },
    /// The API failed and is tried again.
    Retrying {
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_attempts: Option<u64>,
        /// Milliseconds from `since` until the next attempt.
        #[serde(skip_serializing_if = "Option::is_none")]
        delay_ms: Option<u64>,
    },
    /// The history is being summarised.
    Compacting,
    /// The turn was interrupted and has not stopped yet.
    Interrupting,
    /// The turn has been silent for a while.
    Stalled {
        seconds: u64,
    },
    /// There is no agent process.
    Stopped {
        cause: StopCauseResponse,
    },
}

/// Why there is no agent process.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "cause", rename_all = "snake_case")]
#[schema(as = StopCause)]
pub(crate) enum StopCauseResponse {
    NotStarted {
        message: String,
    },
    NotReady,
    Exited {
        code: i32,
        stderr: String,
    },
    Killed {
        signal: i32,
    },
    /// It was ended because it did not obey an interrupt.
    Disobeyed,
    /// It was idle; the next prompt starts it again.
    Parked,
    /// A user ended it.
    Closed,
    /// It was stopped to be started with changed options at the next prompt.
    Restarted,
    /// Its shim was killed or the machine went down.
    Lost,
}

impl From<view::ConversationStatus> for StatusResponse {
    fn from(it: view::ConversationStatus) -> Self {
        Self {
            phase: it.phase.into(),
            since: it.since,
            turn_since: it.turn_since,
            queue_held: it.queue_hold.is_some(),
            budget: it.queue_hold.as_ref().and_then(SpentBudgetResponse::of),
            schedules: it.schedules,
            next_schedule: it.next_schedule,
            sign_in: it.sign_in.map(SignInResponse::from),
        }
    }
}

impl From<SessionPhase> for PhaseResponse {
    fn from(phase: SessionPhase) -> Self {
        match phase {
            SessionPhase::Idle => Self::Idle,
            SessionPhase::Starting => Self::Starting,
            SessionPhase::Working => Self::Working,
            SessionPhase::Thinking { tokens } => Self::Thinking { tokens },
            SessionPhase::Writing => Self::Writing,
            SessionPhase::Running { tool, target, item, others } => {
                Self::Running { tool, target, item: item.to_string(), others }
            }
            SessionPhase::Waiting { requests } => Self::Waiting { requests },
            SessionPhase::Retrying { attempt, max_attempts, delay_ms } => {
                Self::Retrying { attempt, max_attempts, delay_ms }
            }
            SessionPhase::Compacting => Self::Compacting,
            SessionPhase::Interrupting => Self::Interrupting,
            SessionPhase::Stalled { seconds } => Self::Stalled { seconds },
            SessionPhase::Stopped { cause } => Self::Stopped { cause: cause.into() },
        }
    }
}

impl From<ExitCause> for StopCauseResponse {
    fn from(cause: ExitCause) -> Self {
        match cause {
            ExitCause::NotStarted { message } => Self::NotStarted { message },
            ExitCause::NotReady => Self::NotReady,
            ExitCause::Exited { code, stderr } => Self::Exited { code, stderr },
            ExitCause::Killed { signal } => Self::Killed { signal },
            ExitCause::Unresponsive => Self::Disobeyed,
            ExitCause::Parked => Self::Parked,
            ExitCause::Closed => Self::Closed,
            ExitCause::Restarted => Self::Restarted,
            ExitCause::Lost => Self::Lost,
        }
    }
}

/// A prompt that waits for its turn.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = QueuedPrompt)]
pub(crate) struct QueuedPromptResponse {
    id: String,
    text: String,
    /// How many images go with it.
    images: usize,
    delivery: DeliveryKind,
    state: PromptStateName,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<ActorResponse>,
    /// When it was sent, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
}

/// When a prompt goes to the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Delivery)]
pub(crate) enum DeliveryKind {
    /// After the running turn.
    #[default]
    Queue,
    /// Into the running turn.
    Steer,
}

/// The state of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PromptState)]
pub(crate) enum PromptStateName {
    Queued,
    Written,
    Accepted,
    Done,
    Cancelled,
    /// The agent died while it was on its way, so it is unknown whether it arrived.
    Indeterminate,
}

impl From<view::QueuedPrompt> for QueuedPromptResponse {
    fn from(it: view::QueuedPrompt) -> Self {
        Self {
            id: it.id,
            text: it.text,
            images: it.images,
            delivery: it.delivery.into(),
            state: it.state.into(),
            by: it.by.map(ActorResponse::from),
            at: it.at,
        }
    }
}

impl From<Delivery> for DeliveryKind {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Queue => Self::Queue,
            Delivery::Steer => Self::Steer,
        }
    }
}

impl From<DeliveryKind> for Delivery {
    fn from(kind: DeliveryKind) -> Self {
        match kind {
            DeliveryKind::Queue => Self::Queue,
            DeliveryKind::Steer => Self::Steer,
        }
    }
}

impl From<PromptState> for PromptStateName {
    fn from(state: PromptState) -> Self {
        match state {
            PromptState::Queued => Self::Queued,
            PromptState::Written => Self::Written,
            PromptState::Accepted => Self::Accepted,
            PromptState::Done => Self::Done,
            PromptState::Cancelled => Self::Cancelled,
            PromptState::Indeterminate => Self::Indeterminate,
        }
    }
}

/// An entry of the agent's to-do list.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Todo)]
pub(crate) struct TodoResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    text: String,
    /// The text to show while it is being done.
    #[serde(skip_serializing_if = "Option::is_none")]
    doing: Option<String>,
    state: TodoStateName,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TodoState)]
pub(crate) enum TodoStateName {
    Pending,
    Doing,
    Done,
}

impl From<view::Todo> for TodoResponse {
    fn from(it: view::Todo) -> Self {
        let state = match it.state {
            TodoState::Pending => TodoStateName::Pending,
            TodoState::Doing => TodoStateName::Doing,
            TodoState::Done => TodoStateName::Done,
        };
        let shortened = |mut text: String| {
            text.truncate(text.floor_char_boundary(MAX_TODO_BYTES));
            text
        };
        Self { id: it.id, text: shortened(it.text), doing: it.doing.map(shortened), state }
    }
}

/// What a session has used so far.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Usage)]
pub(crate) struct UsageResponse {
    tokens: TokenCountsResponse,
    /// Dollars, if the agent reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    /// Tokens in the context of the main agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<u64>,
    /// Tokens that fit into the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanLimitResponse>,
    /// The windows of the plan, as last reported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    windows: Vec<PlanLimitResponse>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq, ToSchema)]
#[schema(as = TokenCounts)]
pub(crate) struct TokenCountsResponse {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
}

/// How much of the subscription's limit is used.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PlanLimit)]
pub(crate) struct PlanLimitResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<String>,
    /// In seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    resets_at: Option<f64>,
    /// From 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<f64>,
}

impl From<view::SessionUsage> for UsageResponse {
    fn from(it: view::SessionUsage) -> Self {
        Self {
            tokens: it.tokens.into(),
            cost: it.cost,
            context: it.context,
            window: it.window,
            plan: it.plan.map(Into::into),
            windows: it.windows.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<view::PlanLimit> for PlanLimitResponse {
    fn from(it: view::PlanLimit) -> Self {
        let view::PlanLimit { status, window, resets_at, used } = it;
        Self { status, window, resets_at, used }
    }
}

impl From<view::TokenCounts> for TokenCountsResponse {
    fn from(it: view::TokenCounts) -> Self {
        Self {
            input: it.input,
            output: it.output,
            cache_read: it.cache_read,
            cache_write: it.cache_write,
        }
    }
}

/// A turn and the line that ends it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Turn)]
pub(crate) struct TurnResponse {
    /// From 1 on; 0 holds what came before the first turn.
    number: u64,
    /// The revision of its last change.
    rev: u64,
    /// The first entry of the journal that belongs to it.
    first: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    started: Option<u64>,
    /// The items of the prompts it answers.
    prompts: Vec<String>,
    /// Why the agent started it by itself, in the agent's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    tokens: TokenCountsResponse,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    /// A rewind removed it from the agent's memory.
    rewound: bool,
    /// The files it changed, in the order of their first change.
    files: Vec<EditedFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<TurnEndResponse>,
    /// The line that ends it; empty while it runs.
    html: String,
}

/// A file that a turn changed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct EditedFile {
    path: String,
    /// How often it was changed.
    edits: u32,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = TurnEnd)]
pub(crate) struct TurnEndResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    ending: Option<TurnEndingName>,
    /// Why the CLI stopped, in its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TurnEnding)]
pub(crate) enum TurnEndingName {
    Completed,
    Failed,
    Interrupted,
    /// The agent died.
    Cut,
}

impl TurnResponse {
    pub(crate) fn new(turn: view::Turn, look: HtmlOptions<'_>) -> Self {
        let mut html = String::new();
        turn_end(&turn, look, &mut html);
        Self {
            number: turn.number,
            rev: turn.rev.0,
            first: turn.first,
            started: turn.started,
            prompts: turn.prompts.iter().map(ToString::to_string).collect(),
            origin: turn.origin,
            tokens: turn.tokens.into(),
            cost: turn.cost,
            rewound: turn.rewound,
            files: turn
                .files
                .into_iter()
                .map(|it| EditedFile { path: it.path, edits: it.edits })
                .collect(),
            end: turn.end.map(|end| TurnEndResponse {
                ending: end.ending.map(|it| match it {
                    TurnEnding::Completed => TurnEndingName::Completed,
                    TurnEnding::Failed { .. } => TurnEndingName::Failed,
                    TurnEnding::Interrupted => TurnEndingName::Interrupted,
                    TurnEnding::Aborted { .. } => TurnEndingName::Cut,
                }),
                reason: end.reason,
                at: end.at,
                duration_ms: end.duration_ms,
            }),
            html,
        }
    }
}

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CallState)]
pub(crate) enum CallStateName {
    Writing,
    Waiting,
    Running,
    Done,
    Failed,
    Denied,
    Unanswered,
}

impl From<CallState> for CallStateName {
    fn from(state: CallState) -> Self {
        match state {
            CallState::Writing => Self::Writing,
            CallState::Waiting => Self::Waiting,
            CallState::Running => Self::Running,
            CallState::Done => Self::Done,
            CallState::Failed => Self::Failed,
            CallState::Denied => Self::Denied,
            CallState::Unanswered => Self::Unanswered,
        }
    }
}
