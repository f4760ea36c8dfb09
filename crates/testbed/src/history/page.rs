//! The page about versions, `docs/versions.md`, made from the files of the project.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::capture_kinds::{CaptureKinds, CaptureKindsError};
use super::changes::{HistoryChange, HistoryEvidence, changes_of};
use super::matrix::{HistoryCell, HistoryMatrix, HistoryScenario};
use super::results::{HistoryOutcome, HistoryRelease, HistoryStore, HistoryStoreError};
use crate::scenario::{AgentVersion, CLAUDE, Scenario, ScenarioError};

/// What the page is made from.
#[derive(Clone, Debug)]
pub struct VersionsPage {
    scenarios: Vec<HistoryScenario>,
    releases: Vec<HistoryRelease>,
    /// The published versions of each agent, as far as they are known.
    published: BTreeMap<String, Vec<AgentVersion>>,
    kinds: CaptureKinds,
}

/// The page could not be made.
#[derive(Debug, thiserror::Error)]
pub enum HistoryPageError {
    #[error("could not list `{}`", path.display())]
    List { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Results(#[from] HistoryStoreError),
    #[error(transparent)]
    Captures(#[from] CaptureKindsError),
}

const INTRODUCTION: &str = "\
# Versions of the agents

This page is generated from the results in `scenarios/results`, the conditions in the scenarios and
the captures, with `towpath verify --history > docs/versions.md`. Do not edit it.
[Scenarios](scenarios.md#the-history-of-the-protocol) says how the results are made.

";

impl VersionsPage {
    /// Reads the project at `root`.
    pub fn load(root: &Path) -> Result<Self, HistoryPageError> {
        let store = HistoryStore::new(root.join("scenarios/results"));
        let mut scenarios = Vec::new();
        for directory in ["scenarios", "scenarios/acp"] {
            if directory != "scenarios" && !root.join(directory).is_dir() {
                continue;
            }
            for file in scenario_files(&root.join(directory))? {
                let scenario = Scenario::load(&file)?;
                let text = fs::read_to_string(&file)
                    .map_err(|source| ScenarioError::Read { path: file.clone(), source })?;
                let path = format!("{directory}/{}.scenario", scenario.name);
                scenarios.push(HistoryScenario { path, text, scenario });
            }
        }
        scenarios.sort_by(|a, b| a.scenario.name.cmp(&b.scenario.name));
        let captures = root.join("captures");
        let kinds = if captures.is_dir() {
            CaptureKinds::load(&captures)?
        } else {
            CaptureKinds::default()
        };
        let releases = store.load_all()?;
        let agents = releases.iter().map(|it| it.agent.as_str()).chain([CLAUDE]);
        let published = agents.map(|it| (it.to_owned(), store.published(it))).collect();
        Ok(Self { scenarios, releases, published, kinds })
    }

    /// The page in Markdown.
    pub fn markdown(&self) -> String {
        let mut page = INTRODUCTION.to_owned();
        self.write_matrix(CLAUDE, &mut page);
        self.write_changes(CLAUDE, &mut page);
        if !self.kinds.is_empty() {
            self.kinds.write_markdown(&mut page);
        }
        let mut others: Vec<&str> = self.releases.iter().map(|it| it.agent.as_str()).collect();
        others.dedup();
        for agent in others.into_iter().filter(|it| *it != CLAUDE) {
            self.write_matrix(agent, &mut page);
            self.write_changes(agent, &mut page);
        }
        page
    }

    /// The published versions of an agent in ascending order. Empty if they are not known.
    fn published(&self, agent: &str) -> &[AgentVersion] {
        self.published.get(agent).map_or(&[], Vec::as_slice)
    }

    /// The differences and flaky scenarios of a release that no condition explains, one per line.
    pub fn unexplained(&self, agent: &str, version: AgentVersion) -> Vec<String> {
        let matrix = HistoryMatrix::new(agent, &self.releases, &self.scenarios);
        let found = matrix.unexplained().into_iter();
        let found = found.filter(|(_, _, versions)| versions.contains(&version));
        found
            .map(|(scenario, result, _)| {
                let difference = result.difference.as_deref().unwrap_or_default();
                format!("{}: {difference}", scenario.scenario.name)
            })
            .collect()
    }

    fn write_matrix(&self, agent: &str, page: &mut String) {
        let matrix = HistoryMatrix::new(agent, &self.releases, &self.scenarios);
        let title = title(agent);
        let _ = writeln!(page, "## {title}: what passes with which release\n");
        self.write_coverage(agent, &matrix, page);
        if matrix.releases.is_empty() {
            return;
        }
        page.push_str(
            "| Release | passed ✓ | differs ✗ | flaky ~ | not applicable – | not run · |\n",
        );
        page.push_str("|---|---|---|---|---|---|\n");
        for release in &matrix.releases {
            let counts = matrix.counts(release).map(|it| it.to_string()).join(" | ");
            let _ = writeln!(page, "| {} | {counts} |", release.version);
        }
        write_varying(&matrix, page);
        write_unexplained(&matrix, page);
    }

    fn write_coverage(&self, agent: &str, matrix: &HistoryMatrix<'_>, page: &mut String) {
        let whole = matrix.releases.len();
        let partial = self.releases.iter().filter(|it| it.agent == agent && !it.is_whole).count();
        let scenarios = matrix.scenarios.len();
        let mut text = format!(
            "All {scenarios} scenarios were run with {whole} {}",
            if whole == 1 { "release" } else { "releases" }
        );
        let published = self.published(agent).len();
        if published > 0 {
            let _ = write!(text, " of the {published} published ones");
        }
        text.push('.');
        if partial > 0 {
            let _ = write!(
                text,
                " Some scenarios were also run with {partial} more, to find out when something changed."
            );
        }
        text.push_str(" Nothing is known about releases that are not listed.");
        let _ = writeln!(page, "{}\n", wrapped(&text));
    }

    fn write_changes(&self, agent: &str, page: &mut String) {
        let mut changes: BTreeMap<AgentVersion, Vec<(&HistoryScenario, HistoryChange)>> =
            BTreeMap::new();
        for scenario in self.scenarios.iter().filter(|it| it.is_spoken_by(agent)) {
            for (version, change) in changes_of(&scenario.text, agent) {
                changes.entry(version).or_default().push((scenario, change));
            }
        }
        let _ = writeln!(page, "## {}: what changed", title(agent));
        if agent == CLAUDE {
            let text = wrapped(
                "The newest change first. `-` is a step of a scenario that passes only before the release, \
                 `+` one that passes only since. A change is in *exactly* this release if the scenario was \
                 run with it and with the one before it; otherwise it came in one of the releases after the \
                 last one with which the scenario was run, which is named.",
            );
            let _ = writeln!(page, "\n{text}");
        }
        if changes.is_empty() {
            page.push_str("\nNo scenario has a condition on the version of this agent.\n");
        }
        let releases: Vec<HistoryRelease> =
            self.releases.iter().filter(|it| it.agent == agent).cloned().collect();
        for (version, changes) in changes.into_iter().rev() {
            let _ = writeln!(page, "\n### In {version} this changed");
            for (scenario, change) in changes {
                let published = self.published(agent);
                let evidence = match HistoryEvidence::of(scenario, version, &releases, published) {
                    HistoryEvidence::Exact => "exactly here".to_owned(),
                    HistoryEvidence::After(last) => format!("after {last}, at the latest here"),
                    HistoryEvidence::Unknown => "at the latest here".to_owned(),
                };
                let title = &scenario.scenario.title;
                let _ = writeln!(page, "\n{} ({evidence}): {title}", link(scenario));
                write_steps(&change, page);
            }
        }
        page.push('\n');
    }
}

/// The name of an agent in a heading.
fn title(agent: &str) -> &str {
    if agent == CLAUDE { "Claude Code" } else { agent }
}

/// The steps before and after a change.
fn write_steps(change: &HistoryChange, page: &mut String) {
    if change.starts {
        page.push_str("\nThe scenario passes only since this release.\n");
    }
    if change.ends {
        page.push_str("\nThe scenario passes only before this release.\n");
    }
    if change.before.is_empty() && change.after.is_empty() {
        return;
    }
    page.push_str("\n```diff\n");
    for (sign, steps) in [('-', &change.before), ('+', &change.after)] {
        for line in steps.iter().flat_map(|step| step.lines()) {
            let _ = writeln!(page, "{sign} {line}");
        }
    }
    page.push_str("```\n");
}

fn write_varying(matrix: &HistoryMatrix<'_>, page: &mut String) {
    let varying = matrix.varying();
    if varying.is_empty() {
        page.push_str("\nAll scenarios pass with all of these releases.\n\n");
        return;
    }
    page.push_str("\nThese scenarios do not pass with all of them. All others do.\n\n");
    let versions: Vec<String> = matrix.releases.iter().map(|it| it.version.to_string()).collect();
    let _ = writeln!(page, "| {} | Scenarios |", versions.join(" | "));
    let _ = writeln!(page, "|{}---|", "---|".repeat(versions.len()));
    for (row, scenarios) in varying {
        let signs: Vec<&str> = row.into_iter().map(HistoryCell::sign).collect();
        let links: Vec<String> = scenarios.into_iter().map(link).collect();
        let _ = writeln!(page, "| {} | {} |", signs.join(" | "), links.join(", "));
    }
    page.push('\n');
}

fn write_unexplained(matrix: &HistoryMatrix<'_>, page: &mut String) {
    let unexplained = matrix.unexplained();
    if unexplained.is_empty() {
        page.push_str("Every difference is explained by a condition in its scenario.\n\n");
        return;
    }
    page.push_str("### Differences that no condition explains yet\n\n");
    for (scenario, result, versions) in unexplained {
        let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
        let rate = match (result.outcome, result.runs, result.passes) {
            (HistoryOutcome::Flaky, Some(runs), Some(passes)) => {
                format!(" (in {} of {runs} runs)", runs - passes)
            }
            _ => String::new(),
        };
        let _ = writeln!(page, "- {}, {}{rate}:", link(scenario), versions.join(", "));
        if let Some(step) = &result.step {
            let _ = writeln!(page, "  step {}", code(step));
        }
        if let Some(difference) = &result.difference {
            let _ = writeln!(page, "  {}", code(difference));
        }
    }
    page.push('\n');
}

fn link(scenario: &HistoryScenario) -> String {
    format!("[{}](../{})", scenario.scenario.name, scenario.path)
}

/// Text as code in Markdown, whatever it contains.
fn code(text: &str) -> String {
    let longest = text.split(|it| it != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// Text in lines of at most 100 characters.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut lines = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let size = word.chars().count();
        if length > 0 && length + 1 + size > WIDTH {
            lines.push('\n');
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += size;
    }
    lines
}

fn scenario_files(directory: &Path) -> Result<Vec<PathBuf>, HistoryPageError> {
    let failed = |source| HistoryPageError::List { path: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|it| it == "scenario") {
            files.push(path);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{VersionsPage, code, wrapped};
    use crate::history::{HistoryOutcome, HistoryResult, HistoryStore, applied_digest};
    use crate::scenario::AgentVersion;

    /// The root of the project.
    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn the_committed_page_is_what_the_results_give() {
        let page = VersionsPage::load(root()).unwrap().markdown();
        let committed = fs::read_to_string(root().join("docs/versions.md")).unwrap();
        assert!(
            page == committed,
            "write it again with `towpath verify --history > docs/versions.md`"
        );
    }

    /// A project with two scenarios, of which one has changed, and results of two releases.
    fn project() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for path in ["scenarios/acp", "captures/2.1.9/stdout", "captures/2.1.10/stdout"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        fs::write(root.join("captures/2.1.9/stdout/a.jsonl"), "{\"type\":\"a\"}\n").unwrap();
        fs::write(root.join("captures/2.1.10/stdout/a.jsonl"), "{\"type\":\"b\"}\n").unwrap();
        let same = "# Always\n\n> user \"hi\"\neof\n";
        let changed = "# It changed\n\n> user \"hi\"\n[<2.1.10] < a\n[>=2.1.10] < b\neof\n";
        let broken = "# It is new\n\nversions >=2.1.10\n> user \"hi\"\n< c\neof\n";
        let store = HistoryStore::new(root.join("scenarios/results"));
        store.save_published("claude", &[AgentVersion(2, 1, 9), AgentVersion(2, 1, 10)]).unwrap();
        for version in [AgentVersion(2, 1, 9), AgentVersion(2, 1, 10)] {
            let mut release = store.load("claude", version).unwrap();
            release.is_whole = true;
            for (name, text) in [("same", same), ("changed", changed), ("broken", broken)] {
                fs::write(root.join(format!("scenarios/{name}.scenario")), text).unwrap();
                let differs = name == "broken";
                if differs && version.2 == 9 {
                    continue;
                }
                let result = HistoryResult {
                    outcome: if differs { HistoryOutcome::Differs } else { HistoryOutcome::Passed },
                    scenario: applied_digest(text, "claude", version),
                    conversation: "c".to_owned(),
                    step: differs.then(|| "< c".to_owned()),
                    difference: differs.then(|| "no matching line".to_owned()),
                    runs: None,
                    passes: None,
                };
                release.results.insert(name.to_owned(), result);
            }
            store.save(&release).unwrap();
        }
        let acp = "# It is said\n\nacp\nsession\n\n> user \"hi\"\n[codex <2.6.0] says \"a\"\n\
                   [codex >=2.6.0] says \"b\"\n[gemini] says \"c\"\n";
        fs::write(root.join("scenarios/acp/said.scenario"), acp).unwrap();
        for (agent, version) in [
            ("codex", AgentVersion(2, 5, 0)),
            ("codex", AgentVersion(2, 6, 0)),
            ("gemini", AgentVersion(0, 61, 0)),
        ] {
            let mut release = store.load(agent, version).unwrap();
            release.is_whole = true;
            let result = passed(applied_digest(acp, agent, version));
            release.results.insert("said".to_owned(), result);
            store.save(&release).unwrap();
        }
        directory
    }

    fn passed(scenario: String) -> HistoryResult {
        HistoryResult {
            outcome: HistoryOutcome::Passed,
            scenario,
            conversation: "c".to_owned(),
            step: None,
            difference: None,
            runs: None,
            passes: None,
        }
    }

    #[test]
    fn the_page_has_the_matrix_the_changes_and_what_is_not_explained() {
        let project = project();
        let page = VersionsPage::load(project.path()).unwrap();
        let text = page.markdown();
        for expected in [
            "All 3 scenarios were run with 2 releases of the 2 published ones.",
            "| 2.1.10 | 2 | 1 | 0 | 0 | 0 |\n| 2.1.9 | 2 | 0 | 0 | 1 | 0 |\n",
            "| ✗ | – | [broken](../scenarios/broken.scenario) |\n",
            "- [broken](../scenarios/broken.scenario), 2.1.10:\n  step `< c`\n  `no matching line`\n",
            "### In 2.1.10 this changed\n",
            "[broken](../scenarios/broken.scenario) (at the latest here): It is new\n",
            "[changed](../scenarios/changed.scenario) (exactly here): It changed\n\n\
             ```diff\n- < a\n+ < b\n```\n",
            "- Kinds that came: `b`\n- Kinds that went: `a`\n",
            "## codex: what changed\n\n### In 2.6.0 this changed\n\n\
             [said](../scenarios/acp/said.scenario) (after 2.5.0, at the latest here): It is said\n\n\
             ```diff\n- says \"a\"\n+ says \"b\"\n```\n",
            "## gemini: what changed\n\nNo scenario has a condition on the version of this agent.\n",
        ] {
            assert!(text.contains(expected), "{expected}\n is not in\n{text}");
        }
        assert!(!text.contains("[same]"), "{text}");
        let unexplained = |patch| page.unexplained("claude", AgentVersion(2, 1, patch));
        assert_eq!(unexplained(10), ["broken: no matching line"]);
        assert_eq!(unexplained(9), Vec::<String>::new());
    }

    #[test]
    fn a_scenario_that_has_changed_since_counts_as_not_run() {
        let project = project();
        let file = project.path().join("scenarios/changed.scenario");
        let text = fs::read_to_string(&file).unwrap().replace("] < b", "] < d");
        fs::write(&file, text).unwrap();
        let page = VersionsPage::load(project.path()).unwrap().markdown();
        assert!(page.contains("| 2.1.10 | 1 | 1 | 0 | 0 | 1 |\n| 2.1.9 | 2 |"), "{page}");
    }

    #[test]
    fn any_text_can_be_shown_as_code() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("a `b` ``c``"), "``` a `b` ``c`` ```");
        let text = wrapped(&"word ".repeat(50));
        assert!(text.lines().all(|line| line.len() <= 100) && text.lines().count() == 3, "{text}");
    }
}
