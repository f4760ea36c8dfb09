//! Requests about the projects and the terminals of sessions that other machines drive: they are passed on to the
//! machine with the files. Who the client is and what its role allows was checked before, as for all requests.
//!
//! What comes back is shown to the client's browser, so the other machine does not decide how: a file has the
//! policy of files, the frames of a terminal are read here, and everything else is JSON.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use journal::SessionId;
use session::{
    ExchangeMode, ProjectAnswer, ProjectBody, ProjectClient, ProjectRequest, ProjectRole,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use uuid::Uuid;

use crate::access::{AuthenticatedClient, Role};
use crate::api::{FILE_POLICY, PDF_POLICY, relay_terminal, while_authorized, with_terminal_limits};
use crate::config::API_PREFIX;
use crate::gateway::Gateway;
use crate::limits::UPLOAD_STALLED_AFTER;
use crate::problem::{ApiResult, Problem};
use crate::relayed_headers;

/// The path below a session where the bytes of a file are.
const CONTENT: &str = "files/content";

/// How many frames of a client may wait until another machine takes them.
const WAITING_FRAMES: usize = 16;

/// The middleware.
pub(crate) async fn relay(
    State(gateway): State<Gateway>,
    request: Request,
    next: Next,
) -> Response {
    if !gateway.sessions.is_relayed() {
        return next.run(request).await;
    }
    let Some((session, path)) = project_path(request.uri().path()) else {
        return next.run(request).await;
    };
    if is_terminal(path) && gateway.config.shell.is_none() {
        // It says that there are none.
        return next.run(request).await;
    }
    let path = path.to_owned();
    let response = if is_followed_terminal(&path) && *request.method() == Method::GET {
        follow(&gateway, session, path, request).await
    } else {
        pass_on(&gateway, session, path, request).await
    };
    response.unwrap_or_else(Problem::into_response)
}

/// The session that a path is about, and the rest of the path if it is about the project.
fn project_path(path: &str) -> Option<(SessionId, &str)> {
    let rest = path.strip_prefix(API_PREFIX)?.strip_prefix("/sessions/")?;
    let (id, below) = rest.split_once('/')?;
    let is_project = below == "files" || below.starts_with("files/") || below.starts_with("git/");
    let is_passed_on = is_project || below == "worktree" || is_terminal(below);
    Some((SessionId(id.parse::<Uuid>().ok()?), below)).filter(|_| is_passed_on)
}

fn is_terminal(path: &str) -> bool {
    path == "terminals" || path.starts_with("terminals/")
}

/// Whether a path is that of the screen of a terminal.
fn is_followed_terminal(path: &str) -> bool {
    let number = path.strip_prefix("terminals/").and_then(|it| it.strip_suffix("/follow"));
    number.is_some_and(|it| !it.contains('/'))
}

async fn pass_on(
    gateway: &Gateway,
    session: SessionId,
    path: String,
    request: Request,
) -> ApiResult<Response> {
    let permit = Arc::clone(&gateway.relayed_requests).try_acquire_owned();
    let permit = permit.map_err(|_| {
        Problem::unavailable("too many requests about files; try again in a moment")
    })?;
    let client = request.extensions().get::<AuthenticatedClient>();
    let client = client.ok_or_else(Problem::not_signed_in)?;
    let is_content = path == CONTENT && matches!(*request.method(), Method::GET | Method::HEAD);
    let is_head = request.method() == Method::HEAD;
    let asked = ProjectRequest {
        method: request.method().to_string(),
        path,
        query: request.uri().query().map(str::to_owned),
        headers: relayed_headers::of_request(request.headers()),
        client: described(client),
        mode: ExchangeMode::InTurn,
    };
    let answered = gateway.sessions.project(session, asked, body_of(request)).await;
    let (response, body) = answered.ok_or_else(|| Problem::not_found("route"))??;
    let body = (!is_head).then_some((body, permit));
    reply(&response, is_content, body)
}

/// The response to a client.
fn reply(
    response: &ProjectAnswer,
    is_content: bool,
    body: Option<(ProjectBody, OwnedSemaphorePermit)>,
) -> ApiResult<Response> {
    let status = StatusCode::from_u16(response.status);
    let status = status.map_err(|it| Problem::failed(&it))?;
    let mut headers = relayed_headers::read_response(&response.headers);
    protect(&mut headers, is_content && status.is_success());
    let body =
        body.map_or_else(Body::empty, |(body, permit)| Body::from_stream(held(body, permit)));
    let mut reply = (status, body).into_response();
    *reply.headers_mut() = headers;
    Ok(reply)
}

/// Lets a client see a terminal of another machine, and type there.
async fn follow(
    gateway: &Gateway,
    session: SessionId,
    path: String,
    request: Request,
) -> ApiResult<Response> {
    let (mut parts, _) = request.into_parts();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, gateway).await;
    let upgrade = with_terminal_limits(upgrade)?;
    let permit = Arc::clone(&gateway.relayed_terminals).try_acquire_owned();
    let permit = permit.map_err(|_| {
        Problem::unavailable("too many clients look at terminals; close one and try again")
    })?;
    let client = parts.extensions.get::<AuthenticatedClient>();
    let client = client.ok_or_else(Problem::not_signed_in)?;
    let asked = ProjectRequest {
        method: Method::GET.to_string(),
        path,
        query: None,
        headers: Vec::new(),
        client: described(client),
        mode: ExchangeMode::BothWays,
    };
    let (typed, waiting) = mpsc::channel(WAITING_FRAMES);
    let lines = stream::unfold(waiting, async |mut waiting: mpsc::Receiver<Bytes>| {
        Some((Ok(waiting.recv().await?), waiting))
    });
    let answered = gateway.sessions.project(session, asked, Box::pin(lines)).await;
    let (response, answer) = answered.ok_or_else(|| Problem::not_found("route"))??;
    if response.status != StatusCode::OK.as_u16() {
        return reply(&response, false, Some((answer, permit)));
    }
    let authorization = gateway.authorize_stream(client);
    let memory = gateway.memory.clone();
    Ok(upgrade.on_upgrade(async move |socket| {
        let _permit = permit;
        while_authorized(authorization, relay_terminal(socket, memory, answer, typed)).await;
    }))
}

