//! The handling of one request: the network, the faults, and then the method.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::call::{BotApiCall, BotApiError, BotApiOutcome, BotApiParams};
use super::fault::{BotApiFault, BotApiFaultRules, BotApiNetwork};
use super::method::{self, MAX_UPLOAD};
use super::server::BotApiConnection;
use super::state::BotApiState;
use super::updates;

/// The largest body that the server reads. It reads bodies that it is going to reject, because a
/// client that is still sending would see a broken connection instead of the error.
const MAX_BODY: usize = 256 << 20;

/// What a form may add to the size of the file in it.
const FORM_OVERHEAD: usize = 64 << 10;

/// The state of the API together with the network and the faults in front of it.
#[derive(Debug)]
pub(crate) struct BotApiService {
    state: Mutex<BotApiState>,
    /// Counts changes, for tasks that wait for one.
    pub(crate) changes: watch::Sender<u64>,
    pub(crate) network: watch::Sender<BotApiNetwork>,
    faults: Mutex<BotApiFaultRules>,
    /// Counts how often the faults were cleared.
    pub(crate) clearings: watch::Sender<u64>,
    hung_calls: AtomicUsize,
}

/// Counts a call as hung for as long as it lives: until the network leaves the black hole, or the
/// client gives up.
struct BotApiHungCall<'a>(&'a BotApiService);

impl<'a> BotApiHungCall<'a> {
    fn new(service: &'a BotApiService) -> Self {
        service.hung_calls.fetch_add(1, Ordering::Relaxed);
        service.changes.send_modify(|count| *count += 1);
        Self(service)
    }
}

impl Drop for BotApiHungCall<'_> {
    fn drop(&mut self) {
        self.0.hung_calls.fetch_sub(1, Ordering::Relaxed);
        self.0.changes.send_modify(|count| *count += 1);
    }
}

impl BotApiService {
    pub(crate) fn new(state: BotApiState) -> Self {
        Self {
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
            network: watch::Sender::default(),
            faults: Mutex::default(),
            clearings: watch::Sender::new(0),
            hung_calls: AtomicUsize::new(0),
        }
    }

