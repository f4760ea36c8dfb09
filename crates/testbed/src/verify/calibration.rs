//! How fast an agent is on this machine, and how long its steps may therefore wait.
//!
//! The same turn takes an agent a tenth of a second or ten, depending on the agent and on what else
//! the machine does. A fixed time limit is too short for one and needlessly long for the other.

use std::time::Duration;

use super::{VerifyAgent, VerifyConfig, VerifyOutcome, VerifySuite};
use crate::scenario::{Scenario, ScenarioProtocol};

/// The result of measuring an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyCalibration {
    /// How long the agent took from its start to its exit, with one short turn.
    pub turn: Duration,
    /// How long a step may wait.
    pub timeout: Duration,
}

/// How many times as long as a whole turn a step may wait.
const TIMES_A_TURN: u32 = 20;

/// The limits of what a step may wait.
const SHORTEST: Duration = Duration::from_secs(20);
const LONGEST: Duration = Duration::from_mins(2);

/// How long the measured turn may take.
const TURN_TIMEOUT: Duration = Duration::from_mins(2);

/// The scenario that is measured. Every agent that answers at all passes it.
const TURN: &str =
    "# One short turn\n\napi text \"Ready.\"\n\n> user \"ready?\"\n< result\neof\nexit\n";
const ACP_TURN: &str = "# One short turn\n\nacp\nsession\n\napi text \"Ready.\"\n\n\
    > user \"ready?\" uuid prompt\n< response/result {\"id\":\"$prompt\"}\n";

impl VerifyCalibration {
    /// What follows from the time of a turn.
    fn of_turn(turn: Duration) -> Self {
        // Whole seconds, because the limit is shown.
        let seconds = (turn * TIMES_A_TURN).as_secs_f64().ceil();
        let timeout = Duration::from_secs_f64(seconds).clamp(SHORTEST, LONGEST);
        Self { turn, timeout }
    }
}

/// Measures an agent with as many turns at the same time as scenarios will run. `None` if the agent
/// does not get through the turn.
pub async fn calibrate(agent: &VerifyAgent, config: &VerifyConfig) -> Option<VerifyCalibration> {
    let text = match agent.command_for(ScenarioProtocol::StreamJson) {
        Some(_) => TURN,
        None => ACP_TURN,
    };
    let turn = Scenario::parse("calibration", text).ok()?;
    let turns = vec![turn; config.jobs.max(1)];
    let config =
        VerifyConfig { timeout: TURN_TIMEOUT, capture_dir: None, confirm: false, ..config.clone() };
    let agent = VerifyAgent { calibration: None, ..agent.clone() };
    let results = VerifySuite::new(turns, vec![agent], config).run(|_| {}).await;
    let passed = results.iter().filter(|it| matches!(it.outcome, VerifyOutcome::Passed));
    passed.map(|it| it.duration).max().map(VerifyCalibration::of_turn)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ACP_TURN, TURN, VerifyCalibration};
    use crate::scenario::Scenario;

    #[test]
    fn a_slow_agent_may_take_longer_within_limits() {
        let timeout = |millis| VerifyCalibration::of_turn(Duration::from_millis(millis)).timeout;
        assert_eq!(timeout(40), Duration::from_secs(20));
        assert_eq!(timeout(1510), Duration::from_secs(31));
        assert_eq!(timeout(60_000), Duration::from_mins(2));
    }

    #[test]
    fn the_measured_scenarios_are_valid() {
        for text in [TURN, ACP_TURN] {
            Scenario::parse("calibration", text).unwrap();
        }
    }
}
