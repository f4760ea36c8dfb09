//! The output of `sessions list` and `sessions show`: tables for people, JSON for programs.

use std::io::{self, IsTerminal as _, Write};

use anstyle::{AnsiColor, Style};
use journal::{Journal, PromptRecord, RequestRecord, Seq, SessionRecord, SessionStatus};
use serde::Serialize;
use serde_json::{Value, json};
use session::SessionOptions;
use unicode_width::UnicodeWidthStr as _;
use view::wording;
use view::{AgentInfo, Conversation, SessionUsage};
use wire::note::{Outcome, PromptState, RequestKind};

use super::{READ_LIMIT, SessionsError, ShowArgs, damage_hint, short_id};
use crate::clock;
use crate::settings::CliSettings;
use crate::view::printer::ConversationPrinter;
use crate::view::printer::TerminalScreen;
use view::ViewDocument;

/// Columns of a title.
pub(super) const TITLE_WIDTH: usize = 44;

/// How many of the last requests are shown.
const MAX_REQUESTS: usize = 20;

/// How many names of each list of the agent are shown.
const LISTED_NAMES: usize = 12;

/// Columns of a conversation that is not written to a terminal.
const PIPE_WIDTH: usize = 100;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// A session as programs read it.
#[derive(Serialize)]
pub(super) struct SessionSummaryJson<'a> {
    id: String,
    title: Option<&'a str>,
    directory: String,
    /// The name of its agent; none for Claude Code.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    status: SessionStatus,
    created_ms: u64,
    active_ms: u64,
    turns: u64,
    entries: u64,
    agent_ids: &'a [String],
    /// What could not be read of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<&'a str>,
}

impl<'a> SessionSummaryJson<'a> {
    pub(super) fn new(record: &'a SessionRecord) -> Self {
        Self {
            id: record.id.to_string(),
            title: record.title.as_deref(),
            directory: record.directory.display().to_string(),
            agent: agent_name(record),
            status: record.status,
            created_ms: record.created,
            active_ms: record.active,
            turns: record.turn_ended.saturating_sub(record.imported_turns),
            entries: record.last.0,
            agent_ids: &record.agent_ids,
            damage: record.damage.as_deref(),
        }
    }
}

pub(super) async fn list(
    journal: &Journal,
    settings: &CliSettings,
    json: bool,
) -> Result<(), SessionsError> {
    let records = journal.sessions().await?;
    if json {
        let summaries: Vec<_> = records.iter().map(SessionSummaryJson::new).collect();
        let text = serde_json::to_string_pretty(&summaries).map_err(io::Error::other)?;
        writeln!(io::stdout().lock(), "{text}")?;
        return Ok(());
    }
    if records.is_empty() {
        anstream::eprintln!("no sessions yet; start one with `towpath run`");
        return Ok(());
    }
    let mut out = anstream::stdout().lock();
    let now = clock::now();
    let titles: Vec<String> = records.iter().map(title_cell).collect();
    let widest = titles.iter().map(|it| it.width()).max().unwrap_or(0).max("title".len());
    let head = format!("{:<8}  {:<9}  {:<10}  {}", "id", "status", "active", pad("title", widest));
    writeln!(out, "{BOLD}{head}  directory{BOLD:#}")?;
    for (record, title) in records.iter().zip(&titles) {
        let (word, style) = match record.damage {
            Some(_) => ("damaged", AnsiColor::Red.on_default()),
            None => status_label(record.status),
        };
        let ago = ago(now.saturating_sub(record.active));
        let directory = settings.abbreviate_path(&record.directory);
        let (id, title) = (short_id(record.id), pad(title, widest));
        writeln!(out, "{id}  {style}{word:<9}{style:#}  {ago:<10}  {title}  {directory}")?;
    }
    for record in &records {
        if let Some(damage) = &record.damage {
            let (id, damage) = (short_id(record.id), plain(damage));
            anstream::eprintln!("note: session {id} is damaged: {damage}");
            anstream::eprintln!("hint: {}", damage_hint(record.id));
        }
    }
    Ok(())
}

