//! A tool call as lines for a terminal: a headline, its input, and its result.

use super::markdown::markdown;
use super::{StyledLine, TerminalOptions};
use crate::ansi::{self, AnsiColour, TextStyle};
use crate::call::{Call, CallState};
use crate::card::Card;
use crate::conversation::{Todo, TodoState};
use crate::diff::{Diff, LineChange};
use crate::highlight::{SyntaxToken, highlight};
use crate::tool::{Question, ToolAction, ToolInput};
use crate::tool_text::{indented_json, readable_result, without_line_numbers};
use crate::wording;
use wire::note::Outcome;

const SOFT: TextStyle = TextStyle::PLAIN.dim();

/// Lines of output that are shown unless everything is: of a successful call, and of a failed one.
const SHORT_OUTPUT: usize = 6;
const LONG_OUTPUT: usize = 24;

/// Lines of a diff that are shown unless everything is.
const DIFF_LINES: usize = 40;

pub(super) fn call(call: &Call, options: TerminalOptions<'_>) -> Vec<StyledLine> {
    let mut lines = head(call, options);
    lines.extend(result(call, options));
    lines
}

/// A call without its result.
pub(super) fn head(call: &Call, options: TerminalOptions<'_>) -> Vec<StyledLine> {
    let mut lines = vec![headline(call, options).cut(options.width)];
    let inside = options.indented(2);
    let mut below = Vec::new();
    permission(call, inside, &mut below);
    body(call, inside, &mut below);
    lines.extend(below.iter().map(indented));
    lines
}

/// The result of a call.
pub(super) fn result(call: &Call, options: TerminalOptions<'_>) -> Vec<StyledLine> {
    let mut below = Vec::new();
    result_body(call, options.indented(2), &mut below);
    below.iter().map(indented).collect()
}

fn indented(line: &StyledLine) -> StyledLine {
    let mut indented = StyledLine::of(SOFT, "  ");
    indented.append(line);
    indented
}

/// The one-line summary with the call's state.
fn headline(call: &Call, options: TerminalOptions<'_>) -> StyledLine {
    let card = Card::of(call, options.base);
    let failed = matches!(call.state, CallState::Failed | CallState::Denied);
    let state_style = match call.state {
        CallState::Done => TextStyle::PLAIN.in_colour(2),
        CallState::Failed | CallState::Denied => TextStyle::PLAIN.in_colour(1).bold(),
        CallState::Waiting => TextStyle::PLAIN.in_colour(3),
        CallState::Writing | CallState::Running | CallState::Unanswered => SOFT,
    };
    let mut line = StyledLine::of(state_style, card.state_icon);
    line.push(TextStyle::PLAIN, " ");
    line.push(
        TextStyle { foreground: Some(colour(call.action)), ..TextStyle::PLAIN.bold() },
        &card.label,
    );
    if !card.target.is_empty() {
        line.push(TextStyle::PLAIN, " ");
        line.push(
            if failed { TextStyle::PLAIN.in_colour(1) } else { TextStyle::PLAIN },
            &card.target,
        );
    }
    for part in
        [Some(card.detail).filter(|aside| !aside.is_empty()), card.duration].into_iter().flatten()
    {
        line.push(SOFT, &format!(" · {part}"));
    }
    line
}

fn colour(action: ToolAction) -> ansi::AnsiColour {
    ansi::AnsiColour(match action {
        ToolAction::Read
        | ToolAction::Search
        | ToolAction::Track
        | ToolAction::Skill
        | ToolAction::Use => 6,
        ToolAction::Write | ToolAction::Edit => 3,
        ToolAction::Run => 2,
        ToolAction::Fetch | ToolAction::SearchWeb => 4,
        ToolAction::Delegate | ToolAction::Ask | ToolAction::Plan => 5,
    })
}

