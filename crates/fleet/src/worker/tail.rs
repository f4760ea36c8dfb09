//! The tail of a session: what a worker recorded after another one had taken the session over.
//!
//! It is no part of the conversation, because the new owner went on without it. Its lines are kept in a file
//! of this machine, and what a person can read of them goes to the owner, who puts it into the conversation
//! once. Until the owner has confirmed that, it stays in the state of this worker. The copy of the session is removed
//! after the file is on the disk.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use journal::{Batch, JournalChange, Origin, OutboxRow, Seq, SessionId, StateChange};
use serde::{Deserialize, Serialize};
use session::CommandOutput;
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;
use tracing::{debug, info};
use wire::note::Note;

use super::takeover::{entries_of, entry, failed, now};
use super::{FOLLOWER, SharedWorker, WorkerError};
use crate::bus::{BusError, LogPosition};
use crate::pack::{Pack, PackKind};
use crate::question::{WorkerAnswer, WorkerQuestion, decode_answer};

/// The keys of tails, before the ids of sessions.
const TAIL: &str = "tail/";

/// How much of an outbox is read at once.
const READ_BYTES: usize = 4 << 20;

/// How often the end of a log is read again that a server does not have yet, and the pause before.
const READ_ATTEMPTS: u32 = 20;
const READ_PAUSE: Duration = Duration::from_millis(100);

/// The longest text of a tail.
const MAX_TEXT: usize = 16 << 10;

/// The time until a tail that could not be delivered is tried again, if nothing else happens.
const RETRY: Duration = Duration::from_secs(5);

/// How long the owner may take to take it in.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// What was not shipped, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredTail {
    epoch: u64,
    text: String,
}

/// The lines of a tail, as they are written to a file of this machine.
#[derive(Debug)]
struct TailFile {
    path: PathBuf,
    file: File,
}

/// What is known of a tail while it is read.
#[derive(Debug, Default)]
struct TailSummary {
    text: String,
    /// Whether the text is complete.
    is_full: bool,
    /// How many lines there are, and how many of them are the agent's.
    lines: usize,
    said: usize,
}

impl SharedWorker {
    /// Keeps what was not shipped of a session in a file. Returns what a person is shown of it, with the key it is
    /// stored under; none if there is nothing that a person would miss. `epoch` is that of another worker. After
    /// this, the file is on the disk.
    pub(super) async fn keep_tail(
        &self,
        session: SessionId,
        epoch: u64,
    ) -> Result<Option<(String, StoredTail)>, WorkerError> {
        let journal = self.sessions.journal();
        let mut page = journal.read_outbox(session, READ_BYTES).await?;
        let (Some(first_row), Some(last_row)) = (page.rows.first(), page.rows.last()) else {
            return Ok(None);
        };
        let mut after = last_row.number;
        // The confirmation of the last messages may have been lost: what they say is in the conversation.
        let shipped = self.shipped_changes(session, first_row.number).await?;
        let failed = |source| WorkerError::Tail { session, source };
        let mut summary = TailSummary::default();
        let mut file: Option<TailFile> = None;
        loop {
            let is_shipped = |row: &OutboxRow| shipped.get(&row.number) == Some(&hash(&row.bytes));
            let rows = page.rows.into_iter().filter(|row| !is_shipped(row));
            let changes = rows.map(|row| JournalChange::decode(row.bytes));
            let changes: Vec<JournalChange<'static>> = changes.filter_map(Result::ok).collect();
            let mut lines = Vec::new();
            for entry in changes.iter().flat_map(entries_of) {
                lines.extend_from_slice(&entry.bytes);
                if !entry.bytes.ends_with(b"\n") {
                    lines.push(b'\n');
                }
                summary.add(entry.origin, &entry.bytes);
            }
            if !lines.is_empty() {
                let kept = match &mut file {
                    Some(kept) => kept,
                    None => file.insert(self.create_tail(session, epoch).await.map_err(failed)?),
                };
                kept.file.write_all(&lines).await.map_err(failed)?;
            }
            page = journal.read_outbox_after(session, after, READ_BYTES).await?;
            let Some(last_row) = page.rows.last() else { break };
            after = last_row.number;
        }
        let Some(file) = file else { return Ok(None) };
        let path = file.path.display().to_string();
        file.sync().await.map_err(failed)?;
        info!(%session, path, lines = summary.lines, "kept what was not sent of a session");
        let tail = summary.for_a_person(&path).map(|text| StoredTail { epoch, text });
        Ok(tail.map(|tail| (format!("{TAIL}{session}/{epoch}"), tail)))
    }