fn title_cell(record: &SessionRecord) -> String {
    let title = record.title.as_deref().unwrap_or("–");
    match agent_name(record) {
        Some(agent) => sanitize(&format!("[{agent}] {title}"), TITLE_WIDTH),
        None => sanitize(title, TITLE_WIDTH),
    }
}

/// The agent of a session, if one was chosen.
fn agent_name(record: &SessionRecord) -> Option<String> {
    SessionOptions::from_json(&record.options, record.directory.clone()).ok()?.agent
}

pub(super) fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

pub(super) fn status_label(status: SessionStatus) -> (&'static str, Style) {
    match status {
        SessionStatus::Idle => ("idle", Style::new()),
        SessionStatus::Running => ("running", AnsiColor::Green.on_default()),
        SessionStatus::Waiting => ("waiting", AnsiColor::Yellow.on_default().bold()),
        SessionStatus::Dead => ("ended", Style::new().dimmed()),
        SessionStatus::Failed => ("failed", AnsiColor::Red.on_default()),
    }
}

/// How long ago something was, in the largest fitting unit.
pub(super) fn ago(milliseconds: u64) -> String {
    const MINUTE: u64 = 60_000;
    match milliseconds {
        0..MINUTE => "just now".to_owned(),
        _ if milliseconds < 60 * MINUTE => format!("{} min ago", milliseconds / MINUTE),
        _ if milliseconds < 48 * 60 * MINUTE => format!("{} h ago", milliseconds / (60 * MINUTE)),
        _ => {
            let days = usize::try_from(milliseconds / (24 * 60 * MINUTE)).unwrap_or(usize::MAX);
            wording::plural(days, "day ago", "days ago")
        }
    }
}

/// A session with everything that `show` prints.
struct SessionDetails<'a> {
    record: &'a SessionRecord,
    prompts: Vec<PromptRecord>,
    open_requests: Vec<RequestRecord>,
    resolved_requests: Vec<RequestRecord>,
    usage: SessionUsage,
    model: Option<String>,
    agent: Option<AgentInfo>,
}

pub(super) async fn show(
    journal: &Journal,
    settings: &CliSettings,
    record: &SessionRecord,
    options: &ShowArgs,
) -> Result<(), SessionsError> {
    let details = SessionDetails::read(journal, record).await?;
    if options.json {
        let text = serde_json::to_string_pretty(&details.to_json()).map_err(io::Error::other)?;
        writeln!(io::stdout().lock(), "{text}")?;
        return Ok(());
    }
    let mut out = anstream::stdout().lock();
    details.write_head(&mut out, settings)?;
    details.write_agent(&mut out, if options.full { usize::MAX } else { LISTED_NAMES })?;
    details.write_requests(&mut out)?;
    if options.full {
        writeln!(out)?;
        drop(out);
        return print_conversation(journal, record).await;
    }
    details.write_prompts(&mut out)?;
    Ok(())
}

impl<'a> SessionDetails<'a> {
    async fn read(journal: &Journal, record: &'a SessionRecord) -> Result<Self, SessionsError> {
        let conversation = fold(journal, record).await?;
        let mut prompts = journal.prompts(record.id).await?;
        prompts.sort_by_key(|prompt| prompt.created);
        let open = journal.open_requests(Some(record.id)).await?;
        let mut resolved = journal.ledger(Some(record.id), MAX_REQUESTS).await?;
        resolved.reverse();
        Ok(Self {
            record,
            prompts,
            open_requests: open.into_iter().map(|it| it.1).collect(),
            resolved_requests: resolved.into_iter().map(|it| it.1).collect(),
            usage: conversation.usage,
            model: conversation.head.model,
            agent: conversation.agent,
        })
    }

