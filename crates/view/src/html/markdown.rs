//! Markdown as HTML.
//!
//! The tags are ours and the text is escaped: nothing an agent writes becomes a tag, an attribute
//! name, a style or a script. Raw HTML is shown as text. Links lead to the web or a mailbox and send
//! no referrer. Images become links, because loading one would tell its server who reads what, and
//! when.

use pulldown_cmark::{Alignment, CodeBlockKind, CowStr, Event, Tag, TagEnd};

use super::math::{MAX_BLOCK_OUTPUT, formula};
use super::text::{code_block, escape};
use crate::markdown::{
    MarkdownBlock, MarkdownStream, SafeUrl, TextSegment, is_line_break, segments,
};

/// Appends a block.
pub fn render_block(block: &MarkdownBlock<'_>, out: &mut String) {
    let mut writer = HtmlWriter {
        out,
        closed: block.is_closed(),
        code: None,
        links: Vec::new(),
        alignments: Vec::new(),
        column: 0,
        in_head: false,
        room_for_math: MAX_BLOCK_OUTPUT,
    };
    for event in block.events() {
        writer.event(event);
    }
}

struct HtmlWriter<'a, 'o> {
    out: &'o mut String,
    closed: bool,
    /// The current code block: its language and its text so far.
    code: Option<(CowStr<'a>, String)>,
    /// For each enclosing link, whether it has a tag.
    links: Vec<bool>,
    alignments: Vec<Alignment>,
    column: usize,
    in_head: bool,
    /// How much `MathML` the block may still have.
    room_for_math: usize,
}

impl<'a> HtmlWriter<'a, '_> {
    fn event(&mut self, event: Event<'a>) {
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
            Event::InlineMath(latex) => {
                formula(&latex, false, &mut self.room_for_math, self.out);
            }
            Event::DisplayMath(latex) => {
                formula(&latex, true, &mut self.room_for_math, self.out);
            }
            Event::FootnoteReference(label) => self.footnote_label(&label),
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
        for segment in segments(text) {
            match segment {
                TextSegment::Plain(text) => escape(text, self.out),
                TextSegment::Link(url) => {
                    open_link(url, self.out);
                    escape(url.as_str(), self.out);
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
            Tag::FootnoteDefinition(label) => {
                self.tag("<div class=\"footnote\">");
                self.footnote_label(&label);
                self.tag("\n");
            }
            // Not enabled in the dialect.
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
            TagEnd::FootnoteDefinition => self.tag("</div>\n"),
            TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    /// Opens a link. A link that is unsafe, or inside another link, is shown as text only.
    fn link(&mut self, url: &str) {
        let url = SafeUrl::parse(url).filter(|_| !self.links.contains(&true));
        self.links.push(url.is_some());
        if let Some(url) = url {
            open_link(url, self.out);
        }
    }

    fn footnote_label(&mut self, label: &str) {
        self.tag("<sup>");
        escape(label, self.out);
        self.tag("</sup>");
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

fn open_link(url: SafeUrl<'_>, out: &mut String) {
    out.push_str("<a href=\"");
    escape(url.as_str(), out);
    out.push_str("\" rel=\"noopener noreferrer nofollow\" target=\"_blank\">");
}

fn digit(level: u8) -> char {
    char::from(b'0' + level.min(6))
}

/// An open part up to this length is rendered again on every call.
const SHORT_OPEN: usize = 8 << 10;

/// Markdown that grows, as HTML: a final part and an open part.
///
/// The final part only grows at its end. The open part is rendered on demand, so that text may arrive
/// in any number of small chunks.
#[derive(Clone, Debug, Default)]
pub struct StreamingHtml {
    stream: MarkdownStream,
    closed: String,
    open: String,
    /// How much of the open text `open` includes.
    shown: usize,
    /// How much of it was rendered as Markdown; the rest was appended as plain text.
    rendered: usize,
}

impl StreamingHtml {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, text: &str) {
        let before = self.closed.len();
        let closed = &mut self.closed;
        self.stream.push(text, |block| render_block(&block, closed));
        if self.closed.len() > before {
            self.clear_open();
        }
    }

    /// Call it when no more text comes.
    pub fn finish(&mut self) {
        let closed = &mut self.closed;
        self.stream.finish(|block| render_block(&block, closed));
        self.clear_open();
    }

    /// The final part.
    pub fn closed(&self) -> &str {
        &self.closed
    }

    /// The part that may still change, rendered as if the text ended here.
    ///
    /// A long open block is rendered again only when it has grown by an eighth, so that the total cost
    /// is linear in its length. Until then, new text is appended as plain text.
    pub fn open(&mut self) -> &str {
        let block = self.stream.open();
        let source = block.source();
        if source.len() == self.shown {
            return &self.open;
        }
        if source.len() <= SHORT_OPEN || source.len() - self.rendered > source.len() / 8 {
            self.open.clear();
            render_block(&block, &mut self.open);
            self.rendered = source.len();
        } else {
            append(&source[self.shown..], &mut self.open);
        }
        self.shown = source.len();
        &self.open
    }

    fn clear_open(&mut self) {
        self.open.clear();
        self.shown = 0;
        self.rendered = 0;
    }
}

/// Appends plain text to the innermost element at the end.
fn append(text: &str, html: &mut String) {
    let mut end = html.len();
    loop {
        let kept = html[..end].trim_end();
        // Text behind a formula is no part of it.
        let is_formula = kept.strip_suffix("</span>").unwrap_or(kept).ends_with("</math>");
        // Escaped text contains no `<`, so the last one begins a tag.
        match kept.rfind("</") {
            Some(tag)
                if !is_formula
                    && kept.ends_with('>')
                    && !kept[tag..kept.len() - 1].contains('>') =>
            {
                end = tag;
            }
            _ => break,
        }
    }
    let tags = html.split_off(end);
    escape(text, html);
    html.push_str(&tags);
}

/// A whole Markdown text as HTML.
pub fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    crate::markdown::blocks(text, |block| render_block(&block, &mut out));
    out
}
