//! Glob and Grep, as older versions have them.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use super::Workshop;
use crate::play::input::Outcome;

/// Files that are named at most.
const MOST: usize = 100;

impl Workshop {
    pub(super) fn glob(&self, input: &Value) -> Outcome {
        let root = self.root(input);
        let pattern = input["pattern"].as_str().unwrap_or_default();
        let mut found: Vec<PathBuf> = files(&root)
            .into_iter()
            .filter(|path| {
                let near = path.strip_prefix(&root).unwrap_or(path);
                glob_matches(pattern, &near.display().to_string())
            })
            .collect();
        found.sort_by_key(|path| std::cmp::Reverse(written(path)));
        let truncated = found.len() > MOST;
        found.truncate(MOST);
        let names: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
        let content = if names.is_empty() { "No files found".to_owned() } else { names.join("\n") };
        let report = json!({
            "filenames": names, "durationMs": 1, "numFiles": names.len(), "truncated": truncated,
        });
        Outcome::plain(content, report)
    }

    pub(super) fn grep(&self, input: &Value) -> Outcome {
        let root = self.root(input);
        let pattern = input["pattern"].as_str().unwrap_or_default();
        let fold = input["-i"] == true;
        let needle = if fold { pattern.to_lowercase() } else { pattern.to_owned() };
        let mode = input["output_mode"].as_str().unwrap_or("files_with_matches");
        let only = input["glob"].as_str();
        let (mut names, mut lines) = (Vec::new(), Vec::new());
        for path in files(&root) {
            let near = path.strip_prefix(&self.around.cwd).unwrap_or(&path).display().to_string();
            if only.is_some_and(|glob| !glob_matches(glob, &near)) {
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let hits = text.lines().enumerate().filter(|(_, line)| {
                if fold { line.to_lowercase().contains(&needle) } else { line.contains(&needle) }
            });
            let hits: Vec<String> =
                hits.map(|(place, line)| format!("{near}:{}:{line}", place + 1)).collect();
            if !hits.is_empty() {
                names.push(near);
                lines.extend(hits);
            }
        }
        let content = match mode {
            _ if names.is_empty() => "No files found".to_owned(),
            "content" => lines.join("\n"),
            "count" => lines.len().to_string(),
            _ => format!("Found {} file{}\n{}", names.len(), plural(names.len()), names.join("\n")),
        };
        let report = json!({ "mode": mode, "filenames": names, "numFiles": names.len() });
        Outcome::plain(content, report)
    }

    fn root(&self, input: &Value) -> PathBuf {
        input["path"].as_str().map_or(self.around.cwd.clone(), |path| self.around.cwd.join(path))
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn written(path: &Path) -> SystemTime {
    path.metadata().and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Every file below a folder, or the file itself; hidden folders and links are left out.
fn files(root: &Path) -> Vec<PathBuf> {
    if root.is_file() {
        return vec![root.to_owned()];
    }
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !hidden => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// Whether a path matches a pattern with `*`, `?`, `**` and `{a,b}`.
fn glob_matches(pattern: &str, path: &str) -> bool {
    if let (Some(open), Some(close)) = (pattern.find('{'), pattern.find('}'))
        && open < close
    {
        let (before, after) = (&pattern[..open], &pattern[close + 1..]);
        let mut choices = pattern[open + 1..close].split(',');
        return choices.any(|choice| glob_matches(&format!("{before}{choice}{after}"), path));
    }
    matches(pattern.as_bytes(), path.as_bytes())
}

fn matches(pattern: &[u8], path: &[u8]) -> bool {
    match (pattern, path) {
        ([], []) => true,
        ([b'*', b'*', b'/', rest @ ..], _) => {
            let folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            matches(rest, path)
                || folders.map(|(place, _)| place).any(|place| matches(rest, &path[place + 1..]))
        }
        ([b'*', b'*', rest @ ..], _) => (0..=path.len()).any(|place| matches(rest, &path[place..])),
        ([b'*', rest @ ..], _) => {
            let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
            (0..=end).any(|place| matches(rest, &path[place..]))
        }
        ([b'?', rest @ ..], [byte, more @ ..]) if *byte != b'/' => matches(rest, more),
        ([first, rest @ ..], [byte, more @ ..]) if first == byte => matches(rest, more),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::glob_matches;

    #[test]
    fn patterns_match_as_globs_do() {
        assert!(glob_matches("*.txt", "a.txt"));
        assert!(!glob_matches("*.txt", "b/a.txt"));
        assert!(glob_matches("**/*.txt", "a.txt"));
        assert!(glob_matches("**/*.txt", "b/c/a.txt"));
        assert!(glob_matches("src/**", "src/b/c.rs"));
        assert!(glob_matches("*.{rs,toml}", "Cargo.toml"));
        assert!(!glob_matches("?.rs", "ab.rs"));
    }
}
