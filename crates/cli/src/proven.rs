//! The newest release of Claude Code that Towpath has been proven with.
//!
//! `build.rs` takes it from the results of the scenarios, so that it is never out of date.

use std::collections::BTreeSet;

use testbed::scenario::AgentVersion;

/// The newest release with which all scenarios were run. Empty if there is none.
const PROVEN: &str = env!("TOWPATH_PROVEN");

/// What to say about a CLI that prints this line for `--version`, if it is newer than the newest
/// release that Towpath has been proven with.
pub(crate) fn newer_than_proven(version_line: &str) -> Option<String> {
    newer_than(version_line, PROVEN)
}

/// The same for a version that an agent reports, with what it printed that Towpath does not know.
pub(crate) fn newer_with_unknown(version: &str, unknown: &BTreeSet<String>) -> Option<String> {
    let newer = newer_than_proven(version)?;
    let met = if unknown.is_empty() {
        "nothing unknown was met so far".to_owned()
    } else {
        let names: Vec<String> = unknown.iter().map(|name| format!("`{name}`")).collect();
        format!("not known are {}", names.join(", "))
    };
    Some(format!("Claude Code {version}: {newer}; {met}"))
}

fn newer_than(version_line: &str, proven: &str) -> Option<String> {
    let version: AgentVersion = version_line.split_whitespace().next()?.parse().ok()?;
    let proven: AgentVersion = proven.parse().ok()?;
    (version > proven)
        .then(|| format!("this CLI is newer than Towpath has been proven with ({proven})"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{PROVEN, newer_than, newer_than_proven, newer_with_unknown};

    #[test]
    fn what_a_newer_cli_prints_that_is_not_known_is_named() {
        let unknown = BTreeSet::from(["system/wobbled".to_owned(), "wibble".to_owned()]);
        assert_eq!(newer_with_unknown(PROVEN, &unknown), None);
        let text = newer_with_unknown("999.0.0", &unknown).unwrap();
        assert!(text.starts_with("Claude Code 999.0.0: this CLI is newer than Towpath"), "{text}");
        assert!(text.ends_with("; not known are `system/wobbled`, `wibble`"), "{text}");
        let text = newer_with_unknown("999.0.0", &BTreeSet::new()).unwrap();
        assert!(text.ends_with("; nothing unknown was met so far"), "{text}");
    }

    #[test]
    fn only_a_newer_cli_is_mentioned() {
        let text = newer_than("2.1.327 (Claude Code)", "2.1.326").unwrap();
        assert_eq!(text, "this CLI is newer than Towpath has been proven with (2.1.326)");
        assert!(newer_than("2.2.0", "2.1.326").is_some());
        for line in ["2.1.326 (Claude Code)", "2.1.37", "1.0.24 (Claude Code)", "codex 0.1", ""] {
            assert_eq!(newer_than(line, "2.1.326"), None, "{line}");
        }
        assert_eq!(newer_than("2.1.326", ""), None);
    }

    #[test]
    fn the_proven_release_comes_from_the_results() {
        let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/results");
        let store = testbed::history::HistoryStore::new(results.into());
        let releases = store.load_all().unwrap();
        let newest = releases.iter().rfind(|it| it.agent == "claude" && it.is_whole);
        assert_eq!(PROVEN, newest.unwrap().version.to_string());
        assert!(newer_than_proven("999.0.0 (Claude Code)").is_some());
    }
}