    fn write_head(&self, out: &mut impl Write, settings: &CliSettings) -> io::Result<()> {
        let record = self.record;
        let title = record.title.as_deref().unwrap_or("untitled");
        writeln!(out, "{BOLD}{}{BOLD:#}", plain(title))?;
        let (word, style) = status_label(record.status);
        let active = ago(clock::now().saturating_sub(record.active));
        writeln!(out, "  id         {}", record.id)?;
        if let Some(id) = record.agent_ids.last().filter(|id| **id != record.id.to_string()) {
            writeln!(out, "  claude id  {}", plain(id))?;
        }
        writeln!(out, "  status     {style}{word}{style:#}, active {active}")?;
        writeln!(out, "  directory  {}", settings.abbreviate_path(&record.directory))?;
        if let Some(model) = &self.model {
            writeln!(out, "  model      {}", plain(model))?;
        }
        let turns = record.turn_ended.saturating_sub(record.imported_turns);
        let turns = usize::try_from(turns).unwrap_or(usize::MAX);
        writeln!(out, "  turns      {turns}, {} entries", record.last.0)?;
        if self.usage.tokens.total() > 0 {
            let cost = self.usage.cost.map(wording::dollars).map(|it| format!(", {it}"));
            let tokens = wording::tokens(self.usage.tokens);
            writeln!(out, "  tokens     {tokens}{}", cost.unwrap_or_default())?;
        }
        for window in &self.usage.windows {
            writeln!(out, "  plan       {}", plain(&wording::plan_window(window)))?;
        }
        let options: Value = serde_json::from_str(&record.options).unwrap_or_default();
        let hold = serde_json::from_value(options["queue_hold"].clone()).ok();
        if let Some(question) = hold.as_ref().and_then(wording::budget_question) {
            writeln!(out, "  budget     {question}")?;
        }
        Ok(())
    }

