//! What an inspection counts: lines and kinds, sessions with their usage, and anomalies.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;

use view::AgentInfo;
use wire::analysis::{CallEvent, FileChange, Identity, TokenTotals, ToolCalls, UsageTotals};
use wire::event::{Body, Event, Record, Stream, TurnEnded};
use wire::other_agents::AgentStreamReader;
use wire::{Dialect, Kind, Line, Noise, Reading, read};

use super::agent_steps::CountedCall;
use super::input::{InputLine, InputText};

/// How many anomalies of each type are stored, so that an input full of them does not fill memory.
const MAX_STORED: usize = 10_000;

/// Characters that are shown of a line that is not an event.
const EXCERPT_LENGTH: usize = 60;

/// Everything that is counted over an inspection.
#[derive(Default)]
pub(super) struct StreamStatistics {
    pub(super) lines: u64,
    pub(super) bytes: u64,
    pub(super) blank: u64,
    pub(super) noise: Anomalies<NoiseAnomaly>,
    pub(super) events: KindCounts,
    pub(super) unknown: KindCounts,
    /// Where each unknown kind occurs.
    pub(super) unknown_positions: Anomalies<String>,
    pub(super) mismatches: Anomalies<MismatchAnomaly>,
    pub(super) dialects: BTreeMap<Dialect, u64>,
    sessions: Vec<SessionStatistics>,
    by_id: HashMap<String, usize>,
    /// The session in which each message of a request first occurred.
    owners: HashMap<String, usize>,
    /// The current session of the input, an index into `sessions`.
    current: Option<usize>,
    identity: Identity,
    /// What is known of the input's stream, if another agent wrote it.
    agent_stream: AgentStreamReader,
    /// Calls that change files, in order.
    pub(super) files: Vec<FileChangeCall>,
}

impl StreamStatistics {
    /// Starts another input. Lines before its first session id do not belong to the last session.
    pub(super) fn start_input(&mut self) {
        self.current = None;
        self.identity = Identity::default();
        self.agent_stream = AgentStreamReader::default();
    }

    pub(super) fn add_line(&mut self, line: &InputLine<'_>) {
        self.lines += line.lines;
        self.bytes += line.size;
        match line.text {
            InputText::Whole(bytes) => {
                for mut reading in read(bytes) {
                    self.agent_stream.complete(&mut reading);
                    self.add_reading(line, &reading);
                }
            }
            InputText::TooLong => self.noise.add(line.file, line.number, || NoiseAnomaly {
                reason: format!("{} MiB, longer than --max-line", line.size >> 20),
                excerpt: String::new(),
            }),
        }
    }

    fn add_reading(&mut self, at: &InputLine<'_>, line: &Line<'_>) {
        match &line.reading {
            Reading::Event(event) => {
                *self.dialects.entry(line.dialect).or_default() += 1;
                self.add_event(at, event, line.dialect);
            }
            Reading::Unknown(unknown) => {
                self.unknown.add(unknown.kind);
                self.unknown_positions.add(at.file, at.number, || unknown.kind.to_string());
            }
            Reading::Mismatch(mismatch) => self.mismatches.add(at.file, at.number, || {
                MismatchAnomaly { kind: mismatch.kind.to_string(), reason: mismatch.reason.clone() }
            }),
            // Counted, but not listed.
            Reading::Noise(Noise::Blank) => {
                self.blank += 1;
                self.noise.count += 1;
            }
            Reading::Noise(noise) => {
                self.noise.add(at.file, at.number, || NoiseAnomaly::new(*noise, line.bytes));
            }
        }
    }

    fn add_event(&mut self, at: &InputLine<'_>, event: &Event<'_>, dialect: Dialect) {
        match &event.body {
            // The type of such a line is often that of an envelope.
            Body::OtherAgent(other) if event.kind.subtype.is_none() => {
                self.events.add(Kind { subtype: other.detail, ..event.kind });
            }
            _ => self.events.add(event.kind),
        }
        for name in event.unmodelled() {
            self.unknown.add_name(&name);
            self.unknown_positions.add(at.file, at.number, || name);
        }
        let acp_steps = match &event.body {
            Body::Acp(acp) => self.agent_stream.acp_steps(acp),
            _ => Vec::new(),
        };
        let index = self.session_of(event);
        let counted_before = self.was_counted_in_another_session(event, index);
        let session = &mut self.sessions[index];
        if !counted_before {
            session.count_tokens(event);
        }
        session.program.get_or_insert(dialect.program());
        session.add_event(event, dialect, &mut self.files);
        for step in &acp_steps {
            session.add_step(step, &mut self.files);
        }
    }

