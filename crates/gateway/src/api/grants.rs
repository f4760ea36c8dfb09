//! What is allowed without asking, and taking it back.
//!
//! A session looks grants up anew each time its agent asks, so one that was taken back is worth
//! nothing from the next call on.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use journal::{Grant, SessionId};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::problem::Answer;
use super::sent::Named;
use super::sessions::record;
use super::{Person, Problem, tag};
use crate::clock::now;
use crate::gateway::Gateway;

/// What is allowed without asking.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Grants {
    grants: Vec<ShownGrant>,
}

/// A permission that holds for more than one call.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShownGrant {
    id: Uuid,
    /// The session it holds in.
    session: Option<Uuid>,
    /// The directory it holds in, for every session there.
    directory: Option<String>,
    tool: String,
    /// Which calls of the tool; all where nothing is said.
    pattern: Option<String>,
    /// When it ends, in milliseconds since 1970; never by itself where nothing is said.
    until: Option<u64>,
    by: Person,
    created: u64,
}

impl From<Grant> for ShownGrant {
    fn from(it: Grant) -> Self {
        Self {
            id: it.id,
            session: it.session.map(|it| it.0),
            directory: it.directory.map(|it| it.to_string_lossy().into_owned()),
            tool: it.tool,
            pattern: it.pattern,
            until: it.until,
            by: it.by.into(),
            created: it.created,
        }
    }
}

#[utoipa::path(get, path = "/grants", tag = tag::REQUESTS, responses((status = 200, body = Grants)))]
/// What is allowed without asking, in all sessions.
pub(super) async fn list_all(State(gateway): State<Gateway>) -> Answer<Json<Grants>> {
    let grants = gateway.sessions.journal().grants(now()).await?;
    Ok(Json(Grants { grants: grants.into_iter().map(ShownGrant::from).collect() }))
}

#[utoipa::path(get, path = "/sessions/{id}/grants", tag = tag::REQUESTS, params(("id" = Uuid, Path)),
    responses((status = 200, body = Grants)))]
/// What is allowed without asking in a session: by its own grants and by those of its directory.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
) -> Answer<Json<Grants>> {
    let directory = record(&gateway, id).await?.directory;
    let mut grants = gateway.sessions.journal().grants(now()).await?;
    grants.retain(|it| {
        it.session.is_none_or(|session| session == SessionId(id))
            && it.directory.as_ref().is_none_or(|it| *it == directory)
    });
    Ok(Json(Grants { grants: grants.into_iter().map(ShownGrant::from).collect() }))
}

#[utoipa::path(delete, path = "/grants/{grant}", tag = tag::REQUESTS, params(("grant" = Uuid, Path)),
    responses((status = 204, description = "it is asked for again from here on")))]
/// Takes back what was allowed.
pub(super) async fn revoke(
    State(gateway): State<Gateway>,
    Named(grant): Named<Uuid>,
) -> Answer<StatusCode> {
    let (journal, now) = (gateway.sessions.journal(), now());
    if !journal.grants(now).await?.iter().any(|it| it.id == grant) {
        return Err(Problem::not_found("grant"));
    }
    journal.revoke_grant(grant, now).await?;
    Ok(StatusCode::NO_CONTENT)
}
