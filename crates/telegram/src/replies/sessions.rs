//! Replies about sessions: the list, the status, the cost and the queue.

use std::path::{Path, PathBuf};

use journal::{SessionId, SessionRecord, SessionStatus};
use session::{AgentCatalog, Roots, SessionOptions};
use uuid::Uuid;
use view::telegram::{FormattedText, TextFormat};
use view::{AgentFact, Conversation, QueuedPrompt, SessionUsage, terminal, wording};
use wire::consent::visible;
use wire::note::PromptState;

use super::choices::mode_label;
use super::options::ShownOptions;
use super::{BotReply, remove_button, resume_button, shortened};
use crate::bot::BotButton;

/// Sessions that are listed.
const SESSIONS: usize = 10;

/// Characters of a session's title.
const TITLE: usize = 48;

/// Characters of the line about what the agent is doing.
const STATUS: usize = 200;

/// Characters of an option's value.
const OPTION_VALUE: usize = 40;

/// Characters of all options that are set.
const OPTIONS_TEXT: usize = 500;

/// Names of each list that the agent reports, and characters of them.
const AGENT_NAMES: usize = 6;
const AGENT_TEXT: usize = 200;

/// Queued messages that are listed.
const QUEUE: usize = 12;

/// Characters of a queued message in the list and on its button.
const QUEUED_TEXT: usize = 120;
const QUEUED_LABEL: usize = 28;

/// A session that the CLI ran without Towpath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliSessionSummary {
    /// The CLI's id.
    pub id: Uuid,
    pub title: Option<String>,
    /// When something was last said in it, in milliseconds since 1970.
    pub active: u64,
}

/// The latest sessions, each with a button that shows it in the chat. `now` is in milliseconds since
/// 1970.
pub fn sessions(
    records: &[SessionRecord],
    current: Option<SessionId>,
    roots: &Roots,
    agents: &AgentCatalog,
    now: u64,
) -> BotReply {
    if records.is_empty() {
        return "No sessions yet. Send a message to start one.".into();
    }
    let mut reply = BotReply::default();
    reply.text.push_formatted(TextFormat::Bold, "Sessions");
    push_sessions(&mut reply, records, current, roots, agents, now);
    reply
}

/// The sessions of a directory, and those that the CLI ran there without Towpath.
pub fn resumable(
    records: &[SessionRecord],
    terminal: &[CliSessionSummary],
    current: Option<SessionId>,
    roots: &Roots,
    agents: &AgentCatalog,
    now: u64,
) -> BotReply {
    if records.is_empty() && terminal.is_empty() {
        return "No sessions in this directory. /sessions lists those of all directories.".into();
    }
    let mut reply = BotReply::default();
    reply.text.push_formatted(TextFormat::Bold, "Sessions in this directory");
    push_sessions(&mut reply, records, current, roots, agents, now);
    if !terminal.is_empty() {
        reply.text.push("\n\n");
        reply.text.push_formatted(TextFormat::Bold, "Started in a terminal");
    }
    for CliSessionSummary { id, title, active } in terminal {
        let short: String = id.simple().to_string().chars().take(8).collect();
        let title = title.as_deref().map(|it| shortened(&visible(it), TITLE));
        let title = title.filter(|it| !it.is_empty()).unwrap_or_else(|| format!("Session {short}"));
        reply.text.push("\n• ");
        reply.text.push_formatted(TextFormat::Bold, &title);
        reply.text.push(&format!(" · {} · ", age(now.saturating_sub(*active))));
        reply.text.push_formatted(TextFormat::Code, &short);
        let data = format!("t:{}", id.simple());
        reply.buttons.push(vec![BotButton { label: title, data }]);
    }
    reply
}

