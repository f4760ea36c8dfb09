//! A request of the agent, shown at the foot of the screen and answered with keys.
//!
//! Everything that `wire::consent` discloses about a call is shown in full. If it does not fit the
//! screen, the keys that allow the call work only after the user had everything printed with `v`.

use std::collections::BTreeSet;
use std::path::Path;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use session::{GrantScope, RequestAnswer, RuleChoice};
use view::ansi::TextStyle;
use view::terminal::StyledLine;
use view::{Question, Request, ToolInput, wording};
use wire::consent::{self, Disclosure, Rule};
use wire::note::RequestKind;
use wire::outgoing::PermissionMode;

use super::editor::{EditorEvent, PromptEditor};
use super::request_lines::{KEY, SOFT, STRONG, disclosure_lines, escape_hidden, key_lines};

/// The keys that approve a plan, in the order of [`consent::PLAN_APPROVAL_MODES`].
const PLAN_KEYS: [(char, &str); 2] = [('a', "a"), ('y', "y")];

/// A request that is being answered.
pub(super) struct RequestPrompt {
    pub(super) request: Request,
    /// The target of the call, relative to the working directory.
    target: String,
    /// What must be shown before the call can be allowed.
    disclosures: Vec<Disclosure>,
    /// The rules that *always* offers.
    rules: Vec<Rule>,
    questions: Vec<Question>,
    /// Answers to the questions so far, in order.
    answers: Vec<(String, String)>,
    /// The selected options of the current question.
    selected: BTreeSet<usize>,
    mode: RequestPromptMode,
    width: usize,
    rows: usize,
    /// Whether the user had everything printed.
    reviewed: bool,
}

/// What keys mean.
enum RequestPromptMode {
    Keys,
    /// The user chooses one of several rules.
    Rules,
    /// The user writes a text.
    Text(TextPurpose, PromptEditor),
}

#[derive(Clone, Copy)]
enum TextPurpose {
    DenialReason,
    /// An answer that is not among the options.
    FreeAnswer,
}

/// The effect of a key.
#[derive(Debug, PartialEq)]
pub(super) enum RequestKeyEffect {
    Ignored,
    Redraw,
    /// The lines of [`RequestPrompt::full_lines`] must be printed.
    ShowAll,
    Resolve(RequestAnswer),
}

impl RequestPrompt {
    pub(super) fn new(request: Request, directory: &Path) -> Self {
        let questions = match request.call().tool_input() {
            ToolInput::Questions(questions) if request.kind == RequestKind::Question => questions,
            _ => Vec::new(),
        };
        // The plan and the questions are shown in a form of their own.
        let disclosures = if request.kind == RequestKind::Plan || !questions.is_empty() {
            Vec::new()
        } else {
            request.disclosures()
        };
        let rules = match request.kind {
            RequestKind::Permission => request.rules.clone(),
            RequestKind::Question | RequestKind::Plan | RequestKind::Unknown => Vec::new(),
        };
        let base = directory.display().to_string();
        Self {
            target: view::relative_path(&request.target, Some(&base)).to_owned(),
            disclosures,
            rules,
            request,
            questions,
            answers: Vec::new(),
            selected: BTreeSet::new(),
            mode: RequestPromptMode::Keys,
            width: 0,
            rows: 0,
            reviewed: false,
        }
    }

    /// Sets the part of the screen that the prompt may take.
    pub(super) fn resize(&mut self, width: usize, rows: usize) {
        self.width = width;
        self.rows = rows;
    }

    /// Records that [`Self::full_lines`] was printed.
    pub(super) fn mark_reviewed(&mut self) {
        self.reviewed = true;
    }

    /// Whether a text is being written, so that every key belongs to it.
    pub(super) fn takes_text(&self) -> bool {
        matches!(self.mode, RequestPromptMode::Text(..))
    }

    /// Whether the prompt replaces the call on screen.
    pub(super) fn replaces_call(&self) -> bool {
        self.question().is_some()
    }

