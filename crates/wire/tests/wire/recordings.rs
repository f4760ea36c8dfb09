//! Loads all captures of the project.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn all() -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    let mut found = Vec::new();
    collect(&root, &mut found);
    found.sort();
    assert!(found.len() > 100, "captures are missing under {}", root.display());
    found
}

/// The captures of Claude Code: their directories are named by its versions.
pub(crate) fn of_claude() -> Vec<(PathBuf, Vec<u8>)> {
    let is_version = |path: &Path| {
        let version = path.ancestors().nth(2).and_then(Path::file_name);
        version.and_then(|it| it.to_str()).is_some_and(|it| it.starts_with(char::is_numeric))
    };
    let captures: Vec<_> = all().into_iter().filter(|(path, _)| is_version(path)).collect();
    assert!(captures.len() > 100, "captures of Claude Code are missing");
    captures
}

fn collect(directory: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            let bytes = fs::read(&path).expect("a readable capture");
            found.push((path, bytes));
        }
    }
}
