//! Access tokens and the file they are stored in, which only this user can read.
//!
//! A running server and `towpath serve tokens` share the file. A writer holds its lock and reads it
//! again first; the server checks whether the file changed each time it looks up a token. So a
//! revoked token is refused from then on. Open streams end when the server is told to
//! [`reload`](TokenStore::reload).

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio::sync::watch;
use utoipa::ToSchema;

use crate::gateway::now;

/// How long a browser stays signed in, in milliseconds.
const COOKIE_LIFETIME: u64 = 90 * 24 * 60 * 60 * 1000;

/// How many browsers may be signed in; beyond that the oldest has to sign in again.
const MAX_COOKIES: usize = 256;

/// The access tokens of a data directory.
#[derive(Debug)]
pub struct TokenStore {
    path: PathBuf,
    cache: Mutex<TokenCache>,
    changes: watch::Sender<()>,
}

/// What a client may do. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Read.
    Watch,
    /// Send prompts, answer requests, change sessions.
    Drive,
    /// Manage tokens.
    Admin,
}

/// How a token is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// In a link or a program's configuration.
    Token,
    /// By a browser, which got it in exchange for a token.
    Cookie,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    /// A cookie has the name of the token it was exchanged for.
    pub name: String,
    pub role: Role,
    /// It may have a shell, which `admin` always may. Driving an agent that asks first is less.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
    #[serde(rename = "sort")]
    pub kind: TokenKind,
    pub(super) digest: TokenDigest,
    /// In milliseconds since 1970.
    pub created: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// What the browser runs on that got this cookie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<String>,
    /// The other gateways of the fleet have it, or had it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
}

/// A token or cookie as the gateways of a fleet share it, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedToken {
    /// The hash of its secret.
    pub key: String,
    pub value: Vec<u8>,
}

/// What the other gateways of a fleet do not know yet, and what they know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSharing {
    /// Tokens that only this gateway has.
    pub new: Vec<SharedToken>,
    /// The keys of those that the others have, or had.
    pub shared: Vec<String>,
    /// The keys of those that were removed here.
    pub removed: Vec<String>,
}

/// What a client presents. `Debug` does not show it, and it is never stored.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret(String);

/// The hash of a secret, which is all that is stored. Secrets are 256 random bits, so neither a
/// salt nor a slow hash would add anything, and the time of a comparison reveals nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TokenDigest(String);

/// The authorization of an open stream, which a client may hold for hours after its request was
/// checked.
#[derive(Debug)]
pub(crate) struct StreamAuthorization {
    /// `None` if a proxy signs users in.
    token: Option<TokenDigest>,
    tokens: Arc<TokenStore>,
    changes: watch::Receiver<()>,
}

#[derive(Debug, Default)]
struct TokenCache {
    stamp: Option<FileStamp>,
    tokens: Vec<AccessToken>,
}

/// Identifies a version of the file. The file is replaced and never written in place, so its inode
/// changes even if its time does not.
type FileStamp = (u64, i64, i64, u64);

#[derive(Default, Serialize, Deserialize)]
struct TokenFile {
    #[serde(rename = "keys")]
    tokens: Vec<AccessToken>,
    /// Shared tokens that were removed here, until the other gateways know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    removed: Vec<TokenDigest>,
}

/// Why tokens could not be read or stored.
#[derive(Debug, Error)]
pub enum TokenStoreError {
    #[error("could not use the token file `{path}`")]
    Io { path: PathBuf, source: io::Error },
    #[error("the token file `{path}` is damaged")]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("the system provided no random numbers")]
    NoRandomness,
    #[error("`{0}` is not a valid token name: use up to 64 letters, digits, `-`, `_` and `.`")]
    InvalidName(String),
    #[error("a token that may have a shell needs the role `drive` or `admin`")]
    ShellForWatcher,
}

impl TokenStore {
    /// A store without tokens, for what no client can reach.
    pub(crate) fn none() -> Self {
        Self { path: PathBuf::new(), cache: Mutex::default(), changes: watch::Sender::new(()) }
    }

