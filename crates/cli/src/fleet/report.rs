//! What `towpath fleet` prints.

use std::io::{self, Write as _};

use anstyle::{AnsiColor, Style};
use fleet::setup::{FindingSeverity, FleetStatus, InitAction, InitStep, SetupFinding};
use serde_json::json;

pub(super) fn write_steps(steps: &[InitStep], json: bool) -> io::Result<()> {
    if json {
        return writeln!(io::stdout().lock(), "{:#}", json!({ "streams": steps }));
    }
    let mut out = anstream::stdout().lock();
    let widest = steps.iter().map(|it| it.stream.len()).max().unwrap_or(0);
    for step in steps {
        let action = match &step.action {
            InitAction::Created => "created".to_owned(),
            InitAction::Changed { settings } => format!("changed: {}", settings.join(", ")),
            InitAction::Unchanged => "unchanged".to_owned(),
        };
        writeln!(out, "{:<widest$}  {action}", step.stream)?;
    }
    writeln!(out, "\nthe fleet is set up; check the servers with `towpath fleet check`")
}

pub(super) fn write_findings(findings: &[SetupFinding], json: bool) -> io::Result<()> {
    let count = |severity| findings.iter().filter(|it| it.severity == severity).count();
    let refused = count(FindingSeverity::Refused);
    if json {
        let object = json!({ "good": refused == 0, "findings": findings });
        return writeln!(io::stdout().lock(), "{object:#}");
    }
    let mut out = anstream::stdout().lock();
    let dim = Style::new().dimmed();
    let widest = findings.iter().map(|it| it.name.len()).max().unwrap_or(0);
    for finding in findings {
        let (sign, color) = match finding.severity {
            FindingSeverity::Good => ("✔", AnsiColor::Green),
            FindingSeverity::Unknown => ("?", AnsiColor::Yellow),
            FindingSeverity::Warning => ("!", AnsiColor::Yellow),
            FindingSeverity::Refused => ("✘", AnsiColor::Red),
        };
        let style = color.on_default();
        writeln!(out, "{style}{sign}{style:#} {:<widest$}  {}", finding.name, finding.text)?;
        if let Some(hint) = &finding.hint {
            writeln!(out, "  {:<widest$}  {dim}{hint}{dim:#}", "")?;
        }
    }
    let unknown = count(FindingSeverity::Unknown);
    let plural = |number| view::wording::plural(number, "finding", "findings");
    match (refused, unknown) {
        (0, 0) => writeln!(out, "\nthe servers lose nothing that they acknowledge"),
        (0, _) => writeln!(out, "\nnothing is refused; {} unknown", plural(unknown)),
        _ => writeln!(out, "\n{} refused: acknowledged messages may be lost", plural(refused)),
    }
}

pub(super) fn write_status(status: &FleetStatus, json: bool) -> io::Result<()> {
    if json {
        return writeln!(io::stdout().lock(), "{:#}", json!(status));
    }
    let mut out = anstream::stdout().lock();
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    writeln!(out, "server {}, NATS {}", status.server, status.version)?;
    writeln!(out, "{}", view::wording::plural(usize_of(status.sessions), "session", "sessions"))?;
    writeln!(out, "{}", view::wording::plural(status.workers.len(), "worker", "workers"))?;
    let widest = status.workers.iter().map(|it| it.name.len()).max().unwrap_or(0);
    for worker in &status.workers {
        let name = &worker.name;
        writeln!(out, "  {bold}{name:<widest$}{bold:#}  {dim}{}{dim:#}", worker.record)?;
    }
    let widest = status.streams.iter().map(|it| it.name.len()).max().unwrap_or(0);
    writeln!(out, "streams")?;
    for stream in &status.streams {
        let leader = stream.leader.as_deref().unwrap_or("no leader");
        let offline = match &stream.offline[..] {
            [] => String::new(),
            names => format!(", offline: {}", names.join(", ")),
        };
        writeln!(
            out,
            "  {:<widest$}  {:>9} messages  {:>12} bytes  {dim}{} replicas, {leader}{offline}{dim:#}",
            stream.name, stream.messages, stream.bytes, stream.replicas
        )?;
    }
    Ok(())
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
