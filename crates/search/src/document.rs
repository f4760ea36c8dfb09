//! What is searched of a line: who said it, and the text.

use std::collections::VecDeque;

use jiff::Timestamp;
use journal::Origin;
use wire::json::{Raw, Shape, Text};

/// How much of a text is searched: its beginning and its end.
const HEAD_BYTES: usize = 48 << 10;
const TAIL_BYTES: usize = 16 << 10;

/// A longer run of letters and digits without any space is data and no text.
const MAX_RUN_BYTES: usize = 400;

/// How many levels of a tool's input are looked at.
const MAX_LEVELS: usize = 16;

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SearchRole {
    User,
    Assistant,
    /// What a tool was called with, or what it returned.
    Tool,
}

/// What is searched of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineContent {
    /// When it was written, in milliseconds since 1970, if the line says so.
    pub(crate) at: Option<u64>,
    /// At most one for each role.
    pub(crate) texts: Vec<(SearchRole, String)>,
}

impl SearchRole {
    pub const ALL: [Self; 3] = [Self::User, Self::Assistant, Self::Tool];

    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl LineContent {
    /// Reads a line of the agent, or of a session file of the CLI. Prompts are read from what the agent
    /// repeats, because that is where a conversation shows them. Agents of the Agent Client Protocol do
    /// not repeat them, so there they are read from what was sent.
    pub(crate) fn read(origin: Origin, bytes: &[u8]) -> Self {
        let mut this = Self::default();
        if origin == Origin::Towpath {
            return this;
        }
        let Some(line) = std::str::from_utf8(bytes).ok().and_then(Raw::parse) else { return this };
        if line.get("jsonrpc").is_some() {
            this.read_acp(origin, line);
            this.finish();
            return this;
        }
        let mut kind = None;
        let mut message = None;
        let mut timestamp = None;
        let (mut hidden, mut summary, mut of_sub_agent) = (false, false, false);
        let is_true = |value: Raw<'_>| value.boolean() == Some(true);
        for (key, value) in line.fields() {
            match &*key.decode() {
                "type" => kind = value.text(),
                "message" => message = Some(value),
                "timestamp" => timestamp = value.text(),
                "isMeta" | "isSidechain" | "isSynthetic" => hidden |= is_true(value),
                "isCompactSummary" => summary = is_true(value),
                "parent_tool_use_id" => of_sub_agent = value.shape() == Shape::String,
                _ => {}
            }
        }
        let (Some(kind), Some(message)) = (kind, message) else { return this };
        let is = |name: &str| kind == *name;
        if hidden || !(is("user") || is("assistant")) {
            return this;
        }
        this.at = timestamp.and_then(milliseconds);
        let Some(content) = message.get("content") else { return this };
        let speaker = match (is("user"), summary) {
            // The call that started a sub-agent has its prompt.
            (true, _) if of_sub_agent => None,
            (true, false) => Some(SearchRole::User),
            _ => Some(SearchRole::Assistant),
        };
        if let Some(text) = content.text() {
            this.add(speaker, text);
        }
        for block in content.items() {
            this.block(block, speaker);
        }
        this.finish();
        this
    }

    fn finish(&mut self) {
        for (_, text) in &mut self.texts {
            shorten(text);
        }
        self.texts.retain(|(_, text)| !text.trim().is_empty());
    }

    /// A message of the Agent Client Protocol: a prompt that was sent, or what the agent reports.
    fn read_acp(&mut self, origin: Origin, message: Raw<'_>) {
        let (mut method, mut params) = (None, None);
        for (key, value) in message.fields() {
            match &*key.decode() {
                "method" => method = value.text(),
                "params" => params = Some(value),
                _ => {}
            }
        }
        let (Some(method), Some(params)) = (method, params) else { return };
        if origin == Origin::Sent {
            if method == "session/prompt" || method == "_session/steering" {
                params
                    .get("prompt")
                    .into_iter()
                    .for_each(|it| self.add_blocks(it, SearchRole::User));
            }
            return;
        }
        let Some(update) = params.get("update").filter(|_| method == "session/update") else {
            return;
        };
        let text = |key: &str| update.get(key).and_then(Raw::text);
        let Some(kind) = text("sessionUpdate") else { return };
        match &*kind.decode() {
            "agent_message_chunk" | "agent_thought_chunk" | "agent_message" | "agent_thought" => {
                let content = update.get("content");
                if let Some(content) = content {
                    self.add_blocks(content, SearchRole::Assistant);
                }
            }
            "tool_call" | "tool_call_update" => {
                for text in [text("name"), text("title")].into_iter().flatten() {
                    self.add(Some(SearchRole::Tool), text);
                }
                update.get("rawInput").into_iter().for_each(|it| self.add_strings(it));
                for part in update.get("content").into_iter().flat_map(Raw::items) {
                    let inner = part.get("content").unwrap_or(part);
                    self.add_blocks(inner, SearchRole::Tool);
                }
            }
            _ => {}
        }
    }

    /// Adds the texts of a block, or of a list of blocks.
    fn add_blocks(&mut self, content: Raw<'_>, role: SearchRole) {
        let list = content.shape() == Shape::Array;
        let one = Some(content).filter(|_| !list);
        for block in one.into_iter().chain(content.items().filter(|_| list)) {
            let resource = block.get("resource");
            let text = block.get("text").or_else(|| resource?.get("text"));
            text.and_then(Raw::text).into_iter().for_each(|it| self.add(Some(role), it));
        }
    }

    fn block(&mut self, block: Raw<'_>, speaker: Option<SearchRole>) {
        let Some(kind) = block.get("type").and_then(Raw::text) else { return };
        let tool = Some(SearchRole::Tool);
        let text = |key: &str| block.get(key).and_then(Raw::text);
        match &*kind.decode() {
            "text" => text("text").into_iter().for_each(|it| self.add(speaker, it)),
            "thinking" => text("thinking").into_iter().for_each(|it| self.add(speaker, it)),
            "tool_use" | "server_tool_use" => {
                if let Some(name) = text("name") {
                    self.add(tool, name);
                }
                block.get("input").into_iter().for_each(|it| self.add_strings(it));
            }
            "tool_result" => {
                let content = block.get("content");
                content.and_then(Raw::text).into_iter().for_each(|it| self.add(tool, it));
                let items = content.into_iter().flat_map(Raw::items);
                items
                    .filter_map(|it| it.get("text").and_then(Raw::text))
                    .for_each(|it| self.add(tool, it));
            }
            _ => {}
        }
    }

    /// Adds all strings in the input of a tool.
    fn add_strings(&mut self, input: Raw<'_>) {
        let mut values = VecDeque::from([(input, 0)]);
        while let Some((value, level)) = values.pop_front() {
            match value.shape() {
                Shape::String => {
                    value.text().into_iter().for_each(|it| self.add(Some(SearchRole::Tool), it));
                }
                Shape::Object if level < MAX_LEVELS => {
                    values.extend(value.fields().map(|(_, value)| (value, level + 1)));
                }
                Shape::Array if level < MAX_LEVELS => {
                    values.extend(value.items().map(|value| (value, level + 1)));
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, role: Option<SearchRole>, text: Text<'_>) {
        let Some(role) = role.filter(|_| !text.is_empty()) else { return };
        let known = self.texts.iter_mut().position(|(known, _)| *known == role);
        let index = known.unwrap_or_else(|| {
            self.texts.push((role, String::new()));
            self.texts.len() - 1
        });
        let target = &mut self.texts[index].1;
        if !target.is_empty() {
            target.push('\n');
        }
        let text = text.decode();
        match role {
            SearchRole::Tool if text.contains('→') => {
                push_without_data(&without_line_numbers(&text), target);
            }
            _ => push_without_data(&text, target),
        }
    }
}

/// Appends a text without long runs that are encoded data.
fn push_without_data(text: &str, out: &mut String) {
    let is_data = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte);
    let bytes = text.as_bytes();
    let (mut copied, mut start) = (0, 0);
    // Only ASCII is cut out, so every cut is between characters.
    for end in 0..=bytes.len() {
        if end < bytes.len() && is_data(bytes[end]) {
            continue;
        }
        if end - start > MAX_RUN_BYTES {
            out.push_str(&text[copied..start]);
            out.push('…');
            copied = end;
        }
        start = end + 1;
    }
    out.push_str(&text[copied..]);
}

/// A text without the numbers that the CLI puts before the lines of a file. They would be in the index for
/// every file that was read.
fn without_line_numbers(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let numbered = line.trim_start_matches(' ');
        let rest = numbered.trim_start_matches(|it: char| it.is_ascii_digit());
        let is_numbered = rest.len() < numbered.len();
        lines.push_str(rest.strip_prefix('→').filter(|_| is_numbered).unwrap_or(line));
    }
    lines
}

/// Keeps the beginning and the end of a long text.
fn shorten(text: &mut String) {
    if text.len() <= HEAD_BYTES + TAIL_BYTES {
        return;
    }
    let head = text.floor_char_boundary(HEAD_BYTES);
    let tail = text.ceil_char_boundary(text.len() - TAIL_BYTES);
    text.replace_range(head..tail, "\n…\n");
}

fn milliseconds(text: Text<'_>) -> Option<u64> {
    let time: Timestamp = text.decode().parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use journal::Origin;
    use serde_json::{Value, json};

    use super::{LineContent, SearchRole};

    fn read(line: &Value) -> LineContent {
        LineContent::read(Origin::Agent, line.to_string().as_bytes())
    }

    #[test]
    fn messages_calls_and_results_are_searched_and_data_is_not() {
        let said = read(&json!({"type": "assistant", "timestamp": "2026-11-15T09:36:40.026Z",
            "message": {"content": [
                {"type": "thinking", "thinking": "hmm", "signature": "c2lnbmF0dXJl"},
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "name": "Bash", "input": {"command": "ls", "more": [{"a": "b"}]}}]}}));
        assert_eq!(said.at, Some(1_794_735_400_026));
        let texts = [
            (SearchRole::Assistant, "hmm\nI look".to_owned()),
            (SearchRole::Tool, "Bash\nls\nb".to_owned()),
        ];
        assert_eq!(said.texts, texts);
        let result = read(&json!({"type": "user", "message": {"content": [
            {"type": "tool_result", "content": [{"type": "text", "text": "out"},
                {"type": "image", "source": {"data": "QUJD"}}]},
            {"type": "tool_result", "content": "err"}]}}));
        assert_eq!(result.texts, [(SearchRole::Tool, "out\nerr".to_owned())]);
        let file = read(&json!({"type": "user", "message": {"content": [
            {"type": "tool_result", "content": "     1→fn main() {\n    12→    a → 7\n→ 3"}]}}));
        assert_eq!(file.texts[0].1, "fn main() {\n    a → 7\n→ 3");
        let prompt = json!({"type": "user", "message": {"content": "hello"}});
        assert_eq!(read(&prompt).texts, [(SearchRole::User, "hello".to_owned())]);
        for (key, value) in [
            ("isMeta", json!(true)),
            ("isSidechain", json!(true)),
            ("parent_tool_use_id", json!("toolu_1")),
            ("type", json!("system")),
        ] {
            let mut other = prompt.clone();
            other[key] = value;
            assert_eq!(read(&other).texts, [], "{key}");
        }
        let data = format!("before {} after", "QUJD".repeat(1000));
        let data = read(&json!({"type": "user", "message": {"content": data}}));
        assert_eq!(data.texts[0].1, "before … after");
        for damaged in ["", "{", "[]", "{\"type\":\"user\"}", "\u{0}"] {
            assert_eq!(LineContent::read(Origin::Agent, damaged.as_bytes()).texts, []);
        }
    }

    #[test]
    fn messages_of_other_agents_are_searched() {
        let sent = |method: &str| {
            let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params":
                {"prompt": [{"type": "text", "text": "find me"}, {"type": "image", "data": "QUJD"}]}});
            LineContent::read(Origin::Sent, line.to_string().as_bytes()).texts
        };
        assert_eq!(sent("session/prompt"), [(SearchRole::User, "find me".to_owned())]);
        assert_eq!(sent("session/new"), []);
        let update = |update: Value| {
            read(&json!({"jsonrpc": "2.0", "method": "session/update", "params":
                {"sessionId": "s", "update": update}}))
            .texts
        };
        let said = update(json!({"sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "answer"}}));
        assert_eq!(said, [(SearchRole::Assistant, "answer".to_owned())]);
        let call =
            update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "List files",
            "rawInput": {"command": "ls"}, "content": [
                {"type": "content", "content": {"type": "text", "text": "out"}},
                {"type": "diff", "path": "/a", "newText": "b"}]}));
        assert_eq!(call, [(SearchRole::Tool, "List files\nls\nout".to_owned())]);
        assert_eq!(
            update(json!({"sessionUpdate": "user_message_chunk",
            "content": {"type": "text", "text": "repeated"}})),
            []
        );
    }

    #[test]
    fn a_huge_output_is_searched_at_both_ends() {
        let output = format!("first {} last", "é x ".repeat(1 << 20));
        let text = read(&json!({"type": "user", "message": {"content": output}}));
        let text = &text.texts[0].1;
        assert!(text.len() < 70_000 && text.starts_with("first") && text.ends_with("last"));
    }
}
