//! Tokens, for whoever keeps them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::problem::Answer;
use super::sent::{Named, Sent};
use super::{Problem, tag};
use crate::access::{Key, Role};
use crate::clock::now;
use crate::gateway::Gateway;

/// All tokens.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Tokens {
    tokens: Vec<ShownToken>,
}

/// A token, without what it consists of: nobody has that but its owner.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShownToken {
    /// What it is called.
    name: String,
    /// What its holder may do.
    role: Role,
    /// When it was made, in milliseconds since 1970.
    created: u64,
}

/// A token to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewToken {
    /// Letters, digits, `-`, `_` and `.`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    name: String,
    /// What its holder may do.
    role: Role,
}

/// A token that was made. It is shown this once.
#[derive(Serialize, ToSchema)]
pub(super) struct MadeToken {
    /// What it is called.
    name: String,
    /// The token.
    token: String,
}

#[utoipa::path(get, path = "/tokens", tag = tag::ACCESS, responses((status = 200, body = Tokens)))]
/// All tokens.
pub(super) async fn list(State(gateway): State<Gateway>) -> Answer<Json<Tokens>> {
    let tokens = gateway.keyring.tokens()?;
    let shown = |Key { name, role, created, .. }| ShownToken { name, role, created };
    Ok(Json(Tokens { tokens: tokens.into_iter().map(shown).collect() }))
}

#[utoipa::path(post, path = "/tokens", tag = tag::ACCESS, request_body = NewToken,
    responses((status = 201, body = MadeToken)))]
/// Makes a token.
pub(super) async fn add(
    State(gateway): State<Gateway>,
    Sent(new): Sent<NewToken>,
) -> Answer<(StatusCode, Json<MadeToken>)> {
    // Somebody may be using the one of that name.
    if gateway.keyring.tokens()?.iter().any(|it| it.name == new.name) {
        return Err(Problem::conflict(
            "conflict",
            "there is a token of that name; revoke it first",
        ));
    }
    let secret = gateway.keyring.add(&new.name, new.role, now())?;
    let made = MadeToken { name: new.name, token: secret.reveal().to_owned() };
    Ok((StatusCode::CREATED, Json(made)))
}

#[utoipa::path(delete, path = "/tokens/{name}", tag = tag::ACCESS, params(("name" = String, Path)),
    responses((status = 204, description = "it opens nothing any more")))]
/// Takes a token back, and signs out whoever signed in with it.
pub(super) async fn revoke(
    State(gateway): State<Gateway>,
    Named(name): Named<String>,
) -> Answer<StatusCode> {
    if !gateway.keyring.revoke(&name)? {
        return Err(Problem::not_found("token"));
    }
    Ok(StatusCode::NO_CONTENT)
}
