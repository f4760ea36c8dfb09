//! Messages of the conversation and their content blocks.

use super::{EnvelopeFields, Fault, FieldOutcome, Usage};
use crate::json::{Cursor, Items, JsonValue, ParseError, Raw, Shape, ShapeError, Text};
use crate::names;

/// Something the model said or did. Claude Code writes one such line per content block, all with
/// the same `message.id`.
#[derive(Clone, Debug)]
pub struct Assistant<'a> {
    /// The message, or the block of it that is complete.
    pub message: Message<'a>,
    /// Why the API refused, where this line stands in for a reply that never came.
    pub error: Option<Fault<'a>>,
    /// Whether the CLI wrote this in place of the API.
    pub api_error: bool,
    /// Cut short by an interrupt.
    pub aborted: bool,
    /// The API's id of the request; with `message.id` it identifies the usage.
    pub request_id: Option<Text<'a>>,
}

/// Something said to the model: a prompt, or the results of its tools.
#[derive(Clone, Debug)]
pub struct User<'a> {
    /// The message.
    pub message: Message<'a>,
    /// The tool's structured result beside the text one: an object, an array or a string.
    pub tool_use_result: Option<Raw<'a>>,
    /// An echo of a prompt written to stdin.
    pub replay: bool,
    /// Written by the CLI, not by a person.
    pub synthetic: bool,
    /// `now`, `next` or `later`, on prompts written to stdin.
    pub priority: Option<Text<'a>>,
}

/// A message in the API's form.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message<'a> {
    /// The API's id; every line about the same message has the same.
    pub id: Option<Text<'a>>,
    /// `user` or `assistant`.
    pub role: Option<Text<'a>>,
    /// The model; `<synthetic>` where the CLI speaks for it.
    pub model: Option<Text<'a>>,
    /// The pieces.
    pub content: Content<'a>,
    /// Why the model stopped, once that is known.
    pub stop_reason: Option<Text<'a>>,
    /// Tokens so far.
    pub usage: Option<Usage>,
}

/// The pieces of a message, whether it was written as a string, an array, one object or not at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Content<'a> {
    /// Kept apart because nearly every message of the stream has exactly one block.
    first: Option<Block<'a>>,
    /// The whole array, where there is more than the first.
    array: Option<Raw<'a>>,
}

impl<'a> Assistant<'a> {
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        let mut message = None;
        let mut usage = None;
        let mut this = Self {
            message: Message::default(),
            error: None,
            api_error: false,
            aborted: false,
            request_id: None,
        };
        top.walk(cursor, |cursor, key| {
            match key {
                "message" => message = Some(Message::read(cursor)?),
                // Wrappers that flatten the message.
                "content" => message = Some(Message::of(Content::read(cursor)?)),
                "usage" => usage = Usage::read(cursor)?,
                "error" => this.error = Fault::read(cursor)?,
                "is_api_error_message" | "isApiErrorMessage" => {
                    this.api_error = cursor.value()?.optional_bool()?.unwrap_or(false);
                }
                "aborted" => this.aborted = cursor.value()?.optional_bool()?.unwrap_or(false),
                "request_id" | "requestId" => this.request_id = cursor.value()?.optional_text()?,
                _ => return Ok(FieldOutcome::No),
            }
            Ok(FieldOutcome::Yes)
        })?;
        // A reply that failed may have no message at all.
        let failed = this.error.is_some() || this.api_error;
        this.message = match message {
            Some(message) => message,
            None if failed || usage.is_some() => Message { usage, ..Message::default() },
            None => return Err(ShapeError::missing("message")),
        };
        Ok(this)
    }
}

