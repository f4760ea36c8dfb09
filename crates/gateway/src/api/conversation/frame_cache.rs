//! The frames made from a live session's document.
//!
//! A frame is made when the first client needs it and shared by all clients at the same revision.

use std::collections::HashMap;
use std::sync::Weak;

use axum::extract::ws::Utf8Bytes;
use serde::{Deserialize, Serialize};
use view::html::{self, HtmlOptions};
use view::{Fold, Item, ItemBody, ItemId, Patch, Request, Revision, Turn};

use super::broadcast::Broadcast;
use super::frame::{ConversationFrame, PatchFrame, SharedJson, Snapshot, UpdateFrame};
use super::item::ItemResponse;
use super::parts::{TodoResponse, TurnResponse};
use super::streamed_text::StreamedText;
use crate::api::consent::RequestCard;
use crate::limits::MAX_TODOS;
use crate::live::{CacheMemory, LiveDocument};

/// How many of the newest items a snapshot may hold.
const MAX_ITEMS: usize = 150;

/// How many bytes of items a snapshot may hold. With everything else it stays below 200 KB.
const MAX_ITEM_BYTES: usize = 150 << 10;

/// A larger update is no better than a snapshot.
const MAX_UPDATE_BYTES: usize = 256 << 10;

/// How many serialised items are cached.
const MAX_CACHED_ITEMS: usize = 512;

/// How many bytes of them.
const MAX_CACHED_BYTES: usize = 1 << 20;

/// How many frames are cached. Clients that keep up need one; the others are at many revisions.
const MAX_CACHED_FRAMES: usize = 8;

/// What was made from a document for its clients.
#[derive(Debug, Default)]
pub(crate) struct FrameCache {
    /// The agent's working directory as of the last frame.
    base: Option<String>,
    texts: HashMap<ItemId, StreamedText>,
    /// Items as they were last sent, with their revision.
    items: HashMap<ItemId, (Revision, SharedJson)>,
    /// The size of what was added to `items`.
    item_bytes: usize,
    /// The revision that `frames` are of.
    revision: Revision,
    /// Frames by the revision they start from.
    frames: HashMap<Option<Revision>, Utf8Bytes>,
    /// Sends the frames to the clients that keep up, while there are any.
    pub(super) broadcast: Weak<Broadcast>,
}

/// The memory of the caches of live sessions. Text that is being streamed is not counted: it is not
/// dropped either.
pub(crate) const CACHE_MEMORY: CacheMemory<FrameCache> =
    CacheMemory { bytes: FrameCache::bytes, clear: FrameCache::clear };

/// Items that were rendered for a checkpoint: highlighting code is most of the work of a first
/// frame.
#[derive(Debug, Default, Serialize, Deserialize)]
struct RenderedItems {
    /// The working directory: paths are shown relative to it.
    base: Option<String>,
    items: Vec<(ItemId, Revision, SharedJson)>,
}

/// Renders the items of a snapshot for a checkpoint, except those that are still being written.
pub(crate) fn prerender(fold: &Fold, before: Option<&[u8]>) -> Vec<u8> {
    let mut cache = FrameCache::default();
    if let Some(before) = before {
        cache.restore(fold, before);
    }
    cache.items.retain(|id, (rev, _)| fold.item(id).is_some_and(|it| it.rev == *rev));
    cache.snapshot(fold);
    let FrameCache { base, mut items, .. } = cache;
    let newest = fold.conversation(MAX_ITEMS).items;
    let finished = newest.into_iter().filter(|item| streamed_text(item).is_none());
    let items = finished.filter_map(|item| {
        let (rev, json) = items.remove(&item.id)?;
        Some((item.id, rev, json))
    });
    let rendered = RenderedItems { base, items: items.collect() };
    serde_json::to_vec(&rendered).unwrap_or_default()
}

impl LiveDocument<FrameCache> {
    /// The frame for a client at revision `since`, or a snapshot without one; and the revision the
    /// client has afterwards.
    pub(crate) fn frame(&mut self, since: Option<Revision>) -> (Utf8Bytes, Revision) {
        let Self { fold, cache, rendered } = self;
        if let Some(rendered) = rendered.take() {
            cache.restore(fold, &rendered);
        }
        (cache.frame(fold, since), fold.revision())
    }

