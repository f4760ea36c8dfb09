//! Markdown as lines for a terminal.

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Tag, TagEnd};

use super::call::code_lines;
use super::{StyledLine, TerminalOptions};
use crate::ansi::TextStyle;
use crate::markdown::{
    MarkdownBlock, MarkdownStream, SafeUrl, blocks, formula_text, is_line_break,
};

const QUOTE: TextStyle = TextStyle::PLAIN.dim();
const CODE: TextStyle = TextStyle::PLAIN.in_colour(6);
const MARKER: TextStyle = TextStyle::PLAIN.dim();
const LINK: TextStyle = TextStyle::PLAIN.in_colour(4);

/// Appends the lines of a block, without a blank line around them.
fn render(block: &MarkdownBlock<'_>, options: TerminalOptions<'_>, lines: &mut Vec<StyledLine>) {
    let mut writer = TerminalWriter {
        lines,
        width: options.width,
        closed: block.is_closed(),
        inline: StyledLine::default(),
        styles: vec![TextStyle::PLAIN],
        margins: Vec::new(),
        lists: Vec::new(),
        gap: false,
        code: None,
        table: None,
        links: Vec::new(),
    };
    for event in block.events() {
        writer.event(event);
    }
    writer.flush();
}

/// The left margin of a quote or a list item.
struct BlockMargin {
    /// Of the first line, until it is used.
    first: Option<StyledLine>,
    rest: StyledLine,
}

struct TerminalWriter<'o> {
    lines: &'o mut Vec<StyledLine>,
    width: usize,
    closed: bool,
    /// The current paragraph.
    inline: StyledLine,
    styles: Vec<TextStyle>,
    margins: Vec<BlockMargin>,
    /// For each enclosing list, the number of its next item.
    lists: Vec<Option<u64>>,
    /// Whether a blank line belongs in front of the next block.
    gap: bool,
    code: Option<(String, String)>,
    table: Option<TextTable>,
    /// For each enclosing link, its URL and its text so far.
    links: Vec<(Option<String>, String)>,
}

