//! Runs one scenario with one agent, step by step.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::acp::{acp_input_bytes, opening_steps};
use super::agent::VerifyAgent;
use super::normalizer::VerifyNormalizer;
use super::process::{VerifyProcess, VerifyStdin, describe_exit};
use super::sandbox::VerifySandbox;
use super::steps::{VerifyControlRequests, input_bytes};
use super::transcript::{
    VerifyDirection, VerifyTranscript, VerifyTranscriptEntry, has_kind, is_request, line_kind,
};
use super::{VerifyDifference, VerifyFailure};
use crate::api::ApiServer;
use crate::scenario::{
    Scenario, ScenarioExpectation, ScenarioItem, ScenarioMismatch, ScenarioOrder, ScenarioProtocol,
    ScenarioRun, ScenarioSignal, ScenarioVariables, Step, match_value,
};

/// The arguments of every agent that speaks stream-json, unless a scenario replaces them.
const ARGUMENTS: [&str; 6] =
    ["-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"];

/// How long to wait before checking that a process is still running.
pub(super) const SETTLE_TIME: Duration = Duration::from_millis(300);

/// How long an agent may take to exit after the end of its input, if the scenario has no `exit`.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an agent whose turn is over must be silent until a step that waits for a line fails: this part of
/// the timeout, so that a slow machine gets more. What works in the background may still print something.
const QUIET_PART: u32 = 4;
const MIN_QUIET: Duration = Duration::from_secs(3);

/// How long an agent may take to exit after the end of its output.
pub(super) const EXIT_AFTER_OUTPUT: Duration = Duration::from_secs(2);

/// A running scenario.
pub(super) struct VerifyRunner<'a> {
    scenario: &'a Scenario,
    agent: &'a VerifyAgent,
    pub(super) sandbox: &'a VerifySandbox,
    pub(super) server: &'a ApiServer,
    pub(super) timeout: Duration,
    pub(super) transcript: VerifyTranscript,
    pub(super) variables: ScenarioVariables,
    runs: Vec<VerifyRun>,
    /// The index of the first of the concurrent runs.
    group: usize,
    /// The index of the run that the steps are about.
    current: usize,
}

/// A process of the agent and the state of its expectations.
pub(super) struct VerifyRun {
    pub(super) process: VerifyProcess,
    /// The index in the transcript after the line that was matched last.
    position: usize,
    /// For adjacent expectations in any order: where they started, and the entries they matched.
    any_order: Option<(usize, Vec<usize>)>,
    forbidden: Vec<VerifyForbiddenLine>,
    /// Checks for the end of the run.
    final_checks: Vec<ScenarioItem<Step>>,
    requests: VerifyControlRequests,
}

/// A line that must not appear before the next expectation is met.
struct VerifyForbiddenLine {
    /// The line of the scenario.
    line: usize,
    /// The index in the transcript from which on it is forbidden.
    from: usize,
    expectation: ScenarioExpectation,
}

