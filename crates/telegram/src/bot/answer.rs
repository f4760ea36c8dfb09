//! What Telegram answers, and what that means.
//!
//! Telegram gives reasons as sentences. Those that matter here have not changed in years; one that is
//! not known is a refusal, with its words.

use std::time::Duration;

use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::Trouble;
use crate::call::Failure;
use crate::place::{ChatId, MessageId};

/// How long to wait where Telegram says "too fast" and not how long.
const A_WHILE: Duration = Duration::from_secs(5);

/// The envelope of every answer.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub(super) struct Answer<T> {
    ok: bool,
    #[serde(default = "Option::default")]
    result: Option<T>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    parameters: Parameters,
}

#[derive(Default, Deserialize)]
struct Parameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<ChatId>,
}

impl<T: DeserializeOwned> Answer<T> {
    pub(super) fn read(status: StatusCode, body: &[u8]) -> Result<T, Trouble> {
        let Ok(answer) = serde_json::from_slice::<Self>(body) else {
            return Err(not_telegram(status));
        };
        match answer {
            Self { ok: true, result: Some(result), .. } => Ok(result),
            // Some servers have nothing to say where Telegram says `true`.
            Self { ok: true, .. } => serde_json::from_str("null")
                .map_err(|_| Failure::Unknown("an answer without a result".into()).into()),
            Self { description, parameters, .. } => Err(meaning(status, description, &parameters)),
        }
    }
}

/// The number of the message that was sent.
pub(super) fn message(result: &RawValue) -> Option<MessageId> {
    #[derive(Deserialize)]
    struct Sent {
        message_id: MessageId,
    }
    serde_json::from_str::<Sent>(result.get()).ok().map(|it| it.message_id)
}

/// What stands between us and Telegram has answered: a proxy, or a front of Telegram's own.
fn not_telegram(status: StatusCode) -> Trouble {
    let words = format!("an answer that is not Telegram's, {status}");
    if status == StatusCode::TOO_MANY_REQUESTS {
        Failure::TooFast(A_WHILE).into()
    } else if status == StatusCode::PAYLOAD_TOO_LARGE {
        Failure::Refused("too large".to_owned()).into()
    } else {
        Failure::Unknown(words).into()
    }
}

fn meaning(status: StatusCode, description: String, parameters: &Parameters) -> Trouble {
    if let Some(to) = parameters.migrate_to_chat_id {
        return Trouble::Moved(to);
    }
    if let Some(seconds) = parameters.retry_after {
        return Failure::TooFast(Duration::from_secs(seconds)).into();
    }
    match status.as_u16() {
        401 => Trouble::UnknownToken,
        // So says a server to a token that is none, and to a method it does not know.
        404 => Failure::Refused(description).into(),
        409 => Trouble::Conflict(description),
        429 => Failure::TooFast(A_WHILE).into(),
        403 => Failure::NotWanted(description).into(),
        400..=499 => refusal(description).into(),
        _ => Failure::Unknown(description).into(),
    }
}

fn refusal(description: String) -> Failure {
    const TAGS: &[&str] = &["can't parse entities"];
    const MESSAGE: &[&str] = &[
        "message to edit not found",
        "message can't be edited",
        "message to delete not found",
        "message can't be deleted",
        "message_id_invalid",
    ];
    const THREAD: &[&str] =
        &["message thread not found", "topic_deleted", "topic_closed", "topic_id_invalid"];
    const NOT_WANTED: &[&str] = &[
        "chat not found",
        "peer_id_invalid",
        "chat_write_forbidden",
        "not enough rights to send",
        "have no rights to send",
        "need administrator rights",
        "group chat was deactivated",
        "user is deactivated",
    ];
    let said = description.to_lowercase();
    let one_of = |sentences: &[&str]| sentences.iter().any(|it| said.contains(it));
    if said.contains("message is not modified") {
        Failure::NotModified
    } else if one_of(TAGS) {
        Failure::Tags(description)
    } else if one_of(MESSAGE) {
        Failure::NoSuchMessage
    } else if one_of(THREAD) {
        Failure::NoSuchThread
    } else if one_of(NOT_WANTED) {
        Failure::NotWanted(description)
    } else {
        Failure::Refused(description)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reqwest::StatusCode;
    use serde_json::Value;

    use super::{Answer, Trouble};
    use crate::call::Failure;
    use crate::place::ChatId;

    fn read(status: u16, body: &str) -> Trouble {
        let status = StatusCode::from_u16(status).unwrap();
        Answer::<Value>::read(status, body.as_bytes()).unwrap_err()
    }

    #[test]
    fn what_telegram_says_is_understood() {
        let said = |text: &str| format!("Bad Request: {text}");
        let table: [(u16, String, Failure); 14] = [
            (
                400,
                said(
                    "message is not modified: specified new message content and reply markup are exactly the same",
                ),
                Failure::NotModified,
            ),
            (
                400,
                said("can't parse entities: Unsupported start tag \\\"x\\\" at byte offset 12"),
                Failure::Tags(said(
                    "can't parse entities: Unsupported start tag \"x\" at byte offset 12",
                )),
            ),
            (400, said("message to edit not found"), Failure::NoSuchMessage),
            (400, said("message can't be deleted for everyone"), Failure::NoSuchMessage),
            (400, said("MESSAGE_ID_INVALID"), Failure::NoSuchMessage),
            (400, said("message thread not found"), Failure::NoSuchThread),
            (400, said("TOPIC_CLOSED"), Failure::NoSuchThread),
            (400, said("chat not found"), Failure::NotWanted(said("chat not found"))),
            (
                400,
                said("not enough rights to send text messages to the chat"),
                Failure::NotWanted(said("not enough rights to send text messages to the chat")),
            ),
            (
                403,
                "Forbidden: bot was blocked by the user".into(),
                Failure::NotWanted("Forbidden: bot was blocked by the user".into()),
            ),
            (400, said("message is too long"), Failure::Refused(said("message is too long"))),
            (404, "Not Found".into(), Failure::Refused("Not Found".into())),
            (500, "Internal Server Error".into(), Failure::Unknown("Internal Server Error".into())),
            (429, "Too Many Requests".into(), Failure::TooFast(Duration::from_secs(5))),
        ];
        for (status, description, failure) in table {
            let body =
                format!(r#"{{"ok":false,"error_code":{status},"description":"{description}"}}"#);
            assert_eq!(read(status, &body), Trouble::Failure(failure), "{description}");
        }
    }

    #[test]
    fn what_comes_with_numbers_is_taken_by_its_numbers() {
        let fast = r#"{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 7","parameters":{"retry_after":7}}"#;
        assert_eq!(read(429, fast), Failure::TooFast(Duration::from_secs(7)).into());
        let moved = r#"{"ok":false,"error_code":400,"description":"Bad Request: group chat was upgraded to a supergroup chat","parameters":{"migrate_to_chat_id":-1009}}"#;
        assert_eq!(read(400, moved), Trouble::Moved(ChatId(-1009)));
        assert_eq!(
            read(401, r#"{"ok":false,"error_code":401,"description":"Unauthorized"}"#),
            Trouble::UnknownToken
        );
    }

    #[test]
    fn what_a_proxy_answers_is_nobodys_word() {
        assert!(matches!(read(502, "<html>"), Trouble::Failure(Failure::Unknown(_))));
        assert!(matches!(read(200, "<html>"), Trouble::Failure(Failure::Unknown(_))));
        assert!(matches!(read(413, "<html>"), Trouble::Failure(Failure::Refused(_))));
    }
}
