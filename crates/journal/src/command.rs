//! What the writer can be asked to do.

use tokio::sync::oneshot;
use uuid::Uuid;

use crate::batch::Batch;
use crate::connection::Durability;
use crate::error::Error;
use crate::grant::Grant;
use crate::id::{Seq, SessionId};
use crate::memory::Memory;
use crate::page::Page;
use crate::session::NewSession;

/// Where the answer to a change goes: the number of the session's last entry, or 0 where the change
/// is about no entries.
pub(crate) type Answer = oneshot::Sender<Result<Seq, Error>>;

/// One message to the writer.
#[derive(Debug)]
pub(crate) enum Command {
    /// Change the file; changes that wait are made together.
    Change(Box<Change>, Answer),
    /// See whether another process has changed the file.
    LookAround,
    /// Answer when nothing is left to be cleaned up.
    Tidy(Answer),
    /// Finish, answer, and take no more.
    Close(Answer),
}

/// Something to be written, all of it or nothing.
#[derive(Debug)]
pub(crate) enum Change {
    Create(NewSession),
    Write(SessionId, Batch),
    /// Put settled entries into a page; their own rows are dead from then on.
    Settle(SettledPage),
    AddGrant(Grant),
    RevokeGrant(Uuid, u64),
    Keep(String, Vec<Memory>),
    Delete(SessionId),
}

/// A page that takes the place of entries.
#[derive(Debug)]
pub(crate) struct SettledPage {
    pub(crate) session: SessionId,
    /// How far the session was settled when the page was made; if it is no longer so, somebody else
    /// settled meanwhile, and the page is not taken.
    pub(crate) from: Seq,
    /// How far it is settled with this page.
    pub(crate) to: Seq,
    /// The last entry of the page that this one replaces, having taken over its entries.
    pub(crate) replaces: Option<Seq>,
    /// The entries, under the number of the last; none where all were dropped.
    pub(crate) page: Option<(Seq, Page)>,
}

impl Change {
    pub(crate) fn durability(&self) -> Durability {
        match self {
            Self::Write(_, batch) if !batch.must_last() => Durability::Relaxed,
            // What a page replaces is in the file until the page is, whenever that is.
            Self::Settle(_) => Durability::Relaxed,
            Self::Create(_)
            | Self::Write(..)
            | Self::AddGrant(_)
            | Self::RevokeGrant(..)
            | Self::Keep(..)
            | Self::Delete(_) => Durability::Lasting,
        }
    }

    /// About how much memory it holds.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Write(_, batch) => batch.size(),
            Self::Settle(settled) => {
                settled.page.as_ref().map_or(0, |(_, page)| page.bytes.len()) + 256
            }
            Self::Keep(_, memories) => {
                let value = |memory: &Memory| memory.value.as_ref().map_or(0, Vec::len) + 256;
                memories.iter().map(value).sum()
            }
            Self::Create(_) | Self::AddGrant(_) | Self::RevokeGrant(..) | Self::Delete(_) => 256,
        }
    }
}
