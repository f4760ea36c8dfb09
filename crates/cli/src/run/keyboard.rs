//! The keyboard: keys one by one, for as long as this lives.
//!
//! Output is left as it is, so that whatever prints a newline still begins a line.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossterm::event::{self, Event};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use rustix::termios::{OptionalActions, OutputModes, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

/// How many keys may wait; who types faster than we read waits in the terminal.
const WAITING: usize = 256;

/// How long the reader waits for a key before it looks whether it is still wanted.
const BEAT: Duration = Duration::from_millis(50);

const BRACKETED_PASTE: (&str, &str) = ("\x1b[?2004h", "\x1b[?2004l");

/// Keys as they are pressed.
pub(super) struct Keyboard {
    events: mpsc::Receiver<Event>,
    unwanted: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Whether somebody sits there: what is asked is seen, and keys can be had, if not from stdin then
    /// from the terminal itself.
    pub(super) fn is_there() -> bool {
        let seen = io::stdout().is_terminal();
        seen && (io::stdin().is_terminal() || std::fs::File::open("/dev/tty").is_ok())
    }

    /// Takes the keyboard.
    pub(super) fn take() -> io::Result<Self> {
        enable_raw_mode()?;
        let stdout = rustix::stdio::stdout();
        if let Ok(mut modes) = tcgetattr(stdout) {
            modes.output_modes.insert(OutputModes::OPOST | OutputModes::ONLCR);
            tcsetattr(stdout, OptionalActions::Now, &modes)?;
        }
        write!(io::stdout(), "{}", BRACKETED_PASTE.0)?;
        io::stdout().flush()?;
        let (sender, events) = mpsc::channel(WAITING);
        let unwanted = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&unwanted);
        let reader = std::thread::spawn(move || read(&sender, &told));
        Ok(Self { events, unwanted, reader: Some(reader) })
    }

    /// The next key, paste or new size; nothing when the terminal is gone.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

fn read(keys: &mpsc::Sender<Event>, unwanted: &AtomicBool) {
    while !unwanted.load(Ordering::Relaxed) {
        match event::poll(BEAT) {
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
        self.unwanted.store(true, Ordering::Relaxed);
        self.events.close();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        // The terminal may be gone; nothing can be done about it then.
        let _ = write!(io::stdout(), "{}", BRACKETED_PASTE.1);
        let _ = io::stdout().flush();
        let _ = disable_raw_mode();
    }
}
