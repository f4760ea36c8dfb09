//! A call of a tool as lines for a terminal: one for what it is, a few for what came of it.

use super::code::code_lines;
use super::diff::diff;
use super::wrap::{broken, cut, wrapped};
use super::{Line, Look, prose};
use crate::ansi::{self, Style};
use crate::call::{Call, CallState};
use crate::card::Card;
use crate::diff::Diff;
use crate::html::without_numbers;
use crate::phrase;
use crate::reindent::reindented;
use crate::subject::{Question, Subject, Verb};
use crate::todo::{Todo, TodoState};
use crate::told::for_a_person;

const SOFT: Style = Style::PLAIN.dim();

/// Lines of output that are shown where not everything is: of what went well, and of what failed.
const BRIEF: usize = 6;
const TELLING: usize = 24;

/// The lines of a call.
pub(super) fn call(call: &Call, look: Look<'_>) -> Vec<Line> {
    let mut lines = head(call, look);
    lines.extend(report(call, look));
    lines
}

/// The lines of a call up to what came of it.
pub(super) fn head(call: &Call, look: Look<'_>) -> Vec<Line> {
    let mut lines = vec![cut(&headline(call, look), look.width)];
    let inside = look.within(2);
    let mut below = Vec::new();
    permission(call, inside, &mut below);
    body(call, inside, &mut below);
    lines.extend(below.iter().map(indented));
    lines
}

/// The lines of what came of a call.
pub(super) fn report(call: &Call, look: Look<'_>) -> Vec<Line> {
    let mut below = Vec::new();
    result(call, look.within(2), &mut below);
    below.iter().map(indented).collect()
}

fn indented(line: &Line) -> Line {
    let mut indented = Line::of(SOFT, "  ");
    indented.append(line);
    indented
}

/// The line that says what is done to what, and how it stands.
fn headline(call: &Call, look: Look<'_>) -> Line {
    let card = Card::of(call, look.base);
    let failed = matches!(call.state, CallState::Failed | CallState::Denied);
    let mark = match call.state {
        CallState::Done => Style::PLAIN.in_colour(2),
        CallState::Failed | CallState::Denied => Style::PLAIN.in_colour(1).bold(),
        CallState::Waiting => Style::PLAIN.in_colour(3),
        CallState::Writing | CallState::Running | CallState::Unanswered => SOFT,
    };
    let mut line = Line::of(mark, card.mark);
    line.push(Style::PLAIN, " ");
    line.push(Style { foreground: Some(colour(call.verb)), ..Style::PLAIN.bold() }, &card.verb);
    if !card.target.is_empty() {
        line.push(Style::PLAIN, " ");
        line.push(if failed { Style::PLAIN.in_colour(1) } else { Style::PLAIN }, &card.target);
    }
    for part in
        [Some(card.aside).filter(|aside| !aside.is_empty()), card.took].into_iter().flatten()
    {
        line.push(SOFT, &format!(" · {part}"));
    }
    line
}

fn colour(verb: Verb) -> ansi::Colour {
    ansi::Colour(match verb {
        Verb::Read | Verb::Search | Verb::Track | Verb::Skill | Verb::Use => 6,
        Verb::Write | Verb::Edit => 3,
        Verb::Run => 2,
        Verb::Fetch | Verb::SearchWeb => 4,
        Verb::Delegate | Verb::Ask | Verb::Plan => 5,
    })
}

fn permission(call: &Call, look: Look<'_>, lines: &mut Vec<Line>) {
    let Some(permission) = &call.permission else { return };
    let words = match permission.outcome {
        None => "waits for an answer",
        Some(wire::note::Outcome::Allowed | wire::note::Outcome::AllowedAndRemembered) => return,
        Some(wire::note::Outcome::Denied) => "refused",
        Some(wire::note::Outcome::Expired) => "refused for want of an answer",
        Some(wire::note::Outcome::Withdrawn) => "withdrawn",
    };
    let by = permission.by.as_ref().map(|by| format!(" by {}", by.name)).unwrap_or_default();
    let told = call.outcome.as_ref().map_or("", |outcome| outcome.text.as_str());
    let message = permission.message.as_ref().filter(|it| !told.contains(it.as_str()));
    let message = message.map(|it| format!(": {it}")).unwrap_or_default();
    let line = Line::of(Style::PLAIN.in_colour(3), &format!("{words}{by}{message}"));
    lines.extend(wrapped(&line, look.width));
}

fn body(call: &Call, look: Look<'_>, lines: &mut Vec<Line>) {
    if let Some(change) = Diff::of(call) {
        lines.extend(diff(&change, look));
        return;
    }
    match call.subject() {
        Subject::Write { path, content } => {
            let limit = if look.full { usize::MAX } else { BRIEF };
            code(&content, &path, limit, look, lines);
        }
        Subject::Shell { command, .. } => {
            // The headline has the first line.
            let rest = command.trim().lines().count() > 1;
            if rest || look.full {
                code(&command, "a.sh", if look.full { usize::MAX } else { BRIEF }, look, lines);
            }
        }
        Subject::Agent { prompt, .. } if look.full => lines.extend(prose(&prompt, look)),
        Subject::Todos(todos) => lines.extend(todos.iter().map(todo)),
        Subject::Questions(questions) => {
            let answers =
                call.permission.as_ref().map(|it| it.answers.as_slice()).unwrap_or_default();
            for question in &questions {
                self::question(question, answers, look, lines);
            }
        }
        Subject::Plan(plan) => lines.extend(prose(&plan, look)),
        Subject::Other(input) if look.full => {
            code(&reindented(input), "a.json", usize::MAX, look, lines);
        }
        Subject::Read { .. }
        | Subject::Edit { .. }
        | Subject::Search { .. }
        | Subject::Web { .. }
        | Subject::Agent { .. }
        | Subject::Other(_) => {}
    }
}

