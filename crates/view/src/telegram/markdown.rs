//! Markdown as formatted text.

use pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};

use super::text::{FormattedText, TextFormat};
use crate::ansi::TextStyle;
use crate::markdown::{MarkdownBlock, SafeUrl, blocks, formula_text, is_line_break};
use crate::terminal::{StyledLine, TextTable};

/// The width of a table in columns; a phone wraps wider ones.
const TABLE_WIDTH: usize = 60;

/// A whole Markdown text.
pub fn markdown(markdown: &str) -> FormattedText {
    render(markdown, QuoteContext::Outside)
}

/// A Markdown text as a collapsed quote. Code blocks become inline code: Telegram allows no blocks
/// inside a quote.
pub fn collapsed_quote(markdown: &str) -> FormattedText {
    let mut text = render(markdown, QuoteContext::Inside);
    text.format_from(0, TextFormat::CollapsedQuote);
    text
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum QuoteContext {
    Outside,
    Inside,
}

fn render(markdown: &str, context: QuoteContext) -> FormattedText {
    let mut text = FormattedText::default();
    blocks(markdown, |block| {
        text.blank_line();
        render_block(&block, context, &mut text);
    });
    trim_end(&mut text);
    text
}

fn trim_end(text: &mut FormattedText) {
    let end = text.text.trim_end().len();
    text.text.truncate(end);
    text.formats.retain_mut(|range| {
        range.end = range.end.min(end);
        range.start < range.end
    });
}

fn render_block(block: &MarkdownBlock<'_>, context: QuoteContext, text: &mut FormattedText) {
    let mut writer = TelegramWriter {
        text,
        quotes: usize::from(context == QuoteContext::Inside),
        starts: Vec::new(),
        links: Vec::new(),
        lists: Vec::new(),
        language: None,
        table: None,
        cell: None,
    };
    for event in block.events() {
        writer.event(event);
    }
}

struct TelegramWriter<'o> {
    text: &'o mut FormattedText,
    /// The number of enclosing quotes.
    quotes: usize,
    /// Where each open format began.
    starts: Vec<usize>,
    links: Vec<Option<String>>,
    lists: Vec<Option<u64>>,
    /// The language of the current code block, if known.
    language: Option<String>,
    table: Option<TextTable>,
    /// The current table cell. A table is a code block, so its formats are dropped.
    cell: Option<String>,
}

