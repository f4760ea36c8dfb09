//! Which reply answers which request.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::scenario::{AgentVersion, CLAUDE, Scenario, ScenarioItem, ScenarioReply, Step};

use super::generated;
use super::recording::{ApiRecording, ApiRecordingError};
use super::reply::{ApiIds, ApiReply, ApiReplyContent};
use super::request::ApiMessageRequest;
use super::shaped::ApiReplyShape;

/// The replies of one conversation.
///
/// Replies for a certain text (`only_for`) are tried first; each is used once, or any number of times
/// if it is marked `always`. The others are used in order, and the last of them repeats.
///
/// When a stream fails, the CLI requests the same messages again without streaming. That second
/// attempt gets the same reply, without the fault.
#[derive(Clone, Debug)]
pub struct ApiScript {
    entries: Vec<ApiScriptEntry>,
    version: Option<AgentVersion>,
    failed: Option<ApiFailedStream>,
}

#[derive(Clone, Debug)]
struct ApiScriptEntry {
    reply: ScenarioItem<ScenarioReply>,
    used: bool,
    /// The prepared reply, if it can be used more than once.
    prepared: Option<Arc<ApiReply>>,
    recording: Option<Arc<ApiRecording>>,
}

/// The latest stream with a fault: its messages and the script entry that answered it.
#[derive(Clone, Debug)]
struct ApiFailedStream {
    fingerprint: u64,
    entry: usize,
}

/// The reply chosen for a request.
pub(super) struct ApiReplyChoice {
    pub(super) reply: Arc<ApiReply>,
    /// Whether the reply is sent without its fault.
    pub(super) without_fault: bool,
}

impl ApiScript {
    pub fn new(
        replies: impl IntoIterator<Item = ScenarioReply>,
    ) -> Result<Self, ApiRecordingError> {
        let item = |reply| ScenarioItem::unconditional(0, reply);
        Self::from_items(replies.into_iter().map(item))
    }

    /// The replies of a scenario. Replies for certain versions are chosen by the version in the
    /// client's `user-agent`. A client without a version counts as the newest.
    pub fn from_scenario(scenario: &Scenario) -> Result<Self, ApiRecordingError> {
        Self::from_items(scenario.replies.iter().cloned())
    }

    /// The same script for clients that are known to have this version.
    #[must_use]
    pub fn for_version(self, version: AgentVersion) -> Self {
        Self { version: Some(version), ..self }
    }

    fn from_items(
        replies: impl Iterator<Item = ScenarioItem<ScenarioReply>>,
    ) -> Result<Self, ApiRecordingError> {
        let entry = |reply: ScenarioItem<ScenarioReply>| {
            let load = |path: &PathBuf| ApiRecording::load(path).map(Arc::new);
            let recording = reply.value.replay.as_ref().map(load).transpose()?;
            Ok(ApiScriptEntry { reply, used: false, prepared: None, recording })
        };
        let entries = replies.map(entry).collect::<Result<_, _>>()?;
        Ok(Self { entries, version: None, failed: None })
    }

    /// Chooses the reply to a request. `None` if the script has none.
    fn choose(
        &mut self,
        request: &ApiMessageRequest<'_>,
        version: Option<AgentVersion>,
        ids: &ApiIds,
    ) -> Option<ApiReplyChoice> {
        let repeated = self.failed.as_ref().filter(|failed| {
            request.stream != Some(true) && failed.fingerprint == request.fingerprint()
        });
        if let Some(failed) = repeated {
            let reply = self.entries[failed.entry].prepare(ids);
            return Some(ApiReplyChoice { reply, without_fault: true });
        }
        let newest = AgentVersion(u32::MAX, u32::MAX, u32::MAX);
        let version = self.version.or(version).unwrap_or(newest);
        let index = self.find_by_text(request, version).or_else(|| self.find_in_order(version))?;
        let entry = &mut self.entries[index];
        entry.used = true;
        let fails = request.stream == Some(true) && entry.reply.value.fault.is_some();
        let reply = entry.prepare(ids);
        self.failed =
            fails.then(|| ApiFailedStream { fingerprint: request.fingerprint(), entry: index });
        Some(ApiReplyChoice { reply, without_fault: false })
    }

    fn find_by_text(
        &self,
        request: &ApiMessageRequest<'_>,
        version: AgentVersion,
    ) -> Option<usize> {
        let mut latest = None;
        self.entries.iter().position(|entry| {
            let Some(text) = &entry.reply.value.only_for else { return false };
            (entry.reply.value.always || !entry.used)
                && entry.reply.condition.applies_to(CLAUDE, version)
                && latest.get_or_insert_with(|| request.latest_message()).contains(text)
        })
    }