    /// Whether the event's message was already counted in another session: a fork starts with a copy
    /// of its origin, which was paid for once.
    fn was_counted_in_another_session(&mut self, event: &Event<'_>, index: usize) -> bool {
        let Body::Assistant(assistant) = &event.body else { return false };
        let (Some(id), Some(request)) = (assistant.message.id, assistant.request_id) else {
            return false;
        };
        *self.owners.entry(format!("{id} {request}")).or_insert(index) != index
    }

    /// The index of the event's session. A session without an id takes the first one that follows.
    fn session_of(&mut self, event: &Event<'_>) -> usize {
        if let (None, Some(current)) = (self.identity.observe(event), self.current) {
            return current;
        }
        let id = self.identity.current().map(str::to_owned);
        let known = id.as_ref().and_then(|id| self.by_id.get(id).copied());
        let index = match (known, self.current) {
            (Some(known), _) => known,
            (None, Some(current)) if self.sessions[current].id.is_none() => current,
            _ => {
                self.sessions.push(SessionStatistics::default());
                self.sessions.len() - 1
            }
        };
        if let Some(id) = id {
            self.sessions[index].id = Some(id.clone());
            self.by_id.insert(id, index);
        }
        self.current = Some(index);
        index
    }

    /// Sessions with at least an id, a turn, a call or tokens.
    pub(super) fn known_sessions(&self) -> impl Iterator<Item = &SessionStatistics> {
        self.sessions.iter().filter(|session| !session.is_empty())
    }

    /// Whether anything is unknown or mismatched.
    pub(super) fn has_deviations(&self) -> bool {
        !self.unknown.is_empty() || self.mismatches.count > 0
    }
}

/// What the input contains of one session.
#[derive(Default)]
pub(super) struct SessionStatistics {
    /// The CLI's id; none if no line has one.
    pub(super) id: Option<String>,
    /// The program that wrote its first line.
    program: Option<&'static str>,
    /// Versions of the program, in order of appearance.
    pub(super) versions: Vec<String>,
    pub(super) models: Vec<String>,
    /// The model of `init`, used if no message names one.
    announced_model: Option<String>,
    pub(super) turns: u64,
    pub(super) failed_turns: u64,
    pub(super) cost: CostCounter,
    tally: UsageTotals,
    /// Tokens of other agents' requests.
    pub(super) other_tokens: TokenTotals,
    /// Calls of other agents by id.
    pub(super) agent_calls: HashMap<String, CountedCall>,
    reported: ReportedTokens,
    pub(super) tools: BTreeMap<String, ToolCallCount>,
    /// Per session, because a recording may contain sessions that share call ids.
    calls: ToolCalls,
    /// Indexes into the list of changed files, by the number of the call.
    changes: HashMap<u64, usize>,
    /// Those of the running turn that have a result, by the id of the call.
    ended_changes: HashMap<String, usize>,
    /// Calls that a `result` lists as denied, by tool.
    pub(super) denials: BTreeMap<String, u64>,
    /// What the agent says about itself.
    pub(super) agent: Option<AgentInfo>,
}

/// A call that changes a file.
pub(super) struct FileChangeCall {
    pub(super) path: String,
    pub(super) tool: String,
    /// None if there is no result.
    pub(super) ok: Option<bool>,
}

/// The number of calls of one tool.
#[derive(Clone, Copy, Default)]
pub(super) struct ToolCallCount {
    pub(super) calls: u64,
    pub(super) failed: u64,
}

/// The cost of a session in dollars.
///
/// Each `result` has the total of its process. A resumed session continues that total in 2.1.325 and
/// starts at zero in 2.1.197, so a total that falls belongs to another process.
#[derive(Clone, Copy, Default)]
pub(super) struct CostCounter {
    earlier: f64,
    current: Option<f64>,
}

impl CostCounter {
    pub(super) fn set_total(&mut self, total: f64) {
        if let Some(current) = self.current
            && total < current
        {
            self.earlier += current;
        }
        self.current = Some(total);
    }

    /// None if the input has no cost.
    pub(super) fn dollars(self) -> Option<f64> {
        self.current.map(|current| self.earlier + current)
    }
}

/// The tokens that the CLI itself reports: a total per process, like [`CostCounter`].
#[derive(Default)]
struct ReportedTokens {
    earlier: TokenTotals,
    current: Option<TokenTotals>,
}

