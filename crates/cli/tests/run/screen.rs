//! A pseudo-terminal with the program in it: keys in, screen contents out.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::home::{TIMEOUT, TestHome};

/// Kills the program if the test fails.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // Fails if it has exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A terminal of 90 columns and 40 rows.
pub(crate) struct Terminal {
    keys: File,
    other_side: OwnedFd,
    child: KillOnDrop,
    chunks: Receiver<Vec<u8>>,
    /// All output so far, without escape sequences.
    seen: String,
    raw: Vec<u8>,
    /// The end of the last text that was waited for.
    read: usize,
}

impl Terminal {
    pub(crate) fn start(home: &TestHome, arguments: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        // The program must not inherit the controlling side, or it would never see it close.
        fcntl_setfd(&master, FdFlags::CLOEXEC).expect("a flag");
        grantpt(&master).expect("a terminal of ours");
        unlockpt(&master).expect("a terminal to use");
        let size = Winsize { ws_row: 40, ws_col: 90, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("a size");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let name = name.into_string().expect("UTF-8");
        let mut options = File::options();
        let terminal = options.read(true).write(true).open(&name).expect("the terminal opens");
        let handle = || Stdio::from(terminal.try_clone().expect("another handle"));
        let mut command = home.command(arguments);
        command.env("TERM", "xterm-256color").env("NO_COLOR", "1");
        let child = command.stdin(handle()).stdout(handle()).stderr(handle()).spawn();
        let mut screen = File::from(master.try_clone().expect("another handle"));
        let (sender, chunks) = channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            // Reading fails once every handle of the other side is closed.
            while let Ok(length @ 1..) = screen.read(&mut chunk) {
                if sender.send(chunk[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            keys: File::from(master),
            other_side: terminal.into(),
            child: KillOnDrop(child.expect("the program starts")),
            chunks,
            seen: String::new(),
            raw: Vec::new(),
            read: 0,
        }
    }

    /// Presses keys, as a terminal sends them.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Waits until a text appears after the one that was waited for last.
    pub(crate) fn wait_for(&mut self, words: &str) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(at) = self.seen[self.read..].find(words) {
                self.read += at + words.len();
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.chunks.recv_timeout(left) {
                Ok(chunk) => self.take(&chunk),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("`{words}` did not appear:\n{}", self.seen)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the program exited before `{words}` appeared:\n{}", self.seen)
                }
            }
        }
    }

    fn take(&mut self, chunk: &[u8]) {
        self.raw.extend_from_slice(chunk);
        // A chunk may end within a sequence or a character.
        self.seen = plain(&String::from_utf8_lossy(&self.raw));
    }

    pub(crate) fn kill(&mut self) {
        self.child.0.kill().expect("it runs");
        self.child.0.wait().expect("an exit status");
    }

    /// Waits for the program to exit, and returns its code and all output.
    pub(crate) fn end(mut self) -> (i32, String) {
        let code = self.child.0.wait().expect("an exit status").code().expect("no signal");
        let modes = tcgetattr(&self.other_side).expect("the terminal's modes");
        let usual = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        assert!(modes.local_modes.contains(usual), "the terminal modes are restored");
        drop(self.other_side);
        while let Ok(chunk) = self.chunks.recv_timeout(std::time::Duration::from_millis(200)) {
            self.raw.extend_from_slice(&chunk);
        }
        (code, plain(&String::from_utf8_lossy(&self.raw)))
    }
}

/// Text without escape sequences and carriage returns.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\x1b' => {
                if characters.next() == Some('[') {
                    characters.by_ref().find(|it| ('@'..='~').contains(it));
                }
            }
            '\r' => {}
            other => plain.push(other),
        }
    }
    plain
}