    fn find_in_order(&self, version: AgentVersion) -> Option<usize> {
        let applies = |(_, entry): &(usize, &ApiScriptEntry)| {
            entry.reply.value.only_for.is_none()
                && entry.reply.condition.applies_to(CLAUDE, version)
        };
        let mut entries = self.entries.iter().enumerate().filter(applies);
        let last = entries.clone().next_back();
        entries.find(|(_, entry)| !entry.used).or(last).map(|(index, _)| index)
    }
}

impl ApiScriptEntry {
    fn prepare(&mut self, ids: &ApiIds) -> Arc<ApiReply> {
        if let Some(prepared) = &self.prepared {
            return Arc::clone(prepared);
        }
        let mut reply = ApiReply::prepare(&self.reply.value, ids);
        if let Some(recording) = &self.recording {
            reply.content = ApiReplyContent::Recording(Arc::clone(recording));
        }
        let reply = Arc::new(reply);
        if self.reply.value.has_fixed_ids() {
            self.prepared = Some(Arc::clone(&reply));
        }
        reply
    }
}

/// Several scenarios on one server.
///
/// A conversation gets the scenario whose first `> user` text, or whose name, is its first prompt. A
/// session of the CLI starts its scenario from the beginning and keeps it, including its sub-agents.
/// Clients without a session id share one run of each scenario.
#[derive(Debug, Default)]
pub struct ApiScriptSet {
    /// The prompts that select a script, and the script.
    scripts: Vec<(Vec<String>, ApiScript)>,
    active: HashMap<ApiConversationKey, ApiScript>,
}

/// What identifies a run of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ApiConversationKey {
    Session(String),
    /// All clients without a session id, for the script with this index.
    Shared(usize),
}

impl ApiScriptSet {
    /// Takes the replies of these scenarios. If two have the same first prompt, the first is used.
    pub fn new<'a>(
        scenarios: impl IntoIterator<Item = &'a Scenario>,
    ) -> Result<Self, ApiRecordingError> {
        let script = |scenario: &Scenario| {
            let prompts = [Some(scenario.name.clone()), first_prompt(scenario)];
            Ok((prompts.into_iter().flatten().collect(), ApiScript::from_scenario(scenario)?))
        };
        let scripts = scenarios.into_iter().map(script).collect::<Result<_, _>>()?;
        Ok(Self { scripts, active: HashMap::new() })
    }

    fn choose(
        &mut self,
        request: &ApiMessageRequest<'_>,
        client: ApiClient<'_>,
        ids: &ApiIds,
    ) -> Option<ApiReplyChoice> {
        let session = client.session.map(|it| ApiConversationKey::Session(it.to_owned()));
        let known = session.clone().filter(|session| self.active.contains_key(session));
        let key = match known {
            Some(session) => session,
            None => self.start(&request.first_prompt(), session)?,
        };
        self.active.get_mut(&key)?.choose(request, client.version, ids)
    }

    /// Starts the script that this prompt selects.
    fn start(
        &mut self,
        prompt: &str,
        session: Option<ApiConversationKey>,
    ) -> Option<ApiConversationKey> {
        let matches = |candidate: &String| candidate.trim() == prompt.trim();
        let index = self.scripts.iter().position(|(prompts, _)| prompts.iter().any(matches))?;
        let key = session.unwrap_or(ApiConversationKey::Shared(index));
        let script = &self.scripts[index].1;
        self.active.entry(key.clone()).or_insert_with(|| script.clone());
        Some(key)
    }
}

fn first_prompt(scenario: &Scenario) -> Option<String> {
    let steps = scenario.runs.iter().flat_map(|run| &run.value.steps);
    steps.map(|step| &step.value).find_map(|step| match step {
        Step::Prompt { text, .. } => Some(text.clone()),
        _ => None,
    })
}

/// Where the replies of a server come from.
#[derive(Debug)]
pub enum ApiModel {
    /// One script for all clients.
    Script(ApiScript),
    /// A script for each conversation.
    ScriptSet(ApiScriptSet),
    /// Replies generated from the requests.
    Generated,
}

impl From<ApiScript> for ApiModel {
    fn from(script: ApiScript) -> Self {
        Self::Script(script)
    }
}

