//! The page about versions, `docs/versions.md`, made from the files of the project.

mod changes;
mod kinds;
mod markdown;
mod outcomes;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::matrix::{HistoryMatrix, HistoryScenario};
use super::release_kinds::ReleaseKinds;
use super::results::{HistoryRelease, HistoryStore, HistoryStoreError};
use crate::scenario::{AgentVersion, CLAUDE, Scenario, ScenarioError};
use changes::write_changes;
use kinds::{PrintedRelease, write_kinds};
use markdown::wrapped;
use outcomes::{AgentHistory, write_outcomes};

/// What the page is made from.
#[derive(Clone, Debug)]
pub struct VersionsPage {
    scenarios: Vec<HistoryScenario>,
    releases: Vec<HistoryRelease>,
    /// The published versions of each agent, as far as they are known.
    published: BTreeMap<String, Vec<AgentVersion>>,
    /// The kinds of lines of the releases of Claude Code, as far as they are kept.
    kinds: BTreeMap<AgentVersion, ReleaseKinds>,
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
}

/// What a stranger has to know first. Generated numbers follow.
const INTRODUCTION: &str = "\
# What changed between versions of Claude Code

Claude Code is driven by other programs with `claude -p --input-format stream-json --output-format
stream-json`. What it prints and accepts there is not specified, and changes without notice, up to
several times a week. This page is for authors of such programs: what works since which release, and
what changed in which. [protocol.md](protocol.md) says what each line means; here is when.

Nothing here is taken from change logs. Each *scenario* is a conversation with the agent, as a file:
what is written to it, what the model answers, and which lines it must print. The scenarios are run
with real releases from npm, without a network and with a scripted model, and their outcomes are files
of this project. [scenarios.md](scenarios.md) has the grammar of scenarios and says how to run them with
another release or another agent.

";

const CONTENTS: &str = "\
- [What passes with which release](#claude-code-what-passes-with-which-release)
- [What changed](#claude-code-what-changed), the newest first, with the lines before and after
";

const KINDS_CONTENTS: &str = "\
- [Kinds of lines and their fields](#claude-code-kinds-of-lines-and-their-fields), and since when there are they
";

const GENERATED: &str = "\
This page is generated with `towpath verify --history > docs/versions.md`. Do not edit it.

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
        let releases = store.load_all()?;
        let agents = releases.iter().map(|it| it.agent.as_str()).chain([CLAUDE]);
        let published = agents.map(|it| (it.to_owned(), store.published(it))).collect();
        let mut kinds = BTreeMap::new();
        for release in releases.iter().filter(|it| it.agent == CLAUDE) {
            if let Some(printed) = store.kinds(CLAUDE, release.version)? {
                kinds.insert(release.version, printed);
            }
        }
        Ok(Self { scenarios, releases, published, kinds })
    }

    /// The page in Markdown.
    pub fn markdown(&self) -> String {
        let mut page = INTRODUCTION.to_owned();
        // What came and went is between two releases.
        let has_kinds = self.kinds.len() > 1;
        let mut others: Vec<&str> = self.releases.iter().map(|it| it.agent.as_str()).collect();
        others.dedup();
        others.retain(|it| *it != CLAUDE);
        page.push_str(CONTENTS);
        if has_kinds {
            page.push_str(KINDS_CONTENTS);
        }
        if !others.is_empty() {
            let agents =
                others.iter().map(|it| format!("[{it}](#{it}-what-passes-with-which-release)"));
            let agents = agents.collect::<Vec<_>>().join(", ");
            let text =
                format!("- The same for agents that speak the Agent Client Protocol: {agents}");
            let _ = writeln!(page, "{}", wrapped(&text).replace('\n', "\n  "));
        }
        let _ = write!(page, "\n{GENERATED}");
        self.write_agent(CLAUDE, &mut page);
        if has_kinds {
            self.write_kinds(&mut page);
        }
        for agent in others {
            self.write_agent(agent, &mut page);
        }
        page
    }

    fn write_agent(&self, agent: &str, page: &mut String) {
        let title = title(agent);
        let releases: Vec<HistoryRelease> =
            self.releases.iter().filter(|it| it.agent == agent).cloned().collect();
        let history = AgentHistory {
            agent,
            matrix: HistoryMatrix::new(agent, &self.releases, &self.scenarios),
            releases: &releases,
            published: self.published(agent),
        };
        let _ = writeln!(page, "## {title}: what passes with which release\n");
        write_outcomes(&history, page);
        let _ = writeln!(page, "## {title}: what changed");
        write_changes(&history, page);
    }

    fn write_kinds(&self, page: &mut String) {
        let printed = self.releases.iter().filter(|it| it.agent == CLAUDE).filter_map(|release| {
            Some(PrintedRelease { release, kinds: self.kinds.get(&release.version)? })
        });
        let printed: Vec<PrintedRelease<'_>> = printed.collect();
        let matrix = HistoryMatrix::new(CLAUDE, &self.releases, &self.scenarios);
        page.push_str("## Claude Code: kinds of lines and their fields\n\n");
        write_kinds(&printed, &matrix.scenarios, self.published(CLAUDE), page);
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
}

