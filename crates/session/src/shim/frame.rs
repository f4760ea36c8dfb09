//! Frames on the socket: a kind (one byte), a length (four, little end first), that many bytes.

use serde::Serialize;

/// The longest payload a frame may have.
pub(super) const LONGEST: usize = 64 << 20;

const HEAD: usize = 5;

/// What is kept for further frames once a long one has passed.
const KEPT_CAPACITY: usize = 256 << 10;

/// A frame, where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    pub(super) payload: &'a [u8],
}

/// A frame says it is longer than any may be: the other side does not speak this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes")]
pub(super) struct TooLong(usize);

/// Appends a frame whose payload is these parts.
pub(super) fn put(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    debug_assert!(length <= LONGEST, "callers check what they send");
    out.reserve(HEAD + length);
    out.push(kind);
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Appends a frame whose payload is a value as JSON: fields can be added to it later.
pub(super) fn put_json(out: &mut Vec<u8>, kind: u8, value: &impl Serialize) {
    let json = serde_json::to_vec(value).unwrap_or_default();
    put(out, kind, &[&json]);
}

/// Bytes in chunks of any size to frames.
#[derive(Debug, Default)]
pub(super) struct Unframer {
    held: Vec<u8>,
    /// How much of `held` was handed on.
    spent: usize,
}

impl Unframer {
    /// Takes what came.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.held.drain(..self.spent);
        self.spent = 0;
        if self.held.is_empty() {
            self.held.shrink_to(KEPT_CAPACITY);
        }
        self.held.extend_from_slice(bytes);
    }

    /// The next whole frame, if one has come.
    pub(super) fn next(&mut self) -> Result<Option<Frame<'_>>, TooLong> {
        let rest = &self.held[self.spent..];
        let Some((head, rest)) = rest.split_first_chunk::<HEAD>() else { return Ok(None) };
        let [kind, length @ ..] = *head;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(TooLong(length));
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        self.spent += HEAD + length;
        Ok(Some(Frame { kind, payload }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Frame, LONGEST, TooLong, Unframer, put};

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_they_were_cut(
            frames in proptest::collection::vec(
                (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..12),
            size in 1_usize..30,
        ) {
            let mut bytes = Vec::new();
            for (kind, payload) in &frames {
                put(&mut bytes, *kind, &[payload]);
            }
            let mut unframer = Unframer::default();
            let mut came = Vec::new();
            for chunk in bytes.chunks(size) {
                unframer.feed(chunk);
                while let Some(Frame { kind, payload }) = unframer.next().unwrap() {
                    came.push((kind, payload.to_vec()));
                }
            }
            prop_assert_eq!(came, frames);
        }
    }

    #[test]
    fn a_length_beyond_reason_is_refused_before_anything_is_kept_for_it() {
        let mut unframer = Unframer::default();
        unframer.feed(&[1, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(unframer.next(), Err(TooLong(u32::MAX as usize)));
        assert!(LONGEST < u32::MAX as usize);
    }
}
