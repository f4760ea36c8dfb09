//! The progress and the results on the terminal.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anstream::eprintln;
use anstyle::{AnsiColor, Style};
use testbed::scenario::Scenario;
use testbed::verify::{VerifyAgent, VerifyOutcome, VerifyProgress, VerifyRepetition, VerifyResult};

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const UNCERTAIN: Style = AnsiColor::Yellow.on_default().bold();
const DIM: Style = Style::new().dimmed();

/// The results as a table with a row for each scenario and a column for each agent.
pub(super) struct VerifyTable<'a> {
    /// The files of the scenarios, in the same order.
    pub(super) files: &'a [PathBuf],
    pub(super) scenarios: &'a [Scenario],
    pub(super) agents: &'a [VerifyAgent],
    pub(super) results: &'a [VerifyResult],
    pub(super) duration: Duration,
    /// What several runs of everything gave, if they were asked for.
    pub(super) repetition: Option<&'a VerifyRepetition>,
}

/// The outcomes with their names in a total of one and of several.
const OUTCOMES: [(&str, &str, &str); 6] = [
    ("passed", "passed", "passed"),
    ("differs", "differs", "differ"),
    ("flaky", "flaky", "flaky"),
    ("timed_out", "timed out", "timed out"),
    ("not_applicable", "not applicable", "not applicable"),
    ("could_not_run", "could not run", "could not run"),
];

/// How often each outcome came, such as `2 passed, 1 differs`.
fn totals(count: impl Fn(&str) -> usize) -> String {
    let totals = OUTCOMES.into_iter().filter_map(|(key, one, several)| match count(key) {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {several}")),
    });
    totals.collect::<Vec<_>>().join(", ")
}

impl VerifyTable<'_> {
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let width = self.scenarios.iter().map(|it| it.name.chars().count()).max().unwrap_or(0);
        write!(out, "{:<width$}", "")?;
        for agent in self.agents {
            write!(out, "  {}", agent.label)?;
        }
        writeln!(out)?;
        for (row, scenario) in self.scenarios.iter().enumerate() {
            write!(out, "{:<width$}", scenario.name)?;
            // The sign is centred below the label of its agent.
            let mut after = 0;
            for (column, agent) in self.agents.iter().enumerate() {
                let result =
                    self.results.iter().find(|it| (it.scenario, it.agent) == (row, column));
                let padding = agent.label.chars().count().saturating_sub(1);
                write!(out, "{:1$}", "", after + 2 + padding / 2)?;
                match result {
                    Some(result) => write!(out, "{}", sign(&result.outcome))?,
                    None => write!(out, " ")?,
                }
                after = padding - padding / 2;
            }
            writeln!(out)?;
        }
        self.write_differences(out)
    }

    /// Writes every difference with its location and its capture, and then the totals.
    pub(super) fn write_differences(&self, out: &mut impl Write) -> io::Result<()> {
        for result in self.results {
            let agent = &self.agents[result.agent].label;
            let file = self.files[result.scenario].display();
            match &result.outcome {
                VerifyOutcome::Passed | VerifyOutcome::NotApplicable => continue,
                VerifyOutcome::Differs(difference) | VerifyOutcome::TimedOut(difference) => {
                    let (line, sign) = (difference.line, sign(&result.outcome));
                    writeln!(out, "\n{sign} {file}:{line} ({agent}): {difference}")?;
                }
                VerifyOutcome::Flaky(difference) => {
                    let (line, sign) = (difference.line, sign(&result.outcome));
                    let rate = flake_rate(result);
                    writeln!(out, "\n{sign} {file}:{line} ({agent}): {rate}: {difference}")?;
                }
                VerifyOutcome::CouldNotRun(problem) => {
                    writeln!(out, "\n{BAD}?{BAD:#} {file} ({agent}): {problem}")?;
                }
            }
            if let Some(path) = &result.capture_path {
                writeln!(out, "    {:<8}  {}", "capture", path.display())?;
            }
        }
        self.write_totals(out)
    }

    fn write_totals(&self, out: &mut impl Write) -> io::Result<()> {
        let count = |key: &str| self.results.iter().filter(|it| it.outcome.key() == key).count();
        let kept = self.results.iter().filter(|it| it.kept).count();
        let known =
            if kept > 0 { format!(" ({kept} known from earlier runs)") } else { String::new() };
        let seconds = self.duration.as_secs_f64();
        writeln!(out, "\n{}{known} in {seconds:.1} s", totals(count))?;
        self.write_certainty(out)?;
        for result in self.results.iter().filter(|it| it.attempts > 1 && !it.kept) {
            if let VerifyOutcome::Passed = result.outcome {
                let scenario = &self.scenarios[result.scenario].name;
                let agent = &self.agents[result.agent].label;
                writeln!(out, "{scenario} ({agent}) was too slow at first and passed alone")?;
            }
        }
        match self.repetition {
            Some(repetition) => self.write_repetition(repetition, out),
            None => Ok(()),
        }
    }

    /// Says how sure it is: a difference counts once it was seen twice with nothing else running.
    fn write_certainty(&self, out: &mut impl Write) -> io::Result<()> {
        let repeated = self.results.iter().filter(|it| it.attempts > 1 && !it.kept);
        let count = |key: &str| repeated.clone().filter(|it| it.outcome.key() == key).count();
        let mut parts = Vec::new();
        match count("differs") {
            0 => {}
            1 => parts.push("the difference was seen twice alone".to_owned()),
            differ => parts.push(format!("{differ} differences were each seen twice alone")),
        }
        match count("passed") {
            0 => {}
            alone => parts.push(format!("{alone} passed only when alone")),
        }
        if parts.is_empty() { Ok(()) } else { writeln!(out, "{}", parts.join("; ")) }
    }

    /// Writes which outcomes were not the same in all runs.
    fn write_repetition(
        &self,
        repetition: &VerifyRepetition,
        out: &mut impl Write,
    ) -> io::Result<()> {
        for result in self.results.iter().filter(|it| repetition.varies(it)) {
            let scenario = &self.scenarios[result.scenario].name;
            let agent = &self.agents[result.agent].label;
            let outcomes = repetition.outcomes(result);
            let totals = totals(|key| outcomes.get(key).copied().unwrap_or_default());
            writeln!(out, "{UNCERTAIN}~{UNCERTAIN:#} {scenario} ({agent}) varies: {totals}")?;
        }
        let runs = match repetition.runs() {
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs"),
        };
        match repetition.varying() {
            0 => writeln!(out, "{runs}, all verdicts equal"),
            1 => writeln!(out, "{runs}, 1 verdict varied"),
            varying => writeln!(out, "{runs}, {varying} verdicts varied"),
        }
    }
}

