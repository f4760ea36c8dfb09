//! The names of streams, tables and subjects on the servers.
//!
//! They are part of what permissions are written with, and documented in `docs/fleet.md`.

use journal::SessionId;

use crate::bus::{BusError, KeyTable};

/// The stream with the logs of all sessions.
pub(crate) const LOG_STREAM: &str = "TP_E";

/// The subjects of all logs.
pub(crate) const LOG_SUBJECTS: &str = "tp.e.>";

/// Where the log stream publishes each message again after it has stored it. A subscriber of
/// [`LOG_SUBJECTS`] itself would also see the appends that are then refused.
pub(crate) const LIVE_SUBJECTS: &str = "tp.live.e.>";

/// The bucket of objects.
pub(crate) const OBJECT_BUCKET: &str = "tp_blobs";

/// The stream behind the bucket of objects.
pub(crate) const OBJECT_STREAM: &str = "OBJ_tp_blobs";

impl KeyTable {
    pub(crate) const ALL: [Self; 4] = [Self::Sessions, Self::Workers, Self::Roles, Self::Bridges];

    /// The name of the key-value bucket.
    pub(crate) fn bucket(self) -> &'static str {
        match self {
            Self::Sessions => "tp_sessions",
            Self::Workers => "tp_workers",
            Self::Roles => "tp_roles",
            Self::Bridges => "tp_bridges",
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
    use crate::bus::KeyTable;

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
