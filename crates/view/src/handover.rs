//! A conversation in short, for an agent that continues it and has never seen it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::conversation::{Conversation, TodoState};
use crate::item::{Item, ItemBody, PromptAuthor};

/// How much of one message is kept.
const MESSAGE_BYTES: usize = 1_500;

/// How many changed files and open tasks are named.
const MAX_FILES: usize = 60;
const MAX_TASKS: usize = 20;

/// The part of the text that files and tasks may take.
const LIST_SHARE: usize = 4;

/// A summary of a conversation in at most `max_bytes`: its messages, the first one and the newest ones
/// first of all, the files that were changed, and the tasks that are open.
///
/// `agent` is the name of the one that answered.
pub fn summarize(conversation: &Conversation, agent: &str, max_bytes: usize) -> String {
    let mut lists = String::new();
    let list_bytes = max_bytes / LIST_SHARE;
    push_list(&mut lists, "Files that were changed", changed_files(conversation), list_bytes);
    push_list(&mut lists, "Open tasks", open_tasks(conversation), list_bytes);
    let head = format!(
        "You continue a conversation that {agent} had with the user in this directory. The files are \
         as {agent} left them. This is the conversation in short:\n"
    );
    let left = max_bytes.saturating_sub(head.len() + lists.len());
    format!("{head}{}{lists}", messages(conversation, agent, left))
}

/// The messages that fit, in their order. The first one says what it is about, so it is always there.
fn messages(conversation: &Conversation, agent: &str, max_bytes: usize) -> String {
    let messages = said(conversation, agent);
    let Some((first, rest)) = messages.split_first() else { return String::new() };
    let mut left = max_bytes.saturating_sub(first.len());
    let kept = rest.iter().rev().take_while(|message| {
        let fits = message.len() <= left;
        left = left.saturating_sub(message.len());
        fits
    });
    let kept = kept.count();
    let mut text = cut(first, max_bytes);
    if kept < rest.len() {
        let _ = write!(text, "\n[{} messages are left out here]\n", rest.len() - kept);
    }
    for message in &rest[rest.len() - kept..] {
        text.push_str(message);
    }
    text
}

/// What the user wrote, and the last text of each turn: what comes before it is mostly commentary.
fn said(conversation: &Conversation, agent: &str) -> Vec<String> {
    let rewound: Vec<u64> =
        conversation.turns.iter().filter(|it| it.rewound).map(|it| it.number).collect();
    let mut answers: BTreeMap<u64, &Item> = BTreeMap::new();
    let of_main_agent =
        |item: &&Item| item.parent.is_none() && !item.trimmed && !rewound.contains(&item.turn);
    for item in conversation.items.iter().filter(of_main_agent) {
        if matches!(&item.body, ItemBody::Text { text } if !text.trim().is_empty()) {
            answers.insert(item.turn, item);
        }
    }
    let mut said = Vec::new();
    for item in conversation.items.iter().filter(of_main_agent) {
        match &item.body {
            ItemBody::Prompt(prompt)
                if prompt.author == PromptAuthor::User && !prompt.text.trim().is_empty() =>
            {
                said.push(message("User", &prompt.text));
            }
            ItemBody::Text { text }
                if answers.get(&item.turn).is_some_and(|it| it.id == item.id) =>
            {
                said.push(message(agent, text));
            }
            _ => {}
        }
    }
    said
}

fn message(by: &str, text: &str) -> String {
    format!("\n{by}:\n{}\n", cut(text.trim(), MESSAGE_BYTES))
}

fn changed_files(conversation: &Conversation) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    let turns = conversation.turns.iter().filter(|it| !it.rewound);
    for file in turns.flat_map(|it| &it.files) {
        if !files.contains(&file.path) && files.len() < MAX_FILES {
            files.push(file.path.clone());
        }
    }
    files
}

fn open_tasks(conversation: &Conversation) -> Vec<String> {
    let open = conversation.todos.iter().filter(|it| it.state != TodoState::Done);
    open.take(MAX_TASKS).map(|it| it.text.clone()).collect()
}

fn push_list(text: &mut String, title: &str, entries: Vec<String>, max_bytes: usize) {
    if entries.is_empty() {
        return;
    }
    let _ = write!(text, "\n{title}:\n");
    let mut left = max_bytes.saturating_sub(title.len() + 3);
    for entry in entries {
        let line = format!("- {}\n", cut(entry.lines().next().unwrap_or_default(), 300));
        if line.len() > left {
            text.push_str("- …\n");
            return;
        }
        left -= line.len();
        text.push_str(&line);
    }
}

/// The beginning of a text, with an ellipsis if it is cut.
fn cut(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(max_bytes.saturating_sub(3))])
}

#[cfg(test)]
mod tests {
    use super::summarize;
    use crate::Fold;
    use serde_json::json;

    fn conversation(prompts: &[(&str, &str)]) -> crate::Conversation {
        let mut fold = Fold::new();
        let mut seq = 0;
        let mut push = |line: serde_json::Value| {
            seq += 1;
            fold.push_line(seq, line.to_string().as_bytes());
        };
        for (number, (prompt, answer)) in prompts.iter().enumerate() {
            push(json!({"type":"user","uuid":format!("00000000-0000-4000-8000-{number:012}"),
                "message":{"role":"user","content":[{"type":"text","text":prompt}]}}));
            let path = format!("/p/file{number}.rs");
            push(json!({"type":"assistant","message":{"id":format!("m{number}"),"content":[
                {"type":"text","text":"I look."},
                {"type":"tool_use","id":format!("c{number}"),"name":"Write",
                 "input":{"file_path":path,"content":"x"}}]}}));
            push(json!({"type":"user","message":{"role":"user","content":[
                {"type":"tool_result","tool_use_id":format!("c{number}"),"content":"ok"}]},
                "tool_use_result":{"type":"create","filePath":path,"content":"x"}}));
            push(json!({"type":"assistant","message":{"id":format!("n{number}"),"content":[
                {"type":"text","text":answer}]}}));
            push(json!({"type":"result","subtype":"success","is_error":false,"result":answer}));
        }
        fold.conversation(10_000)
    }

    #[test]
    fn a_summary_has_the_messages_the_last_answers_and_the_changed_files() {
        let summary = summarize(
            &conversation(&[("fix the lock", "Fixed."), ("and a test", "Added.")]),
            "Codex",
            8 << 10,
        );
        for part in [
            "User:\nfix the lock\n",
            "Codex:\nFixed.\n",
            "User:\nand a test\n",
            "Codex:\nAdded.\n",
            "- /p/file0.rs\n- /p/file1.rs\n",
        ] {
            assert!(summary.contains(part), "{part:?} in {summary}");
        }
        assert!(!summary.contains("I look."), "{summary}");
    }

    #[test]
    fn a_long_conversation_keeps_its_beginning_and_its_end_within_the_limit() {
        let long = "é".repeat(100_000);
        let mut prompts = vec![("the task", "begun")];
        prompts.extend([("again", long.as_str()); 300]);
        prompts.push(("the newest", "done at last"));
        let summary = summarize(&conversation(&prompts), "Claude", 8 << 10);
        assert!(summary.len() <= 8 << 10, "{}", summary.len());
        for part in ["the task", "the newest", "done at last", "messages are left out"] {
            assert!(summary.contains(part), "{part}");
        }
    }
}
