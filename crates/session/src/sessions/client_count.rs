//! How many clients in other processes use the sessions of this one.

use tokio::sync::watch;

/// A number of clients that can be waited for. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientCount {
    count: watch::Sender<usize>,
}

/// One client, until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedClient {
    count: watch::Sender<usize>,
}

impl ClientCount {
    pub(crate) fn enter(&self) -> CountedClient {
        self.count.send_modify(|count| *count += 1);
        CountedClient { count: self.count.clone() }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }
}

impl Drop for CountedClient {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count = count.saturating_sub(1));
    }
}
