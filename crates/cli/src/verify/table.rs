//! What came of the book, for people.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use testbed::scenario::Scenario;
use testbed::verify::{Agent, Outcome, Report};

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();

/// Scenarios, each with its file, by agents.
pub(super) struct Table<'a> {
    pub(super) files: &'a [PathBuf],
    pub(super) scenarios: &'a [Scenario],
    pub(super) agents: &'a [Agent],
    pub(super) reports: &'a [Report],
    pub(super) took: Duration,
}

/// The sign of an outcome, in its colour.
pub(super) fn mark(outcome: &Outcome) -> impl fmt::Display {
    let (style, sign) = match outcome {
        Outcome::Holds => (GOOD, '✓'),
        Outcome::Differs(_) => (BAD, '✗'),
        Outcome::NotMeant => (DIM, '–'),
        Outcome::CouldNotRun(_) => (BAD, '?'),
    };
    format!("{style}{sign}{style:#}")
}

impl Table<'_> {
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let width = self.scenarios.iter().map(|it| it.name.chars().count()).max().unwrap_or(0);
        write!(out, "{:<width$}", "")?;
        for agent in self.agents {
            write!(out, "  {}", agent.label)?;
        }
        writeln!(out)?;
        for (place, scenario) in self.scenarios.iter().enumerate() {
            write!(out, "{:<width$}", scenario.name)?;
            let mut behind = 0;
            for (column, agent) in self.agents.iter().enumerate() {
                let report =
                    self.reports.iter().find(|it| (it.scenario, it.agent) == (place, column));
                let beside = agent.label.chars().count().saturating_sub(1);
                write!(out, "{:1$}", "", behind + 2 + beside / 2)?;
                match report {
                    Some(report) => write!(out, "{}", mark(&report.outcome))?,
                    None => write!(out, " ")?,
                }
                behind = beside - beside / 2;
            }
            writeln!(out)?;
        }
        self.write_differences(out)
    }

    /// What is not as written, each with its place and its capture, and the sum of it all.
    pub(super) fn write_differences(&self, out: &mut impl Write) -> io::Result<()> {
        for report in self.reports {
            let agent = &self.agents[report.agent];
            let file = self.files[report.scenario].display();
            match &report.outcome {
                Outcome::Holds | Outcome::NotMeant => continue,
                Outcome::Differs(difference) => {
                    let line = difference.line;
                    writeln!(out, "\n{BAD}✗{BAD:#} {file}:{line} ({}): {difference}", agent.label)?;
                }
                Outcome::CouldNotRun(problem) => {
                    writeln!(out, "\n{BAD}?{BAD:#} {file} ({}): {problem}", agent.label)?;
                }
            }
            if let Some(kept) = &report.kept {
                writeln!(out, "    {:<8}  {}", "capture", kept.display())?;
            }
        }
        self.write_sum(out)
    }

    fn write_sum(&self, out: &mut impl Write) -> io::Result<()> {
        let count = |word: &str| self.reports.iter().filter(|it| it.outcome.word() == word).count();
        let words = [
            ("holds", "hold"),
            ("differs", "differ"),
            ("not meant", "not meant"),
            ("could not run", "could not run"),
        ];
        let parts: Vec<String> = words
            .into_iter()
            .map(|(word, many)| (count(word), if count(word) == 1 { word } else { many }))
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        writeln!(out, "\n{} in {:.1} s", parts.join(", "), self.took.as_secs_f64())?;
        for report in self.reports.iter().filter(|it| it.tries > 1) {
            if let Outcome::Holds = report.outcome {
                let (name, agent) = (&self.scenarios[report.scenario].name, report.agent);
                writeln!(out, "{name} ({}) held only at the second try", self.agents[agent].label)?;
            }
        }
        Ok(())
    }
}
