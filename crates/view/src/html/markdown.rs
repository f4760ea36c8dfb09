//! Markdown as HTML.
//!
//! The tags are ours and the text is escaped: nothing an agent writes becomes a tag, an attribute's
//! name, a style or a script. Raw HTML is shown as it is written. Links lead to the web or a mailbox
//! and tell nobody where they were followed from; pictures are links, since loading one would tell
//! its owner who reads what, and when.

use pulldown_cmark::{Alignment, CodeBlockKind, CowStr, Event, Tag, TagEnd};

use super::code::code_block;
use super::escape::escape;
use crate::markdown::{Address, Block, Stretch, stretches};

/// Adds a block.
pub fn render(block: &Block<'_>, out: &mut String) {
    let mut writer = Writer {
        out,
        closed: block.is_closed(),
        code: None,
        links: Vec::new(),
        alignments: Vec::new(),
        column: 0,
        in_head: false,
    };
    for event in block.events() {
        writer.take(event);
    }
}

struct Writer<'a, 'o> {
    out: &'o mut String,
    closed: bool,
    /// The block of code we are in: its language and what came of it.
    code: Option<(CowStr<'a>, String)>,
    /// For each link we are in, whether it could be followed.
    links: Vec<bool>,
    alignments: Vec<Alignment>,
    column: usize,
    in_head: bool,
}

impl<'a> Writer<'a, '_> {
    fn take(&mut self, event: Event<'a>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => {
                self.tag("<code>");
                escape(&code, self.out);
                self.tag("</code>");
            }
            Event::InlineHtml(html) if is_line_break(&html) => self.tag("<br>"),
            Event::Html(html) | Event::InlineHtml(html) => escape(&html, self.out),
            Event::InlineMath(math) | Event::DisplayMath(math) => escape(&math, self.out),
            Event::FootnoteReference(name) => escape(&name, self.out),
            Event::SoftBreak => self.tag("\n"),
            Event::HardBreak => self.tag("<br>\n"),
            Event::Rule => self.tag("<hr>\n"),
            Event::TaskListMarker(true) => self.tag("<span class=\"task done\">☑</span> "),
            Event::TaskListMarker(false) => self.tag("<span class=\"task\">☐</span> "),
        }
    }

    fn tag(&mut self, tag: &str) {
        self.out.push_str(tag);
    }

    fn text(&mut self, text: &str) {
        if let Some((_, code)) = &mut self.code {
            code.push_str(text);
            return;
        }
        if !self.links.is_empty() {
            escape(text, self.out);
            return;
        }
        for stretch in stretches(text) {
            match stretch {
                Stretch::Plain(text) => escape(text, self.out),
                Stretch::Link(address) => {
                    open_link(address, self.out);
                    escape(address.as_str(), self.out);
                    self.tag("</a>");
                }
            }
        }
    }

    fn start(&mut self, tag: Tag<'a>) {
        match tag {
            Tag::Paragraph => self.tag("<p>"),
            Tag::Heading { level, .. } => {
                self.tag("<h");
                self.out.push(digit(level as u8));
                self.tag(">");
            }
            Tag::BlockQuote(_) => self.tag("<blockquote>\n"),
            Tag::CodeBlock(CodeBlockKind::Indented) => self.code = Some(("".into(), String::new())),
            Tag::CodeBlock(CodeBlockKind::Fenced(name)) => self.code = Some((name, String::new())),
            Tag::HtmlBlock => self.tag("<p class=\"raw\">"),
            Tag::List(None) => self.tag("<ul>\n"),
            Tag::List(Some(1)) => self.tag("<ol>\n"),
            Tag::List(Some(first)) => {
                let _ =
                    std::fmt::Write::write_fmt(self.out, format_args!("<ol start=\"{first}\">\n"));
            }
            Tag::Item => self.tag("<li>"),
            Tag::Table(alignments) => {
                self.alignments = alignments;
                self.tag("<div class=\"table\"><table>\n");
            }
            Tag::TableHead => {
                self.in_head = true;
                self.column = 0;
                self.tag("<thead><tr>");
            }
            Tag::TableRow => {
                self.column = 0;
                self.tag("<tr>");
            }
            Tag::TableCell => self.cell(),
            Tag::Emphasis => self.tag("<em>"),
            Tag::Strong => self.tag("<strong>"),
            Tag::Strikethrough => self.tag("<del>"),
            Tag::Link { dest_url, .. } => self.link(&dest_url),
            Tag::Image { dest_url, .. } => {
                self.link(&dest_url);
                self.tag("🖼 ");
            }
            // Not in the dialect.
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
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.tag("</p>\n"),
            TagEnd::Heading(level) => {
                self.tag("</h");
                self.out.push(digit(level as u8));
                self.tag(">\n");
            }
            TagEnd::BlockQuote(_) => self.tag("</blockquote>\n"),
            TagEnd::CodeBlock => {
                if let Some((language, code)) = self.code.take() {
                    code_block(&code, &language, self.closed, self.out);
                    self.tag("\n");
                }
            }
            TagEnd::List(true) => self.tag("</ol>\n"),
            TagEnd::List(false) => self.tag("</ul>\n"),
            TagEnd::Item => self.tag("</li>\n"),
            TagEnd::Table => self.tag("</tbody></table></div>\n"),
            TagEnd::TableHead => {
                self.in_head = false;
                self.tag("</tr></thead><tbody>\n");
            }
            TagEnd::TableRow => self.tag("</tr>\n"),
            TagEnd::TableCell => {
                let tag = if self.in_head { "</th>" } else { "</td>" };
                self.tag(tag);
            }
            TagEnd::Emphasis => self.tag("</em>"),
            TagEnd::Strong => self.tag("</strong>"),
            TagEnd::Strikethrough => self.tag("</del>"),
            TagEnd::Link | TagEnd::Image => {
                if self.links.pop() == Some(true) {
                    self.tag("</a>");
                }
            }
            TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    /// Opens a link; one that leads nowhere safe, or stands in another, is only its text.
    fn link(&mut self, address: &str) {
        let address = Address::safe(address).filter(|_| !self.links.contains(&true));
        self.links.push(address.is_some());
        if let Some(address) = address {
            open_link(address, self.out);
        }
    }

    fn cell(&mut self) {
        self.tag(if self.in_head { "<th" } else { "<td" });
        match self.alignments.get(self.column) {
            Some(Alignment::Left) => self.tag(" class=left"),
            Some(Alignment::Center) => self.tag(" class=center"),
            Some(Alignment::Right) => self.tag(" class=right"),
            Some(Alignment::None) | None => {}
        }
        self.tag(">");
        self.column += 1;
    }
}

fn open_link(address: Address<'_>, out: &mut String) {
    out.push_str("<a href=\"");
    escape(address.as_str(), out);
    out.push_str("\" rel=\"noopener noreferrer nofollow\" target=\"_blank\">");
}

fn digit(level: u8) -> char {
    char::from(b'0' + level.min(6))
}

/// `<br>` is what models write to break a line in a table's cell; it is the one tag that is safe to
/// take at its word.
pub(crate) fn is_line_break(html: &str) -> bool {
    let inner = html.trim_start_matches('<').trim_end_matches('>').trim_end_matches('/').trim();
    inner.eq_ignore_ascii_case("br")
}