impl TerminalWriter<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.push(self.style(), &text),
            },
            Event::Code(code) => {
                self.push(TextStyle { foreground: CODE.foreground, ..self.style() }, &code);
            }
            Event::InlineHtml(html) if is_line_break(&html) => self.line_break(),
            Event::Html(html) => {
                for line in html.lines() {
                    self.inline.push(QUOTE, line);
                    self.flush();
                }
            }
            Event::InlineHtml(text) => self.push(self.style(), &text),
            Event::InlineMath(latex) => self.formula(&latex),
            Event::DisplayMath(latex) => {
                self.line_break();
                self.formula(&latex);
                self.line_break();
            }
            Event::FootnoteReference(label) => {
                self.push(TextStyle { dim: true, ..self.style() }, &format!("[{label}]"));
            }
            // An agent breaks lines where it means to: lists without markers, addresses, verses.
            Event::SoftBreak | Event::HardBreak => self.line_break(),
            Event::Rule => {
                self.begin_block();
                let width = self.available_width().min(40);
                self.emit(&StyledLine::of(MARKER, &"─".repeat(width)));
                self.gap = true;
            }
            Event::TaskListMarker(done) => {
                let (sign, style) =
                    if done { ("☑ ", TextStyle::PLAIN.in_colour(2)) } else { ("☐ ", MARKER) };
                self.inline.push(style, sign);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                let style = TextStyle::PLAIN.bold();
                self.styles.push(match level {
                    HeadingLevel::H1 => TextStyle { underline: true, ..style.in_colour(5) },
                    HeadingLevel::H2 => style.in_colour(5),
                    _ => style,
                });
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.push_margin(None, StyledLine::of(QUOTE, "│ "));
                self.styles.push(TextStyle { italic: true, ..self.style() });
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.begin_block();
                } else {
                    self.flush();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.begin_block();
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let marker = format!("{number}. ");
                        *number += 1;
                        marker
                    }
                    _ => "• ".to_owned(),
                };
                let rest = StyledLine::of(TextStyle::PLAIN, &" ".repeat(marker.chars().count()));
                self.push_margin(Some(StyledLine::of(MARKER, &marker)), rest);
            }
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(TextTable::new(alignments));
            }
            Tag::TableHead => {
                self.styles.push(TextStyle::PLAIN.bold());
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::Emphasis => self.styles.push(TextStyle { italic: true, ..self.style() }),
            Tag::Strong => self.styles.push(TextStyle { bold: true, ..self.style() }),
            Tag::Strikethrough => self.styles.push(TextStyle { strike: true, ..self.style() }),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                let url = SafeUrl::parse(&dest_url).map(|url| url.as_str().to_owned());
                self.links.push((url, String::new()));
                self.styles.push(TextStyle {
                    underline: true,
                    foreground: LINK.foreground,
                    ..self.style()
                });
            }
            Tag::FootnoteDefinition(label) => {
                self.begin_block();
                let marker = StyledLine::of(MARKER, &format!("[{label}] "));
                self.push_margin(Some(marker), StyledLine::of(TextStyle::PLAIN, "    "));
            }
            Tag::TableCell
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_block(),
            TagEnd::Heading(_) => {
                self.end_block();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.margins.pop();
                self.styles.pop();
                self.gap = true;
            }
            TagEnd::CodeBlock => {
                if let Some((language, code)) = self.code.take() {
                    self.code(&language, &code);
                }
                self.gap = true;
            }
            TagEnd::List(_) => {
                self.lists.pop();
                // After a nested list, the next item follows without a blank line.
                self.gap = self.lists.is_empty() || self.gap;
            }
            TagEnd::Item => {
                self.flush();
                // An empty item still shows its marker.
                if self.margins.last().is_some_and(|margin| margin.first.is_some()) {
                    self.emit(&StyledLine::default());
                }
                self.margins.pop();
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                if let Some(table) = &mut self.table {
                    table.add_cell(cell);
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    for line in table.lines(self.available_width()) {
                        self.emit(&line);
                    }
                }
                self.gap = true;
            }
            TagEnd::TableHead | TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                if let Some((Some(url), text)) = self.links.pop()
                    && text != url
                {
                    self.inline.push(MARKER, &format!(" ({url})"));
                }
            }
            TagEnd::FootnoteDefinition => {
                self.flush();
                self.margins.pop();
                self.gap = true;
            }
            TagEnd::TableRow
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    /// Appends text to the current paragraph.
    fn push(&mut self, style: TextStyle, text: &str) {
        if let Some((_, link)) = self.links.last_mut() {
            link.push_str(text);
        }
        self.inline.push(style, text);
    }

    /// A formula in Unicode, or as it was written.
    fn formula(&mut self, latex: &str) {
        let style = TextStyle { foreground: CODE.foreground, ..self.style() };
        match formula_text(latex) {
            Some(text) => self.push(style, &text),
            None => {
                for (number, line) in latex.trim().lines().enumerate() {
                    if number > 0 {
                        self.line_break();
                    }
                    self.push(style, line);
                }
            }
        }
    }

    fn style(&self) -> TextStyle {
        self.styles.last().copied().unwrap_or_default()
    }

    /// Adds a margin. Beyond half of the width margins take no space, so that deeply nested text keeps
    /// its columns and costs no more than other text.
    fn push_margin(&mut self, first: Option<StyledLine>, rest: StyledLine) {
        let taken: usize = self.margins.iter().map(|margin| margin.rest.width()).sum();
        let fits = taken + rest.width() <= self.width / 2;
        self.margins.push(BlockMargin { first, rest: if fits { rest } else { StyledLine::EMPTY } });
    }

    /// The columns beside the margins.
    fn available_width(&self) -> usize {
        let taken: usize = self.margins.iter().map(|margin| margin.rest.width()).sum();
        self.width.saturating_sub(taken).max(10)
    }

    fn begin_block(&mut self) {
        self.flush();
        if std::mem::take(&mut self.gap) {
            // Markers wait for a line with text.
            let mut line = StyledLine::default();
            for margin in &self.margins {
                line.append(if margin.first.is_some() { &EMPTY } else { &margin.rest });
            }
            self.lines.push(line);
        }
    }

    fn end_block(&mut self) {
        self.flush();
        self.gap = true;
    }

    /// A line break; only a blank inside a table cell.
    fn line_break(&mut self) {
        if self.table.is_some() {
            self.inline.push(self.style(), " ");
        } else {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let line = std::mem::take(&mut self.inline);
        if line.is_empty() {
            return;
        }
        for part in line.wrapped(self.available_width()) {
            self.emit(&part);
        }
    }

    fn emit(&mut self, line: &StyledLine) {
        let mut whole = StyledLine::default();
        for margin in &mut self.margins {
            match margin.first.take() {
                Some(first) => whole.append(&first),
                None => whole.append(&margin.rest),
            }
        }
        whole.append(line);
        self.lines.push(whole);
    }

    fn code(&mut self, language: &str, code: &str) {
        let language = if self.closed { language } else { "" };
        let room = self.available_width().saturating_sub(2);
        for line in code_lines(code, language) {
            for part in line.hard_wrapped(room) {
                let mut indented = StyledLine::of(MARKER, "▏ ");
                indented.append(&part);
                self.emit(&indented);
            }
        }
    }
}

