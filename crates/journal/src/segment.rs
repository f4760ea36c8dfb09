//! Segments: compacted entries, compressed together.
//!
//! A segment holds the metadata of all its entries and then their bytes. Similar data compresses well
//! side by side, and a reader gets all entries as slices of one buffer.

use std::io;

use bytes::Bytes;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use crate::error::Error;
use crate::id::Seq;
use crate::records::{Entry, origin_code, origin_from_code};

/// The compression level. Entries are compressed outside the writer thread and rarely more than
/// twice, so it may be slow; decompression is not affected.
const LEVEL: i32 = 6;

/// The largest decompressed size, far above what SQLite stores in a row.
const LARGEST: usize = 2 << 30;

/// Compressed entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Their decompressed size.
    pub(crate) raw: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Segment {
    /// Compresses entries, which are in order.
    pub(crate) fn compress(entries: &[Entry]) -> io::Result<Self> {
        let bodies: usize = entries.iter().map(|entry| entry.bytes.len()).sum();
        let mut raw = Vec::with_capacity(bodies + 12 * entries.len() + 8);
        put(&mut raw, entries.len() as u64);
        let (mut seq, mut at) = (0, 0);
        for entry in entries {
            put(&mut raw, entry.seq.0 - seq);
            // Clocks can go backwards.
            let step = entry.at.wrapping_sub(at).cast_signed();
            put(&mut raw, ((step << 1) ^ (step >> 63)).cast_unsigned());
            put(&mut raw, u64::from(origin_code(entry.origin)));
            put(&mut raw, entry.bytes.len() as u64);
            (seq, at) = (entry.seq.0, entry.at);
        }
        for entry in entries {
            raw.extend_from_slice(&entry.bytes);
        }
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        // Tool results appear twice in a line, possibly with an image in between.
        compressor.set_parameter(CParameter::EnableLongDistanceMatching(raw.len() > 1 << 20))?;
        Ok(Self { raw: raw.len(), bytes: compressor.compress(&raw)? })
    }

    /// The entries of a segment.
    pub(crate) fn decompress(raw: usize, bytes: &[u8]) -> Result<Vec<Entry>, Error> {
        if raw > LARGEST {
            return Err(Error::corrupt("a segment has an impossible size"));
        }
        let raw = zstd::bulk::decompress(bytes, raw)
            .map_err(|error| Error::corrupt(format!("a segment does not decompress: {error}")))?;
        Self::entries(&Bytes::from(raw)).ok_or_else(|| Error::corrupt("a segment is truncated"))
    }

    fn entries(raw: &Bytes) -> Option<Vec<Entry>> {
        let mut heads = &raw[..];
        let count = usize::try_from(take(&mut heads)?).ok()?;
        // The metadata of an entry takes at least four bytes.
        let mut entries = Vec::with_capacity(count.min(raw.len() / 4 + 1));
        let mut lengths = Vec::with_capacity(entries.capacity());
        let (mut seq, mut at) = (0u64, 0u64);
        for _ in 0..count {
            seq = seq.checked_add(take(&mut heads)?)?;
            let step = take(&mut heads)?;
            at = at.wrapping_add((step >> 1) ^ (step & 1).wrapping_neg());
            let origin = origin_from_code(u8::try_from(take(&mut heads)?).ok()?)?;
            lengths.push(usize::try_from(take(&mut heads)?).ok()?);
            entries.push(Entry { seq: Seq(seq), at, origin, bytes: Bytes::new() });
        }
        let mut from = raw.len() - heads.len();
        for (entry, length) in entries.iter_mut().zip(lengths) {
            let to = from.checked_add(length).filter(|to| *to <= raw.len())?;
            entry.bytes = raw.slice(from..to);
            from = to;
        }
        (from == raw.len()).then_some(entries)
    }
}

/// Appends a number with seven bits per byte.
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Reads a number that [`put`] appended.
fn take(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::Segment;
    use crate::id::Seq;
    use crate::records::Entry;
    use wire::Origin;

    proptest! {
        #[test]
        fn decompressing_gives_back_the_same_entries(
            parts in proptest::collection::vec(
                (1..1000u64, any::<u64>(), any::<bool>(), proptest::collection::vec(any::<u8>(), 0..80)),
                0..60,
            )
        ) {
            let mut seq = 0;
            let entries: Vec<Entry> = parts
                .into_iter()
                .map(|(step, at, ours, bytes)| {
                    seq += step;
                    let origin = if ours { Origin::Towpath } else { Origin::Agent };
                    Entry { seq: Seq(seq), at, origin, bytes: Bytes::from(bytes) }
                })
                .collect();
            let segment = Segment::compress(&entries).unwrap();
            prop_assert_eq!(Segment::decompress(segment.raw, &segment.bytes).unwrap(), entries);
        }

        #[test]
        fn a_flipped_bit_is_always_detected(at in any::<prop::sample::Index>(), bit in 0..8u32) {
            let entries: Vec<Entry> = (1..20)
                .map(|n| Entry {
                    seq: Seq(n),
                    at: n * 1000,
                    origin: Origin::Agent,
                    bytes: format!("{{\"n\":{n}}}").into(),
                })
                .collect();
            let mut segment = Segment::compress(&entries).unwrap();
            let at = at.index(segment.bytes.len());
            segment.bytes[at] ^= 1u8 << bit;
            // Some bits of the frame header are unused; no other may pass.
            if let Ok(decompressed) = Segment::decompress(segment.raw, &segment.bytes) {
                prop_assert_eq!(decompressed, entries);
            }
        }
    }
}