impl From<ApiScriptSet> for ApiModel {
    fn from(scripts: ApiScriptSet) -> Self {
        Self::ScriptSet(scripts)
    }
}

/// What the headers of a request say about the client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ApiClient<'a> {
    /// The version of the CLI.
    pub(super) version: Option<AgentVersion>,
    /// The session id of the CLI.
    pub(super) session: Option<&'a str>,
}

/// A model with the state of its conversations.
#[derive(Debug)]
pub(super) struct ApiResponder {
    model: ApiModel,
    /// The reply generated last, for a request that is repeated.
    generated: Option<Arc<ApiReply>>,
}

impl ApiResponder {
    pub(super) fn new(model: ApiModel) -> Self {
        Self { model, generated: None }
    }

    /// Chooses the reply. If the model has none for this request, one is generated.
    pub(super) fn choose(
        &mut self,
        request: &ApiMessageRequest<'_>,
        body: &[u8],
        client: ApiClient<'_>,
        ids: &ApiIds,
    ) -> ApiReplyChoice {
        let choice = match &mut self.model {
            ApiModel::Script(script) => script.choose(request, client.version, ids),
            ApiModel::ScriptSet(scripts) => scripts.choose(request, client, ids),
            ApiModel::Generated => None,
        };
        choice.unwrap_or_else(|| {
            let shape = ApiReplyShape::new(body);
            let reply = generated::reply(&request.latest_message(), shape.allows_tools());
            let reply = shape.apply(reply);
            ApiReplyChoice { reply: self.prepare(&reply, ids), without_fault: false }
        })
    }

