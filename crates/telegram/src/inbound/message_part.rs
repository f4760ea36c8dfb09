//! One message as part of a prompt: its text, its file and what it replies to.

use super::command::unescape;
use super::{InboundConfig, InboundFile, RejectedContent};
use crate::address::{ChatId, MessageId};
use crate::update::{
    TelegramFile, TelegramForwardOrigin, TelegramMessage, TelegramPhoto, TelegramUser,
};

/// The number of characters that are quoted of a message that is replied to.
const QUOTE_LIMIT: usize = 500;

/// A text with more UTF-16 units is probably the first half of a longer one: clients split pasted
/// text into messages of up to 4,096, at the end of a line or a word.
const NEARLY_FULL: usize = 3_800;

/// The largest picture for the model in bytes: the API accepts 5 MB in base64. The agent can open a
/// larger one as a file.
const PICTURE_LIMIT: u64 = 3_750_000;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct MessagePart {
    pub(super) chat: ChatId,
    pub(super) message: MessageId,
    /// When it was sent, in seconds since 1970.
    pub(super) date: u64,
    pub(super) album: Option<String>,
    pub(super) text: String,
    /// The author of a forwarded message.
    pub(super) author: Option<String>,
    pub(super) reply: Option<ReplyTarget>,
    pub(super) attachment: Option<InboundFile>,
    pub(super) rejected: Option<RejectedContent>,
}

/// What a message replies to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReplyTarget {
    pub(super) message: Option<MessageId>,
    pub(super) quote: Option<String>,
    /// Whether the bot sent it. Then the reply may answer a question of the agent.
    pub(super) from_bot: bool,
}

impl MessagePart {
    /// What a message adds to a prompt, which may be nothing.
    pub(super) fn read(message: &TelegramMessage, config: &InboundConfig) -> Self {
        let (attachment, mut rejected) = match attachment(message, config) {
            Some(Ok(attachment)) => (Some(attachment), None),
            Some(Err(rejected)) => (None, Some(rejected)),
            None => (None, None),
        };
        let emoji = message.sticker.as_ref().and_then(|it| it.emoji.as_deref());
        let text = message.text.as_deref().or(message.caption.as_deref()).or(emoji);
        let text = text.unwrap_or_default().trim();
        let author = message.forward_origin.as_ref().map(forward_author);
        let text = match &author {
            Some(_) => text,
            None => unescape(without_mention(text, &config.username)),
        };
        if text.is_empty() && attachment.is_none() && rejected.is_none() {
            rejected = unsupported(message).map(RejectedContent::Unsupported);
        }
        Self {
            chat: message.chat.id,
            message: message.message_id,
            date: message.date,
            album: message.media_group_id.clone(),
            text: text.to_owned(),
            author,
            reply: reply_target(message, config),
            attachment,
            rejected,
        }
    }

    pub(super) fn has_content(&self) -> bool {
        !self.text.is_empty() || self.attachment.is_some()
    }

    /// Whether it is a complete text and nothing else.
    pub(super) fn is_short_text(&self) -> bool {
        self.attachment.is_none()
            && self.rejected.is_none()
            && self.author.is_none()
            && self.album.is_none()
            && self.text.encode_utf16().count() < NEARLY_FULL
    }

    /// Whether it may answer a question of the agent.
    pub(super) fn may_be_answer(&self) -> bool {
        self.is_short_text() && self.reply.as_ref().is_some_and(|it| it.from_bot)
    }

    pub(super) fn quote(&self) -> Option<&str> {
        self.reply.as_ref()?.quote.as_deref()
    }
}

