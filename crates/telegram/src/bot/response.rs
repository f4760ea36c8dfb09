//! Responses of the Bot API and what they mean.
//!
//! Telegram describes errors in English sentences. Those that the bridge reacts to have been stable
//! for years. Any other sentence is a rejection that carries the sentence.

use std::time::Duration;

use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{BotCallError, BotError};
use crate::address::{ChatId, MessageId};

/// The wait if Telegram reports too many requests without a time.
const DEFAULT_RETRY: Duration = Duration::from_secs(5);

/// The object that wraps every result.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub(super) struct BotEnvelope<T> {
    ok: bool,
    #[serde(default = "Option::default")]
    result: Option<T>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    parameters: BotErrorParameters,
}

#[derive(Default, Deserialize)]
struct BotErrorParameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<ChatId>,
}

impl<T: DeserializeOwned> BotEnvelope<T> {
    pub(super) fn read(status: StatusCode, body: &[u8]) -> Result<T, BotError> {
        let Ok(envelope) = serde_json::from_slice::<Self>(body) else {
            return Err(foreign_response(status));
        };
        match envelope {
            Self { ok: true, result: Some(result), .. } => Ok(result),
            // Some servers send no result where Telegram sends `true`.
            Self { ok: true, .. } => serde_json::from_str("null")
                .map_err(|_| BotCallError::NoResponse("a response without a result".into()).into()),
            Self { description, parameters, .. } => Err(classify(status, description, &parameters)),
        }
    }
}

/// The id of the message that a call has sent.
pub(super) fn message_id(result: &RawValue) -> Option<MessageId> {
    #[derive(Deserialize)]
    struct MessageResult {
        message_id: MessageId,
    }
    serde_json::from_str::<MessageResult>(result.get()).ok().map(|it| it.message_id)
}

/// A response that is not Telegram's own, from a proxy or from Telegram's front end.
fn foreign_response(status: StatusCode) -> BotError {
    match status {
        StatusCode::TOO_MANY_REQUESTS => BotCallError::RateLimited(DEFAULT_RETRY).into(),
        StatusCode::PAYLOAD_TOO_LARGE => BotCallError::Rejected("too large".to_owned()).into(),
        status => {
            BotCallError::NoResponse(format!("a response that is not Telegram's, {status}")).into()
        }
    }
}

fn classify(status: StatusCode, description: String, parameters: &BotErrorParameters) -> BotError {
    if let Some(to) = parameters.migrate_to_chat_id {
        return BotError::ChatMigrated(to);
    }
    if let Some(seconds) = parameters.retry_after {
        return BotCallError::RateLimited(Duration::from_secs(seconds)).into();
    }
    match status.as_u16() {
        401 => BotError::InvalidToken,
        // Servers answer with 404 to a malformed token and to a method they do not know.
        404 => BotCallError::Rejected(description).into(),
        409 => BotError::Conflict(description),
        429 => BotCallError::RateLimited(DEFAULT_RETRY).into(),
        403 => BotCallError::Forbidden(description).into(),
        400..=499 => rejection(description).into(),
        _ => BotCallError::NoResponse(description).into(),
    }
}

