//! When the outcome of a scenario is certain.
//!
//! A machine that is busy makes scenarios fail that hold, so a failure beside other scenarios proves
//! nothing. A difference counts once it was seen twice with nothing else running. What came and went
//! is flaky; it is run a few times more, so that its rate can be reported.

use super::VerifyOutcome;

/// How often a failure must be seen alone.
const SEEN_ALONE: usize = 2;

/// How often a scenario is run that differs only sometimes.
const FLAKY_RUNS: usize = 5;

/// What one run, or all of them together, showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunVerdict {
    Passed,
    Differs,
    Flaky,
    TimedOut,
    CouldNotRun,
}

impl RunVerdict {
    pub(super) fn of(outcome: &VerifyOutcome) -> Self {
        match outcome {
            VerifyOutcome::Passed | VerifyOutcome::NotApplicable => Self::Passed,
            VerifyOutcome::Differs(_) => Self::Differs,
            VerifyOutcome::Flaky(_) => Self::Flaky,
            VerifyOutcome::TimedOut(_) => Self::TimedOut,
            VerifyOutcome::CouldNotRun(_) => Self::CouldNotRun,
        }
    }
}

/// The verdict after these runs, of which the first `beside_others` were not alone. `None` if the
/// scenario must be run again.
pub(super) fn confirmed(runs: &[RunVerdict], beside_others: usize) -> Option<RunVerdict> {
    let alone = runs.get(beside_others..).unwrap_or_default();
    let count = |runs: &[RunVerdict], verdict| runs.iter().filter(|it| **it == verdict).count();
    if count(runs, RunVerdict::Passed) > 0 {
        // What timed out before it passed was the machine's doing.
        return if count(runs, RunVerdict::Differs) == 0 {
            Some(RunVerdict::Passed)
        } else {
            (runs.len() >= FLAKY_RUNS).then_some(RunVerdict::Flaky)
        };
    }
    let failures = [RunVerdict::Differs, RunVerdict::TimedOut, RunVerdict::CouldNotRun];
    failures.into_iter().find(|failure| count(alone, *failure) >= SEEN_ALONE)
}

#[cfg(test)]
mod tests {
    use super::RunVerdict::{self, CouldNotRun, Differs, Flaky, Passed, TimedOut};
    use super::confirmed;

    #[test]
    fn a_failure_counts_once_it_was_seen_twice_alone() {
        let table: [(&[RunVerdict], usize, Option<RunVerdict>); 14] = [
            (&[Passed], 1, Some(Passed)),
            (&[Differs], 1, None),
            (&[Differs, Differs], 1, None),
            (&[Differs, Differs, Differs], 1, Some(Differs)),
            (&[Differs, Differs], 0, Some(Differs)),
            (&[TimedOut, Passed], 1, Some(Passed)),
            (&[CouldNotRun, Passed], 1, Some(Passed)),
            (&[TimedOut, TimedOut, TimedOut], 1, Some(TimedOut)),
            (&[CouldNotRun, CouldNotRun], 0, Some(CouldNotRun)),
            (&[Differs, Passed], 1, None),
            (&[Differs, Passed, Differs, Differs], 1, None),
            (&[Differs, Passed, Passed, Passed, Passed], 1, Some(Flaky)),
            (&[Differs, TimedOut, Differs], 0, Some(Differs)),
            (&[Differs, TimedOut, CouldNotRun], 0, None),
        ];
        for (runs, beside_others, expected) in table {
            assert_eq!(confirmed(runs, beside_others), expected, "{runs:?}");
        }
    }

    #[test]
    fn every_sequence_of_runs_ends() {
        let kinds = [Passed, Differs, TimedOut, CouldNotRun];
        let mut open = vec![Vec::new()];
        for _ in 0..5 {
            let longer = open.iter().flat_map(|runs: &Vec<RunVerdict>| {
                kinds.map(|kind| [runs.as_slice(), &[kind]].concat())
            });
            open = longer.filter(|runs| confirmed(runs, 1).is_none()).collect();
        }
        assert_eq!(open, Vec::<Vec<RunVerdict>>::new());
    }
}
