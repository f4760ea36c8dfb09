//! The streams that a fleet needs, and how a stream differs from what is needed.
//!
//! Settings are JSON, as the servers exchange them: what an operator or a later server has added to a
//! stream stays when another setting is changed.

use serde_json::{Map, Value, json};

use super::FleetSize;
use crate::bus::nats::subjects::{LIVE_SUBJECTS, LOG_STREAM, LOG_SUBJECTS};
use crate::bus::{KeyTable, ObjectKind};

/// How long the servers remember that a key has expired, in nanoseconds.
const MARKER_LIFETIME: u64 = 60_000_000_000;

/// How long a question that is too large for a message stays, in nanoseconds. Its worker reads it at once.
const QUESTION_LIFETIME: u64 = 600_000_000_000;

/// A stream as it must be.
#[derive(Clone, Debug)]
pub(super) struct StreamPlan {
    pub(super) name: String,
    settings: Map<String, Value>,
    /// Whether what it stores is written again within seconds, so that it does not matter where.
    is_temporary: bool,
}

/// A setting of a stream that must be another one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StreamDifference {
    pub(super) setting: String,
    pub(super) found: Value,
    pub(super) needed: Value,
}

impl StreamPlan {
    /// All streams of a fleet.
    pub(super) fn all(size: FleetSize) -> Vec<Self> {
        let tables = KeyTable::ALL.into_iter().map(|table| Self::key_table(table, size));
        let mut plans = vec![Self::log(size)];
        plans.extend(tables);
        plans.extend(ObjectKind::ALL.into_iter().map(|kind| Self::objects(kind, size)));
        plans
    }

    /// The logs. No message of it may go away by itself: no limit of age or number, and a publisher must not
    /// be able to replace earlier messages (`allow_rollup_hdrs`) or to let its own expire.
    fn log(size: FleetSize) -> Self {
        let settings = json!({
            "subjects": [LOG_SUBJECTS],
            "republish": { "src": LOG_SUBJECTS, "dest": LIVE_SUBJECTS },
            "storage": "file",
            "max_age": 0,
            "max_msgs": -1,
            "max_msgs_per_subject": -1,
            "deny_delete": true,
            "allow_rollup_hdrs": false,
            "allow_msg_ttl": false,
        });
        Self::new(LOG_STREAM, settings, size)
    }

    fn key_table(table: KeyTable, size: FleetSize) -> Self {
        let is_temporary = match table {
            KeyTable::Bridges | KeyTable::Access => false,
            KeyTable::Workers | KeyTable::Roles => true,
        };
        // A single server that is started again forgets that there was a stream in memory.
        let in_memory = is_temporary && size == FleetSize::Cluster;
        let storage = if in_memory { "memory" } else { "file" };
        let settings = json!({
            "subjects": [table.subjects()],
            "storage": storage,
            "max_age": 0,
            "max_msgs": -1,
            "max_msgs_per_subject": 1,
            "deny_delete": true,
            // The servers allow this wherever they announce keys that expire.
            "allow_rollup_hdrs": true,
            "allow_msg_ttl": true,
            "subject_delete_marker_ttl": MARKER_LIFETIME,
        });
        Self { is_temporary, ..Self::new(&table.stream(), settings, size) }
    }

    /// Objects. A publisher must not be able to remove those of others (`allow_rollup_hdrs`), nor to replace
    /// what is part of a log.
    fn objects(kind: ObjectKind, size: FleetSize) -> Self {
        let (is_written_once, lifetime) = match kind {
            ObjectKind::Pack => (true, 0),
            ObjectKind::Question => (true, QUESTION_LIFETIME),
            ObjectKind::Files => (false, 0),
        };
        let settings = json!({
            "subjects": kind.subjects(),
            "storage": "file",
            "max_age": lifetime,
            "max_msgs": -1,
            "max_msgs_per_subject": 1,
            // A second message of a subject is refused instead of replacing the first.
            "discard_new_per_subject": is_written_once,
            "deny_delete": true,
            "allow_rollup_hdrs": false,
            // What is left of chunks that were replaced expires.
            "allow_msg_ttl": !is_written_once,
        });
        Self::new(&kind.stream(), settings, size)
    }

    fn new(name: &str, settings: Value, size: FleetSize) -> Self {
        let mut settings = match settings {
            Value::Object(settings) => settings,
            _ => Map::new(),
        };
        settings.insert("retention".to_owned(), json!("limits"));
        // When a stream is full, new messages are refused; old ones never make room for them.
        settings.insert("discard".to_owned(), json!("new"));
        settings.insert("allow_direct".to_owned(), json!(true));
        settings.insert("num_replicas".to_owned(), json!(size.replicas()));
        Self { name: name.to_owned(), settings, is_temporary: false }
    }

