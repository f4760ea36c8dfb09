//! How strict the server is, and how fast its clock runs.

use std::time::Duration;

/// How a server is run. The defaults are the strict reading of Telegram's limits.
#[derive(Clone, Debug)]
pub struct BotApiOptions {
    /// The one token that is let in; its number is the bot's id.
    pub token: String,
    /// The bot's name, without the `@`.
    pub username: String,
    /// How fast the API's clock runs: 10.0 makes a minute pass in six seconds. Dates, rates,
    /// `retry_after`, expiries and the time-outs of long polls are all on that clock.
    pub speed: f64,
    /// What the bot may send.
    pub rates: Rates,
    /// How long a tap can be answered.
    pub callback_life: Duration,
    /// How long a draft stays on the screen after its last change.
    pub draft_life: Duration,
    /// Whether a draft may be empty and stand for “Thinking…”, as it may since Bot API 10.0.
    pub empty_drafts: bool,
    /// Whether private chats have topics.
    pub private_topics: bool,
}

/// What the bot may send. Edits count as messages; an album counts as many as it holds.
#[derive(Clone, Debug)]
pub struct Rates {
    /// The time after which a chat takes another message.
    pub chat_interval: Duration,
    /// How many messages a chat takes at once after it was quiet.
    pub chat_burst: u32,
    /// How many messages a group takes within a minute.
    pub group_minute: usize,
    /// How many messages all chats take within a second.
    pub overall_second: usize,
    /// Whether drafts count among them. Telegram does not say; the strict reading is that they do.
    pub overall_counts_drafts: bool,
    /// The time after which a chat takes another draft.
    pub draft_interval: Duration,
    /// How many drafts a chat takes at once after it was quiet.
    pub draft_burst: u32,
    /// How much too early a call may come, in our time: what the way here may have cost the call
    /// before it.
    pub leeway: Duration,
}

impl Default for BotApiOptions {
    fn default() -> Self {
        Self {
            token: "700001:the_token-of-a-bot-that-is-not".to_owned(),
            username: "towpath_bot".to_owned(),
            speed: 1.0,
            rates: Rates::default(),
            callback_life: Duration::from_secs(15),
            draft_life: Duration::from_secs(30),
            empty_drafts: false,
            private_topics: false,
        }
    }
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            chat_interval: Duration::from_secs(1),
            chat_burst: 3,
            group_minute: 20,
            overall_second: 30,
            overall_counts_drafts: true,
            draft_interval: Duration::from_millis(250),
            draft_burst: 3,
            leeway: Duration::from_millis(50),
        }
    }
}

impl Rates {
    /// No limit that a test could reach.
    pub fn unlimited() -> Self {
        Self {
            chat_interval: Duration::ZERO,
            chat_burst: 1,
            group_minute: usize::MAX,
            overall_second: usize::MAX,
            overall_counts_drafts: false,
            draft_interval: Duration::ZERO,
            draft_burst: 1,
            leeway: Duration::ZERO,
        }
    }
}