fn push_sessions(
    reply: &mut BotReply,
    records: &[SessionRecord],
    current: Option<SessionId>,
    roots: &Roots,
    agents: &AgentCatalog,
    now: u64,
) {
    let mut newest: Vec<_> = records.iter().collect();
    newest.sort_by_key(|record| std::cmp::Reverse((record.active, record.id)));
    for (record, number) in newest.iter().zip(1..).take(SESSIONS) {
        let title = title(record);
        reply.text.push(&format!("\n\n{number}. "));
        reply.text.push_formatted(TextFormat::Bold, &title);
        let mut parts = vec![
            short_path(&record.directory, roots),
            status_name(record.status).to_owned(),
            age(now.saturating_sub(record.active)),
        ];
        if let Some(agent) = other_agent(record, agents) {
            parts.insert(0, agent);
        }
        if current == Some(record.id) {
            parts.push("shown here".to_owned());
        } else {
            reply.buttons.push(vec![resume_button(format!("{number}. {title}"), record.id)]);
        }
        reply.text.push(&format!("\n{} · ", parts.join(" · ")));
        reply.text.push_formatted(TextFormat::Code, &short_id(record.id));
    }
    if newest.len() > SESSIONS {
        let more = newest.len() - SESSIONS;
        reply.text.push(&format!(
            "\n\n… and {more} more. To show one, use /resume with the beginning of its id."
        ));
    }
}

/// What people call the agent of a session; none for Claude Code, which most sessions have.
fn other_agent(record: &SessionRecord, agents: &AgentCatalog) -> Option<String> {
    let options = SessionOptions::from_json(&record.options, record.directory.clone()).ok()?;
    let agent = options.agent.filter(|it| it != "claude")?;
    Some(shortened(agents.title(Some(&agent)), 40))
}

/// `agent` is what people call the agent, if it is not Claude Code.
pub fn session_created(
    directory: &Path,
    roots: &Roots,
    options: &ShownOptions,
    agent: Option<&str>,
) -> BotReply {
    let mut text = FormattedText::plain("New session ");
    if let Some(agent) = agent {
        text.push("with ");
        text.push_formatted(TextFormat::Bold, &shortened(agent, 60));
        text.push(" ");
    }
    text.push("in ");
    text.push_formatted(TextFormat::Code, &short_path(directory, roots));
    push_options(&mut text, options, " with ");
    text.push(". What should the agent do?");
    text.into()
}

pub fn session_resumed(record: &SessionRecord, roots: &Roots, agents: &AgentCatalog) -> BotReply {
    let mut text = FormattedText::plain("This chat now shows ");
    text.push_formatted(TextFormat::Bold, &title(record));
    if let Some(agent) = other_agent(record, agents) {
        text.push(&format!(", with {agent}"));
    }
    text.push(&format!(
        ", in {} ({}).",
        short_path(&record.directory, roots),
        status_name(record.status)
    ));
    text.into()
}

pub fn session_not_found(prefix: &str) -> BotReply {
    let mut text = FormattedText::plain("No session id begins with ");
    text.push_formatted(TextFormat::Code, &shortened(prefix, 40));
    text.push(". See /sessions.");
    text.into()
}

pub fn session_ambiguous(prefix: &str) -> BotReply {
    let mut text = FormattedText::plain("Several session ids begin with ");
    text.push_formatted(TextFormat::Code, &shortened(prefix, 40));
    text.push(". Use more characters of the id, or choose from /sessions.");
    text.into()
}

/// The directory does not exist or is not allowed. The reply does not say which.
pub fn directory_not_allowed(directory: &str, roots: &Roots) -> BotReply {
    let mut text = FormattedText::plain("Cannot work in ");
    text.push_formatted(TextFormat::Code, &shortened(directory, 200));
    text.push(". Use an existing directory in:");
    for root in roots.directories() {
        text.push("\n• ");
        text.push_formatted(TextFormat::Code, &root.display().to_string());
    }
    text.into()
}

