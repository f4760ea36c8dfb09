//! Many followers of one stream, and what they receive.
//!
//! They search each frame for the numbered words of `towpath-bench-agent`. A frame is a line of the
//! agent, or an update of a conversation, which may have several words and repeat some. The client
//! does as little as possible, because a thousand of them share the machine with the server.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::AnyError;

/// How long the followers may take to receive the last word.
const RECEIVE_TIMEOUT: Duration = Duration::from_mins(3);

/// The width of a bucket of latencies.
const BUCKET: Duration = Duration::from_micros(50);
const BUCKETS: usize = 200_000;

/// What all followers together received.
pub(crate) struct StreamStats {
    /// Words, each counted once for every follower that received it.
    pub(crate) words: u64,
    /// Words that a follower did not receive, because it was so far behind that it got a new snapshot
    /// of the conversation.
    pub(crate) skipped: u64,
    pub(crate) frames: u64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// From the start until every follower had the last word.
    pub(crate) duration: Duration,
}

struct FollowerTally {
    words: u64,
    skipped: u64,
    frames: u64,
    latencies: Vec<u32>,
}

/// Reads from all sockets until each has received the word number `count`. `start` starts the stream.
pub(crate) async fn receive(
    sockets: Vec<BenchSocket>,
    count: u32,
    start: impl Future<Output = io::Result<()>>,
) -> Result<StreamStats, AnyError> {
    let tally = FollowerTally { words: 0, skipped: 0, frames: 0, latencies: vec![0; BUCKETS] };
    let tally = Arc::new(Mutex::new(tally));
    let mut followers = JoinSet::new();
    for socket in sockets {
        followers.spawn(timeout(RECEIVE_TIMEOUT, follow(socket, count, Arc::clone(&tally))));
    }
    let started = Instant::now();
    start.await?;
    // The sockets stay open until all are done: a server would notice that one closes.
    let mut open = Vec::new();
    while let Some(followed) = followers.join_next().await {
        open.push(followed???);
    }
    let duration = started.elapsed();
    let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    let FollowerTally { words, skipped, frames, .. } = *tally;
    let (p50, p99) = (percentile(&tally.latencies, 50), percentile(&tally.latencies, 99));
    Ok(StreamStats { words, skipped, frames, p50, p99, duration })
}

async fn follow(
    mut socket: BenchSocket,
    count: u32,
    tally: Arc<Mutex<FollowerTally>>,
) -> io::Result<BenchSocket> {
    let mut last = 0;
    let mut new = Vec::new();
    while last < count {
        let frame = socket.next().await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        new.clear();
        words(frame, last, &mut new);
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.frames += 1;
        let Some(&(newest, _)) = new.first() else { continue };
        tally.words += new.len() as u64;
        tally.skipped += u64::from(newest - last) - new.len() as u64;
        for (_, sent) in &new {
            let delay = now.saturating_sub(Duration::from_micros(*sent));
            let bucket = (delay.as_micros() / BUCKET.as_micros()) as usize;
            tally.latencies[bucket.min(BUCKETS - 1)] += 1;
        }
        last = newest;
    }
    Ok(socket)
}

/// Finds the words after the last known one, newest first, with the time each was sent.
fn words(frame: &[u8], known: u32, found: &mut Vec<(u32, u64)>) {
    let mut expected = u32::MAX;
    for z in memchr::memrchr_iter(b'z', frame) {
        let number = frame.get(z.wrapping_sub(8)..z).and_then(|it| it.strip_prefix(b"q"));
        let sent = frame.get(z + 1..z + 17);
        let (Some(number), Some(sent)) = (number.and_then(digits), sent.and_then(digits)) else {
            continue;
        };
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        if number <= known {
            return;
        }
        // A word that a frame repeats counts once.
        if number < expected {
            found.push((number, sent));
            expected = number;
        }
    }
}

