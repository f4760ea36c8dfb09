//! The search for the release in which a conversation changed.
//!
//! The search halves the versions between one that passes and one that does not. A version that says
//! neither, because it cannot be fetched or is not certain, is left out, and its neighbour is tried.

use crate::scenario::AgentVersion;

/// A search in progress. The versions are in ascending order.
#[derive(Clone, Debug)]
pub struct VerifyBisection {
    versions: Vec<AgentVersion>,
    /// Whether the first version passes. The last one then does not, or the other way round.
    first_passes: bool,
}

/// The two releases between which a conversation changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyChange {
    pub before: AgentVersion,
    pub after: AgentVersion,
    /// Whether the scenario passes with the release before the change.
    pub passes_before: bool,
}

impl VerifyBisection {
    /// Starts with the published versions from one end to the other. The ends are known to differ.
    pub fn new(versions: Vec<AgentVersion>, first_passes: bool) -> Self {
        Self { versions, first_passes }
    }

    /// The version to run next, or the change once it is found.
    pub fn step(&self) -> Result<AgentVersion, VerifyChange> {
        match self.versions.as_slice() {
            [before, after] => Err(VerifyChange {
                before: *before,
                after: *after,
                passes_before: self.first_passes,
            }),
            versions => Ok(versions[versions.len() / 2]),
        }
    }

    /// At most how many versions are still to be run.
    pub fn remaining_runs(&self) -> u32 {
        self.versions.len().saturating_sub(1).max(1).next_power_of_two().ilog2()
    }

    /// Continues on the side on which the change is.
    pub fn add(&mut self, version: AgentVersion, passes: bool) {
        if passes == self.first_passes {
            self.versions.retain(|it| *it >= version);
        } else {
            self.versions.retain(|it| *it <= version);
        }
    }

    /// The versions between which the change is, as far as is known.
    pub fn range(&self) -> Option<VerifyChange> {
        let (before, after) = (*self.versions.first()?, *self.versions.last()?);
        Some(VerifyChange { before, after, passes_before: self.first_passes })
    }

    /// Leaves out a version that says nothing.
    pub fn skip(&mut self, version: AgentVersion) {
        self.versions.retain(|it| *it != version);
    }
}

#[cfg(test)]
mod tests {
    use super::{VerifyBisection, VerifyChange};
    use crate::scenario::AgentVersion;

    fn version(patch: u32) -> AgentVersion {
        AgentVersion(2, 1, patch)
    }

    /// Searches among versions 0 to 99 and returns the change and the number of runs.
    fn search(changed_in: u32, first_passes: bool, broken: &[u32]) -> (VerifyChange, usize) {
        let mut bisection = VerifyBisection::new((0..100).map(version).collect(), first_passes);
        let mut runs = 0;
        loop {
            let next = match bisection.step() {
                Ok(next) => next,
                Err(change) => return (change, runs),
            };
            if broken.contains(&next.2) {
                bisection.skip(next);
                continue;
            }
            let remaining = bisection.remaining_runs();
            runs += 1;
            bisection.add(next, (next.2 < changed_in) == first_passes);
            assert!(bisection.remaining_runs() < remaining, "{remaining}");
        }
    }

    #[test]
    fn the_change_is_found_wherever_it_is() {
        for changed_in in 1..100 {
            for passes_before in [true, false] {
                let (change, runs) = search(changed_in, passes_before, &[]);
                let (before, after) = (version(changed_in - 1), version(changed_in));
                assert_eq!(change, VerifyChange { before, after, passes_before });
                assert!(runs <= 7, "{runs} runs for {changed_in}");
            }
        }
    }

    #[test]
    fn versions_that_say_nothing_are_left_out() {
        let (change, _) = search(50, true, &[48, 49, 51, 25, 75]);
        assert_eq!((change.before, change.after), (version(47), version(50)));
    }
}
