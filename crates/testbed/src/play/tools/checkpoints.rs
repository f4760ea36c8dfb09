//! What files were before each prompt, for hosts that want them back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::patch::hunks;

/// Files as they were when a prompt came, prompt by prompt.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    prompts: Vec<(String, BTreeMap<PathBuf, Option<String>>)>,
}

impl Checkpoints {
    /// Changes belong to this prompt from here on.
    pub(crate) fn begin(&mut self, prompt: &str) {
        self.prompts.push((prompt.to_owned(), BTreeMap::new()));
    }

    /// A file is about to change.
    pub(crate) fn before_change(&mut self, path: &Path) {
        if let Some((_, files)) = self.prompts.last_mut() {
            files.entry(path.to_owned()).or_insert_with(|| std::fs::read_to_string(path).ok());
        }
    }

    /// Puts files back to what they were before a prompt, or says what that would change.
    pub(crate) fn rewind(&mut self, prompt: &str, dry: bool) -> Value {
        let Some(place) = self.prompts.iter().position(|(it, _)| it == prompt) else {
            return json!({ "canRewind": false, "error": "No file checkpoint found for this message." });
        };
        let mut before: BTreeMap<PathBuf, Option<String>> = BTreeMap::new();
        for (_, files) in &self.prompts[place..] {
            for (path, content) in files {
                before.entry(path.clone()).or_insert_with(|| content.clone());
            }
        }
        let (mut changed, mut insertions, mut deletions) = (Vec::new(), 0, 0);
        for (path, content) in &before {
            let now = std::fs::read_to_string(path).unwrap_or_default();
            let (more, less) = count(&now, content.as_deref().unwrap_or_default());
            insertions += more;
            deletions += less;
            changed.push(path.display().to_string());
            if dry {
                continue;
            }
            let done = match content {
                Some(content) => std::fs::write(path, content),
                None => std::fs::remove_file(path),
            };
            if let Err(error) = done {
                return json!({ "canRewind": false, "error": error.to_string() });
            }
        }
        if !dry {
            self.prompts.truncate(place + 1);
            self.prompts[place].1.clear();
        }
        json!({
            "canRewind": true, "filesChanged": changed, "insertions": insertions,
            "deletions": deletions,
        })
    }
}

/// Lines more and lines less on the way from one text to another.
fn count(from: &str, to: &str) -> (usize, usize) {
    let patch = hunks(from, to);
    let lines = patch
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|hunk| hunk["lines"].as_array().cloned().unwrap_or_default());
    let mut counts = (0, 0);
    for line in lines {
        match line.as_str().and_then(|line| line.chars().next()) {
            Some('+') => counts.0 += 1,
            Some('-') => counts.1 += 1,
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::Checkpoints;

    #[test]
    fn files_are_put_back_and_created_ones_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        std::fs::write(&old, "one\n").unwrap();
        let mut checkpoints = Checkpoints::default();
        checkpoints.begin("p");
        checkpoints.before_change(&old);
        std::fs::write(&old, "two\n").unwrap();
        checkpoints.before_change(&new);
        std::fs::write(&new, "fresh\n").unwrap();
        let dry = checkpoints.rewind("p", true);
        assert_eq!((&dry["insertions"], &dry["deletions"]), (&1.into(), &2.into()));
        assert!(new.exists());
        assert_eq!(checkpoints.rewind("p", false)["canRewind"], true);
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "one\n");
        assert!(!new.exists());
        assert_eq!(checkpoints.rewind("x", false)["canRewind"], false);
    }
}
