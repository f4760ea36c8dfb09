//! The bot's configuration, from the command line and the environment.

use clap::Args;
use session::Roots;
use telegram::{ApiAddress, ApiAddressError, BotToken, BridgeConfig, PlainHttp, TelegramUserId};

use crate::schedule::system_zone;
use crate::settings::CliSettings;

/// The options of the bot.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TelegramBotArgs {
    /// A user who may use the bot, by Telegram user id; may be given several times. Other users
    /// are ignored and logged
    #[arg(long = "allow", value_name = "USER_ID", value_delimiter = ',')]
    pub(crate) allow: Vec<i64>,
    /// A user who may use the bot and also set options that can run programs on this machine
    /// (`environment`, `mcp_config`, the mode `bypassPermissions`); may be given several times
    #[arg(long = "admin", value_name = "USER_ID", value_delimiter = ',')]
    pub(crate) admins: Vec<i64>,
    /// Use another Bot API server [default: `https://api.telegram.org`]
    #[arg(long, value_name = "URL")]
    pub(crate) api_url: Option<String>,
    /// Allow an unencrypted connection to that server beyond this machine. Everyone on the way can
    /// read the messages and take over the bot
    #[arg(long, requires = "api_url")]
    pub(crate) api_without_tls: bool,
    /// How many times faster Telegram's clock runs, for tests
    #[arg(long, alias = "hurry", value_name = "TIMES", default_value_t = 1, hide = true)]
    pub(crate) clock_speed: u32,
}

/// Why the bot cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TelegramError {
    #[error("`TOWPATH_TELEGRAM_TOKEN` is not set")]
    NoToken,
    #[error("`TOWPATH_TELEGRAM_TOKEN` is not a bot token")]
    InvalidToken,
    #[error("`{0}` is not a usable Bot API address")]
    ApiAddress(String, #[source] ApiAddressError),
    #[error(transparent)]
    Bridge(#[from] telegram::Error),
}

impl TelegramError {
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoToken => {
                "send `/newbot` to @BotFather in Telegram, and set `TOWPATH_TELEGRAM_TOKEN` to the \
                 token it gives you"
            }
            Self::InvalidToken => "a token of @BotFather looks like `123456789:AAF…`",
            Self::ApiAddress(_, ApiAddressError::Unencrypted) => {
                "use `https://`, or `--api-without-tls` if the network is safe"
            }
            Self::Bridge(telegram::Error::InvalidToken) => {
                "send `/mybots` to @BotFather to see the tokens of your bots"
            }
            Self::ApiAddress(..) | Self::Bridge(_) => return None,
        };
        Some(hint.to_owned())
    }
}

impl TelegramBotArgs {
    pub(crate) fn config(
        &self,
        settings: &CliSettings,
        roots: Roots,
    ) -> Result<BridgeConfig, TelegramError> {
        let token = settings.telegram_token().ok_or(TelegramError::NoToken)?;
        let token = BotToken::parse(token).ok_or(TelegramError::InvalidToken)?;
        let plain_http =
            if self.api_without_tls { PlainHttp::Allowed } else { PlainHttp::LoopbackOnly };
        let api = match &self.api_url {
            None => ApiAddress::official(),
            Some(url) => ApiAddress::parse(url, plain_http)
                .map_err(|error| TelegramError::ApiAddress(url.clone(), error))?,
        };
        let allowed = self.allow.iter().chain(&self.admins);
        let allowed_users = allowed.copied().map(TelegramUserId).collect();
        let admins = self.admins.iter().copied().map(TelegramUserId).collect();
        let clock_speed = self.clock_speed;
        let zone = system_zone();
        Ok(BridgeConfig { token, api, allowed_users, admins, roots, zone, clock_speed })
    }
}
