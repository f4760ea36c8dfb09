//! The section about what passes with which release.
//!
//! A column for each release would be unreadable, so that a row says in words with which releases its
//! scenarios pass: the conditions in the scenarios have the exact ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::changes::{HistoryEvidence, changes_of};
use super::super::matrix::{HistoryCell, HistoryMatrix, HistoryScenario};
use super::super::results::{HistoryOutcome, HistoryRelease};
use super::markdown::{code, count, link, links, versions, wrapped};
use crate::scenario::AgentVersion;

/// What is known about one agent.
pub(super) struct AgentHistory<'a> {
    pub(super) agent: &'a str,
    pub(super) matrix: HistoryMatrix<'a>,
    /// All its releases with results.
    pub(super) releases: &'a [HistoryRelease],
    /// The versions that npm knows, in ascending order.
    pub(super) published: &'a [AgentVersion],
}

pub(super) fn write_outcomes(history: &AgentHistory<'_>, page: &mut String) {
    let matrix = &history.matrix;
    let _ = writeln!(page, "{}\n", wrapped(&coverage(history)));
    if matrix.releases.is_empty() {
        return;
    }
    page.push_str("| Release | passed ✓ | differs ✗ | flaky ~ | not applicable – | not run · |\n");
    page.push_str("|---|---|---|---|---|---|\n");
    for release in &matrix.releases {
        let counts = matrix.counts(release).map(|it| it.to_string()).join(" | ");
        let _ = writeln!(page, "| {} | {counts} |", release.version);
    }
    write_rows(history, page);
    write_unexplained(matrix, page);
}

fn coverage(history: &AgentHistory<'_>) -> String {
    let AgentHistory { matrix, releases, published, .. } = history;
    let whole = matrix.releases.len();
    let partial = releases.len() - whole;
    let scenarios = matrix.scenarios.len();
    let mut text = format!("All {scenarios} scenarios were run with {}", count(whole, "release"));
    if !published.is_empty() {
        let _ = write!(text, " of the {} published ones", published.len());
    }
    text.push('.');
    if partial > 0 {
        let _ = write!(
            text,
            " Some scenarios were also run with {partial} more, to find out when something changed."
        );
    }
    text.push_str(
        " *Not applicable* is a scenario about something that the release does not have or does in \
         another way; its condition says so.",
    );
    text
}

/// The scenarios that do not pass with all releases, those with equal answers in one row.
fn write_rows(history: &AgentHistory<'_>, page: &mut String) {
    let matrix = &history.matrix;
    // The newest release of a row orders the rows.
    let mut rows: BTreeMap<(Option<AgentVersion>, String), Vec<&HistoryScenario>> = BTreeMap::new();
    let mut always = Vec::new();
    for scenario in &matrix.scenarios {
        let range = range_text(history, scenario);
        let exceptions = exceptions(matrix, scenario);
        if range.is_empty() && exceptions.is_empty() {
            always.push(*scenario);
            continue;
        }
        let newest = changes_of(&scenario.text, history.agent)
            .into_iter()
            .filter_map(|(version, it)| (it.starts || it.ends).then_some(version))
            .max();
        let range = if range.is_empty() { "all".to_owned() } else { range };
        let text = [&[range][..], &exceptions].concat().join("; ");
        rows.entry((newest, text)).or_default().push(scenario);
    }
    if rows.is_empty() {
        page.push_str("\nAll scenarios pass with all of these releases.\n\n");
        return;
    }
    let text = format!(
        "{} with all of these releases. The others pass with these. In brackets is the nearest \
         release that was run before a change, if others are in between:",
        if always.len() == 1 {
            "1 scenario passes".to_owned()
        } else {
            format!("{} pass", count(always.len(), "scenario"))
        }
    );
    let _ = writeln!(page, "\n{}\n", wrapped(&text));
    page.push_str("| Passes with | | Scenarios |\n|---|---|---|\n");
    for ((_, text), scenarios) in rows.into_iter().rev() {
        let _ = writeln!(page, "| {text} | {} | {} |", scenarios.len(), links(&scenarios));
    }
    page.push('\n');
}

/// The releases that a scenario is for, in words. Empty if it is for all.
fn range_text(history: &AgentHistory<'_>, scenario: &HistoryScenario) -> String {
    let AgentHistory { agent, releases, published, .. } = history;
    if !scenario.scenario.condition.is_for(agent) {
        return "none".to_owned();
    }
    let mut parts = Vec::new();
    for (version, change) in changes_of(&scenario.text, agent) {
        let evidence =
            |with: &str| match HistoryEvidence::of(scenario, version, releases, published) {
                HistoryEvidence::Exact => String::new(),
                HistoryEvidence::After(last) => format!(" ({with} {last})"),
                HistoryEvidence::Unknown => " or earlier".to_owned(),
            };
        if change.starts {
            parts.push(format!("since {version}{}", evidence("not with")));
        }
        if change.ends {
            parts.push(format!("before {version}{}", evidence("last with")));
        }
    }
    // The parts of a range that ends and begins again are in ascending order.
    parts.join(", ")
}

/// The releases with which a scenario neither passes nor is left out.
fn exceptions(matrix: &HistoryMatrix<'_>, scenario: &HistoryScenario) -> Vec<String> {
    let with = |cell: HistoryCell| {
        let releases = matrix.releases.iter().filter(|it| scenario.cell(it) == cell);
        let found: Vec<AgentVersion> = releases.map(|it| it.version).collect();
        (!found.is_empty()).then(|| format!("{} {}", cell.sign(), versions(&found)))
    };
    [HistoryCell::Differs, HistoryCell::Flaky, HistoryCell::NotRun]
        .into_iter()
        .filter_map(with)
        .collect()
}

fn write_unexplained(matrix: &HistoryMatrix<'_>, page: &mut String) {
    let unexplained = matrix.unexplained();
    if unexplained.is_empty() {
        page.push_str("Every difference is explained by a condition in its scenario.\n\n");
        return;
    }
    page.push_str("### Differences that no condition explains yet\n\n");
    for (scenario, result, found) in unexplained {
        let rate = match (result.outcome, result.runs, result.passes) {
            (HistoryOutcome::Flaky, Some(runs), Some(passes)) => {
                format!(" (in {} of {runs} runs)", runs - passes)
            }
            _ => String::new(),
        };
        let _ = writeln!(page, "- {}, {}{rate}:", link(scenario), versions(&found));
        if let Some(step) = &result.step {
            let _ = writeln!(page, "  step {}", code(step));
        }
        if let Some(difference) = &result.difference {
            let _ = writeln!(page, "  {}", code(difference));
        }
    }
    page.push('\n');
}
