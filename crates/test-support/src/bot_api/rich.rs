//! A text with its formatting, measured as Telegram measures it.

use super::entity::{Entity, Style, settle};
use super::html;
use super::params::Params;
use super::refusal::Refusal;

/// A formatted text, already trimmed and settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rich {
    pub(super) text: String,
    pub(super) entities: Vec<Entity>,
    /// Entities that were given and not kept.
    pub(super) lost: usize,
}

impl Rich {
    /// The text that a call gives under this name, read by its `parse_mode`.
    pub(super) fn read(params: &Params, name: &str, entities: &str) -> Result<Self, Refusal> {
        let text = params.text(name);
        let mode = params.text("parse_mode");
        let (text, given) = match mode.to_ascii_lowercase().as_str() {
            "" => {
                let given = params.json(entities)?.unwrap_or_default();
                let given = given.as_array().map(Vec::as_slice).unwrap_or_default();
                (clean(&text), given.iter().filter_map(Entity::read).collect())
            }
            "html" => html::parse(&text)
                .map_err(|why| Refusal::bad(format!("can't parse entities: {why}")))?,
            _ => return Err(Refusal::bad("unsupported parse_mode")),
        };
        Ok(Self::settled(&text, given))
    }

    /// What a person wrote, with what Telegram itself finds in it.
    pub(super) fn plain(text: &str) -> Self {
        let text = clean(text);
        let found = detect(&text);
        Self::settled(&text, found)
    }

    fn settled(text: &str, given: Vec<Entity>) -> Self {
        let (text, given) = trim(text, given);
        let (entities, lost) = settle(given);
        Self { text, entities, lost }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Its length, as every limit counts it.
    pub(super) fn units(&self) -> usize {
        units(&self.text)
    }
}

pub(super) fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

fn clean(text: &str) -> String {
    let shown = |it: char| if it.is_ascii_control() && it != '\n' { ' ' } else { it };
    text.chars().filter(|it| *it != '\r').map(shown).collect()
}

/// Space goes at the end, and at the beginning up to the first entity.
fn trim(text: &str, entities: Vec<Entity>) -> (String, Vec<Entity>) {
    let blank = |it: char| it == ' ' || it == '\n';
    let first = entities.iter().map(|it| it.offset).min().unwrap_or(usize::MAX);
    let leading = text.chars().take_while(|it| blank(*it)).count().min(first);
    let text = text[leading..].trim_end_matches(blank).to_owned();
    let end = units(&text);
    let moved = entities.into_iter().filter_map(|it| {
        let start = it.offset - leading;
        let stop = (it.range().end - leading).min(end);
        (start < stop).then(|| Entity::new(it.style, start..stop))
    });
    let moved = moved.collect();
    (text, moved)
}

/// Commands and mentions, which every client shows as links.
fn detect(text: &str) -> Vec<Entity> {
    let mut found = Vec::new();
    let mut at = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let name = |it: &&char| it.is_ascii_alphanumeric() || **it == '_' || **it == '@';
        let characters: Vec<char> = word.chars().collect();
        let length = characters.iter().skip(1).take_while(name).count();
        let style = match characters.first() {
            Some('/') if (1..=64).contains(&length) => Some(Style::BotCommand),
            Some('@') if (4..=32).contains(&length) => Some(Style::Mention),
            _ => None,
        };
        found.extend(style.map(|style| Entity::new(style, at..at + 1 + length)));
        at += units(word);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Entity, Rich, Style};

    #[test]
    fn commands_and_mentions_of_people_are_found() {
        let rich = Rich::plain("  /new@towpath_bot dir 🦀 @somebody a/b /");
        let kinds: Vec<_> = rich.entities.iter().map(|it| (&it.style, it.range())).collect();
        assert_eq!(kinds, [(&Style::BotCommand, 0..16), (&Style::Mention, 24..33)]);
        assert_eq!(rich.units(), rich.text.encode_utf16().count());
    }

    #[test]
    fn space_around_a_text_is_gone_and_entities_follow() {
        let rich = Rich::settled("  \n a b \n", vec![Entity::new(Style::Bold, 4..9)]);
        assert_eq!(rich.text, "a b");
        assert_eq!(rich.entities, [Entity::new(Style::Bold, 0..3)]);
    }
}
