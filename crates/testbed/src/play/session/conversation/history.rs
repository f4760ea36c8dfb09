//! The messages of a conversation, and the form in which the API gets them.

use serde_json::{Value, json};

use crate::play::texts;

#[derive(Clone, Debug, Default)]
pub(crate) struct PlayerHistory {
    entries: Vec<PlayerHistoryEntry>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlayerHistoryEntry {
    /// The id in the transcript and in the lines to the host.
    pub(crate) uuid: String,
    /// `user`, `assistant` or `system`.
    pub(crate) role: String,
    /// A text or blocks.
    pub(crate) content: Value,
    /// Whether it is a prompt.
    pub(crate) prompt: bool,
}

impl PlayerHistory {
    pub(crate) fn push(&mut self, entry: PlayerHistoryEntry) {
        self.entries.push(entry);
    }

    pub(crate) fn newest(&self) -> Option<&str> {
        self.entries.last().map(|entry| entry.uuid.as_str())
    }

    pub(crate) fn entries(&self) -> &[PlayerHistoryEntry] {
        &self.entries
    }

    /// Removes a prompt and everything after it. Returns the prompt and the id of the reply before
    /// it.
    pub(crate) fn rewind(&mut self, uuid: &str) -> Option<(PlayerHistoryEntry, Option<String>)> {
        let position = self.entries.iter().position(|it| it.prompt && it.uuid == uuid)?;
        let prompt = self.entries[position].clone();
        self.entries.truncate(position);
        let before = self.entries.iter().rev().find(|entry| entry.role == "assistant");
        Some((prompt, before.map(|entry| entry.uuid.clone())))
    }

    /// Adds a text to the last result of a tool.
    pub(crate) fn add_to_last_result(&mut self, text: &str) {
        let blocks = self.entries.last_mut().and_then(|entry| entry.content.as_array_mut());
        let Some(content) = blocks
            .and_then(|blocks| blocks.iter_mut().rfind(|block| block["type"] == "tool_result"))
            .and_then(|block| block.get_mut("content"))
        else {
            return;
        };
        match content {
            Value::Array(parts) => parts.push(json!({ "type": "text", "text": text })),
            Value::String(before) => *before = format!("{before}\n\n{text}"),
            other => *other = text.into(),
        }
    }

