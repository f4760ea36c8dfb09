//! The published versions of Claude Code, as npm lists them, with a copy for when npm is out of reach.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::agent::new_command;
use crate::scenario::AgentVersion;

/// The versions in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedVersions {
    versions: Vec<AgentVersion>,
}

const PACKAGE: &str = "@anthropic-ai/claude-code";

impl PublishedVersions {
    fn file(cache: &Path) -> PathBuf {
        cache.join("versions.json")
    }

    /// Asks npm and keeps its answer in the cache. The error says why that was not possible.
    pub async fn fetch(cache: &Path) -> Result<Self, String> {
        let words = ["npm", "view", PACKAGE, "versions", "--json"];
        let words: Vec<OsString> = words.map(|word| OsStr::new(word).to_owned()).into();
        let mut command = new_command(&words);
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
        let output = output.map_err(|error| format!("could not start `npm`: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(published) = Self::parse(&text).filter(|_| output.status.success()) else {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let line = stderr.lines().find(|line| !line.trim().is_empty());
            return Err(format!("`npm view` failed: {}", line.unwrap_or("it listed no versions")));
        };
        // The list is of use without its copy.
        let _ = fs::create_dir_all(cache).and_then(|()| fs::write(Self::file(cache), &*text));
        Ok(published)
    }

    /// The list that was kept when npm was asked last.
    pub fn kept(cache: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(Self::file(cache)).ok()?)
    }

    /// Reads npm's answer. Versions with a suffix, such as `2.0.0-beta`, are left out.
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<String> = serde_json::from_str(text).ok()?;
        let mut versions: Vec<AgentVersion> =
            words.iter().filter_map(|word| word.parse().ok()).collect();
        versions.sort_unstable();
        versions.dedup();
        (!versions.is_empty()).then_some(Self { versions })
    }

    /// All versions, the oldest first.
    pub fn all(&self) -> &[AgentVersion] {
        &self.versions
    }

    /// The versions from this one on.
    pub fn since(&self, first: AgentVersion) -> &[AgentVersion] {
        &self.versions[self.versions.partition_point(|it| *it < first)..]
    }
}

#[cfg(test)]
mod tests {
    use super::PublishedVersions;
    use crate::scenario::AgentVersion;

    #[test]
    fn versions_are_sorted_by_number() {
        let list =
            PublishedVersions::parse(r#"["2.1.9","2.1.10","2.0.0-beta.1","1.0.24"]"#).unwrap();
        let version = |text: &str| text.parse::<AgentVersion>().unwrap();
        assert_eq!(list.all(), ["1.0.24", "2.1.9", "2.1.10"].map(version));
        assert_eq!(list.since(version("2.1.10")), [version("2.1.10")]);
        assert_eq!(list.since(version("2.0.0")), ["2.1.9", "2.1.10"].map(version));
        assert_eq!(PublishedVersions::parse("npm error"), None);
        assert_eq!(PublishedVersions::parse("[]"), None);
    }
}
