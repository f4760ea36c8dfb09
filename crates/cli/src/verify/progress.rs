//! How far the book has come: one live line on a terminal, a line for each conversation elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use anstream::eprintln;
use testbed::scenario::Scenario;
use testbed::verify::{Agent, Outcome, Progress as News, Report};

use super::table::mark;

/// What is told while the book runs.
pub(super) struct Progress {
    names: Vec<String>,
    agents: Vec<String>,
    started: Instant,
    running: Vec<(usize, usize)>,
    over: usize,
    differ: usize,
    on_terminal: bool,
}

impl Progress {
    pub(super) fn over(scenarios: &[Scenario], agents: &[Agent]) -> Self {
        Self {
            names: scenarios.iter().map(|it| it.name.clone()).collect(),
            agents: agents.iter().map(|it| it.label.clone()).collect(),
            started: Instant::now(),
            running: Vec::new(),
            over: 0,
            differ: 0,
            on_terminal: std::io::stderr().is_terminal(),
        }
    }

    pub(super) fn tell(&mut self, news: &News<'_>) {
        match news {
            News::Begins(scenario, agent) => self.running.push((*scenario, *agent)),
            News::Over(report) => {
                self.running.retain(|it| *it != (report.scenario, report.agent));
                self.over += 1;
                if matches!(report.outcome, Outcome::Differs(_) | Outcome::CouldNotRun(_)) {
                    self.differ += 1;
                }
                if !self.on_terminal {
                    self.say(report);
                }
            }
        }
        if self.on_terminal {
            self.show();
        }
    }

    /// Takes the line away and says how long everything took.
    pub(super) fn end(self) -> Duration {
        if self.on_terminal {
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
        self.started.elapsed()
    }

    fn say(&self, report: &Report) {
        if matches!(report.outcome, Outcome::NotMeant) {
            return;
        }
        let (name, agent) = (&self.names[report.scenario], &self.agents[report.agent]);
        let mark = mark(&report.outcome);
        eprintln!("{mark} {name} ({agent}) {:.1} s", report.took.as_secs_f64());
    }

    fn show(&self) {
        let all = self.names.len() * self.agents.len();
        let running: Vec<String> = self
            .running
            .iter()
            .map(|(scenario, agent)| format!("{} ({})", self.names[*scenario], self.agents[*agent]))
            .collect();
        let differ = match self.differ {
            0 => String::new(),
            some => format!(", {some} not as written"),
        };
        let line = format!("{}/{all}{differ} · {}", self.over, running.join(", "));
        // A line longer than the terminal would wrap and stay behind.
        let line: String = line.chars().take(78).collect();
        // A terminal that cannot be written to is no reason to stop.
        let _ = write!(std::io::stderr(), "\r\u{1b}[K{line}");
    }
}