/// The options that are set, after a word that leads to them. The agent is named elsewhere.
fn push_options(text: &mut FormattedText, options: &ShownOptions, lead: &str) {
    let set = options.set(OPTION_VALUE).filter(|(name, _)| *name != "agent");
    for (index, (name, value)) in set.enumerate() {
        text.push(if index == 0 { lead } else { ", " });
        text.push_formatted(TextFormat::Code, &format!("{name}={value}"));
    }
}

fn title(record: &SessionRecord) -> String {
    let title = record.title.as_deref().map(|it| shortened(it, TITLE)).filter(|it| !it.is_empty());
    title.unwrap_or_else(|| format!("Session {}", short_id(record.id)))
}

/// The beginning of an id, as `/resume` accepts it.
fn short_id(id: SessionId) -> String {
    id.0.simple().to_string().chars().take(8).collect()
}

fn status_name(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Idle => "idle",
        SessionStatus::Running => "running",
        SessionStatus::Waiting => "waiting for you",
        SessionStatus::Dead => "not running",
        SessionStatus::Failed => "failed",
    }
}

/// A directory, starting with the name of its root.
pub(super) fn short_path(directory: &Path, roots: &Roots) -> String {
    let root = roots.directories().iter().find(|root| directory.starts_with(root));
    let base = root.and_then(|root| root.parent()).map(PathBuf::from);
    let rest = base.and_then(|base| directory.strip_prefix(base).ok().map(PathBuf::from));
    match rest {
        Some(rest) if rest != Path::new("") => rest.display().to_string(),
        _ => directory.display().to_string(),
    }
}

pub(super) fn age(milliseconds: u64) -> String {
    let minutes = milliseconds / 60_000;
    match minutes {
        0 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..1440 => format!("{} h ago", minutes / 60),
        1440..2880 => "yesterday".to_owned(),
        _ => format!("{} days ago", minutes / 1440),
    }
}

pub fn session_deleted() -> BotReply {
    "This session was deleted. Your next message starts a new one; /sessions lists the others."
        .into()
}

/// `now` is in milliseconds since 1970. `idle_timeout` is when an agent without work is stopped.
pub fn status(
    conversation: &Conversation,
    options: &ShownOptions,
    idle_timeout: &str,
    roots: &Roots,
    now: u64,
) -> BotReply {
    let Conversation { head, status, queue, requests, usage, agent, .. } = conversation;
    let look = terminal::TerminalOptions { width: STATUS, base: head.cwd.as_deref(), full: false };
    let doing = terminal::status(status, Some(now), look).text();
    let mut text = FormattedText::default();
    text.push_formatted(TextFormat::Bold, &capitalized(&doing));
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|it| !it.is_empty()) {
            text.push(&format!("\n{name}: {value}"));
        }
    };
    line("Session", head.title.as_deref().map(|it| shortened(it, 80)));
    line("Directory", head.cwd.as_ref().map(|it| short_path(it.as_ref(), roots)));
    let effort = head.effort.as_ref().map(|it| format!(", effort {it}")).unwrap_or_default();
    line("Model", head.model.as_ref().map(|it| format!("{it}{effort}")));
    line("Mode", head.mode.as_deref().map(|it| mode_label(it).to_owned()));
    line("Context", context(usage));
    let waiting = (!queue.is_empty())
        .then(|| format!("{} – /queue", wording::plural(queue.len(), "message", "messages")));
    line("Queued", waiting);
    let open =
        (!requests.is_empty()).then(|| wording::plural(requests.len(), "request", "requests"));
    line("Waiting for you", open);
    line("Stopped when idle", Some(idle_timeout.to_owned()));
    let set: Vec<_> =
        options.set(OPTION_VALUE).map(|(name, value)| format!("{name}={value}")).collect();
    line("Options", Some(shortened(&set.join(", "), OPTIONS_TEXT)));
    for AgentFact { label, text } in agent.iter().flat_map(|it| it.facts(AGENT_NAMES)) {
        // These are shown above, as they are now.
        if !["model", "mode", "directory", "commands"].contains(&label) {
            line(&capitalized(label), Some(shortened(&visible(&text), AGENT_TEXT)));
        }
    }
    text.into()
}

