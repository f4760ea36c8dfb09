//! Prints a conversation to a terminal, pipe or pager.
//!
//! Finished items are printed once. On a terminal, the *live area* below them shows what is still open
//! and is redrawn as it changes: the paragraph being written, the running calls, and a status line.

use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};
use view::ansi::TextStyle;
use view::terminal::{self, ColourMode, StreamingLines, StyledLine, TerminalOptions};
use view::{Item, ItemBody, ItemId};

use super::input::now;
use view::ViewDocument;

/// Longer lines are hard to read, however wide the terminal is.
const MAX_WIDTH: usize = 100;

/// Prints a conversation to `out`.
pub(crate) struct ConversationPrinter<W> {
    out: W,
    screen: TerminalScreen,
    full: bool,
    /// The answer that is being written.
    answer: Option<StreamingAnswer>,
    /// Finished calls that may be grouped with the next ones.
    group: Vec<Item>,
    last: LastPrinted,
    /// How many lines the live area has; `None` if it is disabled.
    live_lines: Option<usize>,
    bottom: BottomArea,
    /// How many lines the cursor is above the end of the live area.
    cursor_up: usize,
    /// Whether the description of the agent is still to be printed.
    agent_pending: bool,
}

/// An answer that is being written.
struct StreamingAnswer {
    id: ItemId,
    lines: StreamingLines,
    /// Whether some of it was printed.
    started: bool,
}

/// What was printed last, which decides about the next blank line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastPrinted {
    Nothing,
    Call,
    Other,
}

impl<W: Write> ConversationPrinter<W> {
    pub(crate) fn new(out: W, screen: TerminalScreen, full: bool) -> Self {
        Self {
            out,
            screen,
            full,
            answer: None,
            group: Vec::new(),
            last: LastPrinted::Nothing,
            live_lines: None,
            bottom: BottomArea::default(),
            cursor_up: 0,
            agent_pending: false,
        }
    }

    /// Prints what the agent says about itself, once, as soon as it is known.
    pub(crate) fn show_agent(&mut self) {
        self.agent_pending = true;
    }

    /// Shows the live area with the next update.
    pub(crate) fn enable_live_area(&mut self) {
        self.live_lines = Some(0);
    }

    /// Sets the lines at the bottom of the live area, shown with the next update.
    pub(crate) fn set_bottom_area(&mut self, bottom: BottomArea) {
        self.bottom = bottom;
    }

    pub(crate) fn resize(&mut self, screen: TerminalScreen) {
        self.screen = screen;
    }

    /// Prints lines that are not part of the conversation.
    pub(crate) fn print_lines(
        &mut self,
        lines: &[StyledLine],
        document: &ViewDocument,
    ) -> io::Result<()> {
        self.erase()?;
        self.end_group(document)?;
        self.print(lines, LastPrinted::Other)?;
        self.draw(document)?;
        self.out.flush()
    }

    /// Prints the finished items, and redraws the live area.
    pub(crate) fn update(&mut self, document: &mut ViewDocument) -> io::Result<()> {
        self.erase()?;
        self.print_finished(document)?;
        self.draw(document)?;
        self.out.flush()
    }

    /// Prints all remaining items.
    pub(crate) fn finish(&mut self, document: &mut ViewDocument) -> io::Result<()> {
        self.erase()?;
        self.print_finished(document)?;
        while let Some(item) = document.next_item() {
            self.item(item, document)?;
            self.print_finished(document)?;
        }
        self.end_group(document)?;
        self.turns(document)?;
        self.out.flush()
    }

    fn print_finished(&mut self, document: &mut ViewDocument) -> io::Result<()> {
        if let Some(agent) = document.conversation.agent.as_ref().filter(|_| self.agent_pending) {
            self.agent_pending = false;
            let lines = terminal::agent(agent, self.options(document));
            self.end_group(document)?;
            self.print(&lines, LastPrinted::Other)?;
        }
        loop {
            while let Some(hidden) = document.next_hidden() {
                self.end_group(document)?;
                let line = format!("· {} {}", hidden.kind, hidden.text);
                self.print(&[StyledLine::of(TextStyle::PLAIN.dim(), &line)], LastPrinted::Call)?;
            }
            self.turns(document)?;
            match document.next_finished() {
                Some(item) => self.item(item, document)?,
                None => break,
            }
        }
        self.print_answer(document)
    }

    fn turns(&mut self, document: &mut ViewDocument) -> io::Result<()> {
        while let Some(turn) = document.next_ended_turn() {
            self.end_group(document)?;
            let lines = terminal::turn_end(&turn, self.options(document));
            self.print(&lines, LastPrinted::Other)?;
        }
        Ok(())
    }

