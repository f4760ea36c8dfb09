//! What is known of one session.

use std::collections::{BTreeMap, HashMap};

use wire::Dialect;
use wire::event::{Body, Event, Record, Stream, TurnEnded};
use wire::meaning::{CallNews, Calls, FileChange, Tally, Tokens};

/// A session, as far as the input tells.
#[derive(Default)]
pub(super) struct Session {
    /// The CLI's id; none where no line names one.
    pub(super) id: Option<String>,
    /// Versions of the CLI, in the order they were met.
    pub(super) versions: Vec<String>,
    models: Vec<String>,
    /// The model of `init`, which counts where no message names one.
    announced_model: Option<String>,
    pub(super) turns: u64,
    pub(super) failed_turns: u64,
    pub(super) cost: Cost,
    tally: Tally,
    reported: Reported,
    pub(super) tools: BTreeMap<String, ToolCount>,
    /// Ids of calls are the API's, but a recording may hold sessions that share them.
    calls: Calls,
    /// Where the files that calls change are listed, by the number of the call.
    changes: HashMap<u64, usize>,
}

/// A file that a call was to change.
pub(super) struct ChangedFile {
    pub(super) path: String,
    pub(super) tool: String,
    /// Nothing where the result never came.
    pub(super) ok: Option<bool>,
}

/// Calls of one tool.
#[derive(Clone, Copy, Default)]
pub(super) struct ToolCount {
    pub(super) calls: u64,
    pub(super) failed: u64,
}

/// Dollars over the life of a session.
///
/// Each `result` tells the total of its process. A resumed session goes on from there in 2.1.325
/// and begins at nothing in 2.1.197, so a total that falls is another process's.
#[derive(Clone, Copy, Default)]
pub(super) struct Cost {
    earlier: f64,
    current: Option<f64>,
}

impl Cost {
    fn told(&mut self, total: f64) {
        if let Some(current) = self.current
            && total < current
        {
            self.earlier += current;
        }
        self.current = Some(total);
    }

    /// Nothing where the input does not tell.
    pub(super) fn dollars(self) -> Option<f64> {
        self.current.map(|current| self.earlier + current)
    }
}

/// What the CLI itself counts: like [`Cost`], a total per process.
#[derive(Default)]
struct Reported {
    earlier: Tokens,
    current: Option<Tokens>,
}

impl Reported {
    fn told(&mut self, total: Tokens) {
        if let Some(current) = self.current
            && total.output < current.output
        {
            self.earlier = self.earlier.plus(current);
        }
        self.current = Some(total);
    }

    fn tokens(&self) -> Option<Tokens> {
        self.current.map(|current| self.earlier.plus(current))
    }
}

impl Session {
    pub(super) fn named(id: Option<String>) -> Self {
        Self { id, ..Self::default() }
    }

    pub(super) fn take(
        &mut self,
        event: &Event<'_>,
        dialect: Dialect,
        files: &mut Vec<ChangedFile>,
    ) {
        self.take_calls(event, files);
        note(&mut self.versions, event.envelope.file.as_ref().and_then(|file| file.version));
        match &event.body {
            Body::Init(init) => {
                note(&mut self.versions, init.version);
                if self.announced_model.is_none() {
                    self.announced_model = init.model.map(String::from);
                }
            }
            Body::Assistant(assistant) => {
                note(
                    &mut self.models,
                    assistant.message.model.filter(|model| *model != *"<synthetic>"),
                );
                // Session files have no results; a turn that failed shows in the message alone.
                if dialect == Dialect::Transcript && assistant.api_error {
                    self.failed_turns += 1;
                }
            }
            Body::Stream(Stream::MessageStart(message)) => note(&mut self.models, message.model),
            Body::User(user)
                if dialect == Dialect::Transcript
                    && !user.synthetic
                    && !event.of_sub_agent()
                    && !user.is_tool_result() =>
            {
                self.turns += 1;
            }
            Body::TurnEnded(turn) => self.end_turn(turn),
            Body::Record(Record::CostState(Some(total))) => self.cost.told(*total),
            _ => {}
        }
    }

    /// Counts what the event says of tokens.
    pub(super) fn count_tokens(&mut self, event: &Event<'_>) {
        self.tally.observe(event);
    }

    fn take_calls(&mut self, event: &Event<'_>, files: &mut Vec<ChangedFile>) {
        let Self { calls, tools, changes, .. } = self;
        calls.observe(event, |news| match news {
            CallNews::Begun(call) => {
                tools.entry(call.tool.clone()).or_default().calls += 1;
                if let Some(FileChange { tool, path }) = call.change.clone() {
                    changes.insert(call.number, files.len());
                    files.push(ChangedFile { path, tool, ok: None });
                }
            }
            CallNews::Ended { call, failed } => {
                tools.entry(call.tool).or_default().failed += u64::from(failed);
                if let Some(place) = changes.remove(&call.number) {
                    files[place].ok = Some(!failed);
                }
            }
        });
    }

    /// Whether nothing is known of it but that there were lines.
    pub(super) fn is_empty(&self) -> bool {
        self.id.is_none()
            && self.turns == 0
            && self.tools.is_empty()
            && self.tokens() == Tokens::default()
    }

    fn end_turn(&mut self, turn: &TurnEnded<'_>) {
        self.turns += 1;
        self.failed_turns += u64::from(turn.failed());
        if let Some(total) = turn.total_cost_usd {
            self.cost.told(total);
        }
        let reported: Tokens = turn.models().map(|model| Tokens::from(model.usage)).sum();
        if reported != Tokens::default() {
            self.reported.told(reported);
        }
    }

    pub(super) fn models(&self) -> Vec<&str> {
        if self.models.is_empty() {
            self.announced_model.iter().map(String::as_str).collect()
        } else {
            self.models.iter().map(String::as_str).collect()
        }
    }

    /// Tokens of every message in the input, each counted once.
    pub(super) fn tokens(&self) -> Tokens {
        self.tally.total()
    }

    /// Tokens as the CLI counts them, requests that never show in the stream included.
    pub(super) fn reported_tokens(&self) -> Option<Tokens> {
        self.reported.tokens()
    }
}

fn note(names: &mut Vec<String>, name: Option<wire::json::Text<'_>>) {
    if let Some(name) = name
        && !name.is_empty()
        && !names.iter().any(|known| name == **known)
    {
        names.push(name.into());
    }
}
