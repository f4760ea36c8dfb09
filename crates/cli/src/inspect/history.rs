//! `towpath inspect --history`: the kinds and fields in the captures of several releases.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anstream::eprintln;
use testbed::history::{CaptureKinds, add_captures};
use wire::Reading;

use crate::exit::{CommandStatus, report_error};

/// What to do if captures cannot be read.
const HINT: &str = "give directories of captures, as `captures/` of Towpath";

/// Prints what came and went between the releases in these directories.
pub(super) fn run(directories: &[PathBuf]) -> CommandStatus {
    let mut kinds = CaptureKinds::default();
    for directory in directories {
        if let Err(error) = kinds.add_directory(directory) {
            report_error(&error, Some(HINT));
            return CommandStatus::Error;
        }
    }
    let mut page = String::new();
    kinds.write_markdown(&mut page);
    print(&page)
}

/// Adds captures that have something new to those in a directory, and prints what is new.
pub(super) fn add(captures: &Path, new: &Path) -> CommandStatus {
    let added = match add_captures(new, captures) {
        Ok(added) => added,
        Err(error) => {
            report_error(&error, Some(HINT));
            return CommandStatus::Error;
        }
    };
    let mut lines = Vec::new();
    let mut unknown = BTreeSet::new();
    for addition in &added {
        let path = addition.path.display();
        lines.push(format!("{path}: {}\n", addition.news.join(", ")));
        unknown.extend(unknown_names(&addition.path));
    }
    if added.is_empty() {
        eprintln!("note: the captures have nothing that is not in `{}`", captures.display());
    }
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.into_iter().collect();
        eprintln!("note: Towpath does not know {}", names.join(", "));
    }
    print(&lines.concat())
}

/// What a capture has that Towpath does not know.
fn unknown_names(path: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let mut names = BTreeSet::new();
    for line in bytes.split(|byte| *byte == b'\n').flat_map(wire::read) {
        match &line.reading {
            Reading::Unknown(unknown) => drop(names.insert(unknown.kind.to_string())),
            Reading::Event(event) => names.extend(event.unmodelled()),
            Reading::Mismatch(_) | Reading::Noise(_) => {}
        }
    }
    names
}

fn print(text: &str) -> CommandStatus {
    match write!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            report_error(&error, None);
            CommandStatus::Error
        }
        _ => CommandStatus::Success,
    }
}
