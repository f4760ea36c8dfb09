//! Reading ahead: the next chunk is fetched while the last one is looked at.
//!
//! Copying out of the page cache takes a third of an inspection's time and has nothing to do with
//! the rest of it, so it has a thread of its own. A few buffers go round between the two.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

const BUFFERS: usize = 3;
const CHUNK: usize = 512 << 10;

/// A reader that is one chunk ahead.
pub(super) struct ReadAhead {
    filled: Receiver<io::Result<Chunk>>,
    spent: SyncSender<Vec<u8>>,
}

/// A buffer, and how much of it was filled.
pub(super) struct Chunk {
    buffer: Vec<u8>,
    length: usize,
}

impl Chunk {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl ReadAhead {
    pub(super) fn of(mut reader: Box<dyn Read + Send>) -> Self {
        // Full means that the other side is busy: wait for it.
        let (fill, filled) = sync_channel(BUFFERS);
        let (spent, free) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            let _ = spent.send(vec![0; CHUNK]);
        }
        // It ends with the input, or when nobody takes its chunks any more. A thread that waits
        // for a terminal then is not waited for: the process is about to end.
        thread::spawn(move || {
            for mut buffer in free {
                let chunk = read(&mut *reader, &mut buffer).map(|length| Chunk { buffer, length });
                let last = !matches!(chunk, Ok(Chunk { length: 1.., .. }));
                if fill.send(chunk).is_err() || last {
                    break;
                }
            }
        });
        Self { filled, spent }
    }

    /// The next chunk; nothing at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Chunk>> {
        match self.filled.recv() {
            Ok(Ok(chunk)) => Ok((chunk.length > 0).then_some(chunk)),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Gives a buffer back.
    pub(super) fn reuse(&mut self, chunk: Chunk) {
        // The reader may have ended already.
        let _ = self.spent.send(chunk.buffer);
    }
}

fn read(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ReadAhead;

    #[test]
    fn everything_comes_in_order_and_an_error_at_its_place() {
        struct Broken(u8);
        impl std::io::Read for Broken {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0 += 1;
                buffer[0] = self.0;
                if self.0 < 50 { Ok(1) } else { Err(std::io::Error::other("broken")) }
            }
        }
        let mut ahead = ReadAhead::of(Box::new(Broken(0)));
        for expected in 1..50 {
            let chunk = ahead.next().unwrap().unwrap();
            assert_eq!(chunk.bytes(), [expected]);
            ahead.reuse(chunk);
        }
        assert!(ahead.next().is_err());
        assert!(ahead.next().unwrap().is_none());
    }
}
