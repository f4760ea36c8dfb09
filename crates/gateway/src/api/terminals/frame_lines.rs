//! Frames of a terminal as the lines of a body.

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::SMALL_BYTES;
use crate::memory_pool::{MemoryLease, MemoryPool};

/// The lines of a body, as frames.
pub(super) struct FrameLines<S> {
    body: S,
    max_bytes: usize,
    /// Where the memory for long lines comes from, if that is limited.
    memory: Option<MemoryPool>,
    leases: Vec<MemoryLease>,
    /// What came and was not returned yet.
    rest: BytesMut,
    /// How much of it has no end of a line.
    searched: usize,
}

/// A frame as a line.
pub(super) fn frame_line(frame: &impl Serialize) -> Option<Bytes> {
    let mut line = serde_json::to_vec(frame).ok()?;
    line.push(b'\n');
    Some(line.into())
}

impl<S, E> FrameLines<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    pub(super) fn new(body: S, max_bytes: usize) -> Self {
        let (leases, rest) = (Vec::new(), BytesMut::new());
        Self { body, max_bytes, memory: None, leases, rest, searched: 0 }
    }

    /// Takes the memory for long lines from a pool. If it has none, the body ends.
    pub(super) fn with_memory(self, memory: MemoryPool) -> Self {
        Self { memory: Some(memory), ..self }
    }

    /// The next frame; `None` at the end of the body, and if a line is too long. Lines that are no frames are
    /// left out. A call that is dropped loses nothing.
    pub(super) async fn next<F: DeserializeOwned>(&mut self) -> Option<F> {
        loop {
            let unsearched = self.rest.get(self.searched..).unwrap_or_default();
            if let Some(end) = unsearched.iter().position(|it| *it == b'\n') {
                let line = self.rest.split_to(self.searched + end + 1);
                self.searched = 0;
                self.leases.clear();
                if let Ok(frame) = serde_json::from_slice(&line) {
                    return Some(frame);
                }
                continue;
            }
            self.searched = self.rest.len();
            if self.searched > self.max_bytes {
                return None;
            }
            let bytes = self.body.next().await?.ok()?;
            if let Some(memory) = &self.memory
                && self.rest.len() + bytes.len() > SMALL_BYTES
            {
                self.leases.push(memory.try_lease(bytes.len())?);
            }
            self.rest.extend_from_slice(&bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures_util::stream;

    use super::FrameLines;
    use crate::limits::SMALL_BYTES;
    use crate::memory_pool::MemoryPool;

    fn lines(
        parts: Vec<Bytes>,
    ) -> FrameLines<impl futures_util::Stream<Item = Result<Bytes, Infallible>> + Unpin> {
        FrameLines::new(stream::iter(parts.into_iter().map(Ok)), 100_000)
    }

    #[tokio::test]
    async fn frames_are_the_same_however_they_are_cut() {
        let text = b"1\n22\nno frame\n\n\xff\n333\n4";
        for size in 1..text.len() {
            let mut lines = lines(text.chunks(size).map(Bytes::from_static).collect());
            for number in [1, 22, 333] {
                assert_eq!(lines.next::<u32>().await, Some(number), "{size}");
            }
            // The last line is incomplete.
            assert_eq!(lines.next::<u32>().await, None);
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_or_has_no_memory_ends_the_frames() {
        let long = |length: usize| {
            let frame = format!("\"{}\"\n", "x".repeat(length));
            frame.into_bytes().chunks(10_000).map(Bytes::copy_from_slice).collect()
        };
        assert!(lines(long(90_000)).next::<String>().await.is_some());
        assert!(lines(long(200_000)).next::<String>().await.is_none());
        let pool = MemoryPool::new(SMALL_BYTES);
        let mut small = lines(long(90_000)).with_memory(pool.clone());
        assert!(small.next::<String>().await.is_none());
        drop(small);
        let mut enough = lines(long(50_000)).with_memory(pool.clone());
        assert!(enough.next::<String>().await.is_some());
        // It is free when the frame was returned.
        assert!(pool.try_lease(SMALL_BYTES).is_some());
    }
}
