//! The least that passes each line of an agent on to many followers: a WebSocket frame is made once,
//! and written to one nonblocking socket after the other.
//!
//! Nothing is stored, no follower may be slow, and requests are hardly looked at. What is left is the
//! cost of the kernel, which every server pays that writes each word to each follower.

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a command-line program")]
#![expect(clippy::disallowed_methods, reason = "it starts the agent whose lines it passes on")]

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

type Followers = Arc<Mutex<Vec<TcpStream>>>;

fn main() -> ExitCode {
    let Some(agent) = std::env::args_os().nth(1) else {
        eprintln!("usage: towpath-bench-relay AGENT");
        return ExitCode::FAILURE;
    };
    let Err(error) = serve(&agent);
    eprintln!("towpath-bench-relay: {error}");
    ExitCode::FAILURE
}

fn serve(agent: &OsString) -> io::Result<std::convert::Infallible> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("http://{}", listener.local_addr()?);
    let followers = Followers::default();
    loop {
        let (stream, _) = listener.accept()?;
        if let Err(error) = answer(stream, agent, &followers) {
            eprintln!("towpath-bench-relay: {error}");
        }
    }
}

/// Adds a follower, or starts the agent for `/start/COUNT/RATE`.
fn answer(mut stream: TcpStream, agent: &OsString, followers: &Followers) -> io::Result<()> {
    let path = read_request(&stream)?;
    let Some((count, rate)) = path.strip_prefix("/start/").and_then(|it| it.split_once('/')) else {
        stream.write_all(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        )?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        followers.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        return Ok(());
    };
    let mut agent = Command::new(agent);
    agent.args(["--bare", count, rate]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = agent.spawn()?;
    let followers = Arc::clone(followers);
    thread::spawn(move || {
        if let Some(stdout) = child.stdout.take()
            && let Err(error) = relay(BufReader::new(stdout), &followers)
        {
            eprintln!("towpath-bench-relay: {error}");
        }
        // It has closed its output, so it is about to exit.
        let _ = child.wait();
    });
    stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
}

/// Reads a request without a body and returns its path.
fn read_request(stream: &TcpStream) -> io::Result<String> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))?;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    Ok(first.split(' ').nth(1).unwrap_or_default().to_owned())
}

fn relay(mut lines: impl io::BufRead, followers: &Mutex<Vec<TcpStream>>) -> io::Result<()> {
    let (mut line, mut frame) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        encode(text, &mut frame);
        let mut followers = followers.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is gone, or too slow to take a whole frame, is disconnected.
        followers.retain_mut(|it| it.write(&frame).is_ok_and(|written| written == frame.len()));
    }
}

/// Makes a text frame.
fn encode(text: &[u8], frame: &mut Vec<u8>) {
    frame.clear();
    frame.push(0x81);
    match (u8::try_from(text.len()), u16::try_from(text.len())) {
        (Ok(length @ ..126), _) => frame.push(length),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend(length.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend((text.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(text);
}
