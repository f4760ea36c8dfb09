//! Whoever keeps what is to be remembered: in order, and as much at once as there is.

use journal::{Journal, Memory};
use tokio::sync::{mpsc, oneshot};
use tracing::error;

use super::drawer::DRAWER;

/// How many may wait to be kept. When it is full, the desk waits: it must not run ahead of its
/// memory.
const WAITING: usize = 256;

/// How many are kept at once.
const TOGETHER: usize = 128;

/// A way to have things remembered.
#[derive(Clone, Debug)]
pub(super) struct Keeper(mpsc::Sender<Wish>);

#[derive(Debug)]
struct Wish {
    memories: Vec<Memory>,
    kept: Option<oneshot::Sender<()>>,
}

/// Something is on its way to the disk.
#[derive(Debug)]
pub(super) struct Keeping(oneshot::Receiver<()>);

impl Keeper {
    /// A keeper, and the work it does until the last hold on it is dropped.
    pub(super) fn new(journal: Journal) -> (Self, impl Future<Output = ()>) {
        let (wishes, wanted) = mpsc::channel(WAITING);
        (Self(wishes), keep(journal, wanted))
    }

    /// Has something remembered, after all that was asked for before.
    pub(super) async fn keep(&self, memories: Vec<Memory>) -> Keeping {
        let (kept, keeping) = oneshot::channel();
        // A keeper that is gone drops the wish, which is told to whoever waits for it.
        let _ = self.0.send(Wish { memories, kept: Some(kept) }).await;
        Keeping(keeping)
    }
}

impl Keeping {
    /// Waits until it is on the disk. Says whether it is.
    pub(super) async fn done(self) -> bool {
        self.0.await.is_ok()
    }
}

async fn keep(journal: Journal, mut wanted: mpsc::Receiver<Wish>) {
    let mut wishes = Vec::new();
    while wanted.recv_many(&mut wishes, TOGETHER).await > 0 {
        let memories = wishes.iter_mut().flat_map(|it| std::mem::take(&mut it.memories)).collect();
        match journal.keep(DRAWER, memories).await {
            Ok(()) => {
                for wish in wishes.drain(..) {
                    // Not everybody waits.
                    wish.kept.map(|it| it.send(()));
                }
            }
            Err(problem) => {
                error!(%problem, "what the chats were told could not be written down");
                wishes.clear();
            }
        }
    }
}