/// How often a flaky scenario differed.
fn flake_rate(result: &VerifyResult) -> String {
    let differed = result.attempts - result.passes;
    format!("differs in {differed} of {} runs", result.attempts)
}

/// The coloured sign of an outcome.
fn sign(outcome: &VerifyOutcome) -> impl fmt::Display {
    let (style, sign) = match outcome {
        VerifyOutcome::Passed => (GOOD, '✓'),
        VerifyOutcome::Differs(_) => (BAD, '✗'),
        VerifyOutcome::Flaky(_) => (UNCERTAIN, '~'),
        VerifyOutcome::TimedOut(_) => (UNCERTAIN, '⧖'),
        VerifyOutcome::NotApplicable => (DIM, '–'),
        VerifyOutcome::CouldNotRun(_) => (BAD, '?'),
    };
    format!("{style}{sign}{style:#}")
}

/// The progress on stderr: one line that is updated on a terminal, otherwise a line per scenario.
pub(super) struct VerifyProgressLine {
    scenarios: Vec<String>,
    agents: Vec<String>,
    started: Instant,
    running: Vec<(usize, usize)>,
    finished: usize,
    failed: usize,
    is_terminal: bool,
}

impl VerifyProgressLine {
    /// `kept` results are known before anything is run.
    pub(super) fn new(scenarios: &[Scenario], agents: &[VerifyAgent], kept: usize) -> Self {
        Self {
            scenarios: scenarios.iter().map(|it| it.name.clone()).collect(),
            agents: agents.iter().map(|it| it.label.clone()).collect(),
            started: Instant::now(),
            running: Vec::new(),
            finished: kept,
            failed: 0,
            is_terminal: io::stderr().is_terminal(),
        }
    }

    pub(super) fn update(&mut self, progress: &VerifyProgress<'_>) {
        match progress {
            VerifyProgress::Started { scenario, agent } => self.running.push((*scenario, *agent)),
            VerifyProgress::Unconfirmed(result) => {
                self.running.retain(|it| *it != (result.scenario, result.agent));
                if !self.is_terminal {
                    let name = self.name(result.scenario, result.agent);
                    eprintln!("{} {name}: will be run again, alone", sign(&result.outcome));
                }
            }
            VerifyProgress::Finished(result) => {
                self.running.retain(|it| *it != (result.scenario, result.agent));
                self.finished += 1;
                self.failed += usize::from(result.outcome.is_failure());
                if !self.is_terminal {
                    self.print(result);
                }
            }
        }
        if self.is_terminal {
            self.redraw();
        }
    }

    /// Clears the line and returns the total duration.
    pub(super) fn finish(self) -> Duration {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
        self.started.elapsed()
    }

    fn print(&self, result: &VerifyResult) {
        if matches!(result.outcome, VerifyOutcome::NotApplicable) {
            return;
        }
        let name = self.name(result.scenario, result.agent);
        eprintln!("{} {name} {:.1} s", sign(&result.outcome), result.duration.as_secs_f64());
    }

    fn redraw(&self) {
        let total = self.scenarios.len() * self.agents.len();
        let running: Vec<String> =
            self.running.iter().map(|(scenario, agent)| self.name(*scenario, *agent)).collect();
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let line = format!("{}/{total}{failed} · {}", self.finished, running.join(", "));
        // A line longer than the terminal would wrap and could not be cleared.
        let line: String = line.chars().take(78).collect();
        // Progress is not important enough to stop for a write error.
        let _ = write!(io::stderr(), "\r\u{1b}[K{line}");
    }

    fn name(&self, scenario: usize, agent: usize) -> String {
        format!("{} ({})", self.scenarios[scenario], self.agents[agent])
    }
}