    /// The agent's working directory: paths are shown relative to it.
    pub(crate) fn base(&self) -> Option<String> {
        self.cache.base.clone().or_else(|| self.fold.conversation(0).head.cwd)
    }
}

impl FrameCache {
    fn restore(&mut self, fold: &Fold, rendered: &[u8]) {
        let rendered: RenderedItems = serde_json::from_slice(rendered).unwrap_or_default();
        if rendered.base == fold.conversation(0).head.cwd {
            self.item_bytes += rendered.items.iter().map(|(.., json)| json.len()).sum::<usize>();
            let items = rendered.items.into_iter().map(|(id, rev, json)| (id, (rev, json)));
            self.items.extend(items);
        }
    }

    fn bytes(&self) -> usize {
        self.item_bytes + self.frames.values().map(|frame| frame.len()).sum::<usize>()
    }

    fn clear(&mut self) {
        self.items = HashMap::new();
        self.item_bytes = 0;
        self.frames = HashMap::new();
    }

    fn frame(&mut self, fold: &Fold, since: Option<Revision>) -> Utf8Bytes {
        if self.revision != fold.revision() {
            self.revision = fold.revision();
            self.frames.clear();
        }
        if let Some(frame) = self.frames.get(&since) {
            return frame.clone();
        }
        let update = since.and_then(|since| self.update(fold, since));
        let frame = update.unwrap_or_else(|| self.snapshot_frame(fold));
        if self.frames.len() < MAX_CACHED_FRAMES {
            self.frames.insert(since, frame.clone());
        }
        frame
    }

    fn snapshot_frame(&mut self, fold: &Fold) -> Utf8Bytes {
        if let Some(snapshot) = self.frames.get(&None) {
            return snapshot.clone();
        }
        let snapshot = serialise(&ConversationFrame::Snapshot(Box::new(self.snapshot(fold))));
        self.frames.insert(None, snapshot.clone());
        snapshot
    }

    fn snapshot(&mut self, fold: &Fold) -> Snapshot {
        let document = fold.conversation(MAX_ITEMS);
        self.base.clone_from(&document.head.cwd);
        let base = document.head.cwd.clone();
        let base = base.as_deref();
        let mut more = document.more;
        let mut bytes_left = MAX_ITEM_BYTES;
        let mut items = Vec::new();
        let mut first_turn = None;
        for item in document.items.iter().rev() {
            let json = self.item(item, base);
            if json.len() > bytes_left && !items.is_empty() {
                more = true;
                break;
            }
            bytes_left = bytes_left.saturating_sub(json.len());
            first_turn = Some(first_turn.unwrap_or(item.turn).min(item.turn));
            items.push(json);
        }
        items.reverse();
        let look = HtmlOptions { base, full: false };
        let included = |turn: &Turn| !more || first_turn.is_some_and(|first| turn.number >= first);
        let turns = document.turns.into_iter().filter(included);
        let turns = turns.map(|it| SharedJson::new(&TurnResponse::new(it, look))).collect();
        Snapshot {
            revision: document.revision.0,
            status: document.status.into(),
            queue: document.queue.into_iter().map(Into::into).collect(),
            requests: document.requests.into_iter().map(|it| request(fold, it, base)).collect(),
            todos: todos(document.todos),
            usage: document.usage.into(),
            turns,
            items,
            more,
            head: document.head.into(),
        }
    }

    fn update(&mut self, fold: &Fold, since: Revision) -> Option<Utf8Bytes> {
        if since > fold.revision() {
            return None;
        }
        let update = fold.patches(since)?;
        // Asking the fold for its head would copy every turn; a change of it is in a patch.
        let head = update.patches.iter().find_map(|patch| match patch {
            Patch::Head { head } => Some(head),
            _ => None,
        });
        if let Some(head) = head {
            self.base.clone_from(&head.cwd);
        }
        let base = self.base.clone();
        let base = base.as_deref();
        let patches = update.patches.into_iter().filter_map(|it| self.patch(fold, since, it, base));
        let patches = patches.collect();
        let update = UpdateFrame { from: since.0, to: update.to.0, patches };
        let frame = serialise(&ConversationFrame::Update(update));
        (frame.len() <= MAX_UPDATE_BYTES).then_some(frame)
    }

