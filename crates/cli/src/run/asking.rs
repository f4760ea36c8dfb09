//! A request of the agent, put to the person at the terminal and answered with keys.

use std::collections::BTreeSet;
use std::path::Path;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use session::machine::Answer;
use view::ansi::Style;
use view::terminal::Line;
use view::{Question, Request, Subject, phrase};
use wire::note::Wants;
use wire::say::PermissionMode;

use super::composer::{Composed, Composer};
use super::permit::Permit;

const SOFT: Style = Style::PLAIN.dim();
const STRONG: Style = Style::PLAIN.in_colour(3).bold();

/// A request that is being answered.
pub(super) struct Asking {
    pub(super) request: Request,
    permit: Option<Permit>,
    /// What it would be done to, from the working directory on.
    target: String,
    /// How many characters of a command the target does not show: nobody must allow what was never
    /// seen.
    hidden: usize,
    questions: Vec<Question>,
    /// Answers to the questions so far, in their order.
    answers: Vec<(String, String)>,
    /// What is ticked of the question at hand, where several may be.
    ticked: BTreeSet<usize>,
    /// Words that are being written.
    words: Option<(Words, Composer)>,
}

/// What words are for.
#[derive(Clone, Copy)]
enum Words {
    /// Why not.
    Reason,
    /// An answer that is not among the choices.
    Answer,
}

/// What a key did.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    /// It means nothing here.
    Nothing,
    /// It is to be drawn again.
    Again,
    /// The whole of it is to be shown.
    ShowAll,
    /// It is answered.
    Answer(Answer),
}

impl Asking {
    pub(super) fn new(request: Request, directory: &Path) -> Self {
        let questions = match request.call().subject() {
            Subject::Questions(questions) if request.wants == Wants::Answers => questions,
            _ => Vec::new(),
        };
        let hidden = match request.call().subject() {
            Subject::Shell { command, .. } => {
                command.trim().chars().count().saturating_sub(request.target.chars().count())
            }
            _ => 0,
        };
        let base = directory.display().to_string();
        Self {
            target: view::shortened(&request.target, Some(&base)).to_owned(),
            hidden,
            permit: Permit::of(&request),
            request,
            questions,
            answers: Vec::new(),
            ticked: BTreeSet::new(),
            words: None,
        }
    }

    /// Whether words are being written, so that every key is one of them.
    pub(super) fn takes_words(&self) -> bool {
        self.words.is_some()
    }

    /// Whether its card stands for the call itself.
    pub(super) fn replaces_call(&self) -> bool {
        self.question().is_some()
    }

    fn question(&self) -> Option<&Question> {
        self.questions.get(self.answers.len())
    }

    /// Takes what was pasted into the words.
    pub(super) fn paste(&mut self, text: &str) {
        if let Some((_, words)) = &mut self.words {
            words.paste(text);
        }
    }

