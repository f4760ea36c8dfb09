//! The section about what changed in which release: the lines before and after.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::changes::{HistoryChange, HistoryEvidence, changes_of};
use super::super::matrix::HistoryScenario;
use super::super::results::{HistoryOutcome, HistoryRelease, HistoryResult};
use super::markdown::{links, wrapped};
use super::outcomes::AgentHistory;
use crate::scenario::{AgentVersion, CLAUDE};

/// How a change is shown. Scenarios that show the same are one entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChangeEntry {
    evidence: String,
    /// A sentence before the lines.
    note: Option<String>,
    before: Vec<String>,
    after: Vec<String>,
}

const LEGEND: &str = "\
The newest change first. In each block, lines with `-` are what was so before the release, lines with \
`+` what is so since. They are steps of scenarios: `< …` is a line that the agent prints, with the \
fields that matter; `!< …` one that it does not print; `> …` what is written to it; `args …` what it is \
started with. A step without `-` or `+` on the other side is one that has no counterpart there. \
*Exactly here* means that the release and the one before it were run; otherwise the change came in one \
of the releases after the one that is named.";

pub(super) fn write_changes(history: &AgentHistory<'_>, page: &mut String) {
    let AgentHistory { agent, matrix, releases, published } = history;
    if *agent == CLAUDE {
        let _ = writeln!(page, "\n{}", wrapped(LEGEND));
    }
    let mut changes: BTreeMap<AgentVersion, BTreeMap<ChangeEntry, Vec<&HistoryScenario>>> =
        BTreeMap::new();
    for scenario in &matrix.scenarios {
        for (version, change) in changes_of(&scenario.text, agent) {
            let evidence = match HistoryEvidence::of(scenario, version, releases, published) {
                HistoryEvidence::Exact => "exactly here".to_owned(),
                HistoryEvidence::After(last) => format!("after {last}, at the latest here"),
                HistoryEvidence::Unknown => "at the latest here".to_owned(),
            };
            let whole = whole_change(scenario, version, &change, releases);
            let steps = !(change.before.is_empty() && change.after.is_empty());
            let steps = steps.then(|| (None, change.before.clone(), change.after.clone()));
            let of_version = changes.entry(version).or_default();
            for (note, before, after) in whole.into_iter().chain(steps) {
                let entry = ChangeEntry { evidence: evidence.clone(), note, before, after };
                of_version.entry(entry).or_default().push(scenario);
            }
        }
    }
    if changes.is_empty() {
        page.push_str("\nNo scenario has a condition on the version of this agent.\n");
    }
    for (version, entries) in changes.into_iter().rev() {
        let _ = writeln!(page, "\n### In {version} this changed");
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by(|(_, a), (_, b)| a[0].scenario.name.cmp(&b[0].scenario.name));
        for (entry, scenarios) in entries {
            write_entry(&entry, &scenarios, page);
        }
    }
    page.push('\n');
}

fn write_entry(entry: &ChangeEntry, scenarios: &[&HistoryScenario], page: &mut String) {
    let evidence = &entry.evidence;
    let _ = match scenarios {
        [one] => writeln!(page, "\n{} ({evidence}): {}", links(scenarios), one.scenario.title),
        _ => {
            writeln!(page, "\nIn {} scenarios ({evidence}): {}", scenarios.len(), links(scenarios))
        }
    };
    if let Some(note) = &entry.note {
        let _ = writeln!(page, "\n{note}");
    }
    if entry.before.is_empty() && entry.after.is_empty() {
        return;
    }
    page.push_str("\n```diff\n");
    for (sign, steps) in [('-', &entry.before), ('+', &entry.after)] {
        for line in steps.iter().flat_map(|step| step.lines()) {
            let _ = writeln!(page, "{sign} {line}");
        }
    }
    page.push_str("```\n");
}

