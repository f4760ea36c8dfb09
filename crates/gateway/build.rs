//! Embeds the files of `web/` in the binary, as a table of names and bytes for `src/pages.rs`. Scripts
//! and style sheets are embedded without comments, which are a fifth of their size, and style sheets
//! without indentation.
//! Also computes a hash of the code that renders conversations, so that a checkpoint of another build
//! is recognised.

use std::ffi::OsStr;
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
    let out = variable("OUT_DIR")?;
    let mut table = String::from("&[\n");
    if web.is_dir() {
        add_files(&web, "", &out, &mut table)?;
    }
    table.push_str("]\n");
    fs::write(out.join("pages.rs"), table)
}

fn add_files(directory: &Path, below: &str, out: &Path, table: &mut String) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || NOT_SERVED.contains(&name.as_str()) || name.ends_with(".d.ts") {
            continue;
        }
        let path = entry.path().canonicalize()?;
        if path.is_dir() {
            add_files(&path, &format!("{below}{name}/"), out, table)?;
        } else {
            let source = || fs::read_to_string(&path);
            let stripped = match path.extension().and_then(OsStr::to_str) {
                Some("css") => Some(stripped_style(&source()?)),
                Some("js") => Some(stripped_script(&source()?)),
                _ => None,
            };
            let path = match stripped {
                Some(text) => {
                    let copy = out.join(format!("{below}{name}").replace('/', "-"));
                    fs::write(&copy, text)?;
                    copy
                }
                None => path,
            };
            let (name, path) = (format!("{below}{name}"), path.to_string_lossy());
            let _ = writeln!(table, "({name:?}, include_bytes!({path:?})),");
        }
    }
    Ok(())
}

/// A style sheet without comments, indentation and empty lines.
fn stripped_style(style: &str) -> String {
    let style = without_comments(style);
    // A line break separates as much as the space that it replaces.
    let lines = style.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// A script without the comments that have lines of their own. Others are kept, because telling them
/// from strings and patterns takes a parser.
fn stripped_script(script: &str) -> String {
    let mut kept = String::with_capacity(script.len());
    let mut in_comment = false;
    for line in script.lines() {
        let text = line.trim();
        let starts = !in_comment && text.starts_with("/*");
        if in_comment || starts {
            in_comment = !text.contains("*/");
            // Code may follow: `/** @type {Element} */ (it)`.
            let code = text.split_once("*/").map_or("", |(_, code)| code.trim());
            if code.is_empty() {
                continue;
            }
            if starts {
                kept.push_str(line);
            } else {
                kept.push_str(code);
            }
        } else if text.is_empty() || text.starts_with("//") {
            continue;
        } else {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}

/// Removes comments, but not what looks like one in a string.
fn without_comments(style: &str) -> String {
    let mut kept = String::with_capacity(style.len());
    let mut rest = style.chars().peekable();
    let mut quote = None;
    while let Some(c) = rest.next() {
        if quote.is_none() && c == '/' && rest.next_if_eq(&'*').is_some() {
            let mut last = ' ';
            for c in rest.by_ref() {
                if last == '*' && c == '/' {
                    break;
                }
                last = c;
            }
            continue;
        }
        kept.push(c);
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) if c == '\\' => kept.extend(rest.next()),
            None if matches!(c, '"' | '\'') => quote = Some(c),
            _ => {}
        }
    }
    kept
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
