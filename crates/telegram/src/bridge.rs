//! The bridge as a program runs it: its configuration, its start and its errors.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use session::{Roots, Sessions};
use thiserror::Error;
use tokio::time::sleep;
use tracing::warn;
use uuid::Uuid;

use crate::address::TelegramUserId;
use crate::bot::{Bot, BotCallError, BotError, BotIdentity};
use crate::dispatcher::{BridgeClock, BridgeState, Dispatcher, JobContext};
use crate::inbound::{DOWNLOAD_LIMIT, Inbound, InboundConfig};
use crate::replies;
use crate::state_store::{JournalStore, StateStore, StateStoreError};

/// The longest wait between attempts to reach Telegram at the start.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The namespace of the ids that the bridge makes.
const NAMESPACE: Uuid = Uuid::from_u128(0x746f_7770_6174_6854_8000_7465_6c65_6772);

/// A bot that Telegram has accepted, ready to run.
pub struct Bridge {
    bot: Bot,
    identity: BotIdentity,
    inbound: Inbound,
    roots: Roots,
    clock: BridgeClock,
    zone: String,
}

#[derive(Clone, Debug)]
pub struct BridgeConfig {
    pub token: BotToken,
    pub api: ApiAddress,
    /// The users who may use the bot. An empty list allows no one.
    pub allowed_users: Vec<TelegramUserId>,
    /// Those of them who may set the options that can run programs on this machine.
    pub admins: Vec<TelegramUserId>,
    /// The directories below which sessions may work. `/new` without a directory uses the first.
    pub roots: Roots,
    /// The IANA name of the time zone in which users mean times, unless they name another.
    pub zone: String,
    /// How many times faster than real time the bridge's clock runs: 1, except in tests against a
    /// Bot API whose clock runs faster too.
    pub clock_speed: u32,
}

impl Bridge {
    /// Signs in, and retries for as long as Telegram cannot be reached.
    pub async fn connect(config: BridgeConfig) -> Result<Self, Error> {
        let BridgeConfig { token, api, allowed_users, admins, roots, zone, clock_speed } = config;
        let bot = Bot::new(api, token)?;
        let clock = BridgeClock::new(clock_speed);
        let identity = identify(clock, &bot).await?;
        // The bot works without either. The poller removes a webhook that is in its way.
        for done in [bot.delete_webhook().await, bot.set_commands(replies::commands()).await] {
            if let Err(error) = done {
                warn!(%error, "could not set up the bot completely");
            }
        }
        let inbound = Inbound::new(InboundConfig {
            allowed_users: allowed_users.into_iter().collect(),
            admins: admins.into_iter().collect(),
            bot: identity.id,
            username: identity.username.clone(),
            download_limit: DOWNLOAD_LIMIT,
        });
        Ok(Self { bot, identity, inbound, roots, clock, zone })
    }

    /// The bot's username without the `@`.
    pub fn bot_name(&self) -> &str {
        &self.identity.username
    }

    /// Runs until `shutdown`, with its state in the journal of the sessions. Sessions are left running.
    pub async fn run(
        self,
        sessions: Sessions,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let store = Arc::new(JournalStore(sessions.journal().clone()));
        self.run_with(sessions, store, shutdown).await
    }

    /// The same, with its state elsewhere.
    pub async fn run_with(
        self,
        sessions: Sessions,
        store: Arc<dyn StateStore>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let Self { bot, identity, inbound, roots, clock, zone } = self;
        let namespace = Uuid::new_v5(&NAMESPACE, &identity.id.0.to_be_bytes());
        let state = BridgeState::read(&*store).await?;
        let context = JobContext { bot, sessions, roots, clock, zone, namespace };
        Dispatcher::run(context, inbound, store, state, shutdown).await
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge")
            .field("bot", &self.bot)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Asks Telegram who the bot is until it accepts or rejects the token.
async fn identify(clock: BridgeClock, bot: &Bot) -> Result<BotIdentity, Error> {
    let mut backoff = Duration::from_secs(1);
    loop {
        let pause = match bot.identity().await {
            Ok(identity) => return Ok(identity),
            // A server answers a malformed token with 404.
            Err(BotError::InvalidToken | BotError::Call(BotCallError::Rejected(_))) => {
                return Err(Error::InvalidToken);
            }
            Err(BotError::Call(BotCallError::RateLimited(after))) => after,
            Err(error) => {
                warn!(%error, "could not reach Telegram; retrying");
                backoff
            }
        };
        sleep(clock.real_span(pause)).await;
        backoff = (backoff * 2).min(MAX_BACKOFF);
    }
}

/// The address of a Bot API server, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiAddress {
    base: String,
    loopback: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ApiAddressError {
    #[error("it must begin with `https://` or `http://`, and must not contain `?`, `#` or `@`")]
    Invalid,
    #[error("the token and all messages would be sent unencrypted")]
    Unencrypted,
}

/// Whether unencrypted HTTP may leave this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainHttp {
    LoopbackOnly,
    Allowed,
}

impl ApiAddress {
    /// Telegram's own server.
    pub fn official() -> Self {
        Self { base: "https://api.telegram.org".to_owned(), loopback: false }
    }

