//! A message in the log of a session: who owns the session, and changes of its journal.
//!
//! A message has a JSON header and compressed changes. If the changes are larger than a message may be, they
//! are in an object, and the header says where and what its hash is. Reading is total: whatever the bytes
//! are, the result is a pack or an error, and no more memory is taken than the header says and the limits
//! allow.

use std::fmt::Write as _;
use std::io::Read as _;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use journal::{OutboxRow, SessionId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use uuid::Uuid;

use crate::bus::MAX_MESSAGE;

/// Every pack starts with these bytes and the version.
const MAGIC: &[u8; 2] = b"TP";

/// The version of the form. A reader refuses later ones.
const VERSION: u8 = 1;

/// The magic bytes, the version and the length of the header.
const PREFIX: usize = 7;

/// The largest header.
const MAX_HEADER: usize = 64 << 10;

/// The most that the compressed changes in a message may take, so that a header fits beside them.
const MAX_BODY: usize = MAX_MESSAGE - (8 << 10);

/// The most that the changes in a message may take when they are decompressed.
pub const MAX_CONTENT: usize = 16 << 20;

/// The most that the changes in an object may take when they are decompressed: the largest value of the
/// journal's database, and some more.
const MAX_OBJECT_CONTENT: u64 = 1100 << 20;

const COMPRESSION_LEVEL: i32 = 3;

/// A worker, as its messages name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkerId {
    /// The name that people gave it and that questions are sent to.
    pub name: String,
    /// Its data directory. Another machine with the same name is another worker.
    pub data: Uuid,
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackKind {
    /// The worker owns the session from here on. Each epoch begins with it.
    Own,
    /// Changes of the session.
    Changes,
    /// The worker no longer owns the session, and any may take it.
    Released,
}

/// What is known of a message without decompressing it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackHeader {
    pub kind: PackKind,
    /// Counts the owners of the session.
    pub epoch: u64,
    pub worker: WorkerId,
    /// The numbers of its first and its last change. Without changes, `last` is the number of the last
    /// change before it.
    pub first: u64,
    pub last: u64,
    /// The size of the decompressed changes.
    size: u64,
    /// Where the compressed changes are, if not in the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object: Option<PackObject>,
}

/// Changes that are not in the message itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackObject {
    pub name: String,
    /// The size of the object.
    pub size: u64,
    /// The hash of the object, as hexadecimal digits.
    pub sha256: String,
}

/// A message that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack {
    pub header: PackHeader,
    body: Bytes,
}

/// A message to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPack {
    pub header: PackHeader,
    pub payload: Bytes,
    /// An object that must be stored before the message.
    pub object: Option<(String, Bytes)>,
}

/// Why bytes are not a pack.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PackError {
    #[error("it is not a message of Towpath")]
    Foreign,
    #[error("a later version of Towpath wrote it (version {0} of messages); update this machine")]
    Version(u8),
    #[error("its header cannot be read: {0}")]
    Header(String),
    #[error("its changes take {0} bytes, which is more than a message may have")]
    TooLarge(u64),
    #[error("its changes cannot be decompressed: {0}")]
    Compression(String),
    #[error("its changes do not have the numbers and sizes that its header says")]
    Content,
    #[error("the object `{0}` that has its changes is missing")]
    MissingObject(String),
    #[error("the object `{0}` is not the one that was stored")]
    WrongObject(String),
}

impl NewPack {
    /// A message without changes. `last` is the number of the last change before it.
    pub fn without_changes(kind: PackKind, epoch: u64, worker: WorkerId, last: u64) -> Self {
        let header =
            PackHeader { kind, epoch, worker, first: last + 1, last, size: 0, object: None };
        let payload = encode(&header, &[]);
        Self { header, payload, object: None }
    }

    /// A message with changes: as many of the rows as fit, at least the first one. `None` if there are no
    /// rows, or they cannot be compressed.
    pub fn of_changes(
        session: SessionId,
        epoch: u64,
        worker: WorkerId,
        rows: &[OutboxRow],
    ) -> Option<Self> {
        let first = rows.first()?.number;
        let mut count = rows.len();
        loop {
            let rows = &rows[..count];
            let content = content(rows);
            let body = zstd::bulk::compress(&content, COMPRESSION_LEVEL).ok()?;
            let fits = body.len() <= MAX_BODY && content.len() <= MAX_CONTENT;
            if !fits && count > 1 {
                count /= 2;
                continue;
            }
            let mut header = PackHeader {
                kind: PackKind::Changes,
                epoch,
                worker,
                first,
                last: rows.last().map_or(first, |row| row.number),
                size: content.len() as u64,
                object: None,
            };
            if fits {
                let payload = encode(&header, &body);
                return Some(Self { header, payload, object: None });
            }
            let sha256 = hash(&body);
            let name = format!("{session}/{epoch}-{first}-{}", &sha256[..16]);
            let size = body.len() as u64;
            header.object = Some(PackObject { name: name.clone(), size, sha256 });
            let payload = encode(&header, &[]);
            return Some(Self { header, payload, object: Some((name, body.into())) });
        }
    }
}

