//! `towpath sessions search`: finds what was said in any session.

use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anstyle::Style;
use clap::Args;
use search::{
    FoundSession, IndexProgress, Search, SearchPage, SearchRequest, SearchResult, SearchScope,
};
use serde_json::{Value, json};
use session::Sessions;
use tokio::signal::ctrl_c;
use tokio::time::timeout;

use super::report::{TITLE_WIDTH, ago, sanitize};
use super::{SessionsError, short_id};
use crate::clock;
use crate::exit::CommandStatus;
use crate::settings::CliSettings;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// After this time, what is indexed so far is searched.
const INDEXING_TIME: Duration = Duration::from_secs(10);

#[derive(Args, Clone, Debug)]
pub(super) struct FindArgs {
    /// What to look for: all words must be in a message, and the last one may go on
    ///
    /// What is in quotes must be there as written; quote the quotes for your shell.
    #[arg(required = true, value_name = "WORDS")]
    words: Vec<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// How many results to print
    #[arg(long, value_name = "NUMBER", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Only sessions in this directory or below it
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

/// Brings the index up to date, searches it and prints the results.
pub(super) async fn find(
    sessions: &Sessions,
    settings: &CliSettings,
    args: FindArgs,
) -> Result<CommandStatus, SessionsError> {
    let search = Search::new(sessions.clone());
    update(&search).await?;
    let mut page = SearchPage::default();
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let directory = args.cwd.map(|path| std::path::absolute(&path).unwrap_or(path));
    let mut after = None;
    loop {
        let text = args.words.join(" ");
        let scope = SearchScope { roots: None, directory: directory.clone() };
        let left = limit - page.results.len();
        let next = search.find(SearchRequest { text, scope, limit: left, after }).await?;
        page.results.extend(next.results);
        (page.more, page.progress) = (next.more, next.progress);
        if page.results.len() == limit || page.more.is_none() {
            break;
        }
        after = page.more;
    }
    if args.json {
        let rows: Vec<Value> = page.results.iter().map(to_json).collect();
        let text = serde_json::to_string_pretty(&rows).map_err(io::Error::other)?;
        writeln!(io::stdout().lock(), "{text}")?;
    } else {
        print(&page.results, settings)?;
    }
    if let Some(IndexProgress { done, total }) = page.progress {
        let left = total - done;
        anstream::eprintln!(
            "note: {left} of {total} sessions are not indexed yet; search again for the rest"
        );
    }
    if page.results.is_empty() {
        anstream::eprintln!("nothing was found");
        return Ok(CommandStatus::Negative);
    }
    if page.more.is_some() {
        anstream::eprintln!("there are more; use `--limit` or more words");
    }
    Ok(CommandStatus::Success)
}

/// Brings the index up to date, for a limited time or until the user interrupts it.
async fn update(search: &Search) -> Result<(), SessionsError> {
    let mut progress = search.progress();
    let is_terminal = io::stderr().is_terminal();
    let is_shown = Cell::new(false);
    let show = async {
        while progress.changed().await.is_ok() {
            if let Some(IndexProgress { done, total }) = *progress.borrow_and_update()
                && is_terminal
            {
                is_shown.set(true);
                anstream::eprint!("\rindexing session {done} of {total}; Ctrl-C searches now ");
            }
        }
    };
    let finished = tokio::select! {
        updated = timeout(INDEXING_TIME, search.update()) => updated.ok(),
        () = show => None,
        _ = ctrl_c() => None,
    };
    if is_shown.get() {
        anstream::eprint!("\r\x1b[K");
    }
    finished.unwrap_or(Ok(())).map_err(SessionsError::Search)
}

fn to_json(result: &SearchResult) -> Value {
    let (id, origin) = origin(result);
    let parts = result.snippet.iter();
    let parts: Vec<Value> =
        parts.map(|part| json!({ "text": part.text, "match": part.is_match })).collect();
    json!({
        "id": id, "origin": origin, "title": result.title, "role": result.role.name(),
        "directory": result.directory.display().to_string(), "at_ms": result.at,
        "position": format!("{}.{}", result.position.0, result.position.1), "snippet": parts,
    })
}

fn origin(result: &SearchResult) -> (String, &'static str) {
    match result.session {
        FoundSession::Own(id) => (id.to_string(), "towpath"),
        FoundSession::OfCli(id) => (id.to_string(), "cli"),
    }
}

fn print(results: &[SearchResult], settings: &CliSettings) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let now = clock::now();
    for result in results {
        let id = match result.session {
            FoundSession::Own(id) => short_id(id),
            FoundSession::OfCli(id) => id.to_string().chars().take(8).collect(),
        };
        let title = sanitize(result.title.as_deref().unwrap_or("–"), TITLE_WIDTH);
        let (role, ago) = (result.role.name(), ago(now.saturating_sub(result.at)));
        let directory = settings.abbreviate_path(&result.directory);
        writeln!(out, "{BOLD}{id}{BOLD:#}  {title}  {DIM}{directory}, {role}, {ago}{DIM:#}")?;
        write!(out, "    ")?;
        for part in &result.snippet {
            let text = sanitize(&part.text, usize::MAX);
            if part.is_match {
                write!(out, "{BOLD}{text}{BOLD:#}")?;
            } else {
                write!(out, "{text}")?;
            }
        }
        writeln!(out)?;
    }
    out.flush()
}
