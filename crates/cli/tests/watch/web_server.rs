//! A minimal web server that records its requests and sends the responses of the test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

#[derive(Debug)]
pub(crate) struct WebRequest {
    pub(crate) line: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct WebServer {
    pub(crate) url: String,
    pub(crate) requests: Receiver<WebRequest>,
}

impl WebServer {
    /// `response` returns the status line and headers for the n-th request, counted from 0; `None` leaves
    /// the request without a response.
    pub(crate) fn start(response: impl Fn(usize) -> Option<&'static str> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (sender, requests) = channel();
        thread::spawn(move || {
            let mut open = Vec::new();
            for (count, connection) in listener.incoming().flatten().enumerate() {
                let response = response(count);
                if let Some(connection) = serve(connection, response, &sender) {
                    open.push(connection);
                }
            }
        });
        Self { url, requests }
    }
}

/// Serves one request. Returns the connection if it stays open without a response.
fn serve(
    connection: TcpStream,
    response: Option<&'static str>,
    requests: &Sender<WebRequest>,
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
    let _ = requests.send(WebRequest { line: lines.pop().unwrap_or_default(), headers, body });
    let mut connection = reader.into_inner();
    let Some(response) = response else { return Some(connection) };
    let response = format!("HTTP/1.1 {response}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _ = connection.write_all(response.as_bytes());
    None
}
