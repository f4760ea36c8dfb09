//! A conversation told line by line, for terminals, pipes and pagers.
//!
//! What is settled is printed once. On a terminal, what is still open stands below it and is drawn
//! again as it changes: the paragraph being written, the calls that run, and a last line that says
//! what is going on.

use std::io::{self, Write};

use view::terminal::{self, Line, Look, Prose};
use view::{Body, Item, ItemId};

use super::below::Below;
use super::document::Document;
use super::screen::Screen;
use super::source::now;

/// Tells a conversation to `out`.
pub(crate) struct Teller<W> {
    out: W,
    screen: Screen,
    full: bool,
    /// The answer that is being written, as far as it was printed.
    writing: Option<Writing>,
    /// Calls that went well and may be folded with those that follow.
    run: Vec<Item>,
    /// What was printed last, to know where a blank line belongs.
    last: Last,
    /// How many lines are drawn below what is printed; nothing where nothing is ever drawn.
    drawn: Option<usize>,
    /// What stands below what is open.
    below: Below,
    /// How many lines above the end of what is drawn the cursor rests.
    lifted: usize,
}

/// An answer that is being written.
struct Writing {
    id: ItemId,
    prose: Prose,
    /// Whether some of it was printed.
    begun: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    Call,
    Other,
}

impl<W: Write> Teller<W> {
    pub(crate) fn new(out: W, screen: Screen, full: bool) -> Self {
        Self {
            out,
            screen,
            full,
            writing: None,
            run: Vec::new(),
            last: Last::Nothing,
            drawn: None,
            below: Below::default(),
            lifted: 0,
        }
    }

    /// From here on what is open is drawn too.
    pub(crate) fn draw_what_is_open(&mut self) {
        self.drawn = Some(0);
    }

    /// What is to stand below from the next drawing on.
    pub(crate) fn put_below(&mut self, below: Below) {
        self.below = below;
    }

    /// From here on there is another screen.
    pub(crate) fn resize(&mut self, screen: Screen) {
        self.screen = screen;
    }

    /// Prints lines that are no part of the conversation.
    pub(crate) fn add(&mut self, lines: &[Line], document: &Document) -> io::Result<()> {
        self.erase()?;
        self.end_run(document)?;
        self.print(lines, Last::Other)?;
        self.draw(document)?;
        self.out.flush()
    }

    /// Prints what has settled, and draws what has not.
    pub(crate) fn tell(&mut self, document: &mut Document) -> io::Result<()> {
        self.erase()?;
        self.settle(document)?;
        self.draw(document)?;
        self.out.flush()
    }

    /// Prints all that is left.
    pub(crate) fn finish(&mut self, document: &mut Document) -> io::Result<()> {
        self.erase()?;
        self.settle(document)?;
        while let Some(item) = document.next() {
            self.item(item, document)?;
            self.settle(document)?;
        }
        self.end_run(document)?;
        self.turns(document)?;
        self.out.flush()
    }

    fn settle(&mut self, document: &mut Document) -> io::Result<()> {
        loop {
            while let Some(raw) = document.next_raw() {
                self.end_run(document)?;
                let line = format!("· {} {}", raw.kind, raw.text);
                let style = view::ansi::Style::PLAIN.dim();
                self.print(&[Line::of(style, &line)], Last::Call)?;
            }
            self.turns(document)?;
            match document.next_settled() {
                Some(item) => self.item(item, document)?,
                None => break,
            }
        }
        self.write_on(document)
    }

    fn turns(&mut self, document: &mut Document) -> io::Result<()> {
        while let Some(turn) = document.next_ended() {
            self.end_run(document)?;
            let lines = terminal::turn_end(&turn, self.look(document));
            self.print(&lines, Last::Other)?;
        }
        Ok(())
    }

