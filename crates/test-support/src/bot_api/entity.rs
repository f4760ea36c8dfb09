//! Formatting of a text: which stretch of it looks how, and which stretches may lie in each other.
//!
//! Offsets and lengths count UTF-16 units, as Telegram's do. What breaks the rules of nesting is
//! not refused but dropped, as Telegram drops it: nothing lies inside code, links and code never
//! overlap, quotes never lie in quotes. Of the rest the first hundred stay.

use std::cmp::Reverse;
use std::ops::Range;

use serde_json::{Value, json};

/// The most entities a message keeps.
const MOST: usize = 100;

/// A stretch of text that looks different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// How it looks.
    pub style: Style,
    /// Where it begins.
    pub offset: usize,
    /// How long it is.
    pub length: usize,
}

/// How a stretch of text looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Style {
    /// Bold.
    Bold,
    /// Italic.
    Italic,
    /// Underlined.
    Underline,
    /// Struck through.
    Strikethrough,
    /// Hidden until tapped.
    Spoiler,
    /// Code within a line.
    Code,
    /// A block of code, with its language.
    Pre(Option<String>),
    /// A quote.
    Blockquote,
    /// A quote that is folded up.
    ExpandableBlockquote,
    /// Text behind which lies an address.
    TextLink(String),
    /// An emoji that somebody made.
    CustomEmoji(String),
    /// `/command`
    BotCommand,
    /// `@name`
    Mention,
}

impl Style {
    pub(super) fn name(&self) -> &'static str {
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

    /// The style of an entity that the bot sent as JSON; none where nothing here knows it.
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

    /// Whether it can be cut in two without harm.
    fn can_be_split(&self) -> bool {
        use Style::{Bold, Italic, Spoiler, Strikethrough, Underline};
        matches!(self, Bold | Italic | Underline | Strikethrough | Spoiler)
    }

    /// Which comes first of two entities over the same stretch.
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

impl Entity {
    pub(super) fn new(style: Style, range: Range<usize>) -> Self {
        Self { style, offset: range.start, length: range.end.saturating_sub(range.start) }
    }

    /// An entity that the bot sent as JSON.
    pub(super) fn read(entity: &Value) -> Option<Self> {
        let number = |name: &str| usize::try_from(entity[name].as_u64()?).ok();
        let style = Style::read(entity)?;
        Some(Self { style, offset: number("offset")?, length: number("length")? })
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.length
    }

    pub(super) fn json(&self) -> Value {
        let mut entity =
            json!({"type": self.style.name(), "offset": self.offset, "length": self.length});
        match &self.style {
            Style::Pre(Some(language)) => entity["language"] = language.as_str().into(),
            Style::TextLink(url) => entity["url"] = url.as_str().into(),
            Style::CustomEmoji(id) => entity["custom_emoji_id"] = id.as_str().into(),
            _ => {}
        }
        entity
    }

    fn touches(&self, other: &Self) -> bool {
        let (one, two) = (self.range(), other.range());
        one.start < two.end && two.start < one.end
    }

