//! Cards: requests as messages with buttons.
//!
//! A card shows exactly what would be done, as far as it fits, and what "always" would mean before
//! anybody says so.

use view::diff::{Diff, DiffLine};
use view::telegram::{LIMIT, Mark, Text};
use view::{Body, Request, Subject, phrase};
use wire::note::Wants;

use super::nonce::Nonce;
use super::{Chat, remember, words};
use crate::call::{Button, Buttons, Words};
use crate::memory::{Asking, CardMemory};

/// Lines and characters of a command, a change or an input that are shown.
const LINES: usize = 40;
const CHARACTERS: usize = 2_500;

/// Characters of a card's title.
const TITLE: usize = 120;

/// What a card shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) words: Words,
    pub(super) buttons: Buttons,
}

impl Shown {
    pub(super) fn new(text: &Text, buttons: Buttons) -> Self {
        let first = text.messages(LIMIT).into_iter().next();
        let words =
            first.unwrap_or_else(|| Words { html: "…".to_owned(), plain: "…".to_owned() });
        Self { words, buttons }
    }
}

impl Chat {
    /// The card of a request, with what was chosen so far.
    pub(super) fn card(&self, request: &Request, so_far: &CardMemory) -> Shown {
        let nonce = Nonce::of_request(self.memory.session, &request.id);
        match request.wants {
            Wants::Permission => self.permission(request, so_far, &nonce),
            Wants::Answers => super::question::card(request, so_far, &nonce),
            Wants::PlanApproval => self.plan_card(request, &nonce),
        }
    }

    fn permission(&self, request: &Request, so_far: &CardMemory, nonce: &Nonce) -> Shown {
        let mut text = Text::default();
        text.push("🔐 ");
        text.push_marked(Mark::Bold, &title(request, self.document.head.cwd.as_deref()));
        if let Some(agent) = self.agent_of(request) {
            words::line(&mut text, Mark::Italic, &format!("Asked by an agent of its own: {agent}"));
        }
        words::line(&mut text, Mark::Italic, request.description.as_deref().unwrap_or_default());
        given(request, &mut text);
        if let Some(reason) = &request.reason {
            words::line(&mut text, Mark::Italic, reason);
        } else if let Some(path) = &request.blocked_path {
            words::line(&mut text, Mark::Italic, &format!("It asks because of {path}."));
        }
        let patience = request.expires.zip(request.at).map(|(end, at)| end.saturating_sub(at));
        if let Some(patience) = patience {
            let patience = phrase::duration(patience);
            words::line(
                &mut text,
                Mark::Italic,
                &format!("Refused if nobody answers in {patience}."),
            );
        }
        if so_far.choosing {
            let rule = remember::in_words(request).unwrap_or_default();
            text.push("\n\nFrom here on allowed without asking: ");
            text.push_marked(Mark::Code, &words::shortened_to(&rule, 600));
            let buttons = vec![
                vec![button("In this session", nonce, "as")],
                vec![button("In every session of this directory", nonce, "ad")],
                vec![button("‹ Back", nonce, "b")],
            ];
            return Shown::new(&text, buttons);
        }
        let buttons = vec![
            vec![button("✔ Allow", nonce, "y"), button("Always…", nonce, "a")],
            vec![button("✘ Deny", nonce, "n"), button("✘ Deny & say why", nonce, "w")],
        ];
        Shown::new(&text, buttons)
    }

    /// The work of the sub-agent that asks, where one does.
    fn agent_of(&self, request: &Request) -> Option<String> {
        let parent = self.item(request.item.as_ref()?)?.parent.as_ref()?;
        let Body::Call(call) = &self.item(parent)?.body else { return None };
        let target = view::Card::of(call, None).target;
        Some(words::shortened_to(&target, TITLE)).filter(|target| !target.is_empty())
    }

