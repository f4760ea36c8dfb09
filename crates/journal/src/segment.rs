//! Segments: compacted entries, compressed together.
//!
//! A segment holds the metadata of all its entries and then their bytes. Similar data compresses well
//! side by side, and a reader gets all entries of a small segment as slices of one buffer. A large
//! segment is decompressed as a stream, so that a part of it costs no more memory than that part.

use std::io::{self, BufReader, Read, Write as _};

use bytes::Bytes;
use zstd::stream::{Decoder, Encoder};

use crate::error::Error;
use crate::id::Seq;
use crate::records::{Entry, EntryHead, origin_code, origin_from_code};

/// The compression level. Entries are compressed outside the writer thread and rarely more than
/// twice, so it may be slow; decompression is not affected.
const LEVEL: i32 = 6;

/// The logarithm of how far back a compressed segment refers. A reader of the stream needs a buffer
/// of that size.
const WINDOW_LOG: u32 = 23;

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
        let mut heads = Vec::with_capacity(12 * entries.len() + 8);
        put(&mut heads, entries.len() as u64);
        let (mut seq, mut at) = (0, 0);
        for entry in entries {
            put(&mut heads, entry.seq.0 - seq);
            // Clocks can go backwards.
            let step = entry.at.wrapping_sub(at).cast_signed();
            put(&mut heads, ((step << 1) ^ (step >> 63)).cast_unsigned());
            put(&mut heads, u64::from(origin_code(entry.origin, entry.continues)));
            put(&mut heads, entry.bytes.len() as u64);
            (seq, at) = (entry.seq.0, entry.at);
        }
        let bodies: usize = entries.iter().map(|entry| entry.bytes.len()).sum();
        let raw = heads.len() + bodies;
        let mut encoder = Encoder::new(Vec::new(), LEVEL)?;
        encoder.include_checksum(true)?;
        // Tool results appear twice in a line, possibly with an image in between.
        encoder.long_distance_matching(raw > 1 << 20)?;
        if raw > 1 << WINDOW_LOG {
            encoder.window_log(WINDOW_LOG)?;
        }
        encoder.set_pledged_src_size(Some(raw as u64))?;
        encoder.write_all(&heads)?;
        for entry in entries {
            encoder.write_all(&entry.bytes)?;
        }
        Ok(Self { raw, bytes: encoder.finish()? })
    }

    /// The entries of a segment.
    pub(crate) fn decompress(raw: usize, bytes: &[u8]) -> Result<Vec<Entry>, Error> {
        if raw > LARGEST {
            return Err(Error::corrupt("a segment has an impossible size"));
        }
        let raw = zstd::bulk::decompress(bytes, raw).map_err(|error| undecodable(&error))?;
        let raw = Bytes::from(raw);
        let mut rest = &raw[..];
        let heads = read_heads(&mut rest, raw.len())?;
        let mut from = raw.len() - rest.len();
        let mut entries = Vec::with_capacity(heads.len());
        for EntryHead { seq, at, origin, continues, size } in heads {
            let to = usize::try_from(size).ok().and_then(|size| from.checked_add(size));
            let to = to
                .filter(|to| *to <= raw.len())
                .ok_or_else(|| Error::corrupt("a segment is truncated"))?;
            let bytes = raw.slice(from..to);
            entries.push(Entry { seq, at, origin, bytes, continues, omitted: 0 });
            from = to;
        }
        if from < raw.len() {
            return Err(Error::corrupt("a segment is longer than its entries"));
        }
        Ok(entries)
    }
}

/// A segment that is decompressed as a stream.
pub(crate) struct SegmentStream<R: Read> {
    decoder: BufReader<Decoder<'static, BufReader<R>>>,
}

impl<R: Read> SegmentStream<R> {
    /// Reads the metadata of all entries. Their bytes follow in the same order.
    pub(crate) fn open(raw: usize, bytes: R) -> Result<(Vec<EntryHead>, Self), Error> {
        let decoder = Decoder::new(bytes).map_err(|error| undecodable(&error))?;
        let mut decoder = BufReader::new(decoder);
        let heads = read_heads(&mut decoder, raw)?;
        Ok((heads, Self { decoder }))
    }

