//! How a session is, and what it has used.

use session::Roots;
use view::telegram::{Mark, Text};
use view::{Conversation, Usage, phrase, terminal};

use super::sessions::short;
use super::{Said, cut};

/// Characters of the line that says what the agent does.
const DOING: usize = 200;

/// How a session is. `now` is in milliseconds since 1970.
pub fn status(conversation: &Conversation, roots: &Roots, now: u64) -> Said {
    let Conversation { head, status, queue, requests, usage, .. } = conversation;
    let look = terminal::Look { width: DOING, base: head.cwd.as_deref(), full: false };
    let doing = terminal::status(status, Some(now), look).text();
    let mut text = Text::default();
    text.push_marked(Mark::Bold, &sentence(&doing));
    let mut line = |name: &str, words: Option<String>| {
        if let Some(words) = words.filter(|it| !it.is_empty()) {
            text.push(&format!("\n{name}: {words}"));
        }
    };
    line("Session", head.title.as_deref().map(|it| cut(it, 80)));
    line("Directory", head.cwd.as_ref().map(|it| short(it.as_ref(), roots)));
    let effort = head.effort.as_ref().map(|it| format!(", effort {it}")).unwrap_or_default();
    line("Model", head.model.as_ref().map(|it| format!("{it}{effort}")));
    line("Mode", head.mode.as_deref().map(|it| super::choices::mode_name(it).to_owned()));
    line("Context", context(usage));
    let waiting = (!queue.is_empty())
        .then(|| format!("{} – /queue", phrase::several(queue.len(), "message", "messages")));
    line("Waiting", waiting);
    let open =
        (!requests.is_empty()).then(|| phrase::several(requests.len(), "question", "questions"));
    line("For you to answer", open);
    text.into()
}

/// What a session has used, in so many turns.
pub fn cost(usage: &Usage, turns: u64) -> Said {
    let mut lines = Vec::new();
    lines.push(match usage.cost {
        Some(cost) => phrase::dollars(cost),
        None => "The agent has not said what it costs.".to_owned(),
    });
    if usage.tokens.total() > 0 {
        lines.push(phrase::tokens(usage.tokens));
        lines.extend((usage.tokens.cache_read > 0).then(|| {
            format!("of these, {} from the cache", phrase::count(usage.tokens.cache_read))
        }));
    }
    let turns = usize::try_from(turns).unwrap_or(usize::MAX);
    lines.push(phrase::several(turns, "turn", "turns"));
    lines.extend(context(usage).map(|it| format!("Context: {it}")));
    let used = usage.plan.as_ref().and_then(|plan| plan.used);
    lines.extend(used.map(|used| format!("Plan: {} used", percent(used))));
    let mut text = Text::default();
    let mut lines = lines.into_iter();
    text.push_marked(Mark::Bold, &lines.next().unwrap_or_default());
    for line in lines {
        text.push(&format!("\n{line}"));
    }
    text.into()
}

#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn context(usage: &Usage) -> Option<String> {
    let used = usage.context?;
    Some(match usage.window.filter(|&window| window > 0) {
        Some(window) => format!(
            "{} of {} tokens ({})",
            phrase::count(used),
            phrase::count(window),
            percent(used as f64 / window as f64)
        ),
        None => format!("{} tokens", phrase::count(used)),
    })
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn sentence(words: &str) -> String {
    let mut rest = words.chars();
    match rest.next() {
        Some(first) => first.to_uppercase().chain(rest).collect(),
        None => String::new(),
    }
}
