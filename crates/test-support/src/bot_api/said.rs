//! What a person sends.

use bytes::Bytes;

use super::file::Files;
use super::ids::{MessageId, ThreadId};
use super::image::{self, Size};
use super::message::{Content, Media};
use super::rich::Rich;

/// A message that a person is about to send.
#[derive(Clone, Debug, Default)]
pub struct Said {
    text: String,
    attached: Option<Attached>,
    pub(super) topic: Option<ThreadId>,
    pub(super) answered: Option<Answered>,
    pub(super) quote: Option<String>,
    pub(super) forwarded_from: Option<String>,
    pub(super) album: Option<String>,
}

#[derive(Clone, Debug)]
enum Attached {
    Photo(Bytes),
    Document { name: String, mime: String, bytes: Bytes },
    Voice(Bytes),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Answered {
    Message(MessageId),
    /// The note that opened the topic, which some clients name for every message in it.
    TopicRoot,
}

impl From<&str> for Said {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

impl From<String> for Said {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl Said {
    /// A photo.
    pub fn photo(bytes: impl Into<Bytes>) -> Self {
        Self { attached: Some(Attached::Photo(bytes.into())), ..Self::default() }
    }

    /// A file.
    pub fn document(name: &str, mime: &str, bytes: impl Into<Bytes>) -> Self {
        let (name, mime) = (name.to_owned(), mime.to_owned());
        let document = Attached::Document { name, mime, bytes: bytes.into() };
        Self { attached: Some(document), ..Self::default() }
    }

    /// Something spoken.
    pub fn voice(bytes: impl Into<Bytes>) -> Self {
        Self { attached: Some(Attached::Voice(bytes.into())), ..Self::default() }
    }

    /// With these words below the file.
    #[must_use]
    pub fn caption(self, text: &str) -> Self {
        Self { text: text.to_owned(), ..self }
    }

    /// In a topic.
    #[must_use]
    pub fn in_topic(self, topic: ThreadId) -> Self {
        Self { topic: Some(topic), ..self }
    }

    /// As an answer to a message.
    #[must_use]
    pub fn reply_to(self, message: MessageId) -> Self {
        Self { answered: Some(Answered::Message(message)), ..self }
    }

    /// As an answer to the note that opened the topic, as some clients send everything in it.
    #[must_use]
    pub fn reply_to_topic_root(self) -> Self {
        Self { answered: Some(Answered::TopicRoot), ..self }
    }

    /// Quoting these words of the message it answers.
    #[must_use]
    pub fn quote(self, words: &str) -> Self {
        Self { quote: Some(words.to_owned()), ..self }
    }

    /// As something that somebody of this name wrote.
    #[must_use]
    pub fn forwarded_from(self, name: &str) -> Self {
        Self { forwarded_from: Some(name.to_owned()), ..self }
    }

    /// As one of an album: all that name the same one belong together.
    #[must_use]
    pub fn album(self, name: &str) -> Self {
        Self { album: Some(name.to_owned()), ..self }
    }

    pub(super) fn content(&self, files: &mut Files) -> Content {
        let caption = Rich::plain(&self.text);
        let media = match self.attached.clone() {
            None => return Content::Text(caption),
            Some(Attached::Photo(bytes)) => {
                let size = image::size(&bytes).unwrap_or(Size { width: 1_280, height: 960 });
                Media::photo(files, bytes, size)
            }
            Some(Attached::Document { name, mime, bytes }) => {
                Media::document(files, &name, &mime, bytes)
            }
            Some(Attached::Voice(bytes)) => Media::voice(files, bytes),
        };
        Content::Media { media, caption }
    }
}
