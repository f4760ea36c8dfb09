//! Messages of the conversation and their content blocks.

use super::{EnvelopeFields, Fault, FieldOutcome, Usage};
use crate::json::{Cursor, Items, JsonValue, ParseError, Raw, Shape, ShapeError, Text};
use crate::names;

/// A message of the model. Claude Code writes one such line per content block, all with the same
/// `message.id`.
#[derive(Clone, Debug)]
pub struct Assistant<'a> {
    /// The whole message, or one complete block of it.
    pub message: Message<'a>,
    /// The API error, if the CLI wrote this line in place of a reply.
    pub error: Option<Fault<'a>>,
    /// Whether the CLI wrote this line in place of a reply from the API.
    pub api_error: bool,
    /// Whether an interrupt truncated the message.
    pub aborted: bool,
    /// The API's id of the request; together with `message.id` it identifies the usage.
    pub request_id: Option<Text<'a>>,
}

/// A message to the model: a prompt, or the results of its tools.
#[derive(Clone, Debug)]
pub struct User<'a> {
    pub message: Message<'a>,
    /// The tool's structured result, in addition to its text: an object, an array or a string.
    pub tool_use_result: Option<Raw<'a>>,
    /// Whether it echoes a prompt that was written to stdin.
    pub replay: bool,
    /// Whether the CLI wrote it, not the user.
    pub synthetic: bool,
    /// `now`, `next` or `later`, on prompts written to stdin.
    pub priority: Option<Text<'a>>,
}

/// A message in the API's form.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message<'a> {
    /// The API's id, the same on all lines of one message.
    pub id: Option<Text<'a>>,
    /// `user` or `assistant`.
    pub role: Option<Text<'a>>,
    /// `<synthetic>` if the CLI wrote the message in place of the model.
    pub model: Option<Text<'a>>,
    pub content: Content<'a>,
    /// Why the model stopped; absent while the message is streaming.
    pub stop_reason: Option<Text<'a>>,
    /// Token counts so far.
    pub usage: Option<Usage>,
}

/// The blocks of a message, which may be written as a string, an array, one object or not at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Content<'a> {
    /// Stored separately because nearly every message of the stream has exactly one block.
    first: Option<Block<'a>>,
    /// The whole array, if it has more than one block.
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
        // A failed reply may have no message at all.
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
                // The last two are the names in session files.
                "isSynthetic" | "isMeta" | "isCompactSummary" => this.synthetic |= flag()?,
                "priority" => this.priority = cursor.value()?.optional_text()?,
                _ => return Ok(FieldOutcome::No),
            }
            Ok(FieldOutcome::Yes)
        })?;
        this.message = match message {
            Some(message) => message,
            // Some versions write only the structured result.
            None if this.tool_use_result.is_some() => Message::default(),
            None => return Err(ShapeError::missing("message")),
        };
        Ok(this)
    }

    /// Whether it contains tool results rather than a prompt.
    pub fn is_tool_result(&self) -> bool {
        self.message.content.blocks().any(|block| matches!(block, Block::ToolResult(_)))
    }
}

impl<'a> Message<'a> {
    fn of(content: Content<'a>) -> Self {
        Self { content, ..Self::default() }
    }

    /// Reads a message; a bare string is a message with one text block.
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
    pub(crate) fn one(block: Block<'a>) -> Self {
        Self { first: Some(block), array: None }
    }

    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        match cursor.shape()? {
            Shape::String | Shape::Object => Ok(Self::one(Block::read(cursor)?)),
            Shape::Null => cursor.skip().map(|()| Self::default()),
            Shape::Array => Self::read_array(cursor),
            _ => Err(cursor.value()?.shape_error("a string or an array of blocks")),
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

    /// The blocks in order.
    pub fn blocks(&self) -> Blocks<'a> {
        let mut more = self.array.map(Raw::items);
        if let Some(more) = &mut more {
            more.next();
        }
        Blocks { first: self.first, more }
    }
}

#[derive(Clone)]
pub struct Blocks<'a> {
    first: Option<Block<'a>>,
    more: Option<Items<'a>>,
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        // These blocks were validated when the message was read, so reading them again cannot fail.
        self.first.take().or_else(|| {
            let raw = self.more.as_mut()?.next()?;
            Block::read(&mut Cursor::new(raw.as_str())).ok()
        })
    }
}

/// A content block of a message.
#[derive(Clone, Copy, Debug)]
pub enum Block<'a> {
    Text(Text<'a>),
    /// Empty if the API withholds the thinking.
    Thinking(Text<'a>),
    ToolUse(ToolUse<'a>),
    ToolResult(ToolResult<'a>),
    /// An image or a document; `source` contains or locates its bytes.
    Media {
        /// `image` or `document`.
        name: Text<'a>,
        source: Option<Raw<'a>>,
    },
    /// A known block type that Towpath does not interpret.
    Other(Text<'a>),
    /// A block type that this crate does not know.
    Unknown(Text<'a>),
}

/// A call of a tool.
#[derive(Clone, Copy, Debug)]
pub struct ToolUse<'a> {
    /// The result refers to this id.
    pub id: Option<Text<'a>>,
    pub name: Text<'a>,
    /// Usually an object.
    pub input: Option<Raw<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub struct ToolResult<'a> {
    /// The call it belongs to.
    pub tool_use_id: Option<Text<'a>>,
    /// A string, an array of blocks, or an object.
    pub content: Option<Raw<'a>>,
    /// Absent on most successes.
    pub is_error: Option<bool>,
}

impl ToolResult<'_> {
    /// Whether the tool reported an error.
    pub fn failed(&self) -> bool {
        self.is_error == Some(true)
    }
}

/// All fields a block may have. The `type` decides which of them are used, and it may come last.
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

    /// The type name of the block if this crate does not know it.
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

/// Whether the block is a tool result, including those of tools that the API runs itself.
fn is_tool_result(name: &str) -> bool {
    name == "tool_result" || (name.ends_with("_tool_result") && names::BLOCKS.contains(&name))
}

fn text<'a>(key: &str, value: Option<JsonValue<'a>>) -> Result<Text<'a>, ParseError> {
    value.ok_or_else(|| ShapeError::missing(key))?.text().map_err(|error| error.under(key))
}

fn optional_text<'a>(
    key: &str,
    value: Option<JsonValue<'a>>,
) -> Result<Option<Text<'a>>, ParseError> {
    let Some(value) = value else { return Ok(None) };
    value.optional_text().map_err(|error| error.under(key))
}

fn text_or_empty<'a>(key: &str, value: Option<JsonValue<'a>>) -> Result<Text<'a>, ParseError> {
    Ok(optional_text(key, value)?.unwrap_or(Text::EMPTY))
}
