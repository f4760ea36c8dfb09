//! A conversation as one HTML file that can be opened offline, searched, collapsed and printed.
//!
//! Only this page contains a script and a style sheet, because a single file has nowhere else to keep
//! them. Its content security policy allows these two by a random nonce that the conversation's
//! author could not know. It forbids every other script and style, and all loading and sending.

use std::fmt::Write as _;

use super::STYLE;
use super::text::{colour_rules, escape, escaped};
use crate::agent_info::{AgentInfo, CLAUDE_CODE};
use crate::conversation::ConversationHead;
use crate::tool::ToolAction;
use crate::usage::SessionUsage;
use crate::wording;

const PAGE_STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The nonce of a page's own script and style. It must be random for each page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CspNonce(pub u128);

impl std::fmt::Display for CspNonce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The numbers at the top of a page.
#[derive(Clone, Debug, Default)]
pub struct PageTotals {
    /// The title, if the session has none.
    pub first_prompt: Option<String>,
    /// The number of each turn and the first line of its prompt, in order.
    pub prompts: Vec<(u64, String)>,
    pub turns: usize,
    /// Tool calls, those of sub-agents included.
    pub calls: usize,
    /// Changed files.
    pub files: usize,
    /// The times of the first and last item, in milliseconds since 1970.
    pub span: Option<(u64, u64)>,
    /// The duration of all turns together.
    pub worked_ms: u64,
    pub usage: SessionUsage,
}

/// The page up to the first turn.
pub fn page_head(
    head: &ConversationHead,
    agent: Option<&AgentInfo>,
    totals: &PageTotals,
    timeline: &Timeline,
    nonce: CspNonce,
) -> String {
    let title = escaped(&title(head, totals));
    let rules = colour_rules();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
         name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta \
         http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'nonce-{nonce}'; script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'\">\n<meta \
         name=\"referrer\" content=\"no-referrer\">\n<meta name=\"generator\" \
         content=\"towpath\">\n<title>{title}</title>\n<style nonce=\"{nonce}\">\n{STYLE}{rules}\n{PAGE_STYLE}</style>\n\
         </head>\n<body>\n<div class=\"top\"><div><span class=\"name\">{title}</span><output \
         id=\"found\"></output><input id=\"search\" type=\"search\" placeholder=\"Search  /\" \
         aria-label=\"Search\"><button id=\"fold\" title=\"Expand or collapse everything (e)\">Expand \
         all</button><button id=\"theme\" title=\"Light or dark (t)\">◐</button></div></div>\n\
         <header>\n<h1>{title}</h1>\n"
    );
    let mut details = Vec::new();
    details.extend(head.model.as_deref().map(escaped));
    let name = agent.map_or(CLAUDE_CODE, AgentInfo::display_name);
    details.extend(head.version.as_deref().map(|version| escaped(&format!("{name} {version}"))));
    details.extend(head.cwd.as_deref().map(|cwd| format!("<code>{}</code>", escaped(cwd))));
    details.extend(totals.span.map(|(first, _)| format!("{} UTC", wording::date_time(first))));
    let _ = writeln!(out, "<p class=\"where\">{}</p>", details.join(" · "));
    numbers(totals, &mut out);
    out.push_str(&timeline.svg());
    if let Some(agent) = agent {
        self::agent(agent, &mut out);
    }
    contents(&totals.prompts, &mut out);
    out.push_str("</header>\n<main>\n");
    out
}

/// What the agent says about itself, collapsed.
fn agent(agent: &AgentInfo, out: &mut String) {
    let summary = agent.summary();
    if summary.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<details class=\"contents agent\"><summary>{}</summary><dl>",
        escaped(&summary)
    );
    for fact in agent.facts(usize::MAX) {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", fact.label, escaped(&fact.text));
    }
    out.push_str("</dl></details>\n");
}

/// A table of contents of the prompts, if there are at least three.
fn contents(prompts: &[(u64, String)], out: &mut String) {
    if prompts.len() < 3 {
        return;
    }
    let _ =
        write!(out, "<details class=\"contents\"><summary>{} prompts</summary><ol>", prompts.len());
    for (turn, words) in prompts {
        let _ = write!(out, "<li><a href=\"#t{turn}\">{}</a></li>", escaped(words));
    }
    out.push_str("</ol></details>\n");
}

fn numbers(totals: &PageTotals, out: &mut String) {
    out.push_str("<ul class=\"numbers\">");
    let mut number = |value: &str, name: &str| {
        let _ = write!(out, "<li><b>{}</b>{name}</li>", escaped(value));
    };
    let mut things = |count: usize, one: &str, many: &str| {
        number(&count.to_string(), if count == 1 { one } else { many });
    };
    things(totals.turns, "turn", "turns");
    things(totals.calls, "tool call", "tool calls");
    if totals.files > 0 {
        things(totals.files, "file changed", "files changed");
    }
    if totals.worked_ms > 0 {
        number(&wording::duration(totals.worked_ms), "working time");
    }
    let tokens = totals.usage.tokens;
    if tokens.total() > 0 {
        number(&wording::count(tokens.total_input()), "tokens in");
        number(&wording::count(tokens.output), "tokens out");
    }
    match totals.usage.cost {
        Some(cost) => number(&wording::dollars(cost), "cost"),
        None => number("–", "cost unknown"),
    }
    out.push_str("</ul>\n");
}

