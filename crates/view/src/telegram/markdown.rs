//! Markdown as words and marks.

use pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};

use super::text::{Mark, Text};
use crate::ansi::Style;
use crate::html::is_line_break;
use crate::markdown::{Address, Block, blocks};
use crate::terminal::{Line, Table};

/// Columns of a table on a phone, before its letters wrap.
const TABLE: usize = 60;

/// A text in Markdown.
pub fn prose(markdown: &str) -> Text {
    rendered(markdown, Place::Open)
}

/// A text in Markdown as a quote that is folded until somebody opens it. Code in it is no block:
/// Telegram takes none inside a quote.
pub fn quoted(markdown: &str) -> Text {
    let mut text = rendered(markdown, Place::InQuote);
    text.mark(0, Mark::Folded);
    text
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Open,
    InQuote,
}

fn rendered(markdown: &str, place: Place) -> Text {
    let mut text = Text::default();
    blocks(markdown, |block| {
        text.blank_line();
        render(&block, place, &mut text);
    });
    trim_end(&mut text);
    text
}

fn trim_end(text: &mut Text) {
    let end = text.words.trim_end().len();
    text.words.truncate(end);
    text.marks.retain_mut(|marked| {
        marked.end = marked.end.min(end);
        marked.start < marked.end
    });
}

fn render(block: &Block<'_>, place: Place, text: &mut Text) {
    let mut writer = Writer {
        text,
        quotes: usize::from(place == Place::InQuote),
        starts: Vec::new(),
        links: Vec::new(),
        lists: Vec::new(),
        language: None,
        table: None,
        cell: None,
    };
    for event in block.events() {
        writer.take(event);
    }
}

struct Writer<'o> {
    text: &'o mut Text,
    /// How many quotes we are in.
    quotes: usize,
    /// Where each mark began that is not yet put.
    starts: Vec<usize>,
    links: Vec<Option<String>>,
    lists: Vec<Option<u64>>,
    /// The language of the block of code we are in, where it has one.
    language: Option<String>,
    table: Option<Table>,
    /// The cell of a table that is being put together; its marks are lost in a block of code.
    cell: Option<String>,
}

