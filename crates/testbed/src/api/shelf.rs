//! Several scenarios on one server, each for the conversation that begins as it does.

use std::collections::HashMap;

use crate::scenario::{Scenario, Step};

use super::ids::Ids;
use super::model::Client;
use super::recording::BadRecording;
use super::request::Request;
use super::script::{Chosen, Script};

/// Scenarios to choose from.
///
/// A scenario is for the conversations whose first prompt is its first `> user` text, or its name.
/// A session of the CLI plays its scenario from the start and keeps to it, its sub-agents too.
/// Clients that name no session share one playing of each scenario.
#[derive(Debug, Default)]
pub struct Shelf {
    scripts: Vec<(Vec<String>, Script)>,
    playing: HashMap<Audience, Script>,
}

/// Who shares one playing of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Audience {
    Session(String),
    AllOf(usize),
}

impl Shelf {
    /// A shelf of these scenarios; of two that begin alike the first is taken.
    pub fn new<'a>(
        scenarios: impl IntoIterator<Item = &'a Scenario>,
    ) -> Result<Self, BadRecording> {
        let script = |scenario: &Scenario| {
            let names = [Some(scenario.name.clone()), first_prompt(scenario)];
            Ok((names.into_iter().flatten().collect(), Script::of(scenario)?))
        };
        let scripts = scenarios.into_iter().map(script).collect::<Result<_, _>>()?;
        Ok(Self { scripts, playing: HashMap::new() })
    }

    pub(super) fn answer(
        &mut self,
        request: &Request<'_>,
        client: Client<'_>,
        ids: &Ids,
    ) -> Option<Chosen> {
        let session = client.session.map(|it| Audience::Session(it.to_owned()));
        let known = session.clone().filter(|session| self.playing.contains_key(session));
        let audience = match known {
            Some(session) => session,
            None => self.begin(&request.first_prompt(), session)?,
        };
        self.playing.get_mut(&audience)?.answer(request, client.version, ids)
    }

    /// Takes the scenario that begins with this prompt from the shelf.
    fn begin(&mut self, prompt: &str, session: Option<Audience>) -> Option<Audience> {
        let is_it = |name: &String| name.trim() == prompt.trim();
        let found = self.scripts.iter().position(|(names, _)| names.iter().any(is_it))?;
        let audience = session.unwrap_or(Audience::AllOf(found));
        let script = &self.scripts[found].1;
        self.playing.entry(audience.clone()).or_insert_with(|| script.clone());
        Some(audience)
    }
}

fn first_prompt(scenario: &Scenario) -> Option<String> {
    let steps = scenario.runs.iter().flat_map(|run| &run.what.steps);
    steps.map(|step| &step.what).find_map(|step| match step {
        Step::Prompt { text, .. } => Some(text.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::{Value, json};

    use crate::scenario::{Block, Reply};

    use super::super::answer::Matter;
    use super::{Client, Ids, Request, Script, Shelf};

    fn shelf(scenarios: &[(&str, &[&str])]) -> Shelf {
        let reply = |text: &&str| Reply {
            blocks: vec![Block::Text((*text).to_owned())],
            ..Reply::default()
        };
        let scripts = scenarios.iter().map(|(name, replies)| {
            (vec![(*name).to_owned()], Script::new(replies.iter().map(reply)).unwrap())
        });
        Shelf { scripts: scripts.collect(), playing: HashMap::new() }
    }

    #[test]
    fn a_session_keeps_to_its_scenario_and_plays_it_from_the_start() {
        let mut shelf = shelf(&[("red", &["r1", "r2", "r3"]), ("blue", &["b1", "b2"])]);
        let ids = Ids::new();
        let mut said = |session: Option<&str>, prompt: &str| {
            let message = json!({"role": "user", "content": prompt});
            let body = json!({"model": "m", "max_tokens": 1, "messages": [message]}).to_string();
            let request = Request::read(body.as_bytes()).unwrap();
            let client = Client { version: None, session };
            let Some(chosen) = shelf.answer(&request, client, &ids) else {
                return "-".to_owned();
            };
            let Matter::Message(message) = &chosen.answer.matter else { panic!("no message") };
            let whole: Value = serde_json::from_slice(&message.whole(&request, "m", 1)).unwrap();
            whole["content"][0]["text"].as_str().unwrap().to_owned()
        };
        let cases = [
            (Some("one"), "red", "r1"),
            (Some("two"), "red", "r1"),
            (Some("one"), "what a sub-agent is asked", "r2"),
            (Some("two"), "blue", "r2"),
            (Some("three"), "nothing of these", "-"),
            (Some("three"), " blue\n", "b1"),
            (None, "red", "r1"),
            (None, "blue", "b1"),
            (None, "red", "r2"),
        ];
        for (session, prompt, expected) in cases {
            assert_eq!(said(session, prompt), expected, "{session:?} {prompt}");
        }
    }
}
