//! The kinds of lines and their fields in the captures, by release.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::scenario::AgentVersion;

/// Which kinds and fields each captured release has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureKinds {
    releases: BTreeMap<AgentVersion, BTreeMap<String, BTreeSet<String>>>,
}

/// Captures could not be read.
#[derive(Debug, thiserror::Error)]
#[error("could not read `{}`", path.display())]
pub struct CaptureKindsError {
    path: PathBuf,
    source: io::Error,
}

impl CaptureKindsError {
    pub(super) fn new(path: &Path, source: io::Error) -> Self {
        Self { path: path.to_owned(), source }
    }
}

/// What is part of these objects counts as fields of the line, because the line says little else.
const OPENED: [&str; 4] = ["message", "request", "response", "event"];

impl CaptureKinds {
    /// Reads the captures below a directory: those in directories that are called like a version.
    pub fn load(directory: &Path) -> Result<Self, CaptureKindsError> {
        let mut kinds = Self::default();
        kinds.add_directory(directory)?;
        Ok(kinds)
    }

    /// Adds the captures of a directory that is called like a version, or of those in it.
    pub fn add_directory(&mut self, directory: &Path) -> Result<(), CaptureKindsError> {
        for (version, path) in Self::files(directory)? {
            let text = fs::read(&path).map_err(|source| CaptureKindsError::new(&path, source))?;
            self.add_text(version, &String::from_utf8_lossy(&text));
        }
        Ok(())
    }

    /// The captures of such a directory, each with its version, in the order of the versions.
    pub(super) fn files(
        directory: &Path,
    ) -> Result<Vec<(AgentVersion, PathBuf)>, CaptureKindsError> {
        let version_of = |path: &Path| {
            path.file_name().unwrap_or_default().to_string_lossy().parse::<AgentVersion>().ok()
        };
        let mut files = Vec::new();
        if let Some(version) = version_of(directory) {
            add_files(directory, version, &mut files)?;
            return Ok(files);
        }
        for path in children(directory)? {
            if let (true, Some(version)) = (path.is_dir(), version_of(&path)) {
                add_files(&path, version, &mut files)?;
            }
        }
        files.sort();
        Ok(files)
    }

    /// What a capture has that no release up to its version has: kinds, and fields of other kinds as
    /// `kind: field`.
    pub(super) fn news(&self, version: AgentVersion, text: &str) -> Vec<String> {
        let mut capture = Self::default();
        capture.add_text(version, text);
        let earlier = || self.releases.range(..=version).map(|(_, kinds)| kinds);
        let mut news = Vec::new();
        for (kind, fields) in capture.releases.into_values().flatten() {
            if !earlier().any(|kinds| kinds.contains_key(&kind)) {
                news.push(kind);
                continue;
            }
            let is_new = |field: &&String| {
                !earlier().any(|kinds| kinds.get(&kind).is_some_and(|it| it.contains(*field)))
            };
            news.extend(fields.iter().filter(is_new).map(|field| format!("{kind}: {field}")));
        }
        news
    }

    /// Adds lines that a release has printed. What is not an event is left out.
    pub fn add_text(&mut self, version: AgentVersion, text: &str) {
        let kinds = self.releases.entry(version).or_default();
        for line in text.lines() {
            let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
            let Some(kind) = line_kind(&value) else { continue };
            kinds.entry(kind).or_default().extend(fields_of(&value));
        }
    }

    /// The releases that have captures, oldest first.
    pub fn versions(&self) -> impl Iterator<Item = AgentVersion> {
        self.releases.keys().copied()
    }

    pub fn has_kind(&self, version: AgentVersion, kind: &str) -> bool {
        self.releases.get(&version).is_some_and(|kinds| kinds.contains_key(kind))
    }

    /// Whether a field is in lines of a kind, or of any kind with this `type`.
    pub fn has_field(&self, version: AgentVersion, kind: &str, field: &str) -> bool {
        let Some(kinds) = self.releases.get(&version) else { return false };
        let is_meant = |it: &str| it == kind || it.split('/').next() == Some(kind);
        kinds.iter().any(|(it, fields)| is_meant(it) && fields.contains(field))
    }

    /// Whether there is anything to say.
    pub fn is_empty(&self) -> bool {
        self.releases.values().all(BTreeMap::is_empty)
    }

    /// A section for the page about versions.
    pub fn write_markdown(&self, page: &mut String) {
        let versions: Vec<String> = self.releases.keys().map(ToString::to_string).collect();
        let _ = writeln!(page, "## Claude Code: kinds of lines and their fields\n");
        let _ = writeln!(
            page,
            "From the captures of {} releases: {}.\nWhat came is not in the captures of the release before, \
             what went is not in those of this one.\nSome kinds are rare, so one that went may only not have been \
             captured.",
            versions.len(),
            versions.join(", ")
        );
        let mut steps: Vec<_> = self.releases.iter().zip(self.releases.iter().skip(1)).collect();
        steps.reverse();
        for ((before, old), (after, new)) in steps {
            let _ = writeln!(page, "\n### Between {before} and {after}\n");
            let lines = compare(old, new);
            if lines.is_empty() {
                page.push_str("Nothing came or went.\n");
            }
            for line in lines {
                let _ = writeln!(page, "- {line}");
            }
        }
        page.push('\n');
    }
}

