//! Prompts and their images.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use uuid::Uuid;

use super::OutgoingLine;

/// A message of the user to the agent.
///
/// The sender creates the id. The CLI echoes it when it starts to process the prompt. Since 2.1.37
/// it runs a prompt with the same id only once, so sending a prompt again is safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingPrompt {
    id: Uuid,
    text: String,
    images: Vec<Image>,
    priority: Option<Priority>,
}

/// When a prompt that arrives during a turn takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// The running tool finishes, then the turn ends and a turn with this prompt starts.
    Now,
    /// Between two steps of the running turn. This is the CLI's default.
    Next,
    /// In a separate turn after the running one.
    Later,
}

/// A prompt without text and images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a prompt needs some text or an image")]
pub struct EmptyPrompt;

impl OutgoingPrompt {
    /// A prompt without images.
    pub fn text(id: Uuid, text: impl Into<String>) -> Result<Self, EmptyPrompt> {
        Self::with_images(id, text, Vec::new())
    }

    /// A prompt with images; the text may be empty if there is an image.
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

    /// Sets when the prompt takes effect if a turn is running.
    #[must_use]
    pub fn priority(self, priority: Priority) -> Self {
        Self { priority: Some(priority), ..self }
    }

    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Whether it is to join the turn that runs.
    pub fn steers(&self) -> bool {
        self.priority == Some(Priority::Next)
    }

    pub fn has_images(&self) -> bool {
        !self.images.is_empty()
    }

    pub(super) fn parts(&self) -> (&str, &[Image]) {
        (&self.text, &self.images)
    }

    pub fn to_line(&self) -> OutgoingLine {
        let text = (!self.text.trim().is_empty()).then_some(self.text.as_str());
        let content = if self.images.is_empty() {
            PromptContent::Text(&self.text)
        } else {
            let images = self.images.iter().map(|image| PromptPart::Image { source: image });
            PromptContent::Parts(
                text.map(|text| PromptPart::Text { text }).into_iter().chain(images).collect(),
            )
        };
        OutgoingLine::of(&PromptLine {
            kind: "user",
            message: PromptMessage { role: "user", content },
            uuid: self.id,
            parent_tool_use_id: None,
            priority: self.priority,
        })
    }
}

#[derive(Serialize)]
struct PromptLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: PromptMessage<'a>,
    uuid: Uuid,
    /// The SDKs always write this field, as `null`.
    parent_tool_use_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
}

#[derive(Serialize)]
struct PromptMessage<'a> {
    role: &'static str,
    content: PromptContent<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum PromptContent<'a> {
    Text(&'a str),
    Parts(Vec<PromptPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum PromptPart<'a> {
    Text { text: &'a str },
    Image { source: &'a Image },
}

/// An image of a type that the API accepts. The type is detected from the bytes.
///
/// An image that the API cannot decode breaks the conversation: every later turn sends it again and
/// fails again. So the type that a browser or a chat client declares is checked against the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    media_type: MediaType,
    base64: String,
}

/// The image types that the API accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `image/png`
    Png,
    /// `image/jpeg`
    Jpeg,
    /// `image/gif`
    Gif,
    /// `image/webp`
    Webp,
}

/// Why an image is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImageError {
    /// The bytes have the signature of none of the accepted types.
    #[error("not a PNG, JPEG, GIF or WebP image")]
    Unrecognised,
    /// The bytes are of another type than declared.
    #[error("declared as `{declared}`, but the bytes are `{}`", found.name())]
    Mislabelled { declared: String, found: MediaType },
}

impl MediaType {
    /// The MIME type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// Detects the type from the signature at the start of `bytes`.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Some(match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Self::Png,
            [0xff, 0xd8, 0xff, ..] => Self::Jpeg,
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Self::Gif,
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Self::Webp,
            _ => return None,
        })
    }
}

impl Image {
    /// An image without a declared type.
    pub fn new(bytes: &[u8]) -> Result<Self, ImageError> {
        let media_type = MediaType::of(bytes).ok_or(ImageError::Unrecognised)?;
        Ok(Self { media_type, base64: STANDARD.encode(bytes) })
    }

    /// An image with a declared type, which must match the bytes.
    pub fn declared(bytes: &[u8], media_type: &str) -> Result<Self, ImageError> {
        let image = Self::new(bytes)?;
        // Browsers and chat clients use both spellings.
        let declared = if media_type == "image/jpg" { "image/jpeg" } else { media_type };
        if declared.eq_ignore_ascii_case(image.media_type.name()) {
            Ok(image)
        } else {
            Err(ImageError::Mislabelled { declared: declared.to_owned(), found: image.media_type })
        }
    }

    pub fn media_type(&self) -> MediaType {
        self.media_type
    }

    /// The MIME type, and the bytes in base64.
    pub(super) fn parts(&self) -> (&'static str, &str) {
        (self.media_type.name(), &self.base64)
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({}, {} base64 bytes)", self.media_type.name(), self.base64.len())
    }
}

impl Serialize for Image {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut source = serializer.serialize_struct("source", 3)?;
        source.serialize_field("type", "base64")?;
        source.serialize_field("media_type", self.media_type.name())?;
        source.serialize_field("data", &self.base64)?;
        source.end()
    }
}

/// Reads the serialized form and checks the type again.
impl<'de> Deserialize<'de> for Image {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Source {
            media_type: String,
            data: String,
        }
        let source = Source::deserialize(deserializer)?;
        let bytes = STANDARD.decode(source.data).map_err(serde::de::Error::custom)?;
        Self::declared(&bytes, &source.media_type).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{Image, ImageError, MediaType};

    const GIF: &[u8] = b"GIF89a\x01\x00\x01\x00";

    #[test]
    fn the_type_is_detected_from_the_bytes() {
        for (bytes, media_type) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], MediaType::Png),
            (b"\xff\xd8\xff\xe0", MediaType::Jpeg),
            (GIF, MediaType::Gif),
            (b"RIFF\x10\x00\x00\x00WEBPVP8 ", MediaType::Webp),
        ] {
            assert_eq!(Image::new(bytes).unwrap().media_type(), media_type);
            assert!(Image::declared(bytes, media_type.name()).is_ok());
        }
    }

    #[test]
    fn an_image_round_trips_through_json() {
        let image = Image::new(GIF).unwrap();
        let json = serde_json::to_string(&image).unwrap();
        assert_eq!(serde_json::from_str::<Image>(&json).unwrap(), image);
        let mislabelled = json.replace("image/gif", "image/png");
        assert!(serde_json::from_str::<Image>(&mislabelled).is_err());
    }

    #[test]
    fn unknown_and_mislabelled_images_are_rejected() {
        assert_eq!(Image::new(b"<svg/>"), Err(ImageError::Unrecognised));
        assert_eq!(Image::new(b"RIFF\x10\x00\x00\x00WAVE"), Err(ImageError::Unrecognised));
        let error = Image::declared(GIF, "image/png").unwrap_err();
        assert_eq!(error.to_string(), "declared as `image/png`, but the bytes are `image/gif`");
        assert!(Image::declared(b"\xff\xd8\xff\xe0", "image/jpg").is_ok());
    }
}
