//! A session told to a pipe: the agent's words to stdout, everything else to stderr.
//!
//! The words go out as they come and as the model wrote them, so that `> answer.md` is Markdown.

use std::io::{self, Write};

use journal::Entry;
use view::terminal::{self, Colours, Look};
use view::{Body, Item, ItemId};

use super::telling::Telling;
use crate::view::document::Document;

/// Tells to `words` and `talk`.
pub(super) struct Plain<W, T> {
    words: W,
    talk: T,
    colours: Colours,
    width: usize,
    document: Document,
    /// The text that is being written, and how much of it is out.
    writing: Option<(ItemId, usize)>,
    any_words: bool,
}

impl<W: Write, T: Write> Plain<W, T> {
    pub(super) fn new(words: W, talk: T, colours: Colours, width: usize) -> Self {
        Self {
            words,
            talk,
            colours,
            width,
            document: Document::new(false),
            writing: None,
            any_words: false,
        }
    }

    fn tell(&mut self) -> io::Result<()> {
        loop {
            while let Some(turn) = self.document.next_ended() {
                let lines = terminal::turn_end(&turn, self.look());
                self.talk(&lines)?;
            }
            let Some(item) = self.document.next_settled() else { break };
            self.item(&item)?;
        }
        if let Some(item) = self.document.now.items.first().filter(|item| item.open)
            && let Body::Text { text } = &item.body
            && item.parent.is_none()
        {
            let (id, text) = (item.id.clone(), text.clone());
            self.write(&id, &text)?;
        }
        self.words.flush()?;
        self.talk.flush()
    }

    fn item(&mut self, item: &Item) -> io::Result<()> {
        if let (Body::Text { text }, None) = (&item.body, &item.parent) {
            self.write(&item.id, text)?;
            self.writing = None;
            return writeln!(self.words);
        }
        if let Body::Prompt(_) = item.body {
            // Whoever runs us knows what was asked.
            return Ok(());
        }
        let lines = terminal::item(item, self.look());
        self.talk(&lines)
    }

    /// Writes on where the text was left.
    fn write(&mut self, id: &ItemId, text: &str) -> io::Result<()> {
        let known = self.writing.take_if(|(writing, _)| writing == id);
        if known.is_none() && self.any_words {
            writeln!(self.words)?;
        }
        self.any_words = true;
        let out = known.map_or(0, |(_, out)| out);
        write!(self.words, "{}", text.get(out..).unwrap_or_default())?;
        self.writing = Some((id.clone(), text.len()));
        Ok(())
    }

    fn talk(&mut self, lines: &[terminal::Line]) -> io::Result<()> {
        for line in lines {
            writeln!(self.talk, "{}", line.paint(self.colours).trim_end())?;
        }
        Ok(())
    }

    fn look(&self) -> Look<'_> {
        Look { width: self.width, base: self.document.now.head.cwd.as_deref(), full: false }
    }
}

impl<W: Write, T: Write> Telling for Plain<W, T> {
    fn skip(&mut self, entry: &Entry) {
        self.document.take(&entry.bytes, Some(entry.at));
        while self.document.next_settled().is_some() {}
        while self.document.next_ended().is_some() {}
    }

    fn tell(&mut self, entries: &[Entry]) -> io::Result<()> {
        for entry in entries {
            self.document.take(&entry.bytes, Some(entry.at));
            self.tell()?;
        }
        Ok(())
    }
}
