//! Files a person sends along with a prompt.
//!
//! They are kept below the session's working directory, where the agent may read them without
//! asking, and are named in the prompt's text. They are nobody's business but the agent's: the
//! directory ignores itself for git, and nothing in it is ever overwritten.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Where files go, below the working directory.
const PLACE: [&str; 2] = [".towpath", "files"];

/// The longest name that is kept.
const LONGEST_NAME: usize = 120;

/// Keeps a file below a working directory, and says where. Blocking.
pub fn keep_file(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let mut place = directory.to_owned();
    for part in PLACE {
        place.push(part);
        private_directory(&place)?;
    }
    let ignore = directory.join(PLACE[0]).join(".gitignore");
    match new_file(&ignore) {
        Ok(mut file) => file.write_all(b"*\n")?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let name = harmless(name);
    let (stem, ending) = match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => (stem, format!(".{ending}")),
        _ => (name.as_str(), String::new()),
    };
    for number in 1.. {
        let path = place.join(match number {
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

/// The text of a prompt that goes with files: the agent is told where they are.
pub fn with_files(text: &str, files: &[PathBuf]) -> String {
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

/// A directory that is there and is no link: a project must not be able to send files elsewhere.
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

/// A name that stays in its directory and hides from nobody.
fn harmless(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain = |it: char| if it.is_control() || "<>:\"|?*".contains(it) { '_' } else { it };
    let mut name: String = name.trim().chars().map(plain).collect();
    while name.len() > LONGEST_NAME {
        name.remove(0);
    }
    let name = name.trim_start_matches(['.', '-', ' ']);
    if name.is_empty() { "file".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{harmless, keep_file, with_files};

    #[test]
    fn files_are_kept_side_by_side_and_out_of_git() {
        let project = tempfile::tempdir().unwrap();
        let first = keep_file(project.path(), "notes.tar.gz", b"one").unwrap();
        let second = keep_file(project.path(), "notes.tar.gz", b"two").unwrap();
        assert!(first.ends_with(".towpath/files/notes.tar.gz"));
        assert!(second.ends_with(".towpath/files/notes.tar-2.gz"));
        assert_eq!(std::fs::read(first).unwrap(), b"one");
        assert_eq!(std::fs::read(second).unwrap(), b"two");
        let ignore = project.path().join(".towpath/.gitignore");
        assert_eq!(std::fs::read_to_string(ignore).unwrap(), "*\n");
    }

    #[test]
    fn a_name_cannot_lead_out() {
        for (name, kept) in [
            ("../../etc/passwd", "passwd"),
            ("..", "file"),
            (".profile", "profile"),
            ("-rf", "rf"),
            ("a\\b\n.txt", "b_.txt"),
            ("", "file"),
        ] {
            assert_eq!(harmless(name), kept, "{name}");
        }
        assert_eq!(harmless(&"ä".repeat(300)).len(), 120);
    }

    #[test]
    fn a_link_in_the_project_sends_nothing_elsewhere() {
        let (project, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), project.path().join(".towpath")).unwrap();
        assert!(keep_file(project.path(), "x", b"x").is_err());
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_agent_is_told_where_files_are() {
        let text = with_files("look", &["/p/a".into(), "/p/b".into()]);
        assert_eq!(text, "look\nAttached file: /p/a\nAttached file: /p/b");
    }
}