    /// What the agent says about itself beyond its model and directory.
    fn write_agent(&self, out: &mut impl Write, max_names: usize) -> io::Result<()> {
        let facts = self.agent.iter().flat_map(|agent| agent.facts(max_names));
        let facts: Vec<_> =
            facts.filter(|fact| !matches!(fact.label, "model" | "directory")).collect();
        if facts.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{BOLD}agent{BOLD:#}")?;
        for fact in facts {
            writeln!(out, "  {:<12}  {}", fact.label, fact.text)?;
        }
        Ok(())
    }

    fn write_requests(&self, out: &mut impl Write) -> io::Result<()> {
        if !self.open_requests.is_empty() {
            writeln!(out, "\n{BOLD}waiting for you{BOLD:#}")?;
        }
        for record in &self.open_requests {
            writeln!(out, "  {} {}", request_kind(record.kind), plain(&record.tool_name))?;
        }
        if !self.resolved_requests.is_empty() {
            writeln!(out, "\n{BOLD}requests{BOLD:#}")?;
        }
        for request in &self.resolved_requests {
            let Some(resolution) = &request.resolution else { continue };
            let by = resolution.by.as_ref();
            let by = by.map(|by| format!(" by {} ({})", plain(&by.name), plain(&by.via)));
            let target = call_target(&request.input);
            let reason = resolution.message.as_deref();
            let reason = reason.map(|it| format!(": {}", plain(first_line(it))));
            writeln!(
                out,
                "  {DIM}{}{DIM:#}  {:<9}  {}{target}{}{}",
                wording::date_time(resolution.at),
                outcome_label(resolution.outcome),
                plain(&request.tool_name),
                by.unwrap_or_default(),
                reason.unwrap_or_default(),
            )?;
        }
        Ok(())
    }

    fn write_prompts(&self, out: &mut impl Write) -> io::Result<()> {
        if !self.prompts.is_empty() {
            writeln!(out, "\n{BOLD}prompts{BOLD:#}")?;
        }
        for prompt in &self.prompts {
            let at = wording::date_time(prompt.created);
            let text = plain(first_line(&prompt.text));
            writeln!(out, "  {DIM}{at}{DIM:#}  {:<9}  {text}", prompt_label(prompt.state))?;
        }
        Ok(())
    }

    fn to_json(&self) -> Value {
        let prompts = self.prompts.iter().map(|prompt| {
            json!({
                "id": prompt.id, "text": prompt.text, "state": prompt.state, "by": prompt.by,
                "delivery": prompt.delivery, "turn": prompt.turn, "created_ms": prompt.created,
            })
        });
        let requests = self.open_requests.iter().chain(&self.resolved_requests).map(|record| {
            let resolution = record.resolution.as_ref();
            json!({
                "id": record.id, "kind": record.kind, "tool": record.tool_name,
                "opened_ms": record.opened,
                "outcome": resolution.map(|it| it.outcome),
                "by": resolution.and_then(|it| it.by.as_ref()),
                "message": resolution.and_then(|it| it.message.as_ref()),
                "resolved_ms": resolution.map(|it| it.at),
            })
        });
        json!({
            "session": SessionSummaryJson::new(self.record),
            "model": self.model,
            "agent": self.agent,
            "usage": self.usage,
            "prompts": prompts.collect::<Vec<_>>(),
            "requests": requests.collect::<Vec<_>>(),
        })
    }
}

/// Folds the whole session; only its head and usage are kept.
async fn fold(journal: &Journal, record: &SessionRecord) -> Result<Conversation, SessionsError> {
    let mut document = ViewDocument::new(false);
    let mut after = Seq(0);
    loop {
        let entries = journal.read(record.id, after, READ_LIMIT).await?;
        let Some(last) = entries.last() else { return Ok(document.conversation) };
        after = last.seq;
        for entry in &entries {
            document.push_recorded(entry.line());
        }
        while document.next_finished().is_some() {}
    }
}

async fn print_conversation(
    journal: &Journal,
    record: &SessionRecord,
) -> Result<(), SessionsError> {
    let mut document = ViewDocument::new(true);
    let mut screen = TerminalScreen::of_stdout(None);
    if !io::stdout().is_terminal() {
        screen.width = PIPE_WIDTH;
    }
    let mut printer = ConversationPrinter::new(io::BufWriter::new(io::stdout()), screen, true);
    let mut after = Seq(0);
    loop {
        let entries = journal.read(record.id, after, READ_LIMIT).await?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
        for entry in &entries {
            document.push_recorded(entry.line());
            printer.update(&mut document)?;
        }
    }
    Ok(printer.finish(&mut document)?)
}

/// The command, file or address of a call, with a leading space.
fn call_target(input: &str) -> String {
    let Some(input) = wire::json::Raw::parse(input) else { return String::new() };
    let keys = ["command", "file_path", "notebook_path", "url", "pattern", "path"];
    let found = keys.into_iter().find_map(|key| input.get(key)?.text().map(String::from));
    found.map(|it| format!(" {}", plain(first_line(&it)))).unwrap_or_default()
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

fn plain(text: &str) -> String {
    sanitize(text, 90)
}

/// Text without control characters, cut to a width.
pub(super) fn sanitize(text: &str, width: usize) -> String {
    view::terminal::StyledLine::of(view::ansi::TextStyle::PLAIN, text).cut(width).text()
}

fn request_kind(wants: RequestKind) -> &'static str {
    match wants {
        RequestKind::Permission => "permission for",
        RequestKind::Question => "answers to",
        RequestKind::Plan => "approval of",
        RequestKind::Unknown => "an unknown request:",
    }
}

fn outcome_label(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Allowed => "allowed",
        Outcome::AllowedAndRemembered => "always",
        Outcome::Denied => "denied",
        Outcome::Expired => "expired",
        Outcome::Withdrawn => "withdrawn",
    }
}

fn prompt_label(state: PromptState) -> &'static str {
    match state {
        PromptState::Queued => "queued",
        PromptState::Written => "sent",
        PromptState::Accepted => "running",
        PromptState::Done => "done",
        PromptState::Cancelled => "cancelled",
        PromptState::Indeterminate => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::ago;

    #[test]
    fn ages_are_given_in_one_unit() {
        let hour = 3_600_000;
        let texts = [59_999, 60_000, hour - 1, hour, 47 * hour, 48 * hour].map(ago);
        assert_eq!(
            texts,
            ["just now", "1 min ago", "59 min ago", "1 h ago", "47 h ago", "2 days ago"]
        );
    }
}
