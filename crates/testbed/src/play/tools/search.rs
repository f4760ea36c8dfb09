//! `Glob` and `Grep`, which older releases have.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::play::event::ToolOutcome;
use crate::play::tools::ToolRunner;

/// The most files that are listed.
const MOST_FILES: usize = 100;

impl ToolRunner {
    /// Lists the files whose paths match a pattern, the newest first.
    pub(crate) fn glob(&self, input: &Value) -> ToolOutcome {
        let root = self.search_root(input);
        let pattern = input["pattern"].as_str().unwrap_or_default();
        let mut files = Vec::new();
        collect_files(&root, &mut files);
        files.retain(|file| {
            let relative = file.strip_prefix(&root).unwrap_or(file).to_string_lossy();
            matches_glob(pattern, &relative)
        });
        files.sort_by_key(|file| {
            let changed = fs::metadata(file).and_then(|it| it.modified());
            (changed.unwrap_or(SystemTime::UNIX_EPOCH), file.clone())
        });
        let is_truncated = files.len() > MOST_FILES;
        files.truncate(MOST_FILES);
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let mut content = names.join("\n");
        if names.is_empty() {
            content.push_str("No files found");
        }
        if is_truncated {
            content.push_str(
                "\n(Results are truncated. Consider using a more specific path or pattern.)",
            );
        }
        let report = json!({
            "filenames": names, "durationMs": 1, "numFiles": names.len(), "truncated": is_truncated,
        });
        ToolOutcome::plain(content, report)
    }

    /// Searches files with the system's `grep`.
    pub(crate) async fn grep(&self, input: &Value) -> ToolOutcome {
        let root = self.search_root(input);
        let mode = input["output_mode"].as_str().unwrap_or("files_with_matches");
        let mut grep = self.command("grep");
        grep.args(["-rEI", "--exclude-dir=.git"]).kill_on_drop(true);
        match mode {
            "content" if input["-n"] == true => drop(grep.arg("-n")),
            "content" => {}
            "count" => drop(grep.arg("-c")),
            _ => drop(grep.arg("-l")),
        }
        if input["-i"] == true {
            grep.arg("-i");
        }
        if let Some(files) = input["glob"].as_str() {
            grep.arg(format!("--include={files}"));
        }
        grep.args(["-e", input["pattern"].as_str().unwrap_or_default(), "--"]).arg(&root);
        let output = match grep.stdin(std::process::Stdio::null()).output().await {
            Ok(output) => output,
            Err(error) => return ToolOutcome::failure(&error.to_string()),
        };
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        let prefix = format!("{}/", self.environment.cwd.display());
        let mut lines: Vec<&str> =
            found.lines().map(|line| line.strip_prefix(&prefix).unwrap_or(line)).collect();
        if mode == "count" {
            lines.retain(|line| !line.ends_with(":0"));
        }
        lines.sort_unstable();
        if let Some(most) = input["head_limit"].as_u64().and_then(|it| usize::try_from(it).ok()) {
            lines.truncate(most);
        }
        let content = match (mode, lines.len()) {
            ("content", 0) => "No matches found".to_owned(),
            (_, 0) => "No files found".to_owned(),
            ("content" | "count", _) => lines.join("\n"),
            (_, 1) => format!("Found 1 file\n{}", lines[0]),
            (_, count) => format!("Found {count} files\n{}", lines.join("\n")),
        };
        let files = if mode == "files_with_matches" { lines.clone() } else { Vec::new() };
        let report = json!({ "mode": mode, "filenames": files, "numFiles": files.len() });
        ToolOutcome::plain(content, report)
    }

    fn search_root(&self, input: &Value) -> PathBuf {
        match input["path"].as_str() {
            Some(path) => self.environment.cwd.join(path),
            None => self.environment.cwd.clone(),
        }
    }
}

/// All files below a directory, except those of git. Links are not followed.
fn collect_files(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && entry.file_name() != ".git" => {
                collect_files(&entry.path(), files);
            }
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}

/// Whether a path matches a pattern with `*`, `?` and `**`.
fn matches_glob(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) =
        (pattern.split('/').collect(), path.split('/').collect());
    matches_parts(&pattern, &path)
}

fn matches_parts(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => {
            matches_parts(rest, path)
                || path.split_first().is_some_and(|(_, below)| matches_parts(pattern, below))
        }
        (Some((part, rest)), Some((name, below))) => {
            matches_name(part.as_bytes(), name.as_bytes()) && matches_parts(rest, below)
        }
        _ => false,
    }
}

fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            matches_name(rest, name)
                || name.split_first().is_some_and(|(_, more)| matches_name(pattern, more))
        }
        (Some((b'?', rest)), Some((_, more))) => matches_name(rest, more),
        (Some((one, rest)), Some((other, more))) => one == other && matches_name(rest, more),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::matches_glob;

    #[test]
    fn patterns_match_names_and_directories() {
        let table = [
            ("*.txt", "a.txt", true),
            ("*.txt", "below/a.txt", false),
            ("**/*.txt", "a.txt", true),
            ("**/*.txt", "far/below/a.txt", true),
            ("src/**", "src/a/b.rs", true),
            ("a?.md", "ab.md", true),
            ("a?.md", "a.md", false),
        ];
        for (pattern, path, expected) in table {
            assert_eq!(matches_glob(pattern, path), expected, "{pattern} {path}");
        }
    }
}
