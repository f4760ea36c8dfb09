//! Formulas as plain text, for terminals and chats.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pulldown_latex::event::{Content, Event, Font, Grouping, ScriptType, StateChange, Visual};
use pulldown_latex::{Parser, Storage};

/// Longer formulas, and those with more parts, are shown as they were written.
const MAX_LENGTH: usize = 4096;
const MAX_EVENTS: usize = 4096;
const MAX_DEPTH: usize = 40;

/// The events of a formula; none if it is wrong, too large or nests too deep.
///
/// Definitions are refused: a macro that calls itself twice doubles the text with every step.
pub(crate) fn formula_events<'s>(latex: &'s str, storage: &'s Storage) -> Option<Vec<Event<'s>>> {
    const DEFINITIONS: [&str; 9] = [
        "\\def",
        "\\edef",
        "\\gdef",
        "\\xdef",
        "\\let",
        "\\futurelet",
        "\\newcommand",
        "\\renewcommand",
        "\\providecommand",
    ];
    if latex.len() > MAX_LENGTH || nesting(latex) > MAX_DEPTH {
        return None;
    }
    if DEFINITIONS.iter().any(|name| latex.contains(name)) {
        return None;
    }
    // These cut text at bytes that may be inside a character.
    if latex.contains("\\char") || (latex.contains("color") && !latex.is_ascii()) {
        return None;
    }
    without_panics(|| {
        let mut events = Vec::new();
        for event in Parser::new(latex, storage).take(MAX_EVENTS + 1) {
            events.push(event.ok()?);
        }
        (events.len() <= MAX_EVENTS).then_some(events)
    })
}

/// Runs a part of the converter. A formula on which it panics is shown as it was written: text of an
/// agent must not end the program that shows it.
pub(crate) fn without_panics<T>(run: impl FnOnce() -> Option<T>) -> Option<T> {
    // What was being made is dropped, so it is never seen half done.
    catch_unwind(AssertUnwindSafe(run)).ok().flatten()
}

/// How deep groups may nest, at most.
fn nesting(latex: &str) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0_usize;
    for byte in latex.bytes() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    let names = ["\\begin", "\\left", "\\sqrt", "\\frac", "\\cfrac"];
    let commands = names.iter().map(|name| latex.matches(name).count()).max().unwrap_or_default();
    // Commands nest only if they have no groups of their own, so most of them are side by side.
    deepest.max(commands / 4)
}

/// A formula in Unicode: `x²`, `(a + b)/2`, `∑ᵢ`. None if it has no sensible form on one line.
pub(crate) fn formula_text(latex: &str) -> Option<String> {
    let storage = Storage::new();
    let events = formula_events(latex, &storage)?;
    let mut reader = TextReader { events: events.into_iter(), depth: 0 };
    let mut out = String::new();
    while let Some(part) = reader.element()? {
        out.push_str(&part);
    }
    let words: Vec<_> = out.split_whitespace().collect();
    Some(words.join(" "))
}

struct TextReader<'s> {
    events: std::vec::IntoIter<Event<'s>>,
    depth: usize,
}

impl TextReader<'_> {
    /// The next element; `Some(None)` at the end of a group, none if it cannot be written.
    #[expect(clippy::option_option, reason = "the end of a group is no failure")]
    fn element(&mut self) -> Option<Option<String>> {
        self.depth += 1;
        if self.depth > 4 * MAX_DEPTH {
            return None;
        }
        let element = self.next_element();
        self.depth -= 1;
        element
    }

    #[expect(clippy::option_option, reason = "the end of a group is no failure")]
    fn next_element(&mut self) -> Option<Option<String>> {
        loop {
            let Some(event) = self.events.next() else { return Some(None) };
            let text = match event {
                Event::Content(content) => content_text(content),
                Event::Begin(grouping) => self.group(&grouping)?,
                Event::End => return Some(None),
                Event::Visual(visual) => self.visual(visual)?,
                Event::Script { ty, .. } => self.script(ty)?,
                Event::Space { .. } => " ".to_owned(),
                Event::StateChange(_) => continue,
                Event::EnvironmentFlow(_) => return None,
            };
            return Some(Some(text));
        }
    }

    fn operand(&mut self) -> Option<String> {
        self.element()?
    }

    fn group(&mut self, grouping: &Grouping) -> Option<String> {
        let (opening, closing) = match grouping {
            Grouping::Normal => (None, None),
            Grouping::LeftRight(opening, closing) => (*opening, *closing),
            _ => return None,
        };
        let double_struck = matches!(
            self.events.as_slice().first(),
            Some(Event::StateChange(StateChange::Font(Some(Font::DoubleStruck))))
        );
        let mut out = String::from_iter(opening);
        while let Some(part) = self.element()? {
            out.push_str(&part);
        }
        out.extend(closing);
        Some(if double_struck { out.chars().map(double_struck_letter).collect() } else { out })
    }

    fn visual(&mut self, visual: Visual) -> Option<String> {
        let first = self.operand()?;
        Some(match visual {
            Visual::SquareRoot => format!("√{}", grouped(&first)),
            Visual::Root => {
                format!("{}√{}", raised(&self.operand()?, SUPERSCRIPTS)?, grouped(&first))
            }
            Visual::Fraction(Some(_)) => return None,
            Visual::Fraction(None) => format!("{}/{}", grouped(&first), grouped(&self.operand()?)),
            Visual::Negation => format!("{first}\u{338}"),
        })
    }

    fn script(&mut self, ty: ScriptType) -> Option<String> {
        let mut out = self.operand()?;
        if matches!(ty, ScriptType::Subscript | ScriptType::SubSuperscript) {
            add_script(&mut out, '_', &self.operand()?, SUBSCRIPTS);
        }
        if matches!(ty, ScriptType::Superscript | ScriptType::SubSuperscript) {
            add_script(&mut out, '^', &self.operand()?, SUPERSCRIPTS);
        }
        Some(out)
    }
}

