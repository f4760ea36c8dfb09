//! A double of a push service that is as strict as the standards, and of the browsers behind it,
//! which decrypt what they receive.
//!
//! It follows the steps of RFC 8030 (headers), RFC 8291 (encryption) and RFC 8292 (signature) one by
//! one. Whatever breaks a rule is answered with an error and remembered as a violation.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use p256::elliptic_curve::sec1::ToSec1Point as _;
use p256::{PublicKey, SecretKey};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac::{HMAC_SHA256, Key, sign};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a test waits for a message.
const PATIENCE: Duration = Duration::from_mins(1);

/// The largest body that a push service accepts.
const MAX_BODY_BYTES: usize = 4096;

/// A push service on loopback. Dropping it stops it.
#[derive(Debug)]
pub struct PushService {
    /// Where it is, such as `http://127.0.0.1:4010`.
    pub url: String,
    state: Arc<PushServiceState>,
    task: JoinHandle<()>,
}

/// A browser that is subscribed, with what it gives to the page.
#[derive(Clone, Debug)]
pub struct PushDevice {
    pub endpoint: String,
    pub p256dh: String,
    pub auth: String,
    number: usize,
}

/// A message as a browser received and decrypted it.
#[derive(Clone, Debug)]
pub struct ReceivedPush {
    pub payload: Vec<u8>,
    /// In seconds.
    pub ttl: u64,
    pub urgency: String,
    pub topic: Option<String>,
    /// Who sends it, from the signature.
    pub subject: String,
}

impl ReceivedPush {
    /// The payload as JSON.
    ///
    /// # Panics
    ///
    /// If it is something else.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.payload).expect("the payload is JSON")
    }
}

#[derive(Debug)]
struct PushServiceState {
    origin: String,
    inner: Mutex<PushServiceContent>,
    received: Notify,
}

#[derive(Debug, Default)]
struct PushServiceContent {
    devices: Vec<SubscribedDevice>,
    violations: Vec<String>,
    requests: usize,
    faults: HashMap<usize, VecDeque<(u16, Option<u64>)>>,
}

#[derive(Debug)]
struct SubscribedDevice {
    secret: SecretKey,
    public: Vec<u8>,
    auth: [u8; 16],
    /// The key of the only sender that it accepts messages from.
    sender: String,
    is_subscribed: bool,
    inbox: VecDeque<ReceivedPush>,
}

impl PushService {
    /// Starts a service on a free port.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (inner, received) = (Mutex::default(), Notify::new());
        let state = Arc::new(PushServiceState { origin: url.clone(), inner, received });
        let router = Router::new().route("/push/{device}", post(receive)).with_state(state.clone());
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { url, state, task }
    }

    /// Subscribes a browser to messages of the sender with this key, in URL-safe base64.
    ///
    /// # Panics
    ///
    /// If there are no random numbers.
    pub fn subscribe(&self, sender: &str) -> PushDevice {
        let random = SystemRandom::new();
        let (mut key, mut auth) = ([0; 32], [0; 16]);
        random.fill(&mut key).expect("random numbers");
        random.fill(&mut auth).expect("random numbers");
        let secret = SecretKey::from_slice(&key).expect("almost every number is a key");
        let public = uncompressed(&secret);
        let mut content = self.state.content();
        let number = content.devices.len();
        let device = PushDevice {
            endpoint: format!("{}/push/{number}", self.url),
            p256dh: BASE64_URL_SAFE_NO_PAD.encode(&public),
            auth: BASE64_URL_SAFE_NO_PAD.encode(auth),
            number,
        };
        let (sender, inbox) = (sender.to_owned(), VecDeque::new());
        let is_subscribed = true;
        content.devices.push(SubscribedDevice {
            secret,
            public,
            auth,
            sender,
            is_subscribed,
            inbox,
        });
        device
    }

    /// Ends a subscription, as removing the permission in the browser does.
    pub fn unsubscribe(&self, device: &PushDevice) {
        self.state.content().devices[device.number].is_subscribed = false;
    }

    /// Answers the next request for a device with a status, and with how long to wait.
    pub fn fail_next(&self, device: &PushDevice, status: u16, retry_after: Option<u64>) {
        let mut content = self.state.content();
        content.faults.entry(device.number).or_default().push_back((status, retry_after));
    }

    /// The next message of a device.
    ///
    /// # Panics
    ///
    /// If none comes in time.
    pub async fn next(&self, device: &PushDevice) -> ReceivedPush {
        let next = async {
            loop {
                let received = self.state.received.notified();
                let message = self.try_next(device);
                if let Some(message) = message {
                    return message;
                }
                received.await;
            }
        };
        timeout(PATIENCE, next).await.unwrap_or_else(|_| {
            panic!("no message came; violations: {:?}", self.violations());
        })
    }

    /// A message that a device has received already.
    pub fn try_next(&self, device: &PushDevice) -> Option<ReceivedPush> {
        self.state.content().devices[device.number].inbox.pop_front()
    }

    /// What broke a rule.
    pub fn violations(&self) -> Vec<String> {
        self.state.content().violations.clone()
    }

    /// How many requests came, whatever became of them.
    pub fn request_count(&self) -> usize {
        self.state.content().requests
    }
}

