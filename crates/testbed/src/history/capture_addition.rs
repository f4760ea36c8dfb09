//! Adding captures of a new release to those of the project: only those with a kind or field that no
//! captured release before it has.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::capture_kinds::{CaptureKinds, CaptureKindsError};
use crate::scenario::AgentVersion;

/// The working directory in all captures of the project.
const PROJECT: &str = "/home/dev/project";

/// A capture that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureAddition {
    pub version: AgentVersion,
    /// The new file.
    pub path: PathBuf,
    /// The kinds that are new, and the fields that are new in kinds that are not, as `kind: field`.
    pub news: Vec<String>,
}

/// Captures could not be added.
#[derive(Debug, thiserror::Error)]
pub enum CaptureAdditionError {
    #[error(transparent)]
    Read(#[from] CaptureKindsError),
    #[error("could not write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Copies captures from a directory of releases, such as `towpath verify --record` writes, into the
/// project's directory of captures. Returns what was added, in the order of the releases.
pub fn add_captures(
    from: &Path,
    project: &Path,
) -> Result<Vec<CaptureAddition>, CaptureAdditionError> {
    let mut known = CaptureKinds::load(project)?;
    let mut added = Vec::new();
    for (version, capture) in CaptureKinds::files(from)? {
        let text = fs::read(&capture)
            .map_err(|source| CaptureKindsError::new(&capture, source))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())?;
        let news = known.news(version, &text);
        if news.is_empty() {
            continue;
        }
        known.add_text(version, &text);
        let path = project.join(version.to_string()).join("stdout").join(file_name(&capture));
        let failed = |source| CaptureAdditionError::Write { path: path.clone(), source };
        let directory = path.parent().unwrap_or(project);
        fs::create_dir_all(directory).map_err(failed)?;
        // A capture that is there already has other lines, and is not replaced.
        let mut file = fs::File::create_new(&path).map_err(failed)?;
        io::Write::write_all(&mut file, normalize(&text).as_bytes()).map_err(failed)?;
        added.push(CaptureAddition { version, path, news });
    }
    Ok(added)
}

/// The name of a capture in the project: that of its scenario, or its own.
fn file_name(capture: &Path) -> String {
    let parent = capture.parent().and_then(Path::file_name);
    match capture.file_stem() {
        Some(stem) if stem != "stdout" => format!("{}.jsonl", stem.to_string_lossy()),
        _ => format!("{}.jsonl", parent.unwrap_or_default().to_string_lossy()),
    }
}

/// The lines with the directories of the project's captures instead of those of a sandbox.
fn normalize(text: &str) -> String {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut directories = BTreeSet::new();
    for line in lines {
        directories.extend(line["cwd"].as_str().map(str::to_owned));
    }
    let mut text = text.to_owned();
    for directory in directories {
        // The name of the directory for transcripts, and then the directory itself.
        let as_name = |path: &str| path.replace(['/', '.'], "-");
        text = text.replace(&as_name(&directory), &as_name(PROJECT)).replace(&directory, PROJECT);
        if let Some(sandbox) = directory.strip_suffix("/project") {
            text = text.replace(&format!("{sandbox}/home"), "/home/dev");
            text = text.replace(&format!("{sandbox}/tmp"), "/tmp");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::add_captures;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn only_captures_with_something_new_are_added() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let init = r#"{"type":"system","subtype":"init","cwd":"/tmp/towpath-x/project"}"#;
        write(root, "captures/2.1.9/stdout/old.jsonl", &format!("{init}\n"));
        // A later release does not make a kind old.
        write(root, "captures/3.0.0/stdout/later.jsonl", "{\"type\":\"wibble\"}\n");
        let file = r#"{"type":"user","file":"/tmp/towpath-x/home/.claude/projects/-tmp-towpath-x-project/a"}"#;
        let new = format!("{init}\n{file}\n{{\"type\":\"wibble\"}}\n");
        write(root, "new/2.1.10/first/stdout.jsonl", &new);
        write(root, "new/2.1.10/first/stdin.jsonl", "{\"type\":\"sent\"}\n");
        write(root, "new/2.1.10/second/stdout.jsonl", &new);
        write(
            root,
            "new/2.1.10/third/stdout.jsonl",
            &new.replace("\"init\"", "\"init\",\"more\":1"),
        );
        let captures = root.join("captures");
        let added = add_captures(&root.join("new"), &captures).unwrap();
        let shown: Vec<String> = added
            .iter()
            .map(|it| {
                let path = it.path.strip_prefix(&captures).unwrap().display();
                format!("{} {path}: {}", it.version, it.news.join(", "))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "2.1.10 2.1.10/stdout/first.jsonl: user, wibble",
                "2.1.10 2.1.10/stdout/third.jsonl: system/init: more",
            ]
        );
        let copy = fs::read_to_string(captures.join("2.1.10/stdout/first.jsonl")).unwrap();
        assert!(copy.starts_with(&init.replace("/tmp/towpath-x", "/home/dev")), "{copy}");
        assert!(copy.contains("/home/dev/.claude/projects/-home-dev-project/a"), "{copy}");
        assert!(add_captures(&root.join("new"), &captures).unwrap().is_empty());
        assert!(add_captures(&root.join("none"), &captures).is_err());
    }
}
