//! What every request passes: whose server it thinks this is, whose page it comes from, who sends
//! it, and whether they may.
//!
//! What may be done is decided here, by method and path, and not where it is done: a route that
//! nobody thought about is closed.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::access::{Role, Secret, Sort};
use crate::api::{PREFIX, Problem};
use crate::clock::now;
use crate::gateway::Gateway;
use crate::visitor::{Peer, Via, Visitor};

const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; \
     worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; \
     require-trusted-types-for 'script'; trusted-types towpath";

/// Lets a request through, or not.
pub(crate) async fn guard(
    State(gateway): State<Gateway>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut response = match admit(&gateway, &mut request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(header::CONTENT_SECURITY_POLICY, CONTENT_POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::REFERRER_POLICY, "no-referrer");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

fn admit(gateway: &Gateway, request: &mut Request) -> Result<(), Problem> {
    let headers = request.headers();
    let host = host(headers, request.uri()).ok_or_else(|| Problem::invalid("which host?"))?;
    if !gateway.config.hosts.has(&host) {
        let detail = "this is not a name of this server; `--host` makes it one";
        let status = StatusCode::MISDIRECTED_REQUEST;
        return Err(Problem::new(status, "foreign-host", "not this server", detail));
    }
    let origin = only(headers, &header::ORIGIN)?;
    if origin.is_some_and(|it| !gateway.config.hosts.is_origin(it, &host)) {
        return Err(Problem::forbidden("the request comes from somebody else's page"));
    }
    let needed = needed(request.method(), request.uri().path());
    let from = request.extensions().get::<Peer>().copied();
    let visitor = match visitor(gateway, headers, from) {
        Ok(visitor) => visitor,
        Err(_) if needed.is_none() => None,
        Err(problem) => return Err(problem),
    };
    let Some(visitor) = visitor else {
        return if needed.is_none() { Ok(()) } else { Err(Problem::not_signed_in()) };
    };
    let changes = !is_safe(request.method()) || headers.contains_key(header::UPGRADE);
    if changes && !matches!(visitor.via, Via::Token(_)) && origin.is_none() {
        return Err(Problem::forbidden("a browser says which page a request comes from"));
    }
    if needed.is_some_and(|needed| visitor.role < needed) {
        return Err(Problem::forbidden("your token does not allow it"));
    }
    request.extensions_mut().insert(visitor);
    Ok(())
}

/// What one must be allowed to send a request; nothing where anybody may.
fn needed(method: &Method, path: &str) -> Option<Role> {
    let Some(rest) = path.strip_prefix(PREFIX) else {
        // The pages hold no secret: they are the same for everybody.
        return (!is_safe(method)).then_some(Role::Admin);
    };
    match rest {
        "/health" | "/sign-in" => None,
        "/sign-out" => Some(Role::Watch),
        it if it == "/tokens" || it.starts_with("/tokens/") => Some(Role::Admin),
        _ if is_safe(method) => Some(Role::Watch),
        _ => Some(Role::Drive),
    }
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn visitor(
    gateway: &Gateway,
    headers: &HeaderMap,
    from: Option<Peer>,
) -> Result<Option<Visitor>, Problem> {
    let now = now();
    if let Some(presented) = only(headers, &header::AUTHORIZATION)? {
        let token = presented.split_once(' ').filter(|it| it.0.eq_ignore_ascii_case("bearer"));
        let secret = token.map(|(_, token)| Secret::presented(token.trim()));
        let key = match secret {
            Some(secret) => gateway.keyring.find(&secret, Sort::Token, now)?,
            None => None,
        };
        return match key {
            Some(key) => {
                let via = Via::Token(key.digest);
                Ok(Some(Visitor { name: key.name, role: key.role, via }))
            }
            None => Err(gateway.wrong_key(from)),
        };
    }
    if let Some(proxy) = &gateway.config.proxy
        && let Some(from) = from
        && proxy.addresses.contains(&from.0.ip().to_canonical())
        && let Ok(header) = HeaderName::try_from(proxy.header.as_str())
        && let Some(name) = only(headers, &header)?.filter(|it| !it.is_empty())
    {
        return Ok(Some(Visitor { name: name.to_owned(), role: proxy.role, via: Via::Proxy }));
    }
    let Some(cookie) = cookie(headers, &gateway.cookie_name()) else { return Ok(None) };
    let secret = Secret::presented(cookie);
    let key = gateway.keyring.find(&secret, Sort::Cookie, now)?;
    Ok(key.map(|key| {
        let via = Via::Cookie(secret.digest());
        Visitor { name: key.name, role: key.role, via }
    }))
}

fn host(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let header = only(headers, &header::HOST).ok()?.map(str::to_owned);
    match (header, uri.authority()) {
        // Two that disagree are a trick.
        (Some(host), Some(other)) if !host.eq_ignore_ascii_case(other.as_str()) => None,
        (Some(host), _) => Some(host),
        (None, other) => other.map(ToString::to_string),
    }
}

/// The value of a header that may be there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value
            .to_str()
            .map(Some)
            .map_err(|_| Problem::invalid(format!("the header `{name}` is no text"))),
        (Some(_), Some(_)) => Err(Problem::invalid(format!("there are several `{name}`"))),
    }
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
    let mut pairs = all.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::needed;
    use crate::access::Role;

    #[test]
    fn what_nobody_thought_about_is_closed() {
        let check = |method: Method, path: &str, role| assert_eq!(needed(&method, path), role);
        check(Method::GET, "/api/v1/health", None);
        check(Method::POST, "/api/v1/sign-in", None);
        check(Method::GET, "/", None);
        check(Method::GET, "/api/v1/sessions", Some(Role::Watch));
        check(Method::GET, "/api/v1/anything", Some(Role::Watch));
        check(Method::POST, "/api/v1/sessions", Some(Role::Drive));
        check(Method::OPTIONS, "/api/v1/sessions", Some(Role::Drive));
        check(Method::GET, "/api/v1/tokens", Some(Role::Admin));
        check(Method::DELETE, "/api/v1/tokens/x", Some(Role::Admin));
        check(Method::POST, "/", Some(Role::Admin));
    }
}
