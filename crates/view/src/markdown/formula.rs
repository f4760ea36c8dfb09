//! Formulas in Markdown: which parts of a block are LaTeX.
//!
//! Models write `$…$`, `$$…$$`, `\(…\)` and `\[…\]`. For the parser the last two are escaped brackets,
//! and inside all four of them `_` and `*` would be emphasis. So formulas are found first, and the
//! parser sees one character in the place of each.
//!
//! A dollar is more often a price or a variable than a formula. What reads like words between two
//! dollars stays text.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Stands for a formula while the block is parsed. Text that contains it has no formulas.
pub(super) const PLACEHOLDER: char = '\u{10fffd}';

/// Longer formulas are text.
const MAX_LENGTH: usize = 4096;

/// A formula, or what may become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Formula {
    /// Where it is in the source of its block, with its delimiters.
    pub(super) range: Range<usize>,
    pub(super) kind: FormulaKind,
    /// LaTeX without delimiters; if unfinished, the text as it is.
    pub(super) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormulaKind {
    Inline,
    Display,
    /// Its end has not arrived. It is shown as it is: `_` and `*` in it would otherwise become
    /// emphasis, until the rest arrives.
    Unfinished,
}

/// The formulas of a block, in order.
pub(super) fn formulas(source: &str, options: Options, closed: bool) -> Vec<Formula> {
    let may_have_formulas =
        source.contains('$') || source.contains("\\(") || source.contains("\\[");
    if !may_have_formulas || source.contains(PLACEHOLDER) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for run in inline_runs(source, options) {
        let is_last = source[run.range.end..].trim_ascii().is_empty();
        run.find(source, !closed && is_last, &mut found);
    }
    found
}

/// Text of one paragraph, heading or cell.
#[derive(Debug, Default)]
struct InlineRun {
    range: Range<usize>,
    /// Code spans, links and tags: a delimiter in them is none.
    skipped: Vec<SkippedRange>,
    /// The number of enclosing quotes, whose markers are in the source of each line.
    quotes: usize,
}

#[derive(Debug)]
struct SkippedRange {
    range: Range<usize>,
    /// A formula contains no code, but what the parser takes for a link or a tag.
    is_code: bool,
}

fn inline_runs(source: &str, options: Options) -> Vec<InlineRun> {
    let mut runs = Vec::new();
    let mut run: Option<InlineRun> = None;
    let mut quotes = 0_usize;
    let mut in_code = false;
    for (event, range) in Parser::new_ext(source, options).into_offset_iter() {
        let is_inline = match &event {
            Event::Start(tag) => matches!(
                tag,
                Tag::Emphasis
                    | Tag::Strong
                    | Tag::Strikethrough
                    | Tag::Link { .. }
                    | Tag::Image { .. }
            ),
            Event::End(tag) => matches!(
                tag,
                TagEnd::Emphasis
                    | TagEnd::Strong
                    | TagEnd::Strikethrough
                    | TagEnd::Link
                    | TagEnd::Image
            ),
            Event::Rule | Event::Html(_) => false,
            _ => true,
        };
        if !is_inline {
            runs.extend(run.take());
            match event {
                Event::Start(Tag::BlockQuote(_)) => quotes += 1,
                Event::End(TagEnd::BlockQuote(_)) => quotes = quotes.saturating_sub(1),
                Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock) => in_code = true,
                Event::End(TagEnd::CodeBlock | TagEnd::HtmlBlock) => in_code = false,
                _ => {}
            }
            continue;
        }
        if in_code {
            continue;
        }
        let run = run.get_or_insert_with(|| {
            // The text of an escaped character begins behind its backslash.
            let escaped = source[..range.start].ends_with('\\');
            let start = range.start - usize::from(escaped);
            InlineRun { range: start..start, skipped: Vec::new(), quotes }
        });
        run.range.end = run.range.end.max(range.end);
        match event {
            Event::Code(_) => run.skipped.push(SkippedRange { range, is_code: true }),
            Event::InlineHtml(_) | Event::Start(Tag::Link { .. } | Tag::Image { .. }) => {
                run.skipped.push(SkippedRange { range, is_code: false });
            }
            _ => {}
        }
    }
    runs.extend(run);
    runs
}

/// How a formula is delimited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FormulaDelimiter {
    Dollar,
    Dollars,
    /// `\(…\)`
    Parentheses,
    /// `\[…\]`
    Brackets,
}

impl FormulaDelimiter {
    /// The delimiter that `rest` begins with.
    fn at(rest: &str) -> Option<Self> {
        match rest.as_bytes() {
            [b'$', b'$', ..] => Some(Self::Dollars),
            [b'$', ..] => Some(Self::Dollar),
            [b'\\', b'(', ..] => Some(Self::Parentheses),
            [b'\\', b'[', ..] => Some(Self::Brackets),
            _ => None,
        }
    }

