//! The Bot API over HTTP.
//!
//! A [`BotCall`] becomes one request, and its response a [`BotResponse`] or a [`BotCallError`]. The
//! token is part of every URL, so errors of the HTTP client lose their URL here. Every request has a
//! time limit. Nothing is retried here.

mod call;
mod response;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::address::{ChatId, TelegramUserId};
use crate::bridge::{ApiAddress, BotToken, Error};
use call::BotRequest;
pub use call::{
    BotButton, BotCall, BotCallError, BotKeyboard, BotResponse, MessageText, OutgoingMessage,
};
use response::BotEnvelope;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long Telegram holds a poll open while there is no update.
const POLL_TIMEOUT: Duration = Duration::from_secs(50);

/// The time limit for a file, in either direction.
const FILE_TIMEOUT: Duration = Duration::from_mins(10);

/// The size limit of a response. A hundred updates with the longest texts have less than 4 MB.
const RESPONSE_LIMIT: usize = 16 << 20;

/// A bot. Clones share one HTTP client.
#[derive(Clone)]
pub(crate) struct Bot(Arc<BotClient>);

struct BotClient {
    http: Client,
    api: ApiAddress,
    token: BotToken,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct BotIdentity {
    pub(crate) id: TelegramUserId,
    /// Without the `@`.
    #[serde(default)]
    pub(crate) username: String,
}

/// Why a method failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BotError {
    InvalidToken,
    /// Another program polls this bot's updates, or a webhook receives them.
    Conflict(String),
    /// The group became a supergroup and has a new id.
    ChatMigrated(ChatId),
    Call(BotCallError),
}

/// Why a file was not downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DownloadError {
    TooLarge,
    Failed(BotError),
}

impl Bot {
    pub(crate) fn new(api: ApiAddress, token: BotToken) -> Result<Self, Error> {
        // `reqwest` is built without a provider of cryptography. Later calls change nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // The token is in the URL, so a redirect would hand it to another server.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false);
        if api.is_loopback() {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|_| Error::HttpClient)?;
        Ok(Self(Arc::new(BotClient { http, api, token })))
    }

    pub(crate) async fn identity(&self) -> Result<BotIdentity, BotError> {
        self.invoke("getMe", &json!({}), CALL_TIMEOUT).await
    }

    /// Removes a webhook, so that updates can be polled. Pending updates stay.
    pub(crate) async fn delete_webhook(&self) -> Result<(), BotError> {
        let options = json!({ "drop_pending_updates": false });
        self.invoke::<Value>("deleteWebhook", &options, CALL_TIMEOUT).await.map(drop)
    }

    /// Registers the commands that clients suggest: names and descriptions.
    pub(crate) async fn set_commands(&self, commands: &[(&str, &str)]) -> Result<(), BotError> {
        let commands = commands.iter().map(
            |(command, description)| json!({ "command": command, "description": description }),
        );
        let commands = json!({ "commands": commands.collect::<Vec<_>>() });
        self.invoke::<Value>("setMyCommands", &commands, CALL_TIMEOUT).await.map(drop)
    }

    /// Waits for updates with this id or a higher one. Telegram drops those with a lower id.
    pub(crate) async fn updates(&self, offset: i64) -> Result<Vec<Box<RawValue>>, BotError> {
        let options = json!({
            "offset": offset,
            "timeout": POLL_TIMEOUT.as_secs(),
            "allowed_updates": ["message", "edited_message", "callback_query"],
        });
        self.invoke("getUpdates", &options, POLL_TIMEOUT + CALL_TIMEOUT).await
    }

