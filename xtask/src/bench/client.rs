//! A client of a Messages API: one connection, kept alive, one request at a time.
//!
//! It understands the one kind of answer the load expects, a chunked stream with status 200 that
//! ends as a message does. Anything else is an error: an answer that was cut short is a fast one.

use std::io::{self, BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server that says nothing for so long will not say anything.
const PATIENCE: Duration = Duration::from_secs(30);

const LAST_EVENT: &[u8] = br#"data: {"type":"message_stop"}"#;

/// A connection.
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    line: Vec<u8>,
    body: Vec<u8>,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let stream = BufReader::with_capacity(16 << 10, stream);
        Ok(Self { stream, line: Vec::new(), body: Vec::new() })
    }

    pub(super) fn ask(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(request)
    }

    /// The body of the answer to what was asked, read to its end.
    pub(super) fn answer(&mut self) -> io::Result<&[u8]> {
        read(&mut self.stream, &mut self.line, &mut self.body)?;
        Ok(&self.body)
    }
}

/// Reads one answer; the buffers are reused.
fn read(stream: &mut impl BufRead, line: &mut Vec<u8>, body: &mut Vec<u8>) -> io::Result<()> {
    body.clear();
    if !next_line(stream, line)?.starts_with(b"HTTP/1.1 200 ") {
        return Err(unexpected("answered", line));
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

/// A line without its end.
fn next_line<'a>(stream: &mut impl BufRead, line: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
    line.clear();
    stream.read_until(b'\n', line)?;
    line.strip_suffix(b"\r\n").ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn unexpected(what: &str, line: &[u8]) -> io::Error {
    let line = String::from_utf8_lossy(line);
    io::Error::new(io::ErrorKind::InvalidData, format!("it {what} {}", line.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn only_a_stream_that_came_whole_is_an_answer() {
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
        for (bytes, whole) in cases {
            let outcome = read(&mut bytes.as_bytes(), &mut Vec::new(), &mut Vec::new());
            assert_eq!(outcome.is_ok(), whole, "{bytes:?}: {outcome:?}");
        }
    }
}
