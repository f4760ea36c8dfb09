//! `towpath doctor`: checks the installation and says how to fix what does not work.
//!
//! The agent is really started, by a shim and in an empty directory, until it has answered
//! `initialize`. No prompt is sent to a model.

mod checks;

use std::io::{self, Write as _};

use anstyle::{AnsiColor, Style};
use clap::Args;
use serde_json::{Value, json};

use crate::exit::{CommandStatus, report_error};
use crate::settings::{AgentArgs, CliSettings};

/// Check the installation and say how to fix what does not work
///
/// Checks the data directory and the journal, and starts the agent in an empty directory to see
/// whether it responds. No prompt is sent to a model.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 everything works; 1 a check failed; 2 the checks could not run.

Examples:
  towpath doctor
  towpath doctor --claude ./node_modules/.bin/claude
  towpath doctor --json | jq '.checks[] | select(.good | not)'")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    agent: AgentArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Longest time the agent may take to respond, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

/// The results of all checks, in the order in which they ran.
#[derive(Debug, Default)]
struct Diagnosis {
    findings: Vec<(&'static str, Finding)>,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Finding {
    Good(String),
    Bad { text: String, hint: String },
}

pub(crate) fn run(options: &DoctorArgs) -> CommandStatus {
    let settings = match CliSettings::from_environment() {
        Ok(settings) => settings,
        Err(error) => {
            report_error(&error, error.hint().as_deref());
            return CommandStatus::Error;
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            report_error(&error, None);
            return CommandStatus::Error;
        }
    };
    let diagnosis = runtime.block_on(diagnose(options, &settings));
    let written = if options.json { diagnosis.write_json() } else { diagnosis.write_report() };
    match written {
        Ok(()) if diagnosis.is_good() => CommandStatus::Success,
        Ok(()) => CommandStatus::Negative,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => CommandStatus::Success,
        Err(error) => {
            report_error(&error, None);
            CommandStatus::Error
        }
    }
}

async fn diagnose(options: &DoctorArgs, settings: &CliSettings) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    diagnosis.add("towpath", Finding::good(env!("CARGO_PKG_VERSION")));
    checks::check_data(settings, &mut diagnosis).await;
    checks::check_agent(options, settings, &mut diagnosis).await;
    checks::check_other_agents(settings, &mut diagnosis).await;
    diagnosis
}

impl Diagnosis {
    fn add(&mut self, name: &'static str, finding: Finding) {
        self.findings.push((name, finding));
    }

    fn is_good(&self) -> bool {
        self.findings.iter().all(|(_, finding)| finding.is_good())
    }

    fn write_report(&self) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        let good = AnsiColor::Green.on_default();
        let bad = AnsiColor::Red.on_default().bold();
        let dim = Style::new().dimmed();
        let widest = self.findings.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, finding) in &self.findings {
            let (sign, style) = if finding.is_good() { ("✔", good) } else { ("✘", bad) };
            writeln!(out, "{style}{sign}{style:#} {name:<widest$}  {}", finding.text())?;
            if let Some(hint) = finding.hint() {
                writeln!(out, "  {:<widest$}  {dim}{hint}{dim:#}", "")?;
            }
        }
        let failed = self.findings.iter().filter(|(_, finding)| !finding.is_good()).count();
        if failed == 0 {
            writeln!(out, "\neverything works; start a session with `towpath run`")
        } else {
            let checks = view::wording::plural(failed, "check", "checks");
            writeln!(out, "\n{checks} failed")
        }
    }

    fn write_json(&self) -> io::Result<()> {
        let check = |(name, finding): &(&str, Finding)| -> Value {
            json!({
                "name": name,
                "good": finding.is_good(),
                "text": finding.text(),
                "hint": finding.hint(),
            })
        };
        let checks: Vec<Value> = self.findings.iter().map(check).collect();
        let object = json!({ "good": self.is_good(), "checks": checks });
        writeln!(io::stdout().lock(), "{object:#}")
    }
}

impl Finding {
    fn good(text: impl Into<String>) -> Self {
        Self::Good(text.into())
    }

    fn bad(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Bad { text: text.into(), hint: hint.into() }
    }

    fn is_good(&self) -> bool {
        matches!(self, Self::Good(_))
    }

    fn text(&self) -> &str {
        match self {
            Self::Good(text) | Self::Bad { text, .. } => text,
        }
    }

    fn hint(&self) -> Option<&str> {
        match self {
            Self::Good(_) => None,
            Self::Bad { hint, .. } => Some(hint),
        }
    }
}