    pub(crate) async fn call(&self, call: &BotCall) -> Result<BotResponse, BotError> {
        let (limit, request) = match BotRequest::encode(call).await? {
            BotRequest::Json { method, body } => (CALL_TIMEOUT, self.request(method).json(&body)),
            BotRequest::Multipart { method, form } => {
                (FILE_TIMEOUT, self.request(method).multipart(form))
            }
        };
        let result: Box<RawValue> = self.send(request, limit).await?;
        Ok(match call {
            BotCall::Send(_) | BotCall::SendFile { .. } | BotCall::SendText { .. } => {
                response::message_id(&result).map_or(BotResponse::Done, BotResponse::Sent)
            }
            BotCall::Edit { .. }
            | BotCall::Draft { .. }
            | BotCall::Delete { .. }
            | BotCall::Typing(_)
            | BotCall::AnswerTap { .. } => BotResponse::Done,
        })
    }

    /// Downloads a file of at most `limit` bytes.
    pub(crate) async fn download(
        &self,
        file_id: &str,
        limit: usize,
    ) -> Result<Vec<u8>, DownloadError> {
        #[derive(Deserialize)]
        struct FilePath {
            #[serde(default)]
            file_path: Option<String>,
        }
        let found: Result<FilePath, _> =
            self.invoke("getFile", &json!({ "file_id": file_id }), CALL_TIMEOUT).await;
        let found = found.map_err(|error| match error {
            BotError::Call(BotCallError::Rejected(why)) if why.contains("too big") => {
                DownloadError::TooLarge
            }
            error => DownloadError::Failed(error),
        })?;
        let rejected =
            |why: &str| DownloadError::Failed(BotCallError::Rejected(why.to_owned()).into());
        let path = found.file_path.ok_or_else(|| rejected("a file without a path"))?;
        if path.starts_with('/') || path.contains(['?', '#', '\\']) || path.contains("..") {
            // A Bot API server in local mode names a file on its own disk.
            return Err(rejected("a file path that cannot be downloaded"));
        }
        let BotClient { http, api, token } = &*self.0;
        let url = format!("{}/file/bot{}/{path}", api.base(), token.reveal());
        let response = http.get(url).timeout(FILE_TIMEOUT).send().await;
        let response = response.map_err(|it| DownloadError::Failed(http_error(it).into()))?;
        match response.status() {
            StatusCode::OK => read_body(response, limit).await,
            status => Err(rejected(&format!("could not download the file, {status}"))),
        }
    }

    async fn invoke<T: DeserializeOwned>(
        &self,
        method: &str,
        body: &Value,
        limit: Duration,
    ) -> Result<T, BotError> {
        self.send(self.request(method).json(body), limit).await
    }

    fn request(&self, method: &str) -> RequestBuilder {
        let BotClient { http, api, token } = &*self.0;
        http.post(format!("{}/bot{}/{method}", api.base(), token.reveal()))
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        limit: Duration,
    ) -> Result<T, BotError> {
        let response = request.timeout(limit).send().await.map_err(http_error)?;
        let status = response.status();
        // Telegram has received the call by now, so it may have had its effect.
        let body = read_body(response, RESPONSE_LIMIT).await.map_err(|error| match error {
            DownloadError::Failed(error) => BotCallError::NoResponse(error.to_string()),
            DownloadError::TooLarge => BotCallError::NoResponse("the response is too large".into()),
        })?;
        BotEnvelope::read(status, &body)
    }
}

async fn read_body(mut response: Response, limit: usize) -> Result<Vec<u8>, DownloadError> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(bytes),
            Ok(Some(chunk)) if bytes.len() + chunk.len() <= limit => {
                bytes.extend_from_slice(&chunk);
            }
            Ok(Some(_)) => return Err(DownloadError::TooLarge),
            Err(error) => {
                let error = BotCallError::NoResponse(without_url(error));
                return Err(DownloadError::Failed(error.into()));
            }
        }
    }
}

/// Classifies an error of the HTTP client by whether Telegram can have received the request.
fn http_error(error: reqwest::Error) -> BotCallError {
    let before_sending = error.is_connect() || error.is_builder();
    let text = without_url(error);
    if before_sending { BotCallError::Unreachable(text) } else { BotCallError::NoResponse(text) }
}

