//! The order of the lines of a release: recording it, and comparing the built-in agent with it.

use std::path::Path;

use anstream::eprintln;
use testbed::history::applied_digest;
use testbed::scenario::ScenarioProtocol;
use testbed::verify::{VerifyAgent, VerifyLineOrder, VerifyOutcome, VerifyResult};

use super::VerifyError;
use super::bisect::CLAUDE;
use super::selection::VerifyScenarioFiles;

/// How many scenarios a note names.
const MAX_NAMES: usize = 8;

/// Reads the file that the built-in agent is compared with, and says which scenarios are not in it.
pub(super) fn load(
    path: Option<&Path>,
    loaded: &VerifyScenarioFiles,
) -> Result<Option<VerifyLineOrder>, VerifyError> {
    let Some(path) = path else { return Ok(None) };
    let failed = |source| VerifyError::ReadLines { path: path.to_owned(), source };
    let order = VerifyLineOrder::load(path).map_err(failed)?;
    let release = VerifyAgent::known_release(order.version());
    let scenarios = loaded.scenarios.iter().zip(&loaded.texts);
    let scenarios = scenarios.filter(|(scenario, text)| {
        let digest = applied_digest(text, CLAUDE, order.version());
        scenario.protocol == ScenarioProtocol::StreamJson
            && release.runs(scenario)
            && !order.knows(&scenario.name, &digest)
    });
    let unknown: Vec<&str> = scenarios.map(|(scenario, _)| scenario.name.as_str()).collect();
    if !unknown.is_empty() {
        let shown = &unknown[..unknown.len().min(MAX_NAMES)];
        let more = if shown.len() < unknown.len() { ", …" } else { "" };
        eprintln!(
            "note: it is not known which lines {} prints in {} scenarios as they are now ({}{more}); \
             record them with `--record-lines`",
            order.version(),
            unknown.len(),
            shown.join(", ")
        );
    }
    Ok(Some(order))
}

/// Adds the lines of a release to a file, if one is given.
pub(super) fn record(
    path: Option<&Path>,
    loaded: &VerifyScenarioFiles,
    agents: &[VerifyAgent],
    results: &[VerifyResult],
) -> Result<(), VerifyError> {
    let Some(path) = path else { return Ok(()) };
    let release = agents.iter().position(|it| it.is_release && it.name == CLAUDE);
    let Some(index) = release else { return Err(VerifyError::NoReleaseOfLines) };
    let version = agents[index].version;
    let known = VerifyLineOrder::load(path).ok().filter(|it| it.version() == version);
    let mut order = known.unwrap_or_else(|| VerifyLineOrder::new(version));
    // What differs may have ended anywhere.
    let passed = results
        .iter()
        .filter(|it| it.agent == index && matches!(it.outcome, VerifyOutcome::Passed) && !it.kept);
    for result in passed {
        let (scenario, text) = (&loaded.scenarios[result.scenario], &loaded.texts[result.scenario]);
        order.add(&scenario.name, &applied_digest(text, CLAUDE, version), &result.capture);
    }
    let failed = |source| VerifyError::WriteFile { path: path.to_owned(), source };
    order.save(path).map_err(failed)
}
