//! The outcomes of several runs of the same scenarios, and which of them vary.

use std::collections::BTreeMap;

use super::VerifyResult;

/// How often each scenario had which outcome with which agent, in several runs of everything.
#[derive(Clone, Debug, Default)]
pub struct VerifyRepetition {
    runs: usize,
    /// By the indices of the scenario and the agent, and by the key of the outcome.
    counts: BTreeMap<(usize, usize), BTreeMap<&'static str, usize>>,
    results: BTreeMap<(usize, usize), VerifyResult>,
}

impl VerifyRepetition {
    /// Adds the results of one run of everything.
    pub fn add(&mut self, results: Vec<VerifyResult>) {
        self.runs += 1;
        for result in results {
            let pair = (result.scenario, result.agent);
            *self.counts.entry(pair).or_default().entry(result.outcome.key()).or_default() += 1;
            // A run that passed hides no difference of an earlier one: its capture shows what varies.
            let is_shown = self.results.get(&pair).is_none_or(|it| !it.outcome.is_failure());
            if is_shown || result.outcome.is_failure() {
                self.results.insert(pair, result);
            }
        }
    }

    pub fn runs(&self) -> usize {
        self.runs
    }

    /// One result for each scenario and agent, ordered by scenario, then by agent: the last that is a
    /// failure, or else the last.
    pub fn results(&self) -> Vec<VerifyResult> {
        self.results.values().cloned().collect()
    }

    /// How often each outcome came for the scenario and the agent of a result.
    pub fn outcomes(&self, result: &VerifyResult) -> BTreeMap<&'static str, usize> {
        self.counts.get(&(result.scenario, result.agent)).cloned().unwrap_or_default()
    }

    /// Whether not all runs had the same outcome for the scenario and the agent of a result.
    pub fn varies(&self, result: &VerifyResult) -> bool {
        self.outcomes(result).len() > 1
    }

    /// For how many pairs of a scenario and an agent the outcome varied.
    pub fn varying(&self) -> usize {
        self.counts.values().filter(|outcomes| outcomes.len() > 1).count()
    }
}

#[cfg(test)]
mod tests {
    use super::VerifyRepetition;
    use crate::verify::{VerifyDifference, VerifyOutcome, VerifyResult};

    fn result(scenario: usize, line: Option<usize>) -> VerifyResult {
        let difference = |line| Box::new(VerifyDifference { line, ..VerifyDifference::default() });
        let outcome =
            line.map_or(VerifyOutcome::Passed, |it| VerifyOutcome::Differs(difference(it)));
        VerifyResult::new(scenario, 0, outcome)
    }

    #[test]
    fn outcomes_that_are_not_always_the_same_vary() {
        let mut all = VerifyRepetition::default();
        for lines in [[None, Some(1), None], [None, Some(2), Some(3)], [None, Some(4), None]] {
            all.add(lines.into_iter().enumerate().map(|(index, it)| result(index, it)).collect());
        }
        assert_eq!((all.runs(), all.varying()), (3, 1));
        let results = all.results();
        let lines: Vec<Option<usize>> =
            results.iter().map(|it| it.outcome.difference().map(|it| it.line)).collect();
        // A failure is shown although the last run passed.
        assert_eq!(lines, [None, Some(4), Some(3)]);
        let varies: Vec<bool> = results.iter().map(|it| all.varies(it)).collect();
        assert_eq!(varies, [false, false, true]);
        let outcomes = all.outcomes(&results[2]);
        assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [("differs", 1), ("passed", 2)]);
    }
}
