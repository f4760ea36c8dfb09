//! The keyboard in raw mode: keys arrive one by one until the keyboard is dropped.
//!
//! Output processing stays on, so a printed newline still returns to the first column. The terminal is
//! read here and not by crossterm, whose reader neither ends nor waits once the terminal is gone, and
//! cannot be stopped within a sequence.

use std::fs::File;
use std::io::{self, IsTerminal as _, PipeReader, PipeWriter, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::thread::JoinHandle;

use crossterm::event::Event;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, OutputModes, tcgetattr, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::key_parser::KeyParser;

/// Events that may wait to be handled; further ones wait in the terminal.
const QUEUE_LENGTH: usize = 256;

/// If nothing follows the byte of the Escape key for this long, it is not the start of a sequence.
const ESCAPE_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

const BRACKETED_PASTE: (&str, &str) = ("\x1b[?2004h", "\x1b[?2004l");

/// Reads keys in a thread while the terminal is in raw mode.
pub(super) struct Keyboard {
    events: mpsc::Receiver<Event>,
    resized: Signal,
    /// Dropped to stop the reader.
    stop: Option<PipeWriter>,
    reader: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Whether a user can answer: output is visible on a terminal, and keys can be read from stdin or
    /// from the controlling terminal.
    pub(super) fn is_available() -> bool {
        let visible = io::stdout().is_terminal();
        visible && (io::stdin().is_terminal() || File::open("/dev/tty").is_ok())
    }

    /// Switches the terminal to raw mode and starts reading.
    pub(super) fn start() -> io::Result<Self> {
        let terminal = if io::stdin().is_terminal() {
            rustix::stdio::stdin().try_clone_to_owned()?
        } else {
            File::open("/dev/tty")?.into()
        };
        let resized = signal(SignalKind::window_change())?;
        let (stopped, stop) = io::pipe()?;
        enable_raw_mode()?;
        let (sender, events) = mpsc::channel(QUEUE_LENGTH);
        let reader = std::thread::spawn(move || read_events(&terminal, &stopped, &sender));
        // From here on, dropping this restores the terminal.
        let keyboard = Self { events, resized, stop: Some(stop), reader: Some(reader) };
        let stdout = rustix::stdio::stdout();
        if let Ok(mut modes) = tcgetattr(stdout) {
            modes.output_modes.insert(OutputModes::OPOST | OutputModes::ONLCR);
            tcsetattr(stdout, OptionalActions::Now, &modes)?;
        }
        write!(io::stdout(), "{}", BRACKETED_PASTE.0)?;
        io::stdout().flush()?;
        Ok(keyboard)
    }

    /// Ends raw mode. Does nothing if no keyboard was started.
    pub(super) fn restore_modes() {
        // Fails if the terminal is gone.
        let _ = disable_raw_mode();
    }

    /// The next key, paste or resize; none if the terminal is gone.
    pub(super) async fn next(&mut self) -> Option<Event> {
        tokio::select! {
            event = self.events.recv() => event,
            // The new size is read where it is used.
            _ = self.resized.recv() => Some(Event::Resize(0, 0)),
        }
    }
}

/// Sends events until the terminal is gone or the other end of `stopped` is closed.
fn read_events(terminal: &OwnedFd, stopped: &PipeReader, events: &mpsc::Sender<Event>) {
    let mut parser = KeyParser::default();
    let mut buffer = [0; 4096];
    loop {
        let timeout = parser.is_incomplete().then_some(&ESCAPE_TIMEOUT);
        let mut sources = [
            PollFd::from_borrowed_fd(terminal.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
        ];
        let ready = match poll(&mut sources, timeout) {
            Ok(ready) => ready,
            Err(Errno::INTR) => continue,
            Err(_) => return,
        };
        if !sources[1].revents().is_empty() {
            return;
        }
        let found = if ready == 0 {
            parser.flush().into_iter().collect()
        } else {
            match rustix::io::read(terminal, &mut buffer) {
                // In raw mode a read returns nothing only if the terminal is gone.
                Ok(0) => return,
                Ok(length) => parser.push(&buffer[..length]),
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Err(_) => return,
            }
        };
        for event in found {
            if events.blocking_send(event).is_err() {
                return;
            }
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.events.close();
        drop(self.stop.take());
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        // Errors are ignored, because the terminal may be gone.
        let _ = write!(io::stdout(), "{}", BRACKETED_PASTE.1);
        let _ = io::stdout().flush();
        Self::restore_modes();
    }
}
