//! The directory with all session files, and the files in it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use uuid::Uuid;

use crate::line::TranscriptLine;

/// How much of a file is read to find out its working directory.
const HEAD_BYTES: u64 = 256 << 10;

/// 2.1.120 and later cut longer names and append a hash.
const MAX_FOLDER_NAME: usize = 200;

/// The directory with all session files, one folder for each working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptDirectory {
    root: PathBuf,
}

/// A session file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptFile {
    pub path: PathBuf,
    /// The CLI's id of the session.
    pub id: Uuid,
    pub size: u64,
    /// When it was last written, in milliseconds since 1970.
    pub modified: u64,
    /// The number of the file in its file system. A file that was replaced has another one.
    pub inode: u64,
}

impl TranscriptDirectory {
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The directory of a CLI that is started with this environment.
    pub fn of_environment(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let config = set("CLAUDE_CONFIG_DIR").or_else(|| Some(set("HOME")?.join(".claude")))?;
        Some(Self::new(config.join("projects")))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All session files, in no order. Reads directories and no file; what cannot be read is left out.
    pub fn files(&self) -> Vec<TranscriptFile> {
        self.folders().flat_map(|folder| files_in(&folder, |_| true)).collect()
    }

    /// The session files in some folders, in no order.
    pub(crate) fn files_in(folders: &[PathBuf]) -> Vec<TranscriptFile> {
        folders.iter().flat_map(|folder| files_in(folder, |_| true)).collect()
    }

    /// The files whose id starts with `prefix`, the newest first.
    pub fn find(&self, prefix: &str) -> Vec<TranscriptFile> {
        let prefix = prefix.to_lowercase();
        if prefix.is_empty() {
            return Vec::new();
        }
        let matches = |name: &str| name.starts_with(&prefix);
        let found = self.folders().flat_map(|folder| files_in(&folder, matches)).collect();
        newest_first(found)
    }

    /// The files of sessions that began in a working directory, the newest first. `directory` is
    /// absolute.
    ///
    /// Different directories can have the same folder, so the files must be
    /// [asked](TranscriptFile::working_directory).
    pub fn files_of(&self, directory: &Path) -> Vec<TranscriptFile> {
        let names = folder_names(directory);
        let is_wanted = |folder: &PathBuf| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            names.iter().any(|wanted| {
                if wanted.len() > MAX_FOLDER_NAME {
                    name.starts_with(&wanted[..MAX_FOLDER_NAME])
                } else {
                    name == *wanted
                }
            })
        };
        let files = self.folders().filter(is_wanted).flat_map(|folder| files_in(&folder, |_| true));
        newest_first(files.collect())
    }

    /// The folder in which a CLI that works in a directory keeps its session files. `directory` is absolute.
    pub fn folder_of(&self, directory: &Path) -> PathBuf {
        let [mut name, _] = folder_names(directory);
        // The CLI appends a hash to what it cuts, but it also finds sessions in other folders.
        name.truncate(MAX_FOLDER_NAME);
        self.root.join(name)
    }

    /// The newest session that began in a working directory and has something to resume, among those
    /// that `is_candidate` accepts.
    pub fn newest_in(
        &self,
        directory: &Path,
        is_candidate: impl Fn(&TranscriptFile) -> bool,
    ) -> Option<TranscriptFile> {
        let mut files = self.files_of(directory).into_iter().filter(is_candidate);
        files.find(|file| {
            file.working_directory().is_some_and(|found| is_same_directory(&found, directory))
        })
    }

    pub(crate) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|it| !it.is_file())).map(|it| it.path())
    }
}

impl TranscriptFile {
    /// The file at a path, if its name is that of a session file.
    pub fn at(path: &Path) -> Option<Self> {
        let id = session_id(path.file_name()?)?;
        let metadata = path.metadata().ok().filter(Metadata::is_file)?;
        Some(Self::new(path.to_owned(), id, &metadata))
    }

    fn new(path: PathBuf, id: Uuid, metadata: &Metadata) -> Self {
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let modified = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            path,
            id,
            size: metadata.len(),
            modified: u64::try_from(modified.as_millis()).unwrap_or(u64::MAX),
            inode: inode(metadata),
        }
    }

    /// The directory in which the session began. The first lines of a file say so; a session without
    /// any message has none.
    pub fn working_directory(&self) -> Option<PathBuf> {
        let mut head = Vec::new();
        File::open(&self.path)
            .and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head))
            .ok()?;
        let lines = head.split(|byte| *byte == b'\n');
        lines.filter_map(TranscriptLine::read).find_map(|line| line.working_directory())
    }

    /// Opens the file for reading.
    pub fn open(&self) -> io::Result<File> {
        File::open(&self.path)
    }
}

