//! A run without a terminal: one turn, from its prompt to its end.
//!
//! The agent's text goes to stdout as the model wrote it, so that `> answer.md` is Markdown.
//! Everything else goes to stderr.

use std::io::{self, Write};
use std::time::Instant;

use journal::{Entry, Origin, Seq};
use session::{Session, Sessions};
use view::terminal::{self, ColourMode, TerminalOptions};
use view::{Item, ItemBody, ItemId};
use wire::note::{Actor, Note, QueuePolicy};

use super::RunError;
use super::arguments::RequestPolicy;
use super::progress::{
    DOUBLE_PRESS, FollowEnd, RunProgress, RunSignal, RunSignals, deny_unattended,
};
use view::ViewDocument;

/// Prints the entries of a session.
pub(super) trait EntryPrinter {
    /// Takes an entry from before this run.
    fn skip(&mut self, entry: &Entry);
    /// Prints entries of this run.
    fn print(&mut self, entries: &[Entry]) -> io::Result<()>;
}

/// Follows a session until its turn is over.
pub(super) struct PipeRun<'a> {
    pub(super) sessions: &'a Sessions,
    pub(super) session: &'a Session,
    /// The last entry from before this run.
    pub(super) from: Seq,
    pub(super) requests: RequestPolicy,
    pub(super) by: Actor,
}

impl PipeRun<'_> {
    pub(super) async fn follow(
        &self,
        progress: &mut RunProgress,
        printer: &mut dyn EntryPrinter,
    ) -> Result<FollowEnd, RunError> {
        let (id, journal) = (self.session.id(), self.sessions.journal());
        for (_, request) in journal.open_requests(Some(id)).await? {
            if self.requests == RequestPolicy::Deny {
                deny_unattended(self.session, &request.id).await;
            }
        }
        let mut follower = self.session.follow(Seq(0));
        let mut signals = RunSignals::new().map_err(RunError::Runtime)?;
        let mut interrupted: Option<Instant> = None;
        loop {
            let entries = tokio::select! {
                entries = follower.next() => entries?,
                () = self.session.closed() => return Err(RunError::SessionStopped),
                signal = signals.next() => {
                    let again = interrupted.is_some_and(|at| at.elapsed() < DOUBLE_PRESS);
                    if signal == RunSignal::Terminate || again {
                        return Ok(FollowEnd::Detached);
                    }
                    interrupted = Some(Instant::now());
                    self.session.interrupt(QueuePolicy::Clear, self.by.clone()).await?;
                    continue;
                }
            };
            let first = entries.partition_point(|entry| entry.seq <= self.from);
            for entry in &entries[..first] {
                printer.skip(entry);
            }
            let mut may_be_over = false;
            for entry in entries[first..].iter().filter(|entry| entry.origin == Origin::Towpath) {
                let Some(note) = Note::read(&entry.bytes) else { continue };
                may_be_over |= progress.observe(&note);
                if let (Note::RequestOpened { request, .. }, RequestPolicy::Deny) =
                    (note, self.requests)
                {
                    deny_unattended(self.session, &request).await;
                }
            }
            printer.print(&entries[first..]).map_err(RunError::Write)?;
            if may_be_over && progress.is_over(journal, id).await? {
                return Ok(FollowEnd::Finished);
            }
        }
    }
}

/// Prints the agent's lines byte for byte.
pub(super) struct JsonLinePrinter<W>(pub(super) W);

impl<W: Write> EntryPrinter for JsonLinePrinter<W> {
    fn skip(&mut self, _: &Entry) {}

    fn print(&mut self, entries: &[Entry]) -> io::Result<()> {
        for entry in entries.iter().filter(|entry| entry.origin == Origin::Agent) {
            self.0.write_all(&entry.bytes)?;
            self.0.write_all(b"\n")?;
        }
        self.0.flush()
    }
}

/// Prints the agent's text to one writer and everything else to another.
pub(super) struct TextPrinter<T, L> {
    text: T,
    log: L,
    colours: ColourMode,
    width: usize,
    document: ViewDocument,
    /// The open text item, and how many of its bytes are printed.
    open_text: Option<(ItemId, usize)>,
    has_printed_text: bool,
}

impl<T: Write, L: Write> TextPrinter<T, L> {
    pub(super) fn new(text: T, log: L, colours: ColourMode, width: usize) -> Self {
        Self {
            text,
            log,
            colours,
            width,
            document: ViewDocument::new(false),
            open_text: None,
            has_printed_text: false,
        }
    }

    fn print_changes(&mut self) -> io::Result<()> {
        loop {
            while let Some(turn) = self.document.next_ended_turn() {
                let lines = terminal::turn_end(&turn, self.look());
                self.print_log(&lines);
            }
            let Some(item) = self.document.next_finished() else { break };
            self.print_item(&item)?;
        }
        if let Some(item) = self.document.conversation.items.first().filter(|item| item.open)
            && let ItemBody::Text { text } = &item.body
            && item.parent.is_none()
        {
            let (id, text) = (item.id.clone(), text.clone());
            self.print_text(&id, &text)?;
        }
        // The log is secondary: without a reader of stderr, stdout still gets the whole text.
        let _ = self.log.flush();
        self.text.flush()
    }

    fn print_item(&mut self, item: &Item) -> io::Result<()> {
        if let (ItemBody::Text { text }, None) = (&item.body, &item.parent) {
            self.print_text(&item.id, text)?;
            self.open_text = None;
            return writeln!(self.text);
        }
        if let ItemBody::Prompt(_) = item.body {
            // The caller knows its own prompt.
            return Ok(());
        }
        let lines = terminal::item(item, self.look());
        self.print_log(&lines);
        Ok(())
    }

    /// Prints the part of a text that is not printed yet.
    fn print_text(&mut self, id: &ItemId, text: &str) -> io::Result<()> {
        let known = self.open_text.take_if(|(open, _)| open == id);
        if known.is_none() && self.has_printed_text {
            writeln!(self.text)?;
        }
        self.has_printed_text = true;
        let printed = known.map_or(0, |(_, printed)| printed);
        write!(self.text, "{}", text.get(printed..).unwrap_or_default())?;
        self.open_text = Some((id.clone(), text.len()));
        Ok(())
    }

    fn print_log(&mut self, lines: &[terminal::StyledLine]) {
        for line in lines {
            let _ = writeln!(self.log, "{}", line.paint(self.colours).trim_end());
        }
    }

    fn look(&self) -> TerminalOptions<'_> {
        TerminalOptions {
            width: self.width,
            base: self.document.conversation.head.cwd.as_deref(),
            full: false,
        }
    }
}

impl<T: Write, L: Write> EntryPrinter for TextPrinter<T, L> {
    fn skip(&mut self, entry: &Entry) {
        self.document.push_recorded(entry.line());
        while self.document.next_finished().is_some() {}
        while self.document.next_ended_turn().is_some() {}
    }

    fn print(&mut self, entries: &[Entry]) -> io::Result<()> {
        for entry in entries {
            self.document.push_recorded(entry.line());
            self.print_changes()?;
        }
        Ok(())
    }
}
