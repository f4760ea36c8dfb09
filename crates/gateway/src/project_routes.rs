//! The routes about the projects and the terminals of sessions, for gateways on other machines: a worker answers
//! their requests with the code that answers the clients of a server.
//!
//! A gateway is trusted with who its client is and what role it has, and with nothing else: only these routes
//! exist here, the session is named apart from the path, and directories are checked with this machine's roots. Shells
//! are started only if this machine was told to.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use journal::SessionId;
use session::{
    ProjectAnswer, ProjectBody, ProjectRequest, ProjectRole, ProjectService, RelayFuture, Roots,
    Sessions, WorktreeRemoval, WorktreeService,
};
use terminal::ShellConfig;
use tower::ServiceExt as _;

use crate::access::{AuthenticatedClient, Hosts, Role, SignInMethod, needs_shell, required_role};
use crate::api::{NewWorktree, RemovableWorktree};
use crate::config::{API_PREFIX, GatewayConfig, PushConfig};
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::{api, relayed_headers, request_memory};

/// The longest path and query of a request.
const MAX_URI_BYTES: usize = 16 << 10;

/// Answers requests about the files, the git repositories and the terminals of this machine's sessions.
#[derive(Clone, Debug)]
pub struct ProjectRoutes {
    router: Router,
    gateway: Gateway,
}

impl ProjectRoutes {
    /// `data` is the data directory of the sessions. Without `shell` there are no terminals.
    pub fn new(
        sessions: Sessions,
        roots: Roots,
        data: PathBuf,
        shell: Option<ShellConfig>,
    ) -> Self {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let config = GatewayConfig {
            data,
            hosts: Hosts::new(nowhere, &[]),
            roots,
            proxy: None,
            pages: None,
            shell,
            demo: false,
            log: None,
            secure: false,
            max_connections: 0,
            push: PushConfig::default(),
        };
        let gateway = Gateway::without_clients(sessions, config);
        let router = api::project_router()
            .fallback(async || Problem::not_found("route").into_response())
            .layer(middleware::from_fn_with_state(gateway.clone(), request_memory::hold))
            .with_state(gateway.clone());
        Self { router, gateway }
    }

    /// Closes all terminals.
    pub async fn close(&self) {
        if let Some(terminals) = &self.gateway.terminals {
            terminals.close_all().await;
        }
    }

    async fn respond(
        &self,
        session: SessionId,
        request: ProjectRequest,
        body: ProjectBody,
    ) -> Response {
        let built = build(session, request, body);
        match built.and_then(|it| self.check_terminals(it)) {
            Ok(request) => {
                self.router.clone().oneshot(request).await.unwrap_or_else(|it| match it {})
            }
            Err(problem) => problem.into_response(),
        }
    }
}

impl ProjectRoutes {
    /// Refuses requests about terminals if there are none here.
    fn check_terminals(&self, request: Request) -> Result<Request, Problem> {
        if self.gateway.terminals.is_some() || !needs_shell(request.uri().path()) {
            return Ok(request);
        }
        let detail = "the worker of this session was started without terminals; `towpath worker --terminal` has them";
        Err(Problem::new(StatusCode::FORBIDDEN, "no-terminals", "no terminals there", detail))
    }
}

impl ProjectService for ProjectRoutes {
    fn answer(
        &self,
        session: SessionId,
        request: ProjectRequest,
        body: ProjectBody,
    ) -> RelayFuture<'_, (ProjectAnswer, ProjectBody)> {
        Box::pin(async move {
            let (parts, body) = self.respond(session, request, body).await.into_parts();
            let headers = relayed_headers::of_response(&parts.headers);
            let pieces = body.into_data_stream().map(|it| it.map_err(io::Error::other));
            (ProjectAnswer { status: parts.status.as_u16(), headers }, Box::pin(pieces) as _)
        })
    }

    fn release(&self, session: SessionId) -> RelayFuture<'_, ()> {
        Box::pin(async move {
            if let Some(terminals) = &self.gateway.terminals {
                terminals.close_session(session.0).await;
            }
        })
    }
}

impl WorktreeService for ProjectRoutes {
    fn create(
        &self,
        directory: PathBuf,
        about: String,
    ) -> RelayFuture<'_, Result<PathBuf, String>> {
        Box::pin(async move {
            let created = NewWorktree::create(&self.gateway, &directory, &about).await;
            Ok(created.map_err(|problem| problem.detail)?.directory)
        })
    }

    fn removable(
        &self,
        session: SessionId,
        removal: WorktreeRemoval,
    ) -> RelayFuture<'_, Result<PathBuf, String>> {
        Box::pin(async move {
            let found = RemovableWorktree::of_session(&self.gateway, session.0, removal).await;
            Ok(found.map_err(|problem| problem.detail)?.path().to_owned())
        })
    }

    fn remove(&self, directory: PathBuf) -> RelayFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let removed =
                async { RemovableWorktree::at(&self.gateway, &directory).await?.remove().await };
            removed.await.map_err(|problem| problem.detail)
        })
    }
}

