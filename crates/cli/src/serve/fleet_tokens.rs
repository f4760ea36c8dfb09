//! The access tokens of a fleet: what one gateway accepts, all of them do.
//!
//! Each gateway has the tokens in a file, so it can serve what it has while the servers are away. This task compares
//! the file with the table on the servers, whenever one of them changes. Only hashes of secrets are in either.
//!
//! A token that was shared and is not in the table any more was revoked. That it is shared is written down before it
//! is, so that a gateway that is killed in between forgets a token rather than bringing a revoked one back.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fleet::bus::{Bus, BusError, Expected, KeyTable};
use gateway::access::{SharedToken, TokenStore, TokenStoreError};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

/// The pause before the table is read again after something failed.
const RETRY: Duration = Duration::from_secs(2);

/// Keeps the tokens of this gateway and those of the fleet the same until it is dropped.
#[derive(Debug)]
pub(super) struct SharedTokens(JoinHandle<()>);

impl SharedTokens {
    pub(super) fn start(bus: &Arc<dyn Bus>, tokens: &Arc<TokenStore>) -> Self {
        let (bus, tokens) = (Arc::clone(bus), Arc::clone(tokens));
        Self(tokio::spawn(async move {
            let (table, pending, revoked) = (BTreeMap::new(), BTreeMap::new(), HashSet::new());
            let mut comparison = TokenComparison { bus, tokens, table, pending, revoked };
            let mut is_warned = false;
            loop {
                match comparison.run().await {
                    Ok(()) => is_warned = false,
                    Err(SharingError::Bus(error @ (BusError::Denied(_) | BusError::Setup(_))))
                        if !is_warned =>
                    {
                        is_warned = true;
                        warn!(%error, "this gateway does not share its access tokens");
                    }
                    Err(error) => debug!(%error, "the access tokens cannot be compared"),
                }
                tokio::time::sleep(RETRY).await;
            }
        }))
    }
}

impl Drop for SharedTokens {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug, thiserror::Error)]
enum SharingError {
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error(transparent)]
    Store(#[from] TokenStoreError),
}

struct TokenComparison {
    bus: Arc<dyn Bus>,
    tokens: Arc<TokenStore>,
    /// What the servers have, as far as it is known.
    table: BTreeMap<String, Bytes>,
    /// Tokens that are on their way to the servers.
    pending: BTreeMap<String, Bytes>,
    /// Keys that were removed. None of them comes back.
    revoked: HashSet<String>,
}

impl TokenComparison {
    /// Compares until the connection is lost.
    async fn run(&mut self) -> Result<(), SharingError> {
        let mut changes = self.bus.watch(KeyTable::Access).await?;
        let mut local = self.tokens.changes();
        self.table.clear();
        let mut is_listed = false;
        loop {
            tokio::select! {
                change = changes.recv() => match change {
                    None => return Ok(()),
                    Some(None) => is_listed = true,
                    Some(Some(change)) => match change.value {
                        Some(value) if !self.revoked.contains(&change.key) => {
                            self.table.insert(change.key, value);
                        }
                        Some(_) => {}
                        None => {
                            self.table.remove(&change.key);
                            self.revoked.insert(change.key);
                        }
                    },
                },
                // The store lives as long as this.
                _ = local.changed() => {}
            }
            if is_listed {
                local.borrow_and_update();
                self.compare().await?;
            }
        }
    }

