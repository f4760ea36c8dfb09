//! Versions of agents, and ranges of them.

use std::fmt;
use std::str::FromStr;

/// A version of an agent, such as `2.1.325` of Claude Code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentVersion(pub u32, pub u32, pub u32);

/// The versions that satisfy every bound. Without bounds, all versions.
///
/// A lower bound after an upper one begins another part: `<2.0.43 >=2.0.60` is everything but the releases
/// in between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentVersionRange {
    parts: Vec<Vec<VersionComparison>>,
}

/// A comparison with a version.
type VersionComparison = (AgentVersionComparison, AgentVersion);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentVersionComparison {
    Less,
    AtMost,
    Equal,
    AtLeast,
    Greater,
}

/// A text is neither a version nor a range of versions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version such as `2.1.325`")]
pub struct AgentVersionError(String);

impl AgentVersionRange {
    pub fn contains(&self, version: AgentVersion) -> bool {
        let satisfies = |(comparison, bound): &VersionComparison| match comparison {
            AgentVersionComparison::Less => version < *bound,
            AgentVersionComparison::AtMost => version <= *bound,
            AgentVersionComparison::Equal => version == *bound,
            AgentVersionComparison::AtLeast => version >= *bound,
            AgentVersionComparison::Greater => version > *bound,
        };
        self.is_unbounded() || self.parts.iter().any(|part| part.iter().all(satisfies))
    }

    /// Whether the range has no bounds.
    pub fn is_unbounded(&self) -> bool {
        self.parts.is_empty()
    }
}

impl FromStr for AgentVersion {
    type Err = AgentVersionError;

    fn from_str(text: &str) -> Result<Self, AgentVersionError> {
        let invalid = || AgentVersionError(text.to_owned());
        let mut parts = text.split('.').map(|part| part.parse().map_err(|_| invalid()));
        let mut next = || parts.next().unwrap_or_else(|| Err(invalid()));
        let version = Self(next()?, next()?, next()?);
        if parts.next().is_some() { Err(invalid()) } else { Ok(version) }
    }
}

impl FromStr for AgentVersionRange {
    type Err = AgentVersionError;

    fn from_str(text: &str) -> Result<Self, AgentVersionError> {
        let comparisons = [
            (">=", AgentVersionComparison::AtLeast),
            ("<=", AgentVersionComparison::AtMost),
            (">", AgentVersionComparison::Greater),
            ("<", AgentVersionComparison::Less),
            ("", AgentVersionComparison::Equal),
        ];
        let mut parts: Vec<Vec<VersionComparison>> = Vec::new();
        for bound in text.split_whitespace() {
            let found = comparisons.iter().find_map(|(sign, comparison)| {
                bound.strip_prefix(sign).map(|version| (*comparison, version))
            });
            let (comparison, version) = found.unwrap_or((AgentVersionComparison::Equal, bound));
            let bound = (comparison, version.parse()?);
            match parts.last_mut() {
                Some(part) if !(comparison.is_lower() && part.iter().any(|it| it.0.is_upper())) => {
                    part.push(bound);
                }
                _ => parts.push(vec![bound]),
            }
        }
        Ok(Self { parts })
    }
}

impl AgentVersionComparison {
    fn is_lower(self) -> bool {
        matches!(self, Self::AtLeast | Self::Greater)
    }

    fn is_upper(self) -> bool {
        matches!(self, Self::Less | Self::AtMost)
    }
}

impl fmt::Display for AgentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl fmt::Display for AgentVersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (comparison, version)) in self.parts.iter().flatten().enumerate() {
            let sign = match comparison {
                AgentVersionComparison::Less => "<",
                AgentVersionComparison::AtMost => "<=",
                AgentVersionComparison::Equal => "",
                AgentVersionComparison::AtLeast => ">=",
                AgentVersionComparison::Greater => ">",
            };
            write!(f, "{}{sign}{version}", if index > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{AgentVersion, AgentVersionRange};

    #[test]
    fn a_range_contains_the_versions_within_all_its_bounds() {
        let range: AgentVersionRange = ">=2.0.14 <2.1.120".parse().unwrap();
        let inside = ["2.0.14", "2.1.37", "2.1.119"];
        let outside = ["1.0.128", "2.0.9", "2.1.120", "3.0.0"];
        let version = |text: &str| text.parse::<AgentVersion>().unwrap();
        assert!(inside.iter().all(|it| range.contains(version(it))));
        assert!(!outside.iter().any(|it| range.contains(version(it))));
        let exact: AgentVersionRange = "2.1.37".parse().unwrap();
        assert!(exact.contains(AgentVersion(2, 1, 37)));
        assert!(AgentVersionRange::default().contains(AgentVersion(0, 2, 9)));
        assert_eq!(range.to_string(), ">=2.0.14 <2.1.120");
    }

    #[test]
    fn a_lower_bound_after_an_upper_one_leaves_out_what_is_between() {
        let text = ">=2.0.14 <2.0.43 >=2.0.60 <2.1.37";
        let range: AgentVersionRange = text.parse().unwrap();
        let contained = |text: &str| range.contains(text.parse().unwrap());
        assert!(["2.0.14", "2.0.42", "2.0.60", "2.1.36"].into_iter().all(contained));
        assert!(!["2.0.13", "2.0.43", "2.0.59", "2.1.37"].into_iter().any(contained));
        assert_eq!(range.to_string(), text);
    }

    #[test]
    fn invalid_versions_are_rejected() {
        for text in ["", "2", "2.1", "2.1.x", "2.1.3.4", "v2.1.3"] {
            assert!(text.parse::<AgentVersion>().is_err(), "{text}");
        }
        assert!(">=2.1".parse::<AgentVersionRange>().is_err());
    }
}