impl Drop for PushService {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PushServiceState {
    fn content(&self) -> MutexGuard<'_, PushServiceContent> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn receive(
    State(state): State<Arc<PushServiceState>>,
    Path(number): Path<usize>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap_or_default();
    let mut content = state.content();
    content.requests += 1;
    if let Some((status, after)) = content.faults.get_mut(&number).and_then(VecDeque::pop_front) {
        let status = StatusCode::from_u16(status).expect("a status");
        let headers: Vec<_> = after.map(|it| ("retry-after", it.to_string())).into_iter().collect();
        let mut response = status.into_response();
        for (name, value) in headers {
            response.headers_mut().insert(name, value.parse().expect("a header"));
        }
        return response;
    }
    let Some(device) = content.devices.get_mut(number) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if !device.is_subscribed {
        return StatusCode::GONE.into_response();
    }
    match read(&state.origin, device, &head.headers, &body) {
        Ok(message) => {
            device.inbox.push_back(message);
            drop(content);
            state.received.notify_waiters();
            StatusCode::CREATED.into_response()
        }
        Err(violation) => {
            content.violations.push(violation.clone());
            (StatusCode::BAD_REQUEST, violation).into_response()
        }
    }
}

fn read(
    origin: &str,
    device: &SubscribedDevice,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<ReceivedPush, String> {
    let header = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    if body.len() > MAX_BODY_BYTES {
        return Err(format!("the body has {} bytes", body.len()));
    }
    let ttl = header("ttl").and_then(|it| it.parse().ok()).ok_or("there is no `TTL`")?;
    let urgency = header("urgency").unwrap_or("normal").to_owned();
    if !["very-low", "low", "normal", "high"].contains(&urgency.as_str()) {
        return Err(format!("`{urgency}` is no urgency"));
    }
    let topic = header("topic").map(str::to_owned);
    let is_topic = |it: &String| {
        let allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
        (1..=32).contains(&it.len()) && it.chars().all(allowed)
    };
    if !topic.as_ref().is_none_or(is_topic) {
        return Err(format!("{topic:?} is no topic"));
    }
    if header("content-encoding") != Some("aes128gcm") {
        return Err("the encoding is not `aes128gcm`".to_owned());
    }
    let authorization = header("authorization").ok_or("there is no signature")?;
    let subject = check_signature(authorization, origin, &device.sender)?;
    let payload = decrypt(device, body)?;
    Ok(ReceivedPush { payload, ttl, urgency, topic, subject })
}

/// RFC 8292: who sends it, for whom, and until when.
fn check_signature(authorization: &str, origin: &str, sender: &str) -> Result<String, String> {
    let rest = authorization.strip_prefix("vapid ").ok_or("the scheme is not `vapid`")?;
    let field = |name: &str| {
        let mut fields = rest.split(',').filter_map(|it| it.trim().split_once('='));
        fields.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let token = field("t").ok_or("there is no token")?;
    let key = field("k").ok_or("there is no key")?;
    if key != sender {
        return Err("the key is not the one of the subscription".to_owned());
    }
    let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|it| it.to_string());
    let (signed, signature) = token.rsplit_once('.').ok_or("the token has no signature")?;
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, decode(key)?)
        .verify(signed.as_bytes(), &decode(signature)?)
        .map_err(|_| "the signature is wrong")?;
    let (head, claims) = signed.split_once('.').ok_or("the token has no claims")?;
    let json = |text: &str| -> Result<Value, String> {
        serde_json::from_slice(&decode(text)?).map_err(|it| it.to_string())
    };
    if json(head)?["alg"] != "ES256" {
        return Err("the algorithm is not `ES256`".to_owned());
    }
    let claims = json(claims)?;
    if claims["aud"] != origin {
        return Err(format!("the audience is {}", claims["aud"]));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.expect("a time after 1970").as_secs();
    let expires = claims["exp"].as_u64().ok_or("there is no expiry")?;
    if !(now..=now + 24 * 60 * 60).contains(&expires) {
        return Err(format!("it expires at {expires}"));
    }
    let subject = claims["sub"].as_str().unwrap_or_default();
    if !subject.starts_with("mailto:") && !subject.starts_with("https:") {
        return Err(format!("`{subject}` is no contact"));
    }
    Ok(subject.to_owned())
}

/// The public key as browsers give it.
fn uncompressed(secret: &SecretKey) -> Vec<u8> {
    secret.public_key().to_sec1_point(false).as_bytes().to_vec()
}

/// RFC 8291, section 3.4, and RFC 8188, section 2.
fn decrypt(device: &SubscribedDevice, body: &[u8]) -> Result<Vec<u8>, String> {
    let (salt, rest) = body.split_at_checked(16).ok_or("there is no salt")?;
    let (record_size, rest) = rest.split_at_checked(4).ok_or("there is no record size")?;
    let record_size = u32::from_be_bytes(record_size.try_into().expect("four bytes"));
    let (length, rest) = rest.split_first().ok_or("there is no key")?;
    let (sender, record) = rest.split_at_checked(usize::from(*length)).ok_or("the key is short")?;
    if record.len() > record_size as usize {
        return Err("the record is longer than its size".to_owned());
    }
    let point = PublicKey::from_sec1_bytes(sender).map_err(|_| "the key is no point")?;
    let secret = p256::ecdh::diffie_hellman(device.secret.to_nonzero_scalar(), point.as_affine());
    let hmac = |key: &[u8], parts: &[&[u8]]| {
        sign(&Key::new(HMAC_SHA256, key), &parts.concat()).as_ref().to_vec()
    };
    let prk_key = hmac(&device.auth, &[secret.raw_secret_bytes().as_ref()]);
    let ikm = hmac(&prk_key, &[b"WebPush: info\0", &device.public, sender, &[1]]);
    let prk = hmac(salt, &[&ikm]);
    let cek = hmac(&prk, &[b"Content-Encoding: aes128gcm\0", &[1]]);
    let nonce = hmac(&prk, &[b"Content-Encoding: nonce\0", &[1]]);
    let key = UnboundKey::new(&AES_128_GCM, &cek[..16]).map_err(|_| "no key")?;
    let nonce = Nonce::try_assume_unique_for_key(&nonce[..12]).map_err(|_| "no nonce")?;
    let mut record = record.to_vec();
    let opened = LessSafeKey::new(key).open_in_place(nonce, Aad::empty(), &mut record);
    let opened = opened.map_err(|_| "it cannot be decrypted")?;
    let end = opened.iter().rposition(|it| *it != 0).ok_or("there is only padding")?;
    if opened[end] != 2 {
        return Err("it is not the last record".to_owned());
    }
    Ok(opened[..end].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8291, appendix A.
    #[test]
    fn the_example_of_the_rfc_is_decrypted() {
        let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
        let secret = decode("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94");
        let secret = SecretKey::from_slice(&secret).unwrap();
        let device = SubscribedDevice {
            public: uncompressed(&secret),
            secret,
            auth: decode("BTBZMqHH6r4Tts7J_aSIgg").try_into().unwrap(),
            sender: String::new(),
            is_subscribed: true,
            inbox: VecDeque::new(),
        };
        let mut body = decode(
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLoc\
             InmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWL\
             VWGNWQexSgSxsj_Qulcy4a-fN",
        );
        let text = decrypt(&device, &body).unwrap();
        assert_eq!(text, b"When I grow up, I want to be a watermelon");
        *body.last_mut().unwrap() ^= 1;
        assert_eq!(decrypt(&device, &body).unwrap_err(), "it cannot be decrypted");
    }
}
