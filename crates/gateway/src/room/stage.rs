//! A session's document, and the frames made of it.

use std::collections::HashMap;

use axum::extract::ws::Utf8Bytes;
use journal::Entry;
use serde::{Deserialize, Serialize};
use view::html::{self, Look};
use view::{Body, Fold, Item, ItemId, Patch, Request, Revision, Turn};

use super::growing::Growing;
use super::look::{growing_item, shown_item};
use crate::api::{Frame, Piece, ShownAsk, ShownPatch, ShownTurn, Snapshot};

/// How many of the newest items a snapshot may hold,
const ITEMS: usize = 150;

/// and how many bytes of them. With all else that is in it, a snapshot stays below 200 KB.
const ITEM_BYTES: usize = 150 << 10;

/// An update that is larger is no better than a snapshot.
const UPDATE_BYTES: usize = 256 << 10;

/// How many serialised items are kept.
const PIECES: usize = 512;

/// A session's document, and what was made of it for followers.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    fold: Fold,
    /// Where the agent works, as of the last frame.
    base: Option<String>,
    growing: HashMap<ItemId, Growing>,
    /// Items as they were sent last, by the revision they were of.
    pieces: HashMap<ItemId, (Revision, Piece)>,
    /// Frames for the present revision, by the revision they begin from.
    frames: HashMap<Option<Revision>, Utf8Bytes>,
}

/// Items as they are shown, made before: colouring code is most of the work of a first frame.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Shown {
    /// Where the agent works: paths in what is shown begin there.
    base: Option<String>,
    items: Vec<(ItemId, Revision, Piece)>,
}

impl Stage {
    pub(super) fn new(fold: Fold, shown: Shown) -> Self {
        let mut stage = Self { fold, ..Self::default() };
        if shown.base == stage.fold.conversation(0).head.cwd {
            let pieces = shown.items.into_iter().map(|(id, rev, piece)| (id, (rev, piece)));
            stage.pieces.extend(pieces);
        }
        stage
    }

    /// The document, and what a snapshot of it shows, less what is still being written.
    pub(super) fn into_shown(mut self) -> (Fold, Shown) {
        self.pieces.retain(|id, (rev, _)| self.fold.item(id).is_some_and(|it| it.rev == *rev));
        self.snapshot();
        let Self { fold, base, mut pieces, .. } = self;
        let newest = fold.conversation(ITEMS).items;
        let finished = newest.into_iter().filter(|item| words(item).is_none());
        let items = finished.filter_map(|item| {
            let (rev, piece) = pieces.remove(&item.id)?;
            Some((item.id, rev, piece))
        });
        let items = items.collect();
        (fold, Shown { base, items })
    }

    pub(crate) fn fold(&self) -> &Fold {
        &self.fold
    }

    pub(crate) fn revision(&self) -> Revision {
        self.fold.revision()
    }

    /// Where the agent works, for paths in what is shown.
    pub(crate) fn base(&self) -> Option<String> {
        self.base.clone().or_else(|| self.fold.conversation(0).head.cwd)
    }

    pub(super) fn take(&mut self, entries: &[Entry]) {
        for entry in entries {
            push(&mut self.fold, entry);
        }
        if !entries.is_empty() {
            self.frames.clear();
        }
    }

    pub(super) fn frame(&mut self, since: Option<Revision>) -> (Utf8Bytes, Revision) {
        let now = self.revision();
        if let Some(frame) = self.frames.get(&since) {
            return (frame.clone(), now);
        }
        let update = since.and_then(|since| self.update(since));
        let frame = update.unwrap_or_else(|| self.snapshot_frame());
        self.frames.insert(since, frame.clone());
        (frame, now)
    }

    fn snapshot_frame(&mut self) -> Utf8Bytes {
        if let Some(snapshot) = self.frames.get(&None) {
            return snapshot.clone();
        }
        let snapshot = written(&Frame::Snapshot(Box::new(self.snapshot())));
        self.frames.insert(None, snapshot.clone());
        snapshot
    }

    fn snapshot(&mut self) -> Snapshot {
        let document = self.fold.conversation(ITEMS);
        self.base.clone_from(&document.head.cwd);
        let base = document.head.cwd.as_deref();
        let mut more = document.more;
        let mut room = ITEM_BYTES;
        let mut items = Vec::new();
        let mut first_turn = None;
        for item in document.items.iter().rev() {
            let piece = self.piece(item, base);
            if piece.len() > room && !items.is_empty() {
                more = true;
                break;
            }
            room = room.saturating_sub(piece.len());
            first_turn = Some(first_turn.unwrap_or(item.turn).min(item.turn));
            items.push(piece);
        }
        items.reverse();
        let look = Look { base, full: false };
        let shown = |turn: &Turn| !more || first_turn.is_some_and(|first| turn.number >= first);
        let turns = document.turns.iter().filter(|it| shown(it));
        let turns = turns.map(|it| Piece::of(&ShownTurn::new(it.clone(), look))).collect();
        let requests = document.requests.into_iter().map(|it| self.ask(it, base)).collect();
        Snapshot {
            revision: document.revision.0,
            status: document.status,
            queue: document.queue,
            requests,
            todos: document.todos,
            usage: document.usage,
            turns,
            items,
            more,
            head: document.head,
        }
    }

