//! Everything that is counted over an inspection.

use std::collections::{BTreeMap, HashMap};

use wire::event::{Body, Event};
use wire::meaning::Identity;
use wire::{Dialect, Line, Noise, Reading, read};

use super::counts::Counts;
use super::odd::{Misshapen, NoEvent, Oddities};
use super::session::{ChangedFile, Session};
use super::source::{LineText, SourceLine};

/// What an inspection has found so far.
#[derive(Default)]
pub(super) struct Census {
    pub(super) lines: u64,
    pub(super) bytes: u64,
    pub(super) blank: u64,
    pub(super) noise: Oddities<NoEvent>,
    pub(super) events: Counts,
    pub(super) unknown: Counts,
    /// Where each unknown was met.
    pub(super) unknown_places: Oddities<String>,
    pub(super) mismatches: Oddities<Misshapen>,
    pub(super) dialects: BTreeMap<Dialect, u64>,
    sessions: Vec<Session>,
    by_id: HashMap<String, usize>,
    /// The session that each message with its request was first met in.
    owners: HashMap<String, usize>,
    /// The session of the input at hand, by its place in `sessions`.
    current: Option<usize>,
    identity: Identity,
    /// Files that calls were to change, in the order of the calls.
    pub(super) files: Vec<ChangedFile>,
}

impl Census {
    /// Another input begins; what it says before it names its session is not the last one's.
    pub(super) fn begin_input(&mut self) {
        self.current = None;
        self.identity = Identity::default();
    }

    pub(super) fn take(&mut self, line: &SourceLine<'_>) {
        self.lines += line.lines;
        self.bytes += line.size;
        match line.text {
            LineText::Whole(bytes) => {
                for reading in read(bytes) {
                    self.take_reading(line, &reading);
                }
            }
            LineText::TooLong => self.noise.add(line.file, line.number, || NoEvent {
                why: format!("{} MiB, too long to be read", line.size >> 20),
                excerpt: String::new(),
            }),
        }
    }

    fn take_reading(&mut self, at: &SourceLine<'_>, line: &Line<'_>) {
        match &line.reading {
            Reading::Event(event) => {
                *self.dialects.entry(line.dialect).or_default() += 1;
                self.take_event(at, event, line.dialect);
            }
            Reading::Unknown(unknown) => {
                self.unknown.add(unknown.kind);
                self.unknown_places.add(at.file, at.number, || unknown.kind.to_string());
            }
            Reading::Mismatch(mismatch) => self.mismatches.add(at.file, at.number, || Misshapen {
                kind: mismatch.kind.to_string(),
                reason: mismatch.reason.clone(),
            }),
            // Counted, but nothing to look at.
            Reading::Noise(Noise::Blank) => {
                self.blank += 1;
                self.noise.count += 1;
            }
            Reading::Noise(noise) => {
                self.noise.add(at.file, at.number, || NoEvent::of(*noise, line.bytes));
            }
        }
    }

    fn take_event(&mut self, at: &SourceLine<'_>, event: &Event<'_>, dialect: Dialect) {
        self.events.add(event.kind);
        for name in event.unmodelled() {
            self.unknown.add_name(&name);
            self.unknown_places.add(at.file, at.number, || name);
        }
        let place = self.session_of(event);
        let told_before = self.was_told_in_another_session(event, place);
        let session = &mut self.sessions[place];
        if !told_before {
            session.count_tokens(event);
        }
        session.take(event, dialect, &mut self.files);
    }

    /// Whether the event's message was already told in another session's file: a fork begins with a
    /// copy of what it was forked from, and that was paid for once.
    fn was_told_in_another_session(&mut self, event: &Event<'_>, place: usize) -> bool {
        let Body::Assistant(assistant) = &event.body else { return false };
        let (Some(id), Some(request)) = (assistant.message.id, assistant.request_id) else {
            return false;
        };
        *self.owners.entry(format!("{id} {request}")).or_insert(place) != place
    }

    /// The place of the event's session; a session nobody named takes the first name that comes.
    fn session_of(&mut self, event: &Event<'_>) -> usize {
        if let (None, Some(current)) = (self.identity.observe(event), self.current) {
            return current;
        }
        let id = self.identity.current().map(str::to_owned);
        let known = id.as_ref().and_then(|id| self.by_id.get(id).copied());
        let place = match (known, self.current) {
            (Some(known), _) => known,
            (None, Some(current)) if self.sessions[current].id.is_none() => current,
            _ => {
                self.sessions.push(Session::named(None));
                self.sessions.len() - 1
            }
        };
        if let Some(id) = id {
            self.sessions[place].id = Some(id.clone());
            self.by_id.insert(id, place);
        }
        self.current = Some(place);
        place
    }

    /// Sessions of which something is known.
    pub(super) fn known_sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.iter().filter(|session| !session.is_empty())
    }

    /// Whether anything is unknown or mismatched.
    pub(super) fn is_odd(&self) -> bool {
        !self.unknown.is_empty() || self.mismatches.count > 0
    }
}
