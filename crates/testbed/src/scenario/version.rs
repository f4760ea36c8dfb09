//! Versions of the CLI, and ranges of them.

use std::fmt;
use std::str::FromStr;

/// A version: `2.1.325`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32, pub u32, pub u32);

/// Versions that meet every bound; without bounds, all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    bounds: Vec<(Relation, Version)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Below,
    AtMost,
    Exactly,
    AtLeast,
    Above,
}

impl Range {
    /// Whether the version meets every bound.
    pub fn contains(&self, version: Version) -> bool {
        self.bounds.iter().all(|(relation, bound)| match relation {
            Relation::Below => version < *bound,
            Relation::AtMost => version <= *bound,
            Relation::Exactly => version == *bound,
            Relation::AtLeast => version >= *bound,
            Relation::Above => version > *bound,
        })
    }

    /// Whether it has no bound.
    pub fn is_all(&self) -> bool {
        self.bounds.is_empty()
    }
}

/// A text is no version or range of versions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no version such as `2.1.325`")]
pub struct NotAVersion(String);

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let refuse = || NotAVersion(text.to_owned());
        let mut parts = text.split('.').map(|part| part.parse().map_err(|_| refuse()));
        let mut next = || parts.next().unwrap_or_else(|| Err(refuse()));
        let version = Self(next()?, next()?, next()?);
        if parts.next().is_some() { Err(refuse()) } else { Ok(version) }
    }
}

impl FromStr for Range {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let relations = [
            (">=", Relation::AtLeast),
            ("<=", Relation::AtMost),
            (">", Relation::Above),
            ("<", Relation::Below),
            ("", Relation::Exactly),
        ];
        let bounds = text.split_whitespace().map(|bound| {
            let found = relations.iter().find_map(|(sign, relation)| {
                bound.strip_prefix(sign).map(|version| (*relation, version))
            });
            let (relation, version) = found.unwrap_or((Relation::Exactly, bound));
            Ok((relation, version.parse()?))
        });
        Ok(Self { bounds: bounds.collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (relation, version)) in self.bounds.iter().enumerate() {
            let sign = match relation {
                Relation::Below => "<",
                Relation::AtMost => "<=",
                Relation::Exactly => "",
                Relation::AtLeast => ">=",
                Relation::Above => ">",
            };
            write!(f, "{}{sign}{version}", if place > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Range, Version};

    #[test]
    fn a_range_holds_what_meets_all_its_bounds() {
        let range: Range = ">=2.0.14 <2.1.120".parse().unwrap();
        let inside = ["2.0.14", "2.1.37", "2.1.119"];
        let outside = ["1.0.128", "2.0.9", "2.1.120", "3.0.0"];
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(inside.iter().all(|it| range.contains(version(it))));
        assert!(!outside.iter().any(|it| range.contains(version(it))));
        assert!("2.1.37".parse::<Range>().unwrap().contains(Version(2, 1, 37)));
        assert!(Range::default().contains(Version(0, 2, 9)));
        assert_eq!(range.to_string(), ">=2.0.14 <2.1.120");
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "2", "2.1", "2.1.x", "2.1.3.4", "v2.1.3"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
        assert!(">=2.1".parse::<Range>().is_err());
    }
}
