//! A request for a message, as far as an answer depends on it.
//!
//! Read without copying: a CLI sends its whole history with every request, and all that is decided
//! on is the names of the tools and the newest message.

use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use super::refusal::Refusal;

/// A request for a message, or for a count of its tokens.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Request<'a> {
    #[serde(borrow, default)]
    pub(super) model: Cow<'a, str>,
    max_tokens: Option<u64>,
    #[serde(default)]
    pub(super) stream: Option<bool>,
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
    #[serde(borrow, default)]
    tools: Option<Vec<Tool<'a>>>,
    #[serde(default)]
    stop_sequences: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Content<'a>,
}

#[derive(Debug)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

/// A content block: what of it is text, and what is something heavier.
#[derive(Debug, Deserialize)]
struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_use_id: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    source: Option<Source<'a>>,
}

#[derive(Debug, Deserialize)]
struct Source<'a> {
    #[serde(borrow, default)]
    data: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
struct Tool<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

/// What the newest message of a person or a tool holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Newest {
    /// What was typed, without what the CLI reminds the model of.
    pub(super) typed: String,
    /// What tools answered.
    pub(super) results: Vec<String>,
}

impl<'a> Request<'a> {
    /// Reads a request for a message.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Refusal> {
        let request = Self::read_countable(body)?;
        if request.max_tokens.is_none() {
            return Err(Refusal::invalid("max_tokens: Field required"));
        }
        Ok(request)
    }

    /// Reads a request for a count of tokens, which needs less.
    pub(super) fn read_countable(body: &'a [u8]) -> Result<Self, Refusal> {
        let request: Self = serde_json::from_slice(body).map_err(|error| {
            Refusal::invalid(if error.is_data() {
                error.to_string()
            } else {
                format!("The request body is not valid JSON: {error}")
            })
        })?;
        if request.model.is_empty() {
            return Err(Refusal::invalid("model: Field required"));
        }
        let Some(messages) = &request.messages else {
            return Err(Refusal::invalid("messages: Field required"));
        };
        if messages.is_empty() {
            return Err(Refusal::invalid("messages: at least one message is required"));
        }
        for (index, message) in messages.iter().enumerate() {
            // `system` in the middle is what newer CLIs send for reminders.
            if !["user", "assistant", "system"].contains(&&*message.role) {
                let text = format!("messages.{index}.role: Input should be 'user' or 'assistant'");
                return Err(Refusal::invalid(text));
            }
        }
        Ok(request)
    }

    /// Whether this is one of the CLI's questions on the side: a title, a quota probe, a summary.
    ///
    /// Those carry no tools, or one or two that are none of an agent's.
    pub(super) fn is_aside(&self) -> bool {
        const AGENTS: [&str; 6] = ["Bash", "Read", "Edit", "Write", "Task", "Agent"];
        let tools = self.tools.as_deref().unwrap_or_default();
        let agents =
            |tool: &Tool<'_>| AGENTS.contains(&&*tool.name) || tool.name.starts_with("mcp__");
        tools.len() < 3 && !tools.iter().any(agents)
    }

    /// The newest message of a person or a tool.
    pub(super) fn newest(&self) -> Newest {
        self.messages().rev().find(|it| it.role == "user").map(Message::read).unwrap_or_default()
    }

    /// What a person typed first.
    pub(super) fn first_prompt(&self) -> String {
        let typed = |message: &Message<'_>| Some(message.read().typed).filter(|it| !it.is_empty());
        self.messages().filter(|it| it.role == "user").find_map(typed).unwrap_or_default()
    }

    /// How many bytes of it a model would read: pictures and documents aside.
    pub(super) fn legible(&self, body: &[u8]) -> usize {
        let heavy: usize = self.messages().map(|message| message.content.heavy()).sum();
        body.len().saturating_sub(heavy)
    }

    /// The sequence that ended the message, if it was one.
    pub(super) fn stop_sequence(&self) -> Option<&str> {
        self.stop_sequences.as_ref()?.first().map(String::as_str)
    }

    /// What tells these messages from others, however the request around them differs.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for message in self.messages() {
            message.role.hash(&mut hasher);
            message.content.each_text(&mut |text| text.hash(&mut hasher));
        }
        hasher.finish()
    }

    fn messages(&self) -> std::slice::Iter<'_, Message<'a>> {
        self.messages.as_deref().unwrap_or_default().iter()
    }
}

impl Message<'_> {
    fn read(&self) -> Newest {
        let mut newest = Newest::default();
        match &self.content {
            Content::Text(text) => newest.typed = without_reminders(text).into_owned(),
            Content::Parts(parts) => {
                for part in parts {
                    if part.kind == "tool_result" {
                        let mut result = String::new();
                        if let Some(content) = &part.content {
                            content.each_text(&mut |text| join(&mut result, text));
                        }
                        newest.results.push(result);
                    } else {
                        join(&mut newest.typed, &part.text);
                    }
                }
            }
        }
        newest
    }
}

