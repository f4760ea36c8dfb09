//! Embeds the files of `web/` in the binary, as a table of names and bytes for `src/pages.rs`. Scripts
//! and style sheets are embedded without comments and indentation, which are a third of their size, and
//! a second time as compressed as Brotli can, which takes too long for doing it at each request.
//! Also computes a hash of the code that renders conversations, so that a checkpoint of another build
//! is recognised.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
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
    let style = fs::read_to_string(here.join("../view/src/html/style.css"))?;
    let style = stripped_style(&style);
    fs::write(out.join("view.css"), &style)?;
    fs::write(out.join("view.css.br"), compressed(style.as_bytes())?)?;
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
            let small = if is_text(&path) {
                let copy = out.join(format!("{below}{name}.br").replace('/', "-"));
                fs::write(&copy, compressed(&fs::read(&path)?)?)?;
                format!("Some(include_bytes!({:?}))", copy.to_string_lossy())
            } else {
                "None".to_owned()
            };
            let (name, path) = (format!("{below}{name}"), path.to_string_lossy());
            let _ = writeln!(table, "({name:?}, include_bytes!({path:?}), {small}),");
        }
    }
    Ok(())
}

/// Whether a file is worth compressing.
fn is_text(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    matches!(extension, Some("css" | "html" | "js" | "svg" | "webmanifest"))
}

fn compressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    const BUFFER: usize = 64 * 1024;
    const BEST_QUALITY: u32 = 11;
    const WINDOW_BITS: u32 = 18;
    let mut encoder = brotli::CompressorWriter::new(Vec::new(), BUFFER, BEST_QUALITY, WINDOW_BITS);
    encoder.write_all(bytes)?;
    Ok(encoder.into_inner())
}

/// A style sheet without comments, indentation and spaces that separate nothing.
fn stripped_style(style: &str) -> String {
    let style = without_comments(style);
    let mut kept = String::with_capacity(style.len());
    for line in style.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // What is quoted is not changed.
        let is_plain = !line.contains(['"', '\'']);
        match (line.strip_suffix(" {"), line.split_once(": ")) {
            (Some(selector), _) => {
                kept.push_str(selector);
                kept.push('{');
            }
            (None, Some(_)) if is_plain && line.ends_with(';') => {
                kept.push_str(&line.replace(": ", ":").replace("; ", ";"));
            }
            _ => kept.push_str(line),
        }
        // Elsewhere a line break separates as much as the space that it replaces.
        if !line.ends_with(['{', '}', ';', ',']) {
            kept.push('\n');
        }
    }
    kept
}

/// A script without indentation, empty lines, types and the comments that have lines of their own. Other
/// comments are kept, because telling them from strings and patterns takes a parser.
fn stripped_script(script: &str) -> String {
    // Spaces in a text of several lines matter. Such a text begins and ends in lines with an odd number of
    // quotes.
    let has_long_texts = script.lines().any(|line| line.matches('`').count() % 2 == 1);
    let mut kept = String::with_capacity(script.len());
    let mut in_comment = false;
    for line in script.lines() {
        let text = line.trim();
        let starts = !in_comment && text.starts_with("/*");
        let code = if in_comment || starts {
            in_comment = !text.contains("*/");
            // Code may follow: `/** @type {Element} */ (it)`.
            text.split_once("*/").map_or("", |(_, code)| code.trim())
        } else if text.starts_with("//") {
            ""
        } else if has_long_texts {
            line
        } else {
            text
        };
        if code.trim().is_empty() {
            continue;
        }
        let code = without_types(code);
        if has_long_texts {
            kept.push_str(&code);
            kept.push('\n');
            continue;
        }
        // Between these, a line break separates nothing.
        if kept.ends_with('\n') && code.starts_with([')', '}', ']', '.', ',', '?', ':']) {
            kept.pop();
        }
        kept.push_str(&without_spaces(&code));
        if !code.ends_with([',', ';', '(', '{', '[']) || code.contains("//") {
            kept.push('\n');
        }
    }
    kept
}

/// A line without the spaces beside signs, except in texts. A line that may have a pattern, or a text
/// that is hard to tell from code, is not changed.
fn without_spaces(line: &str) -> String {
    let parts: Vec<&str> = line.split('"').collect();
    let has_slash = |(index, part): (usize, &&str)| index % 2 == 0 && part.contains('/');
    if line.contains(['\'', '`', '\\'])
        || parts.len().is_multiple_of(2)
        || parts.iter().enumerate().any(has_slash)
    {
        return line.to_owned();
    }
    let parts = parts.iter().enumerate().map(|(index, part)| {
        if index % 2 == 0 { without_spaces_in_code(part) } else { (*part).to_owned() }
    });
    parts.collect::<Vec<_>>().join("\"")
}

fn without_spaces_in_code(code: &str) -> String {
    let is_sign = |it: char| ",;=<>(){}[]:?&|!".contains(it);
    let mut kept = String::with_capacity(code.len());
    let mut rest = code.chars().peekable();
    while let Some(next) = rest.next() {
        let beside_sign = kept.ends_with(is_sign) || rest.peek().is_some_and(|it| is_sign(*it));
        if next != ' ' || !beside_sign {
            kept.push(next);
        }
    }
    kept
}

/// A line without types of expressions, which are comments: `const it = /** @type {Element} */ (found)`.
fn without_types(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("/** @type {") {
        let Some((_, after)) = after.split_once("} */") else { break };
        kept.push_str(before);
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    kept.push_str(rest);
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
