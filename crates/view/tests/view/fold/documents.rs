//! Whole documents of representative captures, one line per item.

use std::fmt::Write as _;

use super::captures;
use towpath_view::{Call, Conversation, Item, ItemBody};

/// The document as a list: one line per turn and item, sub-agents indented.
pub(super) fn digest(document: &Conversation) -> String {
    let mut out = String::new();
    for turn in &document.turns {
        let _ = writeln!(
            out,
            "turn {}: {:?}, tokens {:?}, cost {:?}, files {:?}{}",
            turn.number,
            turn.end.as_ref().map(|end| (&end.ending, &end.reason)),
            (turn.tokens.input, turn.tokens.output),
            turn.cost,
            turn.files.iter().map(|file| &*file.path).collect::<Vec<_>>(),
            turn.origin.as_ref().map(|it| format!(", by {it}")).unwrap_or_default(),
        );
        for item in document.items.iter().filter(|item| item.turn == turn.number) {
            let indent = if item.parent.is_some() { "      " } else { "  " };
            let _ = writeln!(out, "{indent}{}", line(item));
        }
    }
    let _ = writeln!(out, "status {:?}", document.status.phase);
    let usage = &document.usage;
    let _ =
        writeln!(out, "usage {:?} cost {:?} context {:?}", usage.tokens, usage.cost, usage.context);
    if !document.todos.is_empty() {
        let _ = writeln!(out, "todos {:?}", document.todos);
    }
    if !document.requests.is_empty() {
        let _ = writeln!(out, "requests {}", document.requests.len());
    }
    out
}

fn line(item: &Item) -> String {
    match &item.body {
        ItemBody::Prompt(prompt) => {
            format!("prompt by {:?} ({:?}): {}", prompt.author, prompt.state, brief(&prompt.text))
        }
        ItemBody::Text { text } => format!("text: {}", brief(text)),
        ItemBody::Thinking { text, tokens } => format!("thinking {tokens:?}: {}", brief(text)),
        ItemBody::Call(call) => called(call),
        ItemBody::Raw(raw) => format!("raw {:?} {}: {}", raw.reason, raw.name, brief(&raw.text)),
        ItemBody::Compaction(it) => {
            format!(
                "compaction {:?} {:?} -> {:?}: {}",
                it.trigger,
                it.before,
                it.after,
                brief(&it.summary)
            )
        }
        other => brief(&format!("{other:?}")),
    }
}

fn called(call: &Call) -> String {
    let mut line = format!(
        "{} [{}] {}: {:?}",
        call.action.label(),
        call.tool,
        brief(&call.target),
        call.state
    );
    if let Some(result) = &call.result {
        let _ = write!(line, " -> {}", brief(&result.text));
        if result.hunks.is_some() {
            line.push_str(" (hunks)");
        }
    }
    if let Some(permission) = &call.permission {
        let _ = write!(line, " | {:?} {:?}", permission.kind, permission.outcome);
        if !permission.answers.is_empty() {
            let _ = write!(line, " {:?}", permission.answers);
        }
        if let Some(choice) = &permission.choice {
            let _ = write!(line, " {choice:?}");
        }
    }
    if let Some(agent) = &call.agent {
        let tokens = (agent.tokens.input, agent.tokens.output);
        let _ = write!(
            line,
            " | agent {:?}, {} calls, {tokens:?}, {}",
            agent.state,
            agent.calls,
            brief(&agent.summary)
        );
    }
    line
}

fn brief(text: &str) -> String {
    let line: String = text.replace('\n', "⏎").chars().take(90).collect();
    line
}

/// Captures of all kinds of items, over the versions.
const SELECTED: &[&str] = &[
    "1.0.128/stdout/interrupt-while-pending.jsonl",
    "1.0.128/stdout/server-tools.jsonl",
    "1.0.24/transcript/first.jsonl",
    "2.0.60/stdout/compact.jsonl",
    "2.1.120/stdout/background-agent.jsonl",
    "2.1.120/stdout/teammate.jsonl",
    "2.1.120/transcript/rich-transcript.jsonl",
    "2.1.260/stdout/checkpoint-bashcmd.jsonl",
    "2.1.260/stdout/e-refusal.jsonl",
    "2.1.260/stdout/fallback-model.jsonl",
    "2.1.260/stdout/hooks-block.jsonl",
    "2.1.260/stdout/permission-deny-interrupt.jsonl",
    "2.1.260/stdout/subagent-plain.jsonl",
    "2.1.260/stdout/thinking.jsonl",
    "2.1.260/transcript/slash-clear.jsonl",
    "2.1.325/stdout/interrupt-with-queued.jsonl",
    "2.1.325/stdout/mcp-rich.jsonl",
    "2.1.325/stdout/slash.jsonl",
    "2.1.325/stdout/tools-misc.jsonl",
    "2.1.37/stdout/permission-exitplan.jsonl",
];

#[test]
fn representative_captures_are_the_documents_a_person_expects() {
    let mut documents = String::new();
    let mut found = 0;
    for record in captures().iter().filter(|record| SELECTED.contains(&&*record.name)) {
        found += 1;
        let _ = writeln!(documents, "=== {}\n{}", record.name, digest(&record.document()));
    }
    assert_eq!(found, SELECTED.len());
    insta::assert_snapshot!(documents);
}
