//! A message, as the server keeps it.

use std::time::Duration;

use serde_json::{Value, json};

use super::file::{FileNumber, Files};
use super::ids::{MessageId, ThreadId, UserId};
use super::image::Size;
use super::markup::Markup;
use super::rich::Rich;

/// A message in a chat.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) from: Sender,
    pub(super) thread: Option<ThreadId>,
    pub(super) content: Content,
    pub(super) markup: Option<Markup>,
    pub(super) reply: Option<Reply>,
    pub(super) forwarded_from: Option<String>,
    pub(super) album: Option<String>,
    pub(super) silent: bool,
    pub(super) at: Duration,
    pub(super) edited: Option<Duration>,
    /// How often its text, caption or buttons were changed.
    pub(super) edits: u32,
    pub(super) deleted: bool,
    /// The bot's reactions.
    pub(super) reactions: Vec<String>,
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    Bot,
    User(UserId),
}

/// What a message holds.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Text(Rich),
    Media {
        media: Media,
        caption: Rich,
    },
    /// A note of the chat itself, under its name.
    Note(&'static str, Value),
}

/// A file in a message.
#[derive(Clone, Debug)]
pub(super) struct Media {
    pub(super) kind: MediaKind,
    pub(super) file: FileNumber,
    pub(super) name: String,
    pub(super) mime: String,
    pub(super) length: usize,
    pub(super) size: Option<Size>,
}

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// A picture, shown as one.
    Photo,
    /// Any file.
    Document,
    /// Something spoken.
    Voice,
}

/// What a message answers.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) to: MessageId,
    pub(super) quote: Option<String>,
}

impl Message {
    pub(super) fn new(from: Sender, thread: Option<ThreadId>, content: Content) -> Self {
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
            edited: None,
            edits: 0,
            deleted: false,
            reactions: Vec::new(),
        }
    }

    /// The text or caption; none for a note.
    pub(super) fn rich(&self) -> Option<&Rich> {
        match &self.content {
            Content::Text(rich) | Content::Media { caption: rich, .. } => Some(rich),
            Content::Note(..) => None,
        }
    }

    /// Adds what the message holds to its JSON.
    pub(super) fn describe(&self, message: &mut Value) {
        let (text, entities, rich) = match &self.content {
            Content::Text(rich) => ("text", "entities", rich),
            Content::Media { media, caption } => {
                media.describe(message);
                ("caption", "caption_entities", caption)
            }
            Content::Note(name, value) => {
                message[name] = value.clone();
                return;
            }
        };
        if !rich.is_empty() {
            message[text] = rich.text.as_str().into();
        }
        if !rich.entities.is_empty() {
            message[entities] = rich.entities.iter().map(super::entity::Entity::json).collect();
        }
    }
}

impl Media {
    pub(super) fn photo(files: &mut Files, bytes: bytes::Bytes, size: Size) -> Self {
        let length = bytes.len();
        let file = files.add("photos", ".jpg", bytes);
        let (name, mime) = (String::new(), "image/jpeg".to_owned());
        Self { kind: MediaKind::Photo, file, name, mime, length, size: Some(size) }
    }

    pub(super) fn document(files: &mut Files, name: &str, mime: &str, bytes: bytes::Bytes) -> Self {
        let length = bytes.len();
        let extension = name.rfind('.').map_or("", |at| &name[at..]);
        let file = files.add("documents", extension, bytes);
        let (name, mime) = (name.to_owned(), mime.to_owned());
        Self { kind: MediaKind::Document, file, name, mime, length, size: None }
    }

    pub(super) fn voice(files: &mut Files, bytes: bytes::Bytes) -> Self {
        let length = bytes.len();
        let file = files.add("voice", ".oga", bytes);
        let (name, mime) = (String::new(), "audio/ogg".to_owned());
        Self { kind: MediaKind::Voice, file, name, mime, length, size: None }
    }

    fn describe(&self, message: &mut Value) {
        let file = |size: &str| {
            json!({
                "file_id": self.file.id(size),
                "file_unique_id": self.file.unique_id(size),
                "file_size": self.length,
            })
        };
        match self.kind {
            MediaKind::Photo => {
                let Size { width, height } = self.size.unwrap_or(Size { width: 90, height: 90 });
                // The last size is the picture itself.
                let longest = width.max(height).max(1);
                let small = |side: u32| (side * 90 / longest).max(1);
                let mut sizes = vec![file("s"), file("y")];
                for (photo, (w, h)) in
                    sizes.iter_mut().zip([(small(width), small(height)), (width, height)])
                {
                    photo["width"] = w.into();
                    photo["height"] = h.into();
                }
                message["photo"] = sizes.into();
            }
            MediaKind::Document => {
                let mut document = file("d");
                document["file_name"] = self.name.as_str().into();
                document["mime_type"] = self.mime.as_str().into();
                message["document"] = document;
            }
            MediaKind::Voice => {
                let mut voice = file("v");
                voice["duration"] = 1.into();
                voice["mime_type"] = self.mime.as_str().into();
                message["voice"] = voice;
            }
        }
    }
}
