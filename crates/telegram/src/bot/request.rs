//! What a call is on the wire.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use reqwest::Body;
use reqwest::multipart::{Form, Part};
use serde_json::{Map, Value, json};
use tokio::fs::File;

use crate::call::{Buttons, Call, Failure, SendMessage};
use crate::place::{MessageId, Place};

/// A call on the wire.
pub(super) enum Request {
    /// Values alone.
    Plain {
        /// The method.
        method: &'static str,
        /// Its values.
        body: Value,
    },
    /// Values and a file.
    File {
        /// The method.
        method: &'static str,
        /// Its values, and the file.
        form: Form,
    },
}

/// A call as it goes on the wire.
pub(super) async fn of(call: &Call) -> Result<Request, Failure> {
    Ok(match call {
        Call::SendFile { place, path, picture, caption, loud } => {
            let part =
                opened(path).await.map_err(|it| Failure::Refused(format!("no file: {it}")))?;
            let mut form = at(*place, *loud);
            if let Some(caption) = caption {
                form = form.text("caption", caption.html.clone()).text("parse_mode", "HTML");
            }
            let (method, field) =
                if *picture { ("sendPhoto", "photo") } else { ("sendDocument", "document") };
            Request::File { method, form: form.part(field, part) }
        }
        Call::SendText { place, name, text, loud } => {
            let part = Part::bytes(text.clone().into_bytes()).file_name(name.clone());
            Request::File { method: "sendDocument", form: at(*place, *loud).part("document", part) }
        }
        plain => {
            let (method, body) = values(plain);
            Request::Plain { method, body }
        }
    })
}

fn values(call: &Call) -> (&'static str, Value) {
    match call {
        Call::Send(message) => ("sendMessage", send(message)),
        Call::Edit { chat, message, words, buttons } => {
            let body = json!({
                "chat_id": chat,
                "message_id": message,
                "text": words.html,
                "parse_mode": "HTML",
                "link_preview_options": { "is_disabled": true },
                "reply_markup": keyboard(buttons),
            });
            ("editMessageText", body)
        }
        Call::Draft { place, draft, text } => {
            let mut body = object(*place);
            body.insert("draft_id".into(), json!(draft));
            body.insert("text".into(), json!(text));
            ("sendMessageDraft", Value::Object(body))
        }
        Call::Delete { chat, message } => {
            ("deleteMessage", json!({ "chat_id": chat, "message_id": message }))
        }
        Call::Typing(place) => {
            let mut body = object(*place);
            body.insert("action".into(), json!("typing"));
            ("sendChatAction", Value::Object(body))
        }
        Call::Answer { tap, text, alert } => {
            let mut body = json!({ "callback_query_id": tap, "show_alert": alert });
            if let Some(text) = text {
                body["text"] = json!(text);
            }
            ("answerCallbackQuery", body)
        }
        // They have files, see above.
        Call::SendFile { .. } | Call::SendText { .. } => ("sendDocument", json!({})),
    }
}

fn send(message: &SendMessage) -> Value {
    let mut body = object(message.place);
    body.insert("text".into(), json!(message.words.html));
    body.insert("parse_mode".into(), json!("HTML"));
    body.insert("link_preview_options".into(), json!({ "is_disabled": true }));
    body.insert("disable_notification".into(), json!(!message.loud));
    if let Some(MessageId(id)) = message.reply_to {
        // Whoever deletes a message still gets the answer to it.
        let reply = json!({ "message_id": id, "allow_sending_without_reply": true });
        body.insert("reply_parameters".into(), reply);
    }
    if !message.buttons.is_empty() {
        body.insert("reply_markup".into(), keyboard(&message.buttons));
    } else if message.force_reply {
        let markup = json!({ "force_reply": true, "selective": message.reply_to.is_some() });
        body.insert("reply_markup".into(), markup);
    }
    Value::Object(body)
}

fn object(place: Place) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("chat_id".into(), json!(place.chat));
    if let Some(thread) = place.thread {
        body.insert("message_thread_id".into(), json!(thread));
    }
    body
}

fn at(place: Place, loud: bool) -> Form {
    let form = Form::new()
        .text("chat_id", place.chat.0.to_string())
        .text("disable_notification", (!loud).to_string());
    match place.thread {
        Some(thread) => form.text("message_thread_id", thread.0.to_string()),
        None => form,
    }
}

fn keyboard(buttons: &Buttons) -> Value {
    let row = |row: &Vec<crate::call::Button>| {
        let button =
            |it: &crate::call::Button| json!({ "text": it.label, "callback_data": it.data });
        row.iter().map(button).collect::<Value>()
    };
    json!({ "inline_keyboard": buttons.iter().map(row).collect::<Value>() })
}

/// A file to be sent, which must be one itself and no link to one: a project must not be able to have
/// something from elsewhere sent.
async fn opened(path: &Path) -> io::Result<Part> {
    let named = tokio::fs::symlink_metadata(path).await?;
    let file = File::open(path).await?;
    let found = file.metadata().await?;
    let same = (named.dev(), named.ino()) == (found.dev(), found.ino());
    if !named.is_file() || !same {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file"));
    }
    let name = path.file_name().map_or("file".into(), |it| it.to_string_lossy().into_owned());
    let part = Part::stream_with_length(Body::from(file), found.len());
    Ok(part.file_name(name))
}
