//! A change of a session in a form that another journal can replay.
//!
//! The form is a version, a JSON head and the bytes of lines. Lines are behind the head because they may be
//! any bytes, and because most of a change is lines. The head has their sizes. Reading is total: whatever the
//! bytes are, the result is a change or an error.

use std::borrow::Cow;

use bytes::{Buf as _, Bytes};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::batch::{Batch, OutboundLine, SessionChange};
use crate::id::Seq;
use crate::records::{
    Entry, Grant, NewEntry, NewSession, PromptRecord, RequestRecord, origin_code, origin_from_code,
};
use crate::snapshot::SnapshotRecords;

/// The version of the form. A reader refuses later ones.
const VERSION: u8 = 1;

/// The version and the length of the head.
const PREFIX: usize = 5;

/// What one mutation did to a session.
#[derive(Clone, Debug)]
pub enum JournalChange<'a> {
    /// The session was created.
    Create(Cow<'a, NewSession>),
    /// A batch was written. The number of its first entry is `first`.
    Write { first: Seq, batch: Cow<'a, Batch> },
    /// An import of the session began. It is not shown until the import has finished.
    BeginImport { new: Cow<'a, NewSession>, import: Uuid },
    /// A batch of an import was written, the last one if `finished_with` says how many turns it has.
    Import { first: Seq, import: Uuid, batch: Cow<'a, Batch>, finished_with: Option<u64> },
    /// A grant was added outside a batch.
    AddGrant(Cow<'a, Grant>),
    /// A grant was revoked.
    RevokeGrant { grant: Uuid, at: u64 },
    /// What the session consists of follows, in place of everything before. It is not shown until then.
    BeginSnapshot(Cow<'a, NewSession>),
    /// Some entries of it, in order. Compaction may have removed others.
    SnapshotEntries(Cow<'a, [Entry]>),
    /// Everything else of it.
    FinishSnapshot(Cow<'a, SnapshotRecords>),
    /// The session was deleted.
    Delete,
}

/// Why bytes are not a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeFormatError {
    #[error("a later version of Towpath wrote it (version {0} of changes)")]
    Version(u8),
    #[error("it ends too early or has bytes left over")]
    Size,
    #[error("its head cannot be read: {0}")]
    Head(String),
    #[error("an entry has an unknown origin")]
    Origin,
}

/// The head of a change: everything but the bytes of lines.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ChangeHead<'a> {
    Create(Cow<'a, NewSession>),
    Write { first: Seq, batch: BatchHead<'a> },
    BeginImport { new: Cow<'a, NewSession>, import: Uuid },
    Import { first: Seq, import: Uuid, batch: BatchHead<'a>, finished_with: Option<u64> },
    AddGrant(Cow<'a, Grant>),
    RevokeGrant { grant: Uuid, at: u64 },
    BeginSnapshot(Cow<'a, NewSession>),
    SnapshotEntries(Vec<SnapshotEntryHead>),
    FinishSnapshot { records: Cow<'a, SnapshotRecords>, outbound: Vec<LineHead> },
    Delete,
}

/// A batch without the bytes of its lines.
#[derive(Serialize, Deserialize)]
struct BatchHead<'a> {
    at: u64,
    entries: Vec<NewEntryHead>,
    unfinished: Cow<'a, [usize]>,
    prompts: Cow<'a, [PromptRecord]>,
    requests: Cow<'a, [RequestRecord]>,
    outbound: Vec<LineHead>,
    grants: Cow<'a, [Grant]>,
    /// The bits of the number: JSON would round it.
    cost: u64,
    change: Cow<'a, SessionChange>,
}

#[derive(Serialize, Deserialize)]
struct NewEntryHead {
    origin: u8,
    transient: bool,
    size: usize,
}

#[derive(Serialize, Deserialize)]
struct SnapshotEntryHead {
    seq: Seq,
    at: u64,
    origin: u8,
    size: usize,
}

#[derive(Serialize, Deserialize)]
struct LineHead {
    number: u64,
    size: usize,
}

impl JournalChange<'_> {
    /// The change as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut lines: Vec<&Bytes> = Vec::new();
        let head = match self {
            Self::Create(new) => ChangeHead::Create(Cow::Borrowed(new)),
            Self::Write { first, batch } => {
                ChangeHead::Write { first: *first, batch: BatchHead::of(batch, &mut lines) }
            }
            Self::BeginImport { new, import } => {
                ChangeHead::BeginImport { new: Cow::Borrowed(new), import: *import }
            }
            Self::Import { first, import, batch, finished_with } => ChangeHead::Import {
                first: *first,
                import: *import,
                batch: BatchHead::of(batch, &mut lines),
                finished_with: *finished_with,
            },
            Self::AddGrant(grant) => ChangeHead::AddGrant(Cow::Borrowed(grant)),
            Self::RevokeGrant { grant, at } => ChangeHead::RevokeGrant { grant: *grant, at: *at },
            Self::BeginSnapshot(new) => ChangeHead::BeginSnapshot(Cow::Borrowed(new)),
            Self::SnapshotEntries(entries) => {
                lines.extend(entries.iter().map(|entry| &entry.bytes));
                let head = |entry: &Entry| SnapshotEntryHead {
                    seq: entry.seq,
                    at: entry.at,
                    origin: origin_code(entry.origin, entry.continues),
                    size: entry.bytes.len(),
                };
                ChangeHead::SnapshotEntries(entries.iter().map(head).collect())
            }
            Self::FinishSnapshot(records) => {
                let outbound = line_heads(&records.outbound, &mut lines);
                ChangeHead::FinishSnapshot { records: Cow::Borrowed(records), outbound }
            }
            Self::Delete => ChangeHead::Delete,
        };
        let head = head.to_json();
        let size = PREFIX + head.len() + lines.iter().map(|line| line.len()).sum::<usize>();
        let mut encoded = Vec::with_capacity(size);
        encoded.push(VERSION);
        encoded.extend(u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes());
        encoded.extend(head);
        for line in lines {
            encoded.extend_from_slice(line);
        }
        encoded
    }

    /// Reads what [`encode`](Self::encode) made. Its lines are slices of the bytes.
    pub fn decode(mut bytes: Bytes) -> Result<JournalChange<'static>, ChangeFormatError> {
        if let Some(&version) = bytes.first()
            && version != VERSION
        {
            return Err(ChangeFormatError::Version(version));
        }
        if bytes.len() < PREFIX {
            return Err(ChangeFormatError::Size);
        }
        bytes.advance(1);
        let size = usize::try_from(bytes.get_u32_le()).unwrap_or(usize::MAX);
        let head = take(&mut bytes, size)?;
        let head: ChangeHead<'static> = serde_json::from_slice(&head)
            .map_err(|error| ChangeFormatError::Head(error.to_string()))?;
        let change = head.with_lines(&mut bytes)?;
        if bytes.is_empty() { Ok(change) } else { Err(ChangeFormatError::Size) }
    }

    /// The entry that the session must have as its last one before the change, if the change adds to
    /// them.
    pub(crate) fn follows(&self) -> Option<Seq> {
        match self {
            Self::Write { first, .. } | Self::Import { first, .. } => {
                Some(Seq(first.0.saturating_sub(1)))
            }
            _ => None,
        }
    }

    /// Whether a turn of the session ended with it.
    pub fn ends_turn(&self) -> bool {
        matches!(self, Self::Write { batch, .. } if batch.change.turn_ended.is_some())
    }

    /// Whether it has nothing but streamed text, which the complete message behind it repeats.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Write { batch, .. } if !batch.must_be_durable())
    }

    /// Roughly how much memory it holds.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Write { batch, .. } | Self::Import { batch, .. } => batch.size(),
            Self::SnapshotEntries(entries) => {
                entries.iter().map(|entry| entry.bytes.len() + 64).sum::<usize>() + 256
            }
            _ => 256,
        }
    }
}

impl ChangeHead<'_> {
    fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("records serialise")
    }
}

impl ChangeHead<'static> {
    fn with_lines(self, lines: &mut Bytes) -> Result<JournalChange<'static>, ChangeFormatError> {
        Ok(match self {
            Self::Create(new) => JournalChange::Create(new),
            Self::Write { first, batch } => {
                JournalChange::Write { first, batch: Cow::Owned(batch.with_lines(lines)?) }
            }
            Self::BeginImport { new, import } => JournalChange::BeginImport { new, import },
            Self::Import { first, import, batch, finished_with } => {
                let batch = Cow::Owned(batch.with_lines(lines)?);
                JournalChange::Import { first, import, batch, finished_with }
            }
            Self::AddGrant(grant) => JournalChange::AddGrant(grant),
            Self::RevokeGrant { grant, at } => JournalChange::RevokeGrant { grant, at },
            Self::BeginSnapshot(new) => JournalChange::BeginSnapshot(new),
            Self::SnapshotEntries(heads) => {
                let entry = |head: SnapshotEntryHead| {
                    let (origin, continues) =
                        origin_from_code(head.origin).ok_or(ChangeFormatError::Origin)?;
                    let SnapshotEntryHead { seq, at, size, .. } = head;
                    let bytes = take(lines, size)?;
                    Ok(Entry { seq, at, origin, bytes, continues, omitted: 0 })
                };
                let entries: Result<Vec<Entry>, _> = heads.into_iter().map(entry).collect();
                JournalChange::SnapshotEntries(Cow::Owned(entries?))
            }
            Self::FinishSnapshot { records, outbound } => {
                let mut records = records.into_owned();
                records.outbound = with_lines(outbound, lines)?;
                JournalChange::FinishSnapshot(Cow::Owned(records))
            }
            Self::Delete => JournalChange::Delete,
        })
    }
}

impl<'a> BatchHead<'a> {
    fn of(batch: &'a Batch, lines: &mut Vec<&'a Bytes>) -> Self {
        let Batch { at, entries, unfinished, prompts, requests, outbound, grants, cost, change } =
            batch;
        lines.extend(entries.iter().map(|entry| &entry.bytes));
        let head = |entry: &NewEntry| NewEntryHead {
            origin: origin_code(entry.origin, false),
            transient: entry.transient,
            size: entry.bytes.len(),
        };
        Self {
            at: *at,
            entries: entries.iter().map(head).collect(),
            unfinished: Cow::Borrowed(unfinished),
            prompts: Cow::Borrowed(prompts),
            requests: Cow::Borrowed(requests),
            outbound: line_heads(outbound, lines),
            grants: Cow::Borrowed(grants),
            cost: cost.to_bits(),
            change: Cow::Borrowed(change),
        }
    }

    fn with_lines(self, lines: &mut Bytes) -> Result<Batch, ChangeFormatError> {
        let entry = |head: NewEntryHead| {
            let (origin, _) = origin_from_code(head.origin).ok_or(ChangeFormatError::Origin)?;
            Ok(NewEntry { origin, bytes: take(lines, head.size)?, transient: head.transient })
        };
        let entries: Result<Vec<NewEntry>, _> = self.entries.into_iter().map(entry).collect();
        Ok(Batch {
            at: self.at,
            entries: entries?,
            unfinished: self.unfinished.into_owned(),
            prompts: self.prompts.into_owned(),
            requests: self.requests.into_owned(),
            outbound: with_lines(self.outbound, lines)?,
            grants: self.grants.into_owned(),
            cost: f64::from_bits(self.cost),
            change: self.change.into_owned(),
        })
    }
}

fn line_heads<'a>(outbound: &'a [OutboundLine], lines: &mut Vec<&'a Bytes>) -> Vec<LineHead> {
    lines.extend(outbound.iter().map(|line| &line.bytes));
    let head = |line: &OutboundLine| LineHead { number: line.number, size: line.bytes.len() };
    outbound.iter().map(head).collect()
}

