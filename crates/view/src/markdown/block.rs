//! A top-level block of Markdown and the events inside it.

use pulldown_cmark::{
    BrokenLink, BrokenLinkCallback, CodeBlockKind, CowStr, Event, Options, Parser, Tag,
    TextMergeStream,
};

use super::definitions::Definitions;

/// The dialect.
pub(super) const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// A piece of Markdown that holds whole blocks.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    pub(super) source: &'a str,
    pub(super) definitions: Option<&'a Definitions>,
    pub(super) closed: bool,
}

impl<'a> Block<'a> {
    /// A text that will not grow, taken as a whole.
    pub fn whole(source: &'a str) -> Self {
        Self { source, definitions: None, closed: true }
    }

    /// The Markdown itself.
    pub fn source(&self) -> &'a str {
        self.source
    }

    /// Whether it is final. What is worth doing only once, like colouring code, waits for this.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// What it holds, text in one piece wherever nothing stands between.
    pub fn events(&self) -> impl Iterator<Item = Event<'a>> + use<'a> {
        let callback = Lookup(self.definitions);
        TextMergeStream::new(Parser::new_with_broken_link_callback(
            self.source,
            OPTIONS,
            Some(callback),
        ))
    }
}

/// Finds what a label means if the block itself does not say.
struct Lookup<'a>(Option<&'a Definitions>);

impl<'a> BrokenLinkCallback<'a> for Lookup<'a> {
    fn handle_broken_link(&mut self, link: BrokenLink<'a>) -> Option<(CowStr<'a>, CowStr<'a>)> {
        self.0?.find(&link.reference)
    }
}

/// The blocks of a text that will not grow.
pub fn blocks(text: &str, mut each: impl FnMut(Block<'_>)) {
    let mut stream = super::Stream::new();
    stream.push(text, &mut each);
    stream.finish(&mut each);
}

/// Where the blocks of a text end, each at the end of a line.
///
/// The last of them may be open; the others are closed by the one behind.
pub(super) struct Ends {
    pub(super) ends: Vec<usize>,
    /// Whether nothing that may follow can change the last one.
    pub(super) last_is_closed: bool,
}

impl Ends {
    pub(super) fn of(text: &str) -> Self {
        let mut ends = Vec::new();
        let mut last_is_closed = false;
        let mut depth = 0_usize;
        let mut closes = Closes::Never;
        for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
            match event {
                Event::Start(tag) => {
                    if depth == 0 {
                        closes = Closes::by(&tag, &text[range]);
                    }
                    depth += 1;
                    continue;
                }
                Event::End(_) => depth -= 1,
                Event::Rule if depth == 0 => closes = Closes::AtOnce,
                _ => {}
            }
            if depth == 0 {
                let end = line_end(text, range.end);
                last_is_closed = match closes {
                    Closes::AtOnce => true,
                    Closes::AtBlankLine => blank_line_at(&text[end..]),
                    Closes::Never => false,
                };
                ends.push(end);
            }
        }
        Self { ends, last_is_closed }
    }
}

/// What closes a block, apart from another that follows.
enum Closes {
    /// Its own last line.
    AtOnce,
    /// A blank line.
    AtBlankLine,
    /// Nothing: a list goes on behind any number of blank lines.
    Never,
}

impl Closes {
    fn by(tag: &Tag<'_>, source: &str) -> Self {
        match tag {
            Tag::Heading { .. } => Self::AtOnce,
            Tag::CodeBlock(CodeBlockKind::Fenced(_)) if fence_is_closed(source) => Self::AtOnce,
            Tag::Paragraph | Tag::BlockQuote(_) | Tag::Table(_) => Self::AtBlankLine,
            _ => Self::Never,
        }
    }
}

/// Whether the source of a fenced block ends with its closing fence.
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

/// The end of the line that `position` is in, behind its newline; the line's beginning if nothing but
/// white space stands between them, which is the indentation of the block that follows.
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
