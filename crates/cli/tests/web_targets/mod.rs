//! A web server of a few lines: notes what it is asked, and answers as it is told.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// A request it was sent.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: Vec<u8>,
}

/// The server, until the test is over.
pub(crate) struct Web {
    pub(crate) url: String,
    pub(crate) asked: Receiver<Asked>,
}

impl Web {
    /// Answers the n-th request, from 0 on, with status line and headers; nothing: never.
    pub(crate) fn answering(
        answer: impl Fn(usize) -> Option<&'static str> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (sender, asked) = channel();
        thread::spawn(move || {
            let mut open = Vec::new();
            for (count, connection) in listener.incoming().flatten().enumerate() {
                let answer = answer(count);
                if let Some(connection) = serve(connection, answer, &sender) {
                    open.push(connection);
                }
            }
        });
        Self { url, asked }
    }
}

/// Serves one request; the connection is given back where it is left waiting.
fn serve(
    connection: TcpStream,
    answer: Option<&'static str>,
    asked: &Sender<Asked>,
) -> Option<TcpStream> {
    let mut reader = BufReader::new(connection);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_ascii_lowercase());
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let headers = lines.split_off(1.min(lines.len()));
    let _ = asked.send(Asked { line: lines.pop().unwrap_or_default(), headers, body });
    let mut connection = reader.into_inner();
    let Some(answer) = answer else { return Some(connection) };
    let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _ = connection.write_all(answer.as_bytes());
    None
}