    /// The state, for reading.
    pub(crate) fn state(&self) -> MutexGuard<'_, BotApiState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Modifies the state and wakes the tasks that wait for a change.
    pub(crate) fn modify<T>(&self, modify: impl FnOnce(&mut BotApiState) -> T) -> T {
        let result = modify(&mut self.state());
        self.changes.send_modify(|count| *count += 1);
        result
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, BotApiFaultRules> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hung_calls(&self) -> usize {
        self.hung_calls.load(Ordering::Relaxed)
    }

    /// Responds to a request, if the network lets it through both ways.
    pub(crate) async fn handle(
        &self,
        connection: &BotApiConnection,
        request: Request<Body>,
    ) -> Response<Body> {
        self.pass_network(connection).await;
        let (parts, body) = request.into_parts();
        let response = match axum::body::to_bytes(body, MAX_BODY).await {
            Ok(body) => self.route(&parts, &body, connection).await,
            Err(_) => json_response(&Err(BotApiError::too_large())),
        };
        self.pass_network(connection).await;
        response
    }

    /// Returns at once if the network is up, and never otherwise.
    async fn pass_network(&self, connection: &BotApiConnection) {
        let mut network = self.network.subscribe();
        let current = *network.borrow_and_update();
        match current {
            BotApiNetwork::Up => {}
            BotApiNetwork::Reset => connection.reset().await,
            BotApiNetwork::Blackhole => {
                let _hung = BotApiHungCall::new(self);
                // The sender is in `self`, so the wait cannot fail.
                let _ = network.wait_for(|it| *it != BotApiNetwork::Blackhole).await;
                connection.reset().await;
            }
        }
    }

    async fn route(
        &self,
        parts: &Parts,
        body: &Bytes,
        connection: &BotApiConnection,
    ) -> Response<Body> {
        // Some clients percent-encode the colon of the token.
        let path = parts.uri.path().replace("%3A", ":").replace("%3a", ":");
        let (is_file, rest) = match path.strip_prefix("/file/bot") {
            Some(rest) => (true, Some(rest)),
            None => (false, path.strip_prefix("/bot")),
        };
        let Some((token, name)) = rest.and_then(|rest| rest.split_once('/')) else {
            return json_response(&Err(BotApiError::not_found()));
        };
        if token != self.state().options.token {
            return json_response(&Err(BotApiError::unauthorized()));
        }
        if is_file {
            self.download(name, connection).await
        } else {
            self.call(name, parts, body, connection).await
        }
    }

    async fn download(&self, path: &str, connection: &BotApiConnection) -> Response<Body> {
        let now = self.state().now();
        let fault = self.faults().take(now, "file", "");
        let file = self.state().files.download(path);
        let response = match file {
            Some(bytes) => Response::new(Body::from(bytes)),
            None => json_response(&Err(BotApiError::not_found())),
        };
        match fault {
            None => response,
            Some(fault) => fault_response(fault, connection).await,
        }
    }

    async fn call(
        &self,
        name: &str,
        parts: &Parts,
        body: &Bytes,
        connection: &BotApiConnection,
    ) -> Response<Body> {
        let params = BotApiParams::read(parts, body).await;
        let summary = params.as_ref().map(BotApiParams::summary).unwrap_or_default();
        let text = summary["text"].as_str().unwrap_or_default().to_owned();
        let (index, now) = self.modify(|state| {
            let (index, at) = (state.calls.len(), state.now());
            let (method, outcome) = (name.to_owned(), BotApiOutcome::Pending);
            state.calls.push(BotApiCall { at, method, params: summary, outcome, answered: false });
            (index, at)
        });
        let fault = self.faults().take(now, name, &text);
        let mut cleared = self.clearings.subscribe();
        let is_late =
            |it: &BotApiFault| matches!(it, BotApiFault::LoseResponse | BotApiFault::HoldResponse);
        if let Some(fault) = fault.filter(|it| !is_late(it)) {
            self.record_outcome(index, BotApiOutcome::Dropped, false);
            return fault_response(fault, connection).await;
        }
        let result = match params {
            Err(error) => Err(error),
            Ok(_) if body.len() > MAX_UPLOAD + FORM_OVERHEAD => Err(BotApiError::too_large()),
            Ok(params) if name.eq_ignore_ascii_case("getUpdates") => {
                updates::long_poll(self, &params).await
            }
            Ok(params) => self.modify(|state| method::execute(state, name, &params)),
        };
        let answered =
            fault != Some(BotApiFault::LoseResponse) && *self.network.borrow() == BotApiNetwork::Up;
        let outcome = match &result {
            Ok(value) => BotApiOutcome::Success(value.clone()),
            Err(error) => BotApiOutcome::Failure(error.clone()),
        };
        self.record_outcome(index, outcome, answered);
        match fault {
            // The sender is in `self`, so the wait cannot fail.
            Some(BotApiFault::HoldResponse) => drop(cleared.changed().await),
            Some(_) => connection.reset().await,
            None => {}
        }
        json_response(&result)
    }

    fn record_outcome(&self, index: usize, outcome: BotApiOutcome, answered: bool) {
        self.modify(|state| {
            if let Some(call) = state.calls.get_mut(index) {
                call.outcome = outcome;
                call.answered = answered;
            }
        });
    }
}

async fn fault_response(fault: BotApiFault, connection: &BotApiConnection) -> Response<Body> {
    match fault {
        BotApiFault::Reset | BotApiFault::LoseResponse => connection.reset().await,
        BotApiFault::Hang | BotApiFault::HoldResponse => std::future::pending().await,
        BotApiFault::Error(code) => json_response(&Err(BotApiError::internal(code))),
        BotApiFault::EntityError => {
            let reason = "can't parse entities: Unsupported start tag \"b\" at byte offset 0";
            json_response(&Err(BotApiError::bad_request(reason)))
        }
        BotApiFault::RetryAfter(seconds) => {
            json_response(&Err(BotApiError::too_many_requests(seconds)))
        }
        BotApiFault::HtmlPage(code) => {
            let status = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
            let page =
                format!("<html><head><title>{status}</title></head><body></body></html>\r\n");
            response(status, "text/html", page)
        }
    }
}

fn json_response(result: &Result<Value, BotApiError>) -> Response<Body> {
    let (code, body) = match result {
        Ok(value) => (200, json!({"ok": true, "result": value})),
        Err(error) => (error.code, error.body()),
    };
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = response(status, "application/json", body.to_string());
    if let Err(BotApiError { retry_after: Some(seconds), .. }) = result {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
    }
    response
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