impl Writer<'_> {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Code(code) if self.cell.is_none() => self.text.push_marked(Mark::Code, &code),
            Event::InlineHtml(html) if is_line_break(&html) => self.push("\n"),
            Event::Text(text)
            | Event::Code(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.push(&text),
            Event::SoftBreak => self.push(" "),
            Event::HardBreak => self.push("\n"),
            Event::Rule => {
                self.text.new_line();
                self.push("———\n");
            }
            Event::TaskListMarker(done) => self.push(if done { "☑ " } else { "☐ " }),
        }
    }

    fn push(&mut self, words: &str) {
        match &mut self.cell {
            Some(cell) => cell.push_str(&words.replace('\n', " ")),
            None => self.text.push(words),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { .. } => {
                self.begin_block();
                self.begin();
            }
            Tag::BlockQuote(_) => {
                self.text.new_line();
                self.begin();
                self.quotes += 1;
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                self.begin();
                self.language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        let name = info.split([' ', ',', '{', '\t']).next().unwrap_or_default();
                        let plain =
                            name.chars().all(|c| c.is_ascii_alphanumeric() || "+-#_.".contains(c));
                        (plain && !name.is_empty()).then(|| name.to_owned())
                    }
                    CodeBlockKind::Indented => None,
                };
            }
            Tag::List(first) => {
                self.text.new_line();
                self.lists.push(first);
            }
            Tag::Item => {
                self.text.new_line();
                let indent = "   ".repeat(self.lists.len().saturating_sub(1));
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let marker = format!("{number}. ");
                        *number += 1;
                        marker
                    }
                    _ => "• ".to_owned(),
                };
                self.push(&format!("{indent}{marker}"));
            }
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::TableCell => self.cell = Some(String::new()),
            Tag::Emphasis | Tag::Strong | Tag::Strikethrough => self.begin(),
            Tag::Link { dest_url, .. } => self.link(&dest_url),
            Tag::Image { dest_url, .. } => {
                self.link(&dest_url);
                self.push("🖼 ");
            }
            Tag::FootnoteDefinition(_)
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
            TagEnd::Paragraph | TagEnd::HtmlBlock | TagEnd::Item => self.text.new_line(),
            TagEnd::Heading(_) => {
                self.finish(Mark::Bold);
                self.text.new_line();
            }
            TagEnd::BlockQuote(_) => {
                self.quotes -= 1;
                let start = self.starts.pop().unwrap_or(self.text.words.len());
                trim_end(self.text);
                if self.quotes == 0 {
                    self.text.mark(start, Mark::Quote);
                }
                self.text.new_line();
            }
            TagEnd::CodeBlock => {
                trim_end(self.text);
                let language = self.language.take();
                self.finish(if self.quotes > 0 { Mark::Code } else { Mark::Block(language) });
                self.text.new_line();
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::TableCell => {
                let cell = self.cell.take().unwrap_or_default();
                if let Some(table) = &mut self.table {
                    table.add_cell(Line::of(Style::PLAIN, &cell));
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let lines: Vec<_> = table.lines(TABLE).iter().map(Line::text).collect();
                    let mark = if self.quotes > 0 { Mark::Code } else { Mark::Block(None) };
                    self.text.push_marked(mark, &lines.join("\n"));
                }
                self.text.new_line();
            }
            TagEnd::Emphasis => self.finish(Mark::Italic),
            TagEnd::Strong => self.finish(Mark::Bold),
            TagEnd::Strikethrough => self.finish(Mark::Strike),
            TagEnd::Link | TagEnd::Image => {
                let start = self.starts.pop().unwrap_or_default();
                if let Some(address) = self.links.pop().flatten()
                    && self.cell.is_none()
                {
                    self.text.mark(start, Mark::Link(address));
                }
            }
            TagEnd::TableHead
            | TagEnd::TableRow
            | TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    fn begin(&mut self) {
        self.starts.push(self.text.words.len());
    }

    fn finish(&mut self, mark: Mark) {
        let start = self.starts.pop().unwrap_or(self.text.words.len());
        if self.cell.is_none() {
            self.text.mark(start, mark);
        }
    }

    fn link(&mut self, address: &str) {
        self.begin();
        self.links.push(Address::safe(address).map(|address| address.as_str().to_owned()));
    }

    /// Begins a paragraph: behind a blank line, unless a list's marker stands in front of it.
    fn begin_block(&mut self) {
        let line = self.text.words.rsplit('\n').next().unwrap_or_default();
        let behind_marker =
            !self.lists.is_empty() && (line.ends_with("• ") || line.ends_with(". "));
        if !behind_marker {
            self.text.blank_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{prose, quoted};

    fn html(markdown: &str) -> String {
        let messages = prose(markdown).messages(4096);
        messages.into_iter().map(|message| message.html).collect::<Vec<_>>().join("\n---\n")
    }

    #[test]
    fn the_subset_is_used_for_what_it_has() {
        assert_eq!(
            html("# T\n\n**b** *i* ~~s~~ `c` [l](https://a?b&c) <x>"),
            "<b>T</b>\n\n<b>b</b> <i>i</i> <s>s</s> <code>c</code> <a href=\"https://a?b&amp;c\">l</a> &lt;x&gt;"
        );
        assert_eq!(
            html("```rust\na<b\n```"),
            "<pre><code class=\"language-rust\">a&lt;b</code></pre>"
        );
        assert_eq!(html("- a\n  - b\n- [x] c\n\n1. d"), "• a\n   • b\n• ☑ c\n\n1. d");
        assert_eq!(html("> a\n> > b"), "<blockquote>a\n\nb</blockquote>");
        assert_eq!(html("***x***"), "<i><b>x</b></i>");
    }

    #[test]
    fn tables_are_blocks_of_code() {
        assert_eq!(
            html("| a | bcd |\n|---|---:|\n| **x** | `1` |"),
            "<pre>a │ bcd\n──┼────\nx │   1</pre>"
        );
    }

    #[test]
    fn links_that_lead_nowhere_are_only_their_words() {
        assert_eq!(html("[a](src/b.rs) [c](javascript:x) ![d](e.png)"), "a c 🖼 d");
    }

    #[test]
    fn thoughts_are_folded_and_have_no_blocks() {
        let messages = quoted("**a**\n\n```rust\nb\n```\n\n> c").messages(4096);
        assert_eq!(
            messages[0].html,
            "<blockquote expandable><b>a</b>\n\n<code>b</code>\n\nc</blockquote>"
        );
    }
}