/// The text of several parts, without the first part's quote: it may be a question of the agent, and
/// then it is not part of the answer.
pub(super) fn join_parts(parts: &[MessagePart]) -> String {
    let mut text = String::new();
    let mut before: Option<&MessagePart> = None;
    let first = parts.first().and_then(|it| it.reply.clone());
    for part in parts {
        // All messages of an album reply to the same message.
        let quote = part.quote().filter(|_| part.reply != first);
        let same_author = before.is_some_and(|it| it.author == part.author);
        let author = part.author.as_deref().filter(|_| !same_author);
        let head = author.map(|name| format!("Forwarded from {name}:"));
        let body = match (part.text.as_str(), &part.attachment, author) {
            // An author without a text would seem to belong to the next text.
            ("", Some(attachment), Some(_)) => format!("({})", attachment.name),
            (text, _, _) => text.to_owned(),
        };
        let lines = [quote.map(ToOwned::to_owned), head, Some(body)];
        let block: Vec<_> = lines.into_iter().flatten().filter(|it| !it.is_empty()).collect();
        if block.is_empty() {
            continue;
        }
        if !text.is_empty() {
            let plain = quote.is_none() && part.author.is_none() && same_author;
            text.push_str(if plain { "\n" } else { "\n\n" });
        }
        text.push_str(&block.join("\n"));
        before = Some(part);
    }
    text
}

/// A user's name in one line.
pub(super) fn user_name(user: &TelegramUser) -> String {
    let name = one_line_name(&user.first_name);
    match (name.is_empty(), &user.username) {
        (false, _) => name,
        (true, Some(username)) => format!("@{}", one_line_name(username)),
        (true, None) => user.id.0.to_string(),
    }
}

fn one_line_name(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect::<String>().trim().to_owned()
}

fn forward_author(origin: &TelegramForwardOrigin) -> String {
    let chat = origin.sender_chat.as_ref().or(origin.chat.as_ref());
    let title = chat.and_then(|chat| chat.title.as_deref());
    let found = match (&origin.sender_user, origin.sender_user_name.as_deref().or(title)) {
        (Some(user), _) => user_name(user),
        (None, Some(name)) => one_line_name(name),
        (None, None) => String::new(),
    };
    if found.is_empty() { "an unknown sender".to_owned() } else { found }
}

/// A text without a leading mention of the bot, which is how users address it in a group.
fn without_mention<'t>(text: &'t str, username: &str) -> &'t str {
    let Some(rest) = text.strip_prefix('@') else { return text };
    match rest.split_at_checked(username.len()) {
        Some((name, rest))
            if !username.is_empty()
                && name.eq_ignore_ascii_case(username)
                && !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') =>
        {
            rest.trim_start_matches([',', ':']).trim_start()
        }
        _ => text,
    }
}

fn reply_target(message: &TelegramMessage, config: &InboundConfig) -> Option<ReplyTarget> {
    let target = message.reply_to_message.as_deref().filter(|it| !opens_topic(it, message));
    let selected = message.quote.as_ref().map(|it| it.text.as_str());
    if target.is_none() && selected.is_none() {
        return None;
    }
    let whole = target.and_then(|it| it.text.as_deref().or(it.caption.as_deref()));
    let author = target.and_then(|it| it.from.as_ref());
    let from_bot = author.is_some_and(|it| it.id == config.bot);
    // The author is named only if it is another user.
    let own = author.map(|it| it.id) == message.from.as_ref().map(|it| it.id);
    let author = author.filter(|_| !from_bot && !own).map(user_name);
    let quote = selected.or(whole).map(str::trim).filter(|it| !it.is_empty());
    let quote = quote.map(|text| {
        let text = shortened(text);
        let text = match author {
            Some(name) => format!("{name}: {text}"),
            None => text,
        };
        text.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect::<Vec<_>>()
    });
    Some(ReplyTarget {
        message: target.map(|it| it.message_id),
        quote: quote.map(|lines| lines.join("\n")),
        from_bot,
    })
}

