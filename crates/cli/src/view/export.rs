//! A conversation as one HTML file.
//!
//! The top of the page has numbers that are known only at the end, so the turns go to a file of
//! their own first. Only a turn, or a part of a long one, is in memory at a time.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, BufWriter, Seek as _, Write};
use std::path::Path;

use view::html::{self, Look, Nonce, Timeline, Totals};
use view::{Body, CallState, Item, Speaker};

use super::document::Document;

/// About so many bytes of items are held before they are written.
const HELD: usize = 1 << 20;

/// Prompts in the list at the top of the page; nobody scrolls through more.
const LISTED: usize = 1000;

/// A page while it is made.
pub(super) struct Export {
    full: bool,
    turns: BufWriter<File>,
    held: Vec<Item>,
    held_bytes: usize,
    /// The turn whose section is open.
    section: Option<u64>,
    totals: Totals,
    files: HashSet<String>,
    timeline: Timeline,
}

impl Export {
    pub(super) fn new(full: bool) -> io::Result<Self> {
        Ok(Self {
            full,
            turns: BufWriter::new(tempfile::tempfile()?),
            held: Vec::new(),
            held_bytes: 0,
            section: None,
            totals: Totals::default(),
            files: HashSet::new(),
            timeline: Timeline::default(),
        })
    }

    /// Takes what has settled.
    pub(super) fn add(&mut self, document: &mut Document) -> io::Result<()> {
        for (at, tokens) in document.contexts() {
            self.timeline.context(at, tokens);
        }
        loop {
            while let Some(raw) = document.next_raw() {
                self.write_held(document)?;
                let mut out = String::new();
                html::raw_line(&raw.kind, &raw.text, &mut out);
                self.turns.write_all(out.as_bytes())?;
            }
            self.end_turns(document)?;
            let Some(item) = document.next_settled() else { return Ok(()) };
            self.item(item, document)?;
        }
    }

    /// Takes what is left.
    pub(super) fn finish(&mut self, document: &mut Document) -> io::Result<()> {
        self.add(document)?;
        while let Some(item) = document.next() {
            self.item(item, document)?;
            self.add(document)?;
        }
        self.end_turns(document)?;
        self.close_section(document)?;
        self.totals.files = self.files.len();
        self.totals.usage = document.now.usage.clone();
        Ok(())
    }

    fn end_turns(&mut self, document: &mut Document) -> io::Result<()> {
        while let Some(turn) = document.next_ended() {
            self.open_section(turn.number, turn.first, document)?;
            self.write_held(document)?;
            let mut out = String::new();
            html::turn_end(&turn, look(self.full, document), &mut out);
            self.turns.write_all(out.as_bytes())?;
            let duration = turn.end.as_ref().and_then(|end| end.duration_ms);
            self.totals.worked_ms += duration.unwrap_or(0);
            self.files.extend(turn.files.into_iter().map(|file| file.path));
        }
        Ok(())
    }

    fn item(&mut self, item: Item, document: &Document) -> io::Result<()> {
        self.open_section(item.turn, item.first, document)?;
        if let Some(at) = item.at {
            let (first, last) = self.totals.span.unwrap_or((at, at));
            self.totals.span = Some((first.min(at), last.max(at)));
        }
        let mut bytes = 500;
        match &item.body {
            Body::Call(call) => {
                self.totals.calls += 1;
                let failed = matches!(call.state, CallState::Failed | CallState::Denied);
                self.timeline.call(item.first, call.verb, failed);
                bytes += call.input.len();
                bytes += call.outcome.as_ref().map_or(0, |outcome| outcome.text.len());
            }
            Body::Text { text } | Body::Thinking { text, .. } => bytes += text.len(),
            Body::Prompt(prompt) => {
                bytes += prompt.text.len();
                if prompt.speaker == Speaker::Person && item.parent.is_none() {
                    self.totals.first_prompt.get_or_insert_with(|| prompt.text.clone());
                    let line = prompt.text.lines().find(|line| !line.trim().is_empty());
                    let words: String = line.unwrap_or_default().chars().take(100).collect();
                    if self.totals.prompts.len() < LISTED {
                        self.totals.prompts.push((item.turn, words));
                    }
                }
            }
            _ => {}
        }
        self.held.push(item);
        self.held_bytes += bytes;
        if self.held_bytes > HELD {
            self.write_held(document)?;
        }
        Ok(())
    }

    fn write_held(&mut self, document: &Document) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        let mut out = String::new();
        html::items(&held, look(self.full, document), &mut out);
        self.turns.write_all(out.as_bytes())
    }

    fn open_section(&mut self, turn: u64, first: u64, document: &Document) -> io::Result<()> {
        if self.section == Some(turn) {
            return Ok(());
        }
        self.close_section(document)?;
        self.section = Some(turn);
        if turn > 0 {
            self.totals.turns += 1;
            self.timeline.turn(first);
        }
        writeln!(self.turns, "<section class=\"turn\" id=\"t{turn}\">")
    }

    fn close_section(&mut self, document: &Document) -> io::Result<()> {
        self.write_held(document)?;
        match self.section.take() {
            Some(_) => writeln!(self.turns, "</section>"),
            None => Ok(()),
        }
    }

    /// Writes the page.
    pub(super) fn write(self, document: &Document, out: &mut impl Write) -> io::Result<()> {
        let head = &document.now.head;
        let mut turns = self.turns.into_inner().map_err(io::IntoInnerError::into_error)?;
        turns.rewind()?;
        let nonce = nonce();
        out.write_all(html::head(head, &self.totals, &self.timeline, nonce).as_bytes())?;
        io::copy(&mut turns, out)?;
        out.write_all(html::foot(head, nonce).as_bytes())
    }

    /// Writes the page to a file, which is there whole or not at all.
    pub(super) fn save(self, document: &Document, path: &Path) -> io::Result<()> {
        let folder =
            path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        // A page is as private as any other file of the user's, no more.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.prefix(".towpath-").tempfile_in(folder)?;
        self.write(document, &mut file)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// A number nobody could have known: the standard library seeds its maps from the system's own
/// source of such numbers.
fn nonce() -> Nonce {
    let draw = || u128::from(RandomState::new().build_hasher().finish());
    Nonce(draw() << 64 | draw())
}

fn look(full: bool, document: &Document) -> Look<'_> {
    Look { base: document.now.head.cwd.as_deref(), full }
}