/// Puts a text on its own line behind another, unless there is nothing in it.
fn join(all: &mut String, text: &str) {
    let text = without_reminders(text);
    if text.trim().is_empty() {
        return;
    }
    if !all.is_empty() {
        all.push('\n');
    }
    all.push_str(&text);
}

impl Content<'_> {
    fn each_text(&self, take: &mut dyn FnMut(&str)) {
        match self {
            Self::Text(text) => take(text),
            Self::Parts(parts) => {
                for part in parts {
                    take(&part.text);
                    take(&part.tool_use_id);
                    if let Some(content) = &part.content {
                        content.each_text(take);
                    }
                }
            }
        }
    }

    fn heavy(&self) -> usize {
        let Self::Parts(parts) = self else { return 0 };
        let of_part = |part: &Part<'_>| {
            let data = part.source.as_ref().map_or(0, |source| source.data.len());
            data + part.content.as_ref().map_or(0, Content::heavy)
        };
        parts.iter().map(of_part).sum()
    }
}

impl Newest {
    /// Whether it holds these words.
    pub(super) fn holds(&self, words: &str) -> bool {
        self.typed.contains(words) || self.results.iter().any(|result| result.contains(words))
    }
}

/// Takes out what stands between `<system-reminder>` and its end.
fn without_reminders(text: &str) -> Cow<'_, str> {
    const BEGIN: &str = "<system-reminder>";
    const END: &str = "</system-reminder>";
    if !text.contains(BEGIN) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find(BEGIN) {
        kept.push_str(&rest[..begin]);
        rest = rest[begin..].find(END).map_or("", |end| &rest[begin + end + END.len()..]);
    }
    kept.push_str(rest);
    Cow::Owned(kept.trim().to_owned())
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Content<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of content blocks")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Content::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = items.next_element()? {
                    parts.push(part);
                }
                Ok(Content::Parts(parts))
            }

            // The result of a server's tool is an object; nothing is decided on it.
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<de::IgnoredAny, de::IgnoredAny>()?.is_some() {}
                Ok(Content::Parts(Vec::new()))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Newest, Request};

    fn body(messages: &Value) -> Vec<u8> {
        json!({"model": "m", "max_tokens": 1, "messages": messages}).to_string().into_bytes()
    }

    #[test]
    fn the_newest_message_is_read_without_reminders() {
        let reminder = "<system-reminder>be\nbrief</system-reminder>";
        let part = |text: &str| json!({"type": "text", "text": text});
        let result = json!({"type": "tool_result", "tool_use_id": "t", "content": [part("seen"), part(reminder)]});
        let bare = json!({"type": "tool_result", "tool_use_id": "t", "content": "plain"});
        let cases: [(Value, &str, &[&str]); 6] = [
            (json!("hi \"you\""), "hi \"you\"", &[]),
            (json!(format!("{reminder}hi{reminder}")), "hi", &[]),
            (json!([part(reminder), part("one"), part("two")]), "one\ntwo", &[]),
            (json!("cut <system-reminder> short"), "cut", &[]),
            (json!([result, bare]), "", &["seen", "plain"]),
            (json!([result, part("and now?")]), "and now?", &["seen"]),
        ];
        for (content, typed, results) in cases {
            let first = json!({"role": "user", "content": "first"});
            let answer = json!({"role": "assistant", "content": [part("ok")]});
            let note = json!({"role": "system", "content": "a note"});
            let body = body(&json!([first, answer, {"role": "user", "content": content}, note]));
            let request = Request::read(&body).unwrap();
            let results = results.iter().map(ToString::to_string).collect();
            assert_eq!(request.newest(), Newest { typed: typed.to_owned(), results });
            assert_eq!(request.first_prompt(), "first");
        }
    }

    #[test]
    fn what_the_cli_asks_for_itself_is_told_from_the_conversation() {
        let cases: [(&[&str], bool); 7] = [
            (&[], true),
            (&["classify_result"], true),
            (&["Bash"], false),
            (&["mcp__lab__add"], false),
            (&["WebSearch", "WebFetch"], true),
            (&["A", "B", "C"], false),
            (&["Task", "X"], false),
        ];
        for (names, aside) in cases {
            let tools: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            let message = json!({"role": "user", "content": "x"});
            let request =
                json!({"model": "m", "max_tokens": 1, "messages": [message], "tools": tools});
            let body = request.to_string();
            assert_eq!(Request::read(body.as_bytes()).unwrap().is_aside(), aside, "{names:?}");
        }
    }

    #[test]
    fn pictures_do_not_count_as_text_and_do_not_change_what_messages_say() {
        let picture =
            |data: &str| json!({"type": "image", "source": {"type": "base64", "data": data}});
        let with = |data: &str| {
            body(&json!([{"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": [picture(data)]}, picture(data)
            ]}]))
        };
        let (small, large) = (with("A"), with(&"A".repeat(100_000)));
        let (one, other) = (Request::read(&small).unwrap(), Request::read(&large).unwrap());
        assert_eq!(one.legible(&small), other.legible(&large));
        assert_eq!(one.fingerprint(), other.fingerprint());
    }
}