fn title(head: &ConversationHead, totals: &PageTotals) -> String {
    let words = head.title.as_deref().or(totals.first_prompt.as_deref()).unwrap_or_default();
    let Some(line) = words.lines().map(str::trim).find(|line| !line.is_empty()) else {
        // `claude -p` does not repeat its prompt, so there may be no other title.
        let folder =
            head.cwd.as_deref().and_then(|cwd| cwd.rsplit('/').find(|name| !name.is_empty()));
        return folder.map_or("Conversation".to_owned(), |name| format!("Conversation in {name}"));
    };
    match line.char_indices().nth(110) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// The page after the last turn.
pub fn page_foot(head: &ConversationHead, nonce: CspNonce) -> String {
    let mut out = String::from("</main>\n<footer>");
    if let Some(session) = &head.session {
        out.push_str("Session ");
        escape(session, &mut out);
        out.push_str(". ");
    }
    out.push_str(
        "<span class=\"keys\"><kbd>/</kbd> search · <kbd>n</kbd> next · <kbd>j</kbd> <kbd>k</kbd> \
         turns · <kbd>e</kbd> expand all · <kbd>t</kbd> light or dark</span></footer>\n",
    );
    let _ = writeln!(out, "<script nonce=\"{nonce}\">");
    out.push_str(SCRIPT);
    out.push_str("</script>\n</body>\n</html>\n");
    out
}

/// Above this many points of a series, every second one is dropped.
const MAX_POINTS: usize = 4000;

const WIDTH: f64 = 820.0;
const AREA: f64 = 64.0;
const LANE: f64 = 12.0;

/// A chart of a conversation: the size of the context, and which tools were called when.
///
/// The horizontal axis is the order of entries, not time: a night between two prompts would leave no
/// room for either.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    last: u64,
    turns: Vec<u64>,
    calls: Vec<TimelineCall>,
    context: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct TimelineCall {
    at: u64,
    action: ToolAction,
    failed: bool,
}

impl Timeline {
    /// Adds a turn that began with the entry `at`.
    pub fn turn(&mut self, at: u64) {
        self.last = self.last.max(at);
        push(&mut self.turns, at);
    }

    /// Adds a tool call made with the entry `at`.
    pub fn call(&mut self, at: u64, action: ToolAction, failed: bool) {
        self.last = self.last.max(at);
        push(&mut self.calls, TimelineCall { at, action, failed });
    }

    /// Adds the size of the context as of the entry `at`.
    pub fn context(&mut self, at: u64, tokens: u64) {
        self.last = self.last.max(at);
        push(&mut self.context, (at, tokens));
    }

    /// The chart; empty if there is nothing to see.
    pub fn svg(&self) -> String {
        if self.calls.is_empty() && self.context.len() < 2 {
            return String::new();
        }
        let x = |at: u64| ratio(at, self.last.max(1)) * WIDTH;
        let height = AREA + LANE + 4.0;
        let mut out = format!(
            "<svg class=\"timeline\" viewBox=\"0 0 {WIDTH} {height}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"Context size and tool calls over the conversation\">"
        );
        for &turn in &self.turns {
            let _ = write!(out, "<path class=\"turn\" d=\"M{:.1} 0V{height}\"/>", x(turn));
        }
        let most = self.context.iter().map(|&(_, tokens)| tokens).max().unwrap_or(0);
        if most > 0 {
            let mut path = format!("M0 {AREA}");
            for &(at, tokens) in &self.context {
                let _ = write!(path, "H{:.1}", x(at));
                let level = AREA - ratio(tokens, most) * (AREA - 14.0);
                let _ = write!(path, "V{level:.1}");
            }
            let _ = write!(path, "H{WIDTH}V{AREA}Z");
            let _ = write!(out, "<path class=\"area\" d=\"{path}\"/>");
        }
        for call in &self.calls {
            let class = if call.failed { "failed" } else { action_class(call.action) };
            let x = (x(call.at) - 1.5).clamp(0.0, WIDTH - 3.0);
            let y = AREA + 4.0;
            let _ = write!(
                out,
                "<rect class={class} x=\"{x:.1}\" y=\"{y}\" width=\"3\" height=\"{LANE}\" rx=\"1\"/>"
            );
        }
        out.push_str("</svg>\n<ul class=\"legend\">");
        if most > 0 {
            let most = wording::count(most);
            let _ = write!(out, "<li><span class=area></span>context, up to {most} tokens</li>");
        }
        for (name, words) in [
            ("look", "read, search"),
            ("edit", "edit, write"),
            ("run", "run"),
            ("web", "web"),
            ("agent", "sub-agent"),
            ("ask", "ask, plan"),
        ] {
            if self.calls.iter().any(|call| !call.failed && action_class(call.action) == name) {
                let _ = write!(out, "<li><span class={name}></span>{words}</li>");
            }
        }
        if self.calls.iter().any(|call| call.failed) {
            out.push_str("<li><span class=failed></span>failed</li>");
        }
        out.push_str("</ul>\n");
        out
    }
}

fn push<T>(points: &mut Vec<T>, point: T) {
    points.push(point);
    if points.len() > MAX_POINTS {
        let mut keep = false;
        points.retain(|_| {
            keep = !keep;
            keep
        });
    }
}

#[expect(clippy::cast_precision_loss, reason = "a position in a chart")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// The CSS class of a tool call.
pub(super) fn action_class(action: ToolAction) -> &'static str {
    match action {
        ToolAction::Read | ToolAction::Search => "look",
        ToolAction::Write | ToolAction::Edit => "edit",
        ToolAction::Run => "run",
        ToolAction::Fetch | ToolAction::SearchWeb => "web",
        ToolAction::Delegate => "agent",
        ToolAction::Track | ToolAction::Skill | ToolAction::Use => "other",
        ToolAction::Ask | ToolAction::Plan => "ask",
    }
}
