//! Terminals of a session: listing, starting, closing and following them.
//!
//! Whether a client may have a shell is decided by the access check, for all these routes.

mod follow;
mod frame;
mod frame_lines;
mod relay;
mod transport;

use std::path::PathBuf;
use std::time::SystemTime;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{delete, get};
use serde::{Deserialize, Serialize};
use terminal::{ScreenSize, ShellExit, StartError, Terminal, Terminals};
use tracing::info;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

pub(crate) use follow::with_terminal_limits;
pub(super) use frame::{TerminalClientFrame, TerminalFrame};
pub(crate) use relay::relay_terminal;

use super::extract::{JsonBody, PathParams};
use super::project_files::outside;
use super::sessions::find_record;
use super::tag;
use crate::access::AuthenticatedClient;
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

pub(super) fn operations() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(list, start))
        .routes(routes!(close))
        .routes(routes!(follow::terminal))
}

/// The same for the clients of other machines.
pub(super) fn relayed_operations() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .route("/sessions/{id}/terminals", get(list).post(start_below_roots))
        .route("/sessions/{id}/terminals/{terminal}", delete(close))
        .route("/sessions/{id}/terminals/{terminal}/follow", get(follow::relayed_terminal))
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TerminalList)]
pub(super) struct TerminalsResponse {
    terminals: Vec<TerminalResponse>,
}

/// A terminal of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Terminal)]
pub(super) struct TerminalResponse {
    /// The number in the session, from 1.
    number: u32,
    /// What the program in it calls it; may be empty.
    title: String,
    /// In milliseconds since 1970.
    started: u64,
    /// How the shell ended; missing while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<ShellExitResponse>,
}

/// How a shell ended: with a code or by a signal. Neither is known if it could not be waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ShellExit)]
pub(super) struct ShellExitResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StartTerminalRequest {
    /// The size of the client that starts it. It has the size of the client that typed last.
    #[schema(minimum = 2, maximum = 300)]
    columns: Option<u16>,
    #[schema(minimum = 2, maximum = 150)]
    rows: Option<u16>,
    /// The number of a terminal whose shell has ended, which the new one replaces.
    #[schema(minimum = 1)]
    again: Option<u32>,
}

#[utoipa::path(get, path = "/sessions/{id}/terminals", tag = tag::TERMINALS, params(("id" = Uuid, Path)),
    responses((status = 200, body = TerminalsResponse)))]
/// The terminals of a session. Takes the right to have a shell.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<TerminalsResponse>> {
    let terminals = terminals(&gateway)?;
    find_record(&gateway, id).await?;
    Ok(Json(TerminalsResponse { terminals: list_terminals(terminals, id) }))
}

#[utoipa::path(post, path = "/sessions/{id}/terminals", tag = tag::TERMINALS, params(("id" = Uuid, Path)),
    request_body = StartTerminalRequest, responses((status = 201, body = TerminalResponse)))]
/// Starts a shell in the session's directory. It runs until it ends, is closed, or the server stops.
pub(super) async fn start(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    JsonBody(body): JsonBody<StartTerminalRequest>,
) -> ApiResult<(StatusCode, Json<TerminalResponse>)> {
    terminals(&gateway)?;
    let directory = find_record(&gateway, id).await?.directory;
    start_in(gateway, client, id, directory, &body).await
}

/// Starts a shell for a client of another machine. The roots may be others than when the session was created.
async fn start_below_roots(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    JsonBody(body): JsonBody<StartTerminalRequest>,
) -> ApiResult<(StatusCode, Json<TerminalResponse>)> {
    terminals(&gateway)?;
    let directory = find_record(&gateway, id).await?.directory;
    let roots = gateway.config.roots.clone();
    let resolve = move || roots.resolve(&directory).ok_or_else(|| outside(&directory));
    let resolved = tokio::task::spawn_blocking(resolve).await;
    let directory = resolved.map_err(|it| Problem::failed(&it))??;
    start_in(gateway, client, id, directory, &body).await
}

async fn start_in(
    gateway: Gateway,
    client: AuthenticatedClient,
    id: Uuid,
    directory: PathBuf,
    body: &StartTerminalRequest,
) -> ApiResult<(StatusCode, Json<TerminalResponse>)> {
    let default = ScreenSize::default();
    let columns = body.columns.unwrap_or(default.columns());
    let size = ScreenSize::new(columns, body.rows.unwrap_or(default.rows()));
    let again = body.again;
    if again == Some(0) {
        return Err(Problem::invalid("terminals are numbered from 1"));
    }
    let started = tokio::task::spawn_blocking(move || {
        let terminals = terminals(&gateway)?;
        terminals.start(id, &directory, size, again).map_err(Problem::from)
    });
    let terminal = started.await.map_err(|it| Problem::failed(&it))??;
    info!(session = %id, terminal = terminal.number(), client = client.name, "a terminal starts");
    Ok((StatusCode::CREATED, Json(TerminalResponse::from(&*terminal))))
}

#[utoipa::path(delete, path = "/sessions/{id}/terminals/{terminal}", tag = tag::TERMINALS,
    params(("id" = Uuid, Path), ("terminal" = u32, Path)), responses((status = 204, description = "closed")))]
/// Closes a terminal and ends the programs in it.
pub(super) async fn close(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams((id, number)): PathParams<(Uuid, u32)>,
) -> ApiResult<StatusCode> {
    if !terminals(&gateway)?.close(id, number).await {
        return Err(Problem::not_found("terminal"));
    }
    info!(session = %id, terminal = number, client = client.name, "a terminal was closed");
    Ok(StatusCode::NO_CONTENT)
}

/// The terminals, unless they are turned off.
fn terminals(gateway: &Gateway) -> ApiResult<&Terminals> {
    gateway.terminals.as_ref().ok_or_else(|| {
        let detail =
            "this server was started without terminals; `towpath serve --terminal` has them";
        Problem::new(StatusCode::FORBIDDEN, "no-terminals", "no terminals here", detail)
    })
}

fn list_terminals(terminals: &Terminals, session: Uuid) -> Vec<TerminalResponse> {
    terminals.of_session(session).iter().map(|it| TerminalResponse::from(&**it)).collect()
}

impl From<&Terminal> for TerminalResponse {
    fn from(terminal: &Terminal) -> Self {
        let started = terminal.started().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            number: terminal.number(),
            title: terminal.title(),
            started: started.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
            ended: terminal.ended().map(ShellExitResponse::from),
        }
    }
}

impl From<ShellExit> for ShellExitResponse {
    fn from(exit: ShellExit) -> Self {
        match exit {
            ShellExit::Code(code) => Self { code: Some(code), signal: None },
            ShellExit::Signal(name) => Self { code: None, signal: Some(name) },
            ShellExit::Unknown => Self { code: None, signal: None },
        }
    }
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        match error {
            StartError::TooManyOfSession | StartError::TooMany => {
                Self::conflict("too-many-terminals", error.to_string())
            }
            StartError::StillRunning => Self::conflict("conflict", error.to_string()),
            StartError::Shell(error) => Self::conflict("shell-not-started", error.to_string()),
        }
    }
}
