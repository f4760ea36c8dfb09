//! Noticing the commits of other processes.
//!
//! A thread has the writer compare SQLite's `data_version` after the write-ahead log has changed. On
//! Linux, inotify reports such changes, so an idle journal causes no wake-ups. Elsewhere, or if
//! inotify is not available, the thread polls.

use std::path::Path;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::WeakSender;
use tokio::sync::mpsc::error::TrySendError;

use crate::error::Error;
use crate::writer::WriterCommand;

/// The pace of polling.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The pause after a reported change. The deltas of this process change the log hundreds of times a
/// second.
#[cfg(target_os = "linux")]
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// How many seconds to wait for a change before the writer looks again, depending on how often
/// nothing changed. A change is reported while a commit writes it, and on a slow disk the commit takes
/// effect only later. The last wait lets the thread notice the end of the journal.
#[cfg(target_os = "linux")]
const WAITS: [i64; 3] = [1, 5, 60];

/// Starts the thread. It ends with the journal.
pub(crate) fn watch(path: &Path, commands: WeakSender<WriterCommand>) -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    let started = match LogChanges::watch(path) {
        Ok(changes) => spawn(move || {
            let mut quiet = 0;
            while let Some(changed) = changes.wait(WAITS[quiet]) {
                quiet = if changed { 0 } else { (quiet + 1).min(WAITS.len() - 1) };
                if !poll(&commands) {
                    break;
                }
                thread::sleep(REPORT_INTERVAL);
            }
        }),
        Err(error) => {
            tracing::debug!(%error, "inotify is not available; polling for external commits");
            spawn(move || poll_regularly(&commands))
        }
    };
    #[cfg(not(target_os = "linux"))]
    let started = spawn(move || poll_regularly(&commands));
    started.map_err(|error| Error::io(path, error))
}

fn spawn(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name("journal-external".to_owned()).spawn(work).map(drop)
}

fn poll_regularly(commands: &WeakSender<WriterCommand>) {
    while poll(commands) {
        thread::sleep(POLL_INTERVAL);
    }
}

/// Has the writer look for external commits. False once the journal is closed.
fn poll(commands: &WeakSender<WriterCommand>) -> bool {
    let Some(commands) = commands.upgrade() else { return false };
    // A writer with a full queue is asked again soon.
    !matches!(commands.try_send(WriterCommand::PollExternal), Err(TrySendError::Closed(_)))
}

/// Changes of the write-ahead log, reported by inotify.
#[cfg(target_os = "linux")]
struct LogChanges(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl LogChanges {
    fn watch(path: &Path) -> std::io::Result<Self> {
        use rustix::fs::inotify;
        let descriptor = inotify::init(inotify::CreateFlags::CLOEXEC)?;
        // The log exists since the file was opened for writing. While the journal is open, it may be
        // truncated but not removed.
        let log = crate::connection::wal(path);
        inotify::add_watch(&descriptor, log, inotify::WatchFlags::MODIFY)?;
        Ok(Self(descriptor))
    }

    /// Waits for a change, at most so many seconds, and says whether there was one. `None` if
    /// changes can no longer be reported.
    fn wait(&self, seconds: i64) -> Option<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
        match poll(&mut ready, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Some(false),
            Ok(_) => rustix::io::read(&self.0, &mut [0u8; 4096]).is_ok().then_some(true),
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::sync::mpsc;

    use super::{WriterCommand, poll_regularly};

    #[test]
    fn polling_asks_the_writer_and_ends_with_the_journal() {
        let (commands, mut received) = mpsc::channel(4);
        let weak = commands.downgrade();
        let polling = thread::spawn(move || poll_regularly(&weak));
        assert!(matches!(received.blocking_recv(), Some(WriterCommand::PollExternal)));
        drop((commands, received));
        polling.join().unwrap();
    }
}
