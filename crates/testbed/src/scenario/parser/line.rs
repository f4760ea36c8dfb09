//! A reader for one line of a scenario, word by word.

use serde_json::{Deserializer, Map, Value};

use crate::scenario::variables::is_variable_name;

/// The unread rest of a line.
pub(super) struct ScenarioLineReader<'a> {
    rest: &'a str,
    /// The part read last, for error messages.
    previous: String,
}

/// A message about what was expected and what was found.
#[derive(Debug)]
pub(super) struct ScenarioSyntaxError(pub(super) String);

impl<'a> ScenarioLineReader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.trim(), previous: String::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes the whole rest of the line.
    pub(super) fn take_rest(&mut self) -> &'a str {
        std::mem::take(&mut self.rest)
    }

    /// Takes the next word if it is this one.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        if found {
            self.advance(word.len());
        }
        found
    }

    /// Returns the next word without taking it.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.rest.split_whitespace().next()
    }

    /// Whether the rest starts with this character: `{`, `[` or `"`.
    pub(super) fn starts_with(&self, sign: char) -> bool {
        self.rest.starts_with(sign)
    }

    pub(super) fn word(&mut self, expected: &str) -> Result<&'a str, ScenarioSyntaxError> {
        let word = self.peek().ok_or_else(|| self.error(expected))?;
        self.advance(word.len());
        Ok(word)
    }

    /// A word, or a quoted string if the path contains spaces.
    pub(super) fn path(&mut self) -> Result<String, ScenarioSyntaxError> {
        if self.starts_with('"') {
            self.string("a path")
        } else {
            self.word("a path").map(str::to_owned)
        }
    }

    pub(super) fn number<N: std::str::FromStr>(
        &mut self,
        expected: &str,
    ) -> Result<N, ScenarioSyntaxError> {
        let number = self.peek().and_then(|word| word.parse().ok());
        let number = number.ok_or_else(|| self.error(expected))?;
        let _ = self.word(expected)?;
        Ok(number)
    }

    pub(super) fn string(&mut self, expected: &str) -> Result<String, ScenarioSyntaxError> {
        match self.json(expected, '"')? {
            Value::String(text) => Ok(text),
            _ => Err(self.error(expected)),
        }
    }

    pub(super) fn object(
        &mut self,
        expected: &str,
    ) -> Result<Map<String, Value>, ScenarioSyntaxError> {
        match self.json(expected, '{')? {
            Value::Object(object) => Ok(object),
            _ => Err(self.error(expected)),
        }
    }

    pub(super) fn array(&mut self, expected: &str) -> Result<Value, ScenarioSyntaxError> {
        self.json(expected, '[')
    }

    /// A variable name, as in `as NAME`.
    pub(super) fn name(&mut self) -> Result<String, ScenarioSyntaxError> {
        let error = self.error("a name of lower-case letters, digits and `_`");
        match self.peek().filter(|word| is_variable_name(word)) {
            Some(name) => {
                self.advance(name.len());
                Ok(name.to_owned())
            }
            None => Err(error),
        }
    }

    pub(super) fn end(&self) -> Result<(), ScenarioSyntaxError> {
        if self.is_empty() { Ok(()) } else { Err(self.error("the end of the line")) }
    }

    pub(super) fn error(&self, expected: &str) -> ScenarioSyntaxError {
        let after = if self.previous.is_empty() {
            String::new()
        } else {
            format!(" after `{}`", self.previous)
        };
        let found = match self.rest {
            "" => "the end of the line".to_owned(),
            rest => format!("`{}`", shorten(rest)),
        };
        ScenarioSyntaxError(format!("expected {expected}{after}, found {found}"))
    }

    fn json(&mut self, expected: &str, sign: char) -> Result<Value, ScenarioSyntaxError> {
        if !self.starts_with(sign) {
            return Err(self.error(expected));
        }
        let mut values = Deserializer::from_str(self.rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let length = values.byte_offset();
                self.advance(length);
                Ok(value)
            }
            Some(Err(error)) => {
                let ScenarioSyntaxError(text) = self.error(expected);
                Err(ScenarioSyntaxError(format!("{text}, which is not valid JSON: {error}")))
            }
            None => Err(self.error(expected)),
        }
    }

    fn advance(&mut self, length: usize) {
        let (taken, rest) = self.rest.split_at(length);
        self.previous = shorten(taken);
        self.rest = rest.trim_start();
    }
}

/// The start of a text on one line, for error messages.
fn shorten(text: &str) -> String {
    const MAX_CHARACTERS: usize = 40;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MAX_CHARACTERS {
        return line;
    }
    line.chars().take(MAX_CHARACTERS).chain(['…']).collect()
}

/// Splits arguments as a shell does: at spaces, except in quotes and after backslashes.
pub(super) fn split_arguments(text: &str) -> Result<Vec<String>, ScenarioSyntaxError> {
    let mut arguments = Vec::new();
    let mut argument: Option<String> = None;
    let mut quote = None;
    let mut characters = text.trim().chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\'' | '"', None) => {
                quote = Some(character);
                argument.get_or_insert_default();
            }
            (_, Some(open)) if character == open => quote = None,
            ('\\', None | Some('"')) => {
                let Some(next) = characters.next() else {
                    let problem = "expected a character after the last `\\`".to_owned();
                    return Err(ScenarioSyntaxError(problem));
                };
                let argument = argument.get_or_insert_default();
                // Within double quotes a shell keeps a backslash that escapes nothing.
                if quote.is_some() && !matches!(next, '"' | '\\' | '$' | '`') {
                    argument.push('\\');
                }
                argument.push(next);
            }
            (_, None) if character.is_whitespace() => arguments.extend(argument.take()),
            _ => argument.get_or_insert_default().push(character),
        }
    }
    if let Some(open) = quote {
        return Err(ScenarioSyntaxError(format!("the quote `{open}` is not closed")));
    }
    arguments.extend(argument);
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::split_arguments;

    #[test]
    fn arguments_are_split_like_a_shell_does() {
        let table: &[(&str, &[&str])] = &[
            ("", &[]),
            ("--resume $session", &["--resume", "$session"]),
            (r#"--settings '{"a": "b c"}' x"#, &["--settings", r#"{"a": "b c"}"#, "x"]),
            (r#"a"b c"d '' """#, &["ab cd", "", ""]),
            (r"a\ b \\ \'", &["a b", r"\", "'"]),
            (r#""a\"b \n""#, &[r#"a"b \n"#]),
        ];
        for (text, expected) in table {
            assert_eq!(split_arguments(text).unwrap(), *expected, "{text}");
        }
        assert!(split_arguments("it's").is_err());
        assert!(split_arguments("x \\").is_err());
    }
}
