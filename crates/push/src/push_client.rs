//! Sends one message once, and says what became of it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, StatusCode};
use thiserror::Error;

use crate::encryption::encrypt;
use crate::endpoint::{EndpointPolicy, PublicResolver};
use crate::message::{MAX_PAYLOAD_BYTES, PushMessage};
use crate::subscription::PushSubscription;
use crate::vapid_key::VapidKey;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest time that a push service may ask to wait for.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// Sends messages to push services.
#[derive(Debug)]
pub struct PushClient {
    http: Client,
    key: VapidKey,
}

/// Why messages cannot be sent.
#[derive(Debug, Error)]
#[error("could not set up requests to push services")]
pub struct PushClientError(#[from] reqwest::Error);

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushResult {
    /// The push service has it.
    Accepted,
    /// The subscription does not exist any more.
    Gone,
    /// It may be sent again, after the time that the push service asks for.
    Retry { after: Option<Duration>, reason: String },
    /// Sending it again would not help.
    Rejected(String),
}

impl PushClient {
    pub fn new(key: VapidKey, policy: EndpointPolicy) -> Result<Self, PushClientError> {
        // `reqwest` is built without a provider of cryptography. Later calls change nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            // A redirect would lead around the check of the address.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false);
        http = match policy {
            EndpointPolicy::Public => http.dns_resolver(Arc::new(PublicResolver)),
            EndpointPolicy::Any => http.no_proxy(),
        };
        Ok(Self { http: http.build()?, key })
    }

    /// The key that browsers subscribe with.
    pub fn public_key(&self) -> &str {
        self.key.public()
    }

    pub async fn send(&self, subscription: &PushSubscription, message: &PushMessage) -> PushResult {
        if message.payload.len() > MAX_PAYLOAD_BYTES {
            return PushResult::Rejected("the message is too long".to_owned());
        }
        let Ok(body) = encrypt(subscription, &message.payload) else {
            return PushResult::Rejected("the subscription has no usable key".to_owned());
        };
        let Ok(authorization) = self.key.authorize(&subscription.endpoint, now()) else {
            return PushResult::Rejected("the request could not be signed".to_owned());
        };
        let mut request = self
            .http
            .post(subscription.endpoint.url())
            .header(AUTHORIZATION, authorization)
            .header(CONTENT_ENCODING, "aes128gcm")
            .header(CONTENT_TYPE, "application/octet-stream")
            .header("ttl", message.ttl.as_secs())
            .header("urgency", message.urgency.name());
        if let Some(topic) = &message.topic {
            request = request.header("topic", topic);
        }
        match request.body(body).send().await {
            Ok(response) => result_of(response.status(), response.headers()),
            // The address is a secret.
            Err(error) => PushResult::Retry { after: None, reason: cause(&error.without_url()) },
        }
    }
}

fn result_of(status: StatusCode, headers: &HeaderMap) -> PushResult {
    match status {
        _ if status.is_success() => PushResult::Accepted,
        StatusCode::NOT_FOUND | StatusCode::GONE => PushResult::Gone,
        _ if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
            let after = headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok()?.parse().ok());
            let after = after.map(|it| Duration::from_secs(it).min(MAX_RETRY_AFTER));
            PushResult::Retry { after, reason: format!("the push service answered {status}") }
        }
        _ => PushResult::Rejected(format!("the push service answered {status}")),
    }
}

/// An error with its innermost cause, which says more than that a request failed.
fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// The time in milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}