/// Whether two paths are the same directory. The CLI writes the path it was started with, which may
/// contain symbolic links.
fn is_same_directory(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| one == other)
}

/// The names that the folder of a working directory can have. Up to 1.0.128 only slashes and dots were
/// replaced.
fn folder_names(directory: &Path) -> [String; 2] {
    let text = directory.to_string_lossy();
    let replaced = |keep: fn(char) -> bool| -> String {
        // The CLI counts in UTF-16: a character outside the first plane becomes two hyphens.
        let each = |character: char| {
            let count = if keep(character) { 0 } else { character.len_utf16() };
            let kept = keep(character).then_some(character);
            kept.into_iter().chain(std::iter::repeat_n('-', count))
        };
        text.chars().flat_map(each).collect()
    };
    [replaced(|it| it.is_ascii_alphanumeric()), replaced(|it| it != '/' && it != '.')]
}

fn files_in(folder: &Path, matches: impl Fn(&str) -> bool) -> Vec<TranscriptFile> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| {
        let name = entry.file_name();
        let id = session_id(&name)?;
        if !matches(name.to_str()?) {
            return None;
        }
        let metadata = entry.metadata().ok().filter(Metadata::is_file)?;
        Some(TranscriptFile::new(entry.path(), id, &metadata))
    });
    files.collect()
}

/// The session that a file is named after. Other files in the same folders belong to sub-agents.
fn session_id(name: &OsStr) -> Option<Uuid> {
    let stem = name.to_str()?.strip_suffix(".jsonl")?;
    // Shorter forms of a UUID are not the CLI's.
    (stem.len() == 36).then(|| stem.parse().ok()).flatten()
}

fn newest_first(mut files: Vec<TranscriptFile>) -> Vec<TranscriptFile> {
    files.sort_by(|one, other| (other.modified, &other.path).cmp(&(one.modified, &one.path)));
    files
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use uuid::Uuid;

    use super::{TranscriptDirectory, folder_names};

    /// Writes a file of a session that began in `cwd`, so many seconds ago.
    fn write(root: &Path, folder: &str, id: u128, cwd: &str, age: u64) {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{}.jsonl", Uuid::from_u128(id)));
        let text = format!(
            "{{\"type\":\"queue-operation\",\"sessionId\":\"x\"}}\n\
             {{\"type\":\"user\",\"cwd\":\"{cwd}\",\"uuid\":\"u\",\"message\":{{}}}}\n"
        );
        fs::write(&path, text).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }

    #[test]
    fn the_newest_session_of_a_directory_is_found_among_folders_with_the_same_name() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        write(root, "-a-b-c", 1, "/a/b_c", 50);
        write(root, "-a-b-c", 2, "/a/b/c", 10);
        write(root, "-a-b_c", 3, "/a/b_c", 20);
        write(root, "-a-b-c", 4, "/a/b_c", 30);
        fs::write(root.join("-a-b-c/agent-1.jsonl"), "{}").unwrap();
        let store = TranscriptDirectory::new(root.to_owned());
        let newest =
            |cwd: &str| store.newest_in(Path::new(cwd), |_| true).map(|it| it.id.as_u128());
        assert_eq!(newest("/a/b_c"), Some(3), "of an old version");
        assert_eq!(newest("/a/b/c"), Some(2));
        assert_eq!(newest("/a/b-c"), None);
        let known = store.newest_in(Path::new("/a/b_c"), |file| file.id.as_u128() != 3);
        assert_eq!(known.unwrap().id.as_u128(), 4);
        assert_eq!(store.files().len(), 4);
        assert_eq!(store.find(&Uuid::from_u128(2).to_string()[..36]).len(), 1);
        assert_eq!(store.find("00000000").len(), 4);
        assert!(store.find("").is_empty());
    }

    #[test]
    fn folders_are_named_after_directories() {
        let names = |path: &str| folder_names(Path::new(path));
        assert_eq!(names("/home/dev/my.project_2")[0], "-home-dev-my-project-2");
        assert_eq!(names("/home/dev/my.project_2")[1], "-home-dev-my-project_2");
        assert_eq!(names("/a/é🐕")[0], "-a----");
        let long = format!("/{}", "x".repeat(300));
        let home = tempfile::tempdir().unwrap();
        write(home.path(), &format!("-{}-a1b2", "x".repeat(199)), 1, &long, 0);
        let store = TranscriptDirectory::new(home.path().to_owned());
        assert!(store.newest_in(Path::new(&long), |_| true).is_some());
    }
}
