//! `towpath doctor`: what is installed, what works, and what to do about the rest.
//!
//! The agent is really started, by a shim, in an empty directory, for as long as it takes to answer
//! `initialize`. No model is asked anything.

mod agent;
mod arguments;
mod checkup;
mod data;

use std::io::{self, Write as _};

use anstyle::{AnsiColor, Style};

pub(crate) use arguments::DoctorOptions;
use checkup::{Checkup, Finding};

use crate::complaint::complain;
use crate::settings::Settings;
use crate::verdict::Verdict;

/// Runs the command.
pub(crate) fn run(options: &DoctorOptions) -> Verdict {
    let settings = match Settings::read() {
        Ok(settings) => settings,
        Err(error) => {
            complain(&error, error.hint().as_deref());
            return Verdict::CouldNotTry;
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&error, None);
            return Verdict::CouldNotTry;
        }
    };
    let checkup = runtime.block_on(examine(options, &settings));
    let written = if options.json { checkup.write_json() } else { write(&checkup) };
    match written {
        Ok(()) if checkup.is_sound() => Verdict::Done,
        Ok(()) => Verdict::No,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Verdict::Done,
        Err(error) => {
            complain(&error, None);
            Verdict::CouldNotTry
        }
    }
}

async fn examine(options: &DoctorOptions, settings: &Settings) -> Checkup {
    let mut checkup = Checkup::default();
    checkup.add("towpath", Finding::good(env!("CARGO_PKG_VERSION")));
    data::examine(settings, &mut checkup).await;
    agent::examine(options, settings, &mut checkup).await;
    checkup
}

fn write(checkup: &Checkup) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let good = AnsiColor::Green.on_default();
    let bad = AnsiColor::Red.on_default().bold();
    let dim = Style::new().dimmed();
    let widest = checkup.findings.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, finding) in &checkup.findings {
        let (sign, style) = if finding.is_good() { ("✔", good) } else { ("✘", bad) };
        writeln!(out, "{style}{sign}{style:#} {name:<widest$}  {}", finding.text())?;
        if let Some(hint) = finding.hint() {
            writeln!(out, "  {:<widest$}  {dim}{hint}{dim:#}", "")?;
        }
    }
    if checkup.is_sound() {
        writeln!(out, "\nall is well; `towpath run` begins a session")
    } else {
        writeln!(out, "\nnot all is well")
    }
}