impl<'a> VerifyRunner<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        agent: &'a VerifyAgent,
        sandbox: &'a VerifySandbox,
        server: &'a ApiServer,
        variables: ScenarioVariables,
        timeout: Duration,
    ) -> Self {
        Self {
            scenario,
            agent,
            sandbox,
            server,
            timeout,
            transcript: VerifyTranscript::new(),
            variables,
            runs: Vec::new(),
            group: 0,
            current: 0,
        }
    }

    /// Runs the scenario to its end or to the first difference.
    pub(super) async fn run(&mut self) -> Result<(), VerifyFailure> {
        let (scenario, agent) = (self.scenario, self.agent);
        let runs = scenario.runs.iter().filter(|run| agent.meets(&run.condition));
        for (index, run) in runs.enumerate() {
            if index > 0 && !run.value.concurrent {
                self.end_group().await?;
            }
            self.start(&run.value, run.line)?;
            if index == 0 && scenario.setup.session && scenario.protocol == ScenarioProtocol::Acp {
                for item in opening_steps(run.line) {
                    self.step(&item).await?;
                }
            }
            for item in run.value.steps.iter().filter(|item| agent.meets(&item.condition)) {
                self.step(item).await?;
            }
        }
        self.end_group().await
    }

    pub(super) fn transcript(&self) -> &VerifyTranscript {
        &self.transcript
    }

    pub(super) fn variables(&self) -> &ScenarioVariables {
        &self.variables
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &VerifyProcess> {
        self.runs.iter().map(|run| &run.process)
    }

    fn start(&mut self, run: &ScenarioRun, line: usize) -> Result<(), VerifyFailure> {
        let is_stream_json = self.scenario.protocol == ScenarioProtocol::StreamJson;
        let own = run.args.iter().filter(|item| self.agent.meets(&item.condition));
        let own = own.map(|item| self.variables.expand(&item.value));
        let mut arguments: Vec<String> = Vec::new();
        if is_stream_json && !run.only_args {
            arguments.extend(ARGUMENTS.map(str::to_owned));
        }
        if is_stream_json && self.runs.is_empty() && self.scenario.setup.session {
            let session = self.variables.get("session").unwrap_or_default();
            arguments.extend(["--session-id".to_owned(), session.to_owned()]);
        }
        arguments.extend(own);
        let stdin =
            if self.scenario.setup.no_stdin { VerifyStdin::Null } else { VerifyStdin::Pipe };
        let number = self.runs.len() + 1;
        let command = self.agent.command_for(self.scenario.protocol).unwrap_or_default();
        if let Some(program) = command.first() {
            self.variables.set("program", program.display().to_string());
        }
        // A process can print before this function goes on, so the position is taken first.
        let position = self.transcript.entries().len();
        let process =
            VerifyProcess::start(number, command, arguments, stdin, self.sandbox, &self.transcript);
        let process = process.map_err(|error| {
            VerifyFailure::CouldNotRun(format!("line {line}: could not start the agent: {error}"))
        })?;
        self.current = self.runs.len();
        if !run.concurrent {
            self.group = self.current;
        }
        self.runs.push(VerifyRun {
            process,
            position,
            any_order: None,
            forbidden: Vec::new(),
            final_checks: Vec::new(),
            requests: Vec::new(),
        });
        Ok(())
    }

    pub(super) fn current(&self) -> &VerifyRun {
        &self.runs[self.current]
    }

    fn current_mut(&mut self) -> &mut VerifyRun {
        &mut self.runs[self.current]
    }

    async fn step(&mut self, item: &ScenarioItem<Step>) -> Result<(), VerifyFailure> {
        let line = item.line;
        if !matches!(item.value, Step::Expect { order: ScenarioOrder::AnyOrder, .. }) {
            self.current_mut().any_order = None;
        }
        match &item.value {
            Step::Expect { expectation, name, order } => {
                self.expect(line, expectation, name.as_deref(), *order).await
            }
            Step::Never(expectation) => {
                let (from, expectation) = (self.current().position, expectation.clone());
                let forbidden = VerifyForbiddenLine { line, from, expectation };
                self.current_mut().forbidden.push(forbidden);
                Ok(())
            }
            Step::Says(text) => self.check_says(line, text).await,
            Step::Count { .. } | Step::Stderr(_) => {
                self.current_mut().final_checks.push(item.clone());
                Ok(())
            }
            Step::Open(gate) => {
                self.server.open(gate);
                Ok(())
            }
            Step::ApiRequest { number, pattern } => {
                self.check_request(line, *number, pattern).await
            }
            Step::ApiRequests(count) => self.check_request_count(line, *count).await,
            Step::Signal(signal) => {
                self.current().process.signal(*signal);
                Ok(())
            }
            Step::CloseInput => {
                self.current_mut().process.close_stdin();
                Ok(())
            }
            Step::Exit(_) | Step::ExitBySignal(_) => self.check_exit(line, &item.value).await,
            Step::Alive => {
                sleep(SETTLE_TIME).await;
                match self.current().process.status() {
                    None => Ok(()),
                    Some(status) => {
                        let actual = describe_exit(status);
                        Err(self.difference(line, "the agent is running", &actual))
                    }
                }
            }
            Step::FileIs { .. }
            | Step::FileIsNot(_)
            | Step::WaitFile(_)
            | Step::Gone(_)
            | Step::Left(_) => self.check_surroundings(line, &item.value).await,
            Step::At(number) => {
                let index = self.group + number.saturating_sub(1);
                if *number == 0 || index >= self.runs.len() {
                    let problem = format!("line {line}: there is no process {number}");
                    return Err(VerifyFailure::CouldNotRun(problem));
                }
                self.current = index;
                Ok(())
            }
            input => self.write(line, input).await,
        }
    }

    async fn write(&mut self, line: usize, input: &Step) -> Result<(), VerifyFailure> {
        let requests = &self.runs[self.current].requests;
        let bytes = match self.scenario.protocol {
            ScenarioProtocol::StreamJson => input_bytes(input, &mut self.variables, requests),
            ScenarioProtocol::Acp => acp_input_bytes(input, &mut self.variables, requests),
        };
        let bytes = bytes
            .map_err(|problem| VerifyFailure::CouldNotRun(format!("line {line}: {problem}")))?;
        let limit = self.timeout;
        if timeout(limit, self.current_mut().process.write(&bytes)).await.is_err() {
            let failure = self.timeout_difference(line, "the agent reads its stdin", "it does not");
            return Err(self.judge_late(failure).await);
        }
        Ok(())
    }

    /// Ends the concurrent processes and performs the checks for the end of their runs.
    async fn end_group(&mut self) -> Result<(), VerifyFailure> {
        for run in &mut self.runs[self.group..] {
            run.process.close_stdin();
            // A process that does not exit is a difference only if the scenario has an `exit`.
            if timeout(EXIT_TIMEOUT.min(self.timeout), run.process.wait()).await.is_err() {
                run.process.signal(ScenarioSignal::Kill);
                let _ = timeout(EXIT_TIMEOUT, run.process.wait()).await;
            }
        }
        let end = self.transcript.entries().len();
        for index in self.group..self.runs.len() {
            self.current = index;
            self.check_forbidden(end)?;
            for item in std::mem::take(&mut self.current_mut().final_checks) {
                self.check_end(&item)?;
            }
        }
        Ok(())
    }

    /// Waits for a line that matches, after the line that the previous expectation matched.
    async fn expect(
        &mut self,
        line: usize,
        expectation: &ScenarioExpectation,
        name: Option<&str>,
        order: ScenarioOrder,
    ) -> Result<(), VerifyFailure> {
        let position = self.current().position;
        let (from, matched) = match order {
            ScenarioOrder::InOrder => (position, Vec::new()),
            ScenarioOrder::AnyOrder => {
                self.current().any_order.clone().unwrap_or((position, Vec::new()))
            }
        };
        let deadline = Instant::now() + self.timeout;
        let mut changes = self.transcript.subscribe();
        let mut next = from;
        let mut closest: Option<(ScenarioMismatch, Value)> = None;
        loop {
            // This is read before the search: if it is true, all output is in the transcript.
            let is_done = self.current().process.is_stdout_done();
            let found = self.search(expectation, &mut next, &matched, &mut closest);
            if let Some((index, value, variables)) = found {
                self.variables = variables;
                self.matched(name, index, &value, (order, from, matched));
                return self.check_forbidden(index);
            }
            if is_done {
                // The process is about to exit, and the report should contain its exit status.
                let _ = timeout(EXIT_AFTER_OUTPUT, self.current().process.wait()).await;
                return Err(self.unmatched(line, expectation, from, closest, self.timeout));
            }
            let quiet = Instant::now() + (self.timeout / QUIET_PART).max(MIN_QUIET);
            if timeout_at(deadline.min(quiet), changes.changed()).await.is_err() {
                let is_late = Instant::now() >= deadline;
                if is_late || (self.is_turn_over() && !self.sandbox.is_working().await) {
                    let waited = self
                        .timeout
                        .saturating_sub(deadline.saturating_duration_since(Instant::now()));
                    let failure = self.unmatched(line, expectation, from, closest, waited);
                    return Err(if is_late { self.judge_late(failure).await } else { failure });
                }
            }
        }
    }

    /// Whether the agent has ended a turn since something was last written to it.
    fn is_turn_over(&self) -> bool {
        let process = self.current().process.number;
        let entries = self.transcript.entries();
        let since_input = entries.iter().rev().filter(|entry| entry.process == process);
        since_input
            .take_while(|entry| entry.direction != VerifyDirection::Input)
            .any(|entry| entry.is_output_of(process) && has_kind(&entry.value, "result"))
    }

    /// Searches the transcript for a matching line, starting at `next`, and advances `next`.
    fn search(
        &self,
        expectation: &ScenarioExpectation,
        next: &mut usize,
        matched: &[usize],
        closest: &mut Option<(ScenarioMismatch, Value)>,
    ) -> Option<(usize, Value, ScenarioVariables)> {
        let process = self.current().process.number;
        let entries = self.transcript.entries();
        while let Some(entry) = entries.get(*next) {
            let index = *next;
            *next += 1;
            if !entry.is_output_of(process)
                || matched.contains(&index)
                || !has_kind(&entry.value, &expectation.kind)
            {
                continue;
            }
            match match_value(&expectation.pattern, &entry.value, &self.variables) {
                Ok(variables) => return Some((index, entry.value.clone(), variables)),
                Err(mismatch) => {
                    if closest.as_ref().is_none_or(|(it, _)| it.score() < mismatch.score()) {
                        *closest = Some((mismatch, entry.value.clone()));
                    }
                }
            }
        }
        None
    }

    /// Records that an expectation has matched an entry.
    fn matched(
        &mut self,
        name: Option<&str>,
        index: usize,
        value: &Value,
        (order, from, mut matched): (ScenarioOrder, usize, Vec<usize>),
    ) {
        if let Some(name) = name {
            let ids = ["request_id", "uuid", "id"];
            let id = ids.iter().find_map(|key| value[*key].as_str());
            self.variables.set(name, id.unwrap_or_default());
        }
        let run = self.current_mut();
        if is_request(value) {
            run.requests.push((name.map(str::to_owned), value.clone()));
        }
        run.position = run.position.max(index + 1);
        if order == ScenarioOrder::AnyOrder {
            matched.push(index);
            run.any_order = Some((from, matched));
        }
    }

    /// The index in the transcript after the line that was matched last.
    pub(super) fn position(&self) -> usize {
        self.current().position
    }

    /// Continues after what another kind of expectation has matched.
    pub(super) fn advance(&mut self, position: usize) -> Result<(), VerifyFailure> {
        let run = self.current_mut();
        run.position = run.position.max(position);
        self.check_forbidden(position)
    }

    /// The kinds of the lines that were received from this index on.
    pub(super) fn received_kinds(&self, from: usize) -> Vec<String> {
        let process = self.current().process.number;
        let entries = self.transcript.entries();
        let received = entries.iter().skip(from).filter(|entry| entry.is_output_of(process));
        received.map(|entry| line_kind(&entry.value)).collect()
    }

    /// Checks that no forbidden line was received before this index of the transcript.
    fn check_forbidden(&mut self, before: usize) -> Result<(), VerifyFailure> {
        let process = self.current().process.number;
        for forbidden in std::mem::take(&mut self.current_mut().forbidden) {
            let VerifyForbiddenLine { line, from, expectation } = forbidden;
            let entries = self.transcript.entries();
            let found = entries.iter().take(before).skip(from).find(|entry| {
                entry.is_output_of(process) && self.matches(&expectation, &entry.value)
            });
            if let Some(entry) = found {
                let mut difference = VerifyDifference::new(line, "received a forbidden line");
                difference.expected = Some(format!("no {}", display(&expectation)));
                difference.actual = Some(self.normalizer().line(&entry.value));
                return Err(difference.into());
            }
        }
        Ok(())
    }

    fn matches(&self, expectation: &ScenarioExpectation, value: &Value) -> bool {
        has_kind(value, &expectation.kind)
            && match_value(&expectation.pattern, value, &self.variables).is_ok()
    }

    fn unmatched(
        &self,
        line: usize,
        expectation: &ScenarioExpectation,
        from: usize,
        closest: Option<(ScenarioMismatch, Value)>,
        waited: Duration,
    ) -> VerifyFailure {
        let process = &self.current().process;
        let message = match process.status() {
            Some(status) => {
                format!("the agent exited ({}) before a matching line", describe_exit(status))
            }
            None => format!("no matching line within {} s", waited.as_secs()),
        };
        let entries = self.transcript.entries();
        let is_output = |entry: &&VerifyTranscriptEntry| entry.is_output_of(process.number);
        let mut earlier = entries.iter().take(from).filter(is_output);
        let was_earlier = earlier.any(|entry| self.matches(expectation, &entry.value));
        let message =
            if was_earlier { format!("{message}; one was received earlier") } else { message };
        let mut difference = VerifyDifference::new(line, &message);
        difference.expected = Some(display(expectation));
        difference.closest =
            closest.map(|(mismatch, value)| self.normalizer().closest_line(&mismatch, &value));
        difference.stderr = process.stderr();
        drop(entries);
        difference.received = self.received_kinds(from);
        difference.into()
    }

    pub(super) fn normalizer(&self) -> VerifyNormalizer<'_> {
        VerifyNormalizer::new(&self.variables)
    }

    /// A failed check.
    pub(super) fn difference(&self, line: usize, expected: &str, actual: &str) -> VerifyFailure {
        self.difference_with(line, "check failed", expected, actual)
    }

    /// A check that was repeated until the timeout and has failed.
    pub(super) fn timeout_difference(
        &self,
        line: usize,
        expected: &str,
        actual: &str,
    ) -> VerifyFailure {
        let message = format!("check failed after waiting {} s", self.timeout.as_secs());
        self.difference_with(line, &message, expected, actual)
    }

    /// What it means that a step has waited in vain: an agent that does nothing more differs, one that
    /// is still at work was not given enough time. After a turn, an agent uses the processor only to wait.
    pub(super) async fn judge_late(&self, failure: VerifyFailure) -> VerifyFailure {
        match failure {
            VerifyFailure::Differs(mut difference)
                if !self.is_turn_over() && self.sandbox.is_working().await =>
            {
                difference.message.push_str("; the agent was still working");
                VerifyFailure::TimedOut(difference)
            }
            other => other,
        }
    }

    fn difference_with(
        &self,
        line: usize,
        message: &str,
        expected: &str,
        actual: &str,
    ) -> VerifyFailure {
        let mut difference = VerifyDifference::new(line, message);
        difference.expected = Some(expected.to_owned());
        difference.actual = Some(self.normalizer().text(actual));
        difference.into()
    }
}

/// An expectation as in the scenario.
fn display(expectation: &ScenarioExpectation) -> String {
    match &expectation.pattern {
        Value::Object(fields) if fields.is_empty() => expectation.kind.clone(),
        pattern => format!("{} {pattern}", expectation.kind),
    }
}