    fn opening(self) -> &'static str {
        match self {
            Self::Dollar => "$",
            Self::Dollars => "$$",
            Self::Parentheses => "\\(",
            Self::Brackets => "\\[",
        }
    }

    fn closing(self) -> &'static str {
        match self {
            Self::Dollar => "$",
            Self::Dollars => "$$",
            Self::Parentheses => "\\)",
            Self::Brackets => "\\]",
        }
    }

    fn kind(self) -> FormulaKind {
        match self {
            Self::Dollar | Self::Parentheses => FormulaKind::Inline,
            Self::Dollars | Self::Brackets => FormulaKind::Display,
        }
    }

    /// Whether `content` is a formula between `before` and `behind`.
    fn accepts(self, before: &str, content: &str, behind: &str) -> bool {
        if content.trim().is_empty() || reads_like_words(content) {
            return false;
        }
        match self {
            Self::Dollar => {
                !before.ends_with(char::is_alphanumeric)
                    && !content.starts_with(char::is_whitespace)
                    && !content.ends_with(char::is_whitespace)
                    && !behind.starts_with(char::is_alphanumeric)
            }
            // `\[x\] done` is a check box that was escaped.
            Self::Brackets => {
                let line = behind.lines().next().unwrap_or_default();
                content.contains(MATH_CHARACTERS)
                    || line.chars().all(|c| c.is_whitespace() || c.is_ascii_punctuation())
            }
            Self::Dollars | Self::Parentheses => true,
        }
    }

    /// Whether text that ends behind `content` is shown as it is until the formula ends.
    fn waits(self, before: &str, content: &str) -> bool {
        match self {
            // Most dollars are no formulas.
            Self::Dollar => {
                !before.ends_with(char::is_alphanumeric)
                    && !content.starts_with(|c: char| c.is_whitespace() || c.is_ascii_digit())
                    && content.contains(['\\', '_', '^'])
                    && !content.contains('\n')
            }
            Self::Dollars | Self::Parentheses | Self::Brackets => true,
        }
    }
}

const MATH_CHARACTERS: [char; 9] = ['\\', '^', '_', '=', '{', '}', '+', '<', '>'];

/// Whether text between dollars is prose, like `5 for one and 6` in `$5 for one and 6$`.
fn reads_like_words(content: &str) -> bool {
    if content.contains(MATH_CHARACTERS) {
        return false;
    }
    let longest = content
        .split(|c: char| !c.is_alphabetic())
        .map(|word| word.chars().count())
        .max()
        .unwrap_or_default();
    let begins_with_number = content.trim_start().starts_with(|c: char| c.is_ascii_digit());
    longest > 2 || (begins_with_number && longest > 1)
}

/// What comes of looking for the end of a formula.
enum FormulaEnd {
    /// Where the closing delimiter begins.
    Found(usize),
    /// The text ended first.
    Ended,
    Nothing,
}

impl InlineRun {
    fn find(&self, source: &str, may_grow: bool, found: &mut Vec<Formula>) {
        let mut at = self.range.start;
        let mut skipped = self.skipped.iter().peekable();
        while at < self.range.end {
            while skipped.next_if(|skip| skip.range.end <= at).is_some() {}
            if let Some(skip) = skipped.peek()
                && skip.range.start <= at
            {
                at = skip.range.end;
                continue;
            }
            let rest = &source[at..self.range.end];
            let Some(delimiter) = FormulaDelimiter::at(rest) else {
                let step = if rest.starts_with('\\') { 2 } else { 1 };
                at = (at + step..=self.range.end)
                    .find(|&next| source.is_char_boundary(next))
                    .unwrap_or(self.range.end);
                continue;
            };
            let start = at + delimiter.opening().len();
            let before = &source[self.range.start..at];
            at = match self.find_end(source, start, delimiter) {
                FormulaEnd::Found(end)
                    if delimiter.accepts(
                        before,
                        &source[start..end],
                        &source[end + delimiter.closing().len()..],
                    ) =>
                {
                    let behind = end + delimiter.closing().len();
                    let text = self.without_quotes(&source[start..end]);
                    found.push(Formula { range: at..behind, kind: delimiter.kind(), text });
                    behind
                }
                FormulaEnd::Ended
                    if may_grow && delimiter.waits(before, &source[start..self.range.end]) =>
                {
                    let text = self.without_quotes(&source[at..self.range.end]);
                    let range = at..self.range.end;
                    found.push(Formula { range, kind: FormulaKind::Unfinished, text });
                    return;
                }
                _ => start,
            };
        }
    }

