//! Content blocks: the pieces a message is made of.

use crate::json::{Cursor, Misfit, Raw, Shape, Text, Trouble, Value};
use crate::names;

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
struct Parts<'a> {
    kind: Option<Value<'a>>,
    text: Option<Value<'a>>,
    thinking: Option<Value<'a>>,
    id: Option<Value<'a>>,
    name: Option<Value<'a>>,
    input: Option<Value<'a>>,
    tool_use_id: Option<Value<'a>>,
    content: Option<Value<'a>>,
    is_error: Option<Value<'a>>,
    source: Option<Value<'a>>,
}

impl<'a> Block<'a> {
    /// Reads a block; a bare string is a text block.
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, Trouble> {
        if cursor.shape()? == Shape::String {
            return Ok(Self::Text(cursor.value()?.text()?));
        }
        let mut parts = Parts::default();
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

impl<'a> Parts<'a> {
    fn assemble(self) -> Result<Block<'a>, Trouble> {
        let kind = text("type", self.kind)?;
        let name: &str = &kind.decode();
        Ok(match name {
            "text" => Block::Text(text_or_empty("text", self.text)?),
            "thinking" => Block::Thinking(text_or_empty("thinking", self.thinking)?),
            "tool_use" | "server_tool_use" | "mcp_tool_use" => Block::ToolUse(ToolUse {
                id: optional_text("id", self.id)?,
                name: text("name", self.name)?,
                input: self.input.and_then(Value::optional_raw),
            }),
            _ if is_tool_result(name) => Block::ToolResult(ToolResult {
                tool_use_id: optional_text("tool_use_id", self.tool_use_id)?,
                content: self.content.and_then(Value::optional_raw),
                is_error: match self.is_error {
                    Some(value) => value.optional_bool().map_err(|it| it.under("is_error"))?,
                    None => None,
                },
            }),
            "image" | "document" => {
                Block::Media { name: kind, source: self.source.and_then(Value::optional_raw) }
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

fn text<'a>(key: &str, value: Option<Value<'a>>) -> Result<Text<'a>, Trouble> {
    value.ok_or_else(|| Misfit::missing(key))?.text().map_err(|trouble| trouble.under(key))
}

fn optional_text<'a>(key: &str, value: Option<Value<'a>>) -> Result<Option<Text<'a>>, Trouble> {
    let Some(value) = value else { return Ok(None) };
    value.optional_text().map_err(|trouble| trouble.under(key))
}

fn text_or_empty<'a>(key: &str, value: Option<Value<'a>>) -> Result<Text<'a>, Trouble> {
    Ok(optional_text(key, value)?.unwrap_or(Text::EMPTY))
}
