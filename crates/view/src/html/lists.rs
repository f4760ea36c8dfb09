//! What a call puts before a person as a list: what is to be done, and what may be answered.

use std::fmt::Write as _;

use super::escape::escape;
use crate::subject::Question;
use crate::todo::{Todo, TodoState};

/// Adds the agent's list of what is to be done.
pub(super) fn todos(todos: &[Todo], out: &mut String) {
    out.push_str("<ul class=\"todos\">");
    for todo in todos {
        let (class, sign) = match todo.state {
            TodoState::Pending => ("pending", "☐"),
            TodoState::Doing => ("doing", "◐"),
            TodoState::Done => ("done", "☑"),
        };
        let _ = write!(out, "<li class={class}><span>{sign}</span> ");
        escape(&todo.text, out);
        out.push_str("</li>");
    }
    out.push_str("</ul>");
}

/// Adds a question, with the answer that was given marked.
pub(super) fn question(question: &Question, answers: &[(String, String)], out: &mut String) {
    out.push_str("<div class=\"question\"><p><strong>");
    escape(&question.text, out);
    out.push_str("</strong></p><ul>");
    let answer = answers.iter().find(|(text, _)| *text == question.text).map(|(_, answer)| answer);
    let mut met = false;
    for choice in &question.choices {
        let chosen = answer.is_some_and(|answer| answer.split(", ").any(|one| one == choice.label));
        met |= chosen;
        out.push_str(if chosen { "<li class=\"chosen\">" } else { "<li>" });
        escape(&choice.label, out);
        if !choice.description.is_empty() {
            out.push_str(" <small>");
            escape(&choice.description, out);
            out.push_str("</small>");
        }
        out.push_str("</li>");
    }
    if let Some(answer) = answer.filter(|_| !met) {
        out.push_str("<li class=\"chosen\">");
        escape(answer, out);
        out.push_str("</li>");
    }
    out.push_str("</ul></div>");
}
