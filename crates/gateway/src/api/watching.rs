//! How the acting on a session's changes goes.

use axum::Json;
use axum::extract::State;
use journal::SessionId;
use serde::Serialize;
use session::Options;
use utoipa::ToSchema;
use uuid::Uuid;

use super::problem::Answer;
use super::sent::Named;
use super::sessions::record;
use super::tag;
use super::wish::ShownWish;
use crate::gateway::Gateway;
use crate::watching::{Said, Watching};

/// How the acting on a session's changes goes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShownWatching {
    /// What is wished for.
    wish: Option<ShownWish>,
    /// The number of the last entry that is done with.
    after: u64,
    /// The number of the session's last entry.
    last: u64,
    /// What was done and what went wrong last, oldest first.
    said: Vec<ShownSaid>,
}

/// Something that was done, or went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShownSaid {
    /// When, in milliseconds since 1970.
    at: u64,
    /// Whether it went wrong.
    wrong: bool,
    /// In a line.
    text: String,
}

#[utoipa::path(get, path = "/sessions/{id}/watch", tag = tag::SESSIONS, params(("id" = Uuid, Path)),
    responses((status = 200, body = ShownWatching)))]
/// What is done with the files a session's agent changes, and how that goes.
pub(super) async fn show(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
) -> Answer<Json<ShownWatching>> {
    let record = record(&gateway, id).await?;
    let options: Options = serde_json::from_str(&record.options).unwrap_or_default();
    let watching = Watching::of(gateway.sessions.journal(), SessionId(id)).await?;
    let Watching { after, said, .. } = watching.unwrap_or_default();
    let shown = |Said { at, wrong, text }| ShownSaid { at, wrong, text };
    Ok(Json(ShownWatching {
        wish: options.watch.map(|wish| ShownWish::from(*wish)),
        after,
        last: record.last.0,
        said: said.into_iter().map(shown).collect(),
    }))
}