    /// Takes a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Reply {
        if let Some((_, words)) = &mut self.words {
            if key.code == KeyCode::Esc {
                self.words = None;
                return Reply::Again;
            }
            return match words.key(key) {
                Composed::Nothing => Reply::Nothing,
                Composed::Changed => Reply::Again,
                Composed::Sent => self.worded(),
            };
        }
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return Reply::Nothing;
        }
        match key.code {
            KeyCode::Char('v') => Reply::ShowAll,
            KeyCode::Char('n') => Reply::Answer(deny("")),
            KeyCode::Char('d') => self.write(Words::Reason),
            KeyCode::Char('s') => {
                Reply::Answer(Answer::Deny { message: String::new(), interrupt: true })
            }
            code if self.question().is_some() => self.choose(code),
            KeyCode::Char('y') => {
                Reply::Answer(allow(None, self.plan_mode(PermissionMode::Default)))
            }
            KeyCode::Char('a') if self.request.wants == Wants::Permission => {
                Reply::Answer(allow(self.permit.as_ref().map(|it| it.remember), None))
            }
            KeyCode::Char('a') => {
                Reply::Answer(allow(None, self.plan_mode(PermissionMode::AcceptEdits)))
            }
            _ => Reply::Nothing,
        }
    }

    fn plan_mode(&self, mode: PermissionMode) -> Option<PermissionMode> {
        (self.request.wants == Wants::PlanApproval).then_some(mode)
    }

    fn write(&mut self, what: Words) -> Reply {
        self.words = Some((what, Composer::default()));
        Reply::Again
    }

    fn worded(&mut self) -> Reply {
        let Some((what, mut words)) = self.words.take() else { return Reply::Nothing };
        let text = words.take().text;
        match what {
            _ if text.trim().is_empty() => Reply::Again,
            Words::Reason => Reply::Answer(deny(text.trim())),
            Words::Answer => self.answered(Some(text.trim().to_owned())),
        }
    }

    fn choose(&mut self, code: KeyCode) -> Reply {
        let Some(question) = self.question() else { return Reply::Nothing };
        match code {
            KeyCode::Char('0') => self.write(Words::Answer),
            KeyCode::Char(digit @ '1'..='9') => {
                let number = usize::from(digit as u8 - b'1');
                if number >= question.choices.len() {
                    return Reply::Nothing;
                }
                let several = question.several;
                if !self.ticked.remove(&number) {
                    self.ticked.insert(number);
                }
                if several { Reply::Again } else { self.answered(None) }
            }
            KeyCode::Enter if !self.ticked.is_empty() => self.answered(None),
            _ => Reply::Nothing,
        }
    }

    /// The question at hand is answered, with what is ticked and with words.
    fn answered(&mut self, words: Option<String>) -> Reply {
        let Some(question) = self.question() else { return Reply::Nothing };
        let ticked = self.ticked.iter().filter_map(|number| question.choices.get(*number));
        let chosen: Vec<String> = ticked.map(|choice| choice.label.clone()).chain(words).collect();
        self.answers.push((question.text.clone(), chosen.join(", ")));
        self.ticked.clear();
        if self.question().is_some() {
            return Reply::Again;
        }
        Reply::Answer(Answer::Answers(std::mem::take(&mut self.answers)))
    }

    /// The card with its keys, and where the cursor is in it while words are written.
    pub(super) fn lines(&self, width: usize) -> (Vec<Line>, Option<(usize, usize)>) {
        let mut lines = self.card(width);
        let mut cursor = None;
        if let Some((_, words)) = &self.words {
            let (written, (row, column)) = words.lines("  » ", "Enter sends, Esc goes back", width);
            cursor = Some((lines.len() + row, column));
            lines.extend(written);
        } else {
            lines.extend(keys(&self.keys(), width));
        }
        (lines.iter().map(|line| line.cut(width)).collect(), cursor)
    }

    /// The card while keys are for something else.
    pub(super) fn lines_aside(&self, width: usize) -> Vec<Line> {
        let mut lines = self.card(width);
        lines.extend(keys(&[("Tab", "to answer".to_owned())], width));
        lines.iter().map(|line| line.cut(width)).collect()
    }

    /// The card without its keys.
    pub(super) fn card(&self, width: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut head = Line::of(STRONG, "? ");
        match self.question() {
            Some(question) => {
                if self.questions.len() > 1 {
                    let which = format!("{} of {}  ", self.answers.len() + 1, self.questions.len());
                    head.push(SOFT, &which);
                }
                head.push(Style::PLAIN.bold(), &question.text);
            }
            None if self.request.wants == Wants::PlanApproval => {
                head.push(Style::PLAIN.bold(), "Go ahead with this plan?");
            }
            None => {
                let what = format!("{} {}", self.request.verb.word(), self.target);
                head.push(Style::PLAIN.bold(), &format!("Allow {}", what.trim_end()));
                match self.hidden {
                    0 => head.push(Style::PLAIN.bold(), "?"),
                    more => {
                        head.push(Style::PLAIN.bold(), " …?");
                        let more = phrase::several(more, "more character", "more characters");
                        head.push(STRONG, &format!("  {more}: v shows all"));
                    }
                }
            }
        }
        lines.extend(head.wrapped(width));
        if let Some(reason) = &self.request.reason {
            lines.push(Line::of(SOFT, &format!("  {reason}")));
        }
        if let Some(question) = self.question() {
            for (number, choice) in question.choices.iter().enumerate() {
                let tick = match question.several {
                    false => "",
                    true if self.ticked.contains(&number) => "☑ ",
                    true => "☐ ",
                };
                let mut line = Line::of(Style::PLAIN.in_colour(6), &format!("  {}  ", number + 1));
                line.push(Style::PLAIN, &format!("{tick}{}", choice.label));
                line.push(SOFT, &format!("  {}", choice.description));
                lines.push(line);
            }
        }
        lines.iter().map(|line| line.cut(width)).collect()
    }

    fn keys(&self) -> Vec<(&'static str, String)> {
        let key = |key, words: &str| (key, words.to_owned());
        if let Some(question) = self.question() {
            let mut keys = if question.several {
                vec![key("1–9", "tick"), key("Enter", "send")]
            } else {
                vec![key("1–9", "choose")]
            };
            keys.extend([key("0", "say something else"), key("n", "no answer")]);
            return keys;
        }
        let mut keys = match self.request.wants {
            Wants::PlanApproval => {
                vec![key("y", "yes"), key("a", "yes, and edit files unasked")]
            }
            Wants::Permission | Wants::Answers => {
                vec![
                    key("y", "yes"),
                    ("a", format!("always: {}", self.permit.as_ref().map_or("", |it| &it.words))),
                ]
            }
        };
        keys.extend([key("n", "no"), key("d", "no, because…"), key("s", "no, and stop")]);
        keys.push(key("v", "show all"));
        keys
    }
}

