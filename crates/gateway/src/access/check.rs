//! The access check that every request passes: the host it names, the page it comes from, the
//! client that sends it, and whether that client may.
//!
//! The required role is decided here, by method and path, and not in the handlers: a route that was
//! forgotten here is closed.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::time::Instant;

use super::client::{AuthenticatedClient, PeerAddress, SignInMethod};
use super::device::device_name;
use super::tokens::{Role, TokenKind, TokenSecret};
use super::visitor::Visitor;
use crate::config::{ACP_PATH, API_PREFIX, METRICS_PATH};
use crate::gateway::{Gateway, now};
use crate::problem::Problem;

const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; \
     worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; \
     require-trusted-types-for 'script'; trusted-types towpath";

/// Marks a script or style sheet of the page. The policies of a document mean nothing for it, and forty times
/// their size is a quarter of what the page takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartOfPage;

/// The middleware.
pub(crate) async fn check(
    State(gateway): State<Gateway>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut response = match authenticate(&gateway, &mut request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    if let Some(mut problem) = response.extensions_mut().remove::<Problem>()
        && let Some(log) = &gateway.config.log
    {
        problem.detail = format!("the log says more: `{}` on the server", log.display());
        response = problem.into_response();
    }
    let is_part = response.extensions().get::<PartOfPage>().is_some();
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    if !is_part {
        set(header::X_FRAME_OPTIONS, "DENY");
        set(header::REFERRER_POLICY, "no-referrer");
        set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    }
    // A file of a project has a policy of its own, which allows even less.
    if !is_part && !headers.contains_key(header::CONTENT_SECURITY_POLICY) {
        let policy = HeaderValue::from_static(CONTENT_POLICY);
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

fn authenticate(gateway: &Gateway, request: &mut Request) -> Result<(), Problem> {
    let headers = request.headers();
    let host = host(headers, request.uri())
        .ok_or_else(|| Problem::invalid("the request names no host"))?;
    if !gateway.config.hosts.has(&host) {
        let detail = "this server does not answer to that host name; add it with `--host`";
        let status = StatusCode::MISDIRECTED_REQUEST;
        return Err(Problem::new(status, "foreign-host", "unknown host", detail));
    }
    let origin = only(headers, &header::ORIGIN)?;
    if origin.is_some_and(|it| !gateway.config.hosts.is_origin(it, &host)) {
        return Err(Problem::forbidden("the request comes from a page of another origin"));
    }
    let required = required_role(request.method(), request.uri().path());
    let from = request.extensions().get::<PeerAddress>().copied();
    let visitor = Visitor::new(headers, from, gateway.config.proxy.as_ref());
    let client = match identify(gateway, headers, from, visitor) {
        Ok(client) => client,
        Err(_) if required.is_none() => None,
        Err(problem) => return Err(problem),
    };
    let Some(client) = client else {
        request.extensions_mut().insert(visitor);
        return if required.is_none() { Ok(()) } else { Err(Problem::not_signed_in()) };
    };
    let changes = !is_safe(request.method()) || headers.contains_key(header::UPGRADE);
    if changes && !matches!(client.method, SignInMethod::Token(_)) && origin.is_none() {
        return Err(Problem::forbidden("the request has no `Origin`"));
    }
    if required.is_some_and(|required| client.role < required) {
        return Err(Problem::forbidden("your role does not allow this"));
    }
    if needs_shell(request.uri().path()) && !client.shell {
        let detail = "a terminal takes the role `admin`, or a token that may have a shell";
        return Err(Problem::forbidden(detail));
    }
    request.extensions_mut().insert(client);
    request.extensions_mut().insert(visitor);
    Ok(())
}

/// The role a request needs; `None` if it needs no sign-in.
pub(crate) fn required_role(method: &Method, path: &str) -> Option<Role> {
    if path == METRICS_PATH {
        return Some(Role::Watch);
    }
    if path == ACP_PATH {
        // Whether a client may do more than look is decided for each of its messages.
        return Some(Role::Watch);
    }
    let Some(rest) = path.strip_prefix(API_PREFIX) else {
        // The pages hold no secrets: they are the same for everyone.
        return (!is_safe(method)).then_some(Role::Admin);
    };
    match rest {
        "/health" | "/sign-in" => None,
        "/sign-out" | "/push/subscriptions" | "/push/test" => Some(Role::Watch),
        it if it == "/tokens" || it.starts_with("/tokens/") => Some(Role::Admin),
        // What git shows of files, the conversation may not have shown.
        it if is_git(it) => Some(Role::Drive),
        // Any file of a project is more than what a conversation shows.
        it if is_file_content(it) => Some(Role::Drive),
        _ if is_safe(method) => Some(Role::Watch),
        _ => Some(Role::Drive),
    }
}

/// Whether a path is `/sessions/ID/git/…`.
fn is_git(path: &str) -> bool {
    let mut parts = path.split('/').skip(1);
    parts.next() == Some("sessions") && parts.nth(1) == Some("git")
}

/// Whether a path is `/sessions/{id}/files/…`. The names of files, without the last part, are no
/// secret.
fn is_file_content(path: &str) -> bool {
    let mut parts = path.split('/').skip(1);
    parts.next() == Some("sessions") && parts.nth(1) == Some("files") && parts.next().is_some()
}

/// Whether a request is about a terminal. A client that types there acts as the user of the server, so
/// even reading it takes that right.
pub(crate) fn needs_shell(path: &str) -> bool {
    let rest = path.strip_prefix(API_PREFIX).and_then(|it| it.strip_prefix("/sessions/"));
    let below = rest.and_then(|it| it.split_once('/')).map(|(_, below)| below);
    below.is_some_and(|it| it == "terminals" || it.starts_with("terminals/"))
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The client that sent a request; `None` if it is not signed in.
fn identify(
    gateway: &Gateway,
    headers: &HeaderMap,
    from: Option<PeerAddress>,
    visitor: Visitor,
) -> Result<Option<AuthenticatedClient>, Problem> {
    let now = now();
    if let Some(presented) = only(headers, &header::AUTHORIZATION)? {
        let token = presented.split_once(' ').filter(|it| it.0.eq_ignore_ascii_case("bearer"));
        let secret = token.map(|(_, token)| TokenSecret::presented(token.trim()));
        let token = match secret {
            Some(secret) => gateway.tokens.find(&secret, TokenKind::Token, now)?,
            None => None,
        };
        return match token {
            Some(token) => {
                let (role, shell) = (token.role, token.may_have_shell());
                let method = SignInMethod::Token(token.digest);
                let (name, device) = (token.name, None);
                Ok(Some(AuthenticatedClient { name, role, shell, method, device }))
            }
            None => Err(gateway.sign_in_failed(visitor)),
        };
    }
    if let Some(proxy) = &gateway.config.proxy
        && let Some(from) = from
        && proxy.addresses.contains(&from.0.ip().to_canonical())
        && let Some(header) = &proxy.header
        && let Ok(header) = HeaderName::try_from(header.as_str())
        && let Some(name) = only(headers, &header)?.filter(|it| !it.is_empty())
    {
        let (name, method) = (name.to_owned(), SignInMethod::Proxy);
        let (role, shell) = (proxy.role, proxy.role.may_have_shell());
        let device = device_name(None, only(headers, &header::USER_AGENT)?);
        return Ok(Some(AuthenticatedClient { name, role, shell, method, device }));
    }
    let Some(cookie) = cookie(headers, &gateway.cookie_name()) else { return Ok(None) };
    let secret = TokenSecret::presented(cookie);
    let token = gateway.tokens.find(&secret, TokenKind::Cookie, now)?;
    Ok(token.map(|token| {
        let (role, shell) = (token.role, token.may_have_shell());
        let method = SignInMethod::Cookie(secret.digest());
        let (name, device) = (token.name, token.device);
        AuthenticatedClient { name, role, shell, method, device }
    }))
}

fn host(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let header = only(headers, &header::HOST).ok()?.map(str::to_owned);
    match (header, uri.authority()) {
        // A request whose two host names differ is an attack.
        (Some(host), Some(other)) if !host.eq_ignore_ascii_case(other.as_str()) => None,
        (Some(host), _) => Some(host),
        (None, other) => other.map(ToString::to_string),
    }
}

/// The value of a header that may occur once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value
            .to_str()
            .map(Some)
            .map_err(|_| Problem::invalid(format!("the header `{name}` is not text"))),
        (Some(_), Some(_)) => {
            Err(Problem::invalid(format!("the header `{name}` occurs more than once")))
        }
    }
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
    let mut pairs = all.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// How many failed sign-ins an address may have in a [`WINDOW`].
const MAX_FAILURES: u32 = 10;
const WINDOW: Duration = Duration::from_mins(1);

/// How many addresses are remembered. If there are more, all counts are reset: an attacker with
/// this many addresses is not slowed down by a count for each.
const MAX_ADDRESSES: usize = 4096;

/// Failed sign-ins by address.
///
/// Guessing 256 bits is hopeless; the limit keeps logs short and a runaway script cheap.
#[derive(Debug, Default)]
pub(crate) struct FailedSignIns(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl FailedSignIns {
    pub(crate) fn limit_reached(&self, from: IpAddr) -> bool {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures
            .get(&from)
            .is_some_and(|(since, count)| *count >= MAX_FAILURES && since.elapsed() < WINDOW)
    }

    pub(crate) fn add(&self, from: IpAddr) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= MAX_ADDRESSES {
            failures.clear();
        }
        let failure = failures.entry(from).or_insert_with(|| (Instant::now(), 0));
        if failure.0.elapsed() >= WINDOW {
            *failure = (Instant::now(), 0);
        }
        failure.1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::{FailedSignIns, MAX_FAILURES, WINDOW, needs_shell, required_role};
    use crate::access::Role;

    #[test]
    fn unknown_routes_are_closed() {
        let check =
            |method: Method, path: &str, role| assert_eq!(required_role(&method, path), role);
        check(Method::GET, "/api/v1/health", None);
        check(Method::POST, "/api/v1/sign-in", None);
        check(Method::GET, "/", None);
        check(Method::GET, "/api/v1/sessions", Some(Role::Watch));
        check(Method::GET, "/api/v1/sessions/x/files", Some(Role::Watch));
        check(Method::GET, "/api/v1/sessions/x/files/content", Some(Role::Drive));
        check(Method::HEAD, "/api/v1/sessions/x/files/anything", Some(Role::Drive));
        check(Method::GET, "/api/v1/anything", Some(Role::Watch));
        check(Method::POST, "/api/v1/sessions", Some(Role::Drive));
        check(Method::OPTIONS, "/api/v1/sessions", Some(Role::Drive));
        check(Method::GET, "/api/v1/tokens", Some(Role::Admin));
        check(Method::DELETE, "/api/v1/tokens/x", Some(Role::Admin));
        check(Method::PUT, "/api/v1/push/subscriptions", Some(Role::Watch));
        check(Method::PUT, "/api/v1/push/subscriptions/x", Some(Role::Drive));
        check(Method::POST, "/", Some(Role::Admin));
        check(Method::GET, "/acp", Some(Role::Watch));
    }

    #[test]
    fn every_route_of_terminals_takes_a_shell() {
        for path in ["/terminals", "/terminals/1", "/terminals/1/follow", "/terminals/"] {
            assert!(needs_shell(&format!("/api/v1/sessions/x{path}")), "{path}");
        }
        for path in ["/api/v1/sessions/terminals", "/api/v1/sessions/x/follow", "/terminals"] {
            assert!(!needs_shell(path), "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_with_too_many_failed_sign_ins_waits_and_others_do_not() {
        let failures = FailedSignIns::default();
        let (one, other) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        for _ in 0..MAX_FAILURES {
            assert!(!failures.limit_reached(one));
            failures.add(one);
        }
        assert!(failures.limit_reached(one) && !failures.limit_reached(other));
        tokio::time::advance(WINDOW).await;
        assert!(!failures.limit_reached(one));
    }
}
