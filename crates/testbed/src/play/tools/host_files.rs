//! The files that a host asks for with control requests.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::play::event::HostFileQuery;

impl HostFileQuery {
    /// The answer, or an error for the host.
    pub(crate) fn answer(&self, cwd: &Path) -> Result<Value, String> {
        match self {
            Self::Suggestions(query) => Ok(suggestions(query, cwd)),
            Self::Contents { path, max } => {
                contents(path, *max, cwd).ok_or_else(|| format!("read denied: {path}"))
            }
        }
    }
}

/// The entries of the working directory. 2.1.325 finds other files once it has listed all of them, which
/// it has not in short sessions.
fn suggestions(query: &str, cwd: &Path) -> Value {
    let is_known = matches!(query, "" | "./");
    let entries = is_known.then(|| fs::read_dir(cwd).ok()).flatten();
    let entries = entries.into_iter().flatten().flatten().map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let end = if entry.path().is_dir() { "/" } else { "" };
        json!({ "path": format!("{name}{end}") })
    });
    let entries: Vec<Value> = entries.collect();
    json!({ "suggestions": entries, "cwd": cwd.display().to_string() })
}

/// A file in the project, or `None` if there is no such file.
fn contents(path: &str, max: Option<usize>, cwd: &Path) -> Option<Value> {
    let absolute = fs::canonicalize(cwd.join(path)).ok()?;
    if path.is_empty() || !absolute.starts_with(fs::canonicalize(cwd).ok()?) {
        return None;
    }
    let bytes = fs::read(&absolute).ok()?;
    let end = max.unwrap_or(bytes.len()).min(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    let mut answer = json!({
        "contents": text, "absPath": cwd.join(path).display().to_string(),
        "lossy": std::str::from_utf8(&bytes[..end]).is_err(), "requested_path": path,
    });
    if end < bytes.len() {
        answer["truncated"] = true.into();
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::HostFileQuery;

    #[test]
    fn only_files_of_the_project_are_shown() {
        let directory = tempfile::tempdir().unwrap();
        let cwd = directory.path().join("project");
        std::fs::create_dir_all(cwd.join("src")).unwrap();
        std::fs::write(cwd.join("src/a.txt"), "one\n").unwrap();
        std::fs::write(directory.path().join("secret"), "no").unwrap();
        let contents =
            |path: &str, max| HostFileQuery::Contents { path: path.to_owned(), max }.answer(&cwd);
        let whole = contents("src/a.txt", None).unwrap();
        assert_eq!((&whole["contents"], &whole["truncated"]), (&json!("one\n"), &json!(null)));
        let part = contents("src/a.txt", Some(2)).unwrap();
        assert_eq!((&part["contents"], &part["truncated"]), (&json!("on"), &json!(true)));
        assert_eq!(contents("../secret", None), Err("read denied: ../secret".to_owned()));
        assert_eq!(contents("", None), Err("read denied: ".to_owned()));
        let found = HostFileQuery::Suggestions("./".to_owned()).answer(&cwd).unwrap();
        assert_eq!(found["suggestions"], json!([{ "path": "src/" }]));
        let found = HostFileQuery::Suggestions("src/".to_owned()).answer(&cwd).unwrap();
        assert_eq!(found["suggestions"], json!([]));
    }
}
