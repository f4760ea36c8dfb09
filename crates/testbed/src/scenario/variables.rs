//! The `$variables` of a scenario and their values.

use std::collections::BTreeMap;

use serde_json::Value;

/// Variables by name, without the `$`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScenarioVariables(BTreeMap<String, String>);

/// A part of a text: literal, or a reference to a variable.
pub(super) enum ScenarioTextPart<'a> {
    Literal(&'a str),
    /// `$name`, without the `$`.
    Variable(&'a str),
}

impl ScenarioVariables {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Replaces the known variables in a text. Unknown ones stay, since a shell command may contain
    /// `$names` of its own.
    pub fn expand(&self, text: &str) -> String {
        let mut expanded = String::with_capacity(text.len());
        for part in text_parts(text) {
            match part {
                ScenarioTextPart::Literal(text) => expanded.push_str(text),
                ScenarioTextPart::Variable(name) => match self.get(name) {
                    Some(value) => expanded.push_str(value),
                    None => expanded.extend(["$", name]),
                },
            }
        }
        expanded
    }

    /// Replaces the known variables in every string and key of a JSON value.
    pub fn expand_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.expand(text)),
            Value::Array(items) => items.iter().map(|item| self.expand_value(item)).collect(),
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, value)| (self.expand(key), self.expand_value(value)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }
}

/// Whether a word is a valid name: lower-case letters, digits and `_`, starting with a letter.
pub(super) fn is_variable_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_lowercase()) && word.chars().all(continues_name)
}

fn continues_name(character: char) -> bool {
    matches!(character, 'a'..='z' | '0'..='9' | '_')
}

/// Splits a text into variables and the literal text between them.
pub(super) fn text_parts(text: &str) -> impl Iterator<Item = ScenarioTextPart<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some(after) = rest.strip_prefix('$') {
            let end = after.find(|it| !continues_name(it)).unwrap_or(after.len());
            if is_variable_name(&after[..end]) {
                rest = &after[end..];
                return Some(ScenarioTextPart::Variable(&after[..end]));
            }
        }
        // The first character is literal even if it is a `$`, because no name follows it.
        let end = rest.char_indices().skip(1).find(|(_, it)| *it == '$');
        let end = end.map_or(rest.len(), |(index, _)| index);
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(ScenarioTextPart::Literal(text))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ScenarioVariables;

    #[test]
    fn known_variables_are_expanded_and_others_stay() {
        let mut variables = ScenarioVariables::default();
        variables.set("cwd", "/p");
        variables.set("session", "s1");
        let table = [
            ("$cwd/notes.txt", "/p/notes.txt"),
            ("…$session…", "…s1…"),
            ("$cwd$session", "/ps1"),
            ("echo $HOME $x $1 $", "echo $HOME $x $1 $"),
            ("$cwdir $$cwd", "$cwdir $/p"),
            ("é$cwd", "é/p"),
        ];
        for (text, expected) in table {
            assert_eq!(variables.expand(text), expected, "{text}");
        }
        let value = json!({"$session": ["$cwd", 1, null]});
        assert_eq!(variables.expand_value(&value), json!({"s1": ["/p", 1, null]}));
    }
}
