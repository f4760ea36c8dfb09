//! A pseudo-terminal with the program in it: keys in, screen contents out.

use std::fs::File;
use std::io::{PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
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
    /// Dropped to have the screen's reader close its handle.
    reading: PipeWriter,
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
        let screen = File::from(master.try_clone().expect("another handle"));
        let (sender, chunks) = channel();
        let (stopped, reading) = std::io::pipe().expect("a pipe");
        std::thread::spawn(move || {
            let mut screen = screen;
            let mut chunk = [0; 4096];
            loop {
                let mut sources = [
                    PollFd::from_borrowed_fd(screen.as_fd(), PollFlags::IN),
                    PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
                ];
                poll(&mut sources, None).expect("the terminal can be waited for");
                if !sources[1].revents().is_empty() {
                    break;
                }
                // Reading fails once every handle of the other side is closed.
                let Ok(length @ 1..) = screen.read(&mut chunk) else { break };
                if sender.send(chunk[..length].to_vec()).is_err() {
                    break;
                }
            }
            // The handle is closed before the channel, so that a test can wait for that.
            drop(screen);
            drop(sender);
        });
        Self {
            keys: File::from(master),
            other_side: terminal.into(),
            child: KillOnDrop(child.expect("the program starts")),
            chunks,
            reading,
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

    pub(crate) fn terminate(&self) {
        kill_process(Pid::from_child(&self.child.0), Signal::TERM).expect("it runs");
    }

    pub(crate) fn kill(&mut self) {
        self.child.0.kill().expect("it runs");
        self.child.0.wait().expect("an exit status");
    }

    /// Closes the terminal while the program runs, as a terminal emulator does that is killed. The
    /// program is in no session of this terminal, so it gets no SIGHUP.
    pub(crate) fn close(self) -> OrphanedProgram {
        self.suspend().0
    }

    /// Stops reading what the program writes, as a suspended terminal emulator does. Dropping the
    /// second value closes the terminal.
    pub(crate) fn suspend(self) -> (OrphanedProgram, impl Sized) {
        let Self { keys, other_side, child, chunks, reading, .. } = self;
        drop(reading);
        while chunks.recv().is_ok() {}
        (OrphanedProgram(child), (keys, other_side))
    }

    /// Waits for the program to exit, and returns its code and all output.
    pub(crate) fn end(mut self) -> (i32, String) {
        let code = self.child.0.wait().expect("an exit status").code().expect("no signal");
        let modes = tcgetattr(&self.other_side).expect("the terminal's modes");
        let usual = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        assert!(modes.local_modes.contains(usual), "the terminal modes are restored");
        drop(self.other_side);
        // The thread that reads ends with the terminal, unless a process in the background still has it.
        while let Ok(chunk) = self.chunks.recv_timeout(Duration::from_secs(5)) {
            self.raw.extend_from_slice(&chunk);
        }
        (code, plain(&String::from_utf8_lossy(&self.raw)))
    }
}

/// A program whose terminal is gone or does not respond.
pub(crate) struct OrphanedProgram(KillOnDrop);

impl OrphanedProgram {
    pub(crate) fn terminate(&self) {
        kill_process(Pid::from_child(&self.0.0), Signal::TERM).expect("it runs");
    }

    /// Waits for the program to exit, and returns its code and the processor time that it used from
    /// now on. The time is unknown without `/proc`.
    pub(crate) fn end(mut self) -> (i32, Option<Duration>) {
        let id = self.0.0.id();
        let before = processor_time(id);
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let now = processor_time(id);
            let used = before.zip(now).map(|((before, _), (now, _))| now.saturating_sub(before));
            let is_over = match now {
                // A process that has exited keeps its times until it is waited for.
                Some((_, state)) => state == 'Z',
                None => self.0.0.try_wait().expect("a status").is_some(),
            };
            if is_over {
                let code = self.0.0.wait().expect("an exit status").code().expect("no signal");
                return (code, used);
            }
            assert!(Instant::now() < deadline, "the program does not exit; it used {used:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The processor time that a process has used, and its state.
fn processor_time(id: u32) -> Option<(Duration, char)> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before may contain blanks.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11..13)?.iter().filter_map(|it| it.parse::<u64>().ok()).sum();
    // Linux counts hundredths of a second here, whatever the kernel's own interval is.
    Some((Duration::from_millis(ticks * 10), fields.first()?.chars().next()?))
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