    fn item(&mut self, item: Item, document: &mut ViewDocument) -> io::Result<()> {
        // A prompt that the agent repeats late comes in between; the answer continues after it.
        let continues = |answer: &mut StreamingAnswer| {
            document.conversation.items.iter().any(|other| other.id == answer.id)
        };
        if let Some(mut answer) = self.answer.take_if(|answer| !continues(answer)) {
            let options = self.options(document);
            let same = answer.id == item.id;
            let mut lines = Vec::new();
            if same && let ItemBody::Text { text } = &item.body {
                let rest = text.get(answer.lines.consumed()..).unwrap_or_default();
                lines.extend(answer.lines.push(rest, options));
            }
            lines.extend(answer.lines.finish(options));
            self.print_answer_lines(&lines, &mut answer)?;
            if same {
                return Ok(());
            }
        }
        let refs: Vec<_> = self.group.iter().chain([&item]).collect();
        if terminal::is_call_group(&refs) {
            self.group.push(item);
            return Ok(());
        }
        self.end_group(document)?;
        if terminal::is_call_group(&[&item]) && !self.full {
            self.group.push(item);
            return Ok(());
        }
        // The items of a sub-agent go between its task and its report.
        let children = document.take_children(&item.id);
        if children.is_empty() {
            let lines = terminal::item(&item, self.options(document));
            return self.print(&lines, last(&item));
        }
        let lines = terminal::call_head(&item, self.options(document));
        self.print(&lines, LastPrinted::Call)?;
        let children: Vec<_> = children.iter().collect();
        let lines = terminal::items(&children, self.options(document));
        self.print_more(&lines)?;
        let lines = terminal::call_result(&item, self.options(document));
        self.print_more(&lines)
    }

    /// Prints the calls that were held back to be grouped.
    fn end_group(&mut self, document: &ViewDocument) -> io::Result<()> {
        let group = std::mem::take(&mut self.group);
        if group.is_empty() {
            return Ok(());
        }
        let refs: Vec<_> = group.iter().collect();
        let lines = terminal::items(&refs, self.options(document));
        self.print(&lines, LastPrinted::Call)
    }

    /// Prints the closed blocks of the answer being written, if nothing open is before it.
    fn print_answer(&mut self, document: &ViewDocument) -> io::Result<()> {
        let Some(item) = document.conversation.items.first() else { return Ok(()) };
        let ItemBody::Text { text } = &item.body else { return Ok(()) };
        if !item.open || item.parent.is_some() {
            return Ok(());
        }
        let options = self.options(document);
        self.end_group(document)?;
        if let Some(mut abandoned) = self.answer.take_if(|answer| answer.id != item.id) {
            let lines = abandoned.lines.finish(options);
            self.print_answer_lines(&lines, &mut abandoned)?;
        }
        let mut answer = self.answer.take().unwrap_or_else(|| StreamingAnswer {
            id: item.id.clone(),
            lines: StreamingLines::new(),
            started: false,
        });
        let more = text.get(answer.lines.consumed()..).unwrap_or_default();
        let lines = answer.lines.push(more, options);
        self.print_answer_lines(&lines, &mut answer)?;
        self.answer = Some(answer);
        Ok(())
    }

    /// Prints lines of an answer, with a blank line before the first.
    fn print_answer_lines(
        &mut self,
        lines: &[StyledLine],
        answer: &mut StreamingAnswer,
    ) -> io::Result<()> {
        if lines.is_empty() || answer.started {
            return self.print_more(lines);
        }
        answer.started = true;
        self.print(lines, LastPrinted::Other)
    }

    fn options<'a>(&self, document: &'a ViewDocument) -> TerminalOptions<'a> {
        TerminalOptions {
            width: self.screen.width,
            base: document.conversation.head.cwd.as_deref(),
            full: self.full,
        }
    }

    /// Prints lines after a blank line, if one belongs there.
    fn print(&mut self, lines: &[StyledLine], kind: LastPrinted) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        if self.last != LastPrinted::Nothing
            && !(self.last == LastPrinted::Call && kind == LastPrinted::Call)
        {
            writeln!(self.out)?;
        }
        self.last = kind;
        self.print_more(lines)
    }

    fn print_more(&mut self, lines: &[StyledLine]) -> io::Result<()> {
        for line in lines {
            writeln!(self.out, "{}", line.paint(self.screen.colours).trim_end())?;
        }
        if !lines.is_empty() && self.last == LastPrinted::Nothing {
            self.last = LastPrinted::Other;
        }
        Ok(())
    }

    /// Erases the live area.
    fn erase(&mut self) -> io::Result<()> {
        if self.cursor_up > 0 {
            // Newlines, because a cursor-down sequence stops at the bottom, where a terminal that became
            // smaller may have put the cursor.
            write!(self.out, "{}", "\n".repeat(std::mem::take(&mut self.cursor_up)))?;
        }
        match self.live_lines.replace(0) {
            None => {
                self.live_lines = None;
                Ok(())
            }
            Some(0) => Ok(()),
            Some(lines) => write!(self.out, "\r\x1b[{lines}A\x1b[J"),
        }
    }

    /// Draws the live area, as much of it as fits.
    fn draw(&mut self, document: &ViewDocument) -> io::Result<()> {
        if self.live_lines.is_none() {
            return Ok(());
        }
        let options = self.options(document);
        let mut lines = Vec::new();
        let held: Vec<_> = self.group.iter().collect();
        lines.extend(terminal::items(&held, options));
        for item in &document.conversation.items {
            match (&self.answer, &item.body) {
                _ if self.bottom.replaces.as_ref() == Some(&item.id) => {}
                (Some(answer), _) if answer.id == item.id => {
                    let open = answer.lines.open(options);
                    if !answer.started && !open.is_empty() {
                        lines.push(StyledLine::default());
                    }
                    lines.extend(open);
                }
                (_, ItemBody::Call(_)) => {
                    if lines.is_empty() && self.last == LastPrinted::Other {
                        lines.push(StyledLine::default());
                    }
                    lines.extend(terminal::item(item, options));
                }
                _ => {}
            }
        }
        if document.conversation.status.phase.is_busy() {
            lines.push(StyledLine::default());
            lines.push(terminal::status(&document.conversation.status, now(), options));
        }
        lines.extend(self.bottom.lines.iter().cloned());
        let room = self.screen.height - 2;
        let shown = &lines[lines.len().saturating_sub(room)..];
        for line in shown {
            writeln!(self.out, "{}", line.paint(self.screen.colours))?;
        }
        self.live_lines = Some(shown.len());
        let Some((row, column)) = self.bottom.cursor else { return Ok(()) };
        self.cursor_up = self.bottom.lines.len().saturating_sub(row).min(shown.len());
        if self.cursor_up > 0 {
            write!(self.out, "\x1b[{}A\x1b[{}G", self.cursor_up, column + 1)?;
        }
        Ok(())
    }
}

