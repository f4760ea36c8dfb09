//! What `towpath fleet` prints.

use std::io::{self, Write as _};

use anstyle::{AnsiColor, Style};
use fleet::setup::{
    FindingSeverity, FleetStatus, FleetWorker, InitAction, InitStep, PrunedSession, SetupFinding,
};
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
        let unknown = count(FindingSeverity::Unknown);
        let good = refused == 0 && unknown == 0;
        let object = json!({ "good": good, "unknown": unknown, "findings": findings });
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
        (0, _) => writeln!(
            out,
            "\nnothing is refused, but {} could not be checked, so it is not known whether the servers lose \
             what they acknowledge",
            plural(unknown)
        ),
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
    let rows: Vec<[String; 6]> = status.workers.iter().map(worker_row).collect();
    let width = |column: usize, title: &str| {
        rows.iter().map(|row| row[column].chars().count()).chain([title.len()]).max().unwrap_or(0)
    };
    let titles = ["worker", "state", "slots", "sessions", "pool", "roots"];
    let widths: Vec<usize> =
        titles.iter().enumerate().map(|(column, title)| width(column, title)).collect();
    if !rows.is_empty() {
        writeln!(out, "  {dim}{}{dim:#}", table_line(&titles, &widths))?;
    }
    for row in &rows {
        let line = table_line(&row.each_ref().map(String::as_str), &widths);
        let (name, rest) = line.split_at(row[0].len());
        writeln!(out, "  {bold}{name}{bold:#}{rest}")?;
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
            "  {:<widest$}  {:>9} messages  {:>12} bytes  {dim}{} replica{}, {leader}{offline}{dim:#}",
            stream.name,
            stream.messages,
            stream.bytes,
            stream.replicas,
            if stream.replicas == 1 { "" } else { "s" }
        )?;
    }
    Ok(())
}

/// Name, state, slots in use, sessions, pool and roots of a worker.
fn worker_row(worker: &FleetWorker) -> [String; 6] {
    let status = worker.status();
    let state = if worker.connected { "connected" } else { "away" };
    let unknown = || "–".to_owned();
    let roots = |roots: &[std::path::PathBuf]| {
        let shown: Vec<String> = roots.iter().map(|it| it.display().to_string()).collect();
        shown.join(", ")
    };
    [
        worker.name.clone(),
        state.to_owned(),
        status.as_ref().map_or_else(unknown, |it| format!("{} of {}", it.used, it.slots)),
        worker.sessions.to_string(),
        status.as_ref().and_then(|it| it.pool.clone()).unwrap_or_else(unknown),
        status.as_ref().map_or_else(unknown, |it| roots(&it.roots)),
    ]
}

fn table_line(cells: &[&str], widths: &[usize]) -> String {
    let padded: Vec<String> =
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    padded.join("  ").trim_end().to_owned()
}

pub(super) fn write_pruned(pruned: &[PrunedSession], dry_run: bool, json: bool) -> io::Result<()> {
    if json {
        let object = json!({ "dry_run": dry_run, "sessions": pruned });
        return writeln!(io::stdout().lock(), "{object:#}");
    }
    let mut out = anstream::stdout().lock();
    for PrunedSession { session, messages, objects } in pruned {
        let messages = view::wording::plural(usize_of(*messages), "message", "messages");
        let objects = view::wording::plural(objects.len(), "object", "objects");
        writeln!(out, "{session}  {messages}, {objects}")?;
    }
    let sessions = view::wording::plural(pruned.len(), "deleted session", "deleted sessions");
    if dry_run {
        writeln!(out, "would remove what {sessions} left")
    } else {
        writeln!(out, "removed what {sessions} left")
    }
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