fn permission(call: &Call, options: TerminalOptions<'_>, lines: &mut Vec<StyledLine>) {
    let Some(permission) = &call.permission else { return };
    let remembers = permission.outcome == Some(Outcome::AllowedAndRemembered);
    // What an agent's own choice allows from now on is in its name.
    let says_more = remembers && permission.choice.is_some();
    if matches!(permission.outcome, Some(Outcome::Allowed | Outcome::AllowedAndRemembered))
        && !says_more
    {
        return;
    }
    let outcome = wording::permission_outcome(permission.outcome);
    let by = permission.by.as_ref().map(|by| format!(" by {}", by.name)).unwrap_or_default();
    let result = call.result.as_ref().map_or("", |result| result.text.as_str());
    let message = permission.message.as_ref().filter(|it| !result.contains(it.as_str()));
    let message = message.or(permission.choice.as_ref());
    let message = message.map(|it| format!(": {it}")).unwrap_or_default();
    let line = StyledLine::of(TextStyle::PLAIN.in_colour(3), &format!("{outcome}{by}{message}"));
    lines.extend(line.wrapped(options.width));
}

fn body(call: &Call, options: TerminalOptions<'_>, lines: &mut Vec<StyledLine>) {
    if let Some(change) = Diff::of(call) {
        lines.extend(diff(&change, options));
        return;
    }
    match call.tool_input() {
        ToolInput::Write { path, content } => {
            let limit = if options.full { usize::MAX } else { SHORT_OUTPUT };
            code(&content, &path, limit, options, lines);
        }
        ToolInput::Shell { command, .. } => {
            // The headline has the first line already.
            let rest = command.trim().lines().count() > 1;
            if rest || options.full {
                code(
                    &command,
                    "a.sh",
                    if options.full { usize::MAX } else { SHORT_OUTPUT },
                    options,
                    lines,
                );
            }
        }
        ToolInput::Agent { prompt, .. } if options.full => lines.extend(markdown(&prompt, options)),
        ToolInput::Todos(todos) => lines.extend(todos.iter().map(todo)),
        ToolInput::Questions(questions) => {
            let answers =
                call.permission.as_ref().map(|it| it.answers.as_slice()).unwrap_or_default();
            for question in &questions {
                self::question(question, answers, options, lines);
            }
        }
        ToolInput::Plan(plan) => lines.extend(markdown(&plan, options)),
        ToolInput::Other(input) if options.full => {
            code(&indented_json(input), "a.json", usize::MAX, options, lines);
        }
        ToolInput::Read { .. }
        | ToolInput::Edit { .. }
        | ToolInput::Search { .. }
        | ToolInput::Web { .. }
        | ToolInput::Agent { .. }
        | ToolInput::Other(_) => {}
    }
}

fn result_body(call: &Call, options: TerminalOptions<'_>, lines: &mut Vec<StyledLine>) {
    let Some(result) = &call.result else { return };
    let done = call.state == CallState::Done;
    let limit = match call.action {
        _ if options.full => usize::MAX,
        _ if !done => LONG_OUTPUT,
        ToolAction::Run | ToolAction::Use => SHORT_OUTPUT,
        ToolAction::Delegate => LONG_OUTPUT,
        // The answers are shown with the questions, if they are known.
        ToolAction::Ask if call.permission.as_ref().is_none_or(|it| it.answers.is_empty()) => {
            SHORT_OUTPUT
        }
        // Read and search results are for the agent; the headline is enough.
        _ => 0,
    };
    let text = if options.full { &result.text } else { readable_result(&result.text) };
    if limit > 0 && !text.trim().is_empty() {
        match call.tool_input() {
            ToolInput::Agent { .. } | ToolInput::Web { .. } if done => {
                limited(markdown(text, options), limit, lines);
            }
            ToolInput::Read { path, .. } if done => {
                code(&without_line_numbers(text), &path, limit, options, lines);
            }
            _ => output(text, done, limit, options, lines),
        }
    }
    if result.omitted_bytes > 0 && limit > 0 {
        let text = format!("… truncated: {} more", wording::size(result.omitted_bytes));
        lines.push(StyledLine::of(SOFT, &text));
    }
    for image in &result.images {
        let text = format!("[{}, {}]", image.media_type, wording::size(image.bytes));
        lines.push(StyledLine::of(SOFT, &text));
    }
}