/// What came and went between two releases, one sentence each.
fn compare(
    old: &BTreeMap<String, BTreeSet<String>>,
    new: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let list = |names: &[&String]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let mut lines = Vec::new();
    for (verb, from, to) in [("came", old, new), ("went", new, old)] {
        let kinds: Vec<&String> = to.keys().filter(|kind| !from.contains_key(*kind)).collect();
        if !kinds.is_empty() {
            lines.push(format!("Kinds that {verb}: {}", list(&kinds)));
        }
    }
    for (kind, fields) in new {
        let Some(earlier) = old.get(kind) else { continue };
        let came: Vec<&String> = fields.difference(earlier).collect();
        let went: Vec<&String> = earlier.difference(fields).collect();
        let mut parts = Vec::new();
        if !came.is_empty() {
            parts.push(format!("came {}", list(&came)));
        }
        if !went.is_empty() {
            parts.push(format!("went {}", list(&went)));
        }
        if !parts.is_empty() {
            lines.push(format!("`{kind}`: {}", parts.join("; ")));
        }
    }
    lines
}

/// `type` or `type/subtype`, as in scenarios.
pub(crate) fn line_kind(value: &Value) -> Option<String> {
    let kind = value.get("type")?.as_str()?;
    let inner = |name: &str, field: &str| value.get(name)?.get(field)?.as_str();
    let subtype = value.get("subtype").and_then(Value::as_str);
    let subtype = subtype
        .or_else(|| inner("request", "subtype"))
        .or_else(|| inner("response", "subtype"))
        .or_else(|| inner("event", "type"));
    Some(match subtype {
        Some(subtype) => format!("{kind}/{subtype}"),
        None => kind.to_owned(),
    })
}

/// The fields of a line, and those of the objects that are opened.
pub(super) fn fields_of(value: &Value) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    for (name, part) in value.as_object().into_iter().flatten() {
        fields.insert(name.clone());
        if OPENED.contains(&name.as_str()) {
            let inner = part.as_object().into_iter().flatten();
            fields.extend(inner.map(|(inner, _)| format!("{name}.{inner}")));
        }
    }
    fields
}

/// Adds the captures of one release.
fn add_files(
    directory: &Path,
    version: AgentVersion,
    files: &mut Vec<(AgentVersion, PathBuf)>,
) -> Result<(), CaptureKindsError> {
    for path in children(directory)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Session files and requests have lines of another format.
        if path.is_dir() && name != "transcript" {
            add_files(&path, version, files)?;
        } else if name.ends_with(".jsonl") && name != "stdin.jsonl" && name != "requests.jsonl" {
            files.push((version, path));
        }
    }
    Ok(())
}

fn children(directory: &Path) -> Result<Vec<PathBuf>, CaptureKindsError> {
    let failed = |source| CaptureKindsError { path: directory.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::CaptureKinds;
    use crate::scenario::AgentVersion;

    #[test]
    fn what_came_and_went_is_listed_newest_first() {
        let mut kinds = CaptureKinds::default();
        assert!(kinds.is_empty());
        let old = "{\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\"/\",\"old\":1}\nnoise\n\
                   {\"type\":\"gone\"}\n";
        let new = "{\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\"/\",\"new\":1}\n\
                   {\"type\":\"control_request\",\"request\":{\"subtype\":\"x\",\"a\":1}}\n";
        kinds.add_text(AgentVersion(2, 1, 9), old);
        kinds.add_text(AgentVersion(2, 1, 10), new);
        kinds.add_text(AgentVersion(2, 1, 11), new);
        let mut page = String::new();
        kinds.write_markdown(&mut page);
        let (_, steps) = page.split_once("### ").unwrap();
        assert_eq!(
            steps,
            "Between 2.1.10 and 2.1.11\n\nNothing came or went.\n\n\
             ### Between 2.1.9 and 2.1.10\n\n\
             - Kinds that came: `control_request/x`\n\
             - Kinds that went: `gone`\n\
             - `system/init`: came `new`; went `old`\n\n"
        );
    }

    #[test]
    fn captures_are_found_by_their_version() {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("2.1.9/stdout/a.jsonl", "{\"type\":\"a\"}\n");
        write("2.1.9/transcript/a.jsonl", "{\"type\":\"other\"}\n");
        write("2.1.10/name/stdout.jsonl", "{\"type\":\"b\"}\n");
        write("2.1.10/name/stdin.jsonl", "{\"type\":\"other\"}\n");
        write("codex-0.1.0/stream/a.jsonl", "{\"type\":\"other\"}\n");
        let mut page = String::new();
        let kinds = CaptureKinds::load(directory.path()).unwrap();
        kinds.write_markdown(&mut page);
        assert!(page.contains("- Kinds that came: `b`\n- Kinds that went: `a`\n"), "{page}");
        assert!(!page.contains("other"), "{page}");
        let mut one = CaptureKinds::default();
        one.add_directory(&directory.path().join("2.1.9")).unwrap();
        assert!(!one.is_empty() && one != kinds);
        assert!(CaptureKinds::load(&directory.path().join("missing")).is_err());
    }
}
