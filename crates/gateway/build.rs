//! Embeds the files of `web/` in the binary, as a table of names and bytes for `src/pages.rs`.
//! Also computes a hash of the code that renders conversations, so that a checkpoint of another build
//! is recognised.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Files for development only.
const NOT_SERVED: &[&str] = &["node_modules", "package.json", "package-lock.json", "tsconfig.json"];

/// The code that renders conversations.
const RENDERING_CODE: &[&str] = &["../wire/src", "../view/src", "src/live", "src/api"];

fn main() -> io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "cargo passes paths to build scripts in variables"
    )]
    let variable = |name| env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let here = variable("CARGO_MANIFEST_DIR")?;
    let mut edition = DefaultHasher::new();
    for directory in RENDERING_CODE {
        println!("cargo::rerun-if-changed={}", here.join(directory).display());
        hash_files(&here.join(directory), &mut edition)?;
    }
    println!("cargo::rustc-env=TOWPATH_VIEW_EDITION={:016x}", edition.finish());
    let web = here.join("../../web");
    println!("cargo::rerun-if-changed={}", web.display());
    let mut table = String::from("&[\n");
    if web.is_dir() {
        add_files(&web, "", &mut table)?;
    }
    table.push_str("]\n");
    fs::write(variable("OUT_DIR")?.join("pages.rs"), table)
}

fn add_files(directory: &Path, below: &str, table: &mut String) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || NOT_SERVED.contains(&name.as_str()) || name.ends_with(".d.ts") {
            continue;
        }
        let path = entry.path().canonicalize()?;
        if path.is_dir() {
            add_files(&path, &format!("{below}{name}/"), table)?;
        } else {
            let (name, path) = (format!("{below}{name}"), path.to_string_lossy());
            let _ = writeln!(table, "({name:?}, include_bytes!({path:?})),");
        }
    }
    Ok(())
}

fn hash_files(directory: &Path, edition: &mut DefaultHasher) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type()?.is_dir() {
            hash_files(&entry.path(), edition)?;
        } else {
            (entry.file_name(), fs::read(entry.path())?).hash(edition);
        }
    }
    Ok(())
}
