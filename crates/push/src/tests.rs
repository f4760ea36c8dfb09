//! Messages to a double of a push service, which decrypts them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use test_support::push_service::{PushDevice, PushService};

use crate::{
    EndpointPolicy, MAX_PAYLOAD_BYTES, Outbox, PushClient, PushEndpoint, PushMessage, PushResult,
    PushSubscription, Urgency, VapidKey,
};

fn client(policy: EndpointPolicy) -> PushClient {
    let data = tempfile::tempdir().unwrap();
    PushClient::new(VapidKey::open(&data.path().join("push.key")).unwrap(), policy).unwrap()
}

fn subscription(device: &PushDevice) -> PushSubscription {
    let endpoint = PushEndpoint::parse(&device.endpoint, EndpointPolicy::Any).unwrap();
    PushSubscription::new(endpoint, &device.p256dh, &device.auth).unwrap()
}

fn message(payload: &[u8], topic: Option<&str>) -> PushMessage {
    PushMessage {
        payload: payload.to_owned(),
        ttl: Duration::from_mins(10),
        urgency: Urgency::High,
        topic: topic.map(str::to_owned),
    }
}

#[tokio::test]
async fn a_browser_decrypts_what_was_sent_whatever_its_length() {
    let service = PushService::start().await;
    let client = client(EndpointPolicy::Any);
    let device = service.subscribe(client.public_key());
    for length in [0, 1, 100, MAX_PAYLOAD_BYTES] {
        let payload = vec![b'x'; length];
        let sent = client.send(&subscription(&device), &message(&payload, Some("t"))).await;
        assert_eq!(sent, PushResult::Accepted);
        let received = service.next(&device).await;
        assert_eq!(received.payload, payload);
        assert_eq!((received.ttl, received.urgency.as_str()), (600, "high"));
        assert_eq!(received.topic.as_deref(), Some("t"));
    }
    let long = message(&vec![b'x'; MAX_PAYLOAD_BYTES + 1], None);
    let refused = client.send(&subscription(&device), &long).await;
    assert!(matches!(refused, PushResult::Rejected(_)), "{refused:?}");
    assert_eq!(service.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_key_that_is_no_point_of_the_curve_is_refused_without_a_request() {
    let service = PushService::start().await;
    let client = client(EndpointPolicy::Any);
    let device = service.subscribe(client.public_key());
    let mut broken = subscription(&device);
    broken.public_key[1..].fill(0xff);
    let refused = client.send(&broken, &message(b"x", None)).await;
    assert!(matches!(refused, PushResult::Rejected(_)), "{refused:?}");
    assert_eq!(service.request_count(), 0);
}

#[tokio::test]
async fn no_request_reaches_this_network() {
    let service = PushService::start().await;
    let client = client(EndpointPolicy::Public);
    let mut device = service.subscribe(client.public_key());
    // Its name resolves to this machine; a name server of an attacker would answer the same.
    device.endpoint = device.endpoint.replace("127.0.0.1", "localhost");
    let refused = client.send(&subscription(&device), &message(b"x", None)).await;
    assert!(
        matches!(&refused, PushResult::Retry { reason, .. } if reason.contains("not on the internet")),
        "{refused:?}"
    );
    assert_eq!(service.request_count(), 0);
}

#[tokio::test]
async fn a_busy_service_is_tried_again_when_it_says_and_a_gone_subscription_is_reported() {
    let service = PushService::start().await;
    let client = client(EndpointPolicy::Any);
    let (here, gone) =
        (service.subscribe(client.public_key()), service.subscribe(client.public_key()));
    let outbox = Outbox::new(client);
    let lost: Arc<Mutex<Vec<String>>> = Arc::default();
    let report = Arc::clone(&lost);
    let task = tokio::spawn(outbox.clone().run(move |endpoint| {
        report.lock().unwrap().push(endpoint.as_str().to_owned());
    }));
    service.fail_next(&here, 429, Some(1));
    service.fail_next(&here, 503, Some(0));
    service.unsubscribe(&gone);
    outbox.add(subscription(&gone), message(b"nobody", None));
    outbox.add(subscription(&here), message(b"at last", None));
    assert_eq!(service.next(&here).await.payload, b"at last");
    assert_eq!(*lost.lock().unwrap(), [gone.endpoint]);
    assert_eq!(service.request_count(), 4);
    task.abort();
}

#[tokio::test]
async fn a_newer_message_replaces_one_that_waits_and_a_flood_is_bounded() {
    let service = PushService::start().await;
    let client = client(EndpointPolicy::Any);
    let device = service.subscribe(client.public_key());
    let outbox = Outbox::new(client);
    let to = subscription(&device);
    for number in 0..1000 {
        let topic = if number % 2 == 0 { "even" } else { "odd" };
        outbox.add(to.clone(), message(number.to_string().as_bytes(), Some(topic)));
    }
    outbox.add(to.clone(), message(b"cancelled", Some("other")));
    assert!(outbox.cancel(&to.endpoint, "other") && !outbox.cancel(&to.endpoint, "other"));
    let task = tokio::spawn(outbox.clone().run(|_| ()));
    let received = [service.next(&device).await.payload, service.next(&device).await.payload];
    assert_eq!(received, [b"998".to_vec(), b"999".to_vec()]);
    task.abort();
    for number in 0..1000 {
        outbox.add(to.clone(), message(number.to_string().as_bytes(), None));
    }
    assert_eq!(outbox.waiting_count(), 256);
}
