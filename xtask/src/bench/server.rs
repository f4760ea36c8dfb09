//! A server that is measured: started here, ended with its owner.

use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::cpu;

/// A running server on this machine.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// The line in which it said where it listens.
    pub(super) said: String,
    child: Child,
    /// Held open: a server that cannot say what it says on stdout may end.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts it, and waits until it says on stdout where it listens.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        match child.stdout.take().map(BufReader::new).map(listening) {
            Some(Ok((address, said, stdout))) => Ok(Self { address, said, child, _stdout: stdout }),
            other => {
                child.kill()?;
                child.wait()?;
                Err(other.and_then(Result::err).unwrap_or(io::ErrorKind::BrokenPipe.into()))
            }
        }
    }

    /// The CPU time it took so far, user and system.
    pub(super) fn cpu(&self) -> io::Result<Duration> {
        cpu::of_process(self.child.id())
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It fails only where the server has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listening(
    mut stdout: BufReader<ChildStdout>,
) -> io::Result<(SocketAddr, String, BufReader<ChildStdout>)> {
    let mut line = String::new();
    while stdout.read_line(&mut line)? > 0 {
        if let Some(address) = address(&line) {
            return Ok((address, line, stdout));
        }
        line.clear();
    }
    Err(io::Error::other("it ended without saying where it listens"))
}

/// The address on this machine that a line names, be it JSON or prose.
fn address(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("http://")?;
    let end = rest.find(|it: char| !it.is_ascii_digit() && !".:".contains(it));
    let address: SocketAddr = rest[..end.unwrap_or(rest.len())].parse().ok()?;
    address.ip().is_loopback().then_some(address)
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn a_server_is_found_where_it_says_on_this_machine_only() {
        let cases = [
            (r#"{"url":"http://127.0.0.1:4010","pid":7}"#, Some("127.0.0.1:4010")),
            ("[aimock] listening on http://127.0.0.1:80\n", Some("127.0.0.1:80")),
            ("listening on http://192.0.2.1:80", None),
            ("[aimock] Loaded 1 fixture(s)", None),
        ];
        for (line, expected) in cases {
            assert_eq!(address(line), expected.map(|it| it.parse().unwrap()), "{line}");
        }
    }
}
