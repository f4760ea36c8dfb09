//! A terminal: a shell, its screen, and who looks at it.
//!
//! ```text
//!  reader thread: shell ─► screen ─► state changes ─► viewers
//!  writer thread: viewers, answers to queries ─► shell
//!  waiting thread: the shell's end
//! ```
//!
//! The writer is a thread of its own because a program may not read its input until its output is
//! read.

use std::collections::HashMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use filedescriptor::FileDescriptor;
use portable_pty::Child;
use rustix::process::Signal;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::screen::{Screen, ScreenSize};
use crate::shell::{
    self, OutputEvent, ShellConfig, ShellControl, ShellExit, ShellGroups, ShellOutput,
    ShellStartError,
};
use crate::viewer::Viewer;

/// How many pieces of input may wait for the shell.
const WAITING_INPUT: usize = 64;

/// How long programs may take to end before they are killed.
const HANGUP_TIMEOUT: Duration = Duration::from_millis(700);

/// How often it is looked whether they have.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Output that does not come within this time of the shell's end is that of programs it left behind.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(50);

/// How much of such output is shown at most.
const MAX_DRAINED_BYTES: usize = 1 << 20;

/// A terminal. It runs until it is closed, whether or not anybody looks at it.
#[derive(Debug)]
pub struct Terminal {
    number: u32,
    started: SystemTime,
    screen: Mutex<Screen>,
    states: watch::Sender<TerminalRevision>,
    /// Told when the title or the end changes.
    list: watch::Sender<u64>,
    viewers: Mutex<Viewers>,
    process: Mutex<Option<RunningShell>>,
}

/// What viewers wait for.
#[derive(Clone, Debug, Default)]
pub(crate) struct TerminalRevision {
    /// Counts changes of the screen.
    number: u64,
    pub(crate) ended: Option<ShellExit>,
}

/// What is there while the shell runs.
struct RunningShell {
    control: ShellControl,
    input: mpsc::Sender<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Viewers {
    next: u64,
    sizes: HashMap<u64, ScreenSize>,
    /// The viewer whose size the terminal has.
    active: Option<u64>,
}

impl Terminal {
    /// Starts a shell in a directory.
    pub(crate) fn start(
        number: u32,
        config: &ShellConfig,
        directory: &Path,
        size: ScreenSize,
        list: watch::Sender<u64>,
    ) -> Result<Arc<Self>, ShellStartError> {
        let shell = shell::start(config, directory, size)?;
        let (input, waiting) = mpsc::channel(WAITING_INPUT);
        let running = RunningShell { control: shell.control, input: input.clone() };
        let terminal = Arc::new(Self {
            number,
            started: SystemTime::now(),
            screen: Mutex::new(Screen::new(size)),
            states: watch::Sender::default(),
            list,
            viewers: Mutex::default(),
            process: Mutex::new(Some(running)),
        });
        let not_started = |it: std::io::Error| ShellStartError::NotStarted(it.to_string());
        let named = |name: &str| thread::Builder::new().name(format!("terminal-{name}"));
        let (child, wake) = (shell.child, shell.wake);
        let waiting_thread = named("wait").spawn(move || wait(child, wake)).map_err(not_started)?;
        let writer = shell.input;
        named("write").spawn(move || write(writer, waiting)).map_err(not_started)?;
        let (read, output) = (Arc::clone(&terminal), shell.output);
        let reader = move || read.run(output, &input, waiting_thread);
        named("read").spawn(reader).map_err(not_started)?;
        Ok(terminal)
    }

    /// Shows the shell's output until it ends.
    fn run(
        &self,
        mut output: ShellOutput,
        replies: &mpsc::Sender<Vec<u8>>,
        shell: JoinHandle<ShellExit>,
    ) {
        let mut buffer = vec![0; 16 << 10];
        let mut draining = None;
        let mut drained = 0;
        while drained < MAX_DRAINED_BYTES {
            match output.read(&mut buffer, draining) {
                OutputEvent::Printed(length) => {
                    if draining.is_some() {
                        drained += length;
                    }
                    self.show(&buffer[..length], replies);
                }
                OutputEvent::Woken => draining = Some(DRAIN_TIMEOUT),
                OutputEvent::Ended => break,
            }
        }
        // A shell that closed its terminal may still run.
        let exit = shell.join().unwrap_or(ShellExit::Unknown);
        *self.lock_process() = None;
        self.states.send_modify(|it| it.ended = Some(exit));
        self.list.send_modify(|it| *it += 1);
    }