fn rejection(description: String) -> BotCallError {
    const MARKUP: &[&str] = &["can't parse entities"];
    const MESSAGE: &[&str] = &[
        "message to edit not found",
        "message can't be edited",
        "message to delete not found",
        "message can't be deleted",
        "message_id_invalid",
    ];
    const TOPIC: &[&str] =
        &["message thread not found", "topic_deleted", "topic_closed", "topic_id_invalid"];
    const FORBIDDEN: &[&str] = &[
        "chat not found",
        "peer_id_invalid",
        "chat_write_forbidden",
        "not enough rights to send",
        "have no rights to send",
        "need administrator rights",
        "group chat was deactivated",
        "user is deactivated",
    ];
    let lower = description.to_lowercase();
    let is_one_of = |sentences: &[&str]| sentences.iter().any(|it| lower.contains(it));
    if lower.contains("message is not modified") {
        BotCallError::NotModified
    } else if is_one_of(MARKUP) {
        BotCallError::InvalidMarkup(description)
    } else if is_one_of(MESSAGE) {
        BotCallError::MessageNotFound
    } else if is_one_of(TOPIC) {
        BotCallError::TopicNotFound
    } else if is_one_of(FORBIDDEN) {
        BotCallError::Forbidden(description)
    } else {
        BotCallError::Rejected(description)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reqwest::StatusCode;
    use serde_json::Value;

    use super::{BotCallError, BotEnvelope, BotError};
    use crate::address::ChatId;

    fn read(status: u16, body: &str) -> BotError {
        let status = StatusCode::from_u16(status).unwrap();
        BotEnvelope::<Value>::read(status, body.as_bytes()).unwrap_err()
    }

    #[test]
    fn descriptions_are_classified() {
        let bad_request = |text: &str| format!("Bad Request: {text}");
        let table: [(u16, String, BotCallError); 14] = [
            (
                400,
                bad_request(
                    "message is not modified: specified new message content and reply markup are exactly the same",
                ),
                BotCallError::NotModified,
            ),
            (
                400,
                bad_request(
                    "can't parse entities: Unsupported start tag \\\"x\\\" at byte offset 12",
                ),
                BotCallError::InvalidMarkup(bad_request(
                    "can't parse entities: Unsupported start tag \"x\" at byte offset 12",
                )),
            ),
            (400, bad_request("message to edit not found"), BotCallError::MessageNotFound),
            (
                400,
                bad_request("message can't be deleted for everyone"),
                BotCallError::MessageNotFound,
            ),
            (400, bad_request("MESSAGE_ID_INVALID"), BotCallError::MessageNotFound),
            (400, bad_request("message thread not found"), BotCallError::TopicNotFound),
            (400, bad_request("TOPIC_CLOSED"), BotCallError::TopicNotFound),
            (
                400,
                bad_request("chat not found"),
                BotCallError::Forbidden(bad_request("chat not found")),
            ),
            (
                400,
                bad_request("not enough rights to send text messages to the chat"),
                BotCallError::Forbidden(bad_request(
                    "not enough rights to send text messages to the chat",
                )),
            ),
            (
                403,
                "Forbidden: bot was blocked by the user".into(),
                BotCallError::Forbidden("Forbidden: bot was blocked by the user".into()),
            ),
            (
                400,
                bad_request("message is too long"),
                BotCallError::Rejected(bad_request("message is too long")),
            ),
            (404, "Not Found".into(), BotCallError::Rejected("Not Found".into())),
            (
                500,
                "Internal Server Error".into(),
                BotCallError::NoResponse("Internal Server Error".into()),
            ),
            (429, "Too Many Requests".into(), BotCallError::RateLimited(Duration::from_secs(5))),
        ];
        for (status, description, failure) in table {
            let body =
                format!(r#"{{"ok":false,"error_code":{status},"description":"{description}"}}"#);
            assert_eq!(read(status, &body), BotError::Call(failure), "{description}");
        }
    }

    #[test]
    fn parameters_come_before_the_description() {
        let fast = r#"{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 7","parameters":{"retry_after":7}}"#;
        assert_eq!(read(429, fast), BotCallError::RateLimited(Duration::from_secs(7)).into());
        let moved = r#"{"ok":false,"error_code":400,"description":"Bad Request: group chat was upgraded to a supergroup chat","parameters":{"migrate_to_chat_id":-1009}}"#;
        assert_eq!(read(400, moved), BotError::ChatMigrated(ChatId(-1009)));
        assert_eq!(
            read(401, r#"{"ok":false,"error_code":401,"description":"Unauthorized"}"#),
            BotError::InvalidToken
        );
    }

    #[test]
    fn a_response_of_a_proxy_is_not_telegrams() {
        assert!(matches!(read(502, "<html>"), BotError::Call(BotCallError::NoResponse(_))));
        assert!(matches!(read(200, "<html>"), BotError::Call(BotCallError::NoResponse(_))));
        assert!(matches!(read(413, "<html>"), BotError::Call(BotCallError::Rejected(_))));
    }
}
