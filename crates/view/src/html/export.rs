//! A conversation as one HTML file.
//!
//! The numbers at the top of the page are known only at the end, so the turns are written somewhere
//! else first, usually to a temporary file. Only one turn, or a part of a long one, is in memory at a
//! time.

use std::collections::HashSet;
use std::io::{self, Write};

use super::item::{HtmlOptions, items, raw_line, turn_end};
use super::page::{CspNonce, PageTotals, Timeline, page_foot, page_head};
use crate::call::CallState;
use crate::document::ViewDocument;
use crate::item::{Item, ItemBody, PromptAuthor};

/// About how many bytes of items are buffered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// The table of contents lists at most this many prompts.
const MAX_PROMPTS: usize = 1000;

/// What is in an exported page.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportOptions {
    /// Everything: complete output, thinking expanded, housekeeping events.
    pub full: bool,
    /// Without what tools printed and what was in the files that they read.
    pub without_output: bool,
}

/// A page that is being made.
#[derive(Debug)]
pub struct HtmlExport<W> {
    options: ExportOptions,
    turns: W,
    buffer: Vec<Item>,
    buffered_bytes: usize,
    /// The turn of the open section.
    section: Option<u64>,
    totals: PageTotals,
    files: HashSet<String>,
    timeline: Timeline,
}

impl<W: Write> HtmlExport<W> {
    /// A page whose turns are written to `turns`.
    pub fn new(options: ExportOptions, turns: W) -> Self {
        Self {
            options,
            turns,
            buffer: Vec::new(),
            buffered_bytes: 0,
            section: None,
            totals: PageTotals::default(),
            files: HashSet::new(),
            timeline: Timeline::default(),
        }
    }

    /// Writes the items that are finished.
    pub fn update(&mut self, document: &mut ViewDocument) -> io::Result<()> {
        for (at, tokens) in document.take_context_sizes() {
            self.timeline.context(at, tokens);
        }
        loop {
            while let Some(line) = document.next_hidden() {
                self.write_buffer(document)?;
                let mut out = String::new();
                raw_line(&line.kind, &line.text, &mut out);
                self.turns.write_all(out.as_bytes())?;
            }
            self.end_turns(document)?;
            let Some(item) = document.next_finished() else { return Ok(()) };
            self.item(item, document)?;
        }
    }

    /// Writes the remaining items.
    pub fn finish(&mut self, document: &mut ViewDocument) -> io::Result<()> {
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
            turn_end(&turn, options(self.options, document), &mut out);
            self.turns.write_all(out.as_bytes())?;
            let duration = turn.end.as_ref().and_then(|end| end.duration_ms);
            self.totals.worked_ms += duration.unwrap_or(0);
            self.files.extend(turn.files.into_iter().map(|file| file.path));
        }
        Ok(())
    }

    fn item(&mut self, mut item: Item, document: &ViewDocument) -> io::Result<()> {
        self.open_section(item.turn, item.first, document)?;
        if let Some(at) = item.at {
            let (first, last) = self.totals.span.unwrap_or((at, at));
            self.totals.span = Some((first.min(at), last.max(at)));
        }
        if self.options.without_output
            && let ItemBody::Call(call) = &mut item.body
            && let Some(result) = &mut call.result
        {
            result.text = String::new();
            result.hunks = None;
            result.images = Vec::new();
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
        let buffer = std::mem::take(&mut self.buffer);
        self.buffered_bytes = 0;
        let mut out = String::new();
        items(&buffer, options(self.options, document), &mut out);
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

    /// What comes before the turns, the turns, and what comes behind them. The nonce must be random.
    pub fn into_parts(self, document: &ViewDocument, nonce: CspNonce) -> (String, W, String) {
        let head = &document.conversation.head;
        let agent = document.conversation.agent.as_ref();
        let top = page_head(head, agent, &self.totals, &self.timeline, nonce);
        (top, self.turns, page_foot(head, nonce))
    }
}

fn options(options: ExportOptions, document: &ViewDocument) -> HtmlOptions<'_> {
    HtmlOptions { base: document.conversation.head.cwd.as_deref(), full: options.full }
}
