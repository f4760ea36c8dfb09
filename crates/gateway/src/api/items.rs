//! Items of a session's conversation: older ones, and all there is of one.

use axum::Json;
use axum::extract::State;
use journal::{Entry, Seq, SessionId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use view::html::Look;
use view::{Fold, Item, Older, Page, Place};

use super::problem::Answer;
use super::sent::{Asked, Named};
use super::sessions::record;
use super::{Problem, ShownItem, ShownTurn, tag};
use crate::gateway::Gateway;
use crate::room::{Seat, Stage, push, shown_items, whole_item};

/// How many entries are read at a time.
const PORTION: usize = 1024;

/// How many turns are folded again in search of something to show.
const PAGES: usize = 16;

/// Which items are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Before {
    /// Those that stand before this place, `seq.rank`; the newest where nothing is said.
    #[serde(default)]
    #[param(pattern = "^[0-9]{1,15}\\.[0-9]{1,9}$")]
    before: Option<String>,
    /// How many at most.
    #[serde(default = "some")]
    #[param(minimum = 1, maximum = 200)]
    limit: usize,
}

/// Items, in their order.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ItemPage {
    items: Vec<ShownItem>,
    /// The turns they belong to.
    turns: Vec<ShownTurn>,
    /// Whether there are still older ones.
    more: bool,
}

/// All there is of an item.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WholeItem {
    /// The item, with nothing left out of its element.
    item: ShownItem,
    /// What the element is made of: Markdown, input, output.
    #[schema(value_type = Object)]
    source: view::Body,
}

fn some() -> usize {
    50
}

#[utoipa::path(get, path = "/sessions/{id}/items", tag = tag::CONVERSATION, params(("id" = Uuid, Path), Before),
    responses((status = 200, body = ItemPage)))]
/// Older items of the conversation.
pub(super) async fn older(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
    Asked(Before { before, limit }): Asked<Before>,
) -> Answer<Json<ItemPage>> {
    let mut place = match before {
        Some(text) => place(&text)?,
        None => Place(u64::MAX, u32::MAX),
    };
    if !(1..=200).contains(&limit) {
        return Err(Problem::invalid("`limit` is between 1 and 200"));
    }
    let seat = seat(&gateway, id).await?;
    let base = seat.with_stage(Stage::base);
    let look = Look { base: base.as_deref(), full: false };
    for _ in 0..PAGES {
        let older = seat.with_stage(|stage| stage.fold().older(place, limit));
        let (older, first) = match older {
            Older::Page(page) => (folded(&gateway, id, &page).await?, page.first),
            here @ Older::Here { .. } => (here, 0),
        };
        let Older::Here { items, turns, more } = older else { break };
        if items.is_empty() && more && first > 0 {
            // A turn with nothing to show: what stands before it is meant.
            place = Place(first, 0);
            continue;
        }
        let turns = turns.into_iter().map(|it| ShownTurn::new(it, look)).collect();
        return Ok(Json(ItemPage { items: shown_items(&items, look.base), turns, more }));
    }
    Ok(Json(ItemPage { items: Vec::new(), turns: Vec::new(), more: false }))
}

#[utoipa::path(get, path = "/sessions/{id}/items/{item}", tag = tag::CONVERSATION,
    params(("id" = Uuid, Path), ("item" = String, Path)), responses((status = 200, body = WholeItem)))]
/// All there is of an item.
pub(super) async fn whole(
    State(gateway): State<Gateway>,
    Named((id, item)): Named<(Uuid, String)>,
) -> Answer<Json<WholeItem>> {
    let seat = seat(&gateway, id).await?;
    let base = seat.with_stage(Stage::base);
    // Ids are opaque, so it is looked for among what is there.
    let (found, turn) = seat.with_stage(|stage| {
        let document = stage.fold().conversation(usize::MAX);
        let found = document.items.into_iter().find(|it| it.id.as_str() == item);
        let turn = found
            .as_ref()
            .and_then(|it| document.turns.into_iter().find(|turn| turn.number == it.turn));
        (found, turn)
    });
    let mut found = found.ok_or_else(|| Problem::not_found("item"))?;
    if found.shed
        && let Some(turn) = turn
        && let Some(again) = again(&gateway, id, turn.first, &found).await?
    {
        found = again;
    }
    let item = whole_item(&found, base.as_deref());
    Ok(Json(WholeItem { item, source: found.body }))
}

/// A place in the room of a session that exists, once there is something to see.
pub(super) async fn seat(gateway: &Gateway, id: Uuid) -> Answer<Seat> {
    record(gateway, id).await?;
    let mut seat = gateway.rooms.enter(SessionId(id));
    if seat.ready().await { Ok(seat) } else { Err(Problem::not_found("session")) }
}

async fn folded(gateway: &Gateway, id: Uuid, page: &Page) -> Answer<Older> {
    let mut fold = Fold::of_page(page);
    each(gateway, id, page.first, page.last, |entry| push(&mut fold, entry)).await?;
    Ok(fold.page_items(page))
}

/// An item whose long parts were let go, from the journal.
async fn again(gateway: &Gateway, id: Uuid, first: u64, item: &Item) -> Answer<Option<Item>> {
    let mut fold = Fold::new();
    each(gateway, id, first, item.rev.0, |entry| push(&mut fold, entry)).await?;
    Ok(fold.item(&item.id).filter(|it| !it.shed).cloned())
}

/// Looks at a stretch of a session's entries.
pub(super) async fn each(
    gateway: &Gateway,
    id: Uuid,
    first: u64,
    last: u64,
    mut look: impl FnMut(&Entry),
) -> Answer<()> {
    let _one_of_few = gateway.heavy.acquire().await.map_err(|it| Problem::failed(&it))?;
    let mut after = Seq(first.saturating_sub(1));
    loop {
        let entries = gateway.sessions.journal().read(SessionId(id), after, PORTION).await?;
        let Some(end) = entries.last().map(|it| it.seq) else { return Ok(()) };
        entries.iter().take_while(|it| it.seq.0 <= last).for_each(&mut look);
        if end.0 >= last {
            return Ok(());
        }
        after = end;
    }
}

fn place(text: &str) -> Answer<Place> {
    let parts =
        text.split_once('.').and_then(|(seq, rank)| Some((seq.parse().ok()?, rank.parse().ok()?)));
    let (seq, rank) =
        parts.ok_or_else(|| Problem::invalid("a place is two numbers with a dot between"))?;
    Ok(Place(seq, rank))
}