impl Pack {
    /// Reads a message.
    pub fn decode(mut payload: Bytes) -> Result<Self, PackError> {
        if payload.len() < PREFIX || &payload[..MAGIC.len()] != MAGIC {
            return Err(PackError::Foreign);
        }
        payload.advance(MAGIC.len());
        let version = payload.get_u8();
        if version != VERSION {
            return Err(PackError::Version(version));
        }
        let size = usize::try_from(payload.get_u32_le()).unwrap_or(usize::MAX);
        if size > payload.len().min(MAX_HEADER) {
            return Err(PackError::Header("it is cut off".to_owned()));
        }
        let header = payload.split_to(size);
        let header: PackHeader = serde_json::from_slice(&header)
            .map_err(|error| PackError::Header(error.to_string()))?;
        let limit = if header.object.is_some() { MAX_OBJECT_CONTENT } else { MAX_CONTENT as u64 };
        if header.size > limit {
            return Err(PackError::TooLarge(header.size));
        }
        Ok(Self { header, body: payload })
    }

    /// The object that has its changes, if they are not in the message.
    pub fn object(&self) -> Option<&PackObject> {
        self.header.object.as_ref()
    }

    /// Its changes, as bytes for [`JournalChange::decode`](journal::JournalChange::decode). `object` is
    /// the content of its [object](Self::object).
    pub fn changes(&self, object: Option<&Bytes>) -> Result<Vec<Bytes>, PackError> {
        let body = match (&self.header.object, object) {
            (None, _) => &self.body,
            (Some(named), None) => return Err(PackError::MissingObject(named.name.clone())),
            (Some(named), Some(found)) => {
                if found.len() as u64 != named.size || hash(found) != named.sha256 {
                    return Err(PackError::WrongObject(named.name.clone()));
                }
                found
            }
        };
        if self.header.kind != PackKind::Changes {
            return if body.is_empty() { Ok(Vec::new()) } else { Err(PackError::Content) };
        }
        let mut content = decompress(body, self.header.size)?;
        let mut changes = Vec::new();
        while content.len() >= 4 {
            let size = usize::try_from(content.get_u32_le()).unwrap_or(usize::MAX);
            if size > content.len() {
                return Err(PackError::Content);
            }
            changes.push(content.split_to(size));
        }
        let numbers = self.header.last.checked_sub(self.header.first);
        let expected = numbers.and_then(|it| it.checked_add(1));
        if !content.is_empty() || expected != Some(changes.len() as u64) {
            return Err(PackError::Content);
        }
        Ok(changes)
    }
}

/// Decompresses exactly `size` bytes. More memory is taken only as content comes.
fn decompress(body: &[u8], size: u64) -> Result<Bytes, PackError> {
    let failed = |error: std::io::Error| PackError::Compression(error.to_string());
    let decoder = zstd::stream::read::Decoder::new(body).map_err(failed)?;
    let mut content = Vec::new();
    decoder.take(size.saturating_add(1)).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 != size {
        return Err(PackError::Content);
    }
    Ok(content.into())
}

/// The changes, each with its length.
fn content(rows: &[OutboxRow]) -> Vec<u8> {
    let size = rows.iter().map(|row| row.bytes.len() + 4).sum();
    let mut content = Vec::with_capacity(size);
    for row in rows {
        content.put_u32_le(u32::try_from(row.bytes.len()).unwrap_or(u32::MAX));
        content.extend_from_slice(&row.bytes);
    }
    content
}

fn encode(header: &PackHeader, body: &[u8]) -> Bytes {
    let header = serde_json::to_vec(header).expect("a header serialises");
    let mut payload = BytesMut::with_capacity(PREFIX + header.len() + body.len());
    payload.put_slice(MAGIC);
    payload.put_u8(VERSION);
    payload.put_u32_le(u32::try_from(header.len()).unwrap_or(u32::MAX));
    payload.put_slice(&header);
    payload.put_slice(body);
    payload.freeze()
}

