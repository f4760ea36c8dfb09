//! Reading a session from where its saved view ends, or from its beginning.

use journal::{Entry, Error, Follower, Journal, Seq, SessionId};
use view::Fold;

use super::checkpoint::{Anchor, Checkpoints, Upto, View};
use super::stage::Shown;

/// How much of a document is kept in memory; older parts are folded again when asked for.
const BUDGET: usize = 2 << 20;

/// A session that is about to be folded.
#[derive(Debug)]
pub(super) struct Reading {
    /// What is folded already.
    pub(super) fold: Fold,
    /// What was made of that.
    pub(super) shown: Shown,
    /// Where that ends; nothing where nothing is.
    pub(super) upto: Option<Upto>,
    /// What comes next,
    pub(super) entries: Vec<Entry>,
    /// and after that.
    pub(super) follower: Follower,
}

impl Reading {
    pub(super) async fn begin(
        journal: &Journal,
        checkpoints: &Checkpoints,
        session: SessionId,
    ) -> Result<Self, Error> {
        if let Some(View { fold, shown, upto }) = checkpoints.load(session).await {
            // The last entry that is in the fold is read again: if it is not what it was, or no
            // longer there, the fold is of another journal than this one.
            let mut follower = journal.follow(session, Seq(upto.anchor.seq.saturating_sub(1)));
            let mut entries = follower.ready().await?;
            if entries.first().is_some_and(|it| Anchor::of(it) == upto.anchor) {
                entries.remove(0);
                return Ok(Self { fold, shown, upto: Some(upto), entries, follower });
            }
            checkpoints.forget(session).await;
        }
        let (fold, follower) = (Fold::with_budget(BUDGET), journal.follow(session, Seq(0)));
        let shown = Shown::default();
        Ok(Self { fold, shown, upto: None, entries: Vec::new(), follower })
    }
}