    /// Opens the tokens of a data directory; there are none if the file does not exist yet.
    pub fn open(data: &Path) -> Result<Self, TokenStoreError> {
        let (path, changes) = (data.join("keys.json"), watch::Sender::new(()));
        let store = Self { path, cache: Mutex::default(), changes };
        store.reload()?;
        Ok(store)
    }

    /// Creates a token and replaces the one with that name. Browsers that signed in with the old
    /// one stay signed in.
    pub fn add(&self, name: &str, role: Role, now: u64) -> Result<TokenSecret, TokenStoreError> {
        self.create(name, role, false, now)
    }

    /// The same for a token that may also have a shell.
    pub fn add_with_shell(
        &self,
        name: &str,
        role: Role,
        now: u64,
    ) -> Result<TokenSecret, TokenStoreError> {
        if role == Role::Watch {
            return Err(TokenStoreError::ShellForWatcher);
        }
        self.create(name, role, true, now)
    }

    fn create(
        &self,
        name: &str,
        role: Role,
        shell: bool,
        now: u64,
    ) -> Result<TokenSecret, TokenStoreError> {
        let allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            return Err(TokenStoreError::InvalidName(name.to_owned()));
        }
        let secret = TokenSecret::random().map_err(|_| TokenStoreError::NoRandomness)?;
        let token = AccessToken {
            name: name.to_owned(),
            role,
            shell,
            kind: TokenKind::Token,
            digest: secret.digest(),
            created: now,
            expires: None,
            device: None,
            shared: false,
        };
        self.change(|tokens| {
            tokens.retain(|it| it.kind != TokenKind::Token || it.name != name);
            tokens.push(token);
        })?;
        Ok(secret)
    }

    /// Creates a cookie for the holder of a token.
    pub(crate) fn sign_in(
        &self,
        token: &AccessToken,
        device: Option<String>,
        now: u64,
    ) -> Result<TokenSecret, TokenStoreError> {
        let secret = TokenSecret::random().map_err(|_| TokenStoreError::NoRandomness)?;
        let cookie = AccessToken {
            kind: TokenKind::Cookie,
            digest: secret.digest(),
            created: now,
            expires: Some(now + COOKIE_LIFETIME),
            device,
            shared: false,
            ..token.clone()
        };
        self.change(|tokens| {
            tokens.retain(|it| it.is_valid(now));
            tokens.push(cookie);
            let cookies = tokens.iter().filter(|it| it.kind == TokenKind::Cookie).count();
            let mut excess = cookies.saturating_sub(MAX_COOKIES);
            tokens.retain(|it| {
                let remove = excess > 0 && it.kind == TokenKind::Cookie;
                excess -= usize::from(remove);
                !remove
            });
        })?;
        Ok(secret)
    }

    pub(crate) fn sign_out(&self, cookie: &TokenDigest) -> Result<(), TokenStoreError> {
        self.change(|tokens| tokens.retain(|it| it.digest != *cookie))
    }

    /// Revokes a token and every cookie it was exchanged for. Returns whether there was one.
    pub fn revoke(&self, name: &str) -> Result<bool, TokenStoreError> {
        let mut found = false;
        self.change(|tokens| {
            let before = tokens.len();
            tokens.retain(|it| it.name != name);
            found = tokens.len() < before;
        })?;
        Ok(found)
    }

    /// The tokens without the cookies, oldest first.
    pub fn tokens(&self) -> Result<Vec<AccessToken>, TokenStoreError> {
        self.with_tokens(|tokens| {
            tokens.iter().filter(|it| it.kind == TokenKind::Token).cloned().collect()
        })
    }

    /// The valid token a secret belongs to.
    pub(crate) fn find(
        &self,
        secret: &TokenSecret,
        kind: TokenKind,
        now: u64,
    ) -> Result<Option<AccessToken>, TokenStoreError> {
        let digest = secret.digest();
        let matches =
            |it: &&AccessToken| it.kind == kind && it.digest == digest && it.is_valid(now);
        self.with_tokens(|tokens| tokens.iter().find(matches).cloned())
    }

    /// The valid token or cookie with this hash.
    pub(crate) fn find_digest(
        &self,
        digest: &TokenDigest,
        now: u64,
    ) -> Result<Option<AccessToken>, TokenStoreError> {
        let matches = |it: &&AccessToken| it.digest == *digest && it.is_valid(now);
        self.with_tokens(|tokens| tokens.iter().find(matches).cloned())
    }

    /// Wakes when tokens are added or revoked.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Reads the file again if another process changed it, and ends the streams of tokens that
    /// were revoked.
    pub fn reload(&self) -> Result<(), TokenStoreError> {
        self.with_tokens(|_| ())
    }

    fn is_valid(&self, token: &TokenDigest, now: u64) -> Result<bool, TokenStoreError> {
        self.with_tokens(|all| all.iter().any(|it| it.digest == *token && it.is_valid(now)))
    }

    fn with_tokens<T>(
        &self,
        access: impl FnOnce(&[AccessToken]) -> T,
    ) -> Result<T, TokenStoreError> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = match fs::metadata(&self.path) {
            Ok(it) => Some((it.ino(), it.mtime(), it.mtime_nsec(), it.size())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(self.io_error(source)),
        };
        if stamp != cache.stamp {
            cache.tokens = if stamp.is_some() { self.load()?.tokens } else { Vec::new() };
            cache.stamp = stamp;
            self.changes.send_replace(());
        }
        Ok(access(&cache.tokens))
    }

    /// What the other gateways of a fleet know of the tokens.
    pub fn sharing(&self) -> Result<TokenSharing, TokenStoreError> {
        let TokenFile { tokens, removed } = self.load()?;
        let mut sharing = TokenSharing::default();
        for token in tokens {
            if token.shared {
                sharing.shared.push(token.digest.0);
            } else if let Ok(value) =
                serde_json::to_vec(&AccessToken { shared: true, ..token.clone() })
            {
                sharing.new.push(SharedToken { key: token.digest.0, value });
            }
        }
        sharing.removed = removed.into_iter().map(|it| it.0).collect();
        Ok(sharing)
    }

    /// Remembers that the other gateways have a token, so that it is revoked here when they do not have it any
    /// more.
    pub fn set_shared(&self, key: &str) -> Result<(), TokenStoreError> {
        self.rewrite(|file| {
            let token = file.tokens.iter_mut().find(|it| it.digest.0 == key);
            token.is_some_and(|token| !std::mem::replace(&mut token.shared, true))
        })
    }

    /// Forgets that a token was removed here, because the other gateways know.
    pub fn forget_removed(&self, key: &str) -> Result<(), TokenStoreError> {
        self.rewrite(|file| {
            let before = file.removed.len();
            file.removed.retain(|it| it.0 != key);
            file.removed.len() < before
        })
    }

    /// Adds a token that another gateway has. One that cannot be read, or that was removed here, is not added.
    pub fn adopt(&self, shared: &SharedToken) -> Result<(), TokenStoreError> {
        let Ok(token) = serde_json::from_slice::<AccessToken>(&shared.value) else { return Ok(()) };
        self.rewrite(|file| {
            let is_known = file.removed.contains(&token.digest)
                || file.tokens.iter().any(|it| it.digest == token.digest);
            if is_known || token.digest.0 != shared.key {
                return false;
            }
            file.tokens.push(AccessToken { shared: true, ..token });
            true
        })
    }

    /// Removes a token that another gateway has removed.
    pub fn disown(&self, key: &str) -> Result<(), TokenStoreError> {
        self.rewrite(|file| {
            let before = file.tokens.len();
            file.tokens.retain(|it| it.digest.0 != key);
            file.tokens.len() < before
        })
    }

    fn load(&self) -> Result<TokenFile, TokenStoreError> {
        match fs::read(&self.path) {
            Ok(text) => serde_json::from_slice::<TokenFile>(&text)
                .map_err(|source| TokenStoreError::Damaged { path: self.path.clone(), source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TokenFile::default()),
            Err(source) => Err(self.io_error(source)),
        }
    }

    /// Changes the tokens. Of those that are removed and that other gateways have, the keys are kept.
    fn change(&self, change: impl FnOnce(&mut Vec<AccessToken>)) -> Result<(), TokenStoreError> {
        self.rewrite(|file| {
            let shared = file.tokens.iter().filter(|it| it.shared);
            let shared: Vec<TokenDigest> = shared.map(|it| it.digest.clone()).collect();
            change(&mut file.tokens);
            let is_removed =
                |it: &TokenDigest| !file.tokens.iter().any(|token| token.digest == *it);
            let removed: Vec<TokenDigest> = shared.into_iter().filter(is_removed).collect();
            file.removed.extend(removed);
            true
        })
    }

    /// Changes the file if the change says that there is something to write.
    fn rewrite(&self, change: impl FnOnce(&mut TokenFile) -> bool) -> Result<(), TokenStoreError> {
        let lock = self.path.with_extension("lock");
        let lock = open_private(&lock).map_err(|it| self.io_error(it))?;
        lock.lock().map_err(|it| self.io_error(it))?;
        let mut file = self.load()?;
        if change(&mut file) {
            self.replace(&file).map_err(|it| self.io_error(it))?;
        }
        self.reload()
    }

    fn replace(&self, content: &TokenFile) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = open_private(&new)?;
        file.set_len(0)?;
        file.write_all(&serde_json::to_vec_pretty(content)?)?;
        file.sync_all()?;
        fs::rename(new, &self.path)
    }

    fn io_error(&self, source: io::Error) -> TokenStoreError {
        TokenStoreError::Io { path: self.path.clone(), source }
    }
}

