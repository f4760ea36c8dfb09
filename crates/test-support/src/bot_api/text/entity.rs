//! The formatting entities of a text, and Telegram's rules for overlaps between them.
//!
//! Offsets and lengths count UTF-16 code units. Telegram does not reject entities that break the
//! nesting rules but drops them: nothing may be inside code, links and code never overlap, and a
//! quote is never inside a quote. Of the remaining entities it keeps the first hundred.

use std::cmp::Reverse;
use std::ops::Range;

use serde_json::{Value, json};

const MAX_ENTITIES: usize = 100;

/// A range of text with a style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotApiEntity {
    pub style: BotApiStyle,
    pub offset: usize,
    pub length: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BotApiStyle {
    Bold,
    Italic,
    Underline,
    Strikethrough,
    Spoiler,
    Code,
    /// A code block, with its language.
    Pre(Option<String>),
    Blockquote,
    ExpandableBlockquote,
    /// A link to this URL.
    TextLink(String),
    /// An emoji with this id.
    CustomEmoji(String),
    BotCommand,
    Mention,
}

impl BotApiStyle {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Bold => "bold",
            Self::Italic => "italic",
            Self::Underline => "underline",
            Self::Strikethrough => "strikethrough",
            Self::Spoiler => "spoiler",
            Self::Code => "code",
            Self::Pre(_) => "pre",
            Self::Blockquote => "blockquote",
            Self::ExpandableBlockquote => "expandable_blockquote",
            Self::TextLink(_) => "text_link",
            Self::CustomEmoji(_) => "custom_emoji",
            Self::BotCommand => "bot_command",
            Self::Mention => "mention",
        }
    }

    /// The style of an entity in JSON. `None` for a type that the double does not know.
    fn read(entity: &Value) -> Option<Self> {
        let text = |name: &str| entity[name].as_str().map(ToOwned::to_owned);
        Some(match entity["type"].as_str()? {
            "bold" => Self::Bold,
            "italic" => Self::Italic,
            "underline" => Self::Underline,
            "strikethrough" => Self::Strikethrough,
            "spoiler" => Self::Spoiler,
            "code" => Self::Code,
            "pre" => Self::Pre(text("language")),
            "blockquote" => Self::Blockquote,
            "expandable_blockquote" => Self::ExpandableBlockquote,
            "text_link" => Self::TextLink(text("url")?),
            "custom_emoji" => Self::CustomEmoji(text("custom_emoji_id")?),
            "bot_command" => Self::BotCommand,
            "mention" => Self::Mention,
            _ => return None,
        })
    }

    fn is_code(&self) -> bool {
        matches!(self, Self::Code | Self::Pre(_))
    }

    fn is_quote(&self) -> bool {
        matches!(self, Self::Blockquote | Self::ExpandableBlockquote)
    }

    /// Whether an entity of this style may be cut into several.
    fn is_divisible(&self) -> bool {
        use BotApiStyle::{Bold, Italic, Spoiler, Strikethrough, Underline};
        matches!(self, Bold | Italic | Underline | Strikethrough | Spoiler)
    }

    /// The order of two entities with the same range.
    fn rank(&self) -> u8 {
        match self {
            Self::Blockquote | Self::ExpandableBlockquote => 0,
            Self::Pre(_) => 10,
            Self::Code => 20,
            Self::TextLink(_) => 49,
            Self::BotCommand | Self::Mention => 50,
            Self::Bold => 90,
            Self::Italic => 91,
            Self::Underline => 92,
            Self::Strikethrough => 93,
            Self::Spoiler => 94,
            Self::CustomEmoji(_) => 99,
        }
    }
}

impl BotApiEntity {
    pub(crate) fn new(style: BotApiStyle, range: Range<usize>) -> Self {
        Self { style, offset: range.start, length: range.end.saturating_sub(range.start) }
    }

    pub(crate) fn read(entity: &Value) -> Option<Self> {
        let number = |name: &str| usize::try_from(entity[name].as_u64()?).ok();
        let style = BotApiStyle::read(entity)?;
        Some(Self { style, offset: number("offset")?, length: number("length")? })
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.length
    }

    pub(crate) fn json(&self) -> Value {
        let mut entity =
            json!({"type": self.style.name(), "offset": self.offset, "length": self.length});
        match &self.style {
            BotApiStyle::Pre(Some(language)) => entity["language"] = language.as_str().into(),
            BotApiStyle::TextLink(url) => entity["url"] = url.as_str().into(),
            BotApiStyle::CustomEmoji(id) => entity["custom_emoji_id"] = id.as_str().into(),
            _ => {}
        }
        entity
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (one, two) = (self.range(), other.range());
        one.start < two.end && two.start < one.end
    }

    fn contains(&self, other: &Self) -> bool {
        let (one, two) = (self.range(), other.range());
        one.start <= two.start && two.end <= one.end
    }
}

