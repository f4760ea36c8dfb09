//! The names of streams, tables and subjects on the servers.
//!
//! They are part of what permissions are written with, and documented in `docs/fleet.md`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use journal::SessionId;

use crate::bus::{BusError, KeyTable, ObjectKind};

/// The stream with the logs of all sessions.
pub(crate) const LOG_STREAM: &str = "TP_E";

/// The subjects of all logs.
pub(crate) const LOG_SUBJECTS: &str = "tp.e.>";

/// Where the log stream publishes each message again after it has stored it. A subscriber of
/// [`LOG_SUBJECTS`] itself would also see the appends that are then refused.
pub(crate) const LIVE_SUBJECTS: &str = "tp.live.e.>";

impl KeyTable {
    pub(crate) const ALL: [Self; 4] = [Self::Workers, Self::Roles, Self::Bridges, Self::Access];

    /// The name of the key-value bucket.
    pub(crate) fn bucket(self) -> &'static str {
        match self {
            Self::Workers => "tp_workers",
            Self::Roles => "tp_roles",
            Self::Bridges => "tp_bridges",
            Self::Access => "tp_access",
        }
    }

    /// The stream behind the bucket.
    pub(crate) fn stream(self) -> String {
        format!("KV_{}", self.bucket())
    }

    /// The subjects of all keys.
    pub(crate) fn subjects(self) -> String {
        format!("$KV.{}.>", self.bucket())
    }

    pub(super) fn subject(self, key: &str) -> Result<String, BusError> {
        check_name(key)?;
        Ok(format!("$KV.{}.{key}", self.bucket()))
    }

    /// The key with this subject.
    pub(super) fn key(self, subject: &str) -> Option<&str> {
        subject.strip_prefix("$KV.")?.strip_prefix(self.bucket())?.strip_prefix('.')
    }
}

impl ObjectKind {
    pub(crate) const ALL: [Self; 3] = [Self::Pack, Self::Question, Self::Files];

    /// The name of the object bucket.
    pub(crate) fn bucket(self) -> &'static str {
        match self {
            Self::Pack => "tp_packs",
            Self::Question => "tp_questions",
            Self::Files => "tp_files",
        }
    }

    /// The stream behind the bucket.
    pub(crate) fn stream(self) -> String {
        format!("OBJ_{}", self.bucket())
    }

    /// The subjects of all chunks, and of all descriptions.
    pub(crate) fn subjects(self) -> [String; 2] {
        ["C", "M"].map(|part| format!("$O.{}.{part}.>", self.bucket()))
    }

    /// The subject of an object's chunk.
    pub(crate) fn chunk_subject(self, nuid: &str, number: usize) -> String {
        format!("$O.{}.C.{nuid}.{number}", self.bucket())
    }

    /// The subjects of all chunks of an object.
    pub(crate) fn chunk_subjects(self, nuid: &str) -> String {
        format!("$O.{}.C.{nuid}.*", self.bucket())
    }

    /// The subject of an object's description.
    pub(crate) fn description_subject(self, name: &str) -> String {
        format!("$O.{}.M.{}", self.bucket(), URL_SAFE.encode(name))
    }

    /// The name of the object whose description has this subject.
    pub(crate) fn object_name(self, subject: &str) -> Option<String> {
        let name = subject.strip_prefix(&format!("$O.{}.M.", self.bucket()))?;
        String::from_utf8(URL_SAFE.decode(name).ok()?).ok()
    }
}

/// The subject of a session's log. The shard is the last digit of the id, which is random in all
/// versions of UUIDs that sessions have: a fleet that outgrows one stream divides the logs by it.
pub(crate) fn log_subject(session: SessionId) -> String {
    format!("tp.e.{:x}.{session}", session.0.as_u128() & 0xf)
}

/// The session whose log has this subject.
pub(crate) fn session_of(subject: &str) -> Option<SessionId> {
    let session = subject.rsplit('.').next()?.parse().ok()?;
    (log_subject(session) == subject).then_some(session)
}

pub(super) fn question_subject(worker: &str) -> Result<String, BusError> {
    check_name(worker)?;
    Ok(format!("tp.ask.{worker}"))
}

/// Refuses names that mean something else in a subject.
pub(super) fn check_name(name: &str) -> Result<(), BusError> {
    let is_allowed = |it: char| it.is_ascii_alphanumeric() || "-_=/.".contains(it);
    let has_empty_part = name.split('.').any(str::is_empty);
    if has_empty_part || !name.chars().all(is_allowed) {
        return Err(BusError::Setup(format!(
            "`{name}` cannot be a name in a fleet: use letters, digits, `-`, `_` and single dots"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use journal::SessionId;
    use uuid::Uuid;

    use super::{check_name, log_subject, session_of};
    use crate::bus::{KeyTable, ObjectKind};

    #[test]
    fn the_name_of_an_object_says_where_it_is() {
        let session = Uuid::from_u128(1);
        let kinds = [
            (format!("{session}/3-7-abc"), ObjectKind::Pack),
            (format!("files/{session}/tree"), ObjectKind::Files),
            (format!("question/{session}"), ObjectKind::Question),
            ("anything".to_owned(), ObjectKind::Files),
        ];
        for (name, kind) in kinds {
            assert_eq!(ObjectKind::of(&name), kind, "{name}");
            assert_eq!(kind.object_name(&kind.description_subject(&name)), Some(name));
        }
    }

    #[test]
    fn a_subject_says_which_session_it_is_the_log_of() {
        let session: SessionId = "6ba7b810-9dad-11d1-80b4-00c04fd430c8".parse().unwrap();
        assert_eq!(log_subject(session), "tp.e.8.6ba7b810-9dad-11d1-80b4-00c04fd430c8");
        assert_eq!(session_of(&log_subject(session)), Some(session));
        let other_shard = "tp.e.7.6ba7b810-9dad-11d1-80b4-00c04fd430c8";
        for subject in [other_shard, "tp.e.8.nothing", "tp.e.8", ""] {
            assert_eq!(session_of(subject), None, "{subject}");
        }
        let random = SessionId(Uuid::new_v4());
        assert_eq!(session_of(&log_subject(random)), Some(random));
    }

    #[test]
    fn names_with_a_meaning_in_subjects_are_refused() {
        for name in ["", "a..b", ".a", "a.", "*", ">", "a b", "a\nb", "ü"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["build-1", "host.example.org", "A_b=c/d"] {
            check_name(name).unwrap();
        }
        let subject = KeyTable::Workers.subject("host.example.org").unwrap();
        assert_eq!(KeyTable::Workers.key(&subject), Some("host.example.org"));
        assert_eq!(KeyTable::Roles.key(&subject), None);
    }
}
