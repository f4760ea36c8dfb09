//! Following a session for the places that show it.

use std::time::Duration;

use journal::{Entry, Journal, Seq, SessionId};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::warn;
use view::{Conversation, Fold, Update};
use wire::note::Note;

use super::Input;

/// How much of a document is kept in memory. What lies further back is told already, or was never
/// asked for.
const BUDGET: usize = 4 << 20;

/// How long to leave a journal alone that failed.
const AGAIN: Duration = Duration::from_secs(2);

/// What becomes of a session's document.
#[derive(Debug)]
pub(super) enum News {
    /// The document as it stands: at the start, and where what changed is too much to tell.
    Whole(Box<Conversation>),
    /// What changed.
    Changed(Update),
    /// A turn is over, and what it says has been told.
    TurnOver,
    /// The session is deleted.
    Gone,
}

/// Following one session.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) journal: Journal,
    pub(super) session: SessionId,
    /// The entry to fold from.
    pub(super) from: Seq,
    /// The last turn that is over there.
    pub(super) turn: u64,
    /// Which following of the session it is: what an earlier one tells is of no interest any more.
    pub(super) number: u64,
    /// How long entries gather before they are told.
    pub(super) gather: Duration,
    pub(super) tell: mpsc::Sender<Input>,
}

impl Following {
    /// Follows until the session is no more or nobody listens.
    pub(super) async fn run(self) {
        loop {
            match self.follow().await {
                Ok(()) => return,
                Err(journal::Error::Gone) => break,
                Err(problem) => {
                    warn!(session = %self.session, %problem, "a session cannot be followed");
                }
            }
            sleep(AGAIN).await;
        }
        let _ = self.tell(News::Gone).await;
    }

    async fn follow(&self) -> Result<(), journal::Error> {
        let mut follower = self.journal.follow(self.session, self.from);
        let mut fold = Fold::starting_after(self.from.0, self.turn, BUDGET);
        loop {
            let entries = follower.ready().await?;
            if entries.is_empty() {
                break;
            }
            take(&mut fold, &entries);
        }
        let mut told = fold.revision();
        if !self.tell(News::Whole(Box::new(fold.conversation(usize::MAX)))).await {
            return Ok(());
        }
        loop {
            let entries = follower.next().await?;
            let over = take(&mut fold, &entries);
            let news = match fold.patches(told) {
                Some(update) => News::Changed(update),
                None => News::Whole(Box::new(fold.conversation(usize::MAX))),
            };
            told = fold.revision();
            if !self.tell(news).await || over && !self.tell(News::TurnOver).await {
                return Ok(());
            }
            sleep(self.gather).await;
        }
    }

    /// Says whether somebody listens.
    async fn tell(&self, news: News) -> bool {
        let input = Input::News { session: self.session, following: self.number, news };
        self.tell.send(input).await.is_ok()
    }
}

/// Folds a session from an entry on, for somebody who wants to see it once.
pub(super) async fn folded(
    journal: &Journal,
    session: SessionId,
) -> Result<Conversation, journal::Error> {
    let mut follower = journal.follow(session, Seq(0));
    let mut fold = Fold::with_budget(BUDGET);
    loop {
        let entries = follower.ready().await?;
        if entries.is_empty() {
            return Ok(fold.conversation(usize::MAX));
        }
        take(&mut fold, &entries);
    }
}

/// Folds entries. Says whether a turn is over by one of them.
fn take(fold: &mut Fold, entries: &[Entry]) -> bool {
    let mut over = false;
    for entry in entries {
        let note = fold.push_recorded(entry.line());
        over |= matches!(note, Some(Note::TurnOver { .. }));
    }
    over
}
