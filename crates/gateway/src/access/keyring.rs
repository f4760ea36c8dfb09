//! The file of keys, for this user's eyes alone.
//!
//! A running server and `towpath serve tokens` share it: whoever changes it holds its lock and reads
//! it anew first, and the server looks whether it has changed each time it needs a key. So a token
//! that is revoked is worth nothing from then on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::watch;

use super::{Digest, Key, Role, Secret, Sort};

/// How long a browser stays signed in.
const COOKIE_LIFE: u64 = 90 * 24 * 60 * 60 * 1000;

/// How many browsers may be signed in; the oldest has to sign in again.
const COOKIES: usize = 256;

/// The keys of a data directory.
#[derive(Debug)]
pub struct Keyring {
    path: PathBuf,
    read: Mutex<Read>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Read {
    stamp: Option<Stamp>,
    keys: Vec<Key>,
}

/// What tells one state of the file from another. It is replaced, never written in place, so its
/// inode changes even if its time does not.
type Stamp = (u64, i64, i64, u64);

#[derive(Default, Serialize, Deserialize)]
struct Kept {
    keys: Vec<Key>,
}

/// Why keys could not be had or kept.
#[derive(Debug, Error)]
pub enum KeyringError {
    /// The file could not be used.
    #[error("could not use the keys in `{path}`")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file makes no sense.
    #[error("the keys in `{path}` cannot be read")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The system has no randomness to give.
    #[error("the system gave no random numbers")]
    NoRandomness,
    /// A token needs a name that can be told from others.
    #[error("`{0}` is no name for a token: use letters, digits, `-`, `_` and `.`, at most 64")]
    BadName(String),
}

impl Keyring {
    /// The keys in a data directory; none where there is no file yet.
    pub fn open(data: &Path) -> Result<Self, KeyringError> {
        let (path, changes) = (data.join("keys.json"), watch::Sender::new(()));
        let keyring = Self { path, read: Mutex::default(), changes };
        keyring.keys()?;
        Ok(keyring)
    }

    /// Makes a token, in place of the one of that name. Browsers that are signed in with that one
    /// stay so.
    pub fn add(&self, name: &str, role: Role, now: u64) -> Result<Secret, KeyringError> {
        let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
        if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
            return Err(KeyringError::BadName(name.to_owned()));
        }
        let secret = Secret::random().map_err(|_| KeyringError::NoRandomness)?;
        let key = Key {
            name: name.to_owned(),
            role,
            sort: Sort::Token,
            digest: secret.digest(),
            created: now,
            expires: None,
        };
        self.change(|keys| {
            keys.retain(|it| it.sort != Sort::Token || it.name != name);
            keys.push(key);
        })?;
        Ok(secret)
    }

    /// Makes a cookie for the holder of a token.
    pub(crate) fn sign_in(&self, token: &Key, now: u64) -> Result<Secret, KeyringError> {
        let secret = Secret::random().map_err(|_| KeyringError::NoRandomness)?;
        let key = Key {
            sort: Sort::Cookie,
            digest: secret.digest(),
            created: now,
            expires: Some(now + COOKIE_LIFE),
            ..token.clone()
        };
        self.change(|keys| {
            keys.retain(|it| it.expires.is_none_or(|expires| expires > now));
            keys.push(key);
            let excess = keys.iter().filter(|it| it.sort == Sort::Cookie).count();
            let mut excess = excess.saturating_sub(COOKIES);
            keys.retain(|it| {
                let goes = excess > 0 && it.sort == Sort::Cookie;
                excess -= usize::from(goes);
                !goes
            });
        })?;
        Ok(secret)
    }

    /// Makes a cookie worth nothing.
    pub(crate) fn sign_out(&self, cookie: &Digest) -> Result<(), KeyringError> {
        self.change(|keys| keys.retain(|it| it.digest != *cookie))
    }

    /// Takes back a token and every cookie it was exchanged for. Says whether there was one.
    pub fn revoke(&self, name: &str) -> Result<bool, KeyringError> {
        let mut found = false;
        self.change(|keys| {
            let before = keys.len();
            keys.retain(|it| it.name != name);
            found = keys.len() < before;
        })?;
        Ok(found)
    }

    /// The tokens, oldest first.
    pub fn tokens(&self) -> Result<Vec<Key>, KeyringError> {
        let mut keys = self.keys()?;
        keys.retain(|it| it.sort == Sort::Token);
        Ok(keys)
    }

    /// The key a secret belongs to, if it holds now.
    pub(crate) fn find(
        &self,
        secret: &Secret,
        sort: Sort,
        now: u64,
    ) -> Result<Option<Key>, KeyringError> {
        let digest = secret.digest();
        let fits = |it: &&Key| it.sort == sort && it.digest == digest && it.is_valid(now);
        self.with_keys(|keys| keys.iter().find(fits).cloned())
    }