impl<'a> User<'a> {
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        let mut message = None;
        let mut this = Self {
            message: Message::default(),
            tool_use_result: None,
            replay: false,
            synthetic: false,
            priority: None,
        };
        top.walk(cursor, |cursor, key| {
            let mut flag = || Ok(cursor.value()?.optional_bool()?.unwrap_or(false));
            match key {
                "message" => message = Some(Message::read(cursor)?),
                "content" => message = Some(Message::of(Content::read(cursor)?)),
                "tool_use_result" | "toolUseResult" => {
                    this.tool_use_result = cursor.value()?.optional_raw();
                }
                "isReplay" => this.replay = flag()?,
                // The last two are what session files call it.
                "isSynthetic" | "isMeta" | "isCompactSummary" => this.synthetic |= flag()?,
                "priority" => this.priority = cursor.value()?.optional_text()?,
                _ => return Ok(FieldOutcome::No),
            }
            Ok(FieldOutcome::Yes)
        })?;
        this.message = match message {
            Some(message) => message,
            // Some versions leave it at the structured result.
            None if this.tool_use_result.is_some() => Message::default(),
            None => return Err(ShapeError::missing("message")),
        };
        Ok(this)
    }

    /// Whether it carries what tools gave back rather than somebody's words.
    pub fn is_tool_result(&self) -> bool {
        self.message.content.blocks().any(|block| matches!(block, Block::ToolResult(_)))
    }
}

impl<'a> Message<'a> {
    fn of(content: Content<'a>) -> Self {
        Self { content, ..Self::default() }
    }

    /// Reads a message; a bare string is its text.
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        if cursor.shape()? == Shape::String {
            return Ok(Self::of(Content::read(cursor)?));
        }
        let mut this = Self::default();
        cursor.fields(|cursor, key| {
            match key {
                "id" => this.id = cursor.value()?.optional_text()?,
                "role" => this.role = cursor.value()?.optional_text()?,
                "model" => this.model = cursor.value()?.optional_text()?,
                "content" => this.content = Content::read(cursor)?,
                "stop_reason" => this.stop_reason = cursor.value()?.optional_text()?,
                "usage" => this.usage = Usage::read(cursor)?,
                _ => cursor.skip()?,
            }
            Ok(())
        })?;
        Ok(this)
    }
}

impl<'a> Content<'a> {
    /// Content of a single block.
    pub(crate) fn one(block: Block<'a>) -> Self {
        Self { first: Some(block), array: None }
    }

    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        match cursor.shape()? {
            Shape::String | Shape::Object => Ok(Self::one(Block::read(cursor)?)),
            Shape::Null => cursor.skip().map(|()| Self::default()),
            Shape::Array => Self::read_array(cursor),
            _ => Err(cursor.value()?.misfit("a string or an array of blocks")),
        }
    }

    fn read_array(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        let mut content = Self::default();
        let mut count = 0;
        let start = cursor.clone();
        cursor.items(|cursor, index| {
            let block = Block::read(cursor)?;
            count = index + 1;
            if index == 0 {
                content.first = Some(block);
            }
            Ok(())
        })?;
        if count > 1 {
            content.array = Some(start.raw_up_to(cursor));
        }
        Ok(content)
    }

    /// The blocks in their order.
    pub fn blocks(&self) -> Blocks<'a> {
        let mut more = self.array.map(Raw::items);
        if let Some(more) = &mut more {
            more.next();
        }
        Blocks { first: self.first, more }
    }
}

/// The blocks of a message.
#[derive(Clone)]
pub struct Blocks<'a> {
    first: Option<Block<'a>>,
    more: Option<Items<'a>>,
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        // Blocks behind the first were read once before, so reading them again cannot fail.
        self.first.take().or_else(|| {
            let raw = self.more.as_mut()?.next()?;
            Block::read(&mut Cursor::new(raw.as_str())).ok()
        })
    }
}