    async fn create_tail(&self, session: SessionId, epoch: u64) -> io::Result<TailFile> {
        let directory = self.sessions.config().data.join("tails");
        tokio::fs::create_dir_all(&directory).await?;
        let path = directory.join(format!("{session}-{epoch}.jsonl"));
        // What is there is of an attempt that was cut off.
        Ok(TailFile { file: File::create(&path).await?, path })
    }

    /// The changes of a session from a number on that are in its log, of those that this worker has sent. Their content
    /// counts: a machine that was restored from a backup may have made others with the same numbers.
    async fn shipped_changes(
        &self,
        session: SessionId,
        first: u64,
    ) -> Result<HashMap<u64, ChangeHash>, BusError> {
        let mut shipped = HashMap::new();
        let Some(end) = self.bus.last(session).await? else { return Ok(shipped) };
        let mut after = LogPosition(0);
        let mut early = 0;
        while after < end.position {
            let messages = self.bus.read(session, after).await?;
            let Some(message) = messages.last() else {
                // The server that was asked does not have the end yet.
                early += 1;
                if early == READ_ATTEMPTS {
                    return Err(BusError::Unavailable("the log ends too early".to_owned()));
                }
                tokio::time::sleep(READ_PAUSE).await;
                continue;
            };
            after = message.position;
            for message in messages {
                // A message that cannot be read does not show that something was shipped.
                let Ok(pack) = Pack::decode(message.payload) else { continue };
                if pack.header.worker.data != self.id.data || pack.header.last < first {
                    continue;
                }
                let object = match pack.object() {
                    Some(object) => self.bus.get_object(&object.name).await?,
                    None => None,
                };
                let changes = pack.changes(object.as_ref()).unwrap_or_default();
                let numbered = (pack.header.first..).zip(&changes);
                shipped.extend(numbered.map(|(number, change)| (number, hash(change))));
            }
        }
        Ok(shipped)
    }

    /// Gives tails to the owners of their sessions, until it is dropped.
    pub(super) async fn deliver_tails(&self) {
        loop {
            let left = self.deliver_once().await.unwrap_or_else(|error| {
                debug!(%error, "the tails cannot be read");
                true
            });
            tokio::select! {
                () = self.tails_changed.notified() => {}
                () = tokio::time::sleep(RETRY), if left => {}
            }
        }
    }

    /// Returns whether some are left.
    async fn deliver_once(&self) -> Result<bool, journal::Error> {
        let mut left = false;
        for (key, value) in self.sessions.journal().read_state(FOLLOWER).await? {
            let id = key.strip_prefix(TAIL).and_then(|rest| rest.split('/').next());
            let Some(session) = id.and_then(|id| id.parse::<SessionId>().ok()) else { continue };
            let is_done = match serde_json::from_slice::<StoredTail>(&value) {
                Ok(tail) => self.deliver(session, tail).await,
                Err(_) => true,
            };
            if is_done {
                let change = StateChange { key, value: None };
                self.sessions.journal().write_state(FOLLOWER, vec![change]).await?;
            } else {
                left = true;
            }
        }
        Ok(left)
    }

    /// Whether nothing is left to do with a tail.
    async fn deliver(&self, session: SessionId, tail: StoredTail) -> bool {
        let StoredTail { epoch, text } = tail;
        let worker = self.id.name.clone();
        match self.log_end(session).await {
            // The session is gone.
            Ok(None) => true,
            Ok(Some((_, header))) if header.kind == PackKind::Released => false,
            Ok(Some((_, header))) if header.worker.data == self.id.data => {
                // It has come back.
                self.take_tail(session, worker, epoch, text).await.is_ok()
            }
            Ok(Some((_, header))) => {
                let question = WorkerQuestion::Tail { session, worker, epoch, text }.encode();
                match self.bus.ask(&header.worker.name, question, ANSWER_TIMEOUT).await {
                    Ok(answer) => decode_answer(&answer).is_ok(),
                    Err(_) => false,
                }
            }
            Err(_) => false,
        }
    }