fn content_text(content: Content<'_>) -> String {
    match content {
        Content::Text(text) | Content::Number(text) => text.to_owned(),
        Content::Function(name) => format!(" {name} "),
        Content::Ordinary { content, .. } | Content::Delimiter { content, .. } => {
            content.to_string()
        }
        Content::LargeOp { content, .. } => content.to_string(),
        Content::BinaryOp { content, .. } => format!(" {content} "),
        Content::Relation { content, .. } => {
            let mut bytes = [0; 8];
            format!(" {} ", String::from_utf8_lossy(content.encode_utf8_to_buf(&mut bytes)))
        }
        Content::Punctuation(content) => format!("{content} "),
    }
}

fn add_script(out: &mut String, sign: char, script: &str, letters: &[(char, char)]) {
    match raised(script, letters) {
        Some(script) => out.push_str(&script),
        None => {
            let _ = write!(out, "{sign}{}", grouped(script));
        }
    }
}

/// In parentheses, unless it is one letter or a number.
fn grouped(text: &str) -> String {
    let text = text.trim();
    if text.chars().count() <= 1 || text.chars().all(|c| c.is_ascii_digit()) {
        text.to_owned()
    } else {
        format!("({text})")
    }
}

fn raised(text: &str, letters: &[(char, char)]) -> Option<String> {
    text.chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| letters.iter().find(|(from, _)| *from == c).map(|(_, to)| *to))
        .collect()
}

fn double_struck_letter(letter: char) -> char {
    match letter {
        'C' => 'ℂ',
        'H' => 'ℍ',
        'N' => 'ℕ',
        'P' => 'ℙ',
        'Q' => 'ℚ',
        'R' => 'ℝ',
        'Z' => 'ℤ',
        'E' => '𝔼',
        other => other,
    }
}

const SUPERSCRIPTS: &[(char, char)] = &[
    ('0', '⁰'),
    ('1', '¹'),
    ('2', '²'),
    ('3', '³'),
    ('4', '⁴'),
    ('5', '⁵'),
    ('6', '⁶'),
    ('7', '⁷'),
    ('8', '⁸'),
    ('9', '⁹'),
    ('+', '⁺'),
    ('-', '⁻'),
    ('−', '⁻'),
    ('=', '⁼'),
    ('(', '⁽'),
    (')', '⁾'),
    ('i', 'ⁱ'),
    ('n', 'ⁿ'),
    ('k', 'ᵏ'),
    ('m', 'ᵐ'),
    ('T', 'ᵀ'),
    ('x', 'ˣ'),
    ('′', '′'),
    ('∘', '°'),
];

const SUBSCRIPTS: &[(char, char)] = &[
    ('0', '₀'),
    ('1', '₁'),
    ('2', '₂'),
    ('3', '₃'),
    ('4', '₄'),
    ('5', '₅'),
    ('6', '₆'),
    ('7', '₇'),
    ('8', '₈'),
    ('9', '₉'),
    ('+', '₊'),
    ('-', '₋'),
    ('−', '₋'),
    ('=', '₌'),
    ('(', '₍'),
    (')', '₎'),
    ('a', 'ₐ'),
    ('e', 'ₑ'),
    ('i', 'ᵢ'),
    ('j', 'ⱼ'),
    ('k', 'ₖ'),
    ('m', 'ₘ'),
    ('n', 'ₙ'),
    ('x', 'ₓ'),
];

#[cfg(test)]
mod tests {
    use super::formula_text;

    #[test]
    fn formulas_are_unicode_where_it_has_the_signs() {
        for (latex, text) in [
            ("x^2 + y_1", "x² + y₁"),
            ("E = mc^2", "E = mc²"),
            ("\\frac{a + b}{2}", "(a + b)/2"),
            ("\\sqrt{x}", "√x"),
            ("\\sum_{i=1}^{n} i", "∑ᵢ₌₁ⁿi"),
            ("x \\in \\mathbb{R}", "x ∈ ℝ"),
            ("\\alpha \\le \\beta", "α ≤ β"),
            ("O(n \\log n)", "O(n log n)"),
            ("e^{i\\pi}", "e^(iπ)"),
        ] {
            assert_eq!(formula_text(latex).as_deref(), Some(text), "{latex}");
        }
    }

    #[test]
    fn what_has_no_form_on_one_line_is_left_as_it_was_written() {
        for latex in [
            "\\begin{matrix} a & b \\\\ c & d \\end{matrix}",
            "\\frac{a",
            "\\unknown{x}",
            "\\def\\a{\\a}\\a",
        ] {
            assert_eq!(formula_text(latex), None, "{latex}");
        }
    }
}
