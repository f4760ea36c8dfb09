//! A session at the terminal: what it says above, what it asks and what is written below.
//!
//! Everything shown comes from following the journal. A key becomes a command of the session, and
//! what came of that is seen when the journal says so.

mod footer;
mod help;
mod keys;

use std::io::{self, BufWriter, Stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossterm::event::Event;
use journal::{Entry, Seq};
use session::{Session, Sessions};
use wire::note::{Actor, Note};

use super::Failure;
use super::asking::Asking;
use super::composer::Composer;
use super::course::Course;
use super::keyboard::Keyboard;
use super::telling::{Over, Sent, Signals, TWICE, refuse};
use crate::view::Below;
use crate::view::document::Document;
use crate::view::screen::Screen;
use crate::view::teller::Teller;
use footer::{Attention, Footer};

/// How often what moves by itself is drawn.
const BEAT: Duration = Duration::from_millis(250);

/// For so long a new request takes no keys: one pressed twice must not answer two.
const TURNING: Duration = Duration::from_millis(300);

/// Who has pressed a key within this time is writing, and does not mean a request that just came.
const WRITING: Duration = Duration::from_millis(800);

/// A session at the terminal.
pub(super) struct Stage<'a> {
    pub(super) sessions: &'a Sessions,
    pub(super) session: &'a Session,
    by: Actor,
    directory: PathBuf,
    /// Whether there is a line for the next prompt.
    goes_on: bool,
    /// Whether every request is refused.
    refuses: bool,
    screen: Screen,
    teller: Teller<BufWriter<Stdout>>,
    document: Document,
    composer: Composer,
    asking: Option<Asking>,
    /// Whether keys are for the request.
    answers: bool,
    /// When the request came.
    asked: Option<Instant>,
    /// A word to the person, until the next key.
    hint: Option<String>,
    stop_pressed: Option<Instant>,
    last_key: Option<Instant>,
}

/// What can come to the stage.
enum Came {
    /// Entries of the journal.
    Entries(Vec<Entry>),
    /// A key; nothing where the terminal is gone.
    Event(Option<Event>),
    /// A signal.
    Sent(Sent),
    /// Time to draw what moves by itself.
    Beat,
}

/// What a session at the terminal begins with.
pub(super) struct Opening {
    pub(super) by: Actor,
    pub(super) directory: PathBuf,
    pub(super) goes_on: bool,
    pub(super) refuses: bool,
    /// What was written before, oldest first.
    pub(super) history: Vec<String>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(sessions: &'a Sessions, session: &'a Session, opening: Opening) -> Self {
        let screen = Screen::of_stdout(None);
        let mut teller = Teller::new(BufWriter::new(io::stdout()), screen, false);
        teller.draw_what_is_open();
        Self {
            sessions,
            session,
            by: opening.by,
            directory: opening.directory,
            goes_on: opening.goes_on,
            refuses: opening.refuses,
            screen,
            teller,
            document: Document::new(false),
            composer: Composer::with_history(opening.history),
            asking: None,
            answers: false,
            asked: None,
            hint: None,
            stop_pressed: None,
            last_key: None,
        }
    }

