//! A report for build servers.

use std::fmt::Write as _;

use crate::scenario::Scenario;
use crate::verify::{Agent, Outcome, Report};

/// All that came of the book as `JUnit` XML, a suite for each agent.
pub fn junit(scenarios: &[Scenario], agents: &[Agent], reports: &[Report]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for (place, agent) in agents.iter().enumerate() {
        let reports: Vec<&Report> = reports.iter().filter(|it| it.agent == place).collect();
        suite(&mut xml, &agent.label, scenarios, &reports);
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn suite(xml: &mut String, agent: &str, scenarios: &[Scenario], reports: &[&Report]) {
    let count = |word: &str| reports.iter().filter(|it| it.outcome.word() == word).count();
    let seconds: f64 = reports.iter().map(|it| it.took.as_secs_f64()).sum();
    // Writing to a string cannot fail.
    let _ = writeln!(
        xml,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\">",
        escaped(agent),
        reports.len(),
        count("differs"),
        count("could not run"),
        count("not meant"),
    );
    for report in reports {
        let scenario = &scenarios[report.scenario];
        let _ = write!(
            xml,
            "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
            escaped(agent),
            escaped(&scenario.name),
            report.took.as_secs_f64(),
        );
        let inside = match &report.outcome {
            Outcome::Holds => None,
            Outcome::NotMeant => Some(format!(
                "<skipped message=\"meant for {}\"/>",
                escaped(&scenario.versions.to_string())
            )),
            Outcome::CouldNotRun(problem) => {
                Some(format!("<error message=\"{}\"/>", escaped(problem)))
            }
            Outcome::Differs(difference) => Some(format!(
                "<failure message=\"{}\">{}</failure>",
                escaped(&format!("line {}: {}", difference.line, difference.what)),
                escaped(&difference.to_string()),
            )),
        };
        let _ = match inside {
            Some(inside) => writeln!(xml, ">\n      {inside}\n    </testcase>"),
            None => writeln!(xml, "/>"),
        };
    }
    xml.push_str("  </testsuite>\n");
}

/// A text as XML can hold it; control characters it cannot become `\u{…}`.
fn escaped(text: &str) -> String {
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
