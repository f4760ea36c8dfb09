//! A client of a WebSocket that only listens: as little as possible, for a thousand of them share the
//! machine with the server that is measured.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// A longer frame is a mistake.
const LONGEST: u64 = 64 << 20;

/// A connection.
pub(super) struct Socket {
    stream: BufReader<TcpStream>,
    frame: Vec<u8>,
}

impl Socket {
    pub(super) async fn open(
        address: SocketAddr,
        path: &str,
        token: Option<&str>,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut stream = BufReader::with_capacity(8 << 10, stream);
        let mut request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        );
        if let Some(token) = token {
            let _ = write!(request, "authorization: Bearer {token}\r\n");
        }
        request.push_str("\r\n");
        stream.get_mut().write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_until(b'\n', &mut head).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        if !head.starts_with(b"HTTP/1.1 101 ") {
            return Err(io::Error::other(String::from_utf8_lossy(&head).into_owned()));
        }
        Ok(Self { stream, frame: Vec::new() })
    }

    /// The text of the next frame; the server's end of the conversation is an error.
    pub(super) async fn next(&mut self) -> io::Result<&[u8]> {
        loop {
            let [first, second] = [self.stream.read_u8().await?, self.stream.read_u8().await?];
            let length = match second {
                126 => self.stream.read_u16().await?.into(),
                127 => self.stream.read_u64().await?,
                short => short.into(),
            };
            if length > LONGEST {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.frame.resize(usize::try_from(length).unwrap_or(0), 0);
            self.stream.read_exact(&mut self.frame).await?;
            match first {
                0x81 => return Ok(&self.frame),
                0x88 => return Err(io::ErrorKind::ConnectionReset.into()),
                _ => {}
            }
        }
    }
}

/// Asks something of a server over a connection of its own, and gives the body of its answer.
pub(super) async fn ask(
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
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 2") => Ok(body.to_owned()),
        _ => Err(io::Error::other(answer)),
    }
}
