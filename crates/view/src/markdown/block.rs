//! Top-level Markdown blocks, of a whole text or of one that arrives in chunks.

use std::collections::HashMap;

use pulldown_cmark::{
    BrokenLink, BrokenLinkCallback, CodeBlockKind, CowStr, Event, Options, Parser, RefDefs, Tag,
    TagEnd, TextMergeStream,
};
use wire::json::MAX_DEPTH;

use super::formula::{formulas, without_formulas};
use super::inline::InlineSplitter;
use super::line_prefix::LinePrefix;

pub(super) const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS)
    .union(Options::ENABLE_FOOTNOTES);

/// Markdown text that consists of whole blocks.
#[derive(Clone, Copy, Debug)]
pub struct MarkdownBlock<'a> {
    source: &'a str,
    definitions: Option<&'a LinkDefinitions>,
    closed: bool,
}

impl<'a> MarkdownBlock<'a> {
    /// A complete text, as one block.
    pub fn whole(source: &'a str) -> Self {
        Self { source, definitions: None, closed: true }
    }

    /// Its Markdown.
    pub fn source(&self) -> &'a str {
        self.source
    }

    /// Whether it is final. Expensive steps, like colouring code, wait for this.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Its parser events, with adjacent text merged, formulas and references to footnotes. What nests deeper than [`MAX_DEPTH`] has no
    /// structure of its own.
    pub fn events(&self) -> impl Iterator<Item = Event<'a>> + use<'a> {
        let formulas = formulas(self.source, OPTIONS, self.closed);
        let (plain, with_formulas) = if formulas.is_empty() {
            (Some(parse(self.source, self.definitions)), Vec::new())
        } else {
            let source = without_formulas(self.source, &formulas);
            let events = parse(&source, self.definitions).map(Event::into_static);
            (None, events.collect())
        };
        let events = plain.into_iter().flatten().chain(with_formulas);
        let events = InlineSplitter::new(events, formulas);
        let mut depth = 0_usize;
        events.filter_map(move |event| bounded(event, &mut depth))
    }
}

/// The parser's events, with adjacent text merged.
fn parse<'a>(
    source: &'a str,
    definitions: Option<&'a LinkDefinitions>,
) -> impl Iterator<Item = Event<'a>> + use<'a> {
    let callback = DefinitionLookup(definitions);
    TextMergeStream::new(Parser::new_with_broken_link_callback(source, OPTIONS, Some(callback)))
}

/// Drops quotes, lists and emphasis that nest too deep, but not what is inside. A line would otherwise
/// get a margin that is longer than itself, and a browser nests no more than some hundred elements.
fn bounded<'a>(event: Event<'a>, depth: &mut usize) -> Option<Event<'a>> {
    match &event {
        Event::Start(tag) => {
            *depth += 1;
            let nests = matches!(
                tag,
                Tag::BlockQuote(_)
                    | Tag::List(_)
                    | Tag::Item
                    | Tag::Emphasis
                    | Tag::Strong
                    | Tag::Strikethrough
            );
            match tag {
                _ if !nests || *depth <= MAX_DEPTH => Some(event),
                Tag::Item => Some(Event::SoftBreak),
                _ => None,
            }
        }
        Event::End(tag) => {
            let nests = matches!(
                tag,
                TagEnd::BlockQuote(_)
                    | TagEnd::List(_)
                    | TagEnd::Item
                    | TagEnd::Emphasis
                    | TagEnd::Strong
                    | TagEnd::Strikethrough
            );
            let kept = !nests || *depth <= MAX_DEPTH;
            *depth = depth.saturating_sub(1);
            kept.then_some(event)
        }
        _ => Some(event),
    }
}

/// Looks up link labels that the block itself does not define.
struct DefinitionLookup<'a>(Option<&'a LinkDefinitions>);

impl<'a> BrokenLinkCallback<'a> for DefinitionLookup<'a> {
    fn handle_broken_link(&mut self, link: BrokenLink<'a>) -> Option<(CowStr<'a>, CowStr<'a>)> {
        self.0?.find(&link.reference)
    }
}

