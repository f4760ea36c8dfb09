//! The subscriptions of browsers, and the file they are stored in, which only this user can read.
//!
//! A subscription belongs to the cookie or token that it was made with, and counts for as long as
//! that does.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use push::{EndpointPolicy, PushEndpoint, PushSubscription};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::watch;

use crate::access::{AuthenticatedClient, TokenDigest};

/// How many browsers a client may subscribe. With a cookie it is one; the rest is for programs.
const MAX_PER_OWNER: usize = 8;

/// How many there may be. Beyond that the oldest is removed.
const MAX_SUBSCRIPTIONS: usize = 256;

/// All subscriptions of a data directory.
#[derive(Debug)]
pub(crate) struct SubscriptionStore {
    path: PathBuf,
    stored: Mutex<Vec<StoredSubscription>>,
    count: watch::Sender<usize>,
}

/// A subscription and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredSubscription {
    pub(crate) subscription: PushSubscription,
    pub(crate) owner: SubscriptionOwner,
}

/// Who made a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SubscriptionOwner {
    /// The name of the token, or of the user of a proxy.
    pub(crate) name: String,
    /// The cookie or token; none if a proxy signs users in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<TokenDigest>,
}

#[derive(Serialize, Deserialize)]
struct SubscriptionRow {
    endpoint: String,
    p256dh: String,
    auth: String,
    owner: SubscriptionOwner,
}

#[derive(Default, Serialize, Deserialize)]
struct SubscriptionFile {
    subscriptions: Vec<SubscriptionRow>,
}

/// Why a subscription was not stored.
#[derive(Debug, Error)]
pub(crate) enum SubscriptionStoreError {
    #[error("could not use the file of subscriptions `{path}`")]
    Io { path: PathBuf, source: io::Error },
    #[error("another client has subscribed that address with other keys")]
    Taken,
}

impl SubscriptionOwner {
    pub(crate) fn of(client: &AuthenticatedClient) -> Self {
        Self { name: client.name.clone(), digest: client.method.digest().cloned() }
    }
}

impl SubscriptionStore {
    /// Opens the file. One that cannot be read counts as empty: browsers subscribe again when their
    /// page is opened.
    pub(crate) fn open(path: &Path, policy: EndpointPolicy) -> Self {
        let file = fs::read(path).ok().and_then(|it| serde_json::from_slice(&it).ok());
        let SubscriptionFile { subscriptions } = file.unwrap_or_default();
        let read = |row: SubscriptionRow| {
            let endpoint = PushEndpoint::parse(&row.endpoint, policy).ok()?;
            let subscription = PushSubscription::new(endpoint, &row.p256dh, &row.auth).ok()?;
            Some(StoredSubscription { subscription, owner: row.owner })
        };
        let stored: Vec<_> = subscriptions.into_iter().filter_map(read).collect();
        let count = watch::Sender::new(stored.len());
        Self { path: path.to_owned(), stored: Mutex::new(stored), count }
    }

    pub(crate) fn all(&self) -> Vec<StoredSubscription> {
        self.stored().clone()
    }

    /// Follows how many there are.
    pub(crate) fn count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// Adds a subscription. A browser whose user signed in again gives the same keys, which only it
    /// knows; with other keys the address belongs to someone else.
    pub(crate) fn add(&self, new: StoredSubscription) -> Result<(), SubscriptionStoreError> {
        self.change(|stored| {
            let endpoint = &new.subscription.endpoint;
            let same = stored.iter().find(|it| it.subscription.endpoint == *endpoint);
            let same_keys = |it: &StoredSubscription| it.subscription == new.subscription;
            if same.is_some_and(|it| it.owner != new.owner && !same_keys(it)) {
                return Err(SubscriptionStoreError::Taken);
            }
            stored.retain(|it| it.subscription.endpoint != *endpoint);
            let owned = stored.iter().filter(|it| it.owner == new.owner).count();
            if owned >= MAX_PER_OWNER {
                let oldest = stored.iter().position(|it| it.owner == new.owner);
                oldest.map(|it| stored.remove(it));
            }
            if stored.len() >= MAX_SUBSCRIPTIONS {
                stored.remove(0);
            }
            stored.push(new);
            Ok(())
        })
    }