    fn holds(&self, other: &Self) -> bool {
        let (one, two) = (self.range(), other.range());
        one.start <= two.start && two.end <= one.end
    }
}

/// The entities that a message keeps, in order, and how many it lost.
pub(super) fn settle(entities: Vec<Entity>) -> (Vec<Entity>, usize) {
    let (split, whole): (Vec<_>, Vec<_>) =
        entities.into_iter().partition(|entity| entity.style.can_be_split());
    let (quotes, solid): (Vec<_>, Vec<_>) =
        whole.into_iter().partition(|entity| entity.style.is_quote());
    let mut lost = 0;
    let quotes = apart(quotes, &mut lost);
    let mut kept = apart(solid, &mut lost);
    let before = kept.len();
    kept.retain(|entity| quotes.iter().all(|it| !it.touches(entity) || it.holds(entity)));
    lost += before - kept.len();

    let code: Vec<Entity> = kept.iter().filter(|it| it.style.is_code()).cloned().collect();
    kept.extend(quotes);
    let mut pieces: Vec<Entity> = Vec::new();
    for entity in sorted(split) {
        let outside = without(&entity, &code);
        if outside.is_empty() {
            lost += 1;
        }
        for piece in outside {
            // Bold within bold is bold.
            if !pieces.iter().any(|it| it.style == piece.style && it.holds(&piece)) {
                pieces.push(piece);
            }
        }
    }
    kept.extend(pieces);
    let mut kept = sorted(kept);
    lost += kept.len().saturating_sub(MOST);
    kept.truncate(MOST);
    (kept, lost)
}

fn sorted(mut entities: Vec<Entity>) -> Vec<Entity> {
    entities.sort_by_key(|it| (it.offset, Reverse(it.length), it.style.rank()));
    entities
}

/// The entities that overlap with none before them.
fn apart(entities: Vec<Entity>, lost: &mut usize) -> Vec<Entity> {
    let mut kept: Vec<Entity> = Vec::new();
    for entity in sorted(entities) {
        if kept.iter().any(|it| it.touches(&entity)) {
            *lost += 1;
        } else {
            kept.push(entity);
        }
    }
    kept
}

/// What of an entity lies outside of all code.
fn without(entity: &Entity, code: &[Entity]) -> Vec<Entity> {
    let mut pieces = Vec::new();
    let Range { mut start, end } = entity.range();
    for hole in code.iter().filter(|it| it.touches(entity)) {
        if start < hole.offset {
            pieces.push(Entity::new(entity.style.clone(), start..hole.offset));
        }
        start = start.max(hole.range().end);
    }
    if start < end {
        pieces.push(Entity::new(entity.style.clone(), start..end));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::super::render::as_html;
    use super::{Entity, Style, settle};

    #[test]
    fn what_may_not_lie_in_each_other_is_dropped_and_counted() {
        let link = || Style::TextLink("https://a.example/".to_owned());
        let cases = [
            // Bold around code is cut where the code is.
            (
                vec![(Style::Bold, 0..9), (Style::Code, 3..6)],
                "<b>abc</b><code>def</code><b>ghi</b>",
                0,
            ),
            (vec![(Style::Bold, 3..6), (Style::Code, 3..6)], "abc<code>def</code>ghi", 1),
            // A link around code keeps the link; over the same stretch the code wins.
            (
                vec![(link(), 0..9), (Style::Code, 3..6)],
                "<a href=\"https://a.example/\">abcdefghi</a>",
                1,
            ),
            (vec![(link(), 0..9), (Style::Code, 0..9)], "<code>abcdefghi</code>", 1),
            (
                vec![(Style::Blockquote, 0..9), (Style::Blockquote, 3..6)],
                "<blockquote>abcdefghi</blockquote>",
                1,
            ),
            (
                vec![(Style::Blockquote, 0..6), (Style::Code, 3..6)],
                "<blockquote>abc<code>def</code></blockquote>ghi",
                0,
            ),
            (vec![(Style::Bold, 0..6), (Style::Italic, 3..6)], "<b>abc<i>def</i></b>ghi", 0),
            (vec![(Style::Bold, 0..6), (Style::Bold, 3..6)], "<b>abcdef</b>ghi", 0),
        ];
        for (entities, html, lost) in cases {
            let entities = entities.into_iter().map(|(style, range)| Entity::new(style, range));
            let (kept, dropped) = settle(entities.collect());
            assert_eq!((as_html("abcdefghi", &kept).as_str(), dropped), (html, lost));
        }
    }

    #[test]
    fn only_the_first_hundred_entities_stay() {
        let entities = (0..130).map(|at| Entity::new(Style::Bold, at * 2..at * 2 + 1));
        let (kept, lost) = settle(entities.collect());
        assert_eq!((kept.len(), lost), (100, 30));
        assert_eq!(kept.last().map(|it| it.offset), Some(198));
    }
}