impl AccessToken {
    /// Whether its holder may have a shell.
    pub(crate) fn may_have_shell(&self) -> bool {
        self.role.may_have_shell() || (self.shell && self.role >= Role::Drive)
    }

    fn is_valid(&self, now: u64) -> bool {
        self.expires.is_none_or(|expires| expires > now)
    }
}

impl Role {
    /// Whether the role alone allows a shell.
    pub(crate) fn may_have_shell(self) -> bool {
        self == Self::Admin
    }
}

impl TokenSecret {
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// A secret that a client presents.
    pub fn presented(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The secret itself, to be handed to its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn digest(&self) -> TokenDigest {
        TokenDigest(BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(self.0.as_bytes())))
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

impl StreamAuthorization {
    pub(crate) fn new(token: Option<TokenDigest>, tokens: Arc<TokenStore>) -> Self {
        let changes = tokens.changes.subscribe();
        Self { token, tokens, changes }
    }

    /// Waits until the token is revoked.
    pub(crate) async fn revoked(mut self) {
        let Some(token) = self.token else { return std::future::pending().await };
        // If the file cannot be read, nothing proves that the token is still valid.
        while self.tokens.is_valid(&token, now()).unwrap_or(false) {
            if self.changes.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Opens a file that only this user can read.
fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{COOKIE_LIFETIME, Role, TokenKind, TokenSecret, TokenStore};

    #[test]
    fn a_token_and_its_cookies_are_valid_until_another_process_revokes_them() {
        let data = tempfile::tempdir().unwrap();
        let server = TokenStore::open(data.path()).unwrap();
        let command = TokenStore::open(data.path()).unwrap();
        let secret = command.add("phone", Role::Drive, 1).unwrap();
        let token = server.find(&secret, TokenKind::Token, 2).unwrap().unwrap();
        assert_eq!((token.name.as_str(), token.role), ("phone", Role::Drive));
        let cookie = server.sign_in(&token, None, 2).unwrap();
        assert!(server.find(&cookie, TokenKind::Cookie, 3).unwrap().is_some());
        assert!(server.find(&cookie, TokenKind::Token, 3).unwrap().is_none(), "not a token");
        assert!(server.find(&cookie, TokenKind::Cookie, 3 + COOKIE_LIFETIME).unwrap().is_none());
        assert!(command.revoke("phone").unwrap());
        assert!(!command.revoke("phone").unwrap());
        assert!(server.find(&secret, TokenKind::Token, 4).unwrap().is_none());
        assert!(server.find(&cookie, TokenKind::Cookie, 4).unwrap().is_none());
    }

    #[test]
    fn the_file_holds_no_secret_and_only_this_user_can_read_it() {
        let data = tempfile::tempdir().unwrap();
        let store = TokenStore::open(data.path()).unwrap();
        let secret = store.add("link", Role::Admin, 1).unwrap();
        let path = data.path().join("keys.json");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(secret.reveal()));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for word in text.split('"') {
            let found = store.find(&TokenSecret::presented(word), TokenKind::Token, 2).unwrap();
            assert!(found.is_none(), "{word}");
        }
    }

    #[test]
    fn a_new_link_does_not_sign_browsers_out() {
        let data = tempfile::tempdir().unwrap();
        let store = TokenStore::open(data.path()).unwrap();
        let old = store.add("link", Role::Admin, 1).unwrap();
        let token = store.find(&old, TokenKind::Token, 1).unwrap().unwrap();
        let cookie = store.sign_in(&token, None, 1).unwrap();
        store.add("link", Role::Admin, 2).unwrap();
        assert!(store.find(&old, TokenKind::Token, 3).unwrap().is_none());
        assert!(store.find(&cookie, TokenKind::Cookie, 3).unwrap().is_some());
        store.sign_out(&cookie.digest()).unwrap();
        assert!(store.find(&cookie, TokenKind::Cookie, 3).unwrap().is_none());
        assert!(store.add("a b", Role::Watch, 1).is_err());
    }

    #[test]
    fn only_admins_and_tokens_with_that_right_may_have_a_shell() {
        let data = tempfile::tempdir().unwrap();
        let store = TokenStore::open(data.path()).unwrap();
        let may = |secret: &TokenSecret, kind| {
            store.find(secret, kind, 1).unwrap().unwrap().may_have_shell()
        };
        let drive = store.add("drive", Role::Drive, 1).unwrap();
        let admin = store.add("admin", Role::Admin, 1).unwrap();
        let shell = store.add_with_shell("shell", Role::Drive, 1).unwrap();
        let [drive, admin, shell] = [drive, admin, shell].map(|secret| {
            let token = store.find(&secret, TokenKind::Token, 1).unwrap().unwrap();
            let cookie = store.sign_in(&token, None, 1).unwrap();
            assert_eq!(may(&secret, TokenKind::Token), may(&cookie, TokenKind::Cookie));
            may(&secret, TokenKind::Token)
        });
        assert_eq!((drive, admin, shell), (false, true, true));
        assert!(store.add_with_shell("watch", Role::Watch, 1).is_err());
    }

    #[test]
    fn a_file_of_an_earlier_version_is_read() {
        let data = tempfile::tempdir().unwrap();
        let text =
            r#"{"keys":[{"name":"phone","role":"drive","sort":"token","digest":"x","created":1}]}"#;
        std::fs::write(data.path().join("keys.json"), text).unwrap();
        let store = TokenStore::open(data.path()).unwrap();
        assert_eq!(store.tokens().unwrap()[0].kind, TokenKind::Token);
        assert!(!store.tokens().unwrap()[0].shell);
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        let secret = TokenSecret::random().unwrap();
        assert_eq!(format!("{secret:?}"), "TokenSecret(…)");
        assert_eq!(secret.reveal().len(), 43);
        assert_ne!(secret, TokenSecret::random().unwrap());
        assert_eq!(secret.digest(), TokenSecret::presented(secret.reveal()).digest());
    }
}
