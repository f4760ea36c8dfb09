//! Markdown as lines for a terminal.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Tag, TagEnd};

use super::code::code_lines;
use super::table::Table;
use super::wrap::{broken, wrapped};
use super::{Line, Look};
use crate::ansi::Style;
use crate::html::is_line_break;
use crate::markdown::{Address, Block};

const QUOTE: Style = Style::PLAIN.dim();
const CODE: Style = Style::PLAIN.in_colour(6);
const MARKER: Style = Style::PLAIN.dim();
const LINK: Style = Style::PLAIN.in_colour(4);

/// Adds the lines of a block, without a blank line around them.
pub(super) fn render(block: &Block<'_>, look: Look<'_>, lines: &mut Vec<Line>) {
    let mut writer = Writer {
        lines,
        width: look.width,
        closed: block.is_closed(),
        inline: Line::default(),
        styles: vec![Style::PLAIN],
        margins: Vec::new(),
        lists: Vec::new(),
        gap: false,
        code: None,
        table: None,
        links: Vec::new(),
    };
    for event in block.events() {
        writer.take(event);
    }
    writer.flush();
}

/// What stands to the left of lines inside something.
struct Margin {
    /// In front of the first line, until it was used.
    first: Option<Line>,
    rest: Line,
}

struct Writer<'o> {
    lines: &'o mut Vec<Line>,
    width: usize,
    closed: bool,
    /// The paragraph that is being put together.
    inline: Line,
    styles: Vec<Style>,
    margins: Vec<Margin>,
    /// For each list we are in, the number of its next item.
    lists: Vec<Option<u64>>,
    /// Whether a blank line belongs in front of the next block.
    gap: bool,
    code: Option<(String, String)>,
    table: Option<Table>,
    /// For each link we are in, where it leads and where its text began.
    links: Vec<(Option<String>, usize)>,
}

impl Writer<'_> {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.inline.push(self.style(), &text),
            },
            Event::Code(code) => {
                self.inline.push(Style { foreground: CODE.foreground, ..self.style() }, &code);
            }
            Event::InlineHtml(html) if is_line_break(&html) => self.line_break(),
            Event::Html(html) => {
                for line in html.lines() {
                    self.inline.push(QUOTE, line);
                    self.flush();
                }
            }
            Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.inline.push(self.style(), &text),
            Event::SoftBreak => self.inline.push(self.style(), " "),
            Event::HardBreak => self.line_break(),
            Event::Rule => {
                self.begin_block();
                let width = self.room().min(40);
                self.emit(&Line::of(MARKER, &"─".repeat(width)));
                self.gap = true;
            }
            Event::TaskListMarker(done) => {
                let (sign, style) =
                    if done { ("☑ ", Style::PLAIN.in_colour(2)) } else { ("☐ ", MARKER) };
                self.inline.push(style, sign);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                let style = Style::PLAIN.bold();
                self.styles.push(match level {
                    HeadingLevel::H1 => Style { underline: true, ..style.in_colour(5) },
                    HeadingLevel::H2 => style.in_colour(5),
                    _ => style,
                });
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.margins.push(Margin { first: None, rest: Line::of(QUOTE, "│ ") });
                self.styles.push(Style { italic: true, ..self.style() });
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
                let rest = Line::of(Style::PLAIN, &" ".repeat(marker.chars().count()));
                self.margins.push(Margin { first: Some(Line::of(MARKER, &marker)), rest });
            }
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableHead => {
                self.styles.push(Style::PLAIN.bold());
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::Emphasis => self.styles.push(Style { italic: true, ..self.style() }),
            Tag::Strong => self.styles.push(Style { bold: true, ..self.style() }),
            Tag::Strikethrough => self.styles.push(Style { strike: true, ..self.style() }),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                let address = Address::safe(&dest_url).map(|address| address.as_str().to_owned());
                self.links.push((address, self.inline.text().len()));
                self.styles.push(Style {
                    underline: true,
                    foreground: LINK.foreground,
                    ..self.style()
                });
            }
            Tag::TableCell
            | Tag::FootnoteDefinition(_)
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
                // Behind a list inside an item the next item follows at once.
                self.gap = self.lists.is_empty() || self.gap;
            }
            TagEnd::Item => {
                self.flush();
                // An item without words shows its marker all the same.
                if self.margins.last().is_some_and(|margin| margin.first.is_some()) {
                    self.emit(&Line::default());
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
                    for line in table.lines(self.room()) {
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
                if let Some((Some(address), start)) = self.links.pop()
                    && self.inline.text().get(start..) != Some(address.as_str())
                {
                    self.inline.push(MARKER, &format!(" ({address})"));
                }
            }
            TagEnd::TableRow
            | TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    /// Columns left of what stands in front of every line.
    fn room(&self) -> usize {
        let taken: usize = self.margins.iter().map(|margin| margin.rest.width()).sum();
        self.width.saturating_sub(taken).max(10)
    }

    fn begin_block(&mut self) {
        self.flush();
        if std::mem::take(&mut self.gap) {
            // Markers wait for a line with words.
            let mut line = Line::default();
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

    /// A break inside a paragraph, or inside a cell, where there is only room for a blank.
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
        for part in wrapped(&line, self.room()) {
            self.emit(&part);
        }
    }

    fn emit(&mut self, line: &Line) {
        let mut whole = Line::default();
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
        let room = self.room().saturating_sub(2);
        for line in code_lines(code, language) {
            for part in broken(&line, room) {
                let mut indented = Line::of(MARKER, "▏ ");
                indented.append(&part);
                self.emit(&indented);
            }
        }
    }
}

static EMPTY: Line = Line::EMPTY;
