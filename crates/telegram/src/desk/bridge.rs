//! The bridge as whoever runs it sees it.

use std::fmt;
use std::time::Duration;

use session::{Roots, Sessions};
use tokio::time::sleep;
use tracing::warn;
use uuid::Uuid;

use super::Desk;
use super::clock::Clock;
use super::drawer::Kept;
use super::errand::Means;
use crate::bot::{Bot, Me, Trouble};
use crate::call::Failure;
use crate::front::{DOWNLOAD, Front, Rules};
use crate::replies;
use crate::settings::{Error, Settings};

/// The longest wait between attempts to reach Telegram at the start.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Ids of ours are made below this one.
const NAMESPACE: Uuid = Uuid::from_u128(0x746f_7770_6174_6854_8000_7465_6c65_6772);

/// A bot that Telegram knows, ready to be run.
pub struct Bridge {
    bot: Bot,
    me: Me,
    front: Front,
    roots: Roots,
    clock: Clock,
}

impl Bridge {
    /// Signs in. Where Telegram cannot be reached it is tried until it can.
    pub async fn meet(settings: Settings) -> Result<Self, Error> {
        let Settings { token, api, allow, roots, hurry } = settings;
        let bot = Bot::new(api, token)?;
        let clock = Clock::new(hurry);
        let me = patiently(clock, &bot).await?;
        // A bot works without either: the poller removes a webhook that is in its way.
        for made in [bot.without_webhook().await, bot.set_commands(replies::commands()).await] {
            if let Err(trouble) = made {
                warn!(%trouble, "the bot could not be set up completely");
            }
        }
        let front = Front::new(Rules {
            allow: allow.into_iter().collect(),
            bot: me.id,
            username: me.username.clone(),
            download: DOWNLOAD,
        });
        Ok(Self { bot, me, front, roots, clock })
    }

    /// The bot's name for everybody, without the `@`.
    pub fn name(&self) -> &str {
        &self.me.username
    }

    /// Runs until `shutdown`. Sessions are left as they are.
    pub async fn run(
        self,
        sessions: Sessions,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let Self { bot, me, front, roots, clock } = self;
        let namespace = Uuid::new_v5(&NAMESPACE, &me.id.0.to_be_bytes());
        let kept = Kept::read(sessions.journal()).await?;
        let means = Means { bot, sessions, roots, clock, namespace };
        Desk::run(means, front, kept, shutdown).await
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge")
            .field("bot", &self.bot)
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}

/// Asks who the bot is until there is an answer that counts.
async fn patiently(clock: Clock, bot: &Bot) -> Result<Me, Error> {
    let mut wait = Duration::from_secs(1);
    loop {
        let pause = match bot.me().await {
            Ok(me) => return Ok(me),
            // A server says 404 to a token that is none.
            Err(Trouble::UnknownToken | Trouble::Failure(Failure::Refused(_))) => {
                return Err(Error::UnknownToken);
            }
            Err(Trouble::Failure(Failure::TooFast(after))) => after,
            Err(trouble) => {
                warn!(%trouble, "Telegram cannot be reached; trying again");
                wait
            }
        };
        sleep(clock.span(pause)).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}
