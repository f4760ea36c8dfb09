//! What the command line and the environment say about the bot.

use clap::Args;
use session::Roots;
use telegram::{Api, BadApi, Plain, Token, UserId};

use crate::settings::Settings;

/// What the command line says about the bot.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct BotChoice {
    /// Somebody who may use the bot, by Telegram's number of them; may be given several times.
    /// Nobody may otherwise; whoever tries is in the log
    #[arg(long = "allow", value_name = "USER_ID", value_delimiter = ',')]
    pub(crate) allow: Vec<i64>,
    /// A Bot API server of your own [default: `https://api.telegram.org`]
    #[arg(long, value_name = "URL")]
    pub(crate) api_url: Option<String>,
    /// Speak to that server unencrypted, also beyond this machine: everybody on the way can read
    /// along, and take the bot
    #[arg(long, requires = "api_url")]
    pub(crate) api_without_tls: bool,
    /// How many times faster Telegram's clock runs, for tests
    #[arg(long, value_name = "TIMES", default_value_t = 1, hide = true)]
    pub(crate) hurry: u32,
}

/// Why there is no bot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoBot {
    #[error("there is no token for the bot")]
    NoToken,
    #[error("`TOWPATH_TELEGRAM_TOKEN` does not hold a bot's token")]
    BadToken,
    #[error("the Bot API cannot be at `{0}`")]
    BadApi(String, #[source] BadApi),
    #[error(transparent)]
    Bridge(#[from] telegram::Error),
}

impl NoBot {
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoToken => {
                "write to @BotFather in Telegram, send `/newbot`, and put the token it gives you \
                 into `TOWPATH_TELEGRAM_TOKEN`"
            }
            Self::BadToken => "@BotFather gives tokens like `123456789:AAF…`",
            Self::BadApi(_, BadApi::Plain) => {
                "use `https://`, or say `--api-without-tls` if the way there is safe"
            }
            Self::Bridge(telegram::Error::UnknownToken) => {
                "@BotFather shows the tokens of your bots: send it `/mybots`"
            }
            Self::BadApi(..) | Self::Bridge(_) => return None,
        };
        Some(hint.to_owned())
    }
}

impl BotChoice {
    /// How the bridge is set up.
    pub(crate) fn bridge(
        &self,
        settings: &Settings,
        roots: Roots,
    ) -> Result<telegram::Settings, NoBot> {
        let token = settings.telegram_token().ok_or(NoBot::NoToken)?;
        let token = Token::new(token).ok_or(NoBot::BadToken)?;
        let plain = if self.api_without_tls { Plain::Wanted } else { Plain::Refused };
        let api = match &self.api_url {
            None => Api::official(),
            Some(url) => {
                Api::at(url, plain).map_err(|problem| NoBot::BadApi(url.clone(), problem))?
            }
        };
        let allow = self.allow.iter().copied().map(UserId).collect();
        Ok(telegram::Settings { token, api, allow, roots, hurry: self.hurry })
    }
}