    /// Puts the tail of another worker into the conversation, once.
    pub(super) async fn take_tail(
        &self,
        session: SessionId,
        worker: String,
        epoch: u64,
        text: String,
    ) -> WorkerAnswer {
        let tenure = self.require_owner(session)?;
        let lock = self.session_lock(session);
        let _lock = lock.lock().await;
        let has_it = self.has_tail(session, &worker, epoch).await.map_err(|it| failed(&it))?;
        if !has_it {
            let note = Note::Tail { worker, epoch, text };
            let entries = vec![entry(&note)];
            let batch = Batch { at: now(), entries, ..Batch::default() };
            let written = self.sessions.journal().write(session, batch).await;
            written.map_err(|error| failed(&error))?;
        }
        self.shipped(session, tenure, CommandOutput::None).await
    }

    /// Whether a tail is in the conversation already: the answer to the question before may have been lost.
    async fn has_tail(
        &self,
        session: SessionId,
        worker: &str,
        epoch: u64,
    ) -> Result<bool, journal::Error> {
        let mut after = Seq(0);
        loop {
            let page = self.sessions.journal().read(session, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(false) };
            after = last.seq;
            let has_it = page.iter().filter(|it| it.origin == Origin::Towpath).any(|it| {
                matches!(
                    Note::read(&it.bytes),
                    Some(Note::Tail { worker: of, epoch: at, .. }) if of == worker && at == epoch
                )
            });
            if has_it {
                return Ok(true);
            }
        }
    }
}

/// What tells changes apart.
type ChangeHash = [u8; 32];

fn hash(change: &[u8]) -> ChangeHash {
    Sha256::digest(change).into()
}

impl TailFile {
    /// Makes the file as durable as the journal is.
    async fn sync(self) -> io::Result<()> {
        let Self { path, mut file } = self;
        file.flush().await?;
        file.sync_all().await?;
        let directory = path.parent().unwrap_or(&path);
        File::open(directory).await?.sync_all().await
    }
}

impl TailSummary {
    fn add(&mut self, origin: Origin, line: &[u8]) {
        self.lines += 1;
        self.said += usize::from(origin == Origin::Agent);
        if self.is_full {
            return;
        }
        let Some(said) = readable(origin, line) else { return };
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(&said);
        if self.text.len() > MAX_TEXT {
            self.text.truncate(self.text.floor_char_boundary(MAX_TEXT));
            self.text.push('…');
            self.is_full = true;
        }
    }

    fn for_a_person(self, path: &str) -> Option<String> {
        let Self { mut text, lines, said, .. } = self;
        if text.is_empty() {
            if said == 0 {
                return None;
            }
            text = if lines == 1 {
                "a line without text".to_owned()
            } else {
                format!("{lines} lines without text")
            };
        }
        Some(format!("{text}\n\n(all lines: `{path}` on that machine)"))
    }
}

/// How many entries are looked at together.
const PAGE: usize = 1024;

/// What a person can read of an entry that was not shipped; nothing for most.
fn readable(origin: Origin, line: &[u8]) -> Option<String> {
    if origin != Origin::Agent {
        let Some(Note::PromptQueued { text, by, .. }) = Note::read(line) else { return None };
        return Some(format!("{}: {text}", by.name));
    }
    let line: serde_json::Value = serde_json::from_slice(line).ok()?;
    let kind = line.get("type")?.as_str()?;
    if kind != "assistant" {
        return None;
    }
    let blocks = line.pointer("/message/content")?.as_array()?;
    let said: Vec<String> = blocks
        .iter()
        .filter_map(|block| {
            if let Some(text) = block.get("text").and_then(|it| it.as_str()) {
                return Some(text.to_owned());
            }
            let tool = block.get("name")?.as_str()?;
            let input = block.get("input").map(ToString::to_string).unwrap_or_default();
            let cut = input.floor_char_boundary(200);
            Some(format!("[{tool}] {}", &input[..cut]))
        })
        .collect();
    (!said.is_empty()).then(|| said.join("\n"))
}