/// The output of a program with its colours; uncoloured output of a failed call is red.
fn output(
    text: &str,
    done: bool,
    limit: usize,
    options: TerminalOptions<'_>,
    lines: &mut Vec<StyledLine>,
) {
    let total = text.trim_end().lines().count();
    for spans in ansi::lines(text.trim_end()).take(limit) {
        let mut line = StyledLine::default();
        for span in spans {
            let plain = if done { SOFT } else { TextStyle::PLAIN.in_colour(1) };
            line.push(if span.style == TextStyle::PLAIN { plain } else { span.style }, &span.text);
        }
        lines.extend(line.wrapped(options.width));
    }
    more(total.saturating_sub(limit), lines);
}

fn code(
    text: &str,
    path: &str,
    limit: usize,
    options: TerminalOptions<'_>,
    lines: &mut Vec<StyledLine>,
) {
    let language = path.rsplit(['.', '/']).next().unwrap_or_default();
    // Colouring costs far more than showing: 25 µs for each byte of some grammars.
    let shown = limit.checked_sub(1).and_then(|last| text.match_indices('\n').nth(last));
    let (shown, hidden) = match shown {
        Some((end, _)) => (&text[..end], text[end + 1..].lines().count()),
        None => (text, 0),
    };
    for line in &code_lines(shown, language) {
        for part in line.hard_wrapped(options.width.saturating_sub(2)) {
            let mut indented = StyledLine::of(SOFT, "▏ ");
            indented.append(&part);
            lines.push(indented);
        }
    }
    more(hidden, lines);
}

fn limited(mut new: Vec<StyledLine>, limit: usize, lines: &mut Vec<StyledLine>) {
    let hidden = new.len().saturating_sub(limit);
    new.truncate(limit);
    lines.append(&mut new);
    more(hidden, lines);
}

fn more(hidden: usize, lines: &mut Vec<StyledLine>) {
    if hidden > 0 {
        let text = format!("… {}", wording::plural(hidden, "more line", "more lines"));
        lines.push(StyledLine::of(SOFT, &text));
    }
}

fn todo(todo: &Todo) -> StyledLine {
    let (sign, style) = match todo.state {
        TodoState::Pending => ("☐", TextStyle::PLAIN),
        TodoState::Doing => ("◐", TextStyle::PLAIN.bold()),
        TodoState::Done => ("☑", SOFT),
    };
    StyledLine::of(style, &format!("{sign} {}", todo.text))
}

fn question(
    question: &Question,
    answers: &[(String, String)],
    options: TerminalOptions<'_>,
    lines: &mut Vec<StyledLine>,
) {
    lines.extend(StyledLine::of(TextStyle::PLAIN.bold(), &question.text).wrapped(options.width));
    let answer = answers.iter().find(|(text, _)| *text == question.text).map(|(_, answer)| answer);
    let mut others: Vec<_> = answer.iter().flat_map(|answer| answer.split(", ")).collect();
    for option in &question.options {
        let before = others.len();
        others.retain(|one| *one != option.label);
        let chosen = others.len() < before;
        let (sign, style) =
            if chosen { ("◉", TextStyle::PLAIN.in_colour(2)) } else { ("○", TextStyle::PLAIN) };
        let mut line = StyledLine::of(style, &format!("{sign} {}", option.label));
        if !option.description.is_empty() {
            line.push(SOFT, &format!("  {}", option.description));
        }
        lines.extend(line.wrapped(options.width));
    }
    // What the user wrote beside the options.
    if !others.is_empty() {
        let line = format!("◉ {}", others.join(", "));
        lines.extend(StyledLine::of(TextStyle::PLAIN.in_colour(2), &line).wrapped(options.width));
    }
}

