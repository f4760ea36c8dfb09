//! Signing in and out, and who one is.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::problem::Answer;
use super::sent::{SMALL, read};
use super::{Problem, tag};
use crate::access::{Role, Secret, Sort};
use crate::clock::now;
use crate::gateway::Gateway;
use crate::visitor::{Peer, Via, Visitor};

/// How long a browser keeps the cookie, in seconds; the server forgets it after 90 days too.
const COOKIE_SECONDS: u64 = 90 * 24 * 60 * 60;

/// Whether the server is there.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`.
    status: &'static str,
    /// Towpath's version.
    version: &'static str,
}

/// A token, to be exchanged for a cookie.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    /// The token.
    token: String,
}

/// Who is signed in, and where.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Me {
    /// The name of the token, or the one a proxy said.
    name: String,
    /// What one may do.
    role: Role,
    /// `browser` or `api`.
    via: &'static str,
    /// Towpath's version.
    version: &'static str,
    /// Where sessions may work.
    roots: Vec<String>,
    /// Whether the agent is the built-in one.
    demo: bool,
}

#[utoipa::path(get, path = "/health", tag = tag::ACCESS, security(()), responses((status = 200, body = Health)))]
/// Whether the server is there. Needs no token.
pub(super) async fn health() -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

#[utoipa::path(post, path = "/sign-in", tag = tag::ACCESS, security(()), request_body = SignIn,
    responses((status = 204, description = "signed in; the cookie is set")))]
/// Exchanges a token for a cookie.
pub(super) async fn sign_in(
    State(gateway): State<Gateway>,
    peer: Option<Extension<Peer>>,
    request: Request,
) -> Answer<Response> {
    let peer = peer.map(|Extension(peer)| peer);
    if peer.is_some_and(|Peer(from)| gateway.attempts.are_too_many(from.ip())) {
        return Err(gateway.wrong_key(peer));
    }
    let SignIn { token } = read(request, SMALL).await?;
    let now = now();
    let key = gateway.keyring.find(&Secret::presented(&token), Sort::Token, now)?;
    let Some(key) = key else { return Err(gateway.wrong_key(peer)) };
    let cookie = gateway.keyring.sign_in(&key, now)?;
    set_cookie(&gateway, cookie.reveal(), COOKIE_SECONDS)
}

#[utoipa::path(post, path = "/sign-out", tag = tag::ACCESS, responses((status = 204, description = "signed out")))]
/// Makes the cookie worth nothing.
pub(super) async fn sign_out(State(gateway): State<Gateway>, visitor: Visitor) -> Answer<Response> {
    if let Via::Cookie(digest) = &visitor.via {
        gateway.keyring.sign_out(digest)?;
    }
    set_cookie(&gateway, "", 0)
}

#[utoipa::path(get, path = "/me", tag = tag::ACCESS, responses((status = 200, body = Me)))]
/// Who is signed in.
pub(super) async fn me(State(gateway): State<Gateway>, visitor: Visitor) -> Json<Me> {
    let roots = gateway.config.roots.directories();
    Json(Me {
        via: visitor.via.word(),
        name: visitor.name,
        role: visitor.role,
        version: env!("CARGO_PKG_VERSION"),
        roots: roots.iter().map(|it| it.to_string_lossy().into_owned()).collect(),
        demo: gateway.config.demo,
    })
}

fn set_cookie(gateway: &Gateway, value: &str, seconds: u64) -> Answer<Response> {
    let name = gateway.cookie_name();
    let secure = if gateway.config.secure { "; Secure" } else { "" };
    let cookie =
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    let cookie = HeaderValue::from_str(&cookie).map_err(|it| Problem::failed(&it))?;
    Ok((StatusCode::NO_CONTENT, AppendHeaders([(header::SET_COOKIE, cookie)])).into_response())
}