fn hash(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a string does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use journal::{OutboxRow, SessionId};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::{MAX_CONTENT, NewPack, Pack, PackError, PackKind, WorkerId};
    use crate::bus::MAX_MESSAGE;

    fn worker() -> WorkerId {
        WorkerId { name: "box".to_owned(), data: Uuid::from_u128(7) }
    }

    fn session() -> SessionId {
        SessionId(Uuid::from_u128(1))
    }

    /// Bytes that do not compress.
    fn noise(size: usize, mut seed: u64) -> Bytes {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33).to_le_bytes()[0]
        };
        (0..size).map(|_| next()).collect()
    }

    fn rows(sizes: &[usize]) -> Vec<OutboxRow> {
        let row = |(number, size): (u64, &usize)| OutboxRow { number, bytes: noise(*size, number) };
        (5..).zip(sizes).map(row).collect()
    }

    fn changes_of(new: &NewPack) -> Vec<Bytes> {
        let pack = Pack::decode(new.payload.clone()).unwrap();
        assert_eq!(pack.header, new.header);
        pack.changes(new.object.as_ref().map(|(_, content)| content)).unwrap()
    }

    #[test]
    fn packs_take_as_many_changes_as_fit_and_give_back_their_bytes() {
        let sizes = [0, 1, 100_000, 200_000, 300_000, 9, 3 << 20, 4];
        let mut rows = &rows(&sizes)[..];
        let mut objects = 0;
        while !rows.is_empty() {
            let new = NewPack::of_changes(session(), 3, worker(), rows).unwrap();
            assert!(new.payload.len() <= MAX_MESSAGE, "{}", new.payload.len());
            objects += usize::from(new.object.is_some());
            let changes = changes_of(&new);
            let (packed, rest) = rows.split_at(changes.len());
            assert!(packed.iter().map(|row| &row.bytes).eq(&changes));
            assert_eq!(new.header.last, packed.last().unwrap().number);
            rows = rest;
        }
        assert_eq!(objects, 1, "only the change of 3 MiB is too large");
    }

    #[test]
    fn an_object_with_other_content_is_refused() {
        let new = NewPack::of_changes(session(), 3, worker(), &rows(&[1 << 20])).unwrap();
        let (name, content) = new.object.clone().unwrap();
        let pack = Pack::decode(new.payload).unwrap();
        assert_eq!(pack.changes(None), Err(PackError::MissingObject(name.clone())));
        let mut wrong = content.to_vec();
        wrong[100] ^= 1;
        assert_eq!(pack.changes(Some(&wrong.into())), Err(PackError::WrongObject(name)));
    }

    #[test]
    fn a_message_that_grows_beyond_its_limit_is_refused_without_the_memory() {
        let bomb = vec![0; MAX_CONTENT * 8];
        let body = zstd::bulk::compress(&bomb, 3).unwrap();
        let mut header = NewPack::without_changes(PackKind::Changes, 1, worker(), 0).header;
        for size in [1000, bomb.len() as u64] {
            header.size = size;
            let pack = Pack::decode(super::encode(&header, &body));
            let read = pack.and_then(|pack| pack.changes(None));
            let too_large = PackError::TooLarge(bomb.len() as u64);
            let expected = if size == 1000 { PackError::Content } else { too_large };
            assert_eq!(read, Err(expected));
        }
    }

    #[test]
    fn a_message_of_a_later_version_says_so() {
        let new = NewPack::without_changes(PackKind::Own, 1, worker(), 0);
        let mut payload = new.payload.to_vec();
        payload[2] = 9;
        assert_eq!(Pack::decode(payload.into()), Err(PackError::Version(9)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_pack_or_an_error(
            mut bytes in prop::collection::vec(any::<u8>(), 0..300), framed: bool,
        ) {
            if framed && bytes.len() > 7 {
                bytes[..7].copy_from_slice(b"TP\x01\x02\0\0\0");
            }
            if let Ok(pack) = Pack::decode(bytes.into()) {
                let _ = pack.changes(None);
            }
        }

        #[test]
        fn a_pack_with_a_wrong_byte_is_a_pack_or_an_error(at: usize, byte: u8, cut: usize) {
            let new = NewPack::of_changes(session(), 3, worker(), &rows(&[50, 3, 80])).unwrap();
            let mut wrong = new.payload.to_vec();
            let at = at % wrong.len();
            wrong[at] = byte;
            if let Ok(pack) = Pack::decode(wrong.into()) {
                let _ = pack.changes(None);
            }
            let cut = new.payload.slice(..cut % new.payload.len());
            let read = Pack::decode(cut).and_then(|pack| pack.changes(None));
            prop_assert!(read.is_err());
        }
    }
}