    fn question(&self) -> Option<&Question> {
        self.questions.get(self.answers.len())
    }

    /// Whether the user can see, or has seen, everything that an approval would cover.
    fn can_allow(&self) -> bool {
        // A request that Towpath does not know can only be denied.
        self.request.kind != RequestKind::Unknown
            && (self.reviewed || self.width > 0 && self.needed_rows() <= self.rows)
    }

    fn needed_rows(&self) -> usize {
        let keys = key_lines(&self.allowing_keys(), self.width).len();
        let choice = self.rule_lines().len();
        self.head().wrapped(self.width).len() + self.detail_lines().len() + keys.max(choice)
    }

    pub(super) fn paste(&mut self, text: &str) {
        if let RequestPromptMode::Text(_, editor) = &mut self.mode {
            editor.paste(text);
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> RequestKeyEffect {
        let has_modifier = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match &mut self.mode {
            RequestPromptMode::Text(..) | RequestPromptMode::Rules if key.code == KeyCode::Esc => {
                self.mode = RequestPromptMode::Keys;
                RequestKeyEffect::Redraw
            }
            RequestPromptMode::Text(_, editor) => match editor.key(key) {
                EditorEvent::Ignored => RequestKeyEffect::Ignored,
                EditorEvent::Changed => RequestKeyEffect::Redraw,
                EditorEvent::Submitted => self.submit_text(),
            },
            _ if has_modifier => RequestKeyEffect::Ignored,
            RequestPromptMode::Rules => self.choose_rule(key.code),
            RequestPromptMode::Keys => self.plain_key(key.code),
        }
    }

    fn plain_key(&mut self, code: KeyCode) -> RequestKeyEffect {
        match code {
            KeyCode::Char('v') => RequestKeyEffect::ShowAll,
            KeyCode::Char('n') => RequestKeyEffect::Resolve(deny("")),
            KeyCode::Char('d') => self.start_text(TextPurpose::DenialReason),
            KeyCode::Char('s') => RequestKeyEffect::Resolve(RequestAnswer::Deny {
                message: String::new(),
                interrupt: true,
            }),
            code if self.question().is_some() => self.choose_option(code),
            KeyCode::Char(key) if self.can_allow() => self.allowing_key(key),
            _ => RequestKeyEffect::Ignored,
        }
    }

    fn allowing_key(&mut self, key: char) -> RequestKeyEffect {
        if self.request.kind == RequestKind::Plan {
            let approvals = PLAN_KEYS.into_iter().zip(consent::PLAN_APPROVAL_MODES);
            let mode = approvals.into_iter().find(|((known, _), _)| *known == key);
            return match mode {
                Some((_, mode)) => RequestKeyEffect::Resolve(allow(None, Some(mode))),
                None => RequestKeyEffect::Ignored,
            };
        }
        match (key, self.rules.as_slice()) {
            ('y', _) => RequestKeyEffect::Resolve(allow(None, None)),
            ('a', [rule]) => RequestKeyEffect::Resolve(allow(Some(rule), None)),
            ('a', [_, ..]) => {
                self.mode = RequestPromptMode::Rules;
                RequestKeyEffect::Redraw
            }
            _ => RequestKeyEffect::Ignored,
        }
    }

    fn choose_rule(&mut self, code: KeyCode) -> RequestKeyEffect {
        match option_number(code).and_then(|number| self.rules.get(number)) {
            // A resize can hide what was visible when the choice was opened.
            Some(rule) if self.can_allow() => RequestKeyEffect::Resolve(allow(Some(rule), None)),
            _ => RequestKeyEffect::Ignored,
        }
    }

    fn start_text(&mut self, purpose: TextPurpose) -> RequestKeyEffect {
        self.mode = RequestPromptMode::Text(purpose, PromptEditor::default());
        RequestKeyEffect::Redraw
    }

    fn submit_text(&mut self) -> RequestKeyEffect {
        let mode = std::mem::replace(&mut self.mode, RequestPromptMode::Keys);
        let RequestPromptMode::Text(purpose, mut editor) = mode else {
            return RequestKeyEffect::Ignored;
        };
        let text = editor.take().text;
        match purpose {
            _ if text.trim().is_empty() => RequestKeyEffect::Redraw,
            TextPurpose::DenialReason => RequestKeyEffect::Resolve(deny(text.trim())),
            TextPurpose::FreeAnswer => self.answer_question(Some(text.trim().to_owned())),
        }
    }

    fn choose_option(&mut self, code: KeyCode) -> RequestKeyEffect {
        let Some(question) = self.question() else { return RequestKeyEffect::Ignored };
        if code == KeyCode::Char('0') {
            return self.start_text(TextPurpose::FreeAnswer);
        }
        if code == KeyCode::Enter && !self.selected.is_empty() {
            return self.answer_question(None);
        }
        let Some(number) = option_number(code).filter(|it| *it < question.options.len()) else {
            return RequestKeyEffect::Ignored;
        };
        let several = question.multiple;
        if !self.selected.remove(&number) {
            self.selected.insert(number);
        }
        if several { RequestKeyEffect::Redraw } else { self.answer_question(None) }
    }

    /// Answers the current question with the selected options and a text.
    fn answer_question(&mut self, text: Option<String>) -> RequestKeyEffect {
        let Some(question) = self.question() else { return RequestKeyEffect::Ignored };
        let selected = self.selected.iter().filter_map(|number| question.options.get(*number));
        let chosen: Vec<String> = selected.map(|choice| choice.label.clone()).chain(text).collect();
        self.answers.push((question.text.clone(), chosen.join(", ")));
        self.selected.clear();
        if self.question().is_some() {
            return RequestKeyEffect::Redraw;
        }
        RequestKeyEffect::Resolve(RequestAnswer::Answers(std::mem::take(&mut self.answers)))
    }

    /// The card with its keys, and the cursor in it while a text is written.
    pub(super) fn lines(&self) -> (Vec<StyledLine>, Option<(usize, usize)>) {
        let (foot, cursor) = match &self.mode {
            RequestPromptMode::Keys => (key_lines(&self.keys(), self.width), None),
            RequestPromptMode::Rules => (self.rule_lines(), None),
            RequestPromptMode::Text(_, editor) => {
                let (lines, cursor) =
                    editor.lines("  » ", "Enter sends, Esc goes back", self.width);
                (lines, Some(cursor))
            }
        };
        let mut lines = self.card(self.rows.saturating_sub(foot.len()));
        let above = lines.len();
        lines.extend(foot);
        let cursor = cursor.map(|(row, column)| (above + row, column));
        (lines.iter().map(|line| line.cut(self.width)).collect(), cursor)
    }

    /// The card while keys belong to the editor below.
    pub(super) fn inactive_lines(&self) -> Vec<StyledLine> {
        let mut lines = self.card(self.rows.saturating_sub(1));
        lines.extend(key_lines(&[("Tab", "to answer".to_owned())], self.width));
        lines
    }

    /// The card while it takes no keys yet.
    pub(super) fn blocked_lines(&self) -> Vec<StyledLine> {
        self.card(self.rows)
    }

    /// Everything that an approval would cover, whatever the height of the screen.
    pub(super) fn full_lines(&self) -> Vec<StyledLine> {
        let mut lines = self.head().wrapped(self.width);
        lines.extend(self.reason_lines());
        for disclosure in &self.disclosures {
            lines.extend(disclosure_lines(disclosure, self.width));
        }
        for rule in &self.rules {
            let line = format!("  Always would allow: {}", escape_hidden(&rule.label));
            lines.extend(StyledLine::of(SOFT, &line).wrapped(self.width));
        }
        lines
    }

    /// The request without keys, shortened to a number of rows.
    fn card(&self, rows: usize) -> Vec<StyledLine> {
        let mut lines = self.head().wrapped(self.width);
        let details = self.detail_lines();
        if lines.len() + details.len() <= rows || self.question().is_some() {
            lines.extend(details);
        } else if self.reviewed {
            lines.push(StyledLine::of(SOFT, "  shown in full above"));
        } else {
            let shown = rows.saturating_sub(lines.len() + 1).min(details.len());
            let hidden = wording::plural(details.len() - shown, "more line", "more lines");
            lines.extend(details.into_iter().take(shown));
            lines
                .push(StyledLine::of(STRONG, &format!("  … {hidden}: press v to show everything")));
        }
        lines.iter().map(|line| line.cut(self.width)).collect()
    }

    fn head(&self) -> StyledLine {
        let bold = TextStyle::PLAIN.bold();
        let mut head = StyledLine::of(STRONG, "? ");
        if let Some(question) = self.question() {
            if self.questions.len() > 1 {
                let number = format!("{} of {}  ", self.answers.len() + 1, self.questions.len());
                head.push(SOFT, &number);
            }
            head.push(bold, &question.text);
        } else if self.request.kind == RequestKind::Plan {
            head.push(bold, "Approve this plan?");
        } else {
            let action = format!("{} {}", self.request.action.label(), self.target);
            let target = &self.request.target;
            let continues = |it: &Disclosure| it.text.trim().len() > target.len();
            let is_first_line = |it: &&Disclosure| it.text.trim().starts_with(target.as_str());
            let more = self.disclosures.iter().find(is_first_line).is_some_and(continues);
            let more = if more && !target.is_empty() { " …" } else { "" };
            head.push(bold, &format!("Allow {}{more}?", action.trim_end()));
        }
        head
    }

    fn detail_lines(&self) -> Vec<StyledLine> {
        let mut lines = self.reason_lines();
        for disclosure in self.disclosures.iter().filter(|it| !self.head_shows(it)) {
            lines.extend(disclosure_lines(disclosure, self.width));
        }
        if let Some(question) = self.question() {
            for (number, choice) in question.options.iter().enumerate() {
                let tick = match question.multiple {
                    false => "",
                    true if self.selected.contains(&number) => "☑ ",
                    true => "☐ ",
                };
                let mut line = StyledLine::of(KEY, &format!("  {}  ", number + 1));
                line.push(TextStyle::PLAIN, &format!("{tick}{}", choice.label));
                line.push(SOFT, &format!("  {}", choice.description));
                lines.push(line);
            }
        }
        lines
    }

    fn reason_lines(&self) -> Vec<StyledLine> {
        let reason = self.request.reason.iter();
        reason
            .flat_map(|reason| StyledLine::of(SOFT, &format!("  {reason}")).wrapped(self.width))
            .collect()
    }

    /// Whether the head contains all of a disclosure, unchanged.
    fn head_shows(&self, disclosure: &Disclosure) -> bool {
        let text = &disclosure.text;
        *text == self.target && *text == self.request.target && escape_hidden(text) == *text
    }

    /// The rules to choose from, one key each.
    fn rule_lines(&self) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        for (number, rule) in self.rules.iter().enumerate() {
            let mut line = StyledLine::of(KEY, &format!("  {}  ", number + 1));
            line.push(TextStyle::PLAIN, &format!("always: {}", escape_hidden(&rule.label)));
            lines.extend(line.wrapped(self.width));
        }
        lines.extend(key_lines(&[("Esc", "back".to_owned())], self.width));
        lines
    }

    fn keys(&self) -> Vec<(&'static str, String)> {
        let key = |key, label: &str| (key, label.to_owned());
        if let Some(question) = self.question() {
            let mut keys = if question.multiple {
                vec![key("1–9", "select"), key("Enter", "send")]
            } else {
                vec![key("1–9", "choose")]
            };
            keys.extend([key("0", "other answer"), key("n", "do not answer")]);
            return keys;
        }
        if self.can_allow() {
            return self.allowing_keys();
        }
        let mut keys = vec![key("v", "show all (required before you can allow)")];
        keys.extend(denying_keys());
        keys
    }

    fn allowing_keys(&self) -> Vec<(&'static str, String)> {
        let mut keys: Vec<(&'static str, String)> = Vec::new();
        if self.request.kind == RequestKind::Plan {
            for ((_, key), mode) in PLAN_KEYS.into_iter().zip(consent::PLAN_APPROVAL_MODES) {
                let label = consent::describe_mode(mode).label.to_lowercase();
                keys.push((key, format!("approve, then {label}")));
            }
        } else {
            keys.push(("y", "yes".to_owned()));
            match self.rules.as_slice() {
                [] => {}
                [rule] => keys.push(("a", format!("always: {}", escape_hidden(&rule.label)))),
                _ => keys.push(("a", "always…".to_owned())),
            }
        }
        keys.extend(denying_keys());
        keys.push(("v", "show all".to_owned()));
        keys
    }
}

fn denying_keys() -> [(&'static str, String); 3] {
    [("n", "no"), ("d", "no, with a reason…"), ("s", "no, and stop")]
        .map(|(key, label)| (key, label.to_owned()))
}

/// The index of the option that a digit chooses.
fn option_number(code: KeyCode) -> Option<usize> {
    match code {
        KeyCode::Char(digit @ '1'..='9') => Some(usize::from(digit as u8 - b'1')),
        _ => None,
    }
}

fn allow(rule: Option<&Rule>, mode: Option<PermissionMode>) -> RequestAnswer {
    let remember =
        rule.map(|rule| RuleChoice { rule: rule.id, until: None, scope: GrantScope::Session });
    RequestAnswer::Allow { input: None, remember, mode }
}

fn deny(message: &str) -> RequestAnswer {
    RequestAnswer::Deny { message: message.to_owned(), interrupt: false }
}

#[cfg(test)]
mod tests {
    use super::{RequestKeyEffect, RequestPrompt};
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use session::RequestAnswer;
    use std::path::Path;
    use view::{Request, ToolAction};
    use wire::consent::{self, RuleId};
    use wire::note::RequestKind;
    use wire::outgoing::PermissionMode;

    fn prompt(tool: &str, wants: RequestKind, input: &str) -> RequestPrompt {
        let parsed: serde_json::Value = serde_json::from_str(input).unwrap();
        let target = ["command", "file_path"].into_iter().find_map(|key| parsed[key].as_str());
        let target = target.unwrap_or_default().trim().lines().next().unwrap_or_default();
        let request = Request {
            id: "r".to_owned(),
            item: None,
            kind: wants,
            tool: tool.to_owned(),
            action: ToolAction::of(tool),
            target: target.chars().take(100).collect(),
            input: input.to_owned(),
            description: None,
            reason: None,
            blocked_path: None,
            suggestions: None,
            at: None,
            expires: None,
            rules: consent::rules(tool, input, "/p"),
        };
        let mut prompt = RequestPrompt::new(request, Path::new("/p"));
        prompt.resize(80, 20);
        prompt
    }

    fn command(command: &str) -> RequestPrompt {
        let input = serde_json::json!({ "command": command }).to_string();
        prompt("Bash", RequestKind::Permission, &input)
    }

    fn press(prompt: &mut RequestPrompt, keys: &str) -> RequestKeyEffect {
        let mut last = RequestKeyEffect::Ignored;
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                key => KeyCode::Char(key),
            };
            last = prompt.key(KeyEvent::new(code, KeyModifiers::NONE));
        }
        last
    }

    fn text(prompt: &RequestPrompt) -> String {
        let lines = prompt.lines().0;
        lines.iter().map(view::terminal::StyledLine::text).collect::<Vec<_>>().join("\n")
    }

    fn denied(reason: &str, interrupt: bool) -> RequestKeyEffect {
        RequestKeyEffect::Resolve(RequestAnswer::Deny { message: reason.to_owned(), interrupt })
    }

    /// The rule that an effect remembers; none if it allows the call once.
    fn allowed(effect: RequestKeyEffect) -> Option<RuleId> {
        match effect {
            RequestKeyEffect::Resolve(RequestAnswer::Allow { remember, mode: None, .. }) => {
                remember.map(|it| it.rule)
            }
            other => panic!("not allowed: {other:?}"),
        }
    }

    #[test]
    fn a_call_is_allowed_once_always_or_denied() {
        let ask = || command("make");
        assert_eq!(allowed(press(&mut ask(), "y")), None);
        assert_eq!(allowed(press(&mut ask(), "a")), Some(RuleId::Exact));
        assert!(text(&ask()).contains("a always: Run exactly this command"), "{}", text(&ask()));
        assert_eq!(press(&mut ask(), "n"), denied("", false));
        assert_eq!(press(&mut ask(), "s"), denied("", true));
        assert_eq!(press(&mut ask(), "dnot yet\n"), denied("not yet", false));
        for key in ["1", "x", "\n"] {
            assert_eq!(press(&mut ask(), key), RequestKeyEffect::Ignored, "{key}");
        }
    }

    #[test]
    fn several_rules_are_offered_by_their_labels() {
        let ask =
            || prompt("Write", RequestKind::Permission, r#"{"file_path":"/p/a.txt","content":""}"#);
        let mut open = ask();
        assert_eq!(press(&mut open, "a"), RequestKeyEffect::Redraw);
        for rule in &open.request.rules {
            assert!(text(&open).contains(&rule.label), "{}", text(&open));
        }
        assert_eq!(allowed(press(&mut ask(), "a1")), Some(RuleId::Exact));
        assert_eq!(allowed(press(&mut ask(), "a2")), Some(RuleId::Directory));
        assert_eq!(press(&mut ask(), "a3"), RequestKeyEffect::Ignored);
        assert_eq!(allowed(press(&mut ask(), "a\x1by")), None);
    }

    #[test]
    fn a_call_without_rules_cannot_be_allowed_always() {
        let input = r#"{"command":"make","dangerouslyDisableSandbox":true}"#;
        let mut ask = prompt("Bash", RequestKind::Permission, input);
        assert!(!text(&ask).contains("always"), "{}", text(&ask));
        assert!(text(&ask).contains("dangerouslyDisableSandbox"), "{}", text(&ask));
        assert_eq!(press(&mut ask, "a"), RequestKeyEffect::Ignored);
        assert_eq!(allowed(press(&mut ask, "y")), None);
    }

    #[test]
    fn a_command_that_does_not_fit_is_allowed_only_after_it_was_shown() {
        let long = format!("echo {}; rm -rf ~", "x".repeat(5000));
        let mut ask = command(&long);
        assert!(ask.lines().0.len() <= 20);
        let before = text(&ask);
        assert!(!before.contains("y yes") && !before.contains("always"), "{before}");
        assert!(before.contains("press v to show everything"), "{before}");
        for key in ["y", "a", "a1"] {
            assert_eq!(press(&mut ask, key), RequestKeyEffect::Ignored, "{key}");
        }
        assert_eq!(press(&mut ask, "v"), RequestKeyEffect::ShowAll);
        assert_eq!(press(&mut ask, "y"), RequestKeyEffect::Ignored, "it is not printed yet");
        let full: String =
            ask.full_lines().iter().map(|line| line.text().trim().to_owned()).collect();
        assert!(full.contains(&long), "every character is printed");
        ask.mark_reviewed();
        assert!(text(&ask).contains("y yes"), "{}", text(&ask));
        assert_eq!(allowed(press(&mut ask, "a")), Some(RuleId::Exact));

        let mut ask = command(&long);
        ask.resize(80, 200);
        assert!(text(&ask).contains("y yes"), "all of it is on the screen");
        assert_eq!(allowed(press(&mut ask, "y")), None);
        assert_eq!(press(&mut command(&long), "n"), denied("", false), "denying needs no review");
    }

    #[test]
    fn a_long_label_of_a_rule_is_shown_in_full_too() {
        let path = format!("/p/{}", "x".repeat(3000));
        let input = serde_json::json!({ "file_path": path, "content": "" }).to_string();
        let mut ask = prompt("Write", RequestKind::Permission, &input);
        assert_eq!(press(&mut ask, "a"), RequestKeyEffect::Ignored);
        ask.resize(80, 200);
        press(&mut ask, "a");
        let lines: String =
            ask.lines().0.iter().map(|line| line.text().trim().to_owned()).collect();
        assert!(lines.contains(&format!("{path}, whatever the change")), "{lines}");
    }

    #[test]
    fn hidden_characters_and_further_lines_are_visible() {
        let shown = text(&command("make\nrm -rf ~ \u{1b}[8m\u{200b}"));
        assert!(shown.starts_with("? Allow Run make …?\n  Command: make\n"), "{shown}");
        assert!(shown.contains("rm -rf ~ \\u{1b}[8m\\u{200b}"), "{shown}");
        assert!(text(&command("make")).starts_with("? Allow Run make?\n  y yes"));
    }

    #[test]
    fn a_plan_is_approved_with_the_mode_that_follows() {
        for (key, expected) in [("y", PermissionMode::Default), ("a", PermissionMode::AcceptEdits)]
        {
            let mut ask = prompt("ExitPlanMode", RequestKind::Plan, r#"{"plan":"x"}"#);
            assert!(text(&ask).contains("a approve, then accept edits   y approve, then ask"));
            let RequestKeyEffect::Resolve(RequestAnswer::Allow { mode, .. }) = press(&mut ask, key)
            else {
                panic!("`{key}` approves")
            };
            assert_eq!(mode, Some(expected));
        }
    }

    #[test]
    fn questions_are_answered_one_by_one() {
        let input = r#"{"questions":[
            {"question":"Way?","options":[{"label":"Up"},{"label":"Down"}]},
            {"question":"Luggage?","multiSelect":true,"options":[{"label":"Rope"},{"label":"Tea"},{"label":"Map"}]}]}"#;
        let ask = || prompt("AskUserQuestion", RequestKind::Question, input);
        let answers = |way: &str, luggage: &str| {
            let pair = |question: &str, answer: &str| (question.to_owned(), answer.to_owned());
            let answers = vec![pair("Way?", way), pair("Luggage?", luggage)];
            RequestKeyEffect::Resolve(RequestAnswer::Answers(answers))
        };
        assert_eq!(press(&mut ask(), "21322\n"), answers("Down", "Rope, Map"));
        assert_eq!(press(&mut ask(), "0sideways\n21\n"), answers("sideways", "Rope, Tea"));
        assert_eq!(press(&mut ask(), "110a hat\n"), answers("Up", "Rope, a hat"));
        assert_eq!(press(&mut ask(), "1n"), denied("", false));
        assert_eq!(press(&mut ask(), "9"), RequestKeyEffect::Ignored);
        assert_eq!(press(&mut ask(), "1\n"), RequestKeyEffect::Ignored, "nothing is selected");
    }

    #[test]
    fn every_line_fits_the_width() {
        for width in [20, 40, 80] {
            let mut ask = command("make everything\nand more");
            ask.resize(width, 20);
            assert!(ask.lines().0.iter().all(|line| line.width() <= width));
        }
        let mut ask = command("make");
        press(&mut ask, "d");
        let (lines, cursor) = ask.lines();
        assert_eq!(cursor, Some((lines.len() - 1, 4)));
    }
}