impl TelegramWriter<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Code(code) if self.cell.is_none() => {
                self.text.push_formatted(TextFormat::Code, &code);
            }
            Event::InlineHtml(html) if is_line_break(&html) => self.push("\n"),
            Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.push(&text);
            }
            Event::InlineMath(latex) => self.formula(&latex),
            Event::DisplayMath(latex) => {
                if self.cell.is_none() {
                    self.text.new_line();
                }
                self.formula(&latex);
                if self.cell.is_none() {
                    self.text.new_line();
                }
            }
            Event::FootnoteReference(label) => self.push(&format!("[{label}]")),
            // An agent breaks lines where it means to.
            Event::SoftBreak | Event::HardBreak => self.push("\n"),
            Event::Rule => {
                self.text.new_line();
                self.push("———\n");
            }
            Event::TaskListMarker(done) => self.push(if done { "☑ " } else { "☐ " }),
        }
    }

    fn push(&mut self, text: &str) {
        match &mut self.cell {
            Some(cell) => cell.push_str(&text.replace('\n', " ")),
            None => self.text.push(text),
        }
    }

    /// A formula in Unicode, or as it was written.
    fn formula(&mut self, latex: &str) {
        match formula_text(latex) {
            Some(text) => self.push(&text),
            None if self.cell.is_some() => self.push(latex.trim()),
            None => self.text.push_formatted(TextFormat::Code, latex.trim()),
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
                self.table = Some(TextTable::new(alignments));
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
            Tag::FootnoteDefinition(label) => {
                self.text.new_line();
                self.push(&format!("[{label}] "));
            }
            Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock | TagEnd::Item | TagEnd::FootnoteDefinition => {
                self.text.new_line();
            }
            TagEnd::Heading(_) => {
                self.finish(TextFormat::Bold);
                self.text.new_line();
            }
            TagEnd::BlockQuote(_) => {
                self.quotes -= 1;
                let start = self.starts.pop().unwrap_or(self.text.text.len());
                trim_end(self.text);
                if self.quotes == 0 {
                    self.text.format_from(start, TextFormat::Quote);
                }
                self.text.new_line();
            }
            TagEnd::CodeBlock => {
                trim_end(self.text);
                let language = self.language.take();
                self.finish(if self.quotes > 0 {
                    TextFormat::Code
                } else {
                    TextFormat::Block(language)
                });
                self.text.new_line();
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::TableCell => {
                let cell = self.cell.take().unwrap_or_default();
                if let Some(table) = &mut self.table {
                    table.add_cell(StyledLine::of(TextStyle::PLAIN, &cell));
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let lines: Vec<_> =
                        table.lines(TABLE_WIDTH).iter().map(StyledLine::text).collect();
                    let format =
                        if self.quotes > 0 { TextFormat::Code } else { TextFormat::Block(None) };
                    self.text.push_formatted(format, &lines.join("\n"));
                }
                self.text.new_line();
            }
            TagEnd::Emphasis => self.finish(TextFormat::Italic),
            TagEnd::Strong => self.finish(TextFormat::Bold),
            TagEnd::Strikethrough => self.finish(TextFormat::Strike),
            TagEnd::Link | TagEnd::Image => {
                let start = self.starts.pop().unwrap_or_default();
                if let Some(url) = self.links.pop().flatten()
                    && self.cell.is_none()
                {
                    self.text.format_from(start, TextFormat::Link(url));
                }
            }
            TagEnd::TableHead
            | TagEnd::TableRow
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    fn begin(&mut self) {
        self.starts.push(self.text.text.len());
    }

    fn finish(&mut self, format: TextFormat) {
        let start = self.starts.pop().unwrap_or(self.text.text.len());
        if self.cell.is_none() {
            self.text.format_from(start, format);
        }
    }

    fn link(&mut self, url: &str) {
        self.begin();
        self.links.push(SafeUrl::parse(url).map(|url| url.as_str().to_owned()));
    }

    /// Begins a paragraph: after a blank line, unless it follows a list marker.
    fn begin_block(&mut self) {
        let line = self.text.text.rsplit('\n').next().unwrap_or_default();
        let after_marker = !self.lists.is_empty() && (line.ends_with("• ") || line.ends_with(". "));
        let after_label = line.starts_with('[') && line.ends_with("] ");
        if !after_marker && !after_label {
            self.text.blank_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{collapsed_quote, markdown};

    fn html(text: &str) -> String {
        let messages = markdown(text).messages(4096);
        messages.into_iter().map(|message| message.html).collect::<Vec<_>>().join("\n---\n")
    }

    #[test]
    fn markdown_uses_telegrams_html_subset() {
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
    fn line_breaks_of_the_source_stay() {
        assert_eq!(html("Ann\nMain Street 1\n\nx"), "Ann\nMain Street 1\n\nx");
        assert_eq!(html("- a\n  b"), "• a\nb");
    }

    #[test]
    fn tables_are_blocks_of_code() {
        assert_eq!(
            html("| a | bcd |\n|---|---:|\n| **x** | `1` |"),
            "<pre>a │ bcd\n──┼────\nx │   1</pre>"
        );
    }

    #[test]
    fn unsafe_links_are_only_their_text() {
        assert_eq!(html("[a](src/b.rs) [c](javascript:x) ![d](e.png)"), "a c 🖼 d");
    }

    #[test]
    fn collapsed_quotes_have_no_blocks() {
        let messages = collapsed_quote("**a**\n\n```rust\nb\n```\n\n> c").messages(4096);
        assert_eq!(
            messages[0].html,
            "<blockquote expandable><b>a</b>\n\n<code>b</code>\n\nc</blockquote>"
        );
    }
}