impl ReportedTokens {
    fn set_total(&mut self, total: TokenTotals) {
        if let Some(current) = self.current
            && total.output < current.output
        {
            self.earlier = self.earlier.plus(current);
        }
        self.current = Some(total);
    }

    fn tokens(&self) -> Option<TokenTotals> {
        self.current.map(|current| self.earlier.plus(current))
    }
}

impl SessionStatistics {
    fn add_event(&mut self, event: &Event<'_>, dialect: Dialect, files: &mut Vec<FileChangeCall>) {
        self.add_calls(event, files);
        add_name(&mut self.versions, event.envelope.file.as_ref().and_then(|file| file.version));
        match &event.body {
            Body::Init(init) => {
                add_name(&mut self.versions, init.version);
                if self.announced_model.is_none() {
                    self.announced_model = init.model.map(String::from);
                }
                self.agent.get_or_insert_default().apply_init(init);
            }
            Body::Assistant(assistant) => {
                add_name(
                    &mut self.models,
                    assistant.message.model.filter(|model| *model != *"<synthetic>"),
                );
                // Session files have no results: a failed turn shows only in its message.
                if dialect == Dialect::Transcript && assistant.api_error {
                    self.failed_turns += 1;
                }
            }
            Body::Stream(Stream::MessageStart(message)) => {
                add_name(&mut self.models, message.model);
            }
            Body::User(user)
                if dialect == Dialect::Transcript
                    && !user.synthetic
                    && !event.of_sub_agent()
                    && !user.is_tool_result() =>
            {
                self.turns += 1;
            }
            Body::TurnEnded(turn) => self.end_turn(turn, files),
            Body::OtherAgent(other) => {
                for step in &other.steps {
                    self.add_step(step, files);
                }
            }
            Body::Record(Record::CostState(Some(total))) => self.cost.set_total(*total),
            _ => {}
        }
    }

    fn count_tokens(&mut self, event: &Event<'_>) {
        self.tally.observe(event);
    }

    fn add_calls(&mut self, event: &Event<'_>, files: &mut Vec<FileChangeCall>) {
        let Self { calls, tools, changes, ended_changes, .. } = self;
        calls.observe(event, |news| match news {
            CallEvent::Started(call) => {
                tools.entry(call.tool.clone()).or_default().calls += 1;
                if let Some(FileChange { tool, path }) = call.change.clone() {
                    changes.insert(call.number, files.len());
                    files.push(FileChangeCall { path, tool, ok: None });
                }
            }
            CallEvent::Ended { call, failed } => {
                tools.entry(call.tool).or_default().failed += u64::from(failed);
                if let Some(index) = changes.remove(&call.number) {
                    files[index].ok = Some(!failed);
                    ended_changes.insert(call.id, index);
                }
            }
        });
    }

    /// Whether the input has nothing of the session but lines.
    fn is_empty(&self) -> bool {
        self.id.is_none()
            && self.turns == 0
            && self.tools.is_empty()
            && self.tokens() == TokenTotals::default()
    }

    fn end_turn(&mut self, turn: &TurnEnded<'_>, files: &mut [FileChangeCall]) {
        let changes = std::mem::take(&mut self.ended_changes);
        for denial in turn.denials() {
            let tool = denial.tool_name.map(String::from).unwrap_or_default();
            *self.denials.entry(tool).or_default() += 1;
            let id = denial.tool_use_id.map(String::from).unwrap_or_default();
            // A denied call changes nothing, even if its result is not marked as an error.
            if let Some(file) = changes.get(&id).and_then(|&index| files.get_mut(index))
                && file.ok == Some(true)
            {
                file.ok = Some(false);
                self.tools.entry(file.tool.clone()).or_default().failed += 1;
            }
        }
        self.turns += 1;
        self.failed_turns += u64::from(turn.failed());
        if let Some(total) = turn.total_cost_usd {
            self.cost.set_total(total);
        }
        let reported: TokenTotals = turn.models().map(|model| TokenTotals::from(model.usage)).sum();
        if reported != TokenTotals::default() {
            self.reported.set_total(reported);
        }
    }

    pub(super) fn models(&self) -> Vec<&str> {
        if self.models.is_empty() {
            self.announced_model.iter().map(String::as_str).collect()
        } else {
            self.models.iter().map(String::as_str).collect()
        }
    }

