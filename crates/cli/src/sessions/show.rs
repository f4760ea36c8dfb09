//! One session: where it stands, what was asked, who allowed what, what it used.

use std::io::{self, IsTerminal as _, Write};

use anstyle::Style;
use journal::{Journal, PromptRecord, RequestRecord, Seq, SessionRecord};
use serde_json::{Value, json};
use view::phrase;
use view::{Conversation, Usage};
use wire::note::{Outcome, PromptState, Wants};

use super::arguments::ShowOptions;
use super::list::{Listed, ago, status};
use super::{Failure, PORTION};
use crate::clock;
use crate::settings::Settings;
use crate::view::document::Document;
use crate::view::screen::Screen;
use crate::view::teller::Teller;

/// How many of the last requests are shown.
const LEDGER: usize = 20;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// What is known of a session besides its record.
struct Known {
    prompts: Vec<PromptRecord>,
    open: Vec<RequestRecord>,
    ledger: Vec<RequestRecord>,
    usage: Usage,
    model: Option<String>,
}

pub(super) async fn show(
    journal: &Journal,
    settings: &Settings,
    record: &SessionRecord,
    options: &ShowOptions,
) -> Result<(), Failure> {
    let folded = fold(journal, record).await?;
    let ledger = journal.ledger(Some(record.id), LEDGER).await?;
    let mut known = Known {
        prompts: journal.prompts(record.id).await?,
        open: journal.open_requests(Some(record.id)).await?.into_iter().map(|it| it.1).collect(),
        ledger: ledger.into_iter().map(|it| it.1).collect(),
        usage: folded.usage,
        model: folded.head.model,
    };
    known.prompts.sort_by_key(|prompt| prompt.created);
    known.ledger.reverse();
    if options.json {
        let shown = serde_json::to_string_pretty(&for_programs(record, &known));
        writeln!(io::stdout().lock(), "{}", shown.map_err(io::Error::other)?)?;
        return Ok(());
    }
    let mut out = anstream::stdout().lock();
    head(&mut out, settings, record, &known)?;
    requests(&mut out, &known)?;
    if options.full {
        writeln!(out)?;
        drop(out);
        return conversation(journal, record).await;
    }
    prompts(&mut out, &known)?;
    Ok(())
}

/// The session folded to its end; only numbers are wanted of it.
async fn fold(journal: &Journal, record: &SessionRecord) -> Result<Conversation, Failure> {
    let mut document = Document::new(false);
    let mut after = Seq(0);
    loop {
        let entries = journal.read(record.id, after, PORTION).await?;
        let Some(last) = entries.last() else { return Ok(document.now) };
        after = last.seq;
        for entry in &entries {
            document.take(&entry.bytes, Some(entry.at));
        }
        while document.next_settled().is_some() {}
    }
}

async fn conversation(journal: &Journal, record: &SessionRecord) -> Result<(), Failure> {
    let mut document = Document::new(true);
    let mut screen = Screen::of_stdout(None);
    if !io::stdout().is_terminal() {
        screen.width = 100;
    }
    let mut teller = Teller::new(io::BufWriter::new(io::stdout()), screen, true);
    let mut after = Seq(0);
    loop {
        let entries = journal.read(record.id, after, PORTION).await?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
        for entry in &entries {
            document.take(&entry.bytes, Some(entry.at));
            teller.tell(&mut document)?;
        }
    }
    Ok(teller.finish(&mut document)?)
}

fn head(
    out: &mut impl Write,
    settings: &Settings,
    record: &SessionRecord,
    known: &Known,
) -> io::Result<()> {
    let title = record.title.as_deref().unwrap_or("without a name");
    writeln!(out, "{BOLD}{}{BOLD:#}", plain(title))?;
    let (word, style) = status(record.status);
    let active = ago(clock::now().saturating_sub(record.active));
    writeln!(out, "  id         {}", record.id)?;
    if let Some(id) = record.agent_ids.last().filter(|id| **id != record.id.to_string()) {
        writeln!(out, "  claude's   {}", plain(id))?;
    }
    writeln!(out, "  status     {style}{word}{style:#}, active {active}")?;
    writeln!(out, "  directory  {}", settings.short(&record.directory))?;
    if let Some(model) = &known.model {
        writeln!(out, "  model      {}", plain(model))?;
    }
    let turns = usize::try_from(record.turn_over).unwrap_or(usize::MAX);
    writeln!(out, "  turns      {turns}, {} entries", record.last.0)?;
    if known.usage.tokens.total() > 0 {
        let cost = known.usage.cost.map(phrase::dollars).map(|it| format!(", {it}"));
        let tokens = phrase::tokens(known.usage.tokens);
        writeln!(out, "  tokens     {tokens}{}", cost.unwrap_or_default())?;
    }
    Ok(())
}

