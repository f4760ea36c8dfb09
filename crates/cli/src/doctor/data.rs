//! The data directory, the journal in it, and sockets.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use journal::Journal;
use session::{Home, shim};
use view::phrase;

use super::checkup::{Checkup, Finding, with_causes};
use crate::settings::{Settings, what_was_mended};

/// Looks at where everything is kept. Only what is not there yet is made.
pub(super) async fn examine(settings: &Settings, checkup: &mut Checkup) {
    if let Err(error) = settings.make_data() {
        let hint = error.hint().unwrap_or_default();
        checkup.add("data", Finding::bad(with_causes(&error), hint));
        return;
    }
    checkup.add("data", data(&settings.data));
    checkup.add("journal", journal(&settings.data).await);
    checkup.add("sockets", sockets(settings));
}

fn data(path: &Path) -> Finding {
    let shown = path.display();
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) => return Finding::bad(error.to_string(), "set `TOWPATH_DATA`"),
    };
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        let hint = "set `TOWPATH_DATA` to a directory of yours";
        return Finding::bad(format!("`{shown}` belongs to somebody else"), hint);
    }
    if found.mode() & 0o077 != 0 {
        let hint = format!("`chmod 700 {shown}`: what agents say and do is kept there");
        return Finding::bad(format!("`{shown}` is open to others"), hint);
    }
    if let Err(error) = tempfile::tempfile_in(path) {
        let hint = "is the disk full, or mounted read-only?";
        return Finding::bad(format!("`{shown}` cannot be written to: {error}"), hint);
    }
    Finding::good(format!("{shown}, yours alone"))
}

async fn journal(data: &Path) -> Finding {
    let opening = match Journal::open(&Home::journal(data)) {
        Ok(opening) => opening,
        Err(error) => {
            let hint = match error {
                journal::Error::Newer { .. } => "a later towpath wrote it: use that one",
                journal::Error::DamagedInUse { .. } => "end every other towpath, then look again",
                _ => "move the file away to begin anew, and keep it",
            };
            return Finding::bad(with_causes(&error), hint);
        }
    };
    if let Some(mended) = &opening.mended {
        let hint = "it is in order again; the damaged file can go once nothing is missed";
        return Finding::bad(what_was_mended(mended), hint);
    }
    let checked = opening.journal.check().await;
    let _ = opening.journal.close().await;
    match checked {
        Ok(health) if health.faults.is_empty() => {
            let sessions = usize::try_from(health.sessions).unwrap_or(usize::MAX);
            let sessions = phrase::several(sessions, "session", "sessions");
            Finding::good(format!("sound, {sessions}, {}", phrase::size(health.bytes)))
        }
        Ok(health) => {
            let hint = "end every towpath and look again: it is mended when it is opened";
            Finding::bad(format!("damaged: {}", health.faults.join("; ")), hint)
        }
        Err(error) => Finding::bad(with_causes(&error), "look again"),
    }
}

/// Whether a socket can be made where one for a session would be.
fn sockets(settings: &Settings) -> Finding {
    let make = || -> io::Result<()> {
        let live = settings.data.join("live");
        fs::create_dir_all(&live)?;
        let probe = tempfile::Builder::new().prefix("probe-").tempdir_in(&live)?;
        let name = "probe-of-the-doctor-with-the-length-of-an-id";
        let longest = live.join("00000000-0000-0000-0000-000000000000");
        let socket = if shim::socket_path(&longest, &settings.runtime, name).starts_with(&longest) {
            probe.path().join("shim.sock")
        } else {
            use std::os::unix::fs::DirBuilderExt as _;
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&settings.runtime)?;
            settings.runtime.join(format!("{}.sock", std::process::id()))
        };
        let bound = UnixListener::bind(&socket);
        let _ = fs::remove_file(&socket);
        bound.map(drop)
    };
    match make() {
        Ok(()) => Finding::good("can be made"),
        Err(error) => {
            let hint = "set `TOWPATH_DATA` to a local disk; network file systems have no sockets";
            Finding::bad(format!("cannot be made: {error}"), hint)
        }
    }
}
