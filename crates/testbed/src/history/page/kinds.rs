//! The section about kinds of lines and their fields: which release brought or removed them.
//!
//! Whether something is missing from what a release printed is known only if a scenario that shows it
//! elsewhere was run with this release too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::super::matrix::HistoryScenario;
use super::super::release_kinds::ReleaseKinds;
use super::super::results::HistoryRelease;
use super::markdown::{code, link, versions, wrapped};
use crate::scenario::AgentVersion;

/// A release that was run whole, with what it printed.
pub(super) struct PrintedRelease<'a> {
    pub(super) release: &'a HistoryRelease,
    pub(super) kinds: &'a ReleaseKinds,
}

/// A release in which something came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KindChange {
    /// The last release that says that it was otherwise.
    after: AgentVersion,
    version: AgentVersion,
    came: bool,
}

/// Something that a release may print, and where it does.
#[derive(Debug)]
struct KindPresence {
    is_in_first: bool,
    changes: Vec<KindChange>,
}

/// More changes than this show that something is not printed in every run.
const MAX_CHANGES: usize = 2;

/// Writes the section. `releases` are in ascending order.
pub(super) fn write_kinds(
    releases: &[PrintedRelease<'_>],
    scenarios: &[&HistoryScenario],
    published: &[AgentVersion],
    page: &mut String,
) {
    let text = format!(
        "What these releases print in the scenarios together, each run whole: {}. A release in brackets \
         is the last one before the change that was run, if there are others in between.",
        versions(&releases.iter().map(|it| it.release.version).collect::<Vec<_>>())
    );
    let _ = writeln!(page, "{}\n", wrapped(&text));
    let section = KindsSection { releases, scenarios, published };
    let kinds: BTreeSet<&str> = releases.iter().flat_map(|it| it.kinds.kinds()).collect();
    page.push_str("| Kind of line | Printed | For example in |\n|---|---|---|\n");
    for kind in &kinds {
        let presence = section.presence(kind, None);
        let printed = section.printed(&presence);
        let example = section.example(kind).map(link);
        let _ = writeln!(page, "| {} | {printed} | {} |", code(kind), example.unwrap_or_default());
    }
    section.write_fields(&kinds, page);
}

struct KindsSection<'a> {
    releases: &'a [PrintedRelease<'a>],
    scenarios: &'a [&'a HistoryScenario],
    published: &'a [AgentVersion],
}