fn with_lines(
    heads: Vec<LineHead>,
    lines: &mut Bytes,
) -> Result<Vec<OutboundLine>, ChangeFormatError> {
    let line =
        |head: LineHead| Ok(OutboundLine { number: head.number, bytes: take(lines, head.size)? });
    heads.into_iter().map(line).collect()
}

/// The next bytes.
fn take(bytes: &mut Bytes, size: usize) -> Result<Bytes, ChangeFormatError> {
    if size > bytes.len() {
        return Err(ChangeFormatError::Size);
    }
    Ok(bytes.split_to(size))
}

/// Paths as JSON. Not every path is UTF-8; the others are written as numbers.
pub(crate) mod path_json {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::columns::{path, path_bytes};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum PathForm {
        Text(String),
        Bytes(Vec<u8>),
    }

    impl PathForm {
        fn of(path: &Path) -> Self {
            match path.to_str() {
                Some(text) => Self::Text(text.to_owned()),
                None => Self::Bytes(path_bytes(path).to_vec()),
            }
        }

        fn path(self) -> PathBuf {
            match self {
                Self::Text(text) => text.into(),
                Self::Bytes(bytes) => path(&bytes),
            }
        }
    }

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        PathForm::of(path).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        PathForm::deserialize(from).map(PathForm::path)
    }

    /// The same for a path that may be missing.
    pub(crate) mod optional {
        use std::path::PathBuf;

        use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

        use super::PathForm;

        #[expect(clippy::ref_option, reason = "serde calls it so")]
        pub(crate) fn serialize<S: Serializer>(
            path: &Option<PathBuf>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            path.as_deref().map(PathForm::of).serialize(to)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<PathBuf>, D::Error> {
            Ok(Option::<PathForm>::deserialize(from)?.map(PathForm::path))
        }
    }
}
