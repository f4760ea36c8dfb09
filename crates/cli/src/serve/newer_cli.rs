//! Says once for each version, in a session, that its CLI is newer than Towpath has been proven with.
//!
//! A task follows all sessions until their agents have said which version they are. That is at most a
//! few lines of each session, unless the CLI is newer and that was not said before; then the lines of
//! one turn are read, to name what Towpath does not know.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bytes::Bytes;
use journal::{Batch, Entry, Journal, NewEntry, Origin, Seq, SessionId, StateChange};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::warn;
use wire::Reading;
use wire::json::Raw;
use wire::note::Note;

use crate::clock::now;
use crate::proven::newer_with_unknown;

/// The follower state in the journal: the versions that were mentioned, each with its text.
const STATE: &str = "newer-cli";

/// The minimum time between two looks at all sessions.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// How many entries are read at a time.
const PAGE: usize = 200;

/// The most names of unknown things that are kept.
const MAX_UNKNOWN: usize = 20;

/// The task. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct NewerCliTask(JoinHandle<()>);

impl NewerCliTask {
    pub(super) fn start(journal: Journal) -> Self {
        Self(tokio::spawn(async move {
            // Without the journal there are no sessions to say anything in.
            let _ = run(journal).await;
        }))
    }
}

impl Drop for NewerCliTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is known of the CLIs of all sessions.
#[derive(Debug, Default)]
struct NewerClis {
    /// The versions that need not be mentioned again.
    mentioned: BTreeSet<String>,
    sessions: HashMap<SessionId, SessionCli>,
}

/// What is known of the CLI of a session.
#[derive(Debug, Default)]
struct SessionCli {
    after: Seq,
    version: Option<String>,
    unknown: BTreeSet<String>,
    /// Whether nothing more is read.
    done: bool,
}

/// A version to mention, and what to say.
#[derive(Debug, PartialEq, Eq)]
struct NewerCli {
    version: String,
    text: String,
}

async fn run(journal: Journal) -> Result<(), journal::Error> {
    let mentioned = journal.read_state(STATE).await?;
    let mentioned = mentioned.into_iter().map(|(key, _)| key).collect();
    let mut clis = NewerClis { mentioned, ..NewerClis::default() };
    let mut changes = journal.changes();
    // What was recorded before this server started is not looked at.
    for record in journal.sessions().await? {
        clis.sessions.insert(record.id, SessionCli { after: record.last, ..SessionCli::default() });
    }
    loop {
        changes.mark_unchanged();
        for record in journal.sessions().await? {
            while let Some(after) = clis.next(record.id).filter(|after| *after < record.last) {
                let entries = journal.read(record.id, after, PAGE).await?;
                if entries.is_empty() {
                    break;
                }
                if let Some(newer) = clis.add(record.id, &entries) {
                    warn!("{}", newer.text);
                    mention(&journal, record.id, &newer).await?;
                }
            }
        }
        sleep(MIN_INTERVAL).await;
        if changes.changed().await.is_err() {
            return Ok(());
        }
    }
}

/// Adds the text to the conversation, and remembers that it was said.
async fn mention(
    journal: &Journal,
    session: SessionId,
    newer: &NewerCli,
) -> Result<(), journal::Error> {
    let note = Note::Notice { text: newer.text.clone() };
    let bytes = Bytes::from(note.to_line());
    let entries = vec![NewEntry { origin: Origin::Towpath, bytes, transient: false }];
    journal.write(session, Batch { at: now(), entries, ..Batch::default() }).await?;
    let value = Some(newer.text.clone().into_bytes());
    let change = StateChange { key: newer.version.clone(), value };
    journal.write_state(STATE, vec![change]).await
}

impl NewerClis {
    /// After which entry a session is read on, if it is.
    fn next(&mut self, session: SessionId) -> Option<Seq> {
        let cli = self.sessions.entry(session).or_default();
        (!cli.done).then_some(cli.after)
    }

