//! Writing conditions on the version into the text of a scenario.
//!
//! The text is changed, not the parsed scenario, so that comments and the layout stay.

use std::fmt;

use super::{AgentVersion, ScenarioCondition};

/// The first word of the line that says which versions a scenario is for.
pub(crate) const VERSIONS: &str = "versions ";

/// The versions before or from a release on, or all but some in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionBound {
    Before(AgentVersion),
    Since(AgentVersion),
    /// The versions before the first release, and from the second one on.
    Except(AgentVersion, AgentVersion),
}

/// The bound at one end of the versions that are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VersionEnd {
    Before(AgentVersion),
    Since(AgentVersion),
}

impl VersionBound {
    fn ends(self) -> Vec<VersionEnd> {
        match self {
            Self::Before(version) => vec![VersionEnd::Before(version)],
            Self::Since(version) => vec![VersionEnd::Since(version)],
            Self::Except(from, until) => {
                vec![VersionEnd::Before(from), VersionEnd::Since(until)]
            }
        }
    }

    /// A condition with this bound. A bound on the same side is replaced: the release in which
    /// something changed was found among the versions that the condition applied to.
    fn added_to(self, condition: &str) -> String {
        let is_bound = |word: &&str| word.starts_with(['<', '>', '0', '1', '2']);
        let (bounds, names): (Vec<_>, Vec<_>) = condition.split_whitespace().partition(is_bound);
        let bounds = self.ends().into_iter().map(|end| end.added_to(&bounds));
        names.into_iter().map(str::to_owned).chain(bounds).collect::<Vec<_>>().join(" ")
    }
}

impl VersionEnd {
    /// Whether a word of a condition bounds the versions on the same side.
    fn replaces(self, word: &str) -> bool {
        word.starts_with(match self {
            Self::Before(_) => '<',
            Self::Since(_) => '>',
        })
    }

    /// Bounds with this end. Parts on the other side of it are left out.
    fn added_to(self, bounds: &[&str]) -> String {
        let mut parts: Vec<Vec<&str>> = Vec::new();
        for bound in bounds.iter().copied() {
            match parts.last_mut() {
                Some(part)
                    if !(bound.starts_with('>') && part.iter().any(|it| it.starts_with('<'))) =>
                {
                    part.push(bound);
                }
                _ => parts.push(vec![bound]),
            }
        }
        parts.retain(|part| self.meets(part));
        let mut own = match self {
            Self::Before(_) => parts.pop(),
            Self::Since(_) => (!parts.is_empty()).then(|| parts.remove(0)),
        }
        .unwrap_or_default();
        own.retain(|word| !self.replaces(word));
        let text = self.to_string();
        // The lower bound stands before the upper one.
        let place = match self {
            Self::Before(_) => own.len(),
            Self::Since(_) => own.iter().position(|it| it.starts_with('<')).unwrap_or(own.len()),
        };
        own.insert(place, &text);
        match self {
            Self::Before(_) => parts.push(own),
            Self::Since(_) => parts.insert(0, own),
        }
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Whether a part of a condition has versions on this side of the release.
    fn meets(self, part: &[&str]) -> bool {
        let version = |word: &str| word.trim_start_matches(['<', '>', '=']).parse().ok();
        let all = |sign: char, is_met: fn(AgentVersion, AgentVersion) -> bool, own| {
            let mut bounds = part.iter().filter(|it| it.starts_with(sign));
            bounds.all(|it| version(it).is_none_or(|bound: AgentVersion| is_met(bound, own)))
        };
        match self {
            Self::Before(own) => all('>', |bound, own| bound < own, own),
            Self::Since(own) => all('<', |bound, own| bound > own, own),
        }
    }
}

impl fmt::Display for VersionBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends: Vec<String> = self.ends().iter().map(ToString::to_string).collect();
        write!(f, "{}", ends.join(" "))
    }
}

impl fmt::Display for VersionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(version) => write!(f, "<{version}"),
            Self::Since(version) => write!(f, ">={version}"),
        }
    }
}

/// The text of a scenario in which the step at a line, counted from 1, applies only to some versions.
pub fn with_step_bound(text: &str, line: usize, bound: VersionBound) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Some(step) = lines.get_mut(line.saturating_sub(1)) {
        let (condition, rest) = match step.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((condition, rest)) => (condition, rest.trim_start()),
            None => ("", step.as_str()),
        };
        *step = format!("[{}] {rest}", bound.added_to(condition));
    }
    joined(&lines)
}

/// The text of a scenario that applies only to some versions.
pub fn with_versions_bound(text: &str, bound: VersionBound) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Some(line) = lines.iter_mut().find(|line| line.starts_with(VERSIONS)) {
        *line = format!("{VERSIONS}{}", bound.added_to(&line[VERSIONS.len()..]));
        return joined(&lines);
    }
    // The title and the description are the comment lines at the start.
    let header = lines.iter().take_while(|line| line.starts_with('#')).count();
    let has_blank_line = lines.get(header).is_some_and(|line| line.trim().is_empty());
    let place = header + usize::from(has_blank_line);
    lines.insert(place, format!("{VERSIONS}{bound}"));
    joined(&lines)
}

