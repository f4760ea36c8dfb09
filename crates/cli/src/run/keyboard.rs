//! The keyboard in raw mode: keys arrive one by one until the keyboard is dropped.
//!
//! Output processing stays on, so a printed newline still returns to the first column.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossterm::event::{self, Event};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use rustix::termios::{OptionalActions, OutputModes, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

/// Events that may wait to be handled; further ones wait in the terminal.
const QUEUE_LENGTH: usize = 256;

/// How long the reader waits for a key before it checks whether it should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

const BRACKETED_PASTE: (&str, &str) = ("\x1b[?2004h", "\x1b[?2004l");

/// Reads keys in a thread while the terminal is in raw mode.
pub(super) struct Keyboard {
    events: mpsc::Receiver<Event>,
    stopped: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Whether a user can answer: output is visible on a terminal, and keys can be read from stdin or
    /// from the controlling terminal.
    pub(super) fn is_available() -> bool {
        let visible = io::stdout().is_terminal();
        visible && (io::stdin().is_terminal() || std::fs::File::open("/dev/tty").is_ok())
    }

    /// Switches the terminal to raw mode and starts reading.
    pub(super) fn start() -> io::Result<Self> {
        enable_raw_mode()?;
        let stdout = rustix::stdio::stdout();
        if let Ok(mut modes) = tcgetattr(stdout) {
            modes.output_modes.insert(OutputModes::OPOST | OutputModes::ONLCR);
            tcsetattr(stdout, OptionalActions::Now, &modes)?;
        }
        write!(io::stdout(), "{}", BRACKETED_PASTE.0)?;
        io::stdout().flush()?;
        let (sender, events) = mpsc::channel(QUEUE_LENGTH);
        let stopped = Arc::new(AtomicBool::new(false));
        let stop_flag = Arc::clone(&stopped);
        let reader = std::thread::spawn(move || read_events(&sender, &stop_flag));
        Ok(Self { events, stopped, reader: Some(reader) })
    }

    /// The next key, paste or resize; none if the terminal is gone.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

fn read_events(keys: &mpsc::Sender<Event>, stopped: &AtomicBool) {
    while !stopped.load(Ordering::Relaxed) {
        match event::poll(POLL_INTERVAL) {
            Ok(false) => {}
            Ok(true) => {
                let Ok(event) = event::read() else { return };
                if keys.blocking_send(event).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.events.close();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        // Errors are ignored, because the terminal may be gone.
        let _ = write!(io::stdout(), "{}", BRACKETED_PASTE.1);
        let _ = io::stdout().flush();
        let _ = disable_raw_mode();
    }
}
