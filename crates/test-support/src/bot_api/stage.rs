//! Where a request meets the world, if the network and its faults let it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::connection::Line;
use super::fault::{Fault, Faults};
use super::log::{Call, Outcome};
use super::method::{self, LARGEST_UPLOAD};
use super::network::Network;
use super::params::Params;
use super::refusal::Refusal;
use super::world::World;

/// The largest body that is read before it is refused: a client that is still sending would see a
/// broken connection instead of the refusal.
const LARGEST: usize = 256 << 20;

/// What a form adds to the file in it.
const FORM: usize = 64 << 10;

/// Everything a request meets.
#[derive(Debug)]
pub(super) struct Stage {
    world: Mutex<World>,
    /// Counts what happened, for those who wait for something.
    pub(super) changed: watch::Sender<u64>,
    pub(super) network: watch::Sender<Network>,
    faults: Mutex<Faults>,
    /// How many calls hang in a dead network.
    held: AtomicUsize,
}

/// A call that hangs in a dead network, until it is let go or its client gives up.
struct Held<'a>(&'a Stage);

impl<'a> Held<'a> {
    fn by(stage: &'a Stage) -> Self {
        stage.held.fetch_add(1, Ordering::Relaxed);
        stage.changed.send_modify(|count| *count += 1);
        Self(stage)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
        self.0.changed.send_modify(|count| *count += 1);
    }
}

impl Stage {
    pub(super) fn new(world: World) -> Self {
        Self {
            world: Mutex::new(world),
            changed: watch::Sender::new(0),
            network: watch::Sender::default(),
            faults: Mutex::default(),
            held: AtomicUsize::new(0),
        }
    }

    /// The world, to look at.
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the world, and tells those who wait.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let outcome = change(&mut self.world());
        self.changed.send_modify(|count| *count += 1);
        outcome
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Answers a request, as far as the network lets it.
    pub(super) async fn receive(&self, line: &Line, request: Request<Body>) -> Response<Body> {
        self.pass(line).await;
        let (parts, body) = request.into_parts();
        let response = match axum::body::to_bytes(body, LARGEST).await {
            Ok(body) => self.respond(&parts, &body, line).await,
            Err(_) => answer(&Err(Refusal::too_large())),
        };
        self.pass(line).await;
        response
    }

    /// Waits while the network is dead; whoever waited for that finds the line cut.
    async fn pass(&self, line: &Line) {
        let mut network = self.network.subscribe();
        let now = *network.borrow_and_update();
        match now {
            Network::Up => {}
            Network::Refusing => line.cut().await,
            Network::Dead => {
                let _held = Held::by(self);
                // The sender lives in `self`, so the wait cannot fail.
                let _ = network.wait_for(|it| *it != Network::Dead).await;
                line.cut().await;
            }
        }
    }

    async fn respond(&self, parts: &Parts, body: &Bytes, line: &Line) -> Response<Body> {
        // Some clients send the colon of the token as it must be elsewhere in a URL.
        let path = parts.uri.path().replace("%3A", ":").replace("%3a", ":");
        let (file, rest) = match path.strip_prefix("/file/bot") {
            Some(rest) => (true, Some(rest)),
            None => (false, path.strip_prefix("/bot")),
        };
        let Some((token, name)) = rest.and_then(|rest| rest.split_once('/')) else {
            return answer(&Err(Refusal::not_found()));
        };
        if token != self.world().options.token {
            return answer(&Err(Refusal::unauthorized()));
        }
        if file {
            self.download(name, line).await
        } else {
            self.call(name, parts, body, line).await
        }
    }

    async fn download(&self, path: &str, line: &Line) -> Response<Body> {
        let now = self.world().now();
        let strike = self.faults().strike(now, "file");
        let found = self.world().files.at(path);
        let response = match found {
            Some(bytes) => Response::new(Body::from(bytes)),
            None => answer(&Err(Refusal::not_found())),
        };
        match strike {
            None => response,
            Some(fault) => suffer(fault, line).await.unwrap_or(response),
        }
    }

    async fn call(&self, name: &str, parts: &Parts, body: &Bytes, line: &Line) -> Response<Body> {
        let params = Params::read(parts, body);
        let summary = params.as_ref().map(Params::summary).unwrap_or_default();
        let (number, now) = self.change(|world| {
            let (number, at) = (world.log.len(), world.now());
            let (method, params) = (name.to_owned(), summary);
            let outcome = Outcome::Open;
            world.log.push(Call { at, method, params, outcome, answered: false });
            (number, at)
        });
        let fault = self.faults().strike(now, name);
        if let Some(fault) = fault.filter(|it| *it != Fault::LoseAnswer) {
            self.note(number, Outcome::Lost, false);
            if let Some(response) = suffer(fault, line).await {
                return response;
            }
        }
        let outcome = match params {
            Err(refusal) => Err(refusal),
            Ok(_) if body.len() > LARGEST_UPLOAD + FORM => Err(Refusal::too_large()),
            Ok(params) if name.eq_ignore_ascii_case("getUpdates") => {
                self.get_updates(&params).await
            }
            Ok(params) => self.change(|world| method::carry_out(world, name, &params)),
        };
        let answered = fault.is_none() && *self.network.borrow() == Network::Up;
        let noted = match &outcome {
            Ok(result) => Outcome::Done(result.clone()),
            Err(refusal) => Outcome::Refused(refusal.clone()),
        };
        self.note(number, noted, answered);
        if fault.is_some() {
            line.cut().await;
        }
        answer(&outcome)
    }

    fn note(&self, number: usize, outcome: Outcome, answered: bool) {
        self.change(|world| {
            if let Some(call) = world.log.get_mut(number) {
                call.outcome = outcome;
                call.answered = answered;
            }
        });
    }
}

/// Lets a fault happen; what it answers, where it answers.
async fn suffer(fault: Fault, line: &Line) -> Option<Response<Body>> {
    match fault {
        Fault::Refuse | Fault::LoseAnswer => line.cut().await,
        Fault::Hang => std::future::pending().await,
        Fault::Error(code) => Some(answer(&Err(Refusal::internal(code)))),
        Fault::Tags => {
            let why = "can't parse entities: Unsupported start tag \"b\" at byte offset 0";
            Some(answer(&Err(Refusal::bad(why))))
        }
        Fault::RetryAfter(seconds) => Some(answer(&Err(Refusal::too_many(seconds)))),
        Fault::Html(code) => {
            let status = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
            let page =
                format!("<html><head><title>{status}</title></head><body></body></html>\r\n");
            let mut response = Response::new(Body::from(page));
            *response.status_mut() = status;
            let html = HeaderValue::from_static("text/html");
            response.headers_mut().insert(header::CONTENT_TYPE, html);
            Some(response)
        }
    }
}

fn answer(outcome: &Result<Value, Refusal>) -> Response<Body> {
    let (code, body) = match outcome {
        Ok(result) => (200, json!({"ok": true, "result": result})),
        Err(refusal) => (refusal.code, refusal.body()),
    };
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Err(Refusal { retry_after: Some(seconds), .. }) = outcome {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
    }
    response
}
