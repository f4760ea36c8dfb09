//! Signing in and out, the current client, and access tokens.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::consent::ModeResponse;
use super::extract::{JsonBody, MAX_SIGN_IN_BYTES, PathParams, read_json};
use super::push::PushKeyResponse;
use super::qr_code::QrCode;
use super::tag;
use crate::access::{
    AccessToken, AuthenticatedClient, Role, SignInMethod, TokenKind, TokenSecret, Visitor,
    device_name,
};
use crate::gateway::{Gateway, now};
use crate::problem::{ApiResult, Problem};

/// How long a browser keeps the cookie, in seconds. The token store removes it after 90 days too.
const COOKIE_SECONDS: u64 = 90 * 24 * 60 * 60;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HealthResponse {
    /// `ok`.
    status: &'static str,
    version: &'static str,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignInRequest {
    token: String,
    /// A name for the browser's device, shown with what it does; by default what its `User-Agent` says.
    device: Option<String>,
}

/// The client that is signed in, and the server.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Me)]
pub(super) struct MeResponse {
    /// The name of the token, or the user name from the proxy.
    name: String,
    role: Role,
    /// Whether it may have a shell here: by its role or its token, and terminals are not turned off.
    shell: bool,
    /// `browser` or `api`.
    via: &'static str,
    /// The version of the server.
    version: &'static str,
    /// Where sessions may work.
    roots: Vec<String>,
    /// Whether the agent is the built-in one.
    demo: bool,
    /// Whether other machines drive the sessions, which `GET /workers` lists.
    fleet: bool,
    /// All permission modes, the most careful ones first.
    modes: Vec<ModeResponse>,
    /// For push messages; none if the server cannot send them.
    push: Option<PushKeyResponse>,
}

