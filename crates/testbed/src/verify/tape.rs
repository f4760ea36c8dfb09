//! Everything that went to and came from the agent in one scenario, in order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

/// What went or came.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When, from the start of the scenario on.
    pub at: Duration,
    /// Which process of the agent, from 1 on.
    pub process: usize,
    /// Which way.
    pub way: Way,
    /// The line without its end, or what was done.
    pub text: String,
    /// The line as JSON; a string where it is none.
    pub value: Value,
}

/// Which way something went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Written to the agent.
    Said,
    /// Read from its stdout.
    Heard,
    /// Done to it: started, signalled, its input closed.
    Done,
}

/// The tape, shared by those who read the agent's output and the one who waits for it.
#[derive(Clone, Debug)]
pub(super) struct Tape {
    entries: Arc<Mutex<Vec<Entry>>>,
    grown: watch::Sender<()>,
    started: Instant,
}

impl Tape {
    pub(super) fn new() -> Self {
        let entries = Arc::new(Mutex::new(Vec::new()));
        Self { entries, grown: watch::Sender::new(()), started: Instant::now() }
    }

    pub(super) fn add(&self, process: usize, way: Way, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let value = match way {
            Way::Said | Way::Heard => serde_json::from_str(&text).ok(),
            Way::Done => None,
        };
        let value = value.unwrap_or_else(|| Value::String(text.clone()));
        let at = self.started.elapsed();
        self.entries().push(Entry { at, process, way, text, value });
        self.grown.send_replace(());
    }

    /// Tells those who wait for more to look again.
    pub(super) fn nudge(&self) {
        self.grown.send_replace(());
    }

    /// Notices everything from now on.
    pub(super) fn watch(&self) -> watch::Receiver<()> {
        self.grown.subscribe()
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        // A push cannot leave the list half done, so a poisoned one is as good as any.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// `type/subtype`, or `type` where there is no subtype.
    pub fn kind(&self) -> String {
        kind(&self.value)
    }
}

/// `type/subtype` of a line, or `type` where there is no subtype.
pub(super) fn kind(value: &Value) -> String {
    let Some(kind) = value["type"].as_str() else { return "line".to_owned() };
    match subtype(kind, value) {
        Some(subtype) => format!("{kind}/{subtype}"),
        None => kind.to_owned(),
    }
}

/// Whether a line is of a kind: `line` is any, `type` any of the type.
pub(super) fn is_kind(value: &Value, wanted: &str) -> bool {
    let (wanted_type, wanted_subtype) = match wanted.split_once('/') {
        Some((kind, subtype)) => (kind, Some(subtype)),
        None => (wanted, None),
    };
    if wanted == "line" {
        return true;
    }
    value["type"] == wanted_type
        && wanted_subtype.is_none_or(|wanted| subtype(wanted_type, value) == Some(wanted))
}

fn subtype<'a>(kind: &str, value: &'a Value) -> Option<&'a str> {
    let subtype = match kind {
        "control_request" => &value["request"]["subtype"],
        "control_response" => &value["response"]["subtype"],
        "stream_event" => &value["event"]["type"],
        _ => &value["subtype"],
    };
    subtype.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{is_kind, kind};

    #[test]
    fn a_kind_is_a_type_and_the_subtype_that_says_most() {
        let table = [
            (json!({"type": "system", "subtype": "init"}), "system/init"),
            (json!({"type": "assistant"}), "assistant"),
            (json!({"type": "control_request", "request": {"subtype": "x"}}), "control_request/x"),
            (
                json!({"type": "control_response", "response": {"subtype": "error"}}),
                "control_response/error",
            ),
            (json!({"type": "stream_event", "event": {"type": "ping"}}), "stream_event/ping"),
            (json!({"type": "control_cancel_request"}), "control_cancel_request"),
            (json!("plain"), "line"),
            (json!([1]), "line"),
        ];
        for (value, expected) in table {
            assert_eq!(kind(&value), expected);
            assert!(is_kind(&value, expected), "{value}");
            assert!(is_kind(&value, "line"), "{value}");
        }
        assert!(is_kind(&json!({"type": "system", "subtype": "init"}), "system"));
        assert!(!is_kind(&json!({"type": "system", "subtype": "init"}), "system/status"));
        assert!(!is_kind(&json!({"type": "system"}), "system/init"));
    }
}