    pub fn parse(address: &str, plain_http: PlainHttp) -> Result<Self, ApiAddressError> {
        let base = address.trim_end_matches('/');
        let (scheme, rest) = base.split_once("://").ok_or(ApiAddressError::Invalid)?;
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.is_empty() || base.contains(['?', '#', '@', ' ']) {
            return Err(ApiAddressError::Invalid);
        }
        let host = match authority.strip_prefix('[') {
            Some(address) => address.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        let ip = host.parse::<std::net::IpAddr>();
        let loopback = host == "localhost" || ip.is_ok_and(|it| it.is_loopback());
        match scheme {
            "https" => {}
            "http" if loopback || plain_http == PlainHttp::Allowed => {}
            "http" => return Err(ApiAddressError::Unencrypted),
            _ => return Err(ApiAddressError::Invalid),
        }
        Ok(Self { base: base.to_owned(), loopback })
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.loopback
    }
}

/// The secret that a bot signs in with. It is part of every request's URL, so it must not appear in
/// anything that is printed.
#[derive(Clone, PartialEq, Eq)]
pub struct BotToken(String);

impl BotToken {
    /// Accepts a number, a colon, and characters that are safe in a URL.
    pub fn parse(secret: &str) -> Option<Self> {
        let secret = secret.trim();
        let (number, rest) = secret.split_once(':')?;
        let is_number = !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
        let safe = |it: u8| it.is_ascii_alphanumeric() || it == b'_' || it == b'-';
        (is_number && !rest.is_empty() && rest.bytes().all(safe)).then(|| Self(secret.to_owned()))
    }

    /// The number of the bot, which is no secret.
    pub fn bot_id(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BotToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BotToken(…)")
    }
}

/// Why the bridge could not start, or had to stop.
#[derive(Debug, Error)]
pub enum Error {
    #[error("Telegram does not accept this bot token")]
    InvalidToken,
    #[error(transparent)]
    State(#[from] StateStoreError),
    #[error("could not set up the HTTP client")]
    HttpClient,
}

#[cfg(test)]
mod tests {
    use super::{ApiAddress, ApiAddressError, BotToken, PlainHttp};

    #[test]
    fn a_token_leaves_the_machine_unencrypted_only_if_that_is_allowed() {
        for (address, expected) in [
            ("https://bots.example/", Ok(())),
            ("http://127.0.0.1:8081", Ok(())),
            ("http://[::1]:8081/x", Ok(())),
            ("http://localhost", Ok(())),
            ("http://bots.example", Err(ApiAddressError::Unencrypted)),
            ("http://127.0.0.1.example", Err(ApiAddressError::Unencrypted)),
            ("http://127.0.0.1@evil.example", Err(ApiAddressError::Invalid)),
            ("ftp://bots.example", Err(ApiAddressError::Invalid)),
            ("https://", Err(ApiAddressError::Invalid)),
            ("bots.example", Err(ApiAddressError::Invalid)),
        ] {
            let parsed = ApiAddress::parse(address, PlainHttp::LoopbackOnly).map(drop);
            assert_eq!(parsed, expected, "{address}");
        }
        assert!(ApiAddress::parse("http://bots.example", PlainHttp::Allowed).is_ok());
        let address = ApiAddress::parse("https://a/", PlainHttp::LoopbackOnly).unwrap();
        assert_eq!(address.base(), "https://a");
    }

    #[test]
    fn a_token_cannot_change_the_url_it_is_part_of() {
        assert!(BotToken::parse(" 123:AA-bb_9\n").is_some());
        for odd in ["", "123", "123:", ":x", "a:x", "1:x/../y", "1:x?y", "1:x y", "1:é"] {
            assert_eq!(BotToken::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_token_is_not_printed() {
        let token = BotToken::parse("123:secret").unwrap();
        assert!(!format!("{token:?}").contains("secret"));
    }
}
