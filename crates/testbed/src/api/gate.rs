//! Places where a reply waits until it is let go.

use std::collections::HashSet;

use tokio::sync::watch;

/// The gates of one server, by name. An open gate stays open, also for whoever comes later.
#[derive(Clone, Debug)]
pub(super) struct Gates {
    opened: watch::Sender<HashSet<String>>,
}

impl Gates {
    pub(super) fn new() -> Self {
        Self { opened: watch::Sender::new(HashSet::new()) }
    }

    pub(super) fn open(&self, name: &str) {
        self.opened.send_modify(|opened| {
            opened.insert(name.to_owned());
        });
    }

    pub(super) async fn passed(&self, name: &str) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.opened.subscribe().wait_for(|opened| opened.contains(name)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::Gates;

    #[tokio::test(start_paused = true)]
    async fn a_gate_opens_for_those_who_wait_and_those_who_come_later() {
        let gates = Gates::new();
        let waiting = gates.passed("a");
        tokio::pin!(waiting);
        assert!(timeout(Duration::from_secs(1), waiting.as_mut()).await.is_err());
        gates.open("b");
        assert!(timeout(Duration::from_secs(1), waiting.as_mut()).await.is_err());
        gates.open("a");
        waiting.await;
        gates.passed("a").await;
    }
}
