//! The last line of a live session: what it is doing.

use super::wrap::cut;
use super::{Line, Look};
use crate::ansi::Style;
use crate::card::shortened;
use crate::phrase;
use crate::status::{Phase, Status};

/// What the session is doing, in one line that can be drawn again; `now` is the time in
/// milliseconds since 1970, where the line is to count.
pub fn status(status: &Status, now: Option<u64>, look: Look<'_>) -> Line {
    let style = Style::PLAIN.dim();
    let mut line = Line::default();
    let words = match &status.phase {
        Phase::Idle => "idle".to_owned(),
        Phase::Starting => "starting".to_owned(),
        Phase::Working => "working".to_owned(),
        Phase::Thinking { tokens: Some(tokens) } => {
            format!("thinking, {} tokens", phrase::count(*tokens))
        }
        Phase::Thinking { tokens: None } => "thinking".to_owned(),
        Phase::Writing => "writing".to_owned(),
        Phase::Running { tool, target, others, .. } => {
            let others = if *others > 0 { format!(" and {others} more") } else { String::new() };
            format!("running {tool} {}{others}", shortened(target, look.base))
        }
        Phase::Waiting { requests } => {
            line.push(Style::PLAIN.in_colour(3).bold(), "waiting for you");
            if *requests > 1 { format!(", {requests} requests") } else { String::new() }
        }
        Phase::Retrying { attempt, of, delay_ms } => {
            let which = match (attempt, of) {
                (Some(attempt), Some(of)) => format!(" {attempt} of {of}"),
                (Some(attempt), None) => format!(" {attempt}"),
                _ => String::new(),
            };
            let left = delay_ms.map(|delay| {
                let passed =
                    now.zip(status.since).map_or(0, |(now, since)| now.saturating_sub(since));
                format!(" in {}", phrase::duration(delay.saturating_sub(passed)))
            });
            format!("retrying{which}{}", left.unwrap_or_default())
        }
        Phase::Compacting => "summarising the history".to_owned(),
        Phase::Interrupting => "stopping".to_owned(),
        Phase::Stalled { seconds } => format!("silent for {}", phrase::duration(seconds * 1000)),
        Phase::Gone(gone) => phrase::cause(&gone.why),
    };
    line.push(style, &words);
    let since = status.turn_since.or(status.since);
    if status.phase.is_busy()
        && let Some(passed) = now.zip(since).map(|(now, since)| now.saturating_sub(since))
        && passed >= 1000
    {
        line.push(style, &format!(" · {}", phrase::duration(passed / 1000 * 1000)));
    }
    cut(&line, look.width)
}
