//! Which scenarios to hold.

use std::fs;
use std::path::{Path, PathBuf};

use testbed::scenario::{Names, matches_text};

/// Where the book lies.
const BOOK: &str = "scenarios";
const ENDING: &str = "scenario";

/// Files of scenarios, in order.
pub(super) struct Selected {
    pub(super) files: Vec<PathBuf>,
}

/// There is nothing to hold.
#[derive(Debug, thiserror::Error)]
pub(super) enum NothingFound {
    #[error("there is no directory `{BOOK}` here")]
    NoBook,
    #[error("there is no scenario in `{0}`")]
    Empty(String),
    #[error("no scenario is called `{0}`")]
    NoSuch(String),
}

impl NothingFound {
    pub(super) fn hint(&self) -> String {
        match self {
            Self::NoBook => "name files or directories: `towpath verify path/to/x.scenario`".into(),
            Self::Empty(_) => format!("files of scenarios end in `.{ENDING}`"),
            Self::NoSuch(_) => "`towpath verify --list` names those there are".into(),
        }
    }
}

impl Selected {
    /// Files, directories, names and patterns of names; without any, the whole book.
    pub(super) fn by(words: &[String]) -> Result<Self, NothingFound> {
        let mut files: Vec<PathBuf> = Vec::new();
        if words.is_empty() {
            files = book()?;
        }
        for word in words {
            let found = one(word)?;
            files.extend(found.into_iter().filter(|it| !files.contains(it)).collect::<Vec<_>>());
        }
        Ok(Self { files })
    }
}

fn one(word: &str) -> Result<Vec<PathBuf>, NothingFound> {
    let path = Path::new(word);
    if path.is_dir() {
        let files = below(path);
        return if files.is_empty() { Err(NothingFound::Empty(word.into())) } else { Ok(files) };
    }
    let is_file = path.extension().is_some_and(|it| it == ENDING);
    if is_file || path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let pattern = word.replace('*', "…");
    let mut files = book()?;
    files.retain(|file| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        matches_text(&pattern, &name, &Names::default())
    });
    if files.is_empty() { Err(NothingFound::NoSuch(word.into())) } else { Ok(files) }
}

fn book() -> Result<Vec<PathBuf>, NothingFound> {
    if !Path::new(BOOK).is_dir() {
        return Err(NothingFound::NoBook);
    }
    let files = below(Path::new(BOOK));
    if files.is_empty() { Err(NothingFound::Empty(BOOK.into())) } else { Ok(files) }
}

/// All scenarios below a directory, in the order of their paths.
fn below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .flat_map(|entry| {
            let path = entry.path();
            if path.is_dir() {
                below(&path)
            } else if path.extension().is_some_and(|it| it == ENDING) {
                vec![path]
            } else {
                Vec::new()
            }
        })
        .collect();
    // By name: `hello` before `hello-again`, which their endings would turn round.
    files.sort_by_key(|file| file.with_extension(""));
    files
}