fn last(item: &Item) -> LastPrinted {
    if matches!(item.body, ItemBody::Call(_) | ItemBody::Hook(_)) {
        LastPrinted::Call
    } else {
        LastPrinted::Other
    }
}

/// The size and colours of the output.
#[derive(Clone, Copy)]
pub(crate) struct TerminalScreen {
    pub(crate) width: usize,
    /// In rows; only meaningful for a terminal.
    pub(crate) height: usize,
    pub(crate) colours: ColourMode,
}

impl TerminalScreen {
    /// Stdout, according to the system, `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE`.
    pub(crate) fn of_stdout(width: Option<u16>) -> Self {
        let size = terminal_size::terminal_size();
        let columns =
            size.map_or(MAX_WIDTH, |(width, _)| usize::from(width.0)).clamp(20, MAX_WIDTH);
        let colours = match AutoStream::choice(&io::stdout()) {
            ColorChoice::Never => ColourMode::Off,
            ColorChoice::Auto | ColorChoice::Always | ColorChoice::AlwaysAnsi => ColourMode::On,
        };
        Self {
            width: width.map_or(columns, usize::from),
            height: size.map_or(24, |(_, height)| usize::from(height.0)).max(4),
            colours,
        }
    }
}

/// Lines at the bottom of the live area, such as a question and an input line.
#[derive(Clone, Debug, Default)]
pub(crate) struct BottomArea {
    /// None may be wider than the screen.
    pub(crate) lines: Vec<StyledLine>,
    /// The row and column of the cursor within these lines.
    pub(crate) cursor: Option<(usize, usize)>,
    /// An open item that is not drawn, because the lines show it in another form.
    pub(crate) replaces: Option<ItemId>,
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use view::terminal::ColourMode;

    use super::{ConversationPrinter, TerminalScreen};
    use view::ViewDocument;

    const SCREEN: TerminalScreen =
        TerminalScreen { width: 60, height: 12, colours: ColourMode::Off };

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

    /// What a terminal shows in the end; it supports newlines, cursor up, and erasing below.
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
    fn a_stream_drawn_live_reads_like_its_recording() {
        let mut captures = captures();
        // What was printed as an answer turns out to be an error when the turn ends.
        captures.retain(|path| !path.ends_with("codex-acp-2.6.0/errors.jsonl"));
        let (mut exact, count) = (0, captures.len());
        for path in captures {
            let recording = std::fs::read(&path).unwrap();
            let mut at_once = Vec::new();
            let mut document = ViewDocument::new(false);
            for line in recording.split(|&byte| byte == b'\n') {
                document.push_line(line, None);
            }
            ConversationPrinter::new(&mut at_once, SCREEN, false).finish(&mut document).unwrap();

            let mut drawn = Vec::new();
            let mut printer = ConversationPrinter::new(&mut drawn, SCREEN, false);
            printer.enable_live_area();
            let mut document = ViewDocument::new(false);
            for line in recording.split(|&byte| byte == b'\n') {
                document.push_line(line, None);
                printer.update(&mut document).unwrap();
            }
            printer.finish(&mut document).unwrap();
            drop(printer);

            let (at_once, drawn) =
                (String::from_utf8(at_once).unwrap(), String::from_utf8(drawn).unwrap());
            let drawn = shown(&drawn);
            exact += usize::from(drawn == at_once);
            // Printed lines cannot be taken back: a prompt that the agent repeats late is printed
            // late, and a call that turns out to be denied was printed as failed. All other lines
            // are there, exactly once.
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