    /// Whether a key holds now.
    pub(crate) fn holds(&self, key: &Digest, now: u64) -> Result<bool, KeyringError> {
        self.with_keys(|keys| keys.iter().any(|it| it.digest == *key && it.is_valid(now)))
    }

    /// Tells each time the keys were found to have changed.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    fn keys(&self) -> Result<Vec<Key>, KeyringError> {
        self.with_keys(<[Key]>::to_vec)
    }

    fn with_keys<T>(&self, look: impl FnOnce(&[Key]) -> T) -> Result<T, KeyringError> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = match fs::metadata(&self.path) {
            Ok(it) => Some((it.ino(), it.mtime(), it.mtime_nsec(), it.size())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(self.failed(source)),
        };
        if stamp != read.stamp {
            read.keys = if stamp.is_some() { self.load()? } else { Vec::new() };
            read.stamp = stamp;
            self.changes.send_replace(());
        }
        Ok(look(&read.keys))
    }

    fn load(&self) -> Result<Vec<Key>, KeyringError> {
        match fs::read(&self.path) {
            Ok(text) => serde_json::from_slice::<Kept>(&text)
                .map(|it| it.keys)
                .map_err(|source| KeyringError::Damaged { path: self.path.clone(), source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(self.failed(source)),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Key>)) -> Result<(), KeyringError> {
        let lock = private(&self.path.with_extension("lock")).map_err(|it| self.failed(it))?;
        lock.lock().map_err(|it| self.failed(it))?;
        let mut keys = self.load()?;
        change(&mut keys);
        let new = self.path.with_extension("new");
        self.replace(&new, &Kept { keys }).map_err(|it| self.failed(it))?;
        // Whoever waits for changes hears of this one at once.
        self.with_keys(|_| ())
    }

    fn replace(&self, new: &Path, kept: &Kept) -> io::Result<()> {
        let mut file = private(new)?;
        file.set_len(0)?;
        file.write_all(&serde_json::to_vec_pretty(kept)?)?;
        file.sync_all()?;
        fs::rename(new, &self.path)
    }

    fn failed(&self, source: io::Error) -> KeyringError {
        KeyringError::Io { path: self.path.clone(), source }
    }
}

/// A file that only this user may look at.
fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{COOKIE_LIFE, Keyring};
    use crate::access::{Role, Secret, Sort};

    #[test]
    fn a_token_and_its_cookies_hold_until_they_are_revoked_by_another_process() {
        let data = tempfile::tempdir().unwrap();
        let server = Keyring::open(data.path()).unwrap();
        let command = Keyring::open(data.path()).unwrap();
        let token = command.add("phone", Role::Drive, 1).unwrap();
        let key = server.find(&token, Sort::Token, 2).unwrap().unwrap();
        assert_eq!((key.name.as_str(), key.role), ("phone", Role::Drive));
        let cookie = server.sign_in(&key, 2).unwrap();
        assert!(server.find(&cookie, Sort::Cookie, 3).unwrap().is_some());
        assert!(server.find(&cookie, Sort::Token, 3).unwrap().is_none(), "not a token");
        assert!(server.find(&cookie, Sort::Cookie, 3 + COOKIE_LIFE).unwrap().is_none());
        assert!(command.revoke("phone").unwrap());
        assert!(!command.revoke("phone").unwrap());
        assert!(server.find(&token, Sort::Token, 4).unwrap().is_none());
        assert!(server.find(&cookie, Sort::Cookie, 4).unwrap().is_none());
    }

    #[test]
    fn nothing_in_the_file_opens_anything_and_nobody_else_reads_it() {
        let data = tempfile::tempdir().unwrap();
        let keyring = Keyring::open(data.path()).unwrap();
        let token = keyring.add("link", Role::Admin, 1).unwrap();
        let path = data.path().join("keys.json");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(token.reveal()));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for word in text.split('"') {
            let found = keyring.find(&Secret::presented(word), Sort::Token, 2).unwrap();
            assert!(found.is_none(), "{word}");
        }
    }

    #[test]
    fn a_new_link_does_not_sign_anybody_out() {
        let data = tempfile::tempdir().unwrap();
        let keyring = Keyring::open(data.path()).unwrap();
        let old = keyring.add("link", Role::Admin, 1).unwrap();
        let key = keyring.find(&old, Sort::Token, 1).unwrap().unwrap();
        let cookie = keyring.sign_in(&key, 1).unwrap();
        keyring.add("link", Role::Admin, 2).unwrap();
        assert!(keyring.find(&old, Sort::Token, 3).unwrap().is_none());
        assert!(keyring.find(&cookie, Sort::Cookie, 3).unwrap().is_some());
        keyring.sign_out(&cookie.digest()).unwrap();
        assert!(keyring.find(&cookie, Sort::Cookie, 3).unwrap().is_none());
        assert!(keyring.add("a b", Role::Watch, 1).is_err());
    }
}
