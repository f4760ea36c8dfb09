//! Removing what deleted sessions leave on the servers.
//!
//! A session that is deleted keeps its log: workers and gateways that were away learn from the end of it that the
//! session is gone. So the last message stays, and everything before it is removed, with the objects of the session.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use jiff::Timestamp;
use journal::{JournalChange, SessionId};
use serde::Serialize;
use serde_json::json;

use super::FleetSetup;
use crate::bus::nats::NatsBus;
use crate::bus::nats::objects::describe;
use crate::bus::nats::subjects::{LOG_STREAM, log_subject};
use crate::bus::{Bus as _, BusError, ObjectKind};
use crate::pack::Pack;

/// How many descriptions one answer of the servers lists.
const LIST_PAGE: usize = 100_000;

/// What to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneOptions {
    /// The time of this machine.
    pub now: SystemTime,
    /// Sessions that were deleted later than this long ago are left alone.
    pub older_than: Duration,
    /// Say what would be removed, and remove nothing.
    pub dry_run: bool,
}

/// What is left of a deleted session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PrunedSession {
    pub session: SessionId,
    /// How many messages of its log are removed.
    pub messages: u64,
    /// The objects that are removed.
    pub objects: Vec<String>,
}

impl FleetSetup {
    /// Removes the logs of deleted sessions, but for their ends, and their objects.
    pub async fn prune(&self, options: PruneOptions) -> Result<Vec<PrunedSession>, BusError> {
        let bus = NatsBus::new(self.connection.clone());
        let mut names = Vec::new();
        for kind in [ObjectKind::Pack, ObjectKind::Files] {
            names.extend(self.object_names(kind).await?);
        }
        let mut pruned = Vec::new();
        for (session, _) in bus.logs().await? {
            if !self.is_deleted(&bus, session, options).await? {
                continue;
            }
            let id = session.to_string();
            let is_part = |name: &&String| name.split('/').take(2).any(|part| part == id);
            let objects: Vec<String> = names.iter().filter(is_part).cloned().collect();
            let messages = self.count_messages(session).await?.saturating_sub(1);
            if messages == 0 && objects.is_empty() {
                continue;
            }
            if !options.dry_run {
                // First what is found through its descriptions, so that it is found again after a failure.
                for name in &objects {
                    self.remove_object(name).await?;
                }
                self.purge(LOG_STREAM, &log_subject(session), 1).await?;
            }
            pruned.push(PrunedSession { session, messages, objects });
        }
        Ok(pruned)
    }

    /// Whether the last thing that its log says is that a session was deleted, long enough ago.
    async fn is_deleted(
        &self,
        bus: &NatsBus,
        session: SessionId,
        options: PruneOptions,
    ) -> Result<bool, BusError> {
        let Some(last) = bus.last(session).await? else { return Ok(false) };
        let Ok(pack) = Pack::decode(last.payload) else { return Ok(false) };
        let object = match pack.object() {
            Some(object) => match bus.get_object(&object.name).await {
                Err(BusError::Damaged(_)) => return Ok(false),
                found => found?,
            },
            None => None,
        };
        let Ok(changes) = pack.changes(object.as_ref()) else { return Ok(false) };
        let is_deletion = |bytes: &Bytes| {
            matches!(JournalChange::decode(bytes.clone()), Ok(JournalChange::Delete))
        };
        if !changes.last().is_some_and(is_deletion) {
            return Ok(false);
        }
        let body = json!({ "last_by_subj": log_subject(session) });
        let answer = self.api(&format!("STREAM.MSG.GET.{LOG_STREAM}"), Some(&body)).await?;
        let answer = answer.map_err(crate::bus::nats::JetStreamError::into_error)?;
        let stored = answer["message"]["time"].as_str().and_then(|it| it.parse().ok());
        let (Some(stored), Ok(now)) = (stored, Timestamp::try_from(options.now)) else {
            return Ok(false);
        };
        let age = now.duration_since(stored);
        Ok(Duration::try_from(age).is_ok_and(|age| age >= options.older_than))
    }

    async fn count_messages(&self, session: SessionId) -> Result<u64, BusError> {
        let subject = log_subject(session);
        let counts = self.subjects(LOG_STREAM, &subject, 0).await?;
        Ok(counts.into_iter().find(|(it, _)| *it == subject).map_or(0, |(_, count)| count))
    }

    /// The names of all objects of a kind.
    async fn object_names(&self, kind: ObjectKind) -> Result<Vec<String>, BusError> {
        let [_, descriptions] = kind.subjects();
        let mut names = Vec::new();
        loop {
            let page = self.subjects(&kind.stream(), &descriptions, names.len()).await?;
            let count = page.len();
            // One that is not ours has a name that no session has.
            let name = |subject: String| kind.object_name(&subject).unwrap_or_default();
            names.extend(page.into_iter().map(|(subject, _)| name(subject)));
            if count < LIST_PAGE {
                return Ok(names);
            }
        }
    }

    /// Subjects of a stream with the number of messages of each, from the one with a number on.
    async fn subjects(
        &self,
        stream: &str,
        filter: &str,
        offset: usize,
    ) -> Result<Vec<(String, u64)>, BusError> {
        let body = json!({ "subjects_filter": filter, "offset": offset });
        let answer = self.api(&format!("STREAM.INFO.{stream}"), Some(&body)).await?;
        let answer = answer.map_err(crate::bus::nats::JetStreamError::into_error)?;
        let subjects = answer["state"]["subjects"].as_object().into_iter().flatten();
        Ok(subjects.map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0))).collect())
    }

    async fn remove_object(&self, name: &str) -> Result<(), BusError> {
        let kind = ObjectKind::of(name);
        let described = match describe(&self.connection, name).await {
            Err(BusError::Damaged(_)) => None,
            described => described?,
        };
        if let Some(described) = described {
            self.purge(&kind.stream(), &kind.chunk_subjects(&described.nuid), 0).await?;
        }
        self.purge(&kind.stream(), &kind.description_subject(name), 0).await
    }

    async fn purge(&self, stream: &str, filter: &str, keep: u64) -> Result<(), BusError> {
        let mut body = json!({ "filter": filter });
        if keep > 0 {
            body["keep"] = json!(keep);
        }
        let answer = self.api(&format!("STREAM.PURGE.{stream}"), Some(&body)).await?;
        answer.map(drop).map_err(crate::bus::nats::JetStreamError::into_error)
    }
}