    pub(crate) fn skip(&mut self, bytes: u64) -> Result<(), Error> {
        let skipped = io::copy(&mut self.decoder.by_ref().take(bytes), &mut io::sink())
            .map_err(|error| undecodable(&error))?;
        if skipped < bytes {
            return Err(Error::corrupt("a segment is truncated"));
        }
        Ok(())
    }

    pub(crate) fn read(&mut self, bytes: usize) -> Result<Vec<u8>, Error> {
        let mut read = vec![0; bytes];
        self.decoder.read_exact(&mut read).map_err(|error| undecodable(&error))?;
        Ok(read)
    }
}

fn undecodable(error: &io::Error) -> Error {
    Error::corrupt(format!("a segment does not decompress: {error}"))
}

/// Reads the metadata of all entries of a segment of `raw` bytes.
fn read_heads(from: &mut impl Read, raw: usize) -> Result<Vec<EntryHead>, Error> {
    let truncated = || Error::corrupt("the metadata of a segment is not valid");
    let count = take(from).ok_or_else(truncated)?;
    // The metadata of an entry takes at least four bytes.
    if count > raw as u64 / 4 {
        return Err(truncated());
    }
    let mut heads = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    let (mut seq, mut at, mut left) = (0u64, 0u64, raw as u64);
    for _ in 0..count {
        let mut number = || take(from).ok_or_else(truncated);
        seq = seq.checked_add(number()?).ok_or_else(truncated)?;
        let step = number()?;
        at = at.wrapping_add((step >> 1) ^ (step & 1).wrapping_neg());
        let code = u8::try_from(number()?).ok().and_then(origin_from_code);
        let (origin, continues) = code.ok_or_else(truncated)?;
        let size = number()?;
        left = left.checked_sub(size).ok_or_else(truncated)?;
        heads.push(EntryHead { seq: Seq(seq), at, origin, continues, size });
    }
    Ok(heads)
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
fn take(from: &mut impl Read) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        from.read_exact(&mut byte).ok()?;
        number |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::{Segment, SegmentStream};
    use crate::id::Seq;
    use crate::records::{Entry, origin_from_code};
    use wire::Origin;

    proptest! {
        #[test]
        fn decompressing_gives_back_the_same_entries(
            parts in proptest::collection::vec(
                (1..1000u64, any::<u64>(), 0..5u8, proptest::collection::vec(any::<u8>(), 0..80)),
                0..60,
            )
        ) {
            let mut seq = 0;
            let entries: Vec<Entry> = parts
                .into_iter()
                .map(|(step, at, code, bytes)| {
                    seq += step;
                    let (origin, continues) = origin_from_code(code).unwrap();
                    Entry { seq: Seq(seq), at, origin, bytes: Bytes::from(bytes), continues, omitted: 0 }
                })
                .collect();
            let segment = Segment::compress(&entries).unwrap();
            prop_assert_eq!(&Segment::decompress(segment.raw, &segment.bytes).unwrap(), &entries);
            let (heads, mut stream) =
                SegmentStream::open(segment.raw, &segment.bytes[..]).unwrap();
            prop_assert_eq!(heads.len(), entries.len());
            for (head, entry) in heads.iter().zip(&entries) {
                prop_assert_eq!((head.seq, head.at, head.origin), (entry.seq, entry.at, entry.origin));
                prop_assert_eq!(stream.read(usize::try_from(head.size).unwrap()).unwrap(), &entry.bytes[..]);
            }
        }

        #[test]
        fn a_flipped_bit_is_always_detected(at in any::<prop::sample::Index>(), bit in 0..8u32) {
            let entries: Vec<Entry> = (1..20)
                .map(|n| Entry {
                    seq: Seq(n),
                    at: n * 1000,
                    origin: Origin::Agent,
                    bytes: format!("{{\"n\":{n}}}").into(),
                    continues: false,
                    omitted: 0,
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
