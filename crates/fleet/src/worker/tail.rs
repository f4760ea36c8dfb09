//! The tail of a session: what a worker recorded after another one had taken the session over.
//!
//! It is no part of the conversation, because the new owner went on without it. Its lines are kept in a file
//! of this machine, and what a person can read of them goes to the owner, who puts it into the conversation
//! once. Until the owner has confirmed that, it stays in the state of this worker.

use std::time::Duration;

use journal::{Batch, JournalChange, Origin, Seq, SessionId, StateChange};
use serde::{Deserialize, Serialize};
use session::CommandOutput;
use tracing::{debug, warn};
use wire::note::Note;

use super::takeover::{entries_of, entry, failed, now};
use super::{FOLLOWER, SharedWorker};
use crate::pack::PackKind;
use crate::question::{WorkerAnswer, WorkerQuestion, decode_answer};

/// The keys of tails, before the ids of sessions.
const TAIL: &str = "tail/";

/// How much of an outbox is looked at.
const READ_BYTES: usize = 16 << 20;

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

impl SharedWorker {
    /// What of a session was not shipped, with the key it is stored under; none if there is nothing that a
    /// person would miss.
    pub(super) async fn read_tail(
        &self,
        session: SessionId,
    ) -> Result<Option<(String, StoredTail)>, journal::Error> {
        let page = self.sessions.journal().read_outbox(session, READ_BYTES).await?;
        let changes = page.rows.into_iter().map(|row| JournalChange::decode(row.bytes));
        let changes: Vec<JournalChange<'static>> = changes.filter_map(Result::ok).collect();
        let mut lines = Vec::new();
        let mut text = String::new();
        for entry in changes.iter().flat_map(entries_of) {
            lines.extend_from_slice(&entry.bytes);
            if !entry.bytes.ends_with(b"\n") {
                lines.push(b'\n');
            }
            if let Some(said) = readable(entry.origin, &entry.bytes) {
                if !text.is_empty() {
                    text.push_str("\n\n");
                }
                text.push_str(&said);
            }
        }
        if text.is_empty() {
            return Ok(None);
        }
        if text.len() > MAX_TEXT {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
            text.push('…');
        }
        let epoch = match self.log_end(session).await {
            Ok(Some((_, header))) => header.epoch,
            _ => 0,
        };
        match self.keep_lines(session, epoch, lines).await {
            Ok(file) => {
                text.push_str("\n\n(all lines: `");
                text.push_str(&file);
                text.push_str("` on that machine)");
            }
            Err(error) => warn!(%session, %error, "the lines of a tail could not be kept"),
        }
        Ok(Some((format!("{TAIL}{session}/{epoch}"), StoredTail { epoch, text })))
    }

    async fn keep_lines(
        &self,
        session: SessionId,
        epoch: u64,
        lines: Vec<u8>,
    ) -> std::io::Result<String> {
        let directory = self.sessions.config().data.join("tails");
        tokio::fs::create_dir_all(&directory).await?;
        let file = directory.join(format!("{session}-{epoch}.jsonl"));
        tokio::fs::write(&file, lines).await?;
        Ok(file.display().to_string())
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
        self.require_owner(session)?;
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
        self.shipped(session, CommandOutput::None).await
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
