//! Whence the model's words come: an API over HTTP, or a script in the process.

mod demo;
mod http;
mod speech;
mod sse;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::effect::RequestNumber;
use super::input::{Input, Reply, Trouble};
use super::surroundings::Surroundings;
use super::{Arguments, Refusal};
use crate::api::{Options, Script, Server};
use crate::scenario::{Names, Scenario, Version};

/// The version whose replies a scenario gives, where it gives them by version.
const PLAYED: Version = Version(2, 1, 325);
/// Time between the deltas of the demonstration, where nobody says otherwise.
const PACE: Duration = Duration::from_millis(12);

/// A source of replies.
#[derive(Debug)]
pub(crate) enum Model {
    /// The Messages API.
    Api(http::Api),
    /// A scenario's replies, from an API in this process.
    Scenario {
        /// Asks it.
        api: http::Api,
        /// Stops when it is dropped.
        _server: Server,
    },
    /// The demonstration.
    Demonstration {
        /// Where its files go.
        cwd: PathBuf,
        /// Time between deltas.
        pace: Duration,
    },
    /// Nobody: there is an API, but no key to it.
    Nobody,
}

impl Model {
    /// The source that arguments and surroundings name.
    pub(crate) async fn choose(
        arguments: &Arguments,
        around: &Surroundings,
    ) -> Result<Self, Refusal> {
        if let Some(path) = arguments.scenario.as_ref().or(around.scenario.as_ref()) {
            let unreadable = |error: &dyn std::error::Error| Refusal(format!("Error: {error}"));
            let scenario = Scenario::load(path).map_err(|error| unreadable(&error))?;
            let mut names = Names::default();
            names.set("cwd", around.cwd.display().to_string());
            names.set("home", around.home.display().to_string());
            let replies = scenario.replies.iter().filter(|item| item.versions.contains(PLAYED));
            let script = Script::new(replies.map(|item| item.what.filled(&names)));
            let script = script.map_err(|error| unreadable(&error))?;
            let server = Server::start(script, Options::default()).await;
            let server = server.map_err(|error| unreadable(&error))?;
            return Ok(Self::Scenario {
                api: http::Api::new(&server.url, around),
                _server: server,
            });
        }
        let key = around.api_key.is_some() || around.auth_token.is_some();
        Ok(match &around.base_url {
            Some(url) if key => Self::Api(http::Api::new(url, around)),
            Some(_) => Self::Nobody,
            None => {
                let (cwd, pace) = (around.cwd.clone(), around.pace.unwrap_or(PACE));
                Self::Demonstration { cwd, pace }
            }
        })
    }

    /// Whether it is the demonstration, which wants every tool there is.
    pub(crate) fn is_demonstration(&self) -> bool {
        matches!(self, Self::Demonstration { .. })
    }

    /// Asks; what comes of it goes to `inputs`, which holds the answer up when it is full.
    pub(crate) fn ask(
        &self,
        number: RequestNumber,
        body: Value,
        inputs: mpsc::Sender<Input>,
    ) -> JoinHandle<()> {
        match self {
            Self::Api(api) | Self::Scenario { api, .. } => {
                tokio::spawn(api.clone().ask(number, body, inputs))
            }
            Self::Demonstration { cwd, pace } => {
                let blocks = demo::reply(&body, cwd);
                tokio::spawn(speech::speak(blocks, body["model"].clone(), number, *pace, inputs))
            }
            Self::Nobody => tokio::spawn(async move {
                let kind = Some("no_key".to_owned());
                let trouble = Trouble { kind, ..Trouble::default() };
                drop(inputs.send(Input::Reply(number, Reply::Failed(trouble))).await);
            }),
        }
    }
}
