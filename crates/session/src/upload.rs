//! Files that a user attaches to a prompt.
//!
//! They are stored below the session's working directory, where the agent may read them without
//! asking, and the prompt's text names their paths. The directory ignores itself in git, and no
//! file in it is ever overwritten.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The upload directory, below the working directory.
const DIRECTORY: [&str; 2] = [".towpath", "files"];

const MAX_NAME_LENGTH: usize = 120;

/// Stores an uploaded file below a working directory and returns its path. Blocking.
pub fn store_upload(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let mut uploads = directory.to_owned();
    for part in DIRECTORY {
        uploads.push(part);
        private_directory(&uploads)?;
    }
    let ignore = directory.join(DIRECTORY[0]).join(".gitignore");
    match new_file(&ignore) {
        Ok(mut file) => file.write_all(b"*\n")?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let name = safe_file_name(name);
    let (stem, ending) = match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => (stem, format!(".{ending}")),
        _ => (name.as_str(), String::new()),
    };
    for number in 1.. {
        let path = uploads.join(match number {
            1 => name.clone(),
            _ => format!("{stem}-{number}{ending}"),
        });
        match new_file(&path) {
            Ok(mut file) => {
                file.write_all(bytes)?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Adds the paths of attached files to the text of a prompt.
pub fn append_file_paths(text: &str, files: &[PathBuf]) -> String {
    let mut text = text.to_owned();
    for file in files {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str("Attached file: ");
        text.push_str(&file.to_string_lossy());
    }
    text
}

/// Creates a directory, or checks that it is one and not a link: a project must not be able to
/// redirect uploads.
fn private_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = std::fs::symlink_metadata(path)?;
            if found.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
        }
        Err(error) => Err(error),
    }
}

fn new_file(path: &Path) -> io::Result<std::fs::File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// A file name that stays in its directory, is not hidden and looks like no option.
pub fn safe_file_name(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain = |it: char| if it.is_control() || "<>:\"|?*".contains(it) { '_' } else { it };
    let mut name: String = name.trim().chars().map(plain).collect();
    while name.len() > MAX_NAME_LENGTH {
        name.remove(0);
    }
    let name = name.trim_start_matches(['.', '-', ' ']);
    if name.is_empty() { "file".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{append_file_paths, safe_file_name, store_upload};

    #[test]
    fn files_are_stored_side_by_side_and_ignored_by_git() {
        let project = tempfile::tempdir().unwrap();
        let first = store_upload(project.path(), "notes.tar.gz", b"one").unwrap();
        let second = store_upload(project.path(), "notes.tar.gz", b"two").unwrap();
        assert!(first.ends_with(".towpath/files/notes.tar.gz"));
        assert!(second.ends_with(".towpath/files/notes.tar-2.gz"));
        assert_eq!(std::fs::read(first).unwrap(), b"one");
        assert_eq!(std::fs::read(second).unwrap(), b"two");
        let ignore = project.path().join(".towpath/.gitignore");
        assert_eq!(std::fs::read_to_string(ignore).unwrap(), "*\n");
    }

    #[test]
    fn a_name_cannot_leave_the_directory() {
        for (name, expected) in [
            ("../../etc/passwd", "passwd"),
            ("..", "file"),
            (".profile", "profile"),
            ("-rf", "rf"),
            ("a\\b\n.txt", "b_.txt"),
            ("", "file"),
        ] {
            assert_eq!(safe_file_name(name), expected, "{name}");
        }
        assert_eq!(safe_file_name(&"ä".repeat(300)).len(), 120);
    }

    #[test]
    fn a_link_in_the_project_redirects_no_upload() {
        let (project, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), project.path().join(".towpath")).unwrap();
        assert!(store_upload(project.path(), "x", b"x").is_err());
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_prompt_names_the_paths() {
        let text = append_file_paths("look", &["/p/a".into(), "/p/b".into()]);
        assert_eq!(text, "look\nAttached file: /p/a\nAttached file: /p/b");
    }
}