    fn prepare(&mut self, reply: &ScenarioReply, ids: &ApiIds) -> Arc<ApiReply> {
        let is_same = |it: &&Arc<ApiReply>| {
            let source = &it.source;
            source.blocks == reply.blocks
                && source.stop == reply.stop
                && source.stop_sequence == reply.stop_sequence
                && reply.has_fixed_ids()
        };
        if let Some(known) = self.generated.as_ref().filter(is_same) {
            return Arc::clone(known);
        }
        let prepared = Arc::new(ApiReply::prepare(reply, ids));
        self.generated = Some(Arc::clone(&prepared));
        prepared
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::{Value, json};

    use super::{
        ApiClient, ApiIds, ApiMessageRequest, ApiReplyChoice, ApiReplyContent, ApiScript,
        ApiScriptSet,
    };
    use crate::scenario::{
        AgentVersion, ScenarioBlock, ScenarioFault, ScenarioItem, ScenarioReply,
        ScenarioStreamFault,
    };

    const WITH_REMINDER: &str = "<system-reminder>the word is red</system-reminder>blue";

    fn text(text: &str) -> ScenarioReply {
        let blocks = vec![ScenarioBlock::Text(text.to_owned())];
        ScenarioReply { blocks, ..ScenarioReply::default() }
    }

    fn only_for(text: &str, reply: ScenarioReply) -> ScenarioReply {
        ScenarioReply { only_for: Some(text.to_owned()), ..reply }
    }

    fn failing(reply: ScenarioReply, fault: ScenarioStreamFault) -> ScenarioReply {
        ScenarioReply { fault: Some(ScenarioFault::Stream { after: 1, fault }), ..reply }
    }

    /// A request with a prompt. It streams unless the prompt starts with `whole:`.
    fn request(prompt: &str) -> Vec<u8> {
        let stream = !prompt.starts_with("whole:");
        let prompt = prompt.trim_start_matches("whole:");
        let message = json!({"role": "user", "content": [{"type": "text", "text": prompt}]});
        let request =
            json!({"model": "m", "max_tokens": 1, "stream": stream, "messages": [message]});
        request.to_string().into_bytes()
    }

    /// The text of a reply, with `*` if it is sent without its fault, or `-` if there is none.
    fn reply_text(request: &ApiMessageRequest<'_>, choice: Option<ApiReplyChoice>) -> String {
        let Some(choice) = choice else { return "-".to_owned() };
        let ApiReplyContent::Message(message) = &choice.reply.content else {
            panic!("not a message")
        };
        let whole: Value = serde_json::from_slice(&message.whole(request, "m", 1)).unwrap();
        let text = whole["content"][0]["text"].as_str().unwrap().to_owned();
        text + if choice.without_fault { "*" } else { "" }
    }

    /// The replies of a script to these prompts.
    fn replies(
        script: &mut ApiScript,
        version: Option<AgentVersion>,
        prompts: &[&str],
    ) -> Vec<String> {
        let ids = ApiIds::new();
        let reply = |prompt: &&str| {
            let body = request(prompt);
            let request = ApiMessageRequest::parse(&body).unwrap();
            reply_text(&request, script.choose(&request, version, &ids))
        };
        prompts.iter().map(reply).collect()
    }

    #[test]
    fn replies_are_used_in_order_and_those_for_a_text_first() {
        let always = |reply| ScenarioReply { always: true, ..reply };
        let cases: Vec<(Vec<ScenarioReply>, &[&str], &[&str])> = vec![
            (vec![], &["a"], &["-"]),
            (vec![text("1"), text("2")], &["a", "a", "a", "a"], &["1", "2", "2", "2"]),
            (vec![text("1"), only_for("red", text("r"))], &["a red", "red", "x"], &["r", "1", "1"]),
            (
                vec![always(only_for("red", text("r"))), text("1")],
                &["red", "b", "red"],
                &["r", "1", "r"],
            ),
            (vec![only_for("red", text("r")), text("1")], &[WITH_REMINDER, "red"], &["1", "r"]),
            (vec![only_for("red", text("r"))], &["red", "red"], &["r", "-"]),
            (
                vec![only_for("red", text("r1")), only_for("red", text("r2")), text("1")],
                &["red", "red", "red"],
                &["r1", "r2", "1"],
            ),
        ];
        for (script, prompts, expected) in cases {
            let mut script = ApiScript::new(script).unwrap();
            assert_eq!(replies(&mut script, None, prompts), expected, "{prompts:?}");
        }
    }

    #[test]
    fn the_second_attempt_without_streaming_gets_the_reply_that_failed() {
        let failing = [failing(text("1"), ScenarioStreamFault::Truncate), text("2")];
        let cases: &[(&[&str], &[&str])] = &[
            (&["a", "whole:a", "whole:a", "b"], &["1", "1*", "1*", "2"]),
            (&["a", "a", "whole:a"], &["1", "2", "2"]),
            (&["a", "whole:b"], &["1", "2"]),
            (&["whole:a", "whole:a"], &["1", "2"]),
        ];
        for (prompts, expected) in cases {
            let mut script = ApiScript::new(failing.clone()).unwrap();
            assert_eq!(replies(&mut script, None, prompts), *expected, "{prompts:?}");
        }
    }

    #[test]
    fn replies_for_other_versions_are_skipped() {
        let item = |condition: &str, value| ScenarioItem {
            condition: condition.parse().unwrap(),
            line: 1,
            value,
        };
        let items =
            [item("<2.1.100", text("old")), item(">=2.1.100", text("new")), item("", text("all"))];
        let script = ApiScript::from_items(items.into_iter()).unwrap();
        let old = AgentVersion(2, 1, 37);
        assert_eq!(replies(&mut script.clone(), Some(old), &["a", "a"]), ["old", "all"]);
        assert_eq!(replies(&mut script.clone(), None, &["a", "a"]), ["new", "all"]);
        let mut known = script.for_version(old);
        assert_eq!(replies(&mut known, Some(AgentVersion(2, 1, 325)), &["a"]), ["old"]);
    }

    #[test]
    fn a_session_keeps_its_scenario_and_starts_it_from_the_beginning() {
        let scripts: [(&str, &[&str]); 2] = [("red", &["r1", "r2", "r3"]), ("blue", &["b1", "b2"])];
        let scripts = scripts.map(|(name, replies)| {
            let script = ApiScript::new(replies.iter().map(|reply| text(reply))).unwrap();
            (vec![name.to_owned()], script)
        });
        let mut scripts = ApiScriptSet { scripts: scripts.into(), active: HashMap::new() };
        let ids = ApiIds::new();
        let cases = [
            (Some("one"), "red", "r1"),
            (Some("two"), "red", "r1"),
            (Some("one"), "the prompt of a sub-agent", "r2"),
            (Some("two"), "blue", "r2"),
            (Some("three"), "something else", "-"),
            (Some("three"), " blue\n", "b1"),
            (None, "red", "r1"),
            (None, "blue", "b1"),
            (None, "red", "r2"),
        ];
        for (session, prompt, expected) in cases {
            let body = request(prompt);
            let request = ApiMessageRequest::parse(&body).unwrap();
            let client = ApiClient { version: None, session };
            let choice = scripts.choose(&request, client, &ids);
            assert_eq!(reply_text(&request, choice), expected, "{session:?} {prompt}");
        }
    }
}
