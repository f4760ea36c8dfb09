//! The parts of a message request that the reply depends on.
//!
//! Parsing does not copy: the CLI sends its whole history with every request, and the reply depends
//! only on the names of the tools and the latest message.

use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use super::event::ApiError;

/// A request for a message or for a token count.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ApiMessageRequest<'a> {
    #[serde(borrow, default)]
    pub(super) model: Cow<'a, str>,
    max_tokens: Option<u64>,
    #[serde(default)]
    pub(super) stream: Option<bool>,
    #[serde(borrow)]
    messages: Option<Vec<ApiInputMessage<'a>>>,
    #[serde(borrow, default)]
    tools: Option<Vec<ApiInputTool<'a>>>,
    #[serde(default)]
    stop_sequences: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct ApiInputMessage<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: ApiInputContent<'a>,
}

#[derive(Debug)]
enum ApiInputContent<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<ApiInputBlock<'a>>),
}

/// A content block with its text and its attachments.
#[derive(Debug, Deserialize)]
struct ApiInputBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_use_id: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<ApiInputContent<'a>>,
    #[serde(borrow)]
    source: Option<ApiInputSource<'a>>,
}

#[derive(Debug, Deserialize)]
struct ApiInputSource<'a> {
    #[serde(borrow, default)]
    data: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
struct ApiInputTool<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

/// The content of a message with the role `user`: text of the user and tool results.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ApiUserMessage {
    /// The text without the reminders that the CLI adds.
    pub(super) text: String,
    pub(super) results: Vec<String>,
    /// How many images it contains.
    pub(super) images: usize,
}

