//! The routes about the projects of sessions, for gateways on other machines: a worker answers their requests
//! with the code that answers the clients of a server.
//!
//! A gateway is trusted with who its client is and what role it has, and with nothing else: only these routes
//! exist here, the session is named apart from the path, and directories are checked with this machine's roots.

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
    Sessions,
};
use tower::ServiceExt as _;

use crate::access::{AuthenticatedClient, Hosts, Role, SignInMethod, required_role};
use crate::config::{API_PREFIX, GatewayConfig, PushConfig};
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::{api, relayed_headers, request_memory};

/// The longest path and query of a request.
const MAX_URI_BYTES: usize = 16 << 10;

/// Answers requests about the files and the git repositories of this machine's sessions.
#[derive(Clone, Debug)]
pub struct ProjectRoutes {
    router: Router,
}

impl ProjectRoutes {
    /// `data` is the data directory of the sessions.
    pub fn new(sessions: Sessions, roots: Roots, data: PathBuf) -> Self {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let config = GatewayConfig {
            data,
            hosts: Hosts::new(nowhere, &[]),
            roots,
            proxy: None,
            pages: None,
            shell: None,
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
            .with_state(gateway);
        Self { router }
    }

    async fn respond(
        &self,
        session: SessionId,
        request: ProjectRequest,
        body: ProjectBody,
    ) -> Response {
        match build(session, request, body) {
            Ok(request) => {
                self.router.clone().oneshot(request).await.unwrap_or_else(|it| match it {})
            }
            Err(problem) => problem.into_response(),
        }
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
}

/// The request as the routes expect it, from a client that may do what it asks for.
fn build(
    session: SessionId,
    request: ProjectRequest,
    body: ProjectBody,
) -> Result<Request, Problem> {
    let ProjectRequest { method, path, query, headers, client } = request;
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
    let mut built = Request::new(Body::from_stream(body));
    *built.method_mut() = method;
    *built.uri_mut() = uri;
    *built.headers_mut() = relayed_headers::read_request(&headers);
    let method = SignInMethod::Proxy;
    let client =
        AuthenticatedClient { name: client.name, role, shell: false, method, device: None };
    built.extensions_mut().insert(client);
    Ok(built)
}

#[cfg(test)]
mod tests {
    use journal::SessionId;
    use session::{ProjectClient, ProjectRequest, ProjectRole};
    use uuid::Uuid;

    use super::build;

    #[test]
    fn a_request_is_about_its_own_session_and_role_whatever_its_path_says() {
        let check = |method: &str, path: &str, query: Option<&str>, role| {
            let request = ProjectRequest {
                method: method.to_owned(),
                path: path.to_owned(),
                query: query.map(str::to_owned),
                headers: Vec::new(),
                client: ProjectClient { name: "ann".to_owned(), role },
            };
            let body = Box::pin(futures_util::stream::empty());
            let built = build(SessionId(Uuid::from_u128(1)), request, body);
            built.map(|it| it.uri().to_string()).map_err(|it| it.status)
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
        assert_eq!(check("G E T", "git/status", None, drive), Err(400));
        assert_eq!(check("GET", "git/status", Some("\r\nx: y"), drive), Err(400));
    }
}