    /// Takes in the next entries of a session. Returns what is to be said after them.
    fn add(&mut self, session: SessionId, entries: &[Entry]) -> Option<NewerCli> {
        let cli = self.sessions.entry(session).or_default();
        let mut is_turn_over = false;
        for entry in entries {
            is_turn_over |= cli.add(entry);
            cli.after = entry.seq;
        }
        let version = cli.version.clone()?;
        let text = newer_with_unknown(&version, &cli.unknown);
        let text = text.filter(|_| !self.mentioned.contains(&version));
        cli.done = is_turn_over || text.is_none();
        let text = text.filter(|_| is_turn_over)?;
        self.mentioned.insert(version.clone());
        Some(NewerCli { version, text })
    }
}

impl SessionCli {
    /// Takes in a line of the agent. Returns whether a turn is over.
    fn add(&mut self, entry: &Entry) -> bool {
        if entry.origin != Origin::Agent || entry.continues {
            return false;
        }
        let mut is_turn_over = false;
        for line in wire::read(&entry.bytes) {
            match &line.reading {
                Reading::Event(event) => {
                    event.unmodelled().into_iter().for_each(|name| self.add_unknown(name));
                    is_turn_over |= event.kind.name == "result";
                    if event.kind.to_string() == "system/init" {
                        let text = std::str::from_utf8(line.bytes).ok();
                        let init = text.and_then(Raw::parse);
                        let version = init.and_then(|init| init.get("claude_code_version")?.text());
                        self.version = version.map(|it| it.to_string()).or(self.version.take());
                    }
                }
                Reading::Unknown(unknown) => self.add_unknown(unknown.kind.to_string()),
                Reading::Mismatch(mismatch) => {
                    self.add_unknown(format!("{}: {}", mismatch.kind, mismatch.reason));
                }
                Reading::Noise(_) => {}
            }
        }
        is_turn_over
    }

    fn add_unknown(&mut self, name: String) {
        if self.unknown.len() < MAX_UNKNOWN {
            self.unknown.insert(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use journal::{Entry, Origin, Seq, SessionId};
    use uuid::Uuid;

    use super::NewerClis;

    const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","claude_code_version":"VERSION","tools":[]}"#;
    const RESULT: &str =
        r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s"}"#;
    const NEW: &str = r#"{"type":"wibble","session_id":"s"}"#;

    /// What is said after each of these lines of one session.
    fn said(clis: &mut NewerClis, session: u128, version: &str, lines: &[&str]) -> Vec<String> {
        let id = SessionId(Uuid::from_u128(session));
        let mut said = Vec::new();
        for (seq, line) in (1..).zip(lines) {
            if clis.next(id).is_none() {
                break;
            }
            let bytes = Bytes::from(line.replace("VERSION", version));
            let (origin, continues) = (Origin::Agent, false);
            let entry = Entry { seq: Seq(seq), at: 0, origin, bytes, continues, omitted: 0 };
            said.extend(clis.add(id, &[entry]).map(|newer| newer.text));
        }
        said
    }

    #[test]
    fn a_newer_cli_is_mentioned_once_after_its_first_turn_with_what_is_not_known() {
        let mut clis = NewerClis::default();
        let texts = said(&mut clis, 1, "999.0.0", &[INIT, NEW, RESULT, INIT, RESULT]);
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(
            texts[0].contains("Claude Code 999.0.0") && texts[0].contains("`wibble`"),
            "{texts:?}"
        );
        assert!(said(&mut clis, 2, "999.0.0", &[INIT, NEW, RESULT]).is_empty());
        assert_eq!(said(&mut clis, 3, "999.0.1", &[INIT, RESULT]).len(), 1);
    }

    #[test]
    fn a_proven_cli_is_read_only_until_it_says_its_version() {
        let mut clis = NewerClis::default();
        assert!(said(&mut clis, 1, "2.1.37", &[NEW, INIT, RESULT]).is_empty());
        assert_eq!(clis.next(SessionId(Uuid::from_u128(1))), None);
        // One that has not said anything yet is read on.
        assert!(said(&mut clis, 2, "2.1.37", &[NEW]).is_empty());
        assert_eq!(clis.next(SessionId(Uuid::from_u128(2))), Some(Seq(1)));
    }
}
