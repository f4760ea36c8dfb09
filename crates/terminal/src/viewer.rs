//! One of those who look at a terminal: what it has seen, and what it has to be sent.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::row::ScreenRow;
use crate::screen::{Screen, ScreenHead, ScreenSize};
use crate::shell::ShellExit;
use crate::terminal::{Terminal, TerminalRevision};

/// How long after an update the next one may come. What happens in between is in that one.
const FRAME_INTERVAL: Duration = Duration::from_millis(30);

/// A viewer of a terminal. It leaves when it is dropped; the terminal stays.
#[derive(Debug)]
pub struct Viewer {
    terminal: Arc<Terminal>,
    number: u64,
    states: watch::Receiver<TerminalRevision>,
    seen: SeenScreen,
    /// Something changed that was not sent yet.
    behind: bool,
    last_update: Option<Instant>,
}

/// What happened to a terminal.
#[derive(Debug)]
pub enum ViewerEvent {
    Updated(ScreenUpdate),
    Ended(ShellExit),
}

/// What a viewer lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenUpdate {
    /// All lines are included, and none that the viewer has is valid any more.
    pub is_whole: bool,
    pub head: ScreenHead,
    /// Lines that changed, with their numbers.
    pub lines: Vec<(u64, Arc<ScreenRow>)>,
}

/// The screen that a viewer has.
#[derive(Debug, Default)]
pub(crate) struct SeenScreen(Option<(ScreenHead, Vec<Arc<ScreenRow>>)>);

impl Viewer {
    pub(crate) fn new(
        terminal: Arc<Terminal>,
        number: u64,
        states: watch::Receiver<TerminalRevision>,
    ) -> Self {
        let seen = SeenScreen::default();
        Self { terminal, number, states, seen, behind: true, last_update: None }
    }

    pub fn terminal(&self) -> &Arc<Terminal> {
        &self.terminal
    }

    /// Waits until there is something to show. A call that is dropped loses nothing.
    pub async fn next(&mut self) -> ViewerEvent {
        loop {
            if !self.behind && self.states.changed().await.is_err() {
                return ViewerEvent::Ended(ShellExit::Unknown);
            }
            self.behind = true;
            if let Some(last) = self.last_update {
                sleep_until(last + FRAME_INTERVAL).await;
            }
            // The end is read before the screen, so the last output is shown before the end.
            let ended = self.states.borrow_and_update().ended.clone();
            if let Some(update) = self.terminal.with_screen(|it| self.seen.update(it)) {
                self.last_update = Some(Instant::now());
                return ViewerEvent::Updated(update);
            }
            if let Some(exit) = ended {
                return ViewerEvent::Ended(exit);
            }
            self.behind = false;
        }
    }

    /// Everything is sent again.
    pub fn forget(&mut self) {
        (self.seen, self.behind) = (SeenScreen::default(), true);
    }

    /// How much this viewer can show. The terminal has the size of the viewer that typed last.
    pub fn resize(&self, size: ScreenSize) {
        self.terminal.resize_viewer(self.number, size);
    }

    /// This viewer types, so the terminal takes its size. `None` if the shell has ended.
    pub fn input(&self) -> Option<mpsc::Sender<Vec<u8>>> {
        self.terminal.type_as(self.number)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.terminal.remove_viewer(self.number);
    }
}

impl SeenScreen {
    /// What changed since the last call, if anything.
    pub(crate) fn update(&mut self, screen: &mut Screen) -> Option<ScreenUpdate> {
        let head = screen.head();
        let rows = screen.rows().to_vec();
        let numbered = || (head.top..).zip(rows.iter().cloned());
        let known = self.0.take();
        let update = match &known {
            Some((before, lines)) if before.continues_as(&head) => {
                let known_row = |number: u64| {
                    let index = usize::try_from(number.checked_sub(before.top)?).ok()?;
                    lines.get(index)
                };
                let differs = |it: &(u64, Arc<ScreenRow>)| known_row(it.0) != Some(&it.1);
                // Lines that left the screen may have changed before they did.
                let left = usize::try_from(head.top - before.top).unwrap_or(usize::MAX);
                let left = if left <= lines.len() { left } else { 0 };
                let (first, left) = screen.scrollback(before.top, left);
                let left = (first..).zip(left);
                let lines = left.chain(numbered()).filter(differs).collect::<Vec<_>>();
                let changed = *before != head || !lines.is_empty();
                changed.then(|| ScreenUpdate { is_whole: false, head: head.clone(), lines })
            }
            _ => {
                let lines = numbered().collect();
                Some(ScreenUpdate { is_whole: true, head: head.clone(), lines })
            }
        };
        self.0 = Some((head, rows));
        update
    }
}

impl ScreenHead {
    /// Whether lines that were known before still have their numbers.
    fn continues_as(&self, later: &Self) -> bool {
        (self.numbering, self.alternate, self.size)
            == (later.numbering, later.alternate, later.size)
            && self.top <= later.top
    }
}
