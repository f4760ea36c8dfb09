//! Lines from stdin and to stdout, each in a thread of its own: neither can be waited for otherwise.

use std::io::{self, Read as _, Write as _};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::warn;
use wire::{PieceEnd, Splitter};

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// The lines of stdin. A line that is longer than the splitter accepts is cut, so that it is answered as
/// unreadable.
pub(super) fn read_lines(queue: usize) -> mpsc::Receiver<Bytes> {
    let (lines, received) = mpsc::channel(queue);
    std::thread::spawn(move || {
        if let Err(error) = read(&lines) {
            warn!(%error, "stdin could not be read");
        }
    });
    received
}

fn read(lines: &mpsc::Sender<Bytes>) -> io::Result<()> {
    let mut splitter = Splitter::new();
    let mut stdin = io::stdin().lock();
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = match stdin.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut pieces = splitter.feed(&chunk[..length]);
        while let Some(piece) = pieces.next() {
            // The rest of a line that was too long.
            if piece.continued {
                continue;
            }
            if lines.blocking_send(Bytes::copy_from_slice(piece.bytes)).is_err() {
                return Ok(());
            }
        }
    }
    if let Some(last) = splitter.finish()
        && !last.continued
        && last.end != PieceEnd::Newline
    {
        let _ = lines.blocking_send(Bytes::copy_from_slice(last.bytes));
    }
    Ok(())
}

/// Writes lines to stdout until there are no more, or the client has closed it.
pub(super) fn write_lines(queue: usize) -> (mpsc::Sender<Bytes>, JoinHandle<()>) {
    let (lines, mut received) = mpsc::channel::<Bytes>(queue);
    let writer = tokio::task::spawn_blocking(move || {
        let mut stdout = io::stdout().lock();
        let mut buffer = Vec::new();
        while let Some(line) = received.blocking_recv() {
            buffer.clear();
            buffer.extend_from_slice(&line);
            buffer.push(b'\n');
            if stdout.write_all(&buffer).and_then(|()| stdout.flush()).is_err() {
                return;
            }
        }
    });
    (lines, writer)
}
