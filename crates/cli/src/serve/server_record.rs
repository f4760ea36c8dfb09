//! Records of running servers by address, so that `serve --stop` finds one whose data directory it
//! does not know: that of a demo is temporary.
//!
//! A record is only a hint. Whether the server runs is decided by the lock of its data directory.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The folder with the records, in the runtime directory.
const FOLDER: &str = "servers";

/// A running server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ServerRecord {
    pub(super) address: SocketAddr,
    pub(super) data: PathBuf,
    /// Whether the data directory is removed with the server.
    pub(super) temporary: bool,
}

/// Removes the record of this server when it ends.
#[derive(Debug)]
pub(super) struct RecordGuard {
    path: PathBuf,
}

impl ServerRecord {
    /// Writes the record. The server runs without it, too, so the caller may ignore an error.
    pub(super) fn write(&self, runtime: &Path) -> io::Result<RecordGuard> {
        let folder = open_folder(runtime)?;
        // A socket address has no slash.
        let path = folder.join(format!("{}.json", self.address));
        fs::write(&path, serde_json::to_vec(self)?)?;
        Ok(RecordGuard { path })
    }

    /// The records of servers that may run.
    pub(super) fn read_all(runtime: &Path) -> Vec<Self> {
        let Ok(folder) = open_folder(runtime) else { return Vec::new() };
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.filter_map(|file| serde_json::from_slice(&fs::read(file.path()).ok()?).ok()).collect()
    }
}

impl Drop for RecordGuard {
    fn drop(&mut self) {
        // A record that is left behind names a data directory that no server uses.
        let _ = fs::remove_file(&self.path);
    }
}

/// The folder, if only this user can write to it: a record leads to a process that is signalled.
fn open_folder(runtime: &Path) -> io::Result<PathBuf> {
    let folder = runtime.join(FOLDER);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let user = rustix::process::geteuid().as_raw();
    for directory in [runtime, &folder] {
        let metadata = fs::symlink_metadata(directory)?;
        if !metadata.is_dir() || metadata.uid() != user || metadata.mode() & 0o022 != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::ServerRecord;

    #[test]
    fn a_record_is_found_until_its_server_ends_and_only_in_a_private_directory() {
        let runtime = tempfile::tempdir().unwrap();
        let address = "[::1]:4280".parse().unwrap();
        let record = ServerRecord { address, data: "/data".into(), temporary: true };
        let guard = record.write(runtime.path()).unwrap();
        let found = ServerRecord::read_all(runtime.path());
        assert!(matches!(&found[..], [it] if it.address == address && it.temporary), "{found:?}");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(runtime.path(), open).unwrap();
        assert!(ServerRecord::read_all(runtime.path()).is_empty());
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(runtime.path(), private).unwrap();
        drop(guard);
        assert!(ServerRecord::read_all(runtime.path()).is_empty());
    }
}
