//! Push messages: which browsers are subscribed, and trying them.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use push::{PushEndpoint, PushSubscription};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::read_json;
use super::tag;
use crate::access::AuthenticatedClient;
use crate::gateway::Gateway;
use crate::notifications::{
    Notifier, StoredSubscription, SubscriptionOwner, SubscriptionStoreError,
};
use crate::problem::{ApiResult, Problem};

/// A subscription has a few hundred bytes.
const MAX_SUBSCRIPTION_BYTES: usize = 8 << 10;

/// How this server is known to push services.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MePush)]
pub(super) struct PushKeyResponse {
    /// The key that a browser subscribes with (`applicationServerKey`), in URL-safe base64.
    pub(super) key: String,
}

/// A subscription as the browser's `PushSubscription` gives it.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PushSubscription)]
pub(super) struct SubscribeRequest {
    /// The address at the push service: `https`, and on the internet.
    endpoint: String,
    keys: SubscriptionKeysBody,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PushKeys)]
pub(super) struct SubscriptionKeysBody {
    p256dh: String,
    auth: String,
}

/// One of the client's own subscriptions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PushEndpoint)]
pub(super) struct EndpointRequest {
    endpoint: String,
}

#[utoipa::path(put, path = "/push/subscriptions", tag = tag::ACCESS, request_body = SubscribeRequest,
    responses((status = 204, description = "subscribed")))]
/// Subscribes a browser to push messages, until it is unsubscribed or the client is signed out.
pub(super) async fn subscribe(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    request: Request,
) -> ApiResult<StatusCode> {
    let body: SubscribeRequest = read_json(request, MAX_SUBSCRIPTION_BYTES).await?;
    let notifier = notifier(&gateway)?;
    let endpoint = parse_endpoint(notifier, &body.endpoint)?;
    let subscription = PushSubscription::new(endpoint, &body.keys.p256dh, &body.keys.auth);
    let subscription = subscription.map_err(|it| Problem::invalid(it.to_string()))?;
    let owner = SubscriptionOwner::of(&client);
    notifier.subscribe(StoredSubscription { subscription, owner })?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(delete, path = "/push/subscriptions", tag = tag::ACCESS, request_body = EndpointRequest,
    responses((status = 204, description = "unsubscribed")))]
/// Unsubscribes a browser.
pub(super) async fn unsubscribe(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    request: Request,
) -> ApiResult<StatusCode> {
    let body: EndpointRequest = read_json(request, MAX_SUBSCRIPTION_BYTES).await?;
    let notifier = notifier(&gateway)?;
    let endpoint = parse_endpoint(notifier, &body.endpoint)?;
    if !notifier.unsubscribe(&endpoint, &SubscriptionOwner::of(&client))? {
        return Err(not_subscribed());
    }
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(post, path = "/push/test", tag = tag::ACCESS, request_body = EndpointRequest,
    responses((status = 202, description = "the message is on its way")))]
/// Sends a message to one of the client's own subscriptions, so that its user sees that it arrives.
pub(super) async fn test(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    request: Request,
) -> ApiResult<StatusCode> {
    let body: EndpointRequest = read_json(request, MAX_SUBSCRIPTION_BYTES).await?;
    let notifier = notifier(&gateway)?;
    let endpoint = parse_endpoint(notifier, &body.endpoint)?;
    if !notifier.test(&endpoint, &SubscriptionOwner::of(&client)) {
        return Err(not_subscribed());
    }
    Ok(StatusCode::ACCEPTED)
}

fn not_subscribed() -> Problem {
    Problem::conflict("conflict", "this client has not subscribed that address")
}

fn notifier(gateway: &Gateway) -> ApiResult<&Notifier> {
    let detail = "this server cannot send push messages; its log says why";
    gateway.notifier.as_ref().ok_or_else(|| Problem::unavailable(detail))
}

fn parse_endpoint(notifier: &Notifier, text: &str) -> ApiResult<PushEndpoint> {
    let endpoint = PushEndpoint::parse(text, notifier.endpoint_policy());
    endpoint.map_err(|it| Problem::invalid(it.to_string()))
}

impl From<SubscriptionStoreError> for Problem {
    fn from(error: SubscriptionStoreError) -> Self {
        match error {
            SubscriptionStoreError::Taken => {
                let detail = "another client has subscribed that address";
                Self::conflict("conflict", detail)
            }
            SubscriptionStoreError::Io { .. } => Self::failed(&error),
        }
    }
}
