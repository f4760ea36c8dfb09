//! A conversation with the model: the main one, or a helper's.

use std::time::SystemTime;

use serde_json::Value;

use super::call::Call;
use crate::play::effect::RequestNumber;
use crate::play::history::History;
use crate::play::message::Message;

/// Who talks with the model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Speaker {
    /// The session itself.
    Main,
    /// A sub-agent, by its id.
    Helper(String),
}

/// A conversation with the model.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) speaker: Speaker,
    pub(crate) history: History,
    /// The request that is under way.
    pub(crate) asked: Option<Asked>,
    /// The reply that comes, or came last.
    pub(crate) message: Option<Message>,
    /// The calls of that reply, in its order.
    pub(crate) calls: Vec<Call>,
    /// What went wrong so far with what is being asked.
    pub(crate) stumbles: Stumbles,
}

/// A request that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) number: RequestNumber,
    /// The API's name for it.
    pub(crate) id: Option<String>,
    pub(crate) sent: SystemTime,
    pub(crate) streaming: bool,
    /// Whether it waits for its next attempt.
    pub(crate) paused: bool,
    pub(crate) body: Value,
    /// Whether it sums the conversation up.
    pub(crate) summary: bool,
}

/// What went wrong so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stumbles {
    /// Attempts that failed.
    pub(crate) retries: u32,
    /// Attempts that the API called wrong, each of which had fewer features of the request.
    pub(crate) plainer: u32,
    /// Streams that failed before they said anything.
    pub(crate) streams: u32,
    /// Replies that broke off and were to be continued.
    pub(crate) continued: u32,
    /// Replies cut by the limit of tokens.
    pub(crate) cut: u32,
    /// Replies without anything to see.
    pub(crate) empty: u32,
    /// Replies that a classifier stopped.
    pub(crate) refused: u32,
}

impl Talk {
    /// A conversation that goes on.
    pub(crate) fn resumed(speaker: Speaker, history: History) -> Self {
        let (calls, stumbles) = (Vec::new(), Stumbles::default());
        Self { speaker, history, asked: None, message: None, calls, stumbles }
    }

    /// Whether every call of the reply has its result.
    pub(crate) fn is_settled(&self) -> bool {
        self.calls.iter().all(Call::is_done)
    }
}
