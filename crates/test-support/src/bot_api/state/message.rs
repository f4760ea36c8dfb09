//! A message as the server stores it, with its text or media.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::file::{BotApiFileNumber, BotApiFiles, ImageSize};
use super::keyboard::BotApiMarkup;
use super::{BotApiMessageId, BotApiThreadId, BotApiUserId};
use crate::bot_api::text::{BotApiEntity, BotApiText};

#[derive(Clone, Debug)]
pub(crate) struct BotApiMessage {
    pub(crate) from: BotApiSender,
    pub(crate) thread: Option<BotApiThreadId>,
    pub(crate) content: BotApiContent,
    pub(crate) markup: Option<BotApiMarkup>,
    pub(crate) reply: Option<BotApiReply>,
    pub(crate) forwarded_from: Option<String>,
    pub(crate) album: Option<String>,
    pub(crate) silent: bool,
    pub(crate) at: Duration,
    pub(crate) edited_at: Option<Duration>,
    /// How often the text, the caption or the buttons were edited.
    pub(crate) edit_count: u32,
    pub(crate) deleted: bool,
    /// The bot's reactions.
    pub(crate) reactions: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BotApiSender {
    Bot,
    User(BotApiUserId),
}

#[derive(Clone, Debug)]
pub(crate) enum BotApiContent {
    Text(BotApiText),
    Media {
        media: BotApiMedia,
        caption: BotApiText,
    },
    /// A service message: its field in the JSON, and the value.
    Service(&'static str, Value),
}

#[derive(Clone, Debug)]
pub(crate) struct BotApiMedia {
    pub(crate) kind: BotApiMediaKind,
    pub(crate) file: BotApiFileNumber,
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) length: usize,
    /// The dimensions of a photo.
    pub(crate) dimensions: Option<ImageSize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BotApiMediaKind {
    Photo,
    Document,
    Voice,
}

#[derive(Clone, Debug)]
pub(crate) struct BotApiReply {
    pub(crate) to: BotApiMessageId,
    pub(crate) quote: Option<String>,
}

impl BotApiMessage {
    pub(crate) fn new(
        from: BotApiSender,
        thread: Option<BotApiThreadId>,
        content: BotApiContent,
    ) -> Self {
        Self {
            from,
            thread,
            content,
            markup: None,
            reply: None,
            forwarded_from: None,
            album: None,
            silent: false,
            at: Duration::ZERO,
            edited_at: None,
            edit_count: 0,
            deleted: false,
            reactions: Vec::new(),
        }
    }

    /// The text or caption. A service message has none.
    pub(crate) fn text(&self) -> Option<&BotApiText> {
        match &self.content {
            BotApiContent::Text(text) | BotApiContent::Media { caption: text, .. } => Some(text),
            BotApiContent::Service(..) => None,
        }
    }

    /// Adds the content to the JSON of the message.
    pub(crate) fn add_content_json(&self, message: &mut Value) {
        let (text_field, entities_field, text) = match &self.content {
            BotApiContent::Text(text) => ("text", "entities", text),
            BotApiContent::Media { media, caption } => {
                media.add_json(message);
                ("caption", "caption_entities", caption)
            }
            BotApiContent::Service(field, value) => {
                message[field] = value.clone();
                return;
            }
        };
        if !text.is_empty() {
            message[text_field] = text.text.as_str().into();
        }
        if !text.entities.is_empty() {
            message[entities_field] = text.entities.iter().map(BotApiEntity::json).collect();
        }
    }
}

impl BotApiMedia {
    pub(crate) fn photo(files: &mut BotApiFiles, bytes: Bytes, dimensions: ImageSize) -> Self {
        let length = bytes.len();
        let file = files.add("photos", ".jpg", bytes);
        let (name, mime) = (String::new(), "image/jpeg".to_owned());
        let dimensions = Some(dimensions);
        Self { kind: BotApiMediaKind::Photo, file, name, mime, length, dimensions }
    }

    pub(crate) fn document(files: &mut BotApiFiles, name: &str, mime: &str, bytes: Bytes) -> Self {
        let length = bytes.len();
        let extension = name.rfind('.').map_or("", |at| &name[at..]);
        let file = files.add("documents", extension, bytes);
        let (name, mime) = (name.to_owned(), mime.to_owned());
        Self { kind: BotApiMediaKind::Document, file, name, mime, length, dimensions: None }
    }

    pub(crate) fn voice(files: &mut BotApiFiles, bytes: Bytes) -> Self {
        let length = bytes.len();
        let file = files.add("voice", ".oga", bytes);
        let (name, mime) = (String::new(), "audio/ogg".to_owned());
        Self { kind: BotApiMediaKind::Voice, file, name, mime, length, dimensions: None }
    }

    fn add_json(&self, message: &mut Value) {
        let file = |size: &str| {
            json!({
                "file_id": self.file.id(size),
                "file_unique_id": self.file.unique_id(size),
                "file_size": self.length,
            })
        };
        match self.kind {
            BotApiMediaKind::Photo => {
                let ImageSize { width, height } =
                    self.dimensions.unwrap_or(ImageSize { width: 90, height: 90 });
                // Telegram lists the sizes of a photo in ascending order, the original last.
                let longer = width.max(height).max(1);
                let thumbnail = |side: usize| (side * 90 / longer).max(1);
                let mut sizes = vec![file("s"), file("y")];
                let dimensions = [(thumbnail(width), thumbnail(height)), (width, height)];
                for (photo, (width, height)) in sizes.iter_mut().zip(dimensions) {
                    photo["width"] = width.into();
                    photo["height"] = height.into();
                }
                message["photo"] = sizes.into();
            }
            BotApiMediaKind::Document => {
                let mut document = file("d");
                document["file_name"] = self.name.as_str().into();
                document["mime_type"] = self.mime.as_str().into();
                message["document"] = document;
            }
            BotApiMediaKind::Voice => {
                let mut voice = file("v");
                voice["duration"] = 1.into();
                voice["mime_type"] = self.mime.as_str().into();
                message["voice"] = voice;
            }
        }
    }
}