/// An error and its causes without the URL, which contains the token.
fn without_url(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}

impl From<BotCallError> for BotError {
    fn from(error: BotCallError) -> Self {
        Self::Call(error)
    }
}

impl fmt::Display for BotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidToken => f.write_str("the token is not valid"),
            Self::Conflict(why) => write!(f, "conflict: {why}"),
            Self::ChatMigrated(_) => f.write_str("the group became a supergroup"),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for Bot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bot").field("api", &self.0.api).finish_non_exhaustive()
    }
}

/// The client against servers that misbehave.
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::{
        Bot, BotCall, BotCallError, BotError, BotResponse, DownloadError, MessageText,
        OutgoingMessage,
    };
    use crate::address::{ChatAddress, ChatId, MessageId};
    use crate::bridge::{ApiAddress, BotToken, PlainHttp};

    const SECRET: &str = "123:sEcReT";

    fn bot(address: &str) -> Bot {
        let api = ApiAddress::parse(address, PlainHttp::LoopbackOnly).unwrap();
        Bot::new(api, BotToken::parse(SECRET).unwrap()).unwrap()
    }

    /// A server that answers each connection with these bytes and closes it.
    async fn answering(answer: &'static str) -> Bot {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut head = [0; 4096];
                let _ = socket.read(&mut head).await;
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        bot(&address)
    }

    fn hello() -> BotCall {
        BotCall::Send(OutgoingMessage {
            address: ChatAddress { chat: ChatId(7), topic: None },
            text: MessageText { html: "hi".to_owned(), plain: "hi".to_owned() },
            buttons: Vec::new(),
            notify: true,
            reply_to: None,
            force_reply: false,
        })
    }

    #[tokio::test]
    async fn a_refused_connection_is_known_not_to_have_reached_telegram_and_leaks_no_token() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let bot = bot(&format!("http://{address}"));
        let error = bot.call(&hello()).await.unwrap_err();
        assert!(matches!(error, BotError::Call(BotCallError::Unreachable(_))), "{error}");
        let Err(DownloadError::Failed(download)) = bot.download("x", 10).await else {
            panic!("a file")
        };
        for text in [format!("{error} {error:?}"), format!("{bot:?}"), format!("{download:?}")] {
            assert!(!text.contains("sEcReT"), "{text}");
        }
    }

    #[tokio::test]
    async fn a_broken_connection_may_have_reached_telegram_and_leaks_no_token() {
        for broken in ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", "nonsense\r\n\r\n"] {
            let error = answering(broken).await.call(&hello()).await.unwrap_err();
            assert!(
                matches!(error, BotError::Call(BotCallError::NoResponse(_))),
                "{broken}: {error}"
            );
            assert!(!format!("{error} {error:?}").contains("sEcReT"), "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let redirect =
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        let error = answering(redirect).await.call(&hello()).await.unwrap_err();
        assert!(matches!(error, BotError::Call(BotCallError::NoResponse(_))), "{error}");
    }

    #[tokio::test]
    async fn a_sent_message_has_an_id() {
        let body = r#"{"ok":true,"result":{"message_id":42}}"#;
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let response = answering(Box::leak(answer.into_boxed_str())).await.call(&hello()).await;
        assert_eq!(response, Ok(BotResponse::Sent(MessageId(42))));
    }

    #[tokio::test]
    async fn a_symbolic_link_is_not_sent() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("innocent.txt");
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        let call = BotCall::SendFile {
            address: ChatAddress { chat: ChatId(7), topic: None },
            path: link,
            picture: false,
        };
        let bot = bot("http://127.0.0.1:1");
        let sent = tokio::time::timeout(Duration::from_mins(1), bot.call(&call)).await.unwrap();
        assert!(matches!(sent, Err(BotError::Call(BotCallError::Rejected(_)))), "{sent:?}");
    }
}