/// Calls `each` for the blocks of a complete text.
pub fn blocks(text: &str, mut each: impl FnMut(MarkdownBlock<'_>)) {
    let mut stream = MarkdownStream::new();
    stream.push(text, &mut each);
    stream.finish(&mut each);
}

/// Where the blocks of a text end, each at the end of a line.
///
/// The last one may be open; each of the others is closed by the next.
struct BlockEnds {
    ends: Vec<usize>,
    /// Whether no text that follows can change the last block.
    last_is_closed: bool,
}

impl BlockEnds {
    fn of(text: &str) -> Self {
        let mut ends = Vec::new();
        let mut last_is_closed = false;
        let mut depth = 0_usize;
        let mut closes = CloseRule::Never;
        for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
            match event {
                Event::Start(tag) => {
                    if depth == 0 {
                        if needs_block_before(&tag, &text[..range.start]) {
                            ends.pop();
                        }
                        closes = CloseRule::by(&tag, &text[range]);
                    }
                    depth += 1;
                    continue;
                }
                Event::End(_) => depth -= 1,
                Event::Rule if depth == 0 => closes = CloseRule::AtOnce,
                _ => {}
            }
            if depth == 0 {
                let end = line_end(text, range.end);
                last_is_closed = match closes {
                    CloseRule::AtOnce => true,
                    CloseRule::AtBlankLine => blank_line_at(&text[end..]),
                    CloseRule::Never => false,
                };
                ends.push(end);
            }
        }
        Self { ends, last_is_closed }
    }
}

/// Whether a block would be code without the block before it: after a footnote, a line may be indented.
fn needs_block_before(tag: &Tag<'_>, before: &str) -> bool {
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let indentation = &before[start..];
    let is_indented = indentation.trim_ascii().is_empty()
        && (indentation.len() >= 4 || indentation.contains('\t'));
    is_indented && !matches!(tag, Tag::CodeBlock(_))
}

/// What closes a block, apart from the next block.
enum CloseRule {
    /// Its own last line.
    AtOnce,
    /// A blank line.
    AtBlankLine,
    /// Nothing: a list continues after any number of blank lines.
    Never,
}

impl CloseRule {
    fn by(tag: &Tag<'_>, source: &str) -> Self {
        match tag {
            Tag::Heading { .. } => Self::AtOnce,
            Tag::CodeBlock(CodeBlockKind::Fenced(_)) if fence_is_closed(source) => Self::AtOnce,
            Tag::Paragraph | Tag::BlockQuote(_) | Tag::Table(_) => Self::AtBlankLine,
            _ => Self::Never,
        }
    }
}

/// Whether a fenced block has its closing fence.
fn fence_is_closed(source: &str) -> bool {
    let mut lines = source.lines();
    let Some(opening) = lines.next().map(str::trim_start) else { return false };
    let Some(mark) = opening.chars().next() else { return false };
    let width = opening.chars().take_while(|&c| c == mark).count();
    lines.last().is_some_and(|line| {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let fence = line.trim();
        indent < 4 && fence.chars().all(|c| c == mark) && fence.chars().count() >= width
    })
}

/// The end of the line that `position` is in, after its newline. If only white space precedes
/// `position` in the line, it is the indentation of the next block, and the result is the line's start.
fn line_end(text: &str, position: usize) -> usize {
    let start = text[..position].rfind('\n').map_or(0, |newline| newline + 1);
    if text[start..position].trim_ascii().is_empty() {
        return start;
    }
    text[position..].find('\n').map_or(text.len(), |found| position + found + 1)
}

fn blank_line_at(text: &str) -> bool {
    text.split_once('\n')
        .is_some_and(|(line, _)| line.bytes().all(|b| matches!(b, b' ' | b'\t' | b'\r')))
}