/// What another machine is told about a client.
fn described(client: &AuthenticatedClient) -> ProjectClient {
    let role = match client.role {
        Role::Watch => ProjectRole::Watch,
        Role::Drive => ProjectRole::Drive,
        Role::Admin => ProjectRole::Admin,
    };
    ProjectClient { name: client.name.clone(), role, shell: client.shell }
}

/// Decides how a browser treats a response.
fn protect(headers: &mut HeaderMap, is_content: bool) {
    let media_type = headers.get(header::CONTENT_TYPE).cloned();
    if is_content {
        let is_pdf = media_type.is_some_and(|it| it == "application/pdf");
        let policy = HeaderValue::from_static(if is_pdf { PDF_POLICY } else { FILE_POLICY });
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        return;
    }
    headers.remove(header::CONTENT_DISPOSITION);
    if let Some(media_type) = media_type {
        let is_problem = media_type == "application/problem+json";
        let json = if is_problem { "application/problem+json" } else { "application/json" };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(json));
    }
}

/// The body of a request. A client that stops sending ends it with an error.
fn body_of(request: Request) -> ProjectBody {
    let pieces = request.into_body().into_data_stream();
    Box::pin(stream::unfold(Some(pieces), async |pieces| {
        let mut pieces = pieces?;
        match timeout(UPLOAD_STALLED_AFTER, pieces.next()).await {
            Ok(Some(Ok(piece))) => Some((Ok(piece), Some(pieces))),
            Ok(None) => None,
            Ok(Some(Err(_))) => Some((Err(incomplete()), None)),
            Err(_) => Some((Err(io::ErrorKind::TimedOut.into()), None)),
        }
    }))
}

fn incomplete() -> io::Error {
    io::Error::other("the body is incomplete")
}

/// A body that holds its permit until it is sent.
fn held(
    body: ProjectBody,
    permit: OwnedSemaphorePermit,
) -> impl futures_util::Stream<Item = io::Result<Bytes>> {
    stream::unfold((body, permit), async |(mut body, permit)| {
        let piece = body.next().await?;
        Some((piece, (body, permit)))
    })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header};

    use super::{is_followed_terminal, project_path, protect};

    #[test]
    fn only_what_is_about_a_project_is_passed_on() {
        let session = "/api/v1/sessions/00000000-0000-0000-0000-000000000001";
        let passed_on =
            ["files", "files/list", "git/status", "worktree", "terminals", "terminals/1/follow"];
        for path in passed_on {
            let full = format!("{session}/{path}");
            assert_eq!(project_path(&full).map(|it| it.1), Some(path));
        }
        for path in ["prompts", "terminal", "terminals1", "git", "filesystem", "worktrees", ""] {
            assert_eq!(project_path(&format!("{session}/{path}")), None, "{path}");
        }
        assert_eq!(project_path("/api/v1/sessions/x/files"), None);
        assert_eq!(project_path("/api/v1/tokens"), None);
    }

    #[test]
    fn only_the_screen_of_a_terminal_is_followed() {
        assert!(is_followed_terminal("terminals/1/follow"));
        for path in ["terminals", "terminals/1", "terminals/1/2/follow", "files/follow", "follow"] {
            assert!(!is_followed_terminal(path), "{path}");
        }
    }

    #[test]
    fn another_machine_cannot_have_a_page_shown() {
        let html = || {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
            headers
        };
        let mut headers = html();
        protect(&mut headers, false);
        assert_eq!(headers[header::CONTENT_TYPE], "application/json");
        let mut headers = html();
        protect(&mut headers, true);
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("sandbox; default-src 'none'"), "{policy}");
    }
}