impl<'a> ApiMessageRequest<'a> {
    /// Parses a request for a message.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, ApiError> {
        let request = Self::parse_for_count(body)?;
        if request.max_tokens.is_none() {
            return Err(ApiError::invalid_request("max_tokens: Field required"));
        }
        Ok(request)
    }

    /// Parses a request for a token count, which has fewer required fields.
    pub(super) fn parse_for_count(body: &'a [u8]) -> Result<Self, ApiError> {
        let request: Self = serde_json::from_slice(body).map_err(|error| {
            ApiError::invalid_request(if error.is_data() {
                error.to_string()
            } else {
                format!("The request body is not valid JSON: {error}")
            })
        })?;
        if request.model.is_empty() {
            return Err(ApiError::invalid_request("model: Field required"));
        }
        let Some(messages) = &request.messages else {
            return Err(ApiError::invalid_request("messages: Field required"));
        };
        if messages.is_empty() {
            return Err(ApiError::invalid_request("messages: at least one message is required"));
        }
        for (index, message) in messages.iter().enumerate() {
            // Newer versions of the CLI send reminders as `system` messages.
            if !["user", "assistant", "system"].contains(&&*message.role) {
                let text = format!("messages.{index}.role: Input should be 'user' or 'assistant'");
                return Err(ApiError::invalid_request(text));
            }
        }
        Ok(request)
    }

    /// Refuses a conversation in which a tool call has no result, as the API does.
    pub(super) fn check_tool_results(&self) -> Result<(), ApiError> {
        let spoken = self.messages().enumerate().filter(|(_, it)| it.role != "system");
        let spoken: Vec<(usize, &ApiInputMessage<'_>)> = spoken.collect();
        for (position, (index, message)) in spoken.iter().enumerate() {
            if message.role != "assistant" {
                continue;
            }
            let next = spoken.get(position + 1).map(|(_, next)| next.content.blocks());
            let next = next.unwrap_or_default();
            let calls = message.content.blocks().iter().filter(|it| it.kind == "tool_use");
            let without_result =
                calls.filter(|call| !next.iter().any(|it| it.tool_use_id == call.id));
            let ids: Vec<&str> = without_result.map(|call| &*call.id).collect();
            if !ids.is_empty() {
                return Err(ApiError::invalid_request(format!(
                    "messages.{index}: `tool_use` ids were found without `tool_result` blocks \
                     immediately after: {}. Each `tool_use` block must have a corresponding \
                     `tool_result` block in the next message.",
                    ids.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Whether the CLI makes this request for its own use: a title, a quota check, a summary.
    ///
    /// Such a request has no tools, or one or two that are not tools of an agent. 2.0.77 also fills the cache of
    /// the API for each sub-agent that it may start.
    pub(super) fn is_side_request(&self) -> bool {
        const WARM_UP: &str = "Warmup";
        const AGENT_TOOLS: [&str; 6] = ["Bash", "Read", "Edit", "Write", "Task", "Agent"];
        let tools = self.tools.as_deref().unwrap_or_default();
        let is_agent_tool = |tool: &ApiInputTool<'_>| {
            AGENT_TOOLS.contains(&&*tool.name) || tool.name.starts_with("mcp__")
        };
        let is_warm_up = self.messages().len() == 1 && self.first_prompt() == WARM_UP;
        is_warm_up || tools.len() < 3 && !tools.iter().any(is_agent_tool)
    }

    /// Whether opencode makes this request for the title of a conversation.
    pub(super) fn is_title_request(&self) -> bool {
        const PROMPT: &str = "Generate a title for this conversation";
        let has_tools = self.tools.as_ref().is_some_and(|tools| !tools.is_empty());
        let mut prompts = self.messages().filter(|it| it.role == "user");
        !has_tools && prompts.next().is_some_and(|it| it.summarize().text.starts_with(PROMPT))
    }

    /// Whether the request offers a tool with this name.
    pub(super) fn offers(&self, name: &str) -> bool {
        self.tools.iter().flatten().any(|tool| tool.name == name)
    }

    /// The latest message with the role `user`.
    pub(super) fn latest_message(&self) -> ApiUserMessage {
        self.messages()
            .rev()
            .find(|it| it.role == "user")
            .map(ApiInputMessage::summarize)
            .unwrap_or_default()
    }

    /// The first text of the user.
    pub(super) fn first_prompt(&self) -> String {
        let text = |message: &ApiInputMessage<'_>| {
            Some(message.summarize().text).filter(|it| !it.is_empty())
        };
        self.messages().filter(|it| it.role == "user").find_map(text).unwrap_or_default()
    }

    /// The size of the body without images and documents, for the token estimate.
    pub(super) fn text_size(&self, body: &[u8]) -> usize {
        let attachment_size: usize =
            self.messages().map(|message| message.content.attachment_size()).sum();
        body.len().saturating_sub(attachment_size)
    }

    /// The first stop sequence.
    pub(super) fn stop_sequence(&self) -> Option<&str> {
        self.stop_sequences.as_ref()?.first().map(String::as_str)
    }

    /// A hash of the messages, which does not depend on the other fields of the request.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for message in self.messages() {
            message.role.hash(&mut hasher);
            message.content.each_text(&mut |text| text.hash(&mut hasher));
        }
        hasher.finish()
    }

    fn messages(&self) -> std::slice::Iter<'_, ApiInputMessage<'a>> {
        self.messages.as_deref().unwrap_or_default().iter()
    }
}

impl ApiInputMessage<'_> {
    fn summarize(&self) -> ApiUserMessage {
        let mut latest = ApiUserMessage::default();
        match &self.content {
            ApiInputContent::Text(text) => latest.text = without_reminders(text).into_owned(),
            ApiInputContent::Blocks(blocks) => {
                for block in blocks {
                    if block.kind == "tool_result" {
                        let mut result = String::new();
                        if let Some(content) = &block.content {
                            content.each_text(&mut |text| append_line(&mut result, text));
                        }
                        latest.results.push(result);
                    } else if block.kind == "image" {
                        latest.images += 1;
                    } else {
                        append_line(&mut latest.text, &block.text);
                    }
                }
            }
        }
        latest
    }
}

/// Appends a text as a new line, unless it is blank.
fn append_line(all: &mut String, text: &str) {
    let text = without_reminders(text);
    if text.trim().is_empty() {
        return;
    }
    if !all.is_empty() {
        all.push('\n');
    }
    all.push_str(&text);
}

impl ApiInputContent<'_> {
    fn each_text(&self, visit: &mut dyn FnMut(&str)) {
        match self {
            Self::Text(text) => visit(text),
            Self::Blocks(blocks) => {
                for block in blocks {
                    visit(&block.text);
                    visit(&block.tool_use_id);
                    if let Some(content) = &block.content {
                        content.each_text(visit);
                    }
                }
            }
        }
    }

    fn blocks(&self) -> &[ApiInputBlock<'_>] {
        match self {
            Self::Text(_) => &[],
            Self::Blocks(blocks) => blocks,
        }
    }

    fn attachment_size(&self) -> usize {
        let Self::Blocks(blocks) = self else { return 0 };
        let of_block = |block: &ApiInputBlock<'_>| {
            let data = block.source.as_ref().map_or(0, |source| source.data.len());
            data + block.content.as_ref().map_or(0, ApiInputContent::attachment_size)
        };
        blocks.iter().map(of_block).sum()
    }
}