    fn item(&mut self, item: Item, document: &mut Document) -> io::Result<()> {
        // A prompt that the agent repeats late comes between; the answer goes on behind it.
        let goes_on =
            |writing: &mut Writing| document.now.items.iter().any(|other| other.id == writing.id);
        if let Some(mut writing) = self.writing.take_if(|writing| !goes_on(writing)) {
            let look = self.look(document);
            let same = writing.id == item.id;
            let mut lines = Vec::new();
            if same && let Body::Text { text } = &item.body {
                let rest = text.get(writing.prose.taken()..).unwrap_or_default();
                lines.extend(writing.prose.push(rest, look));
            }
            lines.extend(writing.prose.finish(look));
            self.print_words(&lines, &mut writing)?;
            if same {
                return Ok(());
            }
        }
        let refs: Vec<_> = self.run.iter().chain([&item]).collect();
        if terminal::is_run(&refs) {
            self.run.push(item);
            return Ok(());
        }
        self.end_run(document)?;
        if terminal::is_run(&[&item]) && !self.full {
            self.run.push(item);
            return Ok(());
        }
        // What a sub-agent did stands between its task and its report.
        let children = document.take_children(&item.id);
        if children.is_empty() {
            let lines = terminal::item(&item, self.look(document));
            return self.print(&lines, last(&item));
        }
        let lines = terminal::call_head(&item, self.look(document));
        self.print(&lines, Last::Call)?;
        let children: Vec<_> = children.iter().collect();
        let lines = terminal::items(&children, self.look(document));
        self.print_on(&lines)?;
        let lines = terminal::call_result(&item, self.look(document));
        self.print_on(&lines)
    }

    /// Prints the calls that were held back to be folded.
    fn end_run(&mut self, document: &Document) -> io::Result<()> {
        let run = std::mem::take(&mut self.run);
        if run.is_empty() {
            return Ok(());
        }
        let refs: Vec<_> = run.iter().collect();
        let lines = terminal::items(&refs, self.look(document));
        self.print(&lines, Last::Call)
    }

    /// Prints the closed blocks of the answer that is being written, if nothing stands before it.
    fn write_on(&mut self, document: &Document) -> io::Result<()> {
        let Some(item) = document.now.items.first() else { return Ok(()) };
        let Body::Text { text } = &item.body else { return Ok(()) };
        if !item.open || item.parent.is_some() {
            return Ok(());
        }
        let look = self.look(document);
        self.end_run(document)?;
        if let Some(mut abandoned) = self.writing.take_if(|writing| writing.id != item.id) {
            let lines = abandoned.prose.finish(look);
            self.print_words(&lines, &mut abandoned)?;
        }
        let mut writing = self.writing.take().unwrap_or_else(|| Writing {
            id: item.id.clone(),
            prose: Prose::new(),
            begun: false,
        });
        let more = text.get(writing.prose.taken()..).unwrap_or_default();
        let lines = writing.prose.push(more, look);
        self.print_words(&lines, &mut writing)?;
        self.writing = Some(writing);
        Ok(())
    }

    /// Prints lines of an answer that is being written: a blank one in front of the first.
    fn print_words(&mut self, lines: &[Line], writing: &mut Writing) -> io::Result<()> {
        if lines.is_empty() || writing.begun {
            return self.print_on(lines);
        }
        writing.begun = true;
        self.print(lines, Last::Other)
    }

    fn look<'a>(&self, document: &'a Document) -> Look<'a> {
        Look { width: self.screen.width, base: document.now.head.cwd.as_deref(), full: self.full }
    }

    /// Prints lines behind a blank one, where one belongs.
    fn print(&mut self, lines: &[Line], sort: Last) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        if self.last != Last::Nothing && !(self.last == Last::Call && sort == Last::Call) {
            writeln!(self.out)?;
        }
        self.last = sort;
        self.print_on(lines)
    }

    fn print_on(&mut self, lines: &[Line]) -> io::Result<()> {
        for line in lines {
            writeln!(self.out, "{}", line.paint(self.screen.colours).trim_end())?;
        }
        if !lines.is_empty() && self.last == Last::Nothing {
            self.last = Last::Other;
        }
        Ok(())
    }

    /// Takes away what was drawn.
    fn erase(&mut self) -> io::Result<()> {
        if self.lifted > 0 {
            // Newlines, for a cursor that is told to go down stops at the bottom, where a terminal
            // that was made smaller may have put it.
            write!(self.out, "{}", "\n".repeat(std::mem::take(&mut self.lifted)))?;
        }
        match self.drawn.replace(0) {
            None => {
                self.drawn = None;
                Ok(())
            }
            Some(0) => Ok(()),
            Some(lines) => write!(self.out, "\r\x1b[{lines}A\x1b[J"),
        }
    }

    /// Draws what is open, as much of it as fits.
    fn draw(&mut self, document: &Document) -> io::Result<()> {
        if self.drawn.is_none() {
            return Ok(());
        }
        let look = self.look(document);
        let mut lines = Vec::new();
        let held: Vec<_> = self.run.iter().collect();
        lines.extend(terminal::items(&held, look));
        for item in &document.now.items {
            match (&self.writing, &item.body) {
                _ if self.below.instead_of.as_ref() == Some(&item.id) => {}
                (Some(writing), _) if writing.id == item.id => {
                    let open = writing.prose.open(look);
                    if !writing.begun && !open.is_empty() {
                        lines.push(Line::default());
                    }
                    lines.extend(open);
                }
                (_, Body::Call(_)) => {
                    if lines.is_empty() && self.last == Last::Other {
                        lines.push(Line::default());
                    }
                    lines.extend(terminal::item(item, look));
                }
                _ => {}
            }
        }
        if document.now.status.phase.is_busy() {
            lines.push(Line::default());
            lines.push(terminal::status(&document.now.status, now(), look));
        }
        lines.extend(self.below.lines.iter().cloned());
        let room = self.screen.height - 2;
        let shown = &lines[lines.len().saturating_sub(room)..];
        for line in shown {
            writeln!(self.out, "{}", line.paint(self.screen.colours))?;
        }
        self.drawn = Some(shown.len());
        let Some((row, column)) = self.below.cursor else { return Ok(()) };
        self.lifted = self.below.lines.len().saturating_sub(row).min(shown.len());
        if self.lifted > 0 {
            write!(self.out, "\x1b[{}A\x1b[{}G", self.lifted, column + 1)?;
        }
        Ok(())
    }
}