/// The request as the routes expect it, from a client that may do what it asks for.
fn build(
    session: SessionId,
    request: ProjectRequest,
    body: ProjectBody,
) -> Result<Request, Problem> {
    let ProjectRequest { method, path, query, headers, client, mode: _ } = request;
    let odd = || Problem::invalid("the request cannot be passed on");
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    if !path.split('/').all(is_plain) || path.contains(['?', '#']) {
        return Err(odd());
    }
    let mut uri = format!("{API_PREFIX}/sessions/{session}/{path}");
    if let Some(query) = query {
        uri.push('?');
        uri.push_str(&query);
    }
    if uri.len() > MAX_URI_BYTES {
        return Err(Problem::new(StatusCode::URI_TOO_LONG, "too-long", "too long", "too long"));
    }
    let uri = Uri::try_from(uri).map_err(|_| odd())?;
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| odd())?;
    let role = match client.role {
        ProjectRole::Watch => Role::Watch,
        ProjectRole::Drive => Role::Drive,
        ProjectRole::Admin => Role::Admin,
    };
    // The gateway has checked it too.
    if required_role(&method, uri.path()).is_none_or(|required| role < required) {
        return Err(Problem::forbidden("your role does not allow this"));
    }
    let shell = client.shell && role >= Role::Drive;
    if needs_shell(uri.path()) && !shell {
        return Err(Problem::forbidden("this client may not have a shell"));
    }
    let mut built = Request::new(Body::from_stream(body));
    *built.method_mut() = method;
    *built.uri_mut() = uri;
    *built.headers_mut() = relayed_headers::read_request(&headers);
    let method = SignInMethod::Proxy;
    let client = AuthenticatedClient { name: client.name, role, shell, method, device: None };
    built.extensions_mut().insert(client);
    Ok(built)
}

#[cfg(test)]
mod tests {
    use journal::SessionId;
    use session::{ExchangeMode, ProjectClient, ProjectRequest, ProjectRole};
    use uuid::Uuid;

    use super::build;

    #[test]
    fn a_request_is_about_its_own_session_and_role_whatever_its_path_says() {
        let check_with = |method: &str, path: &str, query: Option<&str>, role, shell| {
            let request = ProjectRequest {
                method: method.to_owned(),
                path: path.to_owned(),
                query: query.map(str::to_owned),
                headers: Vec::new(),
                client: ProjectClient { name: "ann".to_owned(), role, shell },
                mode: ExchangeMode::InTurn,
            };
            let body = Box::pin(futures_util::stream::empty());
            let built = build(SessionId(Uuid::from_u128(1)), request, body);
            built.map(|it| it.uri().to_string()).map_err(|it| it.status)
        };
        let check = |method: &str, path: &str, query: Option<&str>, role| {
            check_with(method, path, query, role, false)
        };
        let own = "/api/v1/sessions/00000000-0000-0000-0000-000000000001";
        let drive = ProjectRole::Drive;
        assert_eq!(check("GET", "git/status", None, drive), Ok(format!("{own}/git/status")));
        let query = Some("path=a%2Fb");
        let listed = Ok(format!("{own}/files/list?path=a%2Fb"));
        assert_eq!(check("GET", "files/list", query, drive), listed);
        for path in ["../../tokens", "files/../../x", "files//list", "", "/files", "files?x", "a#"]
        {
            assert_eq!(check("GET", path, None, ProjectRole::Admin), Err(400), "{path}");
        }
        for (method, path) in [("GET", "git/diff"), ("GET", "files/content"), ("POST", "files")] {
            assert_eq!(check(method, path, None, ProjectRole::Watch), Err(403), "{method} {path}");
        }
        let shells = ["terminals", "terminals/1/follow"];
        for path in shells {
            assert_eq!(check("GET", path, None, ProjectRole::Admin), Err(403), "{path}");
            assert_eq!(check_with("GET", path, None, ProjectRole::Watch, true), Err(403), "{path}");
            let allowed = check_with("GET", path, None, drive, true);
            assert_eq!(allowed, Ok(format!("{own}/{path}")));
        }
        assert_eq!(check("G E T", "git/status", None, drive), Err(400));
        assert_eq!(check("GET", "git/status", Some("\r\nx: y"), drive), Err(400));
    }
}
