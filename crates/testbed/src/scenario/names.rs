//! What `$names` stand for.

use std::collections::BTreeMap;

use serde_json::Value;

/// Names and the texts they stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Names(BTreeMap<String, String>);

/// A stretch of a text.
pub(super) enum Piece<'a> {
    /// As it stands.
    Text(&'a str),
    /// `$name`, without the sign.
    Name(&'a str),
}

impl Names {
    /// What a name stands for.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Lets a name stand for a text.
    pub fn set(&mut self, name: &str, text: impl Into<String>) {
        self.0.insert(name.to_owned(), text.into());
    }

    /// The names and what they stand for.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// A text with the known names filled in; others stay, for a shell has `$names` too.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Name(name) => match self.get(name) {
                    Some(text) => filled.push_str(text),
                    None => filled.extend(["$", name]),
                },
            }
        }
        filled
    }

    /// A value with the known names filled in, in every string and key of it.
    pub fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, value)| (self.fill(key), self.fill_value(value)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }
}

/// Whether a word can be a name: small letters, digits and `_`, a letter first.
pub(super) fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_lowercase()) && word.chars().all(continues_name)
}

fn continues_name(character: char) -> bool {
    matches!(character, 'a'..='z' | '0'..='9' | '_')
}

/// A text as names and what stands between them.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some(behind) = rest.strip_prefix('$') {
            let end = behind.find(|it| !continues_name(it)).unwrap_or(behind.len());
            if is_name(&behind[..end]) {
                rest = &behind[end..];
                return Some(Piece::Name(&behind[..end]));
            }
        }
        // The first character is text even if it is a `$`: it begins no name.
        let end = rest.char_indices().skip(1).find(|(_, it)| *it == '$');
        let end = end.map_or(rest.len(), |(place, _)| place);
        let (text, behind) = rest.split_at(end);
        rest = behind;
        Some(Piece::Text(text))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Names;

    #[test]
    fn known_names_are_filled_in_and_others_stay() {
        let mut names = Names::default();
        names.set("cwd", "/p");
        names.set("session", "s1");
        let table = [
            ("$cwd/notes.txt", "/p/notes.txt"),
            ("…$session…", "…s1…"),
            ("$cwd$session", "/ps1"),
            ("echo $HOME $x $1 $", "echo $HOME $x $1 $"),
            ("$cwdir $$cwd", "$cwdir $/p"),
            ("é$cwd", "é/p"),
        ];
        for (text, expected) in table {
            assert_eq!(names.fill(text), expected, "{text}");
        }
        let value = json!({"$session": ["$cwd", 1, null]});
        assert_eq!(names.fill_value(&value), json!({"s1": ["/p", 1, null]}));
    }
}
