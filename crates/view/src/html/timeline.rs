//! A conversation at a glance: how full the context was, and which tools were used when.
//!
//! The horizontal axis is the order of things, not time: a night between two prompts would leave
//! nothing to see of either.

use std::fmt::Write as _;

use crate::phrase;
use crate::subject::Verb;

/// Points of each sort that are kept; beyond, every second one is dropped.
const KEPT: usize = 4000;

const WIDTH: f64 = 820.0;
const AREA: f64 = 64.0;
const LANE: f64 = 12.0;

/// What a conversation looked like, point by point.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    last: u64,
    turns: Vec<u64>,
    calls: Vec<Tick>,
    context: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Tick {
    at: u64,
    verb: Verb,
    failed: bool,
}

impl Timeline {
    /// A turn began with the entry `at`.
    pub fn turn(&mut self, at: u64) {
        self.last = self.last.max(at);
        push(&mut self.turns, at);
    }

    /// A call of a tool was made with the entry `at`.
    pub fn call(&mut self, at: u64, verb: Verb, failed: bool) {
        self.last = self.last.max(at);
        push(&mut self.calls, Tick { at, verb, failed });
    }

    /// As of the entry `at` the context held so many tokens.
    pub fn context(&mut self, at: u64, tokens: u64) {
        self.last = self.last.max(at);
        push(&mut self.context, (at, tokens));
    }

    /// The picture; nothing where there is nothing to see.
    pub fn svg(&self) -> String {
        if self.calls.is_empty() && self.context.len() < 2 {
            return String::new();
        }
        let x = |at: u64| ratio(at, self.last.max(1)) * WIDTH;
        let height = AREA + LANE + 4.0;
        let mut out = format!(
            "<svg class=\"timeline\" viewBox=\"0 0 {WIDTH} {height}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"Tokens of context and tools used, in their order\">"
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
        for tick in &self.calls {
            let class = if tick.failed { "failed" } else { class(tick.verb) };
            let x = (x(tick.at) - 1.5).clamp(0.0, WIDTH - 3.0);
            let y = AREA + 4.0;
            let _ = write!(
                out,
                "<rect class={class} x=\"{x:.1}\" y=\"{y}\" width=\"3\" height=\"{LANE}\" rx=\"1\"/>"
            );
        }
        out.push_str("</svg>\n<ul class=\"legend\">");
        if most > 0 {
            let most = phrase::count(most);
            let _ = write!(out, "<li><span class=area></span>context, {most} tokens at most</li>");
        }
        for (name, words) in [
            ("look", "read, search"),
            ("edit", "edit, write"),
            ("run", "run"),
            ("web", "web"),
            ("agent", "sub-agent"),
            ("ask", "ask, plan"),
        ] {
            if self.calls.iter().any(|tick| !tick.failed && class(tick.verb) == name) {
                let _ = write!(out, "<li><span class={name}></span>{words}</li>");
            }
        }
        if self.calls.iter().any(|tick| tick.failed) {
            out.push_str("<li><span class=failed></span>failed</li>");
        }
        out.push_str("</ul>\n");
        out
    }
}

/// Adds a point; where there are too many, every second one goes.
fn push<T>(points: &mut Vec<T>, point: T) {
    points.push(point);
    if points.len() > KEPT {
        let mut keep = false;
        points.retain(|_| {
            keep = !keep;
            keep
        });
    }
}

#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

pub(super) fn class(verb: Verb) -> &'static str {
    match verb {
        Verb::Read | Verb::Search => "look",
        Verb::Write | Verb::Edit => "edit",
        Verb::Run => "run",
        Verb::Fetch | Verb::SearchWeb => "web",
        Verb::Delegate => "agent",
        Verb::Track | Verb::Skill | Verb::Use => "other",
        Verb::Ask | Verb::Plan => "ask",
    }
}
