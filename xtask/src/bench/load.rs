//! A bounded load of streaming requests for a message, from this machine to itself.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::Client;

/// What every request says.
pub(super) const PROMPT: &str = "Say hello";

/// Enough for a fast server to take some 0.3 s, which is what its CPU time needs: that is told in
/// hundredths of a second.
pub(super) const REQUESTS: u32 = 20_000;

const THREADS: usize = 2;
const CLIENTS: usize = 8;

/// One request of the load, and its answer.
pub(super) fn sample(address: SocketAddr) -> io::Result<Vec<u8>> {
    let mut client = Client::connect(address)?;
    client.ask(&request(address))?;
    client.answer().map(<[u8]>::to_vec)
}

/// Sends all requests and reads all answers; gives the time that takes.
pub(super) fn round(address: SocketAddr) -> io::Result<Duration> {
    // Connected anew each round, for node closes what is idle for five seconds.
    let mut clients: Vec<Client> =
        (0..THREADS * CLIENTS).map(|_| Client::connect(address)).collect::<Result<_, _>>()?;
    let request = request(address);
    let start = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = clients
            .chunks_mut(CLIENTS)
            .map(|clients| scope.spawn(|| take_turns(clients, &request)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the load panicked")))
        })
    })?;
    Ok(start.elapsed())
}

/// Has every client ask before the first answer is read, so that the server always has work.
fn take_turns(clients: &mut [Client], request: &[u8]) -> io::Result<()> {
    for _ in 0..REQUESTS as usize / (THREADS * CLIENTS) {
        for client in &mut *clients {
            client.ask(request)?;
        }
        for client in &mut *clients {
            client.answer()?;
        }
    }
    Ok(())
}

fn request(address: SocketAddr) -> Vec<u8> {
    // With a tool of an agent's, or the stub would take it for a question on the side.
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
