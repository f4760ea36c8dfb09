//! Formatted text, measured and cleaned up as Telegram does it.

mod entity;
mod html;

use super::call::{BotApiError, BotApiParams};

pub use entity::{BotApiEntity, BotApiStyle};
pub(crate) use html::to_html;

/// A text with its formatting. Whitespace around it and invalid entities are already removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BotApiText {
    pub(crate) text: String,
    pub(crate) entities: Vec<BotApiEntity>,
    /// How many of the given entities were dropped.
    pub(crate) dropped_entities: usize,
}

impl BotApiText {
    /// The text in the parameter `name`, formatted by `parse_mode` or by the entities in the
    /// parameter `entities`.
    pub(crate) fn read(
        params: &BotApiParams,
        name: &str,
        entities: &str,
    ) -> Result<Self, BotApiError> {
        let text = params.text(name);
        let mode = params.text("parse_mode");
        let (text, entities) = match mode.to_ascii_lowercase().as_str() {
            "" => {
                let entities = params.json(entities)?.unwrap_or_default();
                let entities = entities.as_array().map(Vec::as_slice).unwrap_or_default();
                (clean(&text), entities.iter().filter_map(BotApiEntity::read).collect())
            }
            "html" => html::parse(&text).map_err(|error| {
                BotApiError::bad_request(format!("can't parse entities: {error}"))
            })?,
            _ => return Err(BotApiError::bad_request("unsupported parse_mode")),
        };
        Ok(Self::new(&text, entities))
    }

    /// A user's text, with the entities that Telegram detects in it.
    pub(crate) fn from_user(text: &str) -> Self {
        let text = clean(text);
        let entities = detect(&text);
        Self::new(&text, entities)
    }

    fn new(text: &str, entities: Vec<BotApiEntity>) -> Self {
        let (text, entities) = trim(text, entities);
        let (entities, dropped_entities) = entity::normalize(entities);
        Self { text, entities, dropped_entities }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn utf16_length(&self) -> usize {
        utf16_length(&self.text)
    }
}

/// The length in UTF-16 code units, in which Telegram counts every limit and offset.
pub(crate) fn utf16_length(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

fn clean(text: &str) -> String {
    let replace = |it: char| if it.is_ascii_control() && it != '\n' { ' ' } else { it };
    text.chars().filter(|it| *it != '\r').map(replace).collect()
}

/// Removes whitespace at the end, and at the start up to the first entity.
fn trim(text: &str, entities: Vec<BotApiEntity>) -> (String, Vec<BotApiEntity>) {
    let is_blank = |it: char| it == ' ' || it == '\n';
    let first = entities.iter().map(|it| it.offset).min().unwrap_or(usize::MAX);
    let leading = text.chars().take_while(|it| is_blank(*it)).count().min(first);
    let text = text[leading..].trim_end_matches(is_blank).to_owned();
    let length = utf16_length(&text);
    let shifted = entities.into_iter().filter_map(|it| {
        let start = it.offset - leading;
        let end = (it.range().end - leading).min(length);
        (start < end).then(|| BotApiEntity::new(it.style, start..end))
    });
    let shifted = shifted.collect();
    (text, shifted)
}

/// Commands and mentions, which every client shows as links.
fn detect(text: &str) -> Vec<BotApiEntity> {
    let mut entities = Vec::new();
    let mut at = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let is_name = |it: &&char| it.is_ascii_alphanumeric() || **it == '_' || **it == '@';
        let characters: Vec<char> = word.chars().collect();
        let length = characters.iter().skip(1).take_while(is_name).count();
        let style = match characters.first() {
            Some('/') if (1..=64).contains(&length) => Some(BotApiStyle::BotCommand),
            Some('@') if (4..=32).contains(&length) => Some(BotApiStyle::Mention),
            _ => None,
        };
        entities.extend(style.map(|style| BotApiEntity::new(style, at..at + 1 + length)));
        at += utf16_length(word);
    }
    entities
}

#[cfg(test)]
mod tests {
    use super::{BotApiEntity, BotApiStyle, BotApiText};

    #[test]
    fn commands_and_mentions_of_users_are_detected() {
        let text = BotApiText::from_user("  /new@towpath_bot dir 🦀 @somebody a/b /");
        let entities: Vec<_> = text.entities.iter().map(|it| (&it.style, it.range())).collect();
        let expected = [(&BotApiStyle::BotCommand, 0..16), (&BotApiStyle::Mention, 24..33)];
        assert_eq!(entities, expected);
        assert_eq!(text.utf16_length(), text.text.encode_utf16().count());
    }

    #[test]
    fn surrounding_whitespace_is_removed_and_entities_are_shifted() {
        let text = BotApiText::new("  \n a b \n", vec![BotApiEntity::new(BotApiStyle::Bold, 4..9)]);
        assert_eq!(text.text, "a b");
        assert_eq!(text.entities, [BotApiEntity::new(BotApiStyle::Bold, 0..3)]);
    }
}
