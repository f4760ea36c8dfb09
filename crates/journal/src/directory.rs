//! Keeping a directory private.
//!
//! What is in the data directory lets others read conversations and act as its user: the journal, the
//! sockets of the shims, logs and uploads. It is created for its user alone. One that an earlier
//! version or another program left open is closed, and the user is told.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Something about the permissions of a directory that its user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryWarning {
    /// Other users had access. They have none any longer, but they may have read or changed it.
    Closed { path: PathBuf, before: u32, now: u32 },
    /// It belongs to another user and was left as it is.
    Foreign { path: PathBuf },
    /// The permissions could not be read or changed.
    Unchanged { path: PathBuf, reason: String },
}

impl fmt::Display for DirectoryWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { path, before, now } => write!(
                f,
                "`{}` was accessible to other users (mode {before:03o}); it is private now ({now:03o})",
                path.display()
            ),
            Self::Foreign { path } => {
                write!(f, "`{}` belongs to another user; remove it if you can", path.display())
            }
            Self::Unchanged { path, reason } => {
                write!(f, "the permissions of `{}` are not known: {reason}", path.display())
            }
        }
    }
}

/// Creates a directory for this user alone, or closes an existing one and everything in it to other
/// users. Returns what was wrong.
///
/// Fails if the directory belongs to another user, or if other users could replace it because they
/// can write to its parent, which is not this user's.
pub fn secure_directory(path: &Path) -> Result<Vec<DirectoryWarning>, Error> {
    platform::secure(path)
}

#[cfg(unix)]
mod platform {
    use std::fs::{self, DirBuilder, Metadata, Permissions};
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
    use std::path::Path;

    use super::DirectoryWarning;
    use crate::error::Error;

    /// What group and others may do.
    const OTHERS: u32 = 0o077;

    /// In a directory with this bit, only the owner of a file can rename or remove it.
    const STICKY: u32 = 0o1000;

    /// How deep files are looked for. Towpath's own are not deeper.
    const DEPTH: u32 = 6;

    pub(super) fn secure(path: &Path) -> Result<Vec<DirectoryWarning>, Error> {
        let io = |error| Error::io(path, error);
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io)?;
        // The directory may be a link to where there is more space.
        let path = &path.canonicalize().map_err(io)?;
        let user = rustix::process::geteuid().as_raw();
        let metadata = fs::metadata(path).map_err(io)?;
        let unsafe_because = |reason: String| Error::UnsafeDirectory { path: path.clone(), reason };
        if metadata.uid() != user {
            let reason = format!("it belongs to user {}, not to {user}", metadata.uid());
            return Err(unsafe_because(reason));
        }
        let mut warnings = Vec::new();
        if let Some(parent) = path.parent() {
            let metadata = fs::metadata(parent).map_err(io)?;
            let mode = metadata.mode();
            // Many systems give each user a group and let it write.
            let open = mode & 0o002 != 0 && mode & STICKY == 0;
            if open && metadata.uid() != user {
                let reason = format!("anyone can replace it, because of `{}`", parent.display());
                return Err(unsafe_because(reason));
            }
            if open {
                change(parent, mode, mode & !0o002, &mut warnings);
            }
        }
        close(path, &metadata, &mut warnings);
        close_content(path, user, DEPTH, &mut warnings);
        Ok(warnings)
    }

    fn close_content(
        directory: &Path,
        user: u32,
        depth: u32,
        warnings: &mut Vec<DirectoryWarning>,
    ) {
        let unchanged = |path: &Path, error: std::io::Error| DirectoryWarning::Unchanged {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let files = match fs::read_dir(directory) {
            Ok(files) => files,
            Err(error) => return warnings.push(unchanged(directory, error)),
        };
        for file in files.flatten() {
            let path = file.path();
            // Of the file itself, even if it is a link.
            let metadata = match file.metadata() {
                Ok(metadata) => metadata,
                // It was removed just now.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => {
                    warnings.push(unchanged(&path, error));
                    continue;
                }
            };
            if metadata.is_symlink() {
                continue;
            }
            if metadata.uid() != user {
                warnings.push(DirectoryWarning::Foreign { path });
                continue;
            }
            close(&path, &metadata, warnings);
            if metadata.is_dir() && depth > 0 {
                close_content(&path, user, depth - 1, warnings);
            }
        }
    }

    fn close(path: &Path, metadata: &Metadata, warnings: &mut Vec<DirectoryWarning>) {
        let mode = metadata.mode();
        if mode & OTHERS != 0 {
            change(path, mode, mode & !OTHERS, warnings);
        }
    }

    fn change(path: &Path, before: u32, now: u32, warnings: &mut Vec<DirectoryWarning>) {
        let (before, now) = (before & 0o7777, now & 0o7777);
        let path = path.to_owned();
        warnings.push(match fs::set_permissions(&path, Permissions::from_mode(now)) {
            Ok(()) => DirectoryWarning::Closed { path, before, now },
            Err(error) => DirectoryWarning::Unchanged { path, reason: error.to_string() },
        });
    }
}

#[cfg(not(unix))]
mod platform {
    use std::path::Path;

    use super::DirectoryWarning;
    use crate::error::Error;

    /// Other systems protect the directories of a user themselves.
    pub(super) fn secure(path: &Path) -> Result<Vec<DirectoryWarning>, Error> {
        std::fs::create_dir_all(path).map_err(|error| Error::io(path, error))?;
        Ok(Vec::new())
    }
}