    fn show(&self, bytes: &[u8], replies: &mpsc::Sender<Vec<u8>>) {
        let (answers, title_changed) = self.with_screen(|screen| {
            let title = screen.title().to_owned();
            // A fault of the emulator costs what the screen shows, and not the terminal.
            let advanced = catch_unwind(AssertUnwindSafe(|| screen.advance(bytes)));
            let answers = advanced.unwrap_or_else(|_| {
                *screen = Screen::new(screen.size());
                Vec::new()
            });
            (answers, screen.title() != title)
        });
        for answer in answers {
            // A program that asks faster than it reads does without an answer.
            let _ = replies.try_send(answer.into_bytes());
        }
        self.states.send_modify(|it| it.number += 1);
        if title_changed {
            self.list.send_modify(|it| *it += 1);
        }
    }

    /// The number of the terminal in its session.
    pub fn number(&self) -> u32 {
        self.number
    }

    pub fn started(&self) -> SystemTime {
        self.started
    }

    pub fn title(&self) -> String {
        self.with_screen(|it| it.title().to_owned())
    }

    /// How the shell ended; `None` while it runs.
    pub fn ended(&self) -> Option<ShellExit> {
        self.states.borrow().ended.clone()
    }

    pub fn view(self: &Arc<Self>) -> Viewer {
        let mut viewers = self.lock_viewers();
        viewers.next += 1;
        Viewer::new(Arc::clone(self), viewers.next, self.states.subscribe())
    }

    /// Reads the screen.
    pub fn with_screen<T>(&self, access: impl FnOnce(&mut Screen) -> T) -> T {
        access(&mut self.screen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the shell and the program in the foreground, and waits until it has ended.
    pub async fn close(&self) {
        let groups = self.groups();
        groups.signal(Signal::HUP);
        let ended = async {
            // The shell may end before the program that it runs.
            while self.ended().is_none() || !groups.have_ended() {
                sleep(END_CHECK_INTERVAL).await;
            }
        };
        if timeout(HANGUP_TIMEOUT, ended).await.is_err() {
            groups.signal(Signal::KILL);
            let mut states = self.states.subscribe();
            let ended = states.wait_for(|it| it.ended.is_some());
            let _ = timeout(HANGUP_TIMEOUT, ended).await;
        }
    }

    /// Ends the shell and the program in the foreground without waiting for them.
    pub(crate) fn kill(&self) {
        let groups = self.groups();
        groups.signal(Signal::HUP);
        groups.signal(Signal::KILL);
    }

    fn groups(&self) -> ShellGroups {
        self.lock_process().as_ref().map(|it| it.control.groups()).unwrap_or_default()
    }

    /// Where to send what this viewer types.
    pub(crate) fn type_as(&self, viewer: u64) -> Option<mpsc::Sender<Vec<u8>>> {
        let size = {
            let mut viewers = self.lock_viewers();
            let changed = viewers.active != Some(viewer);
            viewers.active = Some(viewer);
            viewers.sizes.get(&viewer).copied().filter(|_| changed)
        };
        if let Some(size) = size {
            self.resize(size);
        }
        self.lock_process().as_ref().map(|it| it.input.clone())
    }

    pub(crate) fn resize_viewer(&self, viewer: u64, size: ScreenSize) {
        let applies = {
            let mut viewers = self.lock_viewers();
            viewers.sizes.insert(viewer, size);
            // No other viewer has typed here, or the one that did is gone.
            let active = viewers.active.filter(|it| viewers.sizes.contains_key(it));
            viewers.active = Some(active.unwrap_or(viewer));
            viewers.active == Some(viewer)
        };
        if applies {
            self.resize(size);
        }
    }

    pub(crate) fn remove_viewer(&self, viewer: u64) {
        self.lock_viewers().sizes.remove(&viewer);
    }

    fn resize(&self, size: ScreenSize) {
        let process = self.lock_process();
        let changed = self.with_screen(|screen| {
            let changed = screen.size() != size;
            screen.resize(size);
            changed
        });
        if changed && let Some(running) = &*process {
            running.control.resize(size);
        }
        drop(process);
        if changed {
            self.states.send_modify(|it| it.number += 1);
        }
    }

    fn lock_process(&self) -> MutexGuard<'_, Option<RunningShell>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_viewers(&self) -> MutexGuard<'_, Viewers> {
        self.viewers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the shell's end, and then lets the reader know.
fn wait(mut child: Box<dyn Child + Send + Sync>, wake: FileDescriptor) -> ShellExit {
    let exit = child.wait().map_or(ShellExit::Unknown, ShellExit::from);
    drop(wake);
    exit
}

fn write(mut shell: Box<dyn Write + Send>, mut waiting: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = waiting.blocking_recv() {
        if shell.write_all(&bytes).is_err() {
            return;
        }
    }
}

impl std::fmt::Debug for RunningShell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RunningShell")
    }
}
