//! A fixed number of streaming requests over loopback, and the client that sends them.
//!
//! The client accepts only a chunked response with status 200 that ends with `message_stop`. Anything
//! else is an error: a response that was cut short would look fast.

use std::io::{self, BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

/// The prompt of every request.
pub(crate) const PROMPT: &str = "Say hello";

/// A fast server takes about 0.3 s for them, enough for a CPU time in hundredths of a second.
pub(crate) const REQUESTS: u32 = 20_000;

const THREADS: usize = 2;
const CLIENTS: usize = 8;

/// Sends one request and returns the body of its response.
pub(crate) fn sample(address: SocketAddr) -> io::Result<Vec<u8>> {
    let mut client = LoadClient::connect(address)?;
    client.send(&request(address))?;
    client.response().map(<[u8]>::to_vec)
}

/// Sends all requests, reads all responses, and returns the time that takes.
pub(crate) fn round(address: SocketAddr) -> io::Result<Duration> {
    // New connections for each round: node closes one that is idle for five seconds.
    let mut clients: Vec<LoadClient> =
        (0..THREADS * CLIENTS).map(|_| LoadClient::connect(address)).collect::<Result<_, _>>()?;
    let request = request(address);
    let start = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = clients
            .chunks_mut(CLIENTS)
            .map(|clients| scope.spawn(|| send_all(clients, &request)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a client thread panicked")))
        })
    })?;
    Ok(start.elapsed())
}

/// Every client sends before the first response is read, so that the server always has work.
fn send_all(clients: &mut [LoadClient], request: &[u8]) -> io::Result<()> {
    for _ in 0..REQUESTS as usize / (THREADS * CLIENTS) {
        for client in &mut *clients {
            client.send(request)?;
        }
        for client in &mut *clients {
            client.response()?;
        }
    }
    Ok(())
}

fn request(address: SocketAddr) -> Vec<u8> {
    // Without a tool, the stub would take this for one of Claude Code's side requests.
    let tool = json!({"name": "Bash", "description": "Runs a command", "input_schema": {"type": "object"}});
    let body = json!({
        "model": "claude-sonnet-4-5",
        "max_tokens": 1024,
        "stream": true,
        "messages": [{"role": "user", "content": PROMPT}],
        "tools": [tool],
    });
    let body = body.to_string();
    let head = [
        "POST /v1/messages HTTP/1.1",
        &format!("host: {address}"),
        "accept: application/json",
        "content-type: application/json",
        "anthropic-version: 2023-06-01",
        "x-api-key: none",
        &format!("content-length: {}", body.len()),
    ];
    format!("{}\r\n\r\n{body}", head.join("\r\n")).into_bytes()
}

const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

const LAST_EVENT: &[u8] = br#"data: {"type":"message_stop"}"#;

/// One kept-alive connection, one request at a time.
struct LoadClient {
    stream: BufReader<TcpStream>,
    line: Vec<u8>,
    body: Vec<u8>,
}

impl LoadClient {
    fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
        stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
        let stream = BufReader::with_capacity(16 << 10, stream);
        Ok(Self { stream, line: Vec::new(), body: Vec::new() })
    }

    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(request)
    }

    /// Reads the response to its end and returns its body.
    fn response(&mut self) -> io::Result<&[u8]> {
        read_response(&mut self.stream, &mut self.line, &mut self.body)?;
        Ok(&self.body)
    }
}

/// Reads one response into buffers that are reused.
fn read_response(
    stream: &mut impl BufRead,
    line: &mut Vec<u8>,
    body: &mut Vec<u8>,
) -> io::Result<()> {
    body.clear();
    if !next_line(stream, line)?.starts_with(b"HTTP/1.1 200 ") {
        return Err(unexpected("responded with", line));
    }
    let mut chunked = false;
    loop {
        let header = next_line(stream, line)?;
        if header.is_empty() {
            break;
        }
        chunked |= header.eq_ignore_ascii_case(b"transfer-encoding: chunked");
    }
    if !chunked {
        return Err(unexpected("sent no chunks", b""));
    }
    loop {
        let size = std::str::from_utf8(next_line(stream, line)?).unwrap_or_default();
        let size =
            usize::from_str_radix(size, 16).map_err(|_| unexpected("sized a chunk", line))?;
        let start = body.len();
        body.resize(start + size, 0);
        stream.read_exact(&mut body[start..])?;
        if !next_line(stream, line)?.is_empty() {
            return Err(unexpected("ended a chunk with", line));
        }
        if size == 0 {
            break;
        }
    }
    if body.trim_ascii_end().ends_with(LAST_EVENT) {
        Ok(())
    } else {
        Err(unexpected("stopped before `message_stop`", b""))
    }
}

/// Reads a line and returns it without its line ending.
fn next_line<'a>(stream: &mut impl BufRead, line: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
    line.clear();
    stream.read_until(b'\n', line)?;
    line.strip_suffix(b"\r\n").ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn unexpected(what: &str, line: &[u8]) -> io::Error {
    let line = String::from_utf8_lossy(line);
    io::Error::new(io::ErrorKind::InvalidData, format!("the server {what} {}", line.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::read_response;

    #[test]
    fn only_a_complete_stream_is_a_response() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let stop = "1d\r\ndata: {\"type\":\"message_stop\"}\r\n";
        let cases = [
            (format!("{head}3\r\na\n\n\r\n{stop}2\r\n\n\n\r\n0\r\n\r\n"), true),
            (format!("{head}{stop}"), false),
            (format!("{head}3\r\na\n\n\r\n0\r\n\r\n"), false),
            (format!("{head}4\r\na\n\n\r\n{stop}0\r\n\r\n"), false),
            (format!("{}{stop}0\r\n\r\n", head.replace("200 OK", "529 Busy")), false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(), false),
            (String::new(), false),
        ];
        for (bytes, complete) in cases {
            let outcome = read_response(&mut bytes.as_bytes(), &mut Vec::new(), &mut Vec::new());
            assert_eq!(outcome.is_ok(), complete, "{bytes:?}: {outcome:?}");
        }
    }
}
