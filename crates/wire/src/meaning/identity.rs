//! Which session the stream belongs to, and when that changes.

use crate::event::Event;

/// The CLI's id of the running session.
///
/// It changes within one process: `/clear` begins a new conversation, whose lines carry another id
/// from their `init` on. The `conversation_reset` that 2.1.325 writes before it names an id too, but
/// no line ever carries that one.
#[derive(Debug, Default)]
pub struct Identity {
    current: Option<String>,
}

/// The stream goes on under another id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionChange {
    /// The id before, if there was one.
    pub before: Option<String>,
    /// The id from here on.
    pub after: String,
}

impl Identity {
    /// The id as of the last event.
    pub fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// Says if the event begins a session or changes its id.
    pub fn observe(&mut self, event: &Event<'_>) -> Option<SessionChange> {
        let id = event.envelope.session_id?;
        if id.is_empty() || self.current.as_deref().is_some_and(|current| id == *current) {
            return None;
        }
        let after = id.decode().into_owned();
        let before = self.current.replace(after.clone());
        Some(SessionChange { before, after })
    }
}

#[cfg(test)]
mod tests {
    use super::{Identity, SessionChange};
    use crate::{Reading, read};

    #[test]
    fn the_id_changes_with_the_lines_that_carry_it_and_not_before() {
        let mut identity = Identity::default();
        let mut observe = |line: &str| {
            let Some(Reading::Event(event)) = read(line.as_bytes()).next().map(|it| it.reading)
            else {
                panic!("{line}")
            };
            identity.observe(&event)
        };
        let change = |before: Option<&str>, after: &str| {
            Some(SessionChange { before: before.map(str::to_owned), after: after.to_owned() })
        };
        let init = r#"{"type":"system","subtype":"init","session_id":"a"}"#;
        assert_eq!(observe(init), change(None, "a"));
        assert_eq!(observe(init), None);
        // As 2.1.325 announces `/clear`.
        let reset = r#"{"type":"conversation_reset","new_conversation_id":"x","session_id":"a"}"#;
        assert_eq!(observe(reset), None);
        assert_eq!(observe(r#"{"type":"keep_alive"}"#), None);
        let init = r#"{"type":"system","subtype":"init","session_id":"b"}"#;
        assert_eq!(observe(init), change(Some("a"), "b"));
    }
}