    /// The subscription of an owner with this endpoint.
    pub(crate) fn find(
        &self,
        endpoint: &PushEndpoint,
        owner: &SubscriptionOwner,
    ) -> Option<StoredSubscription> {
        let stored = self.stored();
        let matches =
            |it: &&StoredSubscription| it.subscription.endpoint == *endpoint && it.owner == *owner;
        stored.iter().find(matches).cloned()
    }

    /// Keeps the subscriptions that satisfy a condition. Returns whether all do.
    pub(crate) fn retain(
        &self,
        keep: impl Fn(&StoredSubscription) -> bool,
    ) -> Result<bool, SubscriptionStoreError> {
        if self.stored().iter().all(&keep) {
            return Ok(true);
        }
        self.change(|stored| {
            stored.retain(&keep);
            Ok(false)
        })
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<StoredSubscription>) -> Result<T, SubscriptionStoreError>,
    ) -> Result<T, SubscriptionStoreError> {
        let mut stored = self.stored();
        let mut changed = stored.clone();
        let result = change(&mut changed)?;
        let io_error = |source| SubscriptionStoreError::Io { path: self.path.clone(), source };
        self.replace(&changed).map_err(io_error)?;
        *stored = changed;
        self.count.send_replace(stored.len());
        Ok(result)
    }

    fn replace(&self, stored: &[StoredSubscription]) -> io::Result<()> {
        let row = |it: &StoredSubscription| SubscriptionRow {
            endpoint: it.subscription.endpoint.as_str().to_owned(),
            p256dh: it.subscription.p256dh(),
            auth: it.subscription.auth(),
            owner: it.owner.clone(),
        };
        let content = SubscriptionFile { subscriptions: stored.iter().map(row).collect() };
        let new = self.path.with_extension("new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(&content)?)?;
        file.sync_all()?;
        fs::rename(new, &self.path)
    }

    fn stored(&self) -> MutexGuard<'_, Vec<StoredSubscription>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use push::{EndpointPolicy, PushEndpoint, PushSubscription};

    use super::{
        MAX_PER_OWNER, MAX_SUBSCRIPTIONS, StoredSubscription, SubscriptionOwner, SubscriptionStore,
        SubscriptionStoreError,
    };

    fn new(path: &str, user: &str, auth: u8) -> StoredSubscription {
        let endpoint = format!("https://push.example.com/{path}");
        let endpoint = PushEndpoint::parse(&endpoint, EndpointPolicy::Public).unwrap();
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let subscription =
            PushSubscription::new(endpoint, &encode(&[4; 65]), &encode(&[auth; 16])).unwrap();
        let owner = SubscriptionOwner { name: user.to_owned(), digest: None };
        StoredSubscription { subscription, owner }
    }

    #[test]
    fn subscriptions_survive_a_restart_and_nobody_takes_over_another_ones() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("push.json");
        let store = SubscriptionStore::open(&path, EndpointPolicy::Public);
        store.add(new("a", "ann", 1)).unwrap();
        let taken = store.add(new("a", "eve", 2));
        assert!(matches!(taken, Err(SubscriptionStoreError::Taken)), "{taken:?}");
        let ours = new("a", "ann", 1);
        let eve = new("a", "eve", 1).owner;
        assert!(store.find(&ours.subscription.endpoint, &eve).is_none());
        store.add(new("a", "bob", 1)).unwrap();
        let store = SubscriptionStore::open(&path, EndpointPolicy::Public);
        assert_eq!(
            store.all(),
            [new("a", "bob", 1)],
            "the same browser, signed in as another user"
        );
        assert!(!store.retain(|it| it.owner.name != "bob").unwrap());
        assert_eq!(*store.count().borrow(), 0);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(SubscriptionStore::open(&path, EndpointPolicy::Public).all(), []);
    }

    #[test]
    fn the_number_of_subscriptions_is_bounded() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("push.json");
        let store = SubscriptionStore::open(&path, EndpointPolicy::Public);
        for number in 0..20 {
            store.add(new(&number.to_string(), "ann", 1)).unwrap();
        }
        assert_eq!(store.all().len(), MAX_PER_OWNER);
        for number in 0..300 {
            store.add(new(&format!("x{number}"), &format!("user{number}"), 1)).unwrap();
        }
        assert_eq!(store.all().len(), MAX_SUBSCRIPTIONS);
        assert_eq!(store.all().last(), Some(&new("x299", "user299", 1)));
    }
}
