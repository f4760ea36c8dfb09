//! Files that come with a message.

use crate::deed::{Attachment, Left};
use crate::front::Rules;
use crate::update::{File, Message, PhotoSize};

/// Bytes of a picture the model can be shown; what the API takes is 5 MB in base64. A larger one is
/// a file that the agent can open.
const PICTURE: u64 = 3_750_000;

/// The file of a message, if it has one: never more than one, albums are several messages.
pub(super) fn of(message: &Message, rules: &Rules) -> Option<Result<Attachment, Left>> {
    let attachment = found(message)?;
    Some(match attachment.size {
        Some(size) if size > rules.download => {
            Err(Left::TooLarge { name: attachment.name, size, most: rules.download })
        }
        _ => Ok(attachment),
    })
}

fn found(message: &Message) -> Option<Attachment> {
    if let Some(photo) = message.photo.iter().max_by_key(|it| area(it)) {
        return Some(Attachment {
            file: photo.file_id.clone(),
            name: format!("photo-{}.jpg", message.message_id.0),
            media_type: Some("image/jpeg".to_owned()),
            size: photo.file_size,
            picture: photo.file_size.is_none_or(|size| size <= PICTURE),
        });
    }
    // A film without sound is a document too, for the sake of old bots.
    let sorts = [
        (&message.animation, "animation", "mp4"),
        (&message.voice, "voice", "ogg"),
        (&message.video_note, "video-note", "mp4"),
        (&message.video, "video", "mp4"),
        (&message.audio, "audio", "mp3"),
    ];
    for (file, sort, ending) in sorts {
        if let Some(file) = file {
            let ending = file.media_ending().unwrap_or(ending);
            return Some(kept(file, || format!("{sort}-{}.{ending}", message.message_id.0)));
        }
    }
    let document = message.document.as_ref()?;
    let name = || match document.media_ending() {
        Some(ending) => format!("file-{}.{ending}", message.message_id.0),
        None => format!("file-{}", message.message_id.0),
    };
    let mut attachment = kept(document, name);
    attachment.picture =
        document.is_picture() && document.file_size.is_none_or(|size| size <= PICTURE);
    Some(attachment)
}

fn area(photo: &PhotoSize) -> u64 {
    photo.width.saturating_mul(photo.height)
}

fn kept(file: &File, name: impl FnOnce() -> String) -> Attachment {
    let own = file.file_name.as_deref().map(one_line).filter(|it| !it.is_empty());
    Attachment {
        file: file.file_id.clone(),
        name: own.unwrap_or_else(name),
        media_type: file.mime_type.clone(),
        size: file.file_size,
        picture: false,
    }
}

/// A name that stays in its line.
fn one_line(name: &str) -> String {
    name.trim().chars().map(|c| if c.is_control() { '_' } else { c }).take(200).collect()
}

impl File {
    /// Whether the model can look at it, as far as its sender says what it is. What it really is,
    /// its bytes tell.
    fn is_picture(&self) -> bool {
        let named = self.file_name.as_deref().and_then(|name| name.rsplit_once('.'));
        match (self.mime_type.as_deref(), named) {
            (Some(mime), _) => {
                matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
            }
            (None, Some((_, ending))) => matches!(
                ending.to_ascii_lowercase().as_str(),
                "png" | "jpg" | "jpeg" | "gif" | "webp"
            ),
            (None, None) => false,
        }
    }

    /// How the name of such a file ends.
    fn media_ending(&self) -> Option<&'static str> {
        Some(match self.mime_type.as_deref()? {
            "audio/ogg" => "ogg",
            "audio/mpeg" => "mp3",
            "audio/mp4" | "audio/x-m4a" => "m4a",
            "audio/wav" | "audio/x-wav" => "wav",
            "video/mp4" => "mp4",
            "video/webm" => "webm",
            "video/quicktime" => "mov",
            "image/gif" => "gif",
            "image/png" => "png",
            "image/jpeg" => "jpg",
            "image/webp" => "webp",
            "image/svg+xml" => "svg",
            "image/heic" => "heic",
            "application/pdf" => "pdf",
            "application/zip" => "zip",
            "application/json" => "json",
            "text/plain" => "txt",
            _ => return None,
        })
    }
}