/// The name of an agent in a heading.
fn title(agent: &str) -> &str {
    if agent == CLAUDE { "Claude Code" } else { agent }
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

    use super::VersionsPage;
    use crate::history::{
        HistoryOutcome, HistoryResult, HistoryStore, ReleaseKinds, applied_digest,
    };
    use crate::scenario::{AgentVersion, with_moved_bound};
    use crate::verify::VerifyConversation;

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
        fs::create_dir_all(root.join("scenarios/acp")).unwrap();
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
                    not_yet: Vec::new(),
                };
                release.results.insert(name.to_owned(), result);
            }
            store.save(&release).unwrap();
            let kind = if version.2 == 9 { "a" } else { "b" };
            let lines = format!(
                "→ {{\"type\":\"{kind}\"}}\n→ {{\"type\":\"result\",\"field_{kind}\":1}}\n"
            );
            let mut kinds = ReleaseKinds::default();
            kinds.add("same", &VerifyConversation::from_text(&lines));
            store.save_kinds("claude", version, &kinds).unwrap();
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
            not_yet: Vec::new(),
        }
    }

    #[test]
    fn the_page_has_the_matrix_the_changes_and_what_is_not_explained() {
        let project = project();
        let page = VersionsPage::load(project.path()).unwrap();
        let text = page.markdown();
        for expected in [
            "| 2.1.10 | 2 | 1 | 0 | 0 | 0 |\n| 2.1.9 | 2 | 0 | 0 | 1 | 0 |\n",
            "- [broken](../scenarios/broken.scenario), 2.1.10:\n  step `< c`\n  `no matching line`\n",
            "### In 2.1.10 this changed\n",
            "[broken](../scenarios/broken.scenario) (at the latest here): It is new\n",
            "[changed](../scenarios/changed.scenario) (exactly here): It changed\n\n\
             ```diff\n- < a\n+ < b\n```\n",
            "All 3 scenarios were run with 2 releases of the 2 published ones. *Not",
            "\n2 scenarios pass with all",
            "| since 2.1.10 or earlier; ✗ 2.1.10 | 1 | [broken](../scenarios/broken.scenario) |\n",
            "| `a` | before 2.1.10 | [same](../scenarios/same.scenario) |\n\
             | `b` | since 2.1.10 | [same](../scenarios/same.scenario) |\n\
             | `result` | always | [same](../scenarios/same.scenario) |\n\n\
             ### Fields that came and went\n\n**2.1.10**\n\n\
             - `result`: came `field_b`; went `field_a`\n",
            "## codex: what changed\n\n### In 2.6.0 this changed\n\n\
             [said](../scenarios/acp/said.scenario) (after 2.5.0, at the latest here): It is said\n\n\
             ```diff\n- says \"a\"\n+ says \"b\"\n```\n",
            "## gemini: what changed\n\nNo scenario has a condition on the version of this agent.\n",
        ] {
            assert!(text.contains(expected), "{expected}\n is not in\n{text}");
        }
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
    fn scenarios_that_changed_alike_are_one_entry() {
        let project = project();
        let root = project.path();
        let file = |name: &str| root.join(format!("scenarios/{name}.scenario"));
        let text = fs::read_to_string(file("changed")).unwrap();
        for name in ["changed-a", "changed-b"] {
            fs::write(file(name), &text).unwrap();
        }
        let page = VersionsPage::load(root).unwrap().markdown();
        let expected = "\nIn 2 scenarios (at the latest here): [changed-a](../scenarios/changed-a.scenario), \
                        [changed-b](../scenarios/changed-b.scenario)\n\n```diff\n- < a\n+ < b\n```\n";
        assert!(page.contains(expected), "{page}");
    }

    #[test]
    fn a_scenario_that_passes_only_since_a_release_says_what_was_before() {
        let project = project();
        let root = project.path();
        let store = HistoryStore::new(root.join("scenarios/results"));
        let text = fs::read_to_string(root.join("scenarios/broken.scenario")).unwrap();
        let [old, new] = [AgentVersion(2, 1, 9), AgentVersion(2, 1, 10)];
        let mut release = store.load("claude", new).unwrap();
        release.results.insert("broken".to_owned(), passed(applied_digest(&text, "claude", new)));
        store.save(&release).unwrap();
        let moved = with_moved_bound(&text, "claude", new, old);
        let mut release = store.load("claude", old).unwrap();
        let mut differs = |difference: &str| {
            let result = HistoryResult {
                outcome: HistoryOutcome::Differs,
                step: Some("< c".to_owned()),
                difference: Some(difference.to_owned()),
                ..passed(applied_digest(&moved, "claude", old))
            };
            release.results.insert("broken".to_owned(), result);
            store.save(&release).unwrap();
            VersionsPage::load(root).unwrap().markdown()
        };
        let page = differs("no matching line; expected c");
        let expected = "[broken](../scenarios/broken.scenario) (exactly here): It is new\n\n\
                        ```diff\n- no such line (with 2.1.9)\n+ < c\n```\n";
        assert!(page.contains(expected), "{page}");
        assert!(page.contains("| since 2.1.10 | 1 | [broken](../scenarios/broken.scenario) |\n"));
        // The step at which a process exits says nothing.
        let message = "the agent exited (exit code 1) before a matching line; expected c; \
                       stderr error: unknown option '--new'";
        let page = differs(message);
        let expected =
            "With 2.1.9, the agent exited (exit code 1): `error: unknown option '--new'`.\n";
        assert!(page.contains(expected), "{page}");
    }
}
