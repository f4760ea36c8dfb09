//! Prompts.

use serde::Serialize;
use thiserror::Error;
use uuid::Uuid;

use super::{Image, Saying};

/// Something a person says to the agent.
///
/// The id is made by whoever sends it. The CLI repeats it when it takes the prompt up, and from
/// 2.1.37 on runs a repeated one only once, so a prompt may be sent again without fear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    id: Uuid,
    text: String,
    images: Vec<Image>,
    priority: Option<Priority>,
}

/// When a prompt that arrives during a turn takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// The running tool finishes, then the turn ends and this one begins.
    Now,
    /// Between two steps of the running turn: the CLI's default.
    Next,
    /// In a turn of its own, after the running one.
    Later,
}

/// A prompt needs a word or a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a prompt needs some text or an image")]
pub struct EmptyPrompt;

impl Prompt {
    /// A prompt of words.
    pub fn text(id: Uuid, text: impl Into<String>) -> Result<Self, EmptyPrompt> {
        Self::with_images(id, text, Vec::new())
    }

    /// A prompt of words and pictures; the words may be missing.
    pub fn with_images(
        id: Uuid,
        text: impl Into<String>,
        images: Vec<Image>,
    ) -> Result<Self, EmptyPrompt> {
        let text = text.into();
        if text.trim().is_empty() && images.is_empty() {
            return Err(EmptyPrompt);
        }
        Ok(Self { id, text, images, priority: None })
    }

    /// Says when it takes effect if a turn is running.
    #[must_use]
    pub fn priority(self, priority: Priority) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// Its id.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// The line that says it.
    pub fn to_saying(&self) -> Saying {
        let text = (!self.text.trim().is_empty()).then_some(self.text.as_str());
        let content = if self.images.is_empty() {
            Content::Text(&self.text)
        } else {
            let images = self.images.iter().map(|image| Part::Image { source: image });
            Content::Parts(text.map(|text| Part::Text { text }).into_iter().chain(images).collect())
        };
        Saying::of(&Line {
            kind: "user",
            message: Message { role: "user", content },
            uuid: self.id,
            parent_tool_use_id: None,
            priority: self.priority,
        })
    }
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: Message<'a>,
    uuid: Uuid,
    /// The SDKs always write it, as `null`.
    parent_tool_use_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Content<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Part<'a> {
    Text { text: &'a str },
    Image { source: &'a Image },
}
