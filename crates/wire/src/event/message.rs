//! Whole messages: what the model said, what was said to it.

use super::fault::Fault;
use super::{Block, Taken, Top, Usage};
use crate::json::{Cursor, Items, Misfit, Raw, Shape, Text, Trouble};

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
    pub(crate) fn read(cursor: &mut Cursor<'a>, top: &mut Top<'a>) -> Result<Self, Trouble> {
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
                _ => return Ok(Taken::No),
            }
            Ok(Taken::Yes)
        })?;
        // A reply that failed may have no message at all.
        let failed = this.error.is_some() || this.api_error;
        this.message = match message {
            Some(message) => message,
            None if failed || usage.is_some() => Message { usage, ..Message::default() },
            None => return Err(Misfit::missing("message")),
        };
        Ok(this)
    }
}

impl<'a> User<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>, top: &mut Top<'a>) -> Result<Self, Trouble> {
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
                _ => return Ok(Taken::No),
            }
            Ok(Taken::Yes)
        })?;
        this.message = match message {
            Some(message) => message,
            // Some versions leave it at the structured result.
            None if this.tool_use_result.is_some() => Message::default(),
            None => return Err(Misfit::missing("message")),
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
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, Trouble> {
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

    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, Trouble> {
        match cursor.shape()? {
            Shape::String | Shape::Object => Ok(Self::one(Block::read(cursor)?)),
            Shape::Null => cursor.skip().map(|()| Self::default()),
            Shape::Array => Self::read_array(cursor),
            _ => Err(cursor.value()?.misfit("a string or an array of blocks")),
        }
    }

    fn read_array(cursor: &mut Cursor<'a>) -> Result<Self, Trouble> {
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