    /// The tokens of every message in the input, each counted once.
    pub(super) fn tokens(&self) -> TokenTotals {
        self.tally.total().plus(self.other_tokens)
    }

    /// The program that wrote the session, for example `claude`.
    pub(super) fn program(&self) -> &'static str {
        self.program.unwrap_or("claude")
    }

    /// The tokens that the CLI reports, including requests that are not in the stream.
    pub(super) fn reported_tokens(&self) -> Option<TokenTotals> {
        self.reported.tokens()
    }
}

fn add_name(names: &mut Vec<String>, name: Option<wire::json::Text<'_>>) {
    if let Some(name) = name
        && !name.is_empty()
        && !names.iter().any(|known| name == **known)
    {
        names.push(name.into());
    }
}

pub(super) fn add_owned_name(names: &mut Vec<String>, name: Option<&str>) {
    if let Some(name) = name.filter(|name| !name.is_empty())
        && !names.iter().any(|known| known == name)
    {
        names.push(name.to_owned());
    }
}

/// How often each kind occurs.
///
/// A stream has a few dozen kinds, and most of its lines have the same one. So a list that keeps
/// frequent kinds in front is faster than hashing every line's kind, and allocates once per kind.
#[derive(Default)]
pub(super) struct KindCounts {
    counts: Vec<KindCount>,
}

struct KindCount {
    name: String,
    subtype: Option<String>,
    times: u64,
}

impl KindCounts {
    fn add(&mut self, kind: Kind<'_>) {
        let index = self.counts.iter().position(|count| {
            kind.name == *count.name
                && match (&count.subtype, kind.subtype) {
                    (Some(known), Some(found)) => found == **known,
                    (None, None) => true,
                    _ => false,
                }
        });
        let Some(index) = index else {
            let subtype = kind.subtype.map(String::from);
            self.counts.push(KindCount { name: kind.name.into(), subtype, times: 1 });
            return;
        };
        self.counts[index].times += 1;
        if index > 0 && self.counts[index].times > self.counts[index - 1].times {
            self.counts.swap(index, index - 1);
        }
    }

    /// Counts a name that is not the kind of a line.
    fn add_name(&mut self, name: &impl Display) {
        let name = name.to_string();
        match self.counts.iter_mut().find(|count| count.subtype.is_none() && count.name == name) {
            Some(count) => count.times += 1,
            None => self.counts.push(KindCount { name, subtype: None, times: 1 }),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Names with their counts, by name.
    pub(super) fn by_name(&self) -> BTreeMap<String, u64> {
        let name = |count: &KindCount| match &count.subtype {
            Some(subtype) => format!("{}/{subtype}", count.name),
            None => count.name.clone(),
        };
        self.counts.iter().map(|count| (name(count), count.times)).collect()
    }

    /// Names with their counts, the most frequent first.
    pub(super) fn by_frequency(&self) -> Vec<(String, u64)> {
        let mut counts: Vec<_> = self.by_name().into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }
}

/// The anomalies of one type, the first few thousand with their position.
pub(super) struct Anomalies<T> {
    pub(super) listed: Vec<Anomaly<T>>,
    pub(super) count: u64,
}

/// An anomaly and its position.
pub(super) struct Anomaly<T> {
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) what: T,
}

/// A known kind in an unexpected shape.
pub(super) struct MismatchAnomaly {
    pub(super) kind: String,
    pub(super) reason: String,
}

/// A line that is not an event.
pub(super) struct NoiseAnomaly {
    pub(super) reason: String,
    /// The beginning of the line, escaped for terminals.
    pub(super) excerpt: String,
}

impl<T> Default for Anomalies<T> {
    fn default() -> Self {
        Self { listed: Vec::new(), count: 0 }
    }
}

impl<T> Anomalies<T> {
    fn add(&mut self, file: &str, line: u64, what: impl FnOnce() -> T) {
        self.count += 1;
        if self.listed.len() < MAX_STORED {
            self.listed.push(Anomaly { file: file.to_owned(), line, what: what() });
        }
    }
}

impl NoiseAnomaly {
    fn new(noise: Noise, bytes: &[u8]) -> Self {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT_LENGTH * 4)]);
        let mut excerpt: String =
            start.chars().take(EXCERPT_LENGTH).flat_map(char::escape_debug).collect();
        if start.chars().nth(EXCERPT_LENGTH).is_some() {
            excerpt.push('…');
        }
        Self { reason: noise.to_string(), excerpt }
    }
}