/// Whether `target` is the message that opened the topic. Some clients send every message of a topic
/// as a reply to it.
fn opens_topic(target: &TelegramMessage, message: &TelegramMessage) -> bool {
    target.forum_topic_created.is_some()
        || message.is_topic_message
            && message.message_thread_id.is_some_and(|it| it.0 == target.message_id.0)
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(QUOTE_LIMIT) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// The kind of a message that cannot be part of a prompt; none for service messages.
fn unsupported(message: &TelegramMessage) -> Option<&'static str> {
    let kinds = [
        (message.sticker.is_some(), "this sticker"),
        (message.poll.is_some(), "polls"),
        (message.location.is_some(), "locations"),
        (message.contact.is_some(), "contacts"),
        (message.dice.is_some(), "dice"),
        (message.game.is_some(), "games"),
        (message.story.is_some(), "stories"),
        (message.checklist.is_some(), "checklists"),
        (message.paid_media.is_some(), "paid media"),
    ];
    kinds.into_iter().find_map(|(is, kind)| is.then_some(kind))
}

/// The file of a message. There is at most one: an album is several messages.
fn attachment(
    message: &TelegramMessage,
    config: &InboundConfig,
) -> Option<Result<InboundFile, RejectedContent>> {
    let file = file_of(message)?;
    Some(match file.size {
        Some(size) if size > config.download_limit => {
            let (name, limit) = (file.name, config.download_limit);
            Err(RejectedContent::TooLarge { name, size, limit })
        }
        _ => Ok(file),
    })
}

fn file_of(message: &TelegramMessage) -> Option<InboundFile> {
    if let Some(photo) = message.photo.iter().max_by_key(|it| area(it)) {
        return Some(InboundFile {
            file_id: photo.file_id.clone(),
            name: format!("photo-{}.jpg", message.message_id.0),
            size: photo.file_size,
            picture: photo.file_size.is_none_or(|size| size <= PICTURE_LIMIT),
        });
    }
    // Telegram repeats an animation as a document, so the animation comes first.
    let kinds = [
        (&message.animation, "animation", "mp4"),
        (&message.voice, "voice", "ogg"),
        (&message.video_note, "video-note", "mp4"),
        (&message.video, "video", "mp4"),
        (&message.audio, "audio", "mp3"),
    ];
    for (file, kind, default) in kinds {
        if let Some(file) = file {
            let extension = file.extension().unwrap_or(default);
            return Some(named(file, || format!("{kind}-{}.{extension}", message.message_id.0)));
        }
    }
    let document = message.document.as_ref()?;
    let name = || match document.extension() {
        Some(extension) => format!("file-{}.{extension}", message.message_id.0),
        None => format!("file-{}", message.message_id.0),
    };
    let mut file = named(document, name);
    file.picture =
        document.is_picture() && document.file_size.is_none_or(|size| size <= PICTURE_LIMIT);
    Some(file)
}

fn area(photo: &TelegramPhoto) -> u64 {
    photo.width.saturating_mul(photo.height)
}

fn named(file: &TelegramFile, default: impl FnOnce() -> String) -> InboundFile {
    let own = file.file_name.as_deref().map(one_line).filter(|it| !it.is_empty());
    InboundFile {
        file_id: file.file_id.clone(),
        name: own.unwrap_or_else(default),
        size: file.file_size,
        picture: false,
    }
}

/// A file name without line breaks and other control characters.
fn one_line(name: &str) -> String {
    name.trim().chars().map(|c| if c.is_control() { '_' } else { c }).take(200).collect()
}

impl TelegramFile {
    /// Whether the model accepts it, as far as the sender's client reports the type. The bytes are
    /// checked after the download.
    fn is_picture(&self) -> bool {
        let named = self.file_name.as_deref().and_then(|name| name.rsplit_once('.'));
        match (self.mime_type.as_deref(), named) {
            (Some(mime), _) => {
                matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
            }
            (None, Some((_, extension))) => matches!(
                extension.to_ascii_lowercase().as_str(),
                "png" | "jpg" | "jpeg" | "gif" | "webp"
            ),
            (None, None) => false,
        }
    }

    fn extension(&self) -> Option<&'static str> {
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