    fn plan_card(&self, request: &Request, nonce: &Nonce) -> Shown {
        let mut text = Text::default();
        text.push_marked(Mark::Bold, "◫ Shall it go on with this plan?");
        // The plan itself is told before, where the conversation has it.
        if request.item.as_ref().is_none_or(|id| self.item(id).is_none())
            && let Subject::Plan(plan) = request.call().subject()
        {
            text.push("\n\n");
            text.push(&words::shortened_to(&plan, CHARACTERS));
        }
        let buttons = vec![
            vec![button("✔ Approve & accept edits", nonce, "pe")],
            vec![button("✔ Approve & ask each", nonce, "pa")],
            vec![button("✎ Keep planning", nonce, "n"), button("✎ … and say what", nonce, "w")],
        ];
        Shown::new(&text, buttons)
    }
}

/// What the message says that asks for words.
pub(super) fn asking(request: &Request, so_far: &CardMemory, asking: Asking) -> Text {
    let mut text = Text::default();
    let question = super::question::current(request, so_far).map(|(_, question)| question);
    match (asking, question) {
        (Asking::Answer, Some(question)) => {
            text.push_marked(Mark::Bold, &words::shortened_to(&question.text, 1_000));
            text.push("\nReply to this message with your answer.");
        }
        (Asking::Reason, _) if request.wants == Wants::PlanApproval => {
            text.push("What should be different? Reply to this message.");
        }
        _ => text.push("Why not, or what should it do instead? Reply to this message."),
    }
    text
}

pub(super) fn button(label: &str, nonce: &Nonce, verb: &str) -> Button {
    Button { label: label.to_owned(), data: nonce.with(verb) }
}

/// What a request is about, in a line.
pub(super) fn title(request: &Request, base: Option<&str>) -> String {
    let title = match request.wants {
        Wants::PlanApproval => "Plan".to_owned(),
        Wants::Answers => format!("Question: {}", request.target),
        Wants::Permission => {
            let card = view::Card::of(&request.call(), base);
            format!("{} {}", card.verb, card.target)
        }
    };
    words::shortened_to(title.trim(), TITLE)
}

/// What the tool would be given.
fn given(request: &Request, text: &mut Text) {
    let call = request.call();
    match call.subject() {
        Subject::Shell { command, .. } => block(text, Some("bash"), command.trim()),
        Subject::Edit { path, .. } => {
            words::line(text, Mark::Code, &path);
            let diff = Diff::of(&call).unwrap_or_default();
            let lines = diff.hunks.iter().flat_map(|hunk| &hunk.lines);
            let signed = |line: &DiffLine| format!("{}{}", line.change.sign(), line.text());
            let lines: Vec<_> = lines.map(signed).collect();
            block(text, Some("diff"), &lines.join("\n"));
        }
        Subject::Write { path, content } => {
            words::line(text, Mark::Code, &path);
            block(text, None, &content);
        }
        Subject::Read { path, .. } => words::line(text, Mark::Code, &path),
        Subject::Web { query } => words::line(text, Mark::Code, &query),
        Subject::Search { pattern, path } => {
            let place = path.map(|path| format!(" in {path}")).unwrap_or_default();
            words::line(text, Mark::Code, &format!("{pattern}{place}"));
        }
        Subject::Agent { prompt, .. } => block(text, None, &prompt),
        Subject::Todos(_) | Subject::Questions(_) | Subject::Plan(_) | Subject::Other(_) => {
            let pretty = serde_json::from_str::<serde_json::Value>(&request.input)
                .and_then(|input| serde_json::to_string_pretty(&input));
            block(text, Some("json"), &pretty.unwrap_or_else(|_| request.input.clone()));
        }
    }
}

/// A block of code, cut where it gets too long for a phone.
fn block(text: &mut Text, language: Option<&str>, code: &str) {
    let kept: Vec<_> = code.lines().take(LINES).collect();
    let shown = words::shortened_to(&kept.join("\n"), CHARACTERS);
    words::line(text, Mark::Block(language.map(str::to_owned)), &shown);
    let hidden = code.lines().count().saturating_sub(LINES);
    if hidden > 0 {
        let hidden = phrase::several(hidden, "more line", "more lines");
        words::line(text, Mark::Italic, &format!("… {hidden}"));
    }
}
