//! A session told where nobody can be asked: one turn, from its prompt to its end.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use journal::{Entry, Origin, Seq};
use session::machine::Answer;
use session::{Session, Sessions};
use tokio::signal::unix::{Signal, SignalKind, signal};
use wire::note::{Actor, Note, QueueFate};

use super::Failure;
use super::arguments::Ask;
use super::course::Course;

/// What the agent is told when nobody can be asked.
const NOBODY: &str = "Nobody can be asked: this session runs without anybody at it, so what needs a \
    person's word is refused. Do what can be done without it, and say what is missing.";

/// A second Ctrl-C within this time leaves.
pub(super) const TWICE: Duration = Duration::from_millis(1500);

/// Where a session is told to.
pub(super) trait Telling {
    /// An entry from before this run.
    fn skip(&mut self, entry: &Entry);
    /// Entries of this run.
    fn tell(&mut self, entries: &[Entry]) -> io::Result<()>;
}

/// The agent's lines, byte for byte.
pub(super) struct Raw<W>(pub(super) W);

impl<W: Write> Telling for Raw<W> {
    fn skip(&mut self, _: &Entry) {}

    fn tell(&mut self, entries: &[Entry]) -> io::Result<()> {
        for entry in entries.iter().filter(|entry| entry.origin == Origin::Agent) {
            self.0.write_all(&entry.bytes)?;
            self.0.write_all(b"\n")?;
        }
        self.0.flush()
    }
}

/// Why the telling is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// There is nothing more to do.
    Done,
    /// Somebody wants to leave while the agent works.
    Left,
}

/// One session, told until its work is done.
pub(super) struct Told<'a> {
    pub(super) sessions: &'a Sessions,
    pub(super) session: &'a Session,
    pub(super) from: Seq,
    pub(super) ask: Ask,
    pub(super) by: Actor,
}

impl Told<'_> {
    /// Tells until the work is done.
    pub(super) async fn until_over(
        &self,
        course: &mut Course,
        telling: &mut dyn Telling,
    ) -> Result<Over, Failure> {
        let (id, journal) = (self.session.id(), self.sessions.journal());
        for (_, request) in journal.open_requests(Some(id)).await? {
            if self.ask == Ask::Deny {
                refuse(self.session, &request.id).await;
            }
        }
        let mut follower = self.session.follow(Seq(0));
        let mut signals = Signals::new().map_err(Failure::Runtime)?;
        let mut interrupted: Option<Instant> = None;
        loop {
            let entries = tokio::select! {
                entries = follower.next() => entries?,
                () = self.session.closed() => return Err(Failure::Undriven),
                sent = signals.next() => {
                    let again = interrupted.is_some_and(|at| at.elapsed() < TWICE);
                    if sent == Sent::End || again {
                        return Ok(Over::Left);
                    }
                    interrupted = Some(Instant::now());
                    self.session.interrupt(QueueFate::Clear, self.by.clone()).await?;
                    continue;
                }
            };
            let first = entries.partition_point(|entry| entry.seq <= self.from);
            for entry in &entries[..first] {
                telling.skip(entry);
            }
            let mut may_be_over = false;
            for entry in entries[first..].iter().filter(|entry| entry.origin == Origin::Towpath) {
                let Some(note) = Note::read(&entry.bytes) else { continue };
                may_be_over |= course.take(&note);
                if let (Note::RequestOpened { request, .. }, Ask::Deny) = (note, self.ask) {
                    refuse(self.session, &request).await;
                }
            }
            telling.tell(&entries[first..]).map_err(Failure::Write)?;
            if may_be_over && course.is_over(journal, id).await? {
                return Ok(Over::Done);
            }
        }
    }
}

/// Refuses a request, because nobody can or wants to be asked. One that is gone meanwhile needs no
/// answer.
pub(super) async fn refuse(session: &Session, request: &str) {
    let answer = Answer::Deny { message: NOBODY.to_owned(), interrupt: false };
    let by = Actor { name: "towpath".to_owned(), via: "rule".to_owned() };
    let _ = session.answer(request, answer, by).await;
}

/// What the system may tell us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// Ctrl-C, as a rule.
    Interrupt,
    /// We are to end.
    End,
}

/// The signals that mean something here.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> Sent {
        tokio::select! {
            _ = self.interrupt.recv() => Sent::Interrupt,
            _ = self.terminate.recv() => Sent::End,
            _ = self.hang_up.recv() => Sent::End,
        }
    }
}