    fn update(&mut self, since: Revision) -> Option<Utf8Bytes> {
        if since > self.revision() {
            return None;
        }
        let update = self.fold.patches(since)?;
        // Asking the fold would copy every turn; whoever is behind a change of it has a patch.
        let head = update.patches.iter().find_map(|patch| match patch {
            Patch::Head { head } => Some(head),
            _ => None,
        });
        if let Some(head) = head {
            self.base.clone_from(&head.cwd);
        }
        let base = self.base.clone();
        let base = base.as_deref();
        let look = Look { base, full: false };
        let patches = update.patches.into_iter().map(|patch| match patch {
            Patch::Item { item } => ShownPatch::Item { item: self.piece(&item, base) },
            Patch::Append { id, .. } => self.grown(&id, since, base),
            Patch::Gone { id } => {
                self.growing.remove(&id);
                self.pieces.remove(&id);
                ShownPatch::Gone { id: id.to_string() }
            }
            Patch::Turn { turn } => {
                ShownPatch::Turn { turn: Piece::of(&ShownTurn::new(*turn, look)) }
            }
            Patch::Head { head } => ShownPatch::Head { head },
            Patch::Status { status } => ShownPatch::Status { status },
            Patch::Queue { queue } => ShownPatch::Queue { queue },
            Patch::Requests { requests } => ShownPatch::Requests {
                requests: requests.into_iter().map(|it| self.ask(it, base)).collect(),
            },
            Patch::Todos { todos } => ShownPatch::Todos { todos },
            Patch::Usage { usage } => ShownPatch::Usage { usage },
        });
        let patches = patches.collect();
        let frame = written(&Frame::Update { from: since.0, to: update.to.0, patches });
        (frame.len() <= UPDATE_BYTES).then_some(frame)
    }

    /// More of an item that is being written.
    fn grown(&mut self, id: &ItemId, since: Revision, base: Option<&str>) -> ShownPatch {
        let Some(item) = self.fold.item(id) else {
            return ShownPatch::Gone { id: id.to_string() };
        };
        if let Some(words) = words(item)
            && let Some(growing) = self.growing.get_mut(id)
        {
            growing.catch_up(words, item.rev);
            if let Some(growth) = growing.since(since) {
                return ShownPatch::Grow {
                    id: id.to_string(),
                    rev: item.rev.0,
                    at: growth.at,
                    settled: growth.settled,
                    open: growing.open().to_owned(),
                };
            }
        }
        let item = item.clone();
        ShownPatch::Item { item: self.piece(&item, base) }
    }

    /// An item as it is sent; made once for each of its revisions.
    fn piece(&mut self, item: &Item, base: Option<&str>) -> Piece {
        if let Some((rev, piece)) = self.pieces.get(&item.id)
            && *rev == item.rev
        {
            return piece.clone();
        }
        let shown = if let Some(words) = words(item) {
            let growing = self.growing.entry(item.id.clone()).or_default();
            growing.catch_up(words, item.rev);
            growing_item(item, growing)
        } else {
            self.growing.remove(&item.id);
            shown_item(item, base)
        };
        let piece = Piece::of(&shown);
        if self.pieces.len() >= PIECES {
            self.pieces.clear();
        }
        self.pieces.insert(item.id.clone(), (item.rev, piece.clone()));
        piece
    }

    fn ask(&self, request: Request, base: Option<&str>) -> ShownAsk {
        let item = request.item.as_ref().and_then(|id| self.fold.item(id));
        let html = if let Some(item) = item {
            // The same element stands in the conversation, so this one goes by another name.
            shown_item(item, base).html.replacen("data-item=", "data-about=", 1)
        } else {
            let mut out = String::from("<pre class=\"output\">");
            html::coloured(&request.input, "json", &mut out);
            out + "</pre>"
        };
        ShownAsk { request, html }
    }
}

/// The words of an item that is being written.
fn words(item: &Item) -> Option<&str> {
    match &item.body {
        Body::Text { text } | Body::Thinking { text, .. } if item.open => Some(text),
        _ => None,
    }
}

/// Folds an entry of the journal.
pub(crate) fn push(fold: &mut Fold, entry: &Entry) {
    fold.push_recorded(entry.line());
}

fn written(frame: &Frame) -> Utf8Bytes {
    // Strings, numbers and lists of them serialise.
    serde_json::to_string(frame).unwrap_or_default().into()
}
