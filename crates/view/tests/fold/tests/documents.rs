//! Whole documents of representative captures, in a few words an item.

use std::fmt::Write as _;

use super::record::captures;
use towpath_view::{Body, Call, Conversation, Item};

/// The document as a list: a line a turn, a line an item, sub-agents indented.
fn digest(document: &Conversation) -> String {
    let mut out = String::new();
    for turn in &document.turns {
        let _ = writeln!(
            out,
            "turn {}: {:?}, tokens {:?}, cost {:?}, files {:?}{}",
            turn.number,
            turn.end.as_ref().map(|end| (&end.how, &end.reason)),
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
        Body::Prompt(prompt) => {
            format!("prompt by {:?} ({:?}): {}", prompt.speaker, prompt.state, brief(&prompt.text))
        }
        Body::Text { text } => format!("text: {}", brief(text)),
        Body::Thinking { text, tokens } => format!("thinking {tokens:?}: {}", brief(text)),
        Body::Call(call) => called(call),
        Body::Raw(raw) => format!("raw {:?} {}: {}", raw.reason, raw.name, brief(&raw.text)),
        Body::Compaction(it) => {
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
    let mut line =
        format!("{} [{}] {}: {:?}", call.verb.word(), call.tool, brief(&call.target), call.state);
    if let Some(outcome) = &call.outcome {
        let _ = write!(line, " -> {}", brief(&outcome.text));
        if outcome.hunks.is_some() {
            line.push_str(" (hunks)");
        }
    }
    if let Some(permission) = &call.permission {
        let _ = write!(line, " | {:?} {:?}", permission.wants, permission.outcome);
        if !permission.answers.is_empty() {
            let _ = write!(line, " {:?}", permission.answers);
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

/// One of each sort of thing, over the versions.
const SHOWN: &[&str] = &[
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
    for record in captures().iter().filter(|record| SHOWN.contains(&&*record.name)) {
        found += 1;
        let _ = writeln!(documents, "=== {}\n{}", record.name, digest(&record.document()));
    }
    assert_eq!(found, SHOWN.len());
    insta::assert_snapshot!(documents);
}
