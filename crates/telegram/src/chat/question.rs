//! Questions of the agent: one at a time, up to four in a request.

use view::telegram::{Mark, Text};
use view::{Question, Request, Subject};

use super::card::{Shown, button};
use super::nonce::Nonce;
use super::words;
use crate::call::Buttons;
use crate::memory::CardMemory;

/// Choices that get a button; nobody reads more on a phone, and "Other" takes any answer.
pub(super) const CHOICES: usize = 20;

/// Characters of a button's label.
const LABEL: usize = 48;

/// The questions of a request; none where they cannot be read.
pub(super) fn questions(request: &Request) -> Vec<Question> {
    match request.call().subject() {
        Subject::Questions(questions) => questions,
        _ => Vec::new(),
    }
}

/// The question that is to be answered next, and its number from 0 on.
pub(super) fn current(request: &Request, so_far: &CardMemory) -> Option<(usize, Question)> {
    let at = so_far.answers.len();
    questions(request).into_iter().nth(at).map(|question| (at, question))
}

/// The card, which shows the question that is next and the answers before it.
pub(super) fn card(request: &Request, so_far: &CardMemory, nonce: &Nonce) -> Shown {
    let mut text = Text::default();
    for (question, answer) in &so_far.answers {
        text.push("✔ ");
        text.push_marked(Mark::Italic, &words::shortened_to(question, 200));
        text.push(&format!(" {}\n", words::shortened_to(answer, 200)));
    }
    let skip = button("Don't answer", nonce, "n");
    let Some((at, question)) = current(request, so_far) else {
        text.push("❓ The agent asks something that cannot be shown here.");
        return Shown::new(&text, vec![vec![skip]]);
    };
    let of = questions(request).len();
    text.push("❓ ");
    if of > 1 {
        text.push(&format!("{} of {of} · ", at + 1));
    }
    text.push_marked(Mark::Bold, &words::shortened_to(&question.text, 1_000));
    for (number, choice) in question.choices.iter().take(CHOICES).enumerate() {
        text.push(&format!("\n{}. {}", number + 1, words::shortened_to(&choice.label, 100)));
        if !choice.description.is_empty() {
            text.push(" – ");
            text.push_marked(Mark::Italic, &words::shortened_to(&choice.description, 150));
        }
    }
    let mut buttons: Buttons = Vec::new();
    for (number, choice) in question.choices.iter().take(CHOICES).enumerate() {
        let tick = match (question.several, so_far.ticked.contains(&number)) {
            (false, _) => format!("{}. ", number + 1),
            (true, false) => "☐ ".to_owned(),
            (true, true) => "☑ ".to_owned(),
        };
        let label = format!("{tick}{}", words::shortened_to(&choice.label, LABEL));
        buttons.push(vec![button(&label, nonce, &format!("q{at}.{number}"))]);
    }
    let mut last = vec![button("Other…", nonce, &format!("q{at}.o")), skip];
    if question.several {
        last.insert(0, button("✔ Done", nonce, &format!("q{at}.f")));
    }
    buttons.push(last);
    Shown::new(&text, buttons)
}

/// What was ticked, as one answer.
pub(super) fn ticked(question: &Question, so_far: &CardMemory) -> String {
    let chosen = question.choices.iter().enumerate();
    let chosen = chosen.filter(|(number, _)| so_far.ticked.contains(number));
    let labels: Vec<_> = chosen.map(|(_, choice)| choice.label.as_str()).collect();
    labels.join(", ")
}
