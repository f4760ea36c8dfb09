//! The releases that the player can stand in for.
//!
//! Only this module knows versions. The rest of the player asks whether the release has a
//! [`PlayerBehavior`], and prints lines as the newest release does; [`PlayerRelease::line`] leaves
//! out what an older one does not know. Each entry of the tables comes from a condition of a
//! scenario or from the captures, and a test compares them.

mod behavior;
mod lines;
mod offers;

pub(crate) use behavior::PlayerBehavior;
pub(crate) use offers::PlayerOffers;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::scenario::AgentVersion;

/// The release that the player stands in for unless `--as` names another one.
const NEWEST: AgentVersion = AgentVersion(2, 1, 325);

/// A release of the CLI that the player stands in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayerRelease {
    version: AgentVersion,
}

/// The player cannot stand in for a release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not played; choose one of {list}", list = list(PlayerRelease::ALL))]
pub struct PlayerReleaseError(String);

impl PlayerRelease {
    /// All releases that the player stands in for.
    pub const ALL: [Self; 4] = [
        Self { version: AgentVersion(1, 0, 128) },
        Self { version: AgentVersion(2, 0, 60) },
        Self { version: AgentVersion(2, 1, 37) },
        Self { version: NEWEST },
    ];

    pub fn version(self) -> AgentVersion {
        self.version
    }

    pub(crate) fn is_newest(self) -> bool {
        self.version == NEWEST
    }

    pub(crate) fn has(self, behavior: PlayerBehavior) -> bool {
        behavior.versions().contains(self.version)
    }

    /// The tools, commands, sub-agents and the model that the release offers.
    pub(crate) fn offers(self) -> &'static PlayerOffers {
        PlayerOffers::of(self.version)
    }

    /// A line as the release prints it, or `None` if it prints no such line.
    pub(crate) fn line(self, line: Value) -> Option<Value> {
        if self.is_newest() { Some(line) } else { lines::as_printed_by(self.version, line) }
    }
}

impl Default for PlayerRelease {
    fn default() -> Self {
        Self { version: NEWEST }
    }
}

impl FromStr for PlayerRelease {
    type Err = PlayerReleaseError;

    fn from_str(text: &str) -> Result<Self, PlayerReleaseError> {
        let version = text.parse::<AgentVersion>().ok();
        let known = Self::ALL.into_iter().find(|it| Some(it.version) == version);
        known.ok_or_else(|| PlayerReleaseError(text.to_owned()))
    }
}

impl fmt::Display for PlayerRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.version.fmt(f)
    }
}

fn list(releases: [PlayerRelease; 4]) -> String {
    releases.map(|it| it.to_string()).join(", ")
}

#[cfg(test)]
mod tests {
    use super::PlayerRelease;

    #[test]
    fn only_releases_that_are_played_can_be_chosen() {
        for release in PlayerRelease::ALL {
            assert_eq!(release.to_string().parse(), Ok(release));
        }
        assert_eq!(PlayerRelease::ALL.last(), Some(&PlayerRelease::default()));
        let error = "2.1.36".parse::<PlayerRelease>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`2.1.36` is not played; choose one of 1.0.128, 2.0.60, 2.1.37, 2.1.325"
        );
        assert!("newest".parse::<PlayerRelease>().is_err());
    }
}
