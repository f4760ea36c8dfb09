//! A session's conversation: following it, older items, and the whole of one item.

mod files;
mod follow;
mod frame;
mod frame_cache;
mod item;
mod lines;
mod parts;
mod streamed_text;

use axum::Json;
use axum::extract::State;
use journal::{Entry, Seq, SessionId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;
use view::html::HtmlOptions;
use view::{Fold, HistoryPage, Item, OlderItems, Position};

pub(super) use follow::ClientFrame;
pub(super) use frame::{ConversationFrame, SessionListFrame};
pub(crate) use frame_cache::{FrameCache, prerender};
pub(crate) use parts::PromptStateName;
pub(super) use parts::{DeliveryKind, TokenCountsResponse};

use super::extract::{PathParams, QueryParams};
use super::sessions::find_record;
use super::tag;
use crate::gateway::Gateway;
use crate::live::{Subscription, push};
use crate::problem::{ApiResult, Problem};
use item::ItemResponse;
use parts::TurnResponse;

/// How many entries are read at a time.
const READ_ENTRIES: usize = 1024;

/// How many turns are folded again in search of something to show.
const MAX_TURNS_SEARCHED: usize = 16;

pub(super) type ConversationSubscription = Subscription<FrameCache>;

pub(super) fn operations() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(files::edited_in_session))
        .routes(routes!(files::edited_in_turn))
        .routes(routes!(files::search))
        .routes(routes!(files::directories))
        .routes(routes!(older_items))
        .routes(routes!(whole_item))
        .routes(routes!(lines::list))
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
struct ItemPageResponse {
    items: Vec<ItemResponse>,
    /// The turns they belong to.
    turns: Vec<TurnResponse>,
    /// There are older items.
    more: bool,
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
) -> ApiResult<Json<ItemPageResponse>> {
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
    for _ in 0..MAX_TURNS_SEARCHED {
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
        let look = HtmlOptions { base, full: false };
        return Ok(Json(ItemPageResponse {
            items: items.iter().map(|item| ItemResponse::new(item, base)).collect(),
            turns: turns.into_iter().map(|it| TurnResponse::new(it, look)).collect(),
            more,
        }));
    }
    Ok(Json(ItemPageResponse { items: Vec::new(), turns: Vec::new(), more: false }))
}

#[utoipa::path(get, path = "/sessions/{id}/items/{item}", tag = tag::CONVERSATION,
    params(("id" = Uuid, Path), ("item" = String, Path)), responses((status = 200, body = WholeItemResponse)))]
/// The whole of an item that is truncated in the conversation.
async fn whole_item(
    State(gateway): State<Gateway>,
    PathParams((id, item)): PathParams<(Uuid, String)>,
) -> ApiResult<Json<WholeItemResponse>> {
    let subscription = subscribe(&gateway, id).await?;
    let base = subscription.with_document(|it| it.base());
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
    let item = ItemResponse::whole(&found, base.as_deref());
    Ok(Json(WholeItemResponse { item, source: found.body }))
}

/// Subscribes to a session and waits until its document is loaded.
async fn subscribe(gateway: &Gateway, id: Uuid) -> ApiResult<ConversationSubscription> {
    find_record(gateway, id).await?;
    let mut subscription = gateway.live_sessions.subscribe(SessionId(id));
    if subscription.ready().await { Ok(subscription) } else { Err(Problem::not_found("session")) }
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
    let mut fold = Fold::new();
    for_each_entry(gateway, id, first, item.rev.0, |entry| push(&mut fold, entry)).await?;
    Ok(fold.item(&item.id).filter(|it| !it.trimmed).cloned())
}

/// Reads the entries `first..=last` of a session.
async fn for_each_entry(
    gateway: &Gateway,
    id: Uuid,
    first: u64,
    last: u64,
    mut visit: impl FnMut(&Entry),
) -> ApiResult<()> {
    let _permit = gateway.expensive.acquire().await.map_err(|it| Problem::failed(&it))?;
    let mut after = Seq(first.saturating_sub(1));
    loop {
        let entries = gateway.sessions.journal().read(SessionId(id), after, READ_ENTRIES).await?;
        let Some(end) = entries.last().map(|it| it.seq) else { return Ok(()) };
        entries.iter().take_while(|it| it.seq.0 <= last).for_each(&mut visit);
        if end.0 >= last {
            return Ok(());
        }
        after = end;
    }
}

fn parse_position(text: &str) -> ApiResult<Position> {
    let parts =
        text.split_once('.').and_then(|(seq, rank)| Some((seq.parse().ok()?, rank.parse().ok()?)));
    let (seq, rank) =
        parts.ok_or_else(|| Problem::invalid("a position has the form `seq.rank`"))?;
    Ok(Position(seq, rank))
}
