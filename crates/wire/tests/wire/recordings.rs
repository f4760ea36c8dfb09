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