    /// Plays until the person leaves, or the work is done and there is to be no more. What came
    /// before `from` is shown from turn `turn` on.
    pub(super) async fn play(
        &mut self,
        from: Seq,
        turn: u64,
        course: &mut Course,
    ) -> Result<Over, Failure> {
        let mut keyboard = Keyboard::take().map_err(Failure::Keyboard)?;
        let mut follower = self.session.follow(Seq(0));
        let mut signals = Signals::new().map_err(Failure::Runtime)?;
        let mut beat = tokio::time::interval(BEAT);
        let mut caught_up = from == Seq(0);
        let over = loop {
            if caught_up {
                self.draw()?;
            }
            let came = tokio::select! {
                entries = follower.next() => Came::Entries(entries?),
                () = self.session.closed() => return Err(Failure::Undriven),
                event = keyboard.next() => Came::Event(event),
                sent = signals.next() => Came::Sent(sent),
                () = beat_that_matters(&mut beat, self.moves()) => Came::Beat,
            };
            let over = match came {
                Came::Entries(entries) => {
                    let first = entries.partition_point(|entry| entry.seq <= from);
                    self.remember(&entries[..first], turn);
                    caught_up |= first < entries.len() || follower.cursor() >= from;
                    self.take(&entries[first..], course).await?.then_some(Over::Done)
                }
                Came::Event(Some(event)) => self.event(event).await?,
                // There is nothing left to draw on.
                Came::Event(None) => return Ok(Over::Left),
                Came::Sent(Sent::Interrupt) => self.stop().await?,
                Came::Sent(Sent::End) => Some(Over::Left),
                Came::Beat => {
                    if self.stop_pressed.take_if(|at| at.elapsed() >= TWICE).is_some() {
                        self.hint = None;
                    }
                    None
                }
            };
            if let Some(over) = over {
                break over;
            }
        };
        self.finish()?;
        Ok(over)
    }

    /// Whom keys are for.
    fn attention(&self) -> Attention {
        match self.asked {
            _ if !self.answers => Attention::Line,
            Some(at) if at.elapsed() < TURNING => Attention::Turning,
            _ => Attention::Request,
        }
    }

    /// Whether something on the screen changes by itself.
    fn moves(&self) -> bool {
        self.is_busy() || self.stop_pressed.is_some()
    }

    /// Takes in what came before; only the last turn of it is shown.
    fn remember(&mut self, entries: &[Entry], turn: u64) {
        for entry in entries {
            self.document.take_recorded(entry.line());
            while self.document.now.items.first().is_some_and(|item| item.turn < turn)
                && self.document.next_settled().is_some()
            {}
            while self.document.now.turns.first().is_some_and(|it| it.number < turn)
                && self.document.next_ended().is_some()
            {}
        }
    }

    /// Takes in what comes; whether the work is over and that is all.
    async fn take(&mut self, entries: &[Entry], course: &mut Course) -> Result<bool, Failure> {
        let mut may_be_over = false;
        for entry in entries {
            if let Some(note) = self.document.take_recorded(entry.line()) {
                may_be_over |= course.take(&note);
                if let (Note::RequestOpened { request, .. }, true) = (note, self.refuses) {
                    refuse(self.session, &request).await;
                }
            }
        }
        self.look_for_requests();
        if self.goes_on || !may_be_over {
            return Ok(false);
        }
        Ok(course.is_over(self.sessions.journal(), self.session.id()).await?)
    }

    fn look_for_requests(&mut self) {
        let first = self.document.now.requests.first();
        let same = match (&self.asking, first) {
            (Some(asking), Some(request)) => asking.request.id == request.id,
            (None, None) => true,
            _ => false,
        };
        if same {
            return;
        }
        self.asking = first.map(|request| Asking::new(request.clone(), &self.directory));
        self.asked = self.asking.is_some().then(Instant::now);
        let is_writing = self.last_key.is_some_and(|at| at.elapsed() < WRITING);
        self.answers = self.asking.is_some() && self.composer.is_empty() && !is_writing;
    }

    fn is_busy(&self) -> bool {
        self.document.now.status.phase.is_busy()
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let below = self.below();
        self.teller.put_below(below);
        self.teller.tell(&mut self.document).map_err(Failure::Write)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.teller.put_below(Below::default());
        self.teller.finish(&mut self.document).map_err(Failure::Write)
    }

    fn below(&self) -> Below {
        let footer = Footer {
            width: self.screen.width,
            queue: &self.document.now.queue,
            asking: self.asking.as_ref(),
            attention: self.attention(),
            hint: self.hint.as_deref(),
            composer: self.goes_on.then_some(&self.composer),
            is_busy: self.is_busy(),
        };
        footer.below()
    }
}

/// The next beat, while something moves.
async fn beat_that_matters(beat: &mut tokio::time::Interval, moves: bool) {
    if moves {
        beat.tick().await;
    } else {
        std::future::pending::<()>().await;
    }
}