fn last(item: &Item) -> Last {
    if matches!(item.body, Body::Call(_) | Body::Hook(_)) { Last::Call } else { Last::Other }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use view::terminal::Colours;

    use super::super::document::Document;
    use super::super::screen::Screen;
    use super::Teller;

    const SCREEN: Screen = Screen { width: 60, height: 12, colours: Colours::Off };

    fn captures() -> Vec<PathBuf> {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures")];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "jsonl") {
                    found.push(path);
                }
            }
        }
        assert!(found.len() > 100, "{} captures", found.len());
        found
    }

    /// What a terminal shows in the end: it knows new lines, up, and erasing what is below.
    fn shown(written: &str) -> String {
        let mut lines: Vec<&str> = Vec::new();
        for part in written.split('\n') {
            let mut part = part;
            while let Some(rest) = part.strip_prefix("\r\x1b[") {
                let (up, rest) = rest.split_once("A\x1b[J").expect("only up and erase");
                let up: usize = up.parse().unwrap();
                assert!(up <= lines.len() && up < SCREEN.height, "{up} lines up");
                lines.truncate(lines.len() - up);
                part = rest;
            }
            assert!(!part.contains('\x1b'), "{part:?}");
            lines.push(part);
        }
        lines.join("\n")
    }

    #[test]
    fn a_stream_that_was_drawn_as_it_came_reads_like_its_recording() {
        let captures = captures();
        let (mut exact, count) = (0, captures.len());
        for path in captures {
            let recording = std::fs::read(&path).unwrap();
            let mut at_once = Vec::new();
            let mut document = Document::new(false);
            for line in recording.split(|&byte| byte == b'\n') {
                document.take(line, None);
            }
            Teller::new(&mut at_once, SCREEN, false).finish(&mut document).unwrap();

            let mut drawn = Vec::new();
            let mut teller = Teller::new(&mut drawn, SCREEN, false);
            teller.draw_what_is_open();
            let mut document = Document::new(false);
            for line in recording.split(|&byte| byte == b'\n') {
                document.take(line, None);
                teller.tell(&mut document).unwrap();
            }
            teller.finish(&mut document).unwrap();
            drop(teller);

            let (at_once, drawn) =
                (String::from_utf8(at_once).unwrap(), String::from_utf8(drawn).unwrap());
            let drawn = shown(&drawn);
            exact += usize::from(drawn == at_once);
            // What was printed cannot be taken back: a prompt that the agent repeats late is told
            // late, and a call that turns out to have been refused was told as failed. All other
            // words are there, and there once.
            let sorted = |text: &str| {
                let words =
                    text.lines().filter(|line| !line.starts_with([' ', '✔', '✘', '⊘', '–']));
                let mut words: Vec<_> =
                    words.filter(|line| !line.is_empty()).map(str::to_owned).collect();
                words.sort();
                words
            };
            assert_eq!(sorted(&drawn), sorted(&at_once), "{}", path.display());
        }
        assert!(exact * 10 > count * 8, "{exact} of {count} to the letter");
    }
}
