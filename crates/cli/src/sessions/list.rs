//! All sessions, as a table or as JSON.

use std::io::{self, Write as _};

use anstyle::{AnsiColor, Style};
use journal::{Journal, SessionRecord, Status};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;
use view::ansi::Style as Plain;
use view::phrase;
use view::terminal::Line;

use super::{Failure, short};
use crate::clock;
use crate::settings::Settings;

/// Columns of a title, and of a directory.
const TITLE: usize = 44;

/// A session, for programs.
#[derive(Serialize)]
pub(super) struct Listed<'a> {
    pub(super) id: String,
    pub(super) title: Option<&'a str>,
    pub(super) directory: String,
    pub(super) status: Status,
    pub(super) created_ms: u64,
    pub(super) active_ms: u64,
    pub(super) turns: u64,
    pub(super) entries: u64,
    pub(super) agent_ids: &'a [String],
}

impl<'a> Listed<'a> {
    pub(super) fn of(record: &'a SessionRecord) -> Self {
        Self {
            id: record.id.to_string(),
            title: record.title.as_deref(),
            directory: record.directory.display().to_string(),
            status: record.status,
            created_ms: record.created,
            active_ms: record.active,
            turns: record.turn_over,
            entries: record.last.0,
            agent_ids: &record.agent_ids,
        }
    }
}

pub(super) async fn list(
    journal: &Journal,
    settings: &Settings,
    json: bool,
) -> Result<(), Failure> {
    let records = journal.sessions().await?;
    if json {
        let listed: Vec<_> = records.iter().map(Listed::of).collect();
        let listed = serde_json::to_string_pretty(&listed).map_err(io::Error::other)?;
        writeln!(io::stdout().lock(), "{listed}")?;
        return Ok(());
    }
    if records.is_empty() {
        anstream::eprintln!("there are no sessions yet; `towpath run` begins one");
        return Ok(());
    }
    let mut out = anstream::stdout().lock();
    let now = clock::now();
    let titles: Vec<String> = records.iter().map(title).collect();
    let widest = titles.iter().map(|it| it.width()).max().unwrap_or(0).max("title".len());
    let bold = Style::new().bold();
    let head =
        format!("{:<8}  {:<9}  {:<10}  {}", "id", "status", "active", padded("title", widest));
    writeln!(out, "{bold}{head}  directory{bold:#}")?;
    for (record, title) in records.iter().zip(&titles) {
        let (word, style) = status(record.status);
        let ago = ago(now.saturating_sub(record.active));
        let place = settings.short(&record.directory);
        let (id, title) = (short(record.id), padded(title, widest));
        writeln!(out, "{id}  {style}{word:<9}{style:#}  {ago:<10}  {title}  {place}")?;
    }
    Ok(())
}

fn title(record: &SessionRecord) -> String {
    let title = record.title.as_deref().unwrap_or("–");
    // A line of its own, for whatever a title holds is harmless in one.
    Line::of(Plain::PLAIN, title).cut(TITLE).text()
}

fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// What a session does, in a word.
pub(super) fn status(status: Status) -> (&'static str, Style) {
    match status {
        Status::Idle => ("idle", Style::new()),
        Status::Running => ("running", AnsiColor::Green.on_default()),
        Status::Waiting => ("waiting", AnsiColor::Yellow.on_default().bold()),
        Status::Dead => ("ended", Style::new().dimmed()),
        Status::Failed => ("failed", AnsiColor::Red.on_default()),
    }
}

/// How long ago, in one number.
pub(super) fn ago(milliseconds: u64) -> String {
    const MINUTE: u64 = 60_000;
    match milliseconds {
        0..MINUTE => "just now".to_owned(),
        _ if milliseconds < 60 * MINUTE => format!("{} min ago", milliseconds / MINUTE),
        _ if milliseconds < 48 * 60 * MINUTE => format!("{} h ago", milliseconds / (60 * MINUTE)),
        _ => {
            let days = usize::try_from(milliseconds / (24 * 60 * MINUTE)).unwrap_or(usize::MAX);
            phrase::several(days, "day ago", "days ago")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ago;

    #[test]
    fn how_long_ago_is_one_number() {
        let hour = 3_600_000;
        let told = [59_999, 60_000, hour - 1, hour, 47 * hour, 48 * hour].map(ago);
        assert_eq!(
            told,
            ["just now", "1 min ago", "59 min ago", "1 h ago", "47 h ago", "2 days ago"]
        );
    }
}
