//! A session's conversation: following it, older items, and the whole of one item.

mod broadcast;
mod export;
mod files;
mod follow;
mod frame;
mod frame_cache;
mod item;
mod line_stream;
mod lines;
mod outline;
mod parts;
mod streamed_text;
mod whole_line;

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use journal::{Entry, Journal, Seq, SessionId};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;
use view::html::HtmlOptions;
use view::{Fold, HistoryPage, Item, OlderItems, Position, Turn};

pub(crate) use follow::while_authorized;
pub(super) use follow::{ClientFrame, Upgrade};
pub(super) use frame::{ConversationFrame, SessionListFrame};
pub(crate) use frame_cache::{CACHE_MEMORY, FrameCache, prerender};
pub(crate) use parts::PromptStateName;
pub(super) use parts::{DeliveryKind, PlanLimitResponse, TokenCountsResponse};

use super::extract::{PathParams, QueryParams};
use super::large_body::{json_body, large_json};
use super::sessions::find_record;
use super::tag;
use crate::gateway::Gateway;
use crate::limits::{MAX_ITEM_SOURCE_BYTES, MAX_LINE_BYTES, MAX_PAGE_BYTES, READ_BYTES};
use crate::live::{LiveState, Subscription, push};
use crate::problem::{ApiResult, Problem};
use item::ItemResponse;
use parts::TurnResponse;

/// How many entries are read at a time.
const READ_ENTRIES: usize = 1024;

/// How long turns without anything to show are folded again before the client has to ask again.
const MAX_SEARCH: Duration = Duration::from_secs(5);

/// How much of a turn is kept while one of its items is folded again.
const ITEM_FOLD_BYTES: usize = 8 << 20;

/// What folding it takes from the pool: what is kept, a long line as it is read, and its text.
const ITEM_FOLD_LEASE: usize = ITEM_FOLD_BYTES + MAX_LINE_BYTES + (8 << 20);

/// What a client is told of a session that cannot be shown.
const UNREADABLE: &str = "the session cannot be shown; the server's log says why";

pub(super) type ConversationSubscription = Subscription<FrameCache>;

/// What is about the project of a session rather than the conversation.
pub(super) fn project_operations() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(files::search))
}

pub(super) fn operations() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(files::edited_in_session))
        .routes(routes!(files::edited_in_turn))
        .merge(project_operations())
        .routes(routes!(files::directories))
        .routes(routes!(older_items))
        .routes(routes!(whole_item))
        .routes(routes!(outline::show))
        .routes(routes!(export::download))
        .routes(routes!(lines::list))
        .routes(routes!(lines::whole))
        .routes(routes!(lines::image))
        .routes(routes!(lines::events))
        .routes(routes!(follow::session))
        .routes(routes!(follow::session_list))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ItemsQuery {
    /// Only items before this position, `seq.rank`; the newest items by default.
    #[serde(default)]
    #[param(pattern = "^[0-9]{1,15}\\.[0-9]{1,9}$")]
    before: Option<String>,
    #[serde(default = "default_limit")]
    #[param(minimum = 1, maximum = 200)]
    limit: usize,
}

/// Items, in order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ItemPage)]
pub(super) struct ItemPageResponse {
    items: Vec<ItemResponse>,
    /// The turns they belong to.
    turns: Vec<TurnResponse>,
    /// There are older items.
    more: bool,
    /// Where to continue if there are no items here although there are older ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
}

/// The whole of an item.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WholeItem)]
struct WholeItemResponse {
    /// The item with its whole element.
    item: ItemResponse,
    /// What the element is made from: Markdown, input, output.
    #[schema(value_type = Object)]
    source: view::ItemBody,
}

fn default_limit() -> usize {
    50
}

#[utoipa::path(get, path = "/sessions/{id}/items", tag = tag::CONVERSATION, params(("id" = Uuid, Path), ItemsQuery),
    responses((status = 200, body = ItemPageResponse)))]
