//! What the keys do, for who presses `?`.

use view::ansi::Style;
use view::terminal::Line;

const KEYS: &[(&str, &str)] = &[
    ("Enter", "send; while the agent works, the prompt waits for its turn"),
    ("> words", "steer: the words join the turn that is running"),
    ("\\ Enter, Alt-Enter", "another line"),
    ("↑ ↓", "what was written before; ↑ on an empty line takes back what waits"),
    ("paste a path", "of a picture: it goes with the prompt"),
    ("Tab", "between a request and the line"),
    ("Ctrl-C", "stop the turn; what waits runs next"),
    ("Ctrl-C twice, Ctrl-D", "leave; the session is kept, a running turn is finished alone"),
    ("/…", "commands of the agent itself, as /compact or /clear"),
];

/// The lines of it.
pub(super) fn lines(width: usize) -> Vec<Line> {
    let widest = KEYS.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    let line = |(key, words): &(&str, &str)| {
        let mut line = Line::of(Style::PLAIN.in_colour(6), &format!("  {key:<widest$}"));
        line.push(Style::PLAIN.dim(), &format!("  {words}"));
        line.cut(width)
    };
    KEYS.iter().map(line).collect()
}