fn digits(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The time that so many of a hundred latencies do not exceed.
fn percentile(latencies: &[u32], percent: u64) -> Duration {
    let all: u64 = latencies.iter().map(|it| u64::from(*it)).sum();
    let mut beyond = all * (100 - percent) / 100;
    for (bucket, count) in latencies.iter().enumerate().rev() {
        match beyond.checked_sub(u64::from(*count)) {
            Some(left) => beyond = left,
            None => return BUCKET * u32::try_from(bucket + 1).unwrap_or(u32::MAX),
        }
    }
    BUCKET
}

/// A frame longer than this is an error.
const LONGEST_FRAME: u64 = 64 << 20;

/// How much is read at once.
const READ_BYTES: usize = 8 << 10;

/// A WebSocket connection that only reads.
pub(crate) struct BenchSocket {
    stream: TcpStream,
    /// What was read.
    buffer: Vec<u8>,
    /// The start of the next frame in it.
    next: usize,
}

impl BenchSocket {
    pub(crate) async fn open(
        address: SocketAddr,
        path: &str,
        token: Option<&str>,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut socket = Self { stream, buffer: Vec::with_capacity(READ_BYTES), next: 0 };
        let mut request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        );
        if let Some(token) = token {
            let _ = write!(request, "authorization: Bearer {token}\r\n");
        }
        request.push_str("\r\n");
        socket.stream.write_all(request.as_bytes()).await?;
        let end = loop {
            if let Some(end) = memchr::memmem::find(&socket.buffer, b"\r\n\r\n") {
                break end;
            }
            socket.read().await?;
        };
        if !socket.buffer.starts_with(b"HTTP/1.1 101 ") {
            return Err(io::Error::other(String::from_utf8_lossy(&socket.buffer).into_owned()));
        }
        socket.next = end + 4;
        Ok(socket)
    }

    async fn read(&mut self) -> io::Result<()> {
        if self.next > 0 {
            self.buffer.drain(..self.next);
            self.next = 0;
        }
        self.buffer.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// The text of the next frame. It is an error if the server closes the connection.
    pub(crate) async fn next(&mut self) -> io::Result<&[u8]> {
        loop {
            let Some((kind, head, length)) = frame_head(&self.buffer[self.next..]) else {
                self.read().await?;
                continue;
            };
            if length > LONGEST_FRAME {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let start = self.next + head;
            let end = start + usize::try_from(length).unwrap_or(0);
            if end > self.buffer.len() {
                self.read().await?;
                continue;
            }
            self.next = end;
            match kind {
                0x81 => return Ok(&self.buffer[start..end]),
                0x88 => return Err(io::ErrorKind::ConnectionReset.into()),
                _ => {}
            }
        }
    }
}

/// The first byte of a frame, the length of its head and that of its content, once they are known.
fn frame_head(bytes: &[u8]) -> Option<(u8, usize, u64)> {
    let (&[kind, short], rest) = bytes.split_first_chunk::<2>()?;
    match short {
        126 => Some((kind, 4, u16::from_be_bytes(*rest.first_chunk()?).into())),
        127 => Some((kind, 10, u64::from_be_bytes(*rest.first_chunk()?))),
        length => Some((kind, 2, length.into())),
    }
}

/// Sends a request over a new connection and returns the body of the response.
pub(crate) async fn http_request(
    address: SocketAddr,
    line: &str,
    token: Option<&str>,
    body: &str,
) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let mut request = format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n",
        body.len()
    );
    if let Some(token) = token {
        let _ = write!(request, "authorization: Bearer {token}\r\n");
    }
    request.push_str("\r\n");
    request.push_str(body);
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match memchr::memmem::find(&response, b"\r\n\r\n") {
        Some(end) if response.starts_with(b"HTTP/1.1 2") => {
            let (head, body) = (text(&response[..end]).to_lowercase(), &response[end + 4..]);
            if head.contains("transfer-encoding: chunked") {
                without_chunks(body)
                    .map(|body| text(&body))
                    .ok_or(io::ErrorKind::InvalidData.into())
            } else {
                Ok(text(body))
            }
        }
        _ => Err(io::Error::other(text(&response))),
    }
}

/// The content of a body that was sent in chunks; `None` if it is incomplete.
fn without_chunks(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::with_capacity(body.len());
    loop {
        let end = memchr::memmem::find(body, b"\r\n")?;
        let length = std::str::from_utf8(&body[..end]).ok()?;
        let length = usize::from_str_radix(length, 16).ok()?;
        if length == 0 {
            return Some(content);
        }
        let start = end + 2;
        content.extend_from_slice(body.get(start..start + length)?);
        body = body.get(start + length + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::{frame_head, percentile, without_chunks, words};
    use std::time::Duration;

    #[test]
    fn each_new_word_is_found_once() {
        let word = |number: u32| format!("q{number:07}z{:016}", 1_000_000 + u64::from(number));
        let frame = format!("zz <p>{} {}</p> {} z1 {}", word(3), word(4), word(5), word(5));
        let mut found = Vec::new();
        words(frame.as_bytes(), 3, &mut found);
        assert_eq!(found, [(5, 1_000_005), (4, 1_000_004)]);
        found.clear();
        words(frame.as_bytes(), 5, &mut found);
        assert!(found.is_empty());
    }

    #[test]
    fn the_length_of_a_frame_has_three_forms() {
        assert_eq!(frame_head(&[0x81, 5, 1]), Some((0x81, 2, 5)));
        assert_eq!(frame_head(&[0x81, 126, 1, 0]), Some((0x81, 4, 256)));
        assert_eq!(frame_head(&[0x88, 127, 0, 0, 0, 0, 0, 1, 0, 0]), Some((0x88, 10, 65536)));
        for incomplete in [&[][..], &[0x81], &[0x81, 126, 1], &[0x81, 127, 0, 0, 0, 0, 0, 1, 0]] {
            assert_eq!(frame_head(incomplete), None);
        }
    }

    #[test]
    fn a_body_in_chunks_is_read_to_its_end() {
        let chunks = b"5\r\nhello\r\nB\r\n, everybody\r\n0\r\n\r\n";
        assert_eq!(without_chunks(chunks).unwrap(), b"hello, everybody");
        assert!(without_chunks(b"5\r\nhello\r\n").is_none(), "the end is missing");
    }

    #[test]
    fn one_in_a_hundred_is_above_p99() {
        let mut latencies = vec![0; 10];
        (latencies[1], latencies[7]) = (990, 10);
        assert_eq!(percentile(&latencies, 99), Duration::from_micros(100));
        latencies[7] = 11;
        assert_eq!(percentile(&latencies, 99), Duration::from_micros(400));
        assert_eq!(percentile(&latencies, 50), Duration::from_micros(100));
    }
}