impl ApiUserMessage {
    pub(super) fn contains(&self, text: &str) -> bool {
        self.text.contains(text) || self.results.iter().any(|result| result.contains(text))
    }
}

/// Removes what agents add to a prompt, with its tags: reminders of Claude Code and the time of Copilot.
fn without_reminders(text: &str) -> Cow<'_, str> {
    const ADDED: [&str; 3] = ["system-reminder", "current_datetime", "reminder"];
    let mut result = Cow::Borrowed(text);
    for name in ADDED {
        let start = format!("<{name}>");
        if result.contains(&start) {
            result = Cow::Owned(without_tag(&result, &start, &format!("</{name}>")));
        }
    }
    result
}

fn without_tag(text: &str, start: &str, end: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(start) {
        result.push_str(&rest[..at]);
        rest = rest[at..].find(end).map_or("", |length| &rest[at + length + end.len()..]);
    }
    result.push_str(rest);
    result.trim().to_owned()
}

impl<'de: 'a, 'a> Deserialize<'de> for ApiInputContent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ApiInputContentVisitor;

        impl<'de> Visitor<'de> for ApiInputContentVisitor {
            type Value = ApiInputContent<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of content blocks")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(ApiInputContent::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(ApiInputContent::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = items.next_element()? {
                    blocks.push(block);
                }
                Ok(ApiInputContent::Blocks(blocks))
            }

            // The result of a server tool is an object, which no reply depends on.
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<de::IgnoredAny, de::IgnoredAny>()?.is_some() {}
                Ok(ApiInputContent::Blocks(Vec::new()))
            }
        }

        deserializer.deserialize_any(ApiInputContentVisitor)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ApiMessageRequest, ApiUserMessage};

    fn body(messages: &Value) -> Vec<u8> {
        json!({"model": "m", "max_tokens": 1, "messages": messages}).to_string().into_bytes()
    }

    #[test]
    fn the_latest_message_is_parsed_without_reminders() {
        let reminder = "<system-reminder>be\nbrief</system-reminder>";
        let block = |text: &str| json!({"type": "text", "text": text});
        let result = json!({"type": "tool_result", "tool_use_id": "t", "content": [block("seen"), block(reminder)]});
        let bare = json!({"type": "tool_result", "tool_use_id": "t", "content": "plain"});
        let cases: [(Value, &str, &[&str]); 7] = [
            (json!("hi \"you\""), "hi \"you\"", &[]),
            (json!(format!("{reminder}hi{reminder}")), "hi", &[]),
            (json!([block(reminder), block("one"), block("two")]), "one\ntwo", &[]),
            (json!("cut <system-reminder> short"), "cut", &[]),
            (json!("<current_datetime>12:00</current_datetime>\n\nhi"), "hi", &[]),
            (json!([result, bare]), "", &["seen", "plain"]),
            (json!([result, block("and now?")]), "and now?", &["seen"]),
        ];
        for (content, text, results) in cases {
            let first = json!({"role": "user", "content": "first"});
            let answer = json!({"role": "assistant", "content": [block("ok")]});
            let note = json!({"role": "system", "content": "a note"});
            let body = body(&json!([first, answer, {"role": "user", "content": content}, note]));
            let request = ApiMessageRequest::parse(&body).unwrap();
            let results = results.iter().map(ToString::to_string).collect();
            assert_eq!(
                request.latest_message(),
                ApiUserMessage { text: text.to_owned(), results, images: 0 }
            );
            assert_eq!(request.first_prompt(), "first");
        }
    }

    #[test]
    fn side_requests_of_the_cli_are_recognized() {
        let cases: [(&[&str], bool); 7] = [
            (&[], true),
            (&["classify_result"], true),
            (&["Bash"], false),
            (&["mcp__lab__add"], false),
            (&["WebSearch", "WebFetch"], true),
            (&["A", "B", "C"], false),
            (&["Task", "X"], false),
        ];
        for (names, is_side_request) in cases {
            let tools: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            let message = json!({"role": "user", "content": "x"});
            let request =
                json!({"model": "m", "max_tokens": 1, "messages": [message], "tools": tools});
            let body = request.to_string();
            assert_eq!(
                ApiMessageRequest::parse(body.as_bytes()).unwrap().is_side_request(),
                is_side_request,
                "{names:?}"
            );
        }
    }

    #[test]
    fn a_request_that_fills_the_cache_is_a_side_request() {
        let is_side_request = |messages: Value| {
            let tools: Vec<Value> =
                ["Bash", "Read", "Edit"].iter().map(|name| json!({"name": name})).collect();
            let request =
                json!({"model": "m", "max_tokens": 1, "messages": messages, "tools": tools});
            ApiMessageRequest::parse(request.to_string().as_bytes()).unwrap().is_side_request()
        };
        let warm_up = json!({"role": "user", "content": [{"type": "text", "text": "Warmup"}]});
        assert!(is_side_request(json!([warm_up])));
        let prompt = json!({"role": "user", "content": "Warmup the engine"});
        assert!(!is_side_request(json!([prompt])));
        let answer = json!({"role": "assistant", "content": "ok"});
        assert!(!is_side_request(json!([warm_up, answer, warm_up])));
    }

    #[test]
    fn the_title_request_of_opencode_is_recognized() {
        let is_title = |content: &str, tools: Value| {
            let message = json!({"role": "user", "content": content});
            let request =
                json!({"model": "m", "max_tokens": 1, "messages": [message], "tools": tools});
            let body = request.to_string();
            ApiMessageRequest::parse(body.as_bytes()).unwrap().is_title_request()
        };
        let prompt = "Generate a title for this conversation:\n";
        assert!(is_title(prompt, json!(null)) && is_title(prompt, json!([])));
        assert!(!is_title(prompt, json!([{"name": "bash"}])));
        assert!(!is_title("Please generate a title", json!([])));
    }

    #[test]
    fn images_change_neither_the_text_size_nor_the_fingerprint() {
        let image =
            |data: &str| json!({"type": "image", "source": {"type": "base64", "data": data}});
        let with = |data: &str| {
            body(&json!([{"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": [image(data)]}, image(data)
            ]}]))
        };
        let (small, large) = (with("A"), with(&"A".repeat(100_000)));
        let (one, other) =
            (ApiMessageRequest::parse(&small).unwrap(), ApiMessageRequest::parse(&large).unwrap());
        assert_eq!(one.text_size(&small), other.text_size(&large));
        assert_eq!(one.fingerprint(), other.fingerprint());
    }
}