    fn find_end(&self, source: &str, start: usize, delimiter: FormulaDelimiter) -> FormulaEnd {
        let bytes = source.as_bytes();
        let limit = self.range.end.min(start + MAX_LENGTH);
        let mut at = start;
        while at < limit {
            let closes = source.as_bytes()[at..limit].starts_with(delimiter.closing().as_bytes());
            match bytes[at] {
                _ if closes => return FormulaEnd::Found(at),
                b'$' | b'`' if delimiter == FormulaDelimiter::Dollar => return FormulaEnd::Nothing,
                b'`' if self.is_in_code(at) => return FormulaEnd::Nothing,
                b'\\' if bytes[at..limit].starts_with(delimiter.opening().as_bytes()) => {
                    return FormulaEnd::Nothing;
                }
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        if limit == self.range.end { FormulaEnd::Ended } else { FormulaEnd::Nothing }
    }

    fn is_in_code(&self, at: usize) -> bool {
        let next = self.skipped.partition_point(|skip| skip.range.end <= at);
        self.skipped.get(next).is_some_and(|skip| skip.is_code && skip.range.contains(&at))
    }

    /// Text without the markers of quotes at the start of its lines.
    fn without_quotes(&self, text: &str) -> String {
        let mut lines = text.split('\n');
        let mut out = lines.next().unwrap_or_default().to_owned();
        for mut line in lines {
            for _ in 0..self.quotes {
                line = line.trim_start().strip_prefix('>').unwrap_or(line);
            }
            out.push('\n');
            out.push_str(line);
        }
        out
    }
}

/// The source with one character in the place of each formula.
pub(super) fn without_formulas(source: &str, formulas: &[Formula]) -> String {
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    for formula in formulas {
        out.push_str(&source[at..formula.range.start]);
        out.push(PLACEHOLDER);
        at = formula.range.end;
    }
    out.push_str(&source[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::{FormulaKind, formulas};

    fn found(source: &str, closed: bool) -> Vec<(FormulaKind, String)> {
        let found = formulas(source, super::super::block::OPTIONS, closed);
        found.into_iter().map(|formula| (formula.kind, formula.text)).collect()
    }

    fn inline(text: &str) -> (FormulaKind, String) {
        (FormulaKind::Inline, text.to_owned())
    }

    fn display(text: &str) -> (FormulaKind, String) {
        (FormulaKind::Display, text.to_owned())
    }

    #[test]
    fn all_four_ways_to_write_a_formula_are_known() {
        assert_eq!(
            found("so $x^2$, \\(a_1\\) and $n$.", true),
            [inline("x^2"), inline("a_1"), inline("n")]
        );
        assert_eq!(
            found("$$\na = b\n$$\n\n\\[ c \\]", true),
            [display("\na = b\n"), display(" c ")]
        );
        assert_eq!(
            found("- $a$\n- **$b$**\n\n| $c$ | d |\n|---|---|\n| e | $f$ |", true),
            [inline("a"), inline("b"), inline("c"), inline("f")]
        );
        assert_eq!(found("> $$\n> a\n> = b\n> $$", true), [display("\n a\n = b\n ")]);
    }

    #[test]
    fn prices_variables_and_escaped_brackets_are_text() {
        for text in [
            "$5 and $6",
            "from $5 to $6, or 7$",
            "$5-$6",
            "$5/$6",
            "US$5 and A$6",
            "$5 for one and 10$ for two",
            "it costs 5$ and 6$",
            "$HOME/$USER and $PATH:$HOME",
            "$HOME/bin$",
            "kill $$ and $$",
            "see \\(note\\) and \\[link\\]",
            "- \\[x\\] done\n- \\[ \\] open",
            "\\\\(a\\\\)",
            "\\$x^2\\$",
            "`$x$` and `\\(y\\)`",
            "```\n$x$\n```",
            "    $$x$$",
            "[a $x$](https://b)",
            "$x\n\ny$",
            "$ x $",
            "$$$$",
        ] {
            assert_eq!(found(text, true), [], "{text}");
        }
    }

    #[test]
    fn a_formula_whose_end_has_not_arrived_is_shown_as_it_is() {
        let unfinished = |text: &str| (FormulaKind::Unfinished, text.to_owned());
        assert_eq!(found("so $a_1 * b_1 *", false), [unfinished("$a_1 * b_1 *")]);
        assert_eq!(found("so \\(a * b", false), [unfinished("\\(a * b")]);
        assert_eq!(found("$a$ $$\n\\frac{1}", false), [inline("a"), unfinished("$$\n\\frac{1}")]);
        assert_eq!(found("so $a_1 * b_1 *", true), []);
        assert_eq!(found("it is $5 and *more", false), []);
        assert_eq!(found("in $HOME and *more", false), []);
        assert_eq!(found("$a_1\n\nmore", false), []);
    }

    #[test]
    fn many_delimiters_cost_a_multiple_of_their_number() {
        for unit in ["$", "$a ", "\\(", "\\[", "$$ ", "\\\\(", "$`", "[$](", "<$"] {
            let mut cost = [0_u128; 2];
            for (cost, length) in cost.iter_mut().zip([20_000, 160_000]) {
                let text = unit.repeat(length / unit.len());
                let begun = cpu_time::ThreadTime::now();
                found(&text, false);
                *cost = begun.elapsed().as_micros().max(500);
            }
            assert!(cost[1] < 40 * cost[0], "{unit:?}: {cost:?} µs");
        }
    }
}