    /// The settings with which the stream is created.
    pub(super) fn creation(&self) -> Value {
        let mut settings = self.settings.clone();
        settings.insert("name".to_owned(), json!(self.name));
        Value::Object(settings)
    }

    /// How the settings of a stream differ, by name. A stream that is stored on more servers or on disk
    /// instead of in memory does not differ.
    pub(super) fn differences(&self, found: &Value) -> Vec<StreamDifference> {
        let differs = |(setting, needed): (&String, &Value)| {
            let found = &found[setting.as_str()];
            if setting == "storage" && self.is_temporary {
                return None;
            }
            (!fits(setting, found, needed)).then(|| StreamDifference {
                setting: setting.clone(),
                found: found.clone(),
                needed: needed.clone(),
            })
        };
        let mut differences: Vec<_> = self.settings.iter().filter_map(differs).collect();
        // The order of a map depends on a feature of serde_json that another crate may turn on.
        differences.sort_by(|one, other| one.setting.cmp(&other.setting));
        differences
    }

    /// The settings of a stream with the differences removed, and everything else as it was.
    pub(super) fn corrected(&self, found: &Value) -> Value {
        let mut corrected = found.clone();
        for difference in self.differences(found) {
            let needed = match (difference.setting.as_str(), &difference.found) {
                ("subjects", Value::Array(subjects)) => {
                    let mut subjects = subjects.clone();
                    let needed = difference.needed.as_array().into_iter().flatten();
                    let missing: Vec<_> =
                        needed.filter(|it| !subjects.contains(it)).cloned().collect();
                    subjects.extend(missing);
                    Value::Array(subjects)
                }
                _ => difference.needed,
            };
            corrected[difference.setting] = needed;
        }
        corrected
    }
}

impl StreamDifference {
    pub(super) fn text(&self) -> String {
        format!("`{}` is {} instead of {}", self.setting, self.found, self.needed)
    }
}

fn fits(setting: &str, found: &Value, needed: &Value) -> bool {
    match setting {
        "num_replicas" => found.as_u64().unwrap_or(1) >= needed.as_u64().unwrap_or(1),
        "storage" => found == needed || found == "file",
        "subjects" => {
            let found = found.as_array().map(Vec::as_slice).unwrap_or_default();
            needed.as_array().into_iter().flatten().all(|subject| found.contains(subject))
        }
        // Servers leave out settings that have their default. They add fields to this one.
        "republish" => ["src", "dest"].iter().all(|it| found[it] == needed[it]),
        // For numbers of messages both -1 and 0 mean that there is no limit.
        "max_msgs" | "max_msgs_per_subject" if needed == -1 => found.as_i64().unwrap_or(0) <= 0,
        _ if found.is_null() => needed == false || needed == 0,
        _ => found == needed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{FleetSize, StreamPlan};

    #[test]
    fn a_stream_that_is_stronger_than_needed_does_not_differ() {
        for plan in StreamPlan::all(FleetSize::Single) {
            assert_eq!(plan.differences(&plan.creation()), []);
            let mut stronger = plan.creation();
            stronger["num_replicas"] = json!(5);
            stronger["storage"] = json!("file");
            stronger["max_bytes"] = json!(1_000_000);
            assert_eq!(plan.differences(&stronger), [], "{}", plan.name);
        }
    }

    #[test]
    fn settings_that_lose_messages_are_corrected_and_others_stay() {
        let log = &StreamPlan::all(FleetSize::Cluster)[0];
        let mut found = log.creation();
        found["num_replicas"] = json!(1);
        found["max_age"] = json!(3_600_000_000_000_u64);
        found["discard"] = json!("old");
        found["allow_rollup_hdrs"] = json!(true);
        found["republish"] = json!(null);
        found["subjects"] = json!(["other.>"]);
        found["placement"] = json!({ "cluster": "east" });
        found["a setting of a later server"] = json!(true);
        let differences = log.differences(&found);
        let names: Vec<_> = differences.iter().map(|it| it.setting.as_str()).collect();
        let expected =
            ["allow_rollup_hdrs", "discard", "max_age", "num_replicas", "republish", "subjects"];
        assert_eq!(names, expected);
        let corrected = log.corrected(&found);
        assert_eq!(log.differences(&corrected), []);
        assert_eq!(corrected["subjects"], json!(["other.>", "tp.e.>"]));
        assert_eq!(corrected["placement"], json!({ "cluster": "east" }));
        assert_eq!(corrected["a setting of a later server"], json!(true));
    }
}
