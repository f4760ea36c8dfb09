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
use wire::acp::PermissionChoice;
use wire::consent::{self, Disclosure, Rule};
use wire::note::RequestKind;
use wire::outgoing::PermissionMode;

use super::editor::{EditorEvent, PromptEditor};
use super::request_lines::{KEY, SOFT, STRONG, disclosure_lines, escape_hidden, key_lines};

/// The keys that approve a plan, in the order of [`consent::PLAN_APPROVAL_MODES`].
const PLAN_KEYS: [(char, &str); 2] = [('a', "a"), ('y', "y")];

/// A longer description must be shown in full before a call can be allowed.
const MAX_DESCRIPTION: usize = 200;

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
    /// The rows that the call takes above the prompt, if the prompt does not show it itself.
    call_rows: usize,
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
            disclosures(&request)
        };
        let rules = match request.kind {
            RequestKind::Permission if request.choices.is_empty() => request.rules.clone(),
            RequestKind::Permission
            | RequestKind::Question
            | RequestKind::Plan
            | RequestKind::Unknown => Vec::new(),
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
            call_rows: 0,
            reviewed: false,
        }
    }

    /// Sets the part of the screen that the prompt may take.
    pub(super) fn resize(&mut self, width: usize, rows: usize) {
        self.width = width;
        self.rows = rows;
    }

    /// Sets the rows that the call takes above the prompt. Of a plan, all of them must be visible.
    pub(super) fn set_call_rows(&mut self, rows: usize) {
        self.call_rows = rows;
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
        let rules = self.rule_lines().len();
        let call = if self.request.kind == RequestKind::Plan { self.call_rows } else { 0 };
        let head = self.head().wrapped(self.width).len();
        let choices = self.choice_lines().len();
        head + self.detail_lines().len() + keys.max(rules) + choices + call
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
            code if self.has_choices() => self.take_choice(code),
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

    /// Whether the agent offers its own choices.
    fn has_choices(&self) -> bool {
        !self.request.choices.is_empty() && self.questions.is_empty()
    }

    /// A key for one of the agent's choices: its number, or `y` and `n` for the narrowest ones.
    fn take_choice(&mut self, code: KeyCode) -> RequestKeyEffect {
        let choices = &self.request.choices;
        let choice = match code {
            KeyCode::Char('y') => PermissionChoice::narrowest(choices, true),
            KeyCode::Char('n') => PermissionChoice::narrowest(choices, false),
            code => option_number(code).and_then(|number| choices.get(number)),
        };
        match (choice, code) {
            (Some(choice), _) if !choice.kind.allows() || self.can_allow() => {
                let choice = choice.id.clone();
                RequestKeyEffect::Resolve(RequestAnswer::Choose { choice })
            }
            (None, KeyCode::Char('n')) => RequestKeyEffect::Resolve(deny("")),
            (_, KeyCode::Char('s')) => RequestKeyEffect::Resolve(RequestAnswer::Deny {
                message: String::new(),
                interrupt: true,
            }),
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
        if !self.can_allow() {
            return RequestKeyEffect::Ignored;
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
            RequestPromptMode::Keys => {
                let mut foot = self.choice_lines();
                foot.extend(key_lines(&self.keys(), self.width));
                (foot, None)
            }
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
        for question in &self.questions {
            let text = Disclosure { label: "Question".to_owned(), text: question.text.clone() };
            lines.extend(disclosure_lines(&text, self.width));
            lines.extend(self.option_lines(question, &BTreeSet::new()));
        }
        lines.extend(self.choice_lines());
        for rule in &self.rules {
            let line = format!("  Always would allow: {}", escape_hidden(&rule.label));
            lines.extend(StyledLine::of(SOFT, &line).wrapped(self.width));
        }
        lines
    }

    /// The plan, for a request whose call is not on the screen.
    pub(super) fn call_lines(&self) -> Vec<StyledLine> {
        if self.request.kind != RequestKind::Plan {
            return Vec::new();
        }
        let disclosures = self.request.disclosures();
        disclosures.iter().flat_map(|it| disclosure_lines(it, self.width)).collect()
    }

    /// The request without keys, shortened to a number of rows.
    fn card(&self, rows: usize) -> Vec<StyledLine> {
        let mut lines = self.head().wrapped(self.width);
        let details = self.detail_lines();
        if lines.len() + details.len() <= rows {
            lines.extend(details);
        } else if self.reviewed {
            lines.truncate(rows.saturating_sub(1).max(1));
            lines.push(StyledLine::of(SOFT, "  shown in full above"));
        } else {
            let all = lines.len() + details.len();
            lines.truncate(rows.saturating_sub(1).max(1));
            let shown = rows.saturating_sub(lines.len() + 1).min(details.len());
            let hidden = wording::plural(all - lines.len() - shown, "more line", "more lines");
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
            head.push(bold, &escape_hidden(&question.text));
        } else if self.request.kind == RequestKind::Plan {
            head.push(bold, "Approve this plan?");
        } else if self.request.kind == RequestKind::Unknown {
            let name = format!("Unknown request {}", self.request.tool);
            head.push(bold, escape_hidden(&name).trim_end());
            head.push(SOFT, "  It can only be denied.");
        } else {
            let action = format!("{} {}", self.request.action.label(), self.target);
            let target = &self.request.target;
            let continues = |it: &Disclosure| it.text.trim().len() > target.len();
            let is_first_line = |it: &&Disclosure| it.text.trim().starts_with(target.as_str());
            let more = self.disclosures.iter().find(is_first_line).is_some_and(continues);
            let more = if more && !target.is_empty() { " …" } else { "" };
            head.push(bold, &escape_hidden(&format!("Allow {}{more}?", action.trim_end())));
        }
        head
    }

    fn detail_lines(&self) -> Vec<StyledLine> {
        let mut lines = self.reason_lines();
        for disclosure in self.disclosures.iter().filter(|it| !self.head_shows(it)) {
            lines.extend(disclosure_lines(disclosure, self.width));
        }
        if let Some(question) = self.question() {
            lines.extend(self.option_lines(question, &self.selected));
        }
        lines
    }

    fn option_lines(&self, question: &Question, selected: &BTreeSet<usize>) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        for (number, choice) in question.options.iter().enumerate() {
            let tick = match question.multiple {
                false => "",
                true if selected.contains(&number) => "☑ ",
                true => "☐ ",
            };
            let mut line = StyledLine::of(KEY, &format!("  {}  ", number + 1));
            line.push(TextStyle::PLAIN, &format!("{tick}{}", escape_hidden(&choice.label)));
            line.push(SOFT, &format!("  {}", escape_hidden(&choice.description)));
            lines.extend(line.wrapped(self.width));
        }
        lines
    }

    fn reason_lines(&self) -> Vec<StyledLine> {
        let reason = self.request.reason.iter();
        reason
            .map(|reason| format!("  {}", escape_hidden(reason)))
            .flat_map(|reason| StyledLine::of(SOFT, &reason).wrapped(self.width))
            .collect()
    }

    /// Whether the head contains all of a disclosure, unchanged.
    fn head_shows(&self, disclosure: &Disclosure) -> bool {
        let text = &disclosure.text;
        *text == self.target && *text == self.request.target && escape_hidden(text) == *text
    }

    /// The agent's choices in its own words, one key each.
    fn choice_lines(&self) -> Vec<StyledLine> {
        if !self.has_choices() {
            return Vec::new();
        }
        let mut lines = Vec::new();
        for (number, choice) in self.request.choices.iter().enumerate() {
            let key = if number < 9 { (number + 1).to_string() } else { "·".to_owned() };
            let (sign, style) =
                if choice.kind.allows() { ("✔", STRONG) } else { ("✘", TextStyle::PLAIN) };
            let mut line = StyledLine::of(KEY, &format!("  {key}  "));
            line.push(style, &format!("{sign} {}", escape_hidden(&choice.name)));
            lines.extend(line.wrapped(self.width));
        }
        lines
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
        let show_all = key("v", "show all (required before you can allow)");
        if let Some(question) = self.question() {
            let mut keys = if !self.can_allow() {
                vec![show_all]
            } else if question.multiple {
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
        if self.has_choices() {
            return [show_all].into_iter().chain(self.choosing_keys(false)).collect();
        }
        if self.request.kind == RequestKind::Unknown {
            return denying_keys().into_iter().chain([key("v", "show all")]).collect();
        }
        let mut keys = vec![show_all];
        keys.extend(denying_keys());
        keys
    }

    /// The keys of the agent's choices.
    fn choosing_keys(&self, can_allow: bool) -> Vec<(&'static str, String)> {
        let narrowest = |allows| PermissionChoice::narrowest(&self.request.choices, allows);
        let mut keys = vec![("1–9", "choose".to_owned())];
        if can_allow && narrowest(true).is_some() {
            keys.push(("y", "yes".to_owned()));
        }
        keys.extend([("n", "no".to_owned()), ("s", "no, and stop".to_owned())]);
        keys
    }

    fn allowing_keys(&self) -> Vec<(&'static str, String)> {
        if self.has_choices() {
            let mut keys = self.choosing_keys(true);
            keys.push(("v", "show all".to_owned()));
            return keys;
        }
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

/// What must be shown before a call can be allowed: what [`consent`] requires, and a description that
/// is longer than what is shown of it with the call.
fn disclosures(request: &Request) -> Vec<Disclosure> {
    let mut disclosures = request.disclosures();
    let is_long = |text: &&String| text.chars().nth(MAX_DESCRIPTION).is_some();
    if let Some(description) = request.description.as_ref().filter(is_long) {
        let label = "Description".to_owned();
        disclosures.push(Disclosure { label, text: description.clone() });
    }
    disclosures
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
mod tests;