fn requests(out: &mut impl Write, known: &Known) -> io::Result<()> {
    if !known.open.is_empty() {
        writeln!(out, "\n{BOLD}waits for you{BOLD:#}")?;
    }
    for request in &known.open {
        writeln!(out, "  {} {}", wants(request.wants), plain(&request.tool_name))?;
    }
    if !known.ledger.is_empty() {
        writeln!(out, "\n{BOLD}requests{BOLD:#}")?;
    }
    for request in &known.ledger {
        let Some(resolution) = &request.resolution else { continue };
        let by = resolution.by.as_ref();
        let by = by.map(|by| format!(" by {} ({})", plain(&by.name), plain(&by.via)));
        let target = subject(&request.input);
        let why = resolution.message.as_deref().map(|it| format!(": {}", plain(first_line(it))));
        writeln!(
            out,
            "  {DIM}{}{DIM:#}  {:<9}  {}{target}{}{}",
            phrase::moment(resolution.at),
            outcome(resolution.outcome),
            plain(&request.tool_name),
            by.unwrap_or_default(),
            why.unwrap_or_default(),
        )?;
    }
    Ok(())
}

fn prompts(out: &mut impl Write, known: &Known) -> io::Result<()> {
    if !known.prompts.is_empty() {
        writeln!(out, "\n{BOLD}prompts{BOLD:#}")?;
    }
    for prompt in &known.prompts {
        let at = phrase::moment(prompt.created);
        let text = plain(first_line(&prompt.text));
        writeln!(out, "  {DIM}{at}{DIM:#}  {:<9}  {text}", state(prompt.state))?;
    }
    Ok(())
}

fn for_programs(record: &SessionRecord, known: &Known) -> Value {
    let prompts = known.prompts.iter().map(|prompt| {
        json!({
            "id": prompt.id, "text": prompt.text, "state": prompt.state, "by": prompt.by,
            "delivery": prompt.delivery, "turn": prompt.turn, "created_ms": prompt.created,
        })
    });
    let requests = known.open.iter().chain(&known.ledger).map(|request| {
        let resolution = request.resolution.as_ref();
        json!({
            "id": request.id, "wants": request.wants, "tool": request.tool_name,
            "opened_ms": request.opened,
            "outcome": resolution.map(|it| it.outcome),
            "by": resolution.and_then(|it| it.by.as_ref()),
            "message": resolution.and_then(|it| it.message.as_ref()),
            "resolved_ms": resolution.map(|it| it.at),
        })
    });
    json!({
        "session": Listed::of(record),
        "model": known.model,
        "usage": known.usage,
        "prompts": prompts.collect::<Vec<_>>(),
        "requests": requests.collect::<Vec<_>>(),
    })
}

/// What a request was about, behind a blank.
fn subject(input: &str) -> String {
    let Some(input) = wire::json::Raw::parse(input) else { return String::new() };
    let keys = ["command", "file_path", "notebook_path", "url", "pattern", "path"];
    let found = keys.into_iter().find_map(|key| input.get(key)?.text().map(String::from));
    found.map(|it| format!(" {}", plain(first_line(&it)))).unwrap_or_default()
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

/// A text a terminal does nothing but show.
fn plain(text: &str) -> String {
    view::terminal::Line::of(view::ansi::Style::PLAIN, text).cut(90).text()
}

fn wants(wants: Wants) -> &'static str {
    match wants {
        Wants::Permission => "permission for",
        Wants::Answers => "answers to",
        Wants::PlanApproval => "approval of",
    }
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Allowed => "allowed",
        Outcome::AllowedAndRemembered => "always",
        Outcome::Denied => "denied",
        Outcome::Expired => "expired",
        Outcome::Withdrawn => "withdrawn",
    }
}

fn state(state: PromptState) -> &'static str {
    match state {
        PromptState::Queued => "queued",
        PromptState::Written => "sent",
        PromptState::Accepted => "running",
        PromptState::Done => "done",
        PromptState::Cancelled => "cancelled",
        PromptState::Indeterminate => "unclear",
    }
}