/// What is said of a scenario that passes only since a release, or only before it: the step at which
/// it differs on the other side, and what happens there instead.
fn whole_change(
    scenario: &HistoryScenario,
    version: AgentVersion,
    change: &HistoryChange,
    releases: &[HistoryRelease],
) -> Option<(Option<String>, Vec<String>, Vec<String>)> {
    let only = match (change.starts, change.ends) {
        (true, false) => "since",
        (false, true) => "before",
        (true, true) => "before and since",
        (false, false) => return None,
    };
    let note = format!("The scenario passes only {only} this release.");
    let other = nearest_difference(scenario, version, change.starts, releases);
    let Some((other, result)) = other else { return Some((Some(note), Vec::new(), Vec::new())) };
    let (step, difference) = (result.step.as_deref()?, result.difference.as_deref()?);
    // Each of the scenarios would have another first step.
    if difference.starts_with("the agent exited") {
        let message = difference.split("; expected").next().unwrap_or(difference);
        let rest = difference.split_once("; stderr ").map(|(_, it)| format!(": `{it}`"));
        let message = message.trim_end_matches(" before a matching line");
        let note = format!("With {other}, {message}{}.", rest.unwrap_or_default());
        return Some((Some(note), Vec::new(), Vec::new()));
    }
    let step = whole_step(&scenario.text, step);
    let instead = format!("{} (with {other})", instead(difference));
    Some(if change.starts {
        (None, vec![instead], vec![step])
    } else {
        (None, vec![step], vec![instead])
    })
}

/// The nearest release, before or from `version` on, with which the scenario differs.
fn nearest_difference<'a>(
    scenario: &HistoryScenario,
    version: AgentVersion,
    is_before: bool,
    releases: &'a [HistoryRelease],
) -> Option<(AgentVersion, &'a HistoryResult)> {
    let differs = releases.iter().filter(|it| (it.version < version) == is_before);
    let differs = differs.filter_map(|release| {
        let result = release.results.get(&scenario.scenario.name)?;
        (result.outcome == HistoryOutcome::Differs).then_some((release.version, result))
    });
    if is_before {
        differs.max_by_key(|(version, _)| *version)
    } else {
        differs.min_by_key(|(version, _)| *version)
    }
}

/// What an agent did instead of a step, without the step itself.
fn instead(difference: &str) -> String {
    if let Some((path, rest)) = difference.split_once(": expected ")
        && let Some((_, actual)) = rest.split_once(", actual ")
    {
        return if actual == "nothing" {
            format!("there is no {path}")
        } else {
            format!("{path} is {actual}")
        };
    }
    if let Some((_, actual)) = difference.split_once("; actual ") {
        return actual.to_owned();
    }
    let message = difference.split("; expected ").next().unwrap_or(difference);
    message.replace("no matching line", "no such line")
}

/// The step as it is in the scenario, if it was shortened in the results, without its condition.
fn whole_step(text: &str, step: &str) -> String {
    let start = step.trim_end_matches('…');
    let line = text.lines().map(str::trim).find(|line| line.starts_with(start));
    let line = line.unwrap_or(step);
    match line.strip_prefix('[').and_then(|it| it.split_once("] ")) {
        Some((_, rest)) => rest.to_owned(),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{instead, whole_step};

    #[test]
    fn what_happens_instead_of_a_step_is_said_without_the_step() {
        let table = [
            ("a[0].b: expected \"x\", actual nothing", "there is no a[0].b"),
            ("mode: expected \"auto\", actual \"default\"", "mode is \"default\""),
            ("check failed; expected exit code 1; actual exit code 0", "exit code 0"),
            ("no matching line; expected system/init", "no such line"),
            ("anything else", "anything else"),
        ];
        for (difference, expected) in table {
            assert_eq!(instead(difference), expected);
        }
    }

    #[test]
    fn a_shortened_step_is_shown_whole() {
        let text = "# T\n\n> user \"hi\"\n[<2.1.9] < result {\"a\":1}\n< result {\"b\":22}\n";
        assert_eq!(whole_step(text, "< result {\"b\":…"), "< result {\"b\":22}");
        assert_eq!(whole_step(text, "[<2.1.9] < result {…"), "< result {\"a\":1}");
        assert_eq!(whole_step(text, "gone"), "gone");
    }
}