    fn patch(
        &mut self,
        fold: &Fold,
        since: Revision,
        patch: Patch,
        base: Option<&str>,
    ) -> Option<PatchFrame> {
        Some(match patch {
            Patch::Item { item } => PatchFrame::Item { item: self.item(&item, base) },
            Patch::Append { id, .. } => self.append(fold, &id, since, base),
            Patch::Removed { id } => {
                self.texts.remove(&id);
                self.items.remove(&id);
                PatchFrame::Removed { id: id.to_string() }
            }
            Patch::Turn { turn } => {
                let turn = TurnResponse::new(*turn, HtmlOptions { base, full: false });
                PatchFrame::Turn { turn: SharedJson::new(&turn) }
            }
            Patch::Head { head } => PatchFrame::Head { head: Box::new((*head).into()) },
            Patch::Status { status } => PatchFrame::Status { status: status.into() },
            Patch::Queue { queue } => {
                PatchFrame::Queue { queue: queue.into_iter().map(Into::into).collect() }
            }
            Patch::Requests { requests } => PatchFrame::Requests {
                requests: requests.into_iter().map(|it| request(fold, it, base)).collect(),
            },
            Patch::Todos { todos: list } => PatchFrame::Todos { todos: todos(list) },
            Patch::Usage { usage } => PatchFrame::Usage { usage: usage.into() },
            // Clients ask for it when the user wants to see it.
            Patch::Agent { .. } => return None,
        })
    }

    /// More of an item that is being written.
    fn append(
        &mut self,
        fold: &Fold,
        id: &ItemId,
        since: Revision,
        base: Option<&str>,
    ) -> PatchFrame {
        let Some(item) = fold.item(id) else {
            return PatchFrame::Removed { id: id.to_string() };
        };
        if let Some(text) = streamed_text(item)
            && let Some(streamed) = self.texts.get_mut(id)
        {
            streamed.catch_up(text, item.rev);
            if let Some((offset, html)) = streamed.added_since(since) {
                return PatchFrame::Append {
                    id: id.to_string(),
                    rev: item.rev.0,
                    offset,
                    html: html.to_owned(),
                    tail: streamed.tail().to_owned(),
                };
            }
        }
        PatchFrame::Item { item: self.item(item, base) }
    }

    /// An item as it is sent, rendered once per revision.
    fn item(&mut self, item: &Item, base: Option<&str>) -> SharedJson {
        if let Some((rev, json)) = self.items.get(&item.id)
            && *rev == item.rev
        {
            return json.clone();
        }
        let response = if let Some(text) = streamed_text(item) {
            let streamed = self.texts.entry(item.id.clone()).or_default();
            streamed.catch_up(text, item.rev);
            ItemResponse::streamed(item, streamed)
        } else {
            self.texts.remove(&item.id);
            ItemResponse::new(item, base)
        };
        let json = SharedJson::new(&response);
        if self.items.len() >= MAX_CACHED_ITEMS || self.item_bytes >= MAX_CACHED_BYTES {
            self.items.clear();
            self.item_bytes = 0;
        }
        self.item_bytes += json.len();
        self.items.insert(item.id.clone(), (item.rev, json.clone()));
        json
    }
}

fn request(fold: &Fold, request: Request, base: Option<&str>) -> RequestCard {
    let item = request.item.as_ref().and_then(|id| fold.item(id));
    let html = if let Some(item) = item {
        // The same element is in the conversation, so this one has another attribute.
        ItemResponse::new(item, base).html.replacen("data-item=", "data-about=", 1)
    } else {
        let mut out = String::from("<pre class=\"output\">");
        html::coloured(&request.input, "json", &mut out);
        out + "</pre>"
    };
    RequestCard::new(request, html)
}

/// The beginning of a to-do list. An agent may write any number of any length.
fn todos(list: Vec<view::Todo>) -> Vec<TodoResponse> {
    list.into_iter().take(MAX_TODOS).map(TodoResponse::from).collect()
}

/// The text of an item that is being written.
fn streamed_text(item: &Item) -> Option<&str> {
    match &item.body {
        ItemBody::Text { text } | ItemBody::Thinking { text, .. } if item.open => Some(text),
        _ => None,
    }
}

fn serialise(frame: &ConversationFrame) -> Utf8Bytes {
    // Structs of strings, numbers and lists always serialise.
    serde_json::to_string(frame).unwrap_or_default().into()
}