static EMPTY: StyledLine = StyledLine::EMPTY;

/// Markdown that grows, as lines. The lines of closed blocks are returned once, to be printed; those of
/// the open block can be drawn repeatedly.
#[derive(Clone, Debug, Default)]
pub struct StreamingLines {
    stream: MarkdownStream,
    any: bool,
    consumed: usize,
}

impl StreamingLines {
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bytes of text were pushed.
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// Appends text; returns the lines that it makes final.
    pub fn push(&mut self, text: &str, options: TerminalOptions<'_>) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        let any = &mut self.any;
        self.consumed += text.len();
        self.stream.push(text, |block| add_block(&block, options, any, &mut lines));
        lines
    }

    /// Returns the rest of the lines.
    pub fn finish(&mut self, options: TerminalOptions<'_>) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        let any = &mut self.any;
        self.stream.finish(|block| add_block(&block, options, any, &mut lines));
        lines
    }

    /// The lines that may still change, rendered as if the text ended here.
    pub fn open(&self, options: TerminalOptions<'_>) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        add_block(&self.stream.open(), options, &mut self.any.clone(), &mut lines);
        lines
    }
}

fn add_block(
    block: &MarkdownBlock<'_>,
    options: TerminalOptions<'_>,
    any: &mut bool,
    lines: &mut Vec<StyledLine>,
) {
    let mut new = Vec::new();
    render(block, options, &mut new);
    if new.is_empty() {
        return;
    }
    if std::mem::replace(any, true) {
        lines.push(StyledLine::default());
    }
    lines.append(&mut new);
}

/// A whole Markdown text as lines.
pub fn markdown(text: &str, options: TerminalOptions<'_>) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    let mut any = false;
    blocks(text, |block| add_block(&block, options, &mut any, &mut lines));
    lines
}

const BORDER: TextStyle = TextStyle::PLAIN.dim();
const BETWEEN: &str = " │ ";

/// A table with columns that fit the width.
pub(crate) struct TextTable {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<StyledLine>>,
}

impl TextTable {
    pub(crate) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new() }
    }

    pub(crate) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(crate) fn add_cell(&mut self, cell: StyledLine) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    /// The first row is the head.
    pub(crate) fn lines(&self, width: usize) -> Vec<StyledLine> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let natural = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(StyledLine::width)
                .max()
                .unwrap_or(0)
                .clamp(1, width.max(1))
        };
        let mut widths: Vec<usize> = (0..columns).map(natural).collect();
        let borders = columns.saturating_sub(1) * 3;
        // The widest column shrinks until all fit.
        while widths.iter().sum::<usize>() + borders > width {
            let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > 3) else { break };
            *widest -= 1;
        }
        let mut lines = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            self.row(row, &widths, &mut lines);
            if number == 0 {
                let dashes: Vec<_> = widths.iter().map(|&width| "─".repeat(width)).collect();
                lines.push(StyledLine::of(BORDER, &dashes.join("─┼─")));
            }
        }
        lines
    }

    fn row(&self, row: &[StyledLine], widths: &[usize], lines: &mut Vec<StyledLine>) {
        let cells: Vec<_> = widths
            .iter()
            .enumerate()
            .map(|(column, &width)| {
                row.get(column).map(|cell| cell.wrapped(width)).unwrap_or_default()
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
        for level in 0..height {
            let mut line = StyledLine::default();
            for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
                if column > 0 {
                    line.push(BORDER, BETWEEN);
                }
                let empty = StyledLine::default();
                let part = cell.get(level).unwrap_or(&empty);
                let room = width.saturating_sub(part.width());
                let before = match self.alignments.get(column) {
                    Some(Alignment::Right) => room,
                    Some(Alignment::Center) => room / 2,
                    _ => 0,
                };
                line.push(TextStyle::PLAIN, &" ".repeat(before));
                line.append(part);
                let last = column + 1 == widths.len();
                line.push(TextStyle::PLAIN, &" ".repeat(if last { 0 } else { room - before }));
            }
            lines.push(line);
        }
    }
}