/// A piece of a message.
#[derive(Clone, Copy, Debug)]
pub enum Block<'a> {
    /// Words.
    Text(Text<'a>),
    /// The model's thoughts; empty where they are withheld.
    Thinking(Text<'a>),
    /// A tool is called.
    ToolUse(ToolUse<'a>),
    /// What came of a call.
    ToolResult(ToolResult<'a>),
    /// A picture or a document; `source` says where its bytes are.
    Media {
        /// `image` or `document`.
        name: Text<'a>,
        /// The `source` object.
        source: Option<Raw<'a>>,
    },
    /// A known sort of block that nothing here decides on.
    Other(Text<'a>),
    /// A sort of block this crate has not met.
    Unknown(Text<'a>),
}

/// A call of a tool.
#[derive(Clone, Copy, Debug)]
pub struct ToolUse<'a> {
    /// What its result will name.
    pub id: Option<Text<'a>>,
    /// The tool.
    pub name: Text<'a>,
    /// What the tool is given; usually an object.
    pub input: Option<Raw<'a>>,
}

/// What came of a call.
#[derive(Clone, Copy, Debug)]
pub struct ToolResult<'a> {
    /// The call it answers.
    pub tool_use_id: Option<Text<'a>>,
    /// A string, an array of blocks, or an object.
    pub content: Option<Raw<'a>>,
    /// Absent on most successes.
    pub is_error: Option<bool>,
}

impl ToolResult<'_> {
    /// Whether the tool says it failed.
    pub fn failed(&self) -> bool {
        self.is_error == Some(true)
    }
}

/// All fields a block may have; which of them count, its `type` says, and that may come last.
#[derive(Default)]
struct BlockParts<'a> {
    kind: Option<JsonValue<'a>>,
    text: Option<JsonValue<'a>>,
    thinking: Option<JsonValue<'a>>,
    id: Option<JsonValue<'a>>,
    name: Option<JsonValue<'a>>,
    input: Option<JsonValue<'a>>,
    tool_use_id: Option<JsonValue<'a>>,
    content: Option<JsonValue<'a>>,
    is_error: Option<JsonValue<'a>>,
    source: Option<JsonValue<'a>>,
}

impl<'a> Block<'a> {
    /// Reads a block; a bare string is a text block.
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        if cursor.shape()? == Shape::String {
            return Ok(Self::Text(cursor.value()?.text()?));
        }
        let mut parts = BlockParts::default();
        cursor.fields(|cursor, key| {
            let part = match key {
                "type" => &mut parts.kind,
                "text" => &mut parts.text,
                "thinking" => &mut parts.thinking,
                "id" => &mut parts.id,
                "name" => &mut parts.name,
                "input" => &mut parts.input,
                "tool_use_id" => &mut parts.tool_use_id,
                "content" => &mut parts.content,
                "is_error" => &mut parts.is_error,
                "source" => &mut parts.source,
                _ => return cursor.skip(),
            };
            *part = Some(cursor.value()?);
            Ok(())
        })?;
        parts.assemble()
    }

    /// The name of a block that this crate has not met.
    pub fn unmodelled(self) -> Option<Text<'a>> {
        match self {
            Self::Unknown(name) => Some(name),
            _ => None,
        }
    }
}

impl<'a> BlockParts<'a> {
    fn assemble(self) -> Result<Block<'a>, ParseError> {
        let kind = text("type", self.kind)?;
        let name: &str = &kind.decode();
        Ok(match name {
            "text" => Block::Text(text_or_empty("text", self.text)?),
            "thinking" => Block::Thinking(text_or_empty("thinking", self.thinking)?),
            "tool_use" | "server_tool_use" | "mcp_tool_use" => Block::ToolUse(ToolUse {
                id: optional_text("id", self.id)?,
                name: text("name", self.name)?,
                input: self.input.and_then(JsonValue::optional_raw),
            }),
            _ if is_tool_result(name) => Block::ToolResult(ToolResult {
                tool_use_id: optional_text("tool_use_id", self.tool_use_id)?,
                content: self.content.and_then(JsonValue::optional_raw),
                is_error: match self.is_error {
                    Some(value) => value.optional_bool().map_err(|it| it.under("is_error"))?,
                    None => None,
                },
            }),
            "image" | "document" => {
                Block::Media { name: kind, source: self.source.and_then(JsonValue::optional_raw) }
            }
            _ if names::BLOCKS.contains(&name) => Block::Other(kind),
            _ => Block::Unknown(kind),
        })
    }
}

/// A tool's result, also of the tools that the API runs itself.
fn is_tool_result(name: &str) -> bool {
    name == "tool_result" || (name.ends_with("_tool_result") && names::BLOCKS.contains(&name))
}

fn text<'a>(key: &str, value: Option<JsonValue<'a>>) -> Result<Text<'a>, ParseError> {
    value.ok_or_else(|| ShapeError::missing(key))?.text().map_err(|trouble| trouble.under(key))
}

fn optional_text<'a>(
    key: &str,
    value: Option<JsonValue<'a>>,
) -> Result<Option<Text<'a>>, ParseError> {
    let Some(value) = value else { return Ok(None) };
    value.optional_text().map_err(|trouble| trouble.under(key))
}

fn text_or_empty<'a>(key: &str, value: Option<JsonValue<'a>>) -> Result<Text<'a>, ParseError> {
    Ok(optional_text(key, value)?.unwrap_or(Text::EMPTY))
}
