//! What a benchmark was asked to do.

use std::num::NonZero;

use crate::failure::Failure;

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Finding the kind of each line.
    Kind,
    /// Reading each line into its type.
    Read,
    /// Allocations on reading a text delta.
    Allocations,
    /// Folding sessions into what a person sees.
    Fold,
    /// `towpath inspect` of a file.
    Inspect,
    /// `towpath --version`.
    Startup,
    /// Requests to `towpath stub`.
    Stub,
    /// Writing to, replaying and settling the journal.
    Journal,
    /// Driving agents.
    Sessions,
    /// `towpath watch` between two pipes.
    Watch,
    /// Following sessions over a WebSocket.
    Followers,
}

impl Job {
    const ALL: [Self; 11] = [
        Self::Kind,
        Self::Read,
        Self::Allocations,
        Self::Fold,
        Self::Inspect,
        Self::Startup,
        Self::Stub,
        Self::Journal,
        Self::Sessions,
        Self::Watch,
        Self::Followers,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Read => "read",
            Self::Allocations => "allocations",
            Self::Fold => "fold",
            Self::Inspect => "inspect",
            Self::Startup => "startup",
            Self::Stub => "stub",
            Self::Journal => "journal",
            Self::Sessions => "sessions",
            Self::Watch => "watch",
            Self::Followers => "followers",
        }
    }
}

/// The options of `cargo xtask bench`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The size of each corpus.
    pub(super) megabytes: NonZero<u64>,
    /// How often each contestant runs.
    pub(super) rounds: NonZero<u32>,
    only: Option<Job>,
}

const MEGABYTES: NonZero<u64> = NonZero::new(200).expect("not zero");
const ROUNDS: NonZero<u32> = NonZero::new(5).expect("not zero");

impl Settings {
    pub(super) fn from_options(options: &[&str]) -> Result<Self, Failure> {
        let mut settings = Self { megabytes: MEGABYTES, rounds: ROUNDS, only: None };
        let (pairs, rest) = options.as_chunks();
        for [option, value] in pairs {
            let unusable = || Failure::usage(format!("`{option} {value}` is no option of bench"));
            match *option {
                "--mb" => settings.megabytes = value.parse().map_err(|_| unusable())?,
                "--rounds" => settings.rounds = value.parse().map_err(|_| unusable())?,
                "--only" => {
                    let job = Job::ALL.into_iter().find(|job| job.name() == *value);
                    settings.only = Some(job.ok_or_else(unusable)?);
                }
                _ => return Err(unusable()),
            }
        }
        match rest {
            [] => Ok(settings),
            [option, ..] => Err(Failure::usage(format!("`{option}` of bench lacks its value"))),
        }
    }

    #[cfg(feature = "bench")]
    pub(super) fn jobs(&self) -> impl Iterator<Item = Job> {
        Job::ALL.into_iter().filter(|job| self.only.is_none_or(|only| only == *job))
    }
}

#[cfg(test)]
mod tests {
    use super::{Job, Settings};

    #[test]
    fn options_come_in_pairs_and_nothing_else_is_taken() {
        let settings = Settings::from_options(&["--mb", "20", "--only", "read"]).unwrap();
        assert_eq!((settings.megabytes.get(), settings.only), (20, Some(Job::Read)));
        for wrong in [&["--mb"][..], &["--mb", "0"], &["--only", "all"], &["--fast", "1"]] {
            Settings::from_options(wrong).unwrap_err();
        }
    }
}
