//! The connection to the servers: requests, their failures, and what the servers say about it.
//!
//! The servers do not answer a request that the credentials do not allow. They report it beside the
//! request, so each request also waits for such a [report](AccessDenial) and fails at once.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{
    Client, ConnectOptions, Event, HeaderMap, Message, Request, RequestErrorKind, ServerAddr,
    ServerError, Subscriber,
};
use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{broadcast, watch};

use super::subjects::{LOG_STREAM, check_name};
use crate::bus::BusError;
use crate::setup::is_supported;

/// How long a server may take to answer. An election of a stream's leader takes 4 to 8 seconds.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the client asks whether the server is still there. A cut cable is noticed by nothing else.
const PING_INTERVAL: Duration = Duration::from_secs(2);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the attempts of a reading wait for an answer: as long in all as other requests.
const READ_TIMEOUTS: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1500)];
const LAST_READ_TIMEOUT: Duration = Duration::from_secs(3);

/// The longest pause between two attempts to connect again.
const MAX_RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// How many reports of denied requests may wait to be seen by the requests that wait.
const DENIAL_QUEUE: usize = 64;

const STREAM_NOT_FOUND: u64 = 10059;

/// How to connect to the servers.
#[derive(Clone)]
pub struct NatsConfig {
    /// Addresses such as `nats://host:4222` or `tls://host:4222`, also with `USER:PASSWORD@` before the host.
    /// The servers of a cluster tell the client about each other.
    pub servers: Vec<String>,
    /// A file with the credentials of a user: its private key (`SU…`), with or without a JWT.
    pub credentials: Option<PathBuf>,
    /// Certificates of authorities to trust in place of the system's.
    pub authorities: Option<PathBuf>,
    /// The certificate of this machine and its key, if the servers ask for one.
    pub certificate: Option<ClientCertificate>,
    /// The name of this machine among the connections of the servers. Answers are sent to subjects that
    /// start with `_INBOX` and this name, so permissions can keep machines from reading those of others.
    pub name: String,
}

/// Files with a certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    pub chain: PathBuf,
    pub key: PathBuf,
}

/// When the first connection must be established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstConnection {
    Now,
    /// As soon as a server answers.
    Later,
}

/// What is known of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStatus {
    pub connected: bool,
    /// How many times the connection was established.
    pub connects: u64,
    /// The last thing that the credentials did not allow.
    pub last_denial: Option<String>,
}

/// A server's report that the credentials do not allow something.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AccessDenial {
    subject: String,
}

/// Why there is no answer to a request.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    /// It was not sent.
    NotConnected,
    /// It may have arrived.
    NoAnswer(String),
    /// No server and no worker listens.
    NoResponders,
    Denied(String),
    TooLarge,
}

/// An error in an answer of JetStream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JetStreamError {
    /// As in HTTP.
    pub(crate) status: u64,
    pub(crate) code: u64,
    pub(crate) description: String,
}

/// A connection that is restored whenever it is lost.
#[derive(Clone)]
pub(crate) struct NatsConnection {
    client: Client,
    inbox: String,
    events: Arc<ConnectionEvents>,
}

struct ConnectionEvents {
    status: watch::Sender<ConnectionStatus>,
    denials: broadcast::Sender<AccessDenial>,
}