/// Older items of the conversation.
async fn older_items(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    QueryParams(ItemsQuery { before, limit }): QueryParams<ItemsQuery>,
) -> ApiResult<Response> {
    let mut position = match before {
        Some(text) => parse_position(&text)?,
        None => Position(u64::MAX, u32::MAX),
    };
    if !(1..=200).contains(&limit) {
        return Err(Problem::invalid("`limit` must be between 1 and 200"));
    }
    let subscription = subscribe(&gateway, id).await?;
    let base = subscription.with_document(|it| it.base());
    let base = base.as_deref();
    let _permit = gateway.expensive.acquire().await.map_err(|it| Problem::failed(&it))?;
    let deadline = Instant::now() + MAX_SEARCH;
    while Instant::now() < deadline {
        let older = subscription.with_document(|it| it.fold.older(position, limit));
        let (older, first) = match older {
            OlderItems::Page(page) => (fold_page(&gateway, id, &page).await?, page.first),
            here @ OlderItems::Available { .. } => (here, 0),
        };
        let OlderItems::Available { items, turns, more } = older else { break };
        if items.is_empty() && more && first > 0 {
            // The turn has nothing to show, so the one before it is tried.
            position = Position(first, 0);
            continue;
        }
        let page = ItemPageResponse::new(&items, turns, more, base);
        return large_json(&gateway, &page).await;
    }
    // There may be more before all these empty turns. The client continues from here.
    let (items, turns) = (Vec::new(), Vec::new());
    let before = Some(format!("{}.{}", position.0, position.1));
    let page = ItemPageResponse { items, turns, more: true, before };
    large_json(&gateway, &page).await
}

impl ItemPageResponse {
    /// The newest of some items, as many as a page may have.
    pub(super) fn new(items: &[Item], turns: Vec<Turn>, more: bool, base: Option<&str>) -> Self {
        let mut page = Self { items: Vec::new(), turns: Vec::new(), more, before: None };
        let mut bytes = 0;
        for item in items.iter().rev() {
            let response = ItemResponse::new(item, base);
            bytes += response.html.len();
            if bytes > MAX_PAGE_BYTES && !page.items.is_empty() {
                page.more = true;
                break;
            }
            page.items.push(response);
        }
        page.items.reverse();
        let shown = &items[items.len() - page.items.len()..];
        let look = HtmlOptions { base, full: false };
        let included = |turn: &Turn| shown.iter().any(|item| item.turn == turn.number);
        let turns = turns.into_iter().filter(included);
        page.turns = turns.map(|it| TurnResponse::new(it, look)).collect();
        page
    }
}

#[utoipa::path(get, path = "/sessions/{id}/items/{item}", tag = tag::CONVERSATION,
    params(("id" = Uuid, Path), ("item" = String, Path)), responses((status = 200, body = WholeItemResponse)))]
/// The whole of an item that is truncated in the conversation.
async fn whole_item(
    State(gateway): State<Gateway>,
    PathParams((id, item)): PathParams<(Uuid, String)>,
) -> ApiResult<Response> {
    let subscription = subscribe(&gateway, id).await?;
    let base = subscription.with_document(|it| it.base());
    let _permit = gateway.expensive.acquire().await.map_err(|it| Problem::failed(&it))?;
    // Ids are opaque, so it is searched among the items that are there.
    let (found, turn) = subscription.with_document(|it| {
        let document = it.fold.conversation(usize::MAX);
        let found = document.items.into_iter().find(|it| it.id.as_str() == item);
        let turn = found
            .as_ref()
            .and_then(|it| document.turns.into_iter().find(|turn| turn.number == it.turn));
        (found, turn)
    });
    let mut found = found.ok_or_else(|| Problem::not_found("item"))?;
    if found.trimmed
        && let Some(turn) = turn
        && let Some(restored) = fold_item(&gateway, id, turn.first, &found).await?
    {
        found = restored;
    }
    if found.text_bytes() > MAX_ITEM_SOURCE_BYTES {
        let detail = format!(
            "the item has more than {MAX_ITEM_SOURCE_BYTES} bytes; download the lines {} to {}",
            found.first, found.rev.0
        );
        return Err(Problem::too_large(detail));
    }
    // The element and the source, as text and as JSON.
    let lease = gateway.memory.lease(8 * found.text_bytes()).await;
    let item = ItemResponse::whole(&found, base.as_deref());
    let json = serde_json::to_vec(&WholeItemResponse { item, source: found.body });
    let json = Bytes::from(json.map_err(|it| Problem::failed(&it))?);
    drop(lease);
    Ok(json_body(&gateway, json).await)
}

