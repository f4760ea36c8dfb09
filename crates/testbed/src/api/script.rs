//! Which reply answers which request.

use std::path::PathBuf;
use std::sync::Arc;

use crate::scenario::{Item, Range, Reply, Scenario, Version};

use super::answer::{Answer, Matter};
use super::ids::Ids;
use super::recording::{BadRecording, Recording};
use super::request::Request;

/// The replies of one conversation.
///
/// Replies for certain words are tried first, each used once unless it is for always. Then the
/// others come in order, and the last of them repeats. A request without streaming that repeats the
/// messages of a stream that has just failed is the CLI's second attempt at the same thing and gets
/// the same reply, whole.
#[derive(Clone, Debug)]
pub struct Script {
    entries: Vec<Entry>,
    version: Option<Version>,
    failed: Option<Failed>,
}

#[derive(Clone, Debug)]
struct Entry {
    reply: Item<Reply>,
    used: bool,
    /// The answer made of it, where it can serve more than once.
    ready: Option<Arc<Answer>>,
    recording: Option<Arc<Recording>>,
}

#[derive(Clone, Debug)]
struct Failed {
    fingerprint: u64,
    entry: usize,
}

/// What a request is to be answered with.
pub(super) struct Chosen {
    pub(super) answer: Arc<Answer>,
    /// Whether what goes wrong in a stream is left out.
    pub(super) spared: bool,
}

impl Script {
    /// A script of these replies.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Result<Self, BadRecording> {
        let item = |what| Item { versions: Range::default(), line: 0, what };
        Self::of_items(replies.into_iter().map(item))
    }

    /// The replies of a scenario. Those for some versions are chosen by the version the client names
    /// in its `user-agent`; a client that names none counts as the newest.
    pub fn of(scenario: &Scenario) -> Result<Self, BadRecording> {
        Self::of_items(scenario.replies.iter().cloned())
    }

    /// The same, for a client known to be of this version.
    #[must_use]
    pub fn for_version(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }

    fn of_items(replies: impl Iterator<Item = Item<Reply>>) -> Result<Self, BadRecording> {
        let entry = |reply: Item<Reply>| {
            let load = |path: &PathBuf| Recording::load(path).map(Arc::new);
            let recording = reply.what.replay.as_ref().map(load).transpose()?;
            Ok(Entry { reply, used: false, ready: None, recording })
        };
        let entries = replies.map(entry).collect::<Result<_, _>>()?;
        Ok(Self { entries, version: None, failed: None })
    }

    /// Chooses the answer to a request; none if there is no reply at all.
    pub(super) fn answer(
        &mut self,
        request: &Request<'_>,
        version: Option<Version>,
        ids: &Ids,
    ) -> Option<Chosen> {
        let again = self.failed.as_ref().filter(|failed| {
            request.stream != Some(true) && failed.fingerprint == request.fingerprint()
        });
        if let Some(failed) = again {
            let entry = failed.entry;
            return Some(Chosen { answer: self.entries[entry].answer(ids), spared: true });
        }
        let version = self.version.or(version).unwrap_or(Version(u32::MAX, u32::MAX, u32::MAX));
        let chosen = self.for_words(request, version).or_else(|| self.in_order(version))?;
        let entry = &mut self.entries[chosen];
        entry.used = true;
        let faulty = request.stream == Some(true) && entry.reply.what.fault.is_some();
        let answer = entry.answer(ids);
        self.failed = faulty.then(|| Failed { fingerprint: request.fingerprint(), entry: chosen });
        Some(Chosen { answer, spared: false })
    }

    fn for_words(&self, request: &Request<'_>, version: Version) -> Option<usize> {
        let mut newest = None;
        self.entries.iter().position(|entry| {
            let Some(words) = &entry.reply.what.only_for else { return false };
            (entry.reply.what.always || !entry.used)
                && entry.reply.versions.contains(version)
                && newest.get_or_insert_with(|| request.newest()).holds(words)
        })
    }

    fn in_order(&self, version: Version) -> Option<usize> {
        let counts = |(_, entry): &(usize, &Entry)| {
            entry.reply.what.only_for.is_none() && entry.reply.versions.contains(version)
        };
        let mut entries = self.entries.iter().enumerate().filter(counts);
        let last = entries.clone().next_back();
        entries.find(|(_, entry)| !entry.used).or(last).map(|(index, _)| index)
    }
}