    /// Removes everything after a message.
    pub(crate) fn truncate_after(&mut self, uuid: &str) {
        let position = self.entries.iter().rposition(|entry| entry.uuid == uuid);
        if let Some(position) = position {
            self.entries.truncate(position + 1);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Adds results for calls without one, which crashes leave behind: each after the message of its call,
    /// because the API refuses a conversation that goes on without it.
    pub(crate) fn close_open_calls(&mut self, uuid: &str) {
        let ids = |entry: &PlayerHistoryEntry, kind: &str, id: &str| -> Vec<Value> {
            let blocks = entry.content.as_array().into_iter().flatten();
            blocks.filter(|block| block["type"] == kind).map(|block| block[id].clone()).collect()
        };
        let results = |entry| ids(entry, "tool_result", "tool_use_id");
        let answered: Vec<Value> = self.entries.iter().flat_map(results).collect();
        let mut open: Vec<Value> = Vec::new();
        let close = |open: &mut Vec<Value>| PlayerHistoryEntry {
            uuid: uuid.to_owned(),
            role: "user".to_owned(),
            content: Value::Array(std::mem::take(open)),
            prompt: false,
        };
        for entry in std::mem::take(&mut self.entries) {
            if entry.role != "assistant" && !open.is_empty() {
                self.push(close(&mut open));
            }
            let calls = ids(&entry, "tool_use", "id").into_iter();
            open.extend(calls.filter(|call| !answered.contains(call)).map(|call| {
                json!({
                    "type": "tool_result", "tool_use_id": call, "is_error": true,
                    "content": "The session ended before this call was answered; its outcome is unknown.",
                })
            }));
            self.push(entry);
        }
        if !open.is_empty() {
            self.push(close(&mut open));
        }
    }

    /// The messages of a request. Adjacent messages of one role are merged, and a text that is
    /// followed by another ends with a newline.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let mut messages: Vec<(String, Vec<Value>)> = Vec::new();
        for entry in &self.entries {
            let blocks = match &entry.content {
                Value::String(text) => vec![json!({ "type": "text", "text": text })],
                Value::Array(blocks) => blocks.clone(),
                _ => continue,
            };
            match messages.last_mut() {
                Some((role, before)) if *role == entry.role && role != "system" => {
                    if role == "user"
                        && let Some(Value::String(text)) =
                            before.last_mut().and_then(|block| block.get_mut("text"))
                    {
                        text.push('\n');
                    }
                    before.extend(blocks);
                }
                _ => messages.push((entry.role.clone(), blocks)),
            }
        }
        let newest = messages.len().saturating_sub(1);
        let message = |(position, (role, content)): (usize, (String, Vec<Value>))| {
            // 2.1.325 sends the feedback of a hook as a plain text, and a summary too unless it is
            // the newest message.
            let text = match content.as_slice() {
                [only] => only["text"].as_str(),
                _ => None,
            };
            let plain = text.filter(|it| is_feedback(it) || position < newest && is_summary(it));
            let content =
                plain.map_or_else(|| Value::Array(content.clone()), |it| Value::String(it.into()));
            json!({ "role": role, "content": content })
        };
        messages.into_iter().enumerate().map(message).collect()
    }
}

/// Whether a text is the summary of a compacted conversation.
fn is_summary(text: &str) -> bool {
    text.starts_with("This session is being continued from a previous conversation")
}

/// Whether a text is from a hook that kept a turn from ending.
fn is_feedback(text: &str) -> bool {
    text.starts_with(texts::STOP_FEEDBACK)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{PlayerHistory, PlayerHistoryEntry};

    fn entry(uuid: &str, role: &str, text: &str) -> PlayerHistoryEntry {
        let (uuid, role) = (uuid.to_owned(), role.to_owned());
        PlayerHistoryEntry { uuid, prompt: role == "user", role, content: json!(text) }
    }

    #[test]
    fn adjacent_messages_of_one_role_are_merged() {
        let mut history = PlayerHistory::default();
        history.push(entry("1", "user", "one"));
        history.push(entry("2", "user", "two"));
        history.push(entry("3", "assistant", "three"));
        let text = |text: &str| json!({"type": "text", "text": text});
        let merged = json!([
            {"role": "user", "content": [text("one\n"), text("two")]},
            {"role": "assistant", "content": [text("three")]},
        ]);
        assert_eq!(json!(history.messages()), merged);
    }

    #[test]
    fn calls_that_crashes_left_open_get_results_where_the_api_wants_them() {
        let blocks = |role: &str, content: serde_json::Value| {
            let (uuid, role) = ("u".to_owned(), role.to_owned());
            PlayerHistoryEntry { uuid, role, content, prompt: false }
        };
        let call = |id: &str| json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {}}]);
        let result = json!([{"type": "tool_result", "tool_use_id": "b", "content": "done"}]);
        let mut history = PlayerHistory::default();
        for entry in [
            blocks("assistant", call("a")),
            blocks("assistant", call("b")),
            blocks("user", result),
            blocks("assistant", call("c")),
            entry("1", "user", "go on"),
            blocks("assistant", call("d")),
        ] {
            history.push(entry);
        }
        history.close_open_calls("restored");
        let messages = history.messages();
        let ids = |message: &serde_json::Value| -> Vec<String> {
            let blocks = message["content"].as_array().unwrap().iter();
            let id = |block: &serde_json::Value| block["tool_use_id"].as_str().map(str::to_owned);
            blocks.filter_map(id).collect()
        };
        let results: Vec<_> = messages.iter().map(ids).filter(|ids| !ids.is_empty()).collect();
        assert_eq!(results, [vec!["a", "b"], vec!["c"], vec!["d"]]);
        assert_eq!(messages.len(), 6);
    }

    #[test]
    fn the_feedback_of_a_hook_is_a_plain_text() {
        let mut history = PlayerHistory::default();
        history.push(entry("1", "assistant", "done"));
        history.push(entry("2", "user", "Stop hook feedback:\nshut the lock"));
        assert_eq!(history.messages()[1]["content"], "Stop hook feedback:\nshut the lock");
    }

    #[test]
    fn a_rewind_removes_the_prompt_and_everything_after_it() {
        let mut history = PlayerHistory::default();
        history.push(entry("1", "user", "one"));
        history.push(entry("2", "assistant", "reply"));
        history.push(entry("3", "user", "two"));
        let (prompt, before) = history.rewind("3").unwrap();
        assert_eq!((prompt.content, before.as_deref()), (json!("two"), Some("2")));
        assert_eq!(history.entries().len(), 2);
        assert!(history.rewind("3").is_none());
    }
}
