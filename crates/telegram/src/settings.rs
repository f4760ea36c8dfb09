//! How a bridge is set up.

use std::fmt;

use session::Roots;
use thiserror::Error;

use crate::place::UserId;

/// How a bridge is set up.
#[derive(Debug)]
pub struct Settings {
    /// What the bot signs in with.
    pub token: Token,
    /// Where the Bot API is.
    pub api: Api,
    /// Who may use it. Nobody, where it is empty.
    pub allow: Vec<UserId>,
    /// Where sessions may work; `/new` without a directory takes the first.
    pub roots: Roots,
    /// How many times faster than the world's the bridge's clock runs; 1 but where a test has a
    /// Telegram whose clock runs so too.
    pub hurry: u32,
}

/// Where the Bot API is: an address without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    base: String,
    loopback: bool,
}

/// Why an address is not where a Bot API can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadApi {
    /// It is no address.
    #[error("it must begin with `https://` or `http://`, and have no `?`, `#` or `@`")]
    NoAddress,
    /// The token and everything said would go unencrypted beyond this machine.
    #[error("nothing would be encrypted on the way there")]
    Plain,
}

impl Api {
    /// Telegram's own.
    pub fn official() -> Self {
        Self { base: "https://api.telegram.org".to_owned(), loopback: false }
    }

    /// A server of one's own. Without encryption only on this machine, unless that is said to be
    /// wanted.
    pub fn at(address: &str, plain: Plain) -> Result<Self, BadApi> {
        let base = address.trim_end_matches('/');
        let (scheme, rest) = base.split_once("://").ok_or(BadApi::NoAddress)?;
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.is_empty() || base.contains(['?', '#', '@', ' ']) {
            return Err(BadApi::NoAddress);
        }
        let host = match authority.strip_prefix('[') {
            Some(address) => address.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        let number = host.parse::<std::net::IpAddr>();
        let loopback = host == "localhost" || number.is_ok_and(|it| it.is_loopback());
        match scheme {
            "https" => {}
            "http" if loopback || plain == Plain::Wanted => {}
            "http" => return Err(BadApi::Plain),
            _ => return Err(BadApi::NoAddress),
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

/// Whether it is all right to speak without encryption beyond this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// It is not.
    Refused,
    /// Somebody said so.
    Wanted,
}

/// What a bot signs in with. It is part of every address, so it is kept out of everything printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token as the environment gives it: a number, a colon, and letters that may stand in an
    /// address. Nothing where it is something else.
    pub fn new(secret: &str) -> Option<Self> {
        let secret = secret.trim();
        let (number, rest) = secret.split_once(':')?;
        let is_number = !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
        let plain = |it: u8| it.is_ascii_alphanumeric() || it == b'_' || it == b'-';
        (is_number && !rest.is_empty() && rest.bytes().all(plain)).then(|| Self(secret.to_owned()))
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Why the bridge could not begin, or cannot go on.
#[derive(Debug, Error)]
pub enum Error {
    /// Telegram does not know the token.
    #[error("Telegram does not know this token")]
    UnknownToken,
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// Nothing to speak over HTTP with.
    #[error("could not set up the HTTP client")]
    Client,
}

#[cfg(test)]
mod tests {
    use super::{Api, BadApi, Plain, Token};

    #[test]
    fn a_token_goes_nowhere_unencrypted_unless_somebody_says_so() {
        for (address, given) in [
            ("https://bots.example/", Ok(())),
            ("http://127.0.0.1:8081", Ok(())),
            ("http://[::1]:8081/x", Ok(())),
            ("http://localhost", Ok(())),
            ("http://bots.example", Err(BadApi::Plain)),
            ("http://127.0.0.1.example", Err(BadApi::Plain)),
            ("http://127.0.0.1@evil.example", Err(BadApi::NoAddress)),
            ("ftp://bots.example", Err(BadApi::NoAddress)),
            ("https://", Err(BadApi::NoAddress)),
            ("bots.example", Err(BadApi::NoAddress)),
        ] {
            assert_eq!(Api::at(address, Plain::Refused).map(drop), given, "{address}");
        }
        assert!(Api::at("http://bots.example", Plain::Wanted).is_ok());
        assert_eq!(Api::at("https://a/", Plain::Refused).unwrap().base(), "https://a");
    }

    #[test]
    fn a_token_cannot_change_the_address_it_is_part_of() {
        assert!(Token::new(" 123:AA-bb_9\n").is_some());
        for odd in ["", "123", "123:", ":x", "a:x", "1:x/../y", "1:x?y", "1:x y", "1:é"] {
            assert_eq!(Token::new(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_token_is_not_printed() {
        let token = Token::new("123:secret").unwrap();
        assert!(!format!("{token:?}").contains("secret"));
    }
}