impl Entry {
    fn answer(&mut self, ids: &Ids) -> Arc<Answer> {
        if let Some(ready) = &self.ready {
            return Arc::clone(ready);
        }
        let reply = &self.reply.what;
        let mut answer = Answer::prepare(reply, ids);
        if let Some(recording) = &self.recording {
            answer.matter = Matter::Recording(Arc::clone(recording));
        }
        let answer = Arc::new(answer);
        if reply.names_its_calls() {
            self.ready = Some(Arc::clone(&answer));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::scenario::{Block, Fault, Item, Reply, Trouble, Version};

    use super::super::answer::Matter;
    use super::{Ids, Request, Script};

    const REMINDED: &str = "<system-reminder>the word is red</system-reminder>blue";

    fn text(text: &str) -> Reply {
        Reply { blocks: vec![Block::Text(text.to_owned())], ..Reply::default() }
    }

    fn only_for(words: &str, reply: Reply) -> Reply {
        Reply { only_for: Some(words.to_owned()), ..reply }
    }

    fn failing(reply: Reply, trouble: Trouble) -> Reply {
        Reply { fault: Some(Fault::After { deltas: 1, trouble }), ..reply }
    }

    /// A prompt that streams; one that begins with `whole:` does not.
    fn request(prompt: &str) -> Vec<u8> {
        let stream = !prompt.starts_with("whole:");
        let prompt = prompt.trim_start_matches("whole:");
        let message = json!({"role": "user", "content": [{"type": "text", "text": prompt}]});
        let request =
            json!({"model": "m", "max_tokens": 1, "stream": stream, "messages": [message]});
        request.to_string().into_bytes()
    }

    /// What a script says to each prompt; `*` behind it if it is spared its fault.
    fn said(script: &mut Script, version: Option<Version>, prompts: &[&str]) -> Vec<String> {
        let ids = Ids::new();
        let answer = |prompt: &&str| {
            let body = request(prompt);
            let request = Request::read(&body).unwrap();
            let Some(chosen) = script.answer(&request, version, &ids) else {
                return "-".to_owned();
            };
            let Matter::Message(message) = &chosen.answer.matter else { panic!("no message") };
            let whole: Value = serde_json::from_slice(&message.whole(&request, "m", 1)).unwrap();
            let text = whole["content"][0]["text"].as_str().unwrap().to_owned();
            text + if chosen.spared { "*" } else { "" }
        };
        prompts.iter().map(answer).collect()
    }

    #[test]
    fn replies_come_in_order_and_those_for_certain_words_first() {
        let always = |reply| Reply { always: true, ..reply };
        let cases: Vec<(Vec<Reply>, &[&str], &[&str])> = vec![
            (vec![], &["a"], &["-"]),
            (vec![text("1"), text("2")], &["a", "a", "a", "a"], &["1", "2", "2", "2"]),
            (vec![text("1"), only_for("red", text("r"))], &["a red", "red", "x"], &["r", "1", "1"]),
            (
                vec![always(only_for("red", text("r"))), text("1")],
                &["red", "b", "red"],
                &["r", "1", "r"],
            ),
            (vec![only_for("red", text("r")), text("1")], &[REMINDED, "red"], &["1", "r"]),
            (vec![only_for("red", text("r"))], &["red", "red"], &["r", "-"]),
            (
                vec![only_for("red", text("r1")), only_for("red", text("r2")), text("1")],
                &["red", "red", "red"],
                &["r1", "r2", "1"],
            ),
        ];
        for (replies, prompts, expected) in cases {
            let mut script = Script::new(replies).unwrap();
            assert_eq!(said(&mut script, None, prompts), expected, "{prompts:?}");
        }
    }

    #[test]
    fn the_second_attempt_without_streaming_gets_the_reply_that_failed() {
        let replies = [failing(text("1"), Trouble::Truncate), text("2")];
        let cases: &[(&[&str], &[&str])] = &[
            (&["a", "whole:a", "whole:a", "b"], &["1", "1*", "1*", "2"]),
            (&["a", "a", "whole:a"], &["1", "2", "2"]),
            (&["a", "whole:b"], &["1", "2"]),
            (&["whole:a", "whole:a"], &["1", "2"]),
        ];
        for (prompts, expected) in cases {
            let mut script = Script::new(replies.clone()).unwrap();
            assert_eq!(said(&mut script, None, prompts), *expected, "{prompts:?}");
        }
    }

    #[test]
    fn replies_for_other_versions_do_not_count() {
        let item = |versions: &str, reply| Item {
            versions: versions.parse().unwrap(),
            line: 1,
            what: reply,
        };
        let replies =
            [item("<2.1.100", text("old")), item(">=2.1.100", text("new")), item("", text("all"))];
        let script = Script::of_items(replies.into_iter()).unwrap();
        let old = Version(2, 1, 37);
        assert_eq!(said(&mut script.clone(), Some(old), &["a", "a"]), ["old", "all"]);
        assert_eq!(said(&mut script.clone(), None, &["a", "a"]), ["new", "all"]);
        let mut known = script.for_version(old);
        assert_eq!(said(&mut known, Some(Version(2, 1, 325)), &["a"]), ["old"]);
    }
}
