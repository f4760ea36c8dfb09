//! A conversation as one HTML file.
//!
//! The numbers at the top of the page are known only at the end, so the turns go to a temporary file
//! first. Only one turn, or a part of a long one, is in memory at a time.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, BufWriter, Seek as _, Write};
use std::path::Path;

use view::html::{self, CspNonce, HtmlOptions, PageTotals, Timeline};
use view::{CallState, Item, ItemBody, PromptAuthor};

use super::document::ViewDocument;

/// About how many bytes of items are buffered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// The table of contents lists at most this many prompts.
const MAX_PROMPTS: usize = 1000;

/// A page that is being made.
pub(super) struct HtmlExport {
    full: bool,
    turns: BufWriter<File>,
    buffer: Vec<Item>,
    buffered_bytes: usize,
    /// The turn of the open section.
    section: Option<u64>,
    totals: PageTotals,
    files: HashSet<String>,
    timeline: Timeline,
}

impl HtmlExport {
    pub(super) fn new(full: bool) -> io::Result<Self> {
        Ok(Self {
            full,
            turns: BufWriter::new(tempfile::tempfile()?),
            buffer: Vec::new(),
            buffered_bytes: 0,
            section: None,
            totals: PageTotals::default(),
            files: HashSet::new(),
            timeline: Timeline::default(),
        })
    }

    /// Writes the items that are finished.
    pub(super) fn update(&mut self, document: &mut ViewDocument) -> io::Result<()> {
        for (at, tokens) in document.take_context_sizes() {
            self.timeline.context(at, tokens);
        }
        loop {
            while let Some(line) = document.next_hidden() {
                self.write_buffer(document)?;
                let mut out = String::new();
                html::raw_line(&line.kind, &line.text, &mut out);
                self.turns.write_all(out.as_bytes())?;
            }
            self.end_turns(document)?;
            let Some(item) = document.next_finished() else { return Ok(()) };
            self.item(item, document)?;
        }
    }

    /// Writes the remaining items.
    pub(super) fn finish(&mut self, document: &mut ViewDocument) -> io::Result<()> {
        self.update(document)?;
        while let Some(item) = document.next_item() {
            self.item(item, document)?;
            self.update(document)?;
        }
        self.end_turns(document)?;
        self.close_section(document)?;
        self.totals.files = self.files.len();
        self.totals.usage = document.conversation.usage.clone();
        Ok(())
    }

    fn end_turns(&mut self, document: &mut ViewDocument) -> io::Result<()> {
        while let Some(turn) = document.next_ended_turn() {
            self.open_section(turn.number, turn.first, document)?;
            self.write_buffer(document)?;
            let mut out = String::new();
            html::turn_end(&turn, options(self.full, document), &mut out);
            self.turns.write_all(out.as_bytes())?;
            let duration = turn.end.as_ref().and_then(|end| end.duration_ms);
            self.totals.worked_ms += duration.unwrap_or(0);
            self.files.extend(turn.files.into_iter().map(|file| file.path));
        }
        Ok(())
    }

    fn item(&mut self, item: Item, document: &ViewDocument) -> io::Result<()> {
        self.open_section(item.turn, item.first, document)?;
        if let Some(at) = item.at {
            let (first, last) = self.totals.span.unwrap_or((at, at));
            self.totals.span = Some((first.min(at), last.max(at)));
        }
        let mut bytes = 500;
        match &item.body {
            ItemBody::Call(call) => {
                self.totals.calls += 1;
                let failed = matches!(call.state, CallState::Failed | CallState::Denied);
                self.timeline.call(item.first, call.action, failed);
                bytes += call.input.len();
                bytes += call.result.as_ref().map_or(0, |result| result.text.len());
            }
            ItemBody::Text { text } | ItemBody::Thinking { text, .. } => bytes += text.len(),
            ItemBody::Prompt(prompt) => {
                bytes += prompt.text.len();
                if prompt.author == PromptAuthor::User && item.parent.is_none() {
                    self.totals.first_prompt.get_or_insert_with(|| prompt.text.clone());
                    let line = prompt.text.lines().find(|line| !line.trim().is_empty());
                    let title: String = line.unwrap_or_default().chars().take(100).collect();
                    if self.totals.prompts.len() < MAX_PROMPTS {
                        self.totals.prompts.push((item.turn, title));
                    }
                }
            }
            _ => {}
        }
        self.buffer.push(item);
        self.buffered_bytes += bytes;
        if self.buffered_bytes > BUFFER_BYTES {
            self.write_buffer(document)?;
        }
        Ok(())
    }

    fn write_buffer(&mut self, document: &ViewDocument) -> io::Result<()> {
        let items = std::mem::take(&mut self.buffer);
        self.buffered_bytes = 0;
        let mut out = String::new();
        html::items(&items, options(self.full, document), &mut out);
        self.turns.write_all(out.as_bytes())
    }

    fn open_section(&mut self, turn: u64, first: u64, document: &ViewDocument) -> io::Result<()> {
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

    fn close_section(&mut self, document: &ViewDocument) -> io::Result<()> {
        self.write_buffer(document)?;
        match self.section.take() {
            Some(_) => writeln!(self.turns, "</section>"),
            None => Ok(()),
        }
    }

    /// Writes the page.
    pub(super) fn write(self, document: &ViewDocument, out: &mut impl Write) -> io::Result<()> {
        let head = &document.conversation.head;
        let mut turns = self.turns.into_inner().map_err(io::IntoInnerError::into_error)?;
        turns.rewind()?;
        let nonce = nonce();
        out.write_all(html::page_head(head, &self.totals, &self.timeline, nonce).as_bytes())?;
        io::copy(&mut turns, out)?;
        out.write_all(html::page_foot(head, nonce).as_bytes())
    }

    /// Writes the page to a file atomically.
    pub(super) fn save(self, document: &ViewDocument, path: &Path) -> io::Result<()> {
        let folder =
            path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        // The umask applies, as for any other file of the user.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.prefix(".towpath-").tempfile_in(folder)?;
        self.write(document, &mut file)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// A random nonce: the standard library seeds its hash maps from the system's random source.
fn nonce() -> CspNonce {
    let draw = || u128::from(RandomState::new().build_hasher().finish());
    CspNonce(draw() << 64 | draw())
}

fn options(full: bool, document: &ViewDocument) -> HtmlOptions<'_> {
    HtmlOptions { base: document.conversation.head.cwd.as_deref(), full }
}