impl fmt::Debug for NatsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses may contain a password.
        f.debug_struct("NatsConfig").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for NatsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsConnection").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl NatsConnection {
    /// Connects to one of the servers. A connection that is lost later is restored without end.
    pub(crate) async fn connect(
        config: &NatsConfig,
        first: FirstConnection,
    ) -> Result<Self, BusError> {
        check_name(&config.name)?;
        let inbox = format!("_INBOX.{}", config.name);
        let addresses = addresses(&config.servers)?;
        let events = Arc::new(ConnectionEvents {
            status: watch::Sender::default(),
            denials: broadcast::Sender::new(DENIAL_QUEUE),
        });
        let on_event = Arc::clone(&events);
        let mut options = ConnectOptions::new()
            .name(format!("towpath {}", config.name))
            .custom_inbox_prefix(&inbox)
            .ping_interval(PING_INTERVAL)
            .connection_timeout(CONNECT_TIMEOUT)
            .reconnect_delay_callback(reconnect_pause)
            .event_callback(move |event| {
                on_event.handle(&event);
                std::future::ready(())
            });
        if let Some(file) = &config.credentials {
            options = add_credentials(options, file).await?;
        } else if let Some((user, password)) = addresses.iter().find_map(password) {
            // The client itself ignores what an address says about its user.
            options = options.user_and_password(user, password);
        }
        if let Some(file) = &config.authorities {
            options = options.add_root_certificates(file.clone());
        }
        if let Some(ClientCertificate { chain, key }) = &config.certificate {
            options = options.add_client_certificate(chain.clone(), key.clone());
        }
        if first == FirstConnection::Later {
            options = options.retry_on_initial_connect();
        }
        let client = options.connect(addresses).await.map_err(|error| connect_error(&error))?;
        if first == FirstConnection::Now {
            // The event of the first connection may come later than the first request.
            events.status.send_modify(|status| status.connected = true);
        }
        Ok(Self { client, inbox, events })
    }

    /// Refuses a server that is too old, in words.
    pub(crate) fn check_version(&self) -> Result<(), BusError> {
        let version = self.client.server_info().version;
        if is_supported(&version) {
            return Ok(());
        }
        Err(BusError::Setup(format!(
            "the servers run NATS {version}, which is too old: install 2.15 (2.12 at least)"
        )))
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn status(&self) -> ConnectionStatus {
        self.events.status.borrow().clone()
    }

    pub(crate) fn watch_status(&self) -> watch::Receiver<ConnectionStatus> {
        self.events.status.subscribe()
    }

    /// A future that ends when the present connection does.
    pub(super) fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut status = self.events.status.subscribe();
        let connects = status.borrow().connects;
        async move {
            // The event of the first connection may be counted while this waits.
            let is_lost = |now: &ConnectionStatus| !now.connected || now.connects > connects.max(1);
            // The sender lives as long as the client, which ends with the connection.
            let _ = status.wait_for(is_lost).await;
        }
    }

    /// A future that ends when a later connection is established.
    pub(super) fn reconnected(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut status = self.events.status.subscribe();
        let ConnectionStatus { connected, mut connects, .. } = *status.borrow();
        if connected {
            // The event of the first connection may be counted while this waits.
            connects = connects.max(1);
        }
        async move {
            let is_later = |now: &ConnectionStatus| now.connected && now.connects > connects;
            if status.wait_for(is_later).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Sends a request and waits for the answer.
    pub(super) async fn request(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
        timeout: Duration,
    ) -> Result<Message, RequestFailure> {
        if self.client.connection_state() != State::Connected {
            return Err(RequestFailure::NotConnected);
        }
        let mut request = Request::new().payload(payload).timeout(Some(timeout));
        if !headers.is_empty() {
            request = request.headers(headers);
        }
        let answer = async {
            let answer = self.client.send_request(subject.to_owned(), request).await;
            answer.map_err(|error| match error.kind() {
                RequestErrorKind::NoResponders => RequestFailure::NoResponders,
                RequestErrorKind::MaxPayloadExceeded => RequestFailure::TooLarge,
                _ => RequestFailure::NoAnswer(error.to_string()),
            })
        };
        self.or_failure(subject, answer).await
    }

    /// Waits for an answer, for the connection to be lost, or for the report that the credentials do not
    /// allow to publish to `subject`.
    pub(super) async fn or_failure<T>(
        &self,
        subject: &str,
        answer: impl Future<Output = Result<T, RequestFailure>>,
    ) -> Result<T, RequestFailure> {
        let denied = self.denied(subject);
        let lost = self.lost();
        let answer = tokio::select! {
            biased;
            denied = denied => Err(RequestFailure::Denied(denied)),
            () = lost => Err(RequestFailure::NoAnswer("the connection was lost".to_owned())),
            answer = answer => answer,
        };
        match answer {
            // The subscription for answers is made and denied once, before the first request.
            Err(RequestFailure::NoAnswer(why)) => match self.status().last_denial {
                Some(denied) if denied.starts_with(&self.inbox) => {
                    Err(RequestFailure::Denied(denied))
                }
                _ => Err(RequestFailure::NoAnswer(why)),
            },
            answer => answer,
        }
    }

    /// Subscribes. When this returns, the server knows the subscription, and has reported if the credentials
    /// do not allow it.
    pub(super) async fn subscribe(&self, subject: &str) -> Result<Subscriber, RequestFailure> {
        let subscribe = async {
            let subscriber = self.client.subscribe(subject.to_owned()).await;
            let subscriber =
                subscriber.map_err(|error| RequestFailure::NoAnswer(error.to_string()))?;
            // The server handles requests in order, so when this one is answered, whatever the answer is, it
            // has seen the subscription. The client hands reports on in a task of its own: with the second
            // answer, that task has run.
            for _ in 0..2 {
                let _ = self.read_api(&format!("STREAM.INFO.{LOG_STREAM}"), None).await?;
            }
            Ok(subscriber)
        };
        self.or_failure(subject, subscribe).await
    }

    /// Waits for the report that the credentials do not allow `subject`, or a subject below it. The
    /// future sees all reports that come after this call.
    pub(super) fn denied(&self, subject: &str) -> impl Future<Output = String> + Send + use<> {
        let mut denials = self.events.denials.subscribe();
        let (subject, inbox) = (subject.to_owned(), self.inbox.clone());
        async move {
            loop {
                match denials.recv().await {
                    Ok(denial) => {
                        let is_meant = denial.subject.strip_prefix(&subject);
                        let is_meant =
                            is_meant.is_some_and(|it| it.is_empty() || it.starts_with('.'));
                        if is_meant || denial.subject.starts_with(&inbox) {
                            return denial.subject;
                        }
                    }
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                }
            }
        }
    }

    /// Sends a request to JetStream. The subject is the part after `$JS.API.`.
    pub(crate) async fn api(
        &self,
        subject: &str,
        body: Option<&Value>,
    ) -> Result<Result<Value, JetStreamError>, RequestFailure> {
        self.api_within(ANSWER_TIMEOUT, subject, body).await
    }

    /// Sends a request to JetStream that changes nothing. It is sent again while there is no answer: none comes
    /// while the leader of a stream is being elected, such as after the servers were away.
    pub(crate) async fn read_api(
        &self,
        subject: &str,
        body: Option<&Value>,
    ) -> Result<Result<Value, JetStreamError>, RequestFailure> {
        for timeout in READ_TIMEOUTS {
            match self.api_within(timeout, subject, body).await {
                Err(RequestFailure::NoAnswer(_)) => {}
                answer => return answer,
            }
        }
        self.api_within(LAST_READ_TIMEOUT, subject, body).await
    }

    async fn api_within(
        &self,
        timeout: Duration,
        subject: &str,
        body: Option<&Value>,
    ) -> Result<Result<Value, JetStreamError>, RequestFailure> {
        let subject = format!("$JS.API.{subject}");
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let answer = self.request(&subject, HeaderMap::new(), body, timeout).await?;
        Ok(parse_answer(&answer.payload))
    }
}

impl ConnectionEvents {
    fn handle(&self, event: &Event) {
        match event {
            Event::Connected => {
                self.status.send_modify(|status| {
                    status.connected = true;
                    status.connects += 1;
                });
                tracing::info!("connected to the NATS servers");
            }
            Event::Disconnected | Event::Closed => {
                self.status.send_modify(|status| status.connected = false);
                tracing::warn!("the connection to the NATS servers is lost");
            }
            Event::ServerError(ServerError::Other(text)) => {
                let Some(subject) = denied_subject(text) else {
                    tracing::warn!("the NATS server reports: {text}");
                    return;
                };
                tracing::warn!(subject, "the credentials do not allow it: {text}");
                let denial = AccessDenial { subject: subject.to_owned() };
                self.status.send_modify(|it| it.last_denial = Some(subject.to_owned()));
                // There may be no receiver.
                let _ = self.denials.send(denial);
            }
            // Attempts to connect that fail: that there is no connection was said before.
            Event::ClientError(error) if !self.status.borrow().connected => {
                tracing::debug!("NATS: {error}");
            }
            event => tracing::warn!("NATS: {event}"),
        }
    }
}

impl RequestFailure {
    /// The error of an operation that can be repeated.
    pub(crate) fn into_error(self) -> BusError {
        match self {
            Self::NotConnected => BusError::Unavailable("there is no connection".to_owned()),
            Self::NoAnswer(why) => BusError::Unavailable(why),
            Self::NoResponders => BusError::Unavailable(
                "no server answers for the stream: its leader is being elected, or `towpath fleet \
                 init` was not run"
                    .to_owned(),
            ),
            Self::Denied(subject) => BusError::Denied(subject),
            Self::TooLarge => BusError::Unavailable(
                "the message is larger than the servers' `max_payload` (set it to 1MB)".to_owned(),
            ),
        }
    }
}

impl JetStreamError {
    pub(crate) fn is_missing_stream(&self) -> bool {
        self.code == STREAM_NOT_FOUND
    }

    /// The error of an operation that was refused for a reason which the operation does not know.
    pub(crate) fn into_error(self) -> BusError {
        let text = format!("{} (error {})", self.description, self.code);
        if self.status >= 500 {
            BusError::Unavailable(text)
        } else {
            BusError::Setup(format!("the servers refused it: {text}; run `towpath fleet check`"))
        }
    }
}

pub(super) fn parse_answer(payload: &[u8]) -> Result<Value, JetStreamError> {
    let unreadable = |why: String| JetStreamError { status: 500, code: 0, description: why };
    let answer: Value = serde_json::from_slice(payload)
        .map_err(|error| unreadable(format!("the server's answer is not JSON: {error}")))?;
    match answer.get("error") {
        None => Ok(answer),
        Some(error) => Err(JetStreamError {
            status: error["code"].as_u64().unwrap_or(500),
            code: error["err_code"].as_u64().unwrap_or(0),
            description: error["description"].as_str().unwrap_or("no description").to_owned(),
        }),
    }
}

/// The subject in a server's report such as `Permissions Violation for Publish to "tp.e.0.x"`.
fn denied_subject(report: &str) -> Option<&str> {
    if !report.to_ascii_lowercase().contains("permissions violation") {
        return None;
    }
    report.split('"').nth(1)
}

/// Signs in with the JWT and the key in a file, or with the key alone.
async fn add_credentials(options: ConnectOptions, file: &Path) -> Result<ConnectOptions, BusError> {
    let failed = |why: &dyn fmt::Display| {
        BusError::Setup(format!("could not use the credentials `{}`: {why}", file.display()))
    };
    let text = tokio::fs::read_to_string(file).await.map_err(|error| failed(&error))?;
    if text.contains("USER JWT") {
        return options.credentials(&text).map_err(|error| failed(&error));
    }
    match text.lines().map(str::trim).find(|line| line.starts_with("SU")) {
        Some(key) => Ok(options.nkey(key.to_owned())),
        None => Err(failed(&"it has neither a user's JWT nor a user's private key (`SU…`)")),
    }
}

fn addresses(servers: &[String]) -> Result<Vec<ServerAddr>, BusError> {
    if servers.is_empty() {
        return Err(BusError::Setup("no address of a NATS server is given".to_owned()));
    }
    let parse = |server: &String| {
        server.trim().parse().map_err(|error| {
            // The address itself may contain a password.
            BusError::Setup(format!("an address of a NATS server is not valid: {error}"))
        })
    };
    servers.iter().map(parse).collect()
}

/// The user and the password in an address such as `nats://USER:PASSWORD@HOST:PORT`.
fn password(address: &ServerAddr) -> Option<(String, String)> {
    let (user, password) = (address.username()?, address.password()?);
    Some((user.to_owned(), password.to_owned()))
}

fn connect_error(error: &async_nats::ConnectError) -> BusError {
    use async_nats::ConnectErrorKind as Kind;
    match error.kind() {
        Kind::Authentication | Kind::AuthorizationViolation => BusError::Denied(format!(
            "connecting ({error}): give the file with the user's credentials with --creds"
        )),
        Kind::Tls => BusError::Setup(format!(
            "no encrypted connection: {error}; give the certificate of your authority with --ca"
        )),
        _ => {
            let cause = std::error::Error::source(error).map(|it| format!(": {it}"));
            BusError::Unavailable(format!("{error}{}", cause.unwrap_or_default()))
        }
    }
}

fn reconnect_pause(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX).min(6);
    (Duration::from_millis(50) * 2_u32.pow(doublings)).min(MAX_RECONNECT_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::{denied_subject, parse_answer};

    #[test]
    fn the_subject_of_a_denial_is_found_in_the_servers_report() {
        let publish = "Permissions Violation for Publish to \"$JS.API.STREAM.PURGE.TP_E\"";
        assert_eq!(denied_subject(publish), Some("$JS.API.STREAM.PURGE.TP_E"));
        let subscribe =
            "permissions violation for subscription to \"tp.live.e.>\" using queue \"q\"";
        assert_eq!(denied_subject(subscribe), Some("tp.live.e.>"));
        assert_eq!(denied_subject("Stale Connection \"x\""), None);
    }

    #[test]
    fn an_answer_with_an_error_is_an_error() {
        let refusal = br#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 2"},"seq":0}"#;
        assert_eq!(parse_answer(refusal).unwrap_err().code, 10071);
        assert_eq!(parse_answer(br#"{"stream":"TP_E","seq":7}"#).unwrap()["seq"], 7);
        assert_eq!(parse_answer(b"+OK").unwrap_err().status, 500);
    }
}