/// The text of a scenario in which what changes for an agent at one version changes at another one.
pub fn with_moved_bound(text: &str, agent: &str, from: AgentVersion, to: AgentVersion) -> String {
    let moved = |condition: &str| {
        let words = condition.split_whitespace().map(|word| {
            let ends = [VersionEnd::Before(from), VersionEnd::Since(from)];
            match ends.into_iter().find(|end| end.to_string() == word) {
                Some(VersionEnd::Before(_)) => VersionEnd::Before(to).to_string(),
                Some(VersionEnd::Since(_)) => VersionEnd::Since(to).to_string(),
                None => word.to_owned(),
            }
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let is_meant = |condition: &str| {
        let condition = condition.parse::<ScenarioCondition>();
        condition.is_ok_and(|it| it.is_for(agent))
    };
    let lines = text.lines().map(|line| {
        if let Some(condition) = line.strip_prefix(VERSIONS).filter(|it| is_meant(it)) {
            return format!("{VERSIONS}{}", moved(condition));
        }
        match line.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((condition, rest)) if is_meant(condition) => {
                format!("[{}]{rest}", moved(condition))
            }
            _ => line.to_owned(),
        }
    });
    joined(&lines.collect::<Vec<_>>())
}

/// The text of a scenario without the line that says which versions it is for.
pub fn without_versions(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with(VERSIONS)).map(str::to_owned);
    joined(&lines.collect::<Vec<_>>())
}

fn joined(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::{VersionBound, with_moved_bound, with_step_bound, with_versions_bound};
    use crate::scenario::{AgentVersion, Scenario};

    const NEW: AgentVersion = AgentVersion(2, 1, 150);

    #[test]
    fn a_step_gets_a_condition_or_a_tighter_one() {
        let (before, since) = (VersionBound::Before(NEW), VersionBound::Since(NEW));
        let except = VersionBound::Except(NEW, AgentVersion(2, 1, 200));
        let table = [
            ("< result", except, "[<2.1.150 >=2.1.200] < result"),
            ("[play >=2.0.9] alive", except, "[play >=2.0.9 <2.1.150 >=2.1.200] alive"),
            ("[<2.1.260] alive", except, "[<2.1.150 >=2.1.200 <2.1.260] alive"),
            ("[<2.1.180 >=2.1.200] alive", except, "[<2.1.150 >=2.1.200] alive"),
            ("[<2.0.9 >=2.0.60] alive", except, "[<2.0.9 >=2.0.60 <2.1.150 >=2.1.200] alive"),
            ("< result", before, "[<2.1.150] < result"),
            ("< result", since, "[>=2.1.150] < result"),
            ("[>=2.0.14] exit 0", since, "[>=2.1.150] exit 0"),
            ("[>=2.0.14] exit 0", before, "[>=2.0.14 <2.1.150] exit 0"),
            ("[!play <2.1.260] <! user", since, "[!play >=2.1.150 <2.1.260] <! user"),
            ("[<2.0.9 >=2.0.60] alive", before, "[<2.0.9 >=2.0.60 <2.1.150] alive"),
            ("[<2.0.9 >=2.0.60] alive", since, "[>=2.1.150] alive"),
            ("[codex <2.1.9 >=2.1.200] alive", before, "[codex <2.1.150] alive"),
            ("[<2.1.200 >=2.1.260] alive", since, "[>=2.1.150 <2.1.200 >=2.1.260] alive"),
        ];
        for (step, bound, expected) in table {
            let text = format!("# T\n\n> user \"hi\"\n{step}\n  {{}}\neof\n");
            let changed = with_step_bound(&text, 4, bound);
            assert_eq!(changed, format!("# T\n\n> user \"hi\"\n{expected}\n  {{}}\neof\n"));
        }
    }

    #[test]
    fn a_scenario_gets_a_range_of_versions_or_a_tighter_one() {
        let since = VersionBound::Since(NEW);
        let table = [
            ("# T\n# More\n\neof\n", "# T\n# More\n\nversions >=2.1.150\neof\n"),
            (
                "# T\n\nversions >=2.1.37 <3.0.0\n\neof\n",
                "# T\n\nversions >=2.1.150 <3.0.0\n\neof\n",
            ),
        ];
        for (text, expected) in table {
            let changed = with_versions_bound(text, since);
            assert_eq!(changed, expected);
            let scenario = Scenario::parse("x", &changed).unwrap();
            assert!(!scenario.condition.applies_to("claude", AgentVersion(2, 1, 149)));
            assert!(scenario.condition.applies_to("claude", NEW));
        }
    }

    #[test]
    fn a_bound_is_moved_wherever_it_is_for_the_agent() {
        let text = "# At >=2.1.150\n\nversions >=2.1.150\n[<2.1.150] < user\n  [\">=2.1.150\"]\n\
                    [!play >=2.1.150 <2.1.260] < system\n[play >=2.1.150] alive\n[<2.1.15] eof\n";
        let expected = "# At >=2.1.150\n\nversions >=2.1.140\n[<2.1.140] < user\n  [\">=2.1.150\"]\n\
                        [!play >=2.1.140 <2.1.260] < system\n[play >=2.1.150] alive\n[<2.1.15] eof\n";
        assert_eq!(with_moved_bound(text, "claude", NEW, AgentVersion(2, 1, 140)), expected);
        assert_eq!(with_moved_bound(text, "claude", AgentVersion(2, 1, 1), NEW), text);
    }
}
