//! What a person sees of a chat.

use bytes::Bytes;

use super::entity::Entity;
use super::file::Files;
use super::ids::{MessageId, ThreadId};
use super::message::{Content, MediaKind, Message, Sender};
use super::render::as_html;

/// A message as a person sees it now.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing a person sees or does not")]
pub struct Seen {
    /// Its number in the chat.
    pub message_id: MessageId,
    /// The topic it is in.
    pub thread: Option<ThreadId>,
    /// Whether the bot wrote it.
    pub from_bot: bool,
    /// The text or caption, without formatting.
    pub text: String,
    /// The same with its formatting, written in one way only.
    pub html: String,
    /// The formatting that stayed.
    pub entities: Vec<Entity>,
    /// How much formatting was dropped, by the rules of nesting or because there was too much.
    pub entities_lost: usize,
    /// The buttons below it, row by row.
    pub markup: Vec<Vec<String>>,
    /// Whether it asked for an answer, which opens the person's keyboard.
    pub force_reply: bool,
    /// The message it answers.
    pub reply_to: Option<MessageId>,
    /// Whether it came without a sound.
    pub silent: bool,
    /// How often it was changed.
    pub edits: u32,
    /// Whether it was taken away.
    pub deleted: bool,
    /// The bot's reactions to it.
    pub reactions: Vec<String>,
    /// The album it is part of.
    pub album: Option<String>,
    /// The file in it.
    pub media: Option<SeenMedia>,
}

/// A file in a message.
#[derive(Clone, Debug)]
pub struct SeenMedia {
    /// What it is shown as.
    pub kind: MediaKind,
    /// Its name; photos and voices have none.
    pub name: String,
    /// What is in it.
    pub bytes: Bytes,
}

/// A draft that is on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The number the bot gave it.
    pub draft_id: i64,
    /// The topic it is in.
    pub thread: Option<ThreadId>,
    /// Its text, without formatting.
    pub text: String,
}

impl Seen {
    pub(super) fn of(id: MessageId, message: &Message, files: &Files) -> Self {
        let rich = message.rich().cloned().unwrap_or_default();
        let rows = message.markup.iter().flat_map(super::markup::Markup::rows);
        let markup = rows.map(|row| row.iter().map(|it| it.text.clone()).collect()).collect();
        let force_reply = matches!(&message.markup,
            Some(super::markup::Markup::Keyboard(it)) if it["force_reply"] == true);
        let media = match &message.content {
            Content::Media { media, .. } => Some(SeenMedia {
                kind: media.kind,
                name: media.name.clone(),
                bytes: files.bytes(media.file),
            }),
            Content::Text(_) | Content::Note(..) => None,
        };
        Self {
            message_id: id,
            thread: message.thread,
            from_bot: message.from == Sender::Bot,
            html: as_html(&rich.text, &rich.entities),
            text: rich.text,
            entities: rich.entities,
            entities_lost: rich.lost,
            markup,
            force_reply,
            reply_to: message.reply.as_ref().map(|it| it.to),
            silent: message.silent,
            edits: message.edits,
            deleted: message.deleted,
            reactions: message.reactions.clone(),
            album: message.album.clone(),
            media,
        }
    }
}