impl KindsSection<'_> {
    /// Where a kind is printed, or a field of it.
    fn presence(&self, kind: &str, field: Option<&str>) -> KindPresence {
        let fields = |it: &PrintedRelease<'_>| it.kinds.fields(kind).cloned();
        let examples: BTreeSet<String> = self
            .releases
            .iter()
            .filter_map(fields)
            .flatten()
            .filter(|(name, _)| field.is_none_or(|field| field == name))
            .map(|(_, scenario)| scenario)
            .collect();
        let mut known: Vec<(AgentVersion, bool)> = Vec::new();
        for it in self.releases {
            let version = it.release.version;
            let found = match (it.kinds.fields(kind), field) {
                (Some(fields), Some(field)) => fields.contains_key(field),
                (Some(_), None) => true,
                // Nothing is known about the fields of a line that is not printed.
                (None, Some(_)) => continue,
                (None, None) => false,
            };
            if found || examples.iter().any(|name| self.is_covered(name, it)) {
                known.push((version, found));
            }
        }
        let pairs = known.iter().zip(known.iter().skip(1));
        let changes = pairs.filter(|((_, before), (_, after))| before != after);
        let changes = changes.map(|((before, _), (version, came))| KindChange {
            after: *before,
            version: *version,
            came: *came,
        });
        let is_in_first = known.first().is_some_and(|(_, found)| *found);
        KindPresence { is_in_first, changes: changes.collect() }
    }

    /// Whether a release would show what a scenario shows elsewhere: the scenario was run with it, or
    /// is not for it because the release does not have this.
    fn is_covered(&self, scenario: &str, it: &PrintedRelease<'_>) -> bool {
        let found = self.scenarios.iter().find(|it| it.scenario.name == scenario);
        let is_for = found.is_some_and(|found| found.applies_to(it.release));
        let was_run = it.release.results.contains_key(scenario);
        !it.kinds.without.contains(scenario) && (was_run || found.is_some() && !is_for)
    }

    /// In words, when something is printed.
    fn printed(&self, presence: &KindPresence) -> String {
        if presence.changes.len() > MAX_CHANGES {
            return "not in every run".to_owned();
        }
        let changes = presence.changes.iter().map(|change| {
            let word = if change.came { "since" } else { "before" };
            format!("{word} {}", self.at(change))
        });
        let changes: Vec<String> = changes.collect();
        match (changes.is_empty(), presence.is_in_first) {
            (false, _) => changes.join(", "),
            (true, true) => "always".to_owned(),
            (true, false) => String::new(),
        }
    }

    /// The release of a change, and the last one before it if there are others in between.
    fn at(&self, change: &KindChange) -> String {
        if self.previous(change.version) == Some(change.after) {
            return change.version.to_string();
        }
        format!("{} ({})", change.version, change.after)
    }

    fn previous(&self, version: AgentVersion) -> Option<AgentVersion> {
        self.published.iter().copied().rev().find(|it| *it < version)
    }

    /// A scenario that shows a kind in the newest release that has it.
    fn example(&self, kind: &str) -> Option<&HistoryScenario> {
        let fields = self.releases.iter().rev().find_map(|it| it.kinds.fields(kind))?;
        let name = fields.get("type")?;
        self.scenarios.iter().copied().find(|it| it.scenario.name == *name)
    }

    /// The changes of fields, the newest first. Kinds with equal changes are listed together.
    fn write_fields(&self, kinds: &BTreeSet<&str>, page: &mut String) {
        type Fields = (BTreeSet<String>, BTreeSet<String>);
        let mut changes: BTreeMap<(AgentVersion, String), BTreeMap<&str, Fields>> = BTreeMap::new();
        let mut unsteady: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for kind in kinds {
            let fields = self.releases.iter().filter_map(|it| it.kinds.fields(kind));
            let fields: BTreeSet<&String> = fields.flat_map(BTreeMap::keys).collect();
            for field in fields {
                let presence = self.presence(kind, Some(field));
                if presence.changes.len() > MAX_CHANGES {
                    unsteady.entry(kind).or_default().insert(field.clone());
                    continue;
                }
                for change in presence.changes {
                    let key = (change.version, self.at(&change));
                    let (came, went) = changes.entry(key).or_default().entry(kind).or_default();
                    if change.came { came } else { went }.insert(field.clone());
                }
            }
        }
        if !changes.is_empty() {
            page.push_str("\n### Fields that came and went\n");
        }
        for ((_, at), kinds) in changes.into_iter().rev() {
            let _ = writeln!(page, "\n**{at}**\n");
            let mut entries: BTreeMap<Fields, Vec<&str>> = BTreeMap::new();
            for (kind, fields) in kinds {
                entries.entry(fields).or_default().push(kind);
            }
            let mut entries: Vec<_> = entries.into_iter().collect();
            entries.sort_by(|(_, a), (_, b)| a.cmp(b));
            for ((came, went), kinds) in entries {
                let parts = [("came", came), ("went", went)];
                let parts = parts.into_iter().filter(|(_, fields)| !fields.is_empty());
                let parts = parts.map(|(verb, fields)| format!("{verb} {}", list(&fields)));
                let kinds = list(kinds.iter().copied());
                let _ = writeln!(page, "- {kinds}: {}", parts.collect::<Vec<_>>().join("; "));
            }
        }
        if !unsteady.is_empty() {
            page.push_str("\n### Fields that are not in every run\n\n");
        }
        for (kind, fields) in unsteady {
            let _ = writeln!(page, "- {}: {}", code(kind), list(&fields));
        }
        page.push('\n');
    }
}

fn list(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    names.into_iter().map(|name| code(name.as_ref())).collect::<Vec<_>>().join(", ")
}