pub fn cost(usage: &SessionUsage, turns: u64) -> BotReply {
    let mut lines = Vec::new();
    lines.push(match usage.cost {
        Some(cost) => wording::dollars(cost),
        None => "No cost reported.".to_owned(),
    });
    if usage.tokens.total() > 0 {
        lines.push(wording::tokens(usage.tokens));
        lines.extend((usage.tokens.cache_read > 0).then(|| {
            format!("of which {} from the cache", wording::count(usage.tokens.cache_read))
        }));
    }
    let turns = usize::try_from(turns).unwrap_or(usize::MAX);
    lines.push(wording::plural(turns, "turn", "turns"));
    lines.extend(context(usage).map(|it| format!("Context: {it}")));
    let used = usage.plan.as_ref().and_then(|plan| plan.used);
    lines.extend(used.map(|used| format!("Plan: {} used", percent(used))));
    let mut text = FormattedText::default();
    let mut lines = lines.into_iter();
    text.push_formatted(TextFormat::Bold, &lines.next().unwrap_or_default());
    for line in lines {
        text.push(&format!("\n{line}"));
    }
    text.into()
}

#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn context(usage: &SessionUsage) -> Option<String> {
    let used = usage.context?;
    Some(match usage.window.filter(|&window| window > 0) {
        Some(window) => format!(
            "{} of {} tokens ({})",
            wording::count(used),
            wording::count(window),
            percent(used as f64 / window as f64)
        ),
        None => format!("{} tokens", wording::count(used)),
    })
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    match rest.next() {
        Some(first) => first.to_uppercase().chain(rest).collect(),
        None => String::new(),
    }
}

/// The queued messages, each with a button that removes it as long as that is possible.
pub fn queue(prompts: &[QueuedPrompt]) -> BotReply {
    if prompts.is_empty() {
        return "No messages are queued.".into();
    }
    let mut reply = BotReply::default();
    reply
        .text
        .push_formatted(TextFormat::Bold, &wording::plural(prompts.len(), "message", "messages"));
    reply.text.push(" queued:");
    for (prompt, number) in prompts.iter().zip(1..).take(QUEUE) {
        let mut text = shortened(&prompt.text, QUEUED_TEXT);
        if prompt.images > 0 {
            let pictures = wording::plural(prompt.images, "picture", "pictures");
            let space = if text.is_empty() { "" } else { " " };
            text = format!("{text}{space}({pictures})");
        }
        let by = prompt.by.as_ref().map(|by| format!(" – {}", shortened(&by.name, 40)));
        reply.text.push(&format!("\n{number}. {text}{}", by.unwrap_or_default()));
        if let (PromptState::Queued, Ok(id)) = (prompt.state, prompt.id.parse::<Uuid>()) {
            let label = format!("✕ {number}. {}", shortened(&text, QUEUED_LABEL));
            reply.buttons.push(vec![remove_button(label, id)]);
        }
    }
    if prompts.len() > QUEUE {
        reply.text.push(&format!("\n… and {} more", prompts.len() - QUEUE));
    }
    reply
}

/// A message was queued behind others.
pub fn prompt_queued(before: usize) -> BotReply {
    match before {
        0 => "Queued as the next message. See /queue.".into(),
        before => {
            let others = wording::plural(before, "other message", "other messages");
            format!("Queued behind {others}. See /queue.").into()
        }
    }
}

pub fn prompt_removed() -> BotReply {
    "Removed.".into()
}

/// An edit changed a queued message.
pub fn prompt_edited() -> BotReply {
    "Updated the queued message.".into()
}

/// An edit came too late, or the other messages of its prompt are not known.
pub fn too_late_to_edit() -> BotReply {
    "The agent already has the original message. Send a new message with your change.".into()
}
