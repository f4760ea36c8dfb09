//! The Bot API over HTTP.
//!
//! Thin: a [`Call`] becomes one request, its answer a [`Reply`] or a [`Failure`]. The token is part
//! of every address, so no error of the HTTP client leaves here with its address. Everything has a
//! time limit; nothing is tried twice here.

mod answer;
mod file;
mod request;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::call::{Call, Failure, Reply};
use crate::place::{ChatId, UserId};
use crate::settings::{Api, Error, Token};
use answer::Answer;
pub(crate) use file::NotFetched;

/// How long a connection may take to come about.
const CONNECTING: Duration = Duration::from_secs(10);

/// How long a call may take.
const CALLING: Duration = Duration::from_secs(30);

/// How long Telegram is asked to wait for an update before it says that there is none.
const POLLING: Duration = Duration::from_secs(50);

/// How long a file may take, either way.
const CARRYING: Duration = Duration::from_mins(10);

/// How long an answer may be. A hundred updates with the longest texts have less than 4 MB.
const LONGEST: usize = 16 << 20;

/// A bot, signed in. Clones are the same bot.
#[derive(Clone)]
pub(crate) struct Bot(Arc<Inner>);

struct Inner {
    http: Client,
    api: Api,
    token: Token,
}

/// Who a bot is.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Me {
    /// Its number.
    pub(crate) id: UserId,
    /// Its name for everybody, without the `@`.
    #[serde(default)]
    pub(crate) username: String,
}

/// Why a method came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Telegram does not know the token.
    UnknownToken,
    /// Somebody else asks for the same bot's updates, or a webhook gets them.
    Conflict(String),
    /// The group goes by another number now.
    Moved(ChatId),
    /// Anything else.
    Failure(Failure),
}

impl Bot {
    /// A bot that has not said anything yet.
    pub(crate) fn new(api: Api, token: Token) -> Result<Self, Error> {
        // The process has one provider of cryptography; `reqwest` brings none. Later calls change nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = Client::builder()
            .connect_timeout(CONNECTING)
            // The address has the token in it, so nobody is to be sent on with it.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false);
        if api.is_loopback() {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|_| Error::Client)?;
        Ok(Self(Arc::new(Inner { http, api, token })))
    }

    /// Who the bot is.
    pub(crate) async fn me(&self) -> Result<Me, Trouble> {
        self.ask("getMe", &json!({}), CALLING).await
    }

    /// Has updates wait to be fetched; those that are there stay.
    pub(crate) async fn without_webhook(&self) -> Result<(), Trouble> {
        let all = json!({ "drop_pending_updates": false });
        self.ask::<Value>("deleteWebhook", &all, CALLING).await.map(drop)
    }

    /// Says which commands there are.
    pub(crate) async fn set_commands(&self, commands: &[(&str, &str)]) -> Result<(), Trouble> {
        let commands = commands.iter().map(
            |(command, description)| json!({ "command": command, "description": description }),
        );
        let commands = json!({ "commands": commands.collect::<Vec<_>>() });
        self.ask::<Value>("setMyCommands", &commands, CALLING).await.map(drop)
    }

    /// Updates from a number on; those before it are done with. Waits for one.
    pub(crate) async fn updates(&self, offset: i64) -> Result<Vec<Box<RawValue>>, Trouble> {
        let wanted = json!({
            "offset": offset,
            "timeout": POLLING.as_secs(),
            "allowed_updates": ["message", "edited_message", "callback_query"],
        });
        self.ask("getUpdates", &wanted, POLLING + CALLING).await
    }

    /// Makes a call.
    pub(crate) async fn call(&self, call: &Call) -> Result<Reply, Trouble> {
        let (limit, request) = match request::of(call).await? {
            request::Request::Plain { method, body } => (CALLING, self.request(method).json(&body)),
            request::Request::File { method, form } => {
                (CARRYING, self.request(method).multipart(form))
            }
        };
        let result: Box<RawValue> = self.answer(request, limit).await?;
        Ok(match call {
            Call::Send(_) | Call::SendFile { .. } | Call::SendText { .. } => {
                answer::message(&result).map_or(Reply::Done, Reply::Sent)
            }
            Call::Edit { .. }
            | Call::Draft { .. }
            | Call::Delete { .. }
            | Call::Typing(_)
            | Call::Answer { .. } => Reply::Done,
        })
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        body: &Value,
        limit: Duration,
    ) -> Result<T, Trouble> {
        self.answer(self.request(method).json(body), limit).await
    }

    fn request(&self, method: &str) -> RequestBuilder {
        let Inner { http, api, token } = &*self.0;
        http.post(format!("{}/bot{}/{method}", api.base(), token.reveal()))
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        limit: Duration,
    ) -> Result<T, Trouble> {
        let response = request.timeout(limit).send().await.map_err(no_answer)?;
        let status = response.status();
        let body = file::body(response, LONGEST).await.map_err(|why| match why {
            // Telegram has heard of it, so it may have happened.
            NotFetched::Failed(why) => Failure::Unknown(why.to_string()),
            NotFetched::TooLarge => Failure::Unknown("a boundless answer".to_owned()),
        })?;
        Answer::read(status, &body)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownToken => f.write_str("the token is not known"),
            Self::Conflict(why) => write!(f, "conflict: {why}"),
            Self::Moved(_) => f.write_str("the group has another number"),
            Self::Failure(failure) => failure.fmt(f),
        }
    }
}

impl fmt::Debug for Bot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bot").field("api", &self.0.api).finish_non_exhaustive()
    }
}

/// What an error of the HTTP client means, without the address it happened at.
fn no_answer(error: reqwest::Error) -> Failure {
    let before = error.is_connect() || error.is_builder();
    let words = in_words(error);
    if before { Failure::NotReached(words) } else { Failure::Unknown(words) }
}

/// An error and its causes, without the address.
fn in_words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(deeper) = cause {
        words = format!("{words}: {deeper}");
        cause = deeper.source();
    }
    words
}

#[cfg(test)]
mod tests;
