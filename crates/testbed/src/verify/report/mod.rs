//! Reports in JSON, `JUnit` XML and Markdown.

mod markdown;

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{VerifyAgent, VerifyOutcome, VerifyRepetition, VerifyResult};
use crate::scenario::Scenario;

pub use markdown::{MessageExplanation, anchor, markdown};

/// All results as one JSON object.
pub fn json(scenarios: &[Scenario], agents: &[VerifyAgent], results: &[VerifyResult]) -> Value {
    let agent_list: Vec<Value> = agents
        .iter()
        .map(|agent| {
            let mut object = json!({"agent": agent.label, "version": agent.version.to_string()});
            if let Some(calibration) = agent.calibration {
                object["turn_seconds"] = json!(calibration.turn.as_secs_f64());
                object["timeout_seconds"] = json!(calibration.timeout.as_secs());
            }
            object
        })
        .collect();
    let result_list: Vec<Value> = results
        .iter()
        .map(|result| {
            let mut object = json!({
                "scenario": scenarios[result.scenario].name,
                "title": scenarios[result.scenario].title,
                "agent": agents[result.agent].label,
                "outcome": result.outcome.key(),
                "seconds": result.duration.as_secs_f64(),
                "runs": result.attempts,
                "passes": result.passes,
            });
            if result.kept {
                object["kept"] = json!(true);
            }
            if let Some(difference) = result.outcome.difference() {
                object["difference"] = json!(difference);
            }
            if let VerifyOutcome::CouldNotRun(problem) = &result.outcome {
                object["error"] = json!(problem);
            }
            if let Some(path) = &result.capture_path {
                object["capture"] = json!(path);
            }
            object
        })
        .collect();
    let count = |key: &str| results.iter().filter(|it| it.outcome.key() == key).count();
    json!({
        "agents": agent_list,
        "results": result_list,
        "summary": {
            "passed": count("passed"),
            "differs": count("differs"),
            "flaky": count("flaky"),
            "timed_out": count("timed_out"),
            "not_applicable": count("not_applicable"),
            "could_not_run": count("could_not_run"),
        },
    })
}

/// Adds what several runs gave to the object that [`json()`] made of these results.
pub fn add_repetition(report: &mut Value, results: &[VerifyResult], repetition: &VerifyRepetition) {
    report["times"] = json!({ "runs": repetition.runs(), "varying": repetition.varying() });
    for (index, result) in results.iter().enumerate() {
        report["results"][index]["outcomes"] = json!(repetition.outcomes(result));
    }
}

/// All results as `JUnit` XML, with a test suite for each agent.
pub fn junit(scenarios: &[Scenario], agents: &[VerifyAgent], results: &[VerifyResult]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for (index, agent) in agents.iter().enumerate() {
        let results: Vec<&VerifyResult> = results.iter().filter(|it| it.agent == index).collect();
        write_suite(&mut xml, &agent.label, scenarios, &results);
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn write_suite(xml: &mut String, agent: &str, scenarios: &[Scenario], results: &[&VerifyResult]) {
    let count = |key: &str| results.iter().filter(|it| it.outcome.key() == key).count();
    let seconds: f64 = results.iter().map(|it| it.duration.as_secs_f64()).sum();
    // Writing to a string cannot fail.
    let _ = writeln!(
        xml,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\">",
        escape(agent),
        results.len(),
        count("differs"),
        count("could_not_run") + count("timed_out"),
        count("not_applicable"),
    );
    for result in results {
        let scenario = &scenarios[result.scenario];
        let _ = write!(
            xml,
            "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
            escape(agent),
            escape(&scenario.name),
            result.duration.as_secs_f64(),
        );
        let content = match &result.outcome {
            VerifyOutcome::Passed => None,
            VerifyOutcome::NotApplicable if scenario.condition.is_unconditional() => {
                Some("<skipped message=\"applies to agents with another protocol\"/>".to_owned())
            }
            VerifyOutcome::NotApplicable => Some(format!(
                "<skipped message=\"applies to {}\"/>",
                escape(&scenario.condition.to_string())
            )),
            VerifyOutcome::CouldNotRun(problem) => {
                Some(format!("<error message=\"{}\"/>", escape(problem)))
            }
            VerifyOutcome::Differs(difference) => Some(format!(
                "<failure message=\"{}\">{}</failure>",
                escape(&format!("line {}: {}", difference.line, difference.message)),
                escape(&difference.to_string()),
            )),
            VerifyOutcome::TimedOut(difference) => Some(format!(
                "<error type=\"timeout\" message=\"{}\"/>",
                escape(&format!("line {}: {}", difference.line, difference.message)),
            )),
            // As Maven's Surefire reports a test that passes when it is run again.
            VerifyOutcome::Flaky(difference) => Some(format!(
                "<flakyFailure message=\"{}\">{}</flakyFailure>",
                escape(&format!(
                    "differs in {} of {} runs, line {}: {}",
                    result.attempts - result.passes,
                    result.attempts,
                    difference.line,
                    difference.message
                )),
                escape(&difference.to_string()),
            )),
        };
        let _ = match content {
            Some(content) => writeln!(xml, ">\n      {content}\n    </testcase>"),
            None => writeln!(xml, "/>"),
        };
    }
    xml.push_str("  </testsuite>\n");
}

/// Escapes a text for XML. Control characters that XML does not allow become `\u{…}`.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push('\t'),
            other if other.is_control() => escaped.extend(other.escape_unicode()),
            other => escaped.push(other),
        }
    }
    escaped
}