/// Coloured code, in the sixteen colours that the user chose.
pub(super) fn code_lines(code: &str, language: &str) -> Vec<StyledLine> {
    let mut lines = vec![StyledLine::default()];
    highlight(code, language, |token, text| {
        let style = token.map_or(TextStyle::PLAIN, token_style);
        for (number, part) in text.split('\n').enumerate() {
            if number > 0 {
                lines.push(StyledLine::default());
            }
            if let Some(line) = lines.last_mut() {
                line.push(style, part);
            }
        }
    });
    if lines.last().is_some_and(StyledLine::is_empty) {
        lines.pop();
    }
    lines
}

fn token_style(token: SyntaxToken) -> TextStyle {
    match token {
        SyntaxToken::Comment => TextStyle::PLAIN.in_colour(8).italic(),
        SyntaxToken::StringLiteral | SyntaxToken::Added => TextStyle::PLAIN.in_colour(2),
        SyntaxToken::Constant => TextStyle::PLAIN.in_colour(3),
        SyntaxToken::Keyword => TextStyle::PLAIN.in_colour(5),
        SyntaxToken::Function => TextStyle::PLAIN.in_colour(4),
        SyntaxToken::Type | SyntaxToken::Tag | SyntaxToken::Attribute => {
            TextStyle::PLAIN.in_colour(6)
        }
        SyntaxToken::Heading => TextStyle::PLAIN.in_colour(5).bold(),
        SyntaxToken::Removed => TextStyle::PLAIN.in_colour(1),
        SyntaxToken::Invalid => TextStyle { underline: true, ..TextStyle::PLAIN.in_colour(1) },
    }
}

fn diff(diff: &Diff, options: TerminalOptions<'_>) -> Vec<StyledLine> {
    let numbers =
        diff.hunks.iter().flat_map(|hunk| &hunk.lines).filter_map(|line| line.number).max();
    let gutter = numbers.map_or(0, |number| number.to_string().len() + 1);
    let limit = if options.full { usize::MAX } else { DIFF_LINES };
    let mut lines = Vec::new();
    let mut shown = 0;
    for (number, hunk) in diff.hunks.iter().enumerate() {
        if number > 0 && shown < limit {
            lines.push(StyledLine::of(TextStyle::PLAIN.dim(), &format!("{}⋮", " ".repeat(gutter))));
        }
        for line in hunk.lines.iter().take(limit - shown) {
            let (style, changed) = match line.change {
                LineChange::Unchanged => (TextStyle::PLAIN, TextStyle::PLAIN),
                LineChange::Added => (TextStyle::PLAIN.in_colour(2), inverse(2)),
                LineChange::Removed => (TextStyle::PLAIN.in_colour(1), inverse(1)),
            };
            let mut whole = StyledLine::default();
            for span in &line.spans {
                whole.push(if span.changed { changed } else { style }, &span.text);
            }
            for (part, text) in
                whole.hard_wrapped(options.width.saturating_sub(gutter + 2)).iter().enumerate()
            {
                let number =
                    line.number.filter(|_| part == 0).map(|it| it.to_string()).unwrap_or_default();
                let mut out = StyledLine::default();
                if gutter > 0 {
                    let width = gutter - 1;
                    out.push(TextStyle::PLAIN.dim(), &format!("{number:>width$} "));
                }
                let sign = if part == 0 { line.change.sign() } else { ' ' };
                out.push(style, &format!("{sign} "));
                out.append(text);
                lines.push(out);
            }
            shown += 1;
        }
    }
    let hidden = diff.len().saturating_sub(limit);
    if hidden > 0 {
        let text = format!("… {}", wording::plural(hidden, "more line", "more lines"));
        lines.push(StyledLine::of(TextStyle::PLAIN.dim(), &text));
    }
    lines
}

/// The style of changed words.
fn inverse(colour: u8) -> TextStyle {
    TextStyle { foreground: Some(AnsiColour(colour)), inverse: true, ..TextStyle::PLAIN }
}