    async fn compare(&mut self) -> Result<(), SharingError> {
        let table = KeyTable::Access;
        let sharing = self.tokens.sharing()?;
        for key in sharing.removed {
            self.bus.remove(table, &key, Expected::Anything).await?;
            self.tokens.forget_removed(&key)?;
            self.table.remove(&key);
            self.pending.remove(&key);
            self.revoked.insert(key);
        }
        let mut local: HashSet<String> = sharing.shared.iter().cloned().collect();
        for SharedToken { key, value } in sharing.new {
            local.insert(key.clone());
            self.pending.insert(key.clone(), value.into());
            self.tokens.set_shared(&key)?;
        }
        while let Some((key, value)) = self.pending.first_key_value() {
            self.bus.put(table, key, value.clone(), Expected::Anything, None).await?;
            if let Some((key, value)) = self.pending.pop_first() {
                self.table.insert(key, value);
            }
        }
        for key in sharing.shared {
            // A server that lags behind may have left it out of its list.
            if !self.table.contains_key(&key) && self.bus.get(table, &key).await?.is_none() {
                self.tokens.disown(&key)?;
            }
        }
        for (key, value) in self.table.iter().filter(|(key, _)| !local.contains(*key)) {
            let shared = SharedToken { key: key.clone(), value: value.to_vec() };
            self.tokens.adopt(&shared)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use fleet::bus::Bus;
    use fleet::bus::memory::{MemoryBus, MemoryServers};
    use gateway::access::{Role, TokenStore};
    use tempfile::TempDir;

    use super::SharedTokens;

    const TIMEOUT: Duration = Duration::from_mins(1);

    struct TestGateway {
        data: TempDir,
        tokens: Arc<TokenStore>,
        bus: Arc<MemoryBus>,
        sharing: Option<SharedTokens>,
    }

    fn open(data: &Path) -> Arc<TokenStore> {
        Arc::new(TokenStore::open(data).unwrap())
    }

    impl TestGateway {
        fn start(servers: &MemoryServers) -> Self {
            let data = tempfile::tempdir().unwrap();
            let tokens = open(data.path());
            let mut this = Self { data, tokens, bus: Arc::new(servers.connect()), sharing: None };
            this.share();
            this
        }

        fn share(&mut self) {
            let bus: Arc<dyn Bus> = Arc::clone(&self.bus) as _;
            let sharing = SharedTokens::start(&bus, &self.tokens);
            self.sharing = Some(sharing);
        }

        /// Waits until it has these tokens and no others.
        async fn has(&self, names: &[&str]) {
            let mut changes = self.tokens.changes();
            let wait = async {
                loop {
                    changes.borrow_and_update();
                    let mut found: Vec<String> =
                        self.tokens.tokens().unwrap().into_iter().map(|it| it.name).collect();
                    found.sort();
                    if found == names {
                        return;
                    }
                    changes.changed().await.unwrap();
                }
            };
            let found = tokio::time::timeout(TIMEOUT, wait).await;
            found.unwrap_or_else(|_| panic!("{:?}, not {names:?}", self.tokens.tokens()));
        }

        /// Waits until the servers have everything.
        async fn shared(&self) {
            while !self.tokens.sharing().unwrap().new.is_empty() {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_token_of_one_gateway_is_one_of_all_and_revoked_everywhere() {
        let servers = MemoryServers::default();
        let mut first = TestGateway::start(&servers);
        let second = TestGateway::start(&servers);
        first.tokens.add("phone", Role::Drive, 1).unwrap();
        second.tokens.add("laptop", Role::Admin, 1).unwrap();
        for gateway in [&first, &second] {
            gateway.has(&["laptop", "phone"]).await;
        }
        second.tokens.revoke("phone").unwrap();
        first.has(&["laptop"]).await;

        // One that was stopped, and one that is cut off, learn of it later, and bring nothing back.
        first.tokens.add("tablet", Role::Watch, 2).unwrap();
        second.has(&["laptop", "tablet"]).await;
        first.sharing = None;
        second.tokens.revoke("laptop").unwrap();
        first.has(&["laptop", "tablet"]).await;
        first.tokens = open(first.data.path());
        first.share();
        first.has(&["tablet"]).await;
        second.has(&["tablet"]).await;
        second.bus.set_cut(true);
        second.tokens.revoke("tablet").unwrap();
        second.tokens.add("watch", Role::Watch, 3).unwrap();
        first.tokens.add("desk", Role::Watch, 3).unwrap();
        first.shared().await;
        second.has(&["watch"]).await;
        second.bus.set_cut(false);
        for gateway in [&first, &second] {
            gateway.has(&["desk", "watch"]).await;
        }

        // A new one, or one whose directory was removed, has all of them and revokes none.
        let third = TestGateway::start(&servers);
        third.has(&["desk", "watch"]).await;
        first.has(&["desk", "watch"]).await;
        assert!(third.tokens.sharing().unwrap().removed.is_empty());
    }
}