fn result(call: &Call, look: Look<'_>, lines: &mut Vec<Line>) {
    let Some(outcome) = &call.outcome else { return };
    let done = call.state == CallState::Done;
    let limit = match call.verb {
        _ if look.full => usize::MAX,
        _ if !done => TELLING,
        Verb::Run | Verb::Use => BRIEF,
        Verb::Delegate => TELLING,
        // The answers stand beside the questions, where they are known.
        Verb::Ask if call.permission.as_ref().is_none_or(|it| it.answers.is_empty()) => BRIEF,
        // What was read or found is for the agent; that it was is enough.
        _ => 0,
    };
    let words = if look.full { &outcome.text } else { for_a_person(&outcome.text) };
    if limit > 0 && !words.trim().is_empty() {
        match call.subject() {
            Subject::Agent { .. } | Subject::Web { .. } if done => {
                limited(prose(words, look), limit, lines);
            }
            Subject::Read { path, .. } if done => {
                code(&without_numbers(words), &path, limit, look, lines);
            }
            _ => output(words, done, limit, look, lines),
        }
    }
    if outcome.cut > 0 && limit > 0 {
        lines.push(Line::of(SOFT, &format!("… {} more not kept", phrase::size(outcome.cut))));
    }
    for picture in &outcome.pictures {
        let text = format!("[{}, {}]", picture.media_type, phrase::size(picture.bytes));
        lines.push(Line::of(SOFT, &text));
    }
}

/// What a program printed, with its colours; what failed without any is red.
fn output(text: &str, done: bool, limit: usize, look: Look<'_>, lines: &mut Vec<Line>) {
    let total = text.trim_end().lines().count();
    for spans in ansi::lines(text.trim_end()).take(limit) {
        let mut line = Line::default();
        for span in spans {
            let plain = if done { SOFT } else { Style::PLAIN.in_colour(1) };
            line.push(if span.style == Style::PLAIN { plain } else { span.style }, &span.text);
        }
        lines.extend(wrapped(&line, look.width));
    }
    more(total.saturating_sub(limit), lines);
}

fn code(text: &str, path: &str, limit: usize, look: Look<'_>, lines: &mut Vec<Line>) {
    let language = path.rsplit(['.', '/']).next().unwrap_or_default();
    let parts = code_lines(text, language);
    for line in parts.iter().take(limit) {
        for part in broken(line, look.width.saturating_sub(2)) {
            let mut indented = Line::of(SOFT, "▏ ");
            indented.append(&part);
            lines.push(indented);
        }
    }
    more(parts.len().saturating_sub(limit), lines);
}

fn limited(mut new: Vec<Line>, limit: usize, lines: &mut Vec<Line>) {
    let hidden = new.len().saturating_sub(limit);
    new.truncate(limit);
    lines.append(&mut new);
    more(hidden, lines);
}

fn more(hidden: usize, lines: &mut Vec<Line>) {
    if hidden > 0 {
        let text = format!("… {}", phrase::several(hidden, "more line", "more lines"));
        lines.push(Line::of(SOFT, &text));
    }
}

fn todo(todo: &Todo) -> Line {
    let (sign, style) = match todo.state {
        TodoState::Pending => ("☐", Style::PLAIN),
        TodoState::Doing => ("◐", Style::PLAIN.bold()),
        TodoState::Done => ("☑", SOFT),
    };
    Line::of(style, &format!("{sign} {}", todo.text))
}

fn question(
    question: &Question,
    answers: &[(String, String)],
    look: Look<'_>,
    lines: &mut Vec<Line>,
) {
    lines.extend(wrapped(&Line::of(Style::PLAIN.bold(), &question.text), look.width));
    let answer = answers.iter().find(|(text, _)| *text == question.text).map(|(_, answer)| answer);
    let mut met = false;
    for choice in &question.choices {
        let chosen = answer.is_some_and(|answer| answer.split(", ").any(|one| one == choice.label));
        met |= chosen;
        let (sign, style) =
            if chosen { ("◉", Style::PLAIN.in_colour(2)) } else { ("○", Style::PLAIN) };
        let mut line = Line::of(style, &format!("{sign} {}", choice.label));
        if !choice.description.is_empty() {
            line.push(SOFT, &format!("  {}", choice.description));
        }
        lines.extend(wrapped(&line, look.width));
    }
    if let Some(answer) = answer.filter(|_| !met) {
        lines.push(Line::of(Style::PLAIN.in_colour(2), &format!("◉ {answer}")));
    }
}