/// Keys and what they do, on as many lines as it takes.
fn keys(keys: &[(&'static str, String)], width: usize) -> Vec<Line> {
    let mut lines = vec![Line::of(SOFT, "  ")];
    for (key, words) in keys {
        let mut part = Line::of(STRONG, key);
        part.push(SOFT, &format!(" {words}   "));
        if let Some(last) = lines.last_mut()
            && (last.width() + part.width() <= width || last.width() <= 2)
        {
            last.append(&part);
            continue;
        }
        let mut line = Line::of(SOFT, "  ");
        line.append(&part);
        lines.push(line);
    }
    lines
}

fn allow(remember: Option<session::machine::RuleChoice>, mode: Option<PermissionMode>) -> Answer {
    Answer::Allow { input: None, remember, mode }
}

fn deny(message: &str) -> Answer {
    Answer::Deny { message: message.to_owned(), interrupt: false }
}

#[cfg(test)]
mod tests {
    use super::{Asking, Reply};
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use session::machine::Answer;
    use std::path::Path;
    use view::{Request, Verb};
    use wire::note::Wants;
    use wire::say::PermissionMode;

    fn asking(tool: &str, wants: Wants, input: &str) -> Asking {
        let request = Request {
            id: "r".to_owned(),
            item: None,
            wants,
            tool: tool.to_owned(),
            verb: Verb::of(tool),
            target: "make".to_owned(),
            input: input.to_owned(),
            description: None,
            reason: None,
            blocked_path: None,
            suggestions: None,
            at: None,
            expires: None,
        };
        Asking::new(request, Path::new("/p"))
    }

    fn press(asking: &mut Asking, keys: &str) -> Reply {
        let mut last = Reply::Nothing;
        for key in keys.chars() {
            let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
            last = asking.key(KeyEvent::new(code, KeyModifiers::NONE));
        }
        last
    }

    fn denied(reason: &str, interrupt: bool) -> Reply {
        Reply::Answer(Answer::Deny { message: reason.to_owned(), interrupt })
    }

    #[test]
    fn a_permission_is_given_once_always_or_not() {
        let ask = || asking("Bash", Wants::Permission, r#"{"command":"make"}"#);
        let Reply::Answer(Answer::Allow { remember: None, mode: None, .. }) =
            press(&mut ask(), "y")
        else {
            panic!("`y` allows it once")
        };
        let Reply::Answer(Answer::Allow { remember: Some(remember), .. }) = press(&mut ask(), "a")
        else {
            panic!("`a` remembers it")
        };
        assert_eq!(remember.pattern.as_deref(), Some("make"));
        assert_eq!(press(&mut ask(), "n"), denied("", false));
        assert_eq!(press(&mut ask(), "s"), denied("", true));
        assert_eq!(press(&mut ask(), "dnot yet\n"), denied("not yet", false));
        for key in ["1", "x", "\n"] {
            assert_eq!(press(&mut ask(), key), Reply::Nothing, "{key}");
        }
    }

    #[test]
    fn a_plan_is_approved_with_the_mode_that_follows() {
        for (key, wanted) in [("y", PermissionMode::Default), ("a", PermissionMode::AcceptEdits)] {
            let mut ask = asking("ExitPlanMode", Wants::PlanApproval, r#"{"plan":"x"}"#);
            let Reply::Answer(Answer::Allow { mode, .. }) = press(&mut ask, key) else {
                panic!("`{key}` approves")
            };
            assert_eq!(mode, Some(wanted));
        }
    }

    #[test]
    fn questions_are_answered_one_by_one() {
        let input = r#"{"questions":[
            {"question":"Way?","options":[{"label":"Up"},{"label":"Down"}]},
            {"question":"Luggage?","multiSelect":true,"options":[{"label":"Rope"},{"label":"Tea"},{"label":"Map"}]}]}"#;
        let ask = || asking("AskUserQuestion", Wants::Answers, input);
        let answers = |way: &str, luggage: &str| {
            let pair = |question: &str, answer: &str| (question.to_owned(), answer.to_owned());
            Reply::Answer(Answer::Answers(vec![pair("Way?", way), pair("Luggage?", luggage)]))
        };
        assert_eq!(press(&mut ask(), "21322\n"), answers("Down", "Rope, Map"));
        assert_eq!(press(&mut ask(), "0sideways\n21\n"), answers("sideways", "Rope, Tea"));
        assert_eq!(press(&mut ask(), "110a hat\n"), answers("Up", "Rope, a hat"));
        assert_eq!(press(&mut ask(), "1n"), denied("", false));
        assert_eq!(press(&mut ask(), "9"), Reply::Nothing);
        assert_eq!(press(&mut ask(), "1\n"), Reply::Nothing, "nothing is ticked");
    }

    #[test]
    fn a_command_that_is_longer_than_its_first_line_says_so() {
        let text = |input: &str| {
            let lines = asking("Bash", Wants::Permission, input).lines(80).0;
            lines.iter().map(view::terminal::Line::text).collect::<Vec<_>>().join("\n")
        };
        assert!(text(r#"{"command":" make "}"#).starts_with("? Allow Run make?\n"));
        let more = text(r#"{"command":"make\nrm -rf ~"}"#);
        assert!(more.contains("Allow Run make …?  9 more characters: v shows all"), "{more}");
    }

    #[test]
    fn every_line_of_a_card_fits() {
        let mut ask = asking("Bash", Wants::Permission, r#"{"command":"make"}"#);
        for width in [20, 40, 80] {
            assert!(ask.lines(width).0.iter().all(|line| line.width() <= width));
        }
        press(&mut ask, "d");
        let (lines, cursor) = ask.lines(40);
        assert_eq!(cursor, Some((lines.len() - 1, 4)));
    }
}
