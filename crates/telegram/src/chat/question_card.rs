//! Questions of the agent: the card with their options, and the message that asks for a text.

use view::telegram::{FormattedText, TextFormat};
use view::{Question, Request, ToolInput};
use wire::consent::Disclosure;
use wire::note::RequestKind;

use super::Chat;
use super::card::{MessageContent, SHOW_ALL, SHOWN_ABOVE};
use super::disclosure::{fits_on_card, hash};
use super::tap::ButtonKey;
use super::text::{push_line, shortened_to, visible};
use crate::bot::BotKeyboard;
use crate::checkpoint::{CardState, ReplyPurpose};

/// Options of a question that get a button. *Other* accepts any answer.
const CHOICES: usize = 20;

/// Characters of a button's label.
const LABEL: usize = 48;

/// Characters of a question, an option or its description if all of it is too long for a card.
const EXCERPT: usize = 100;

impl Chat {
    /// The card of a request with up to four questions: the next question, below the answers so far.
    pub(super) fn question_card(
        &self,
        request: &Request,
        state: &CardState,
        key: &ButtonKey,
    ) -> MessageContent {
        let mut text = FormattedText::default();
        for (question, answer) in &state.answers {
            text.push("✔ ");
            text.push_formatted(TextFormat::Italic, &shortened_to(&visible(question), 200));
            text.push(&format!(" {}\n", shortened_to(&visible(answer), 200)));
        }
        let skip = key.button("Skip", "n");
        let Some((index, question)) = current_question(request, state) else {
            text.push("❓ The agent asks a question that cannot be shown here.");
            return MessageContent::new(&text, vec![vec![skip]]);
        };
        let required = self.required(request);
        let fits = fits_on_card(&required);
        // A card with all of the text has room for it. Otherwise it is in the messages above.
        let shown = |text: &str| {
            let text = visible(text);
            if fits { text } else { shortened_to(&text, EXCERPT) }
        };
        let count = questions(request).len();
        text.push("❓ ");
        if count > 1 {
            text.push(&format!("{} of {count} · ", index + 1));
        }
        text.push_formatted(TextFormat::Bold, &shown(&question.text));
        if !fits && state.disclosed != Some(hash(&required)) {
            push_line(&mut text, TextFormat::Italic, SHOW_ALL);
            return MessageContent::new(&text, vec![vec![key.button("Show all", "s"), skip]]);
        }
        if !fits {
            push_line(&mut text, TextFormat::Italic, SHOWN_ABOVE);
        }
        let mut buttons = BotKeyboard::new();
        for (number, choice) in question.options.iter().take(CHOICES).enumerate() {
            text.push(&format!("\n{}. {}", number + 1, shown(&choice.label)));
            if !choice.description.is_empty() {
                text.push(" – ");
                text.push_formatted(TextFormat::Italic, &shown(&choice.description));
            }
            let mark = match (question.multiple, state.selected.contains(&number)) {
                (false, _) => format!("{}. ", number + 1),
                (true, false) => "☐ ".to_owned(),
                (true, true) => "☑ ".to_owned(),
            };
            let label = format!("{mark}{}", shortened_to(&visible(&choice.label), LABEL));
            buttons.push(vec![key.button(&label, &format!("q{index}.{number}"))]);
        }
        let mut last = vec![key.button("Other…", &format!("q{index}.o")), skip];
        if question.multiple {
            last.insert(0, key.button("Done", &format!("q{index}.f")));
        }
        buttons.push(last);
        MessageContent::new(&text, buttons)
    }
}

/// The questions of a request; none if they cannot be read.
pub(super) fn questions(request: &Request) -> Vec<Question> {
    match request.call().tool_input() {
        ToolInput::Questions(questions) => questions,
        _ => Vec::new(),
    }
}

/// The next question to be answered and its index.
pub(super) fn current_question(request: &Request, state: &CardState) -> Option<(usize, Question)> {
    let index = state.answers.len();
    questions(request).into_iter().nth(index).map(|question| (index, question))
}

/// Everything that the questions of a request say, if they can be read.
pub(super) fn question_disclosure(request: &Request) -> Option<Disclosure> {
    let mut lines = Vec::new();
    for question in questions(request) {
        lines.push(question.text);
        for (number, choice) in question.options.iter().enumerate() {
            let description = match choice.description.as_str() {
                "" => String::new(),
                description => format!(" – {description}"),
            };
            lines.push(format!("{}. {}{description}", number + 1, choice.label));
        }
    }
    let text = lines.join("\n");
    (!text.is_empty()).then(|| Disclosure { label: "Question".to_owned(), text })
}

/// The message that asks the user for a text.
pub(super) fn text_question(
    request: &Request,
    state: &CardState,
    purpose: ReplyPurpose,
) -> FormattedText {
    let mut text = FormattedText::default();
    let question = current_question(request, state).map(|(_, question)| question);
    match (purpose, question) {
        (ReplyPurpose::Answer, Some(question)) => {
            text.push_formatted(TextFormat::Bold, &shortened_to(&visible(&question.text), 1_000));
            text.push("\nReply to this message with your answer.");
        }
        (ReplyPurpose::Reason, _) if request.kind == RequestKind::Plan => {
            text.push("Reply to this message with the changes you want.");
        }
        _ => text.push(
            "Reply to this message with the reason, or with what the agent should do instead.",
        ),
    }
    text
}

/// The selected options as one answer.
pub(super) fn selected_options(question: &Question, state: &CardState) -> String {
    let options = question.options.iter().enumerate();
    let selected = options.filter(|(number, _)| state.selected.contains(number));
    let labels: Vec<_> = selected.map(|(_, choice)| choice.label.as_str()).collect();
    labels.join(", ")
}