#[utoipa::path(get, path = "/health", tag = tag::ACCESS, security(()), responses((status = 200, body = HealthResponse)))]
/// Whether the server is up. Needs no token.
pub(super) async fn health() -> Json<HealthResponse> {
    Json(HealthResponse { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

#[utoipa::path(post, path = "/sign-in", tag = tag::ACCESS, security(()), request_body = SignInRequest,
    responses((status = 204, description = "signed in; the cookie is set")))]
/// Exchanges a token for a cookie.
pub(super) async fn sign_in(
    State(gateway): State<Gateway>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> ApiResult<Response> {
    if visitor.address.is_some_and(|it| gateway.failed_sign_ins.limit_reached(it)) {
        return Err(gateway.sign_in_failed(visitor));
    }
    let user_agent = request.headers().get(header::USER_AGENT).and_then(|it| it.to_str().ok());
    let user_agent = user_agent.map(str::to_owned);
    let SignInRequest { token, device } = read_json(request, MAX_SIGN_IN_BYTES).await?;
    let device = device_name(device.as_deref(), user_agent.as_deref());
    let now = now();
    let secret = TokenSecret::presented(&token);
    let token = gateway.tokens.find(&secret, TokenKind::Token, now)?;
    let Some(token) = token else { return Err(gateway.sign_in_failed(visitor)) };
    let cookie = gateway.tokens.sign_in(&token, device, now)?;
    set_cookie(&gateway, visitor, cookie.reveal(), COOKIE_SECONDS)
}

#[utoipa::path(post, path = "/sign-out", tag = tag::ACCESS, responses((status = 204, description = "signed out")))]
/// Revokes the cookie.
pub(super) async fn sign_out(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    Extension(visitor): Extension<Visitor>,
) -> ApiResult<Response> {
    if let SignInMethod::Cookie(digest) = &client.method {
        gateway.tokens.sign_out(digest)?;
    }
    set_cookie(&gateway, visitor, "", 0)
}

#[utoipa::path(get, path = "/me", tag = tag::ACCESS, responses((status = 200, body = MeResponse)))]
/// The client that is signed in.
pub(super) async fn me(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
) -> Json<MeResponse> {
    let roots = gateway.config.roots.directories();
    Json(MeResponse {
        via: client.method.name(),
        name: client.name,
        role: client.role,
        shell: client.shell && gateway.config.shell.is_some(),
        version: env!("CARGO_PKG_VERSION"),
        roots: roots.iter().map(|it| it.to_string_lossy().into_owned()).collect(),
        demo: gateway.config.demo,
        fleet: gateway.sessions.is_relayed(),
        modes: ModeResponse::all(),
        push: gateway
            .notifier
            .as_ref()
            .map(|it| PushKeyResponse { key: it.public_key().to_owned() }),
    })
}

fn set_cookie(
    gateway: &Gateway,
    visitor: Visitor,
    value: &str,
    seconds: u64,
) -> ApiResult<Response> {
    let name = gateway.cookie_name();
    let secure = if gateway.config.secure || visitor.is_https { "; Secure" } else { "" };
    let cookie =
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    let cookie = HeaderValue::from_str(&cookie).map_err(|it| Problem::failed(&it))?;
    Ok((StatusCode::NO_CONTENT, AppendHeaders([(header::SET_COOKIE, cookie)])).into_response())
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TokensResponse {
    tokens: Vec<TokenResponse>,
}

/// A token, without its secret.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Token)]
pub(super) struct TokenResponse {
    name: String,
    role: Role,
    /// It may have a shell, although its role alone does not allow that.
    shell: bool,
    /// When it was created, in milliseconds since 1970.
    created: u64,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateTokenRequest {
    /// Letters, digits, `-`, `_` and `.`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    name: String,
    role: Role,
    /// It may also have a shell. Such a token needs the role `drive` or `admin`.
    #[serde(default)]
    shell: bool,
}

/// A new token with its secret, which is not shown again.
#[derive(Serialize, ToSchema)]
pub(super) struct CreateTokenResponse {
    name: String,
    token: String,
    /// A picture (SVG) of the sign-in link for the address that the page was opened with. None if
    /// other devices cannot reach that address, or if the client is no page.
    qr: Option<String>,
}

#[utoipa::path(get, path = "/tokens", tag = tag::ACCESS, responses((status = 200, body = TokensResponse)))]
/// All tokens.
pub(super) async fn list_tokens(State(gateway): State<Gateway>) -> ApiResult<Json<TokensResponse>> {
    let tokens = gateway.tokens.tokens()?;
    let response = |AccessToken { name, role, shell, created, .. }| TokenResponse {
        name,
        role,
        shell,
        created,
    };
    Ok(Json(TokensResponse { tokens: tokens.into_iter().map(response).collect() }))
}

#[utoipa::path(post, path = "/tokens", tag = tag::ACCESS, request_body = CreateTokenRequest,
    responses((status = 201, body = CreateTokenResponse)))]
/// Creates a token.
pub(super) async fn create_token(
    State(gateway): State<Gateway>,
    headers: HeaderMap,
    JsonBody(new): JsonBody<CreateTokenRequest>,
) -> ApiResult<(StatusCode, Json<CreateTokenResponse>)> {
    // The existing token may be in use.
    if gateway.tokens.tokens()?.iter().any(|it| it.name == new.name) {
        let detail = "a token with that name exists; revoke it first";
        return Err(Problem::conflict("conflict", detail));
    }
    let secret = if new.shell {
        gateway.tokens.add_with_shell(&new.name, new.role, now())?
    } else {
        gateway.tokens.add(&new.name, new.role, now())?
    };
    let (name, token) = (new.name, secret.reveal().to_owned());
    let origin = headers.get(header::ORIGIN).and_then(|it| it.to_str().ok());
    let qr = origin.filter(|it| !is_loopback(it)).and_then(|origin| {
        // The secret has no character that an address would have to escape.
        QrCode::new(&format!("{origin}/#token={token}")).map(|it| it.to_svg())
    });
    Ok((StatusCode::CREATED, Json(CreateTokenResponse { name, token, qr })))
}

/// Whether only this machine reaches a page with that origin.
fn is_loopback(origin: &str) -> bool {
    let host = origin.split_once("://").map_or(origin, |(_, rest)| rest);
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let address = host.parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || address.is_ok_and(|it| it.to_canonical().is_loopback())
}

#[utoipa::path(delete, path = "/tokens/{name}", tag = tag::ACCESS, params(("name" = String, Path)),
    responses((status = 204, description = "revoked")))]
/// Revokes a token and signs out the browsers that signed in with it.
pub(super) async fn revoke_token(
    State(gateway): State<Gateway>,
    PathParams(name): PathParams<String>,
) -> ApiResult<StatusCode> {
    if !gateway.tokens.revoke(&name)? {
        return Err(Problem::not_found("token"));
    }
    Ok(StatusCode::NO_CONTENT)
}
