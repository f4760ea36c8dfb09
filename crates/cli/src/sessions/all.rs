//! `towpath sessions list --all`: Towpath's sessions and those that the CLI ran without it.

use std::collections::HashSet;
use std::io::{self, Write as _};
use std::path::Path;

use anstyle::Style;
use journal::SessionRecord;
use serde_json::{Value, json};
use session::Sessions;
use transcripts::{CatalogEntry, RunningClis};
use unicode_width::UnicodeWidthStr as _;

use super::report::{SessionSummaryJson, TITLE_WIDTH, ago, pad, sanitize, status_label};
use super::{SessionsError, short_id};
use crate::clock;
use crate::settings::CliSettings;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// A row of the list.
enum ListedSession<'a> {
    Own(&'a SessionRecord),
    OfCli { entry: &'a CatalogEntry, directory: &'a Path, in_terminal: bool },
}

/// Prints both kinds of sessions, the most recently active first.
pub(super) async fn list_all(
    sessions: &Sessions,
    settings: &CliSettings,
    json: bool,
) -> Result<(), SessionsError> {
    let records = sessions.journal().sessions().await?;
    let transcripts = sessions.list_transcripts().await;
    // A session that was just created gives the CLI its own id.
    let own: HashSet<String> = records
        .iter()
        .flat_map(|record| record.agent_ids.iter().cloned().chain([record.id.to_string()]))
        .collect();
    let processes = RunningClis::find();
    let of_cli = transcripts.iter().filter(|it| !own.contains(&it.file.id.to_string()));
    let of_cli = of_cli.filter_map(|entry| {
        // A file without a message has no directory, and nothing to continue.
        let directory = entry.summary.directory.as_deref()?;
        let in_terminal = processes.writer_of(&entry.file, directory).is_some();
        Some(ListedSession::OfCli { entry, directory, in_terminal })
    });
    let mut rows: Vec<ListedSession<'_>> = records.iter().map(ListedSession::Own).collect();
    rows.extend(of_cli);
    rows.sort_by_key(|row| std::cmp::Reverse(row.active()));
    if json {
        let rows: Vec<Value> = rows.iter().map(ListedSession::to_json).collect();
        let text = serde_json::to_string_pretty(&rows).map_err(io::Error::other)?;
        writeln!(io::stdout().lock(), "{text}")?;
        return Ok(());
    }
    print_table(&rows, settings)?;
    Ok(())
}

impl ListedSession<'_> {
    fn active(&self) -> u64 {
        match self {
            Self::Own(record) => record.active,
            Self::OfCli { entry, .. } => entry.file.modified,
        }
    }

    fn title(&self) -> String {
        let title = match self {
            Self::Own(record) => record.title.as_deref(),
            Self::OfCli { entry, .. } => entry.summary.title.as_deref(),
        };
        sanitize(title.unwrap_or("–"), TITLE_WIDTH)
    }

    /// A word for where the session is, and its style.
    fn status(&self) -> (&'static str, Style) {
        match self {
            Self::Own(record) if record.damage.is_some() => ("damaged", Style::new()),
            Self::Own(record) => status_label(record.status),
            Self::OfCli { in_terminal: true, .. } => ("terminal", Style::new()),
            Self::OfCli { .. } => ("cli", DIM),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Own(record) => {
                let mut json = json!(SessionSummaryJson::new(record));
                json["origin"] = "towpath".into();
                json
            }
            Self::OfCli { entry, directory, in_terminal } => {
                let CatalogEntry { file, summary } = entry;
                json!({
                    "id": file.id, "origin": "cli", "title": summary.title,
                    "directory": directory.display().to_string(), "in_terminal": in_terminal,
                    "active_ms": file.modified, "bytes": file.size, "branch": summary.branch,
                    "model": summary.model, "messages": summary.messages, "cost": summary.cost,
                    "context_tokens": summary.context, "file": file.path.display().to_string(),
                })
            }
        }
    }
}

fn print_table(rows: &[ListedSession<'_>], settings: &CliSettings) -> io::Result<()> {
    if rows.is_empty() {
        anstream::eprintln!("no sessions yet; start one with `towpath run`");
        return Ok(());
    }
    let mut out = anstream::stdout().lock();
    let now = clock::now();
    let titles: Vec<String> = rows.iter().map(ListedSession::title).collect();
    let widest = titles.iter().map(|it| it.width()).max().unwrap_or(0).max("title".len());
    let head = format!("{:<8}  {:<9}  {:<10}  {}", "id", "status", "active", pad("title", widest));
    writeln!(out, "{BOLD}{head}  directory{BOLD:#}")?;
    for (row, title) in rows.iter().zip(&titles) {
        let (word, style) = row.status();
        let (id, directory) = match row {
            ListedSession::Own(record) => (short_id(record.id), record.directory.as_path()),
            ListedSession::OfCli { entry, directory, .. } => {
                (entry.file.id.to_string().chars().take(8).collect(), *directory)
            }
        };
        let ago = ago(now.saturating_sub(row.active()));
        let (directory, title) = (settings.abbreviate_path(directory), pad(title, widest));
        writeln!(out, "{id}  {style}{word:<9}{style:#}  {ago:<10}  {title}  {directory}")?;
    }
    let of_cli = rows.iter().any(|row| matches!(row, ListedSession::OfCli { .. }));
    if of_cli {
        anstream::eprintln!("continue any of them with `towpath run --resume ID`");
    }
    Ok(())
}
