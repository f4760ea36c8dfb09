//! Things that go wrong on demand, for those who must cope with them.

use serde_json::{Value, json};

/// What goes wrong, by `TOWPATH_PLAY_FAULT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Dies in the middle of the first turn that says something.
    DieMidTurn,
    /// Dies in the middle of a line.
    HalfLine,
    /// Says nothing more after the first words, and lives on.
    Stall,
    /// Says a line of 20 MB first.
    BigLine,
    /// Says lines of kinds nobody knows.
    UnknownEvent,
    /// Says something that is no JSON.
    Garbage,
    /// Exits before it says anything.
    DieAtOnce,
}

/// What becomes of a line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fate {
    /// It is written, after these.
    Written(Vec<Vec<u8>>),
    /// These bytes are written in its place, and the process dies.
    Death(Vec<u8>),
    /// It is swallowed, like all after it.
    Silence,
}

impl Fault {
    /// The fault of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "die-mid-turn" => Self::DieMidTurn,
            "half-line" => Self::HalfLine,
            "stall" => Self::Stall,
            "big-line" => Self::BigLine,
            "unknown-event" => Self::UnknownEvent,
            "garbage" => Self::Garbage,
            "die-at-once" => Self::DieAtOnce,
            _ => return None,
        })
    }

    /// What becomes of a line. Faults strike at the first word of the model.
    pub(crate) fn fate(self, line: &Value) -> Fate {
        let spoken = line["type"] == "assistant"
            || (line["type"] == "stream_event" && line["event"]["type"] == "content_block_delta");
        let opened = line["type"] == "system" && line["subtype"] == "init";
        match self {
            Self::DieAtOnce => Fate::Death(Vec::new()),
            Self::DieMidTurn if spoken => Fate::Death(Vec::new()),
            Self::HalfLine if spoken => {
                let text = line.to_string().into_bytes();
                Fate::Death(text[..text.len() / 2].to_vec())
            }
            Self::Stall if spoken => Fate::Silence,
            Self::BigLine if opened => {
                let big = json!({
                    "type": "user", "message": { "role": "user", "content": "x".repeat(20_000_000) },
                    "isSynthetic": true, "session_id": line["session_id"],
                });
                Fate::Written(vec![super::printer::text(&big)])
            }
            Self::UnknownEvent if opened || spoken => {
                let strange = json!({ "type": "wibble", "wobble": { "deep": [1, 2, 3] } });
                let system = json!({ "type": "system", "subtype": "wobbled", "why": null });
                Fate::Written(vec![super::printer::text(&strange), super::printer::text(&system)])
            }
            Self::Garbage if spoken => Fate::Written(vec![b"\x1b[31mthis is no JSON\n".to_vec()]),
            _ => Fate::Written(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Fate, Fault};

    #[test]
    fn half_a_line_is_half_a_line() {
        let line = json!({"type": "assistant"});
        let Fate::Death(bytes) = Fault::HalfLine.fate(&line) else { panic!("it lives") };
        assert_eq!(bytes, br#"{"type":"a"#[..].to_vec());
        assert_eq!(Fault::HalfLine.fate(&json!({"type": "user"})), Fate::Written(Vec::new()));
    }
}