/// Markdown that arrives in chunks, split into closed blocks and an open part.
///
/// The closed blocks do not depend on the chunks; only *when* a block is found to be closed does.
#[derive(Clone, Debug, Default)]
pub struct MarkdownStream {
    /// The text behind the last closed block.
    open: String,
    /// The markers of the current line.
    prefix: LinePrefix,
    definitions: LinkDefinitions,
    /// How long the open part must be before it is parsed again.
    ///
    /// A block that stays open is parsed each time it has grown by an eighth, not with every line: a
    /// list of a megabyte would otherwise cost the square of its length.
    parse_at: usize,
}

impl MarkdownStream {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends text; `closed` is called for each block that it closes.
    pub fn push(&mut self, text: &str, mut closed: impl FnMut(MarkdownBlock<'_>)) {
        self.prefix.append(text, &mut self.open);
        if self.open.len() < self.parse_at || !text.contains('\n') {
            return;
        }
        // An incomplete line may become anything: `#` alone is a heading, `#foo` is not.
        let Some(complete) = self.open.rfind('\n').map(|newline| newline + 1) else { return };
        let BlockEnds { mut ends, last_is_closed } = BlockEnds::of(&self.open[..complete]);
        if !last_is_closed {
            ends.pop();
        }
        let done = self.close_blocks(&ends, &mut closed);
        self.open.drain(..done);
        self.parse_at = if done > 0 { 0 } else { self.open.len() + self.open.len() / 8 };
    }

    /// Closes the rest of the text.
    pub fn finish(&mut self, mut closed: impl FnMut(MarkdownBlock<'_>)) {
        let mut ends = BlockEnds::of(&self.open).ends;
        // White space at the end of an open fence belongs to the code.
        if let Some(last) = ends.last_mut() {
            *last = self.open.len();
        }
        self.close_blocks(&ends, &mut closed);
        self.open.clear();
        self.prefix = LinePrefix::default();
        self.parse_at = 0;
    }

    /// The text behind the last closed block.
    pub fn open(&self) -> MarkdownBlock<'_> {
        MarkdownBlock { source: &self.open, definitions: Some(&self.definitions), closed: false }
    }

    /// Calls `closed` for the blocks that end at `ends`, and returns the last end.
    fn close_blocks(
        &mut self,
        ends: &[usize],
        closed: &mut impl FnMut(MarkdownBlock<'_>),
    ) -> usize {
        let mut start = 0;
        for &end in ends {
            let source = &self.open[start..end];
            closed(MarkdownBlock { source, definitions: Some(&self.definitions), closed: true });
            // Only text that contains this can hold definitions.
            if source.contains("]:") {
                self.definitions.add(Parser::new_ext(source, OPTIONS).reference_definitions());
            }
            start = end;
        }
        start
    }
}

/// The targets of `[label]` links defined so far.
#[derive(Clone, Debug, Default)]
struct LinkDefinitions(HashMap<String, LinkDefinition>);

#[derive(Clone, Debug)]
struct LinkDefinition {
    url: String,
    title: String,
}

impl LinkDefinitions {
    /// Adds the definitions of a block; the first definition of a label wins.
    fn add(&mut self, found: &RefDefs<'_>) {
        for (label, definition) in found.iter() {
            self.0.entry(normalized(label)).or_insert_with(|| LinkDefinition {
                url: definition.dest.to_string(),
                title: definition.title.as_ref().map(ToString::to_string).unwrap_or_default(),
            });
        }
    }

    /// The URL and title of a label.
    fn find<'a>(&'a self, label: &str) -> Option<(CowStr<'a>, CowStr<'a>)> {
        if self.0.is_empty() {
            return None;
        }
        let definition = self.0.get(&normalized(label))?;
        Some((definition.url.as_str().into(), definition.title.as_str().into()))
    }
}

/// Labels are compared without case and amount of white space.
fn normalized(label: &str) -> String {
    let words: Vec<_> = label.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

/// Whether raw HTML is a `<br>`, which models write to break a line in a table cell. It is the only
/// HTML tag that is rendered.
pub(crate) fn is_line_break(html: &str) -> bool {
    let inner = html.trim_start_matches('<').trim_end_matches('>').trim_end_matches('/').trim();
    inner.eq_ignore_ascii_case("br")
}
