//! What was used, by day, session and model, as the journal tells it.
//!
//! Each session is folded once and then further from where the last look ended.

use std::collections::BTreeMap;

use journal::{Entry, Journal, Origin, Seq, SessionId};
use tokio::sync::Mutex;
use view::{Fold, Patch, Revision, Tokens, Turn};

/// How many entries are read at a time.
const PORTION: usize = 1024;

/// The document itself is not wanted here.
const BUDGET: usize = 64 << 10;

/// How many sessions are remembered between looks.
const REMEMBERED: usize = 256;

/// What was used in all sessions.
#[derive(Debug, Default)]
pub(crate) struct Usages(Mutex<BTreeMap<SessionId, Account>>);

/// What was used in a session so far.
#[derive(Debug)]
struct Account {
    fold: Fold,
    /// The last entry that was read.
    cursor: Seq,
    /// Turns by number.
    turns: BTreeMap<u64, Used>,
    seen: Revision,
}

/// What a turn used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Used {
    /// When it ended, or began while it runs.
    pub(crate) at: u64,
    pub(crate) model: Option<String>,
    pub(crate) tokens: Tokens,
    pub(crate) cost: Option<f64>,
}

impl Usages {
    /// What each turn of a session used.
    pub(crate) async fn of(
        &self,
        journal: &Journal,
        session: SessionId,
    ) -> Result<Vec<Used>, journal::Error> {
        let mut accounts = self.0.lock().await;
        if accounts.len() >= REMEMBERED && !accounts.contains_key(&session) {
            accounts.clear();
        }
        let account = accounts.entry(session).or_insert_with(|| Account {
            fold: Fold::with_budget(BUDGET),
            cursor: Seq(0),
            turns: BTreeMap::new(),
            seen: Revision(0),
        });
        loop {
            let entries = journal.read(session, account.cursor, PORTION).await?;
            let Some(last) = entries.last() else { break };
            account.cursor = last.seq;
            for entry in &entries {
                account.take(entry);
            }
        }
        account.settle();
        Ok(account.turns.values().cloned().collect())
    }
}

impl Account {
    fn take(&mut self, entry: &Entry) {
        crate::room::push(&mut self.fold, entry);
        // The model is the one that was at work when a turn ended, so that is when to look.
        let ends =
            entry.origin == Origin::Towpath || entry.bytes.windows(8).any(|it| it == b"\"result\"");
        if ends && entry.bytes.len() < (1 << 20) {
            self.settle();
        }
    }

    fn settle(&mut self) {
        let turns: Vec<Turn> = match self.fold.patches(self.seen) {
            Some(update) => update
                .patches
                .into_iter()
                .filter_map(|it| if let Patch::Turn { turn } = it { Some(*turn) } else { None })
                .collect(),
            None => self.fold.conversation(0).turns,
        };
        self.seen = self.fold.revision();
        if turns.is_empty() {
            return;
        }
        let model = self.fold.conversation(0).head.model;
        for turn in turns {
            let ended = turn.end.as_ref().and_then(|it| it.at);
            let used = Used {
                at: ended.or(turn.began).unwrap_or(0),
                model: model.clone(),
                tokens: turn.tokens,
                cost: turn.cost,
            };
            match self.turns.get_mut(&turn.number) {
                // Another model for a turn that is over is the next turn's.
                Some(known) => *known = Used { model: known.model.clone().or(used.model), ..used },
                None => {
                    self.turns.insert(turn.number, used);
                }
            }
        }
    }
}
