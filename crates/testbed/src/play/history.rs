//! What a conversation holds, and the form in which the API gets it.

use serde_json::{Value, json};

use super::wording;

/// A conversation so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    entries: Vec<Entry>,
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The id that transcripts and hosts know it by.
    pub(crate) uuid: String,
    /// `user`, `assistant` or `system`.
    pub(crate) role: String,
    /// A text or blocks.
    pub(crate) content: Value,
    /// Whether a host said it.
    pub(crate) prompt: bool,
}

impl History {
    /// Adds a message.
    pub(crate) fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// The id of the newest message.
    pub(crate) fn newest(&self) -> Option<&str> {
        self.entries.last().map(|entry| entry.uuid.as_str())
    }

    /// Its messages, oldest first.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Forgets a prompt and everything after it: the prompt, and the reply before it.
    pub(crate) fn rewind(&mut self, uuid: &str) -> Option<(Entry, Option<String>)> {
        let place = self.entries.iter().position(|it| it.prompt && it.uuid == uuid)?;
        let prompt = self.entries[place].clone();
        self.entries.truncate(place);
        let before = self.entries.iter().rev().find(|entry| entry.role == "assistant");
        Some((prompt, before.map(|entry| entry.uuid.clone())))
    }

    /// Forgets everything after a message.
    pub(crate) fn truncate_after(&mut self, uuid: &str) -> bool {
        let place = self.entries.iter().rposition(|entry| entry.uuid == uuid);
        if let Some(place) = place {
            self.entries.truncate(place + 1);
        }
        place.is_some()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Answers calls that nobody answered, as after a crash.
    pub(crate) fn close_open_calls(&mut self, uuid: &str) {
        let Some(last) = self.entries.last() else { return };
        let calls = last.content.as_array().into_iter().flatten();
        let open: Vec<Value> = calls
            .filter(|block| last.role == "assistant" && block["type"] == "tool_use")
            .map(|block| {
                json!({
                    "type": "tool_result", "tool_use_id": block["id"], "is_error": true,
                    "content": "The session ended before this call was answered; its outcome is unknown.",
                })
            })
            .collect();
        if !open.is_empty() {
            let (role, uuid) = ("user".to_owned(), uuid.to_owned());
            self.push(Entry { uuid, role, content: Value::Array(open), prompt: false });
        }
    }

    /// The messages as a request carries them: neighbours of one role are one message, and texts
    /// that something follows end with a newline.
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
        let message = |(place, (role, content)): (usize, (String, Vec<Value>))| {
            // 2.1.325 sends the feedback of a hook as the text it is, and a summary too, unless it
            // is the newest message.
            let text = match content.as_slice() {
                [only] => only["text"].as_str(),
                _ => None,
            };
            let plain = text.filter(|it| is_feedback(it) || place < newest && is_summary(it));
            let content =
                plain.map_or_else(|| Value::Array(content.clone()), |it| Value::String(it.into()));
            json!({ "role": role, "content": content })
        };
        messages.into_iter().enumerate().map(message).collect()
    }
}

/// Whether a text stands for a conversation before it.
fn is_summary(text: &str) -> bool {
    text.starts_with("This session is being continued from a previous conversation")
}

/// Whether a hook said it to keep a turn from stopping.
fn is_feedback(text: &str) -> bool {
    text.starts_with(wording::STOP_FEEDBACK)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Entry, History};

    fn entry(uuid: &str, role: &str, text: &str) -> Entry {
        let (uuid, role) = (uuid.to_owned(), role.to_owned());
        Entry { uuid, prompt: role == "user", role, content: json!(text) }
    }

    #[test]
    fn neighbours_of_one_role_are_one_message() {
        let mut history = History::default();
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
    fn the_feedback_of_a_hook_is_sent_as_a_text() {
        let mut history = History::default();
        history.push(entry("1", "assistant", "done"));
        history.push(entry("2", "user", "Stop hook feedback:\nshut the lock"));
        assert_eq!(history.messages()[1]["content"], "Stop hook feedback:\nshut the lock");
    }

    #[test]
    fn rewinding_forgets_the_prompt_and_what_came_after() {
        let mut history = History::default();
        history.push(entry("1", "user", "one"));
        history.push(entry("2", "assistant", "reply"));
        history.push(entry("3", "user", "two"));
        let (prompt, before) = history.rewind("3").unwrap();
        assert_eq!((prompt.content, before.as_deref()), (json!("two"), Some("2")));
        assert_eq!(history.entries().len(), 2);
        assert!(history.rewind("3").is_none());
    }
}
