//! Puts the pages in `web/` into the binary: a table of names and bytes that `src/pages.rs` looks in.
//! And a sum over the code that decides what a conversation looks like, by which a saved view is
//! known to be of this build.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What belongs to the work on the pages and not to the pages.
const NOT_SERVED: &[&str] = &["node_modules", "package.json", "package-lock.json", "tsconfig.json"];

/// The code that decides what a conversation looks like.
const LOOKS: &[&str] = &["../wire/src", "../view/src", "src/live", "src/api"];

fn main() -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "it is how cargo says where things are")]
    let variable = |name| env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let here = variable("CARGO_MANIFEST_DIR")?;
    let mut edition = DefaultHasher::new();
    for directory in LOOKS {
        println!("cargo::rerun-if-changed={}", here.join(directory).display());
        sum(&here.join(directory), &mut edition)?;
    }
    println!("cargo::rustc-env=TOWPATH_VIEW_EDITION={:016x}", edition.finish());
    let web = here.join("../../web");
    println!("cargo::rerun-if-changed={}", web.display());
    let mut table = String::from("&[\n");
    if web.is_dir() {
        add(&web, "", &mut table)?;
    }
    table.push_str("]\n");
    fs::write(variable("OUT_DIR")?.join("pages.rs"), table)
}

fn add(directory: &Path, below: &str, table: &mut String) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || NOT_SERVED.contains(&name.as_str()) || name.ends_with(".d.ts") {
            continue;
        }
        let path = entry.path().canonicalize()?;
        if path.is_dir() {
            add(&path, &format!("{below}{name}/"), table)?;
        } else {
            let (name, path) = (format!("{below}{name}"), path.to_string_lossy());
            let _ = writeln!(table, "({name:?}, include_bytes!({path:?})),");
        }
    }
    Ok(())
}

fn sum(directory: &Path, edition: &mut DefaultHasher) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type()?.is_dir() {
            sum(&entry.path(), edition)?;
        } else {
            (entry.file_name(), fs::read(entry.path())?).hash(edition);
        }
    }
    Ok(())
}