/// Subscribes to a session and waits until its document is loaded.
pub(super) async fn subscribe(gateway: &Gateway, id: Uuid) -> ApiResult<ConversationSubscription> {
    match load(gateway, id).await? {
        (_, LiveState::Deleted) => Err(Problem::not_found("session")),
        (_, LiveState::Failed) => Err(Problem::unreadable(UNREADABLE)),
        (subscription, LiveState::Loading | LiveState::Ready(_)) => Ok(subscription),
    }
}

/// Subscribes to a session and waits until its document is loaded or cannot be.
async fn load(gateway: &Gateway, id: Uuid) -> ApiResult<(ConversationSubscription, LiveState)> {
    find_record(gateway, id).await?;
    let mut subscription = gateway.live_sessions.subscribe(SessionId(id)).map_err(|_full| {
        Problem::unavailable("too many large sessions are open; try again when some are closed")
    })?;
    let state = subscription.loaded().await;
    Ok((subscription, state))
}

async fn fold_page(gateway: &Gateway, id: Uuid, page: &HistoryPage) -> ApiResult<OlderItems> {
    let mut fold = Fold::for_page(page);
    for_each_entry(gateway, id, page.first, page.last, |entry| push(&mut fold, entry)).await?;
    Ok(fold.page_items(page))
}

/// An item from the journal, with the long parts that the document in memory dropped.
async fn fold_item(
    gateway: &Gateway,
    id: Uuid,
    first: u64,
    item: &Item,
) -> ApiResult<Option<Item>> {
    let _lease = gateway.memory.lease(ITEM_FOLD_LEASE).await;
    let mut fold = Fold::with_budget(ITEM_FOLD_BYTES);
    for_each_entry(gateway, id, first, item.rev.0, |entry| push(&mut fold, entry)).await?;
    Ok(fold.item(&item.id).filter(|it| !it.trimmed).cloned())
}

/// Reads some entries of a session, as many as fit into memory.
pub(super) async fn read_entries(
    journal: &Journal,
    session: SessionId,
    after: Seq,
) -> Result<Vec<Entry>, journal::Error> {
    journal.read_within(session, after, READ_ENTRIES, READ_BYTES, MAX_LINE_BYTES).await
}

/// Reads the entries `first..=last` of a session.
async fn for_each_entry(
    gateway: &Gateway,
    id: Uuid,
    first: u64,
    last: u64,
    mut visit: impl FnMut(&Entry),
) -> ApiResult<()> {
    let mut after = Seq(first.saturating_sub(1));
    loop {
        let entries = read_entries(gateway.sessions.journal(), SessionId(id), after).await?;
        let Some(end) = entries.last().map(|it| it.seq) else { return Ok(()) };
        entries.iter().take_while(|it| it.seq.0 <= last).for_each(&mut visit);
        if end.0 >= last {
            return Ok(());
        }
        after = end;
    }
}

pub(super) fn parse_position(text: &str) -> ApiResult<Position> {
    let parts =
        text.split_once('.').and_then(|(seq, rank)| Some((seq.parse().ok()?, rank.parse().ok()?)));
    let (seq, rank) =
        parts.ok_or_else(|| Problem::invalid("a position has the form `seq.rank`"))?;
    Ok(Position(seq, rank))
}
