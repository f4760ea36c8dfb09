//! A report for scripts.

use serde_json::{Value, json};

use crate::scenario::Scenario;
use crate::verify::{Agent, Outcome, Report};

/// All that came of the book, as one object.
pub fn json(scenarios: &[Scenario], agents: &[Agent], reports: &[Report]) -> Value {
    let agents_: Vec<Value> = agents
        .iter()
        .map(|agent| json!({"agent": agent.label, "version": agent.version.to_string()}))
        .collect();
    let results: Vec<Value> = reports
        .iter()
        .map(|report| {
            let mut result = json!({
                "scenario": scenarios[report.scenario].name,
                "title": scenarios[report.scenario].title,
                "agent": agents[report.agent].label,
                "outcome": report.outcome.word(),
                "seconds": report.took.as_secs_f64(),
            });
            match &report.outcome {
                Outcome::Differs(difference) => result["difference"] = json!(difference),
                Outcome::CouldNotRun(problem) => result["problem"] = json!(problem),
                Outcome::Holds | Outcome::NotMeant => {}
            }
            if let Some(kept) = &report.kept {
                result["capture"] = json!(kept);
            }
            result
        })
        .collect();
    let count = |word: &str| reports.iter().filter(|it| it.outcome.word() == word).count();
    json!({
        "agents": agents_,
        "results": results,
        "summary": {
            "holds": count("holds"),
            "differs": count("differs"),
            "not_meant": count("not meant"),
            "could_not_run": count("could not run"),
        },
    })
}
