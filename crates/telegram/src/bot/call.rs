//! Calls of the Bot API that the bridge makes, and how each is encoded.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Body;
use reqwest::multipart::{Form, Part};
use serde_json::{Map, Value, json};
use tokio::fs::File;

pub use view::telegram::RenderedMessage as MessageText;

use crate::address::{ChatAddress, ChatId, MessageId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BotCall {
    Send(OutgoingMessage),
    /// Replaces the text and the buttons of a message.
    Edit {
        chat: ChatId,
        message: MessageId,
        text: MessageText,
        buttons: BotKeyboard,
    },
    /// Shows text that is still being written, until the next message. Private chats only.
    Draft {
        address: ChatAddress,
        /// Calls with the same id update the same draft. Never 0.
        draft_id: i64,
        text: String,
    },
    Delete {
        chat: ChatId,
        message: MessageId,
    },
    SendFile {
        address: ChatAddress,
        path: PathBuf,
        /// Whether it is sent as a photo instead of a document.
        picture: bool,
    },
    /// Sends text as a file, such as a diff.
    SendText {
        address: ChatAddress,
        name: String,
        content: String,
    },
    /// Shows the bot as typing for five seconds.
    Typing(ChatAddress),
    /// Answers a tap. Telegram shows a spinner on the button until then.
    AnswerTap {
        tap: String,
        text: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    pub address: ChatAddress,
    pub text: MessageText,
    pub buttons: BotKeyboard,
    /// Whether the user is notified with a sound.
    pub notify: bool,
    pub reply_to: Option<MessageId>,
    /// Whether the user's client opens a reply to this message at once. Telegram does not combine
    /// this with buttons.
    pub force_reply: bool,
}

/// Rows of buttons under a message. Empty for none.
pub type BotKeyboard = Vec<Vec<BotButton>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotButton {
    pub label: String,
    /// What Telegram sends back when the button is tapped: 1 to 64 bytes.
    pub data: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BotResponse {
    /// A message was sent and has this id.
    Sent(MessageId),
    Done,
}

/// Why a call had no effect, by what the bridge can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BotCallError {
    #[error("too many requests, retry after {0:?}")]
    RateLimited(Duration),
    /// The message has this content already, which is as good as done.
    #[error("message is not modified")]
    NotModified,
    /// Telegram rejected the formatting. The same text without formatting would be accepted.
    #[error("invalid formatting: {0}")]
    InvalidMarkup(String),
    /// The message was deleted or cannot be changed.
    #[error("message not found")]
    MessageNotFound,
    #[error("topic not found")]
    TopicNotFound,
    /// The bot is blocked, was removed from the group, or the chat does not exist.
    #[error("not allowed in this chat: {0}")]
    Forbidden(String),
    /// Rejected for another reason. Retrying does not help.
    #[error("rejected: {0}")]
    Rejected(String),
    /// The network failed before Telegram can have received the call.
    #[error("could not reach Telegram: {0}")]
    Unreachable(String),
    /// The network or Telegram failed, and the call may or may not have had its effect.
    #[error("no usable response: {0}")]
    NoResponse(String),
}

/// An encoded call.
pub(super) enum BotRequest {
    Json { method: &'static str, body: Value },
    Multipart { method: &'static str, form: Form },
}

impl BotRequest {
    pub(super) async fn encode(call: &BotCall) -> Result<Self, BotCallError> {
        let (method, body) = match call {
            BotCall::SendFile { address, path, picture } => {
                let part = open_file(path).await.map_err(|error| {
                    BotCallError::Rejected(format!("could not open the file: {error}"))
                })?;
                let (method, field) =
                    if *picture { ("sendPhoto", "photo") } else { ("sendDocument", "document") };
                return Ok(Self::Multipart { method, form: form_for(*address).part(field, part) });
            }
            BotCall::SendText { address, name, content } => {
                let part = Part::bytes(content.clone().into_bytes()).file_name(name.clone());
                let form = form_for(*address).part("document", part);
                return Ok(Self::Multipart { method: "sendDocument", form });
            }
            BotCall::Send(message) => ("sendMessage", message_body(message)),
            BotCall::Edit { chat, message, text, buttons } => {
                let body = json!({
                    "chat_id": chat,
                    "message_id": message,
                    "text": text.html,
                    "parse_mode": "HTML",
                    "link_preview_options": { "is_disabled": true },
                    "reply_markup": keyboard_body(buttons),
                });
                ("editMessageText", body)
            }
            BotCall::Draft { address, draft_id, text } => {
                let mut body = body_for(*address);
                body.insert("draft_id".into(), json!(draft_id));
                body.insert("text".into(), json!(text));
                ("sendMessageDraft", Value::Object(body))
            }
            BotCall::Delete { chat, message } => {
                ("deleteMessage", json!({ "chat_id": chat, "message_id": message }))
            }
            BotCall::Typing(address) => {
                let mut body = body_for(*address);
                body.insert("action".into(), json!("typing"));
                ("sendChatAction", Value::Object(body))
            }
            BotCall::AnswerTap { tap, text } => {
                let mut body = json!({ "callback_query_id": tap });
                if let Some(text) = text {
                    body["text"] = json!(text);
                }
                ("answerCallbackQuery", body)
            }
        };
        Ok(Self::Json { method, body })
    }
}

fn message_body(message: &OutgoingMessage) -> Value {
    let mut body = body_for(message.address);
    body.insert("text".into(), json!(message.text.html));
    body.insert("parse_mode".into(), json!("HTML"));
    body.insert("link_preview_options".into(), json!({ "is_disabled": true }));
    body.insert("disable_notification".into(), json!(!message.notify));
    if let Some(MessageId(id)) = message.reply_to {
        // The reply is still sent if the user deleted the message.
        let reply = json!({ "message_id": id, "allow_sending_without_reply": true });
        body.insert("reply_parameters".into(), reply);
    }
    if !message.buttons.is_empty() {
        body.insert("reply_markup".into(), keyboard_body(&message.buttons));
    } else if message.force_reply {
        let markup = json!({ "force_reply": true, "selective": message.reply_to.is_some() });
        body.insert("reply_markup".into(), markup);
    }
    Value::Object(body)
}

fn body_for(address: ChatAddress) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("chat_id".into(), json!(address.chat));
    if let Some(topic) = address.topic {
        body.insert("message_thread_id".into(), json!(topic));
    }
    body
}

/// A form that sends a file without a sound.
fn form_for(address: ChatAddress) -> Form {
    let form = Form::new()
        .text("chat_id", address.chat.0.to_string())
        .text("disable_notification", "true");
    match address.topic {
        Some(topic) => form.text("message_thread_id", topic.0.to_string()),
        None => form,
    }
}

fn keyboard_body(buttons: &BotKeyboard) -> Value {
    let row = |row: &Vec<BotButton>| {
        let button = |it: &BotButton| json!({ "text": it.label, "callback_data": it.data });
        row.iter().map(button).collect::<Value>()
    };
    json!({ "inline_keyboard": buttons.iter().map(row).collect::<Value>() })
}

/// Opens a regular file and refuses a link, so that a project cannot have a file from elsewhere sent.
async fn open_file(path: &Path) -> io::Result<Part> {
    let named = tokio::fs::symlink_metadata(path).await?;
    let file = File::open(path).await?;
    let opened = file.metadata().await?;
    let same = (named.dev(), named.ino()) == (opened.dev(), opened.ino());
    if !named.is_file() || !same {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let name = path.file_name().map_or("file".into(), |it| it.to_string_lossy().into_owned());
    let part = Part::stream_with_length(Body::from(file), opened.len());
    Ok(part.file_name(name))
}