/// The entities that a message keeps, in order, and how many were dropped.
pub(crate) fn normalize(entities: Vec<BotApiEntity>) -> (Vec<BotApiEntity>, usize) {
    let (divisible, indivisible): (Vec<_>, Vec<_>) =
        entities.into_iter().partition(|entity| entity.style.is_divisible());
    let (quotes, others): (Vec<_>, Vec<_>) =
        indivisible.into_iter().partition(|entity| entity.style.is_quote());
    let mut dropped = 0;
    let quotes = without_overlaps(quotes, &mut dropped);
    let mut kept = without_overlaps(others, &mut dropped);
    let before = kept.len();
    kept.retain(|entity| quotes.iter().all(|it| !it.overlaps(entity) || it.contains(entity)));
    dropped += before - kept.len();

    let code: Vec<BotApiEntity> = kept.iter().filter(|it| it.style.is_code()).cloned().collect();
    kept.extend(quotes);
    let mut parts: Vec<BotApiEntity> = Vec::new();
    for entity in sorted(divisible) {
        let outside = outside_of(&entity, &code);
        if outside.is_empty() {
            dropped += 1;
        }
        for part in outside {
            // A style inside the same style changes nothing.
            if !parts.iter().any(|it| it.style == part.style && it.contains(&part)) {
                parts.push(part);
            }
        }
    }
    kept.extend(parts);
    let mut kept = sorted(kept);
    dropped += kept.len().saturating_sub(MAX_ENTITIES);
    kept.truncate(MAX_ENTITIES);
    (kept, dropped)
}

fn sorted(mut entities: Vec<BotApiEntity>) -> Vec<BotApiEntity> {
    entities.sort_by_key(|it| (it.offset, Reverse(it.length), it.style.rank()));
    entities
}

/// The entities that do not overlap an earlier one.
fn without_overlaps(entities: Vec<BotApiEntity>, dropped: &mut usize) -> Vec<BotApiEntity> {
    let mut kept: Vec<BotApiEntity> = Vec::new();
    for entity in sorted(entities) {
        if kept.iter().any(|it| it.overlaps(&entity)) {
            *dropped += 1;
        } else {
            kept.push(entity);
        }
    }
    kept
}

/// The parts of an entity that are outside of all code.
fn outside_of(entity: &BotApiEntity, code: &[BotApiEntity]) -> Vec<BotApiEntity> {
    let mut parts = Vec::new();
    let Range { mut start, end } = entity.range();
    for block in code.iter().filter(|it| it.overlaps(entity)) {
        if start < block.offset {
            parts.push(BotApiEntity::new(entity.style.clone(), start..block.offset));
        }
        start = start.max(block.range().end);
    }
    if start < end {
        parts.push(BotApiEntity::new(entity.style.clone(), start..end));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::html::to_html;
    use super::{BotApiEntity, BotApiStyle, normalize};

    #[test]
    fn overlaps_that_are_not_allowed_are_dropped_and_counted() {
        let link = || BotApiStyle::TextLink("https://a.example/".to_owned());
        let cases = [
            // Bold around code is cut at the code.
            (
                vec![(BotApiStyle::Bold, 0..9), (BotApiStyle::Code, 3..6)],
                "<b>abc</b><code>def</code><b>ghi</b>",
                0,
            ),
            (
                vec![(BotApiStyle::Bold, 3..6), (BotApiStyle::Code, 3..6)],
                "abc<code>def</code>ghi",
                1,
            ),
            // A link around code wins; with the same range the code wins.
            (
                vec![(link(), 0..9), (BotApiStyle::Code, 3..6)],
                "<a href=\"https://a.example/\">abcdefghi</a>",
                1,
            ),
            (vec![(link(), 0..9), (BotApiStyle::Code, 0..9)], "<code>abcdefghi</code>", 1),
            (
                vec![(BotApiStyle::Blockquote, 0..9), (BotApiStyle::Blockquote, 3..6)],
                "<blockquote>abcdefghi</blockquote>",
                1,
            ),
            (
                vec![(BotApiStyle::Blockquote, 0..6), (BotApiStyle::Code, 3..6)],
                "<blockquote>abc<code>def</code></blockquote>ghi",
                0,
            ),
            (
                vec![(BotApiStyle::Bold, 0..6), (BotApiStyle::Italic, 3..6)],
                "<b>abc<i>def</i></b>ghi",
                0,
            ),
            (vec![(BotApiStyle::Bold, 0..6), (BotApiStyle::Bold, 3..6)], "<b>abcdef</b>ghi", 0),
        ];
        for (entities, html, dropped) in cases {
            let entities =
                entities.into_iter().map(|(style, range)| BotApiEntity::new(style, range));
            let (kept, count) = normalize(entities.collect());
            assert_eq!((to_html("abcdefghi", &kept).as_str(), count), (html, dropped));
        }
    }

    #[test]
    fn only_the_first_hundred_entities_are_kept() {
        let entities = (0..130).map(|at| BotApiEntity::new(BotApiStyle::Bold, at * 2..at * 2 + 1));
        let (kept, dropped) = normalize(entities.collect());
        assert_eq!((kept.len(), dropped), (100, 30));
        assert_eq!(kept.last().map(|it| it.offset), Some(198));
    }
}
