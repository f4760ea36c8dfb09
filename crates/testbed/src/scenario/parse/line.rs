//! One line of a scenario, read word by word.

use serde_json::{Deserializer, Map, Value};

use crate::scenario::names::is_name;

/// What is left of a line.
pub(super) struct Line<'a> {
    rest: &'a str,
    /// What was read last, to say behind what something is missing.
    behind: String,
}

/// What was expected and what stands there.
#[derive(Debug)]
pub(super) struct Wrong(pub(super) String);

impl<'a> Line<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.trim(), behind: String::new() }
    }

    pub(super) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a str {
        std::mem::take(&mut self.rest)
    }

    /// Takes the next word if it is this one.
    pub(super) fn takes(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        if found {
            self.advance(word.len());
        }
        found
    }

    /// The next word, without taking it.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.rest.split_whitespace().next()
    }

    /// Whether a JSON value of this sort begins here: `{`, `[` or `"`.
    pub(super) fn begins(&self, sign: char) -> bool {
        self.rest.starts_with(sign)
    }

    pub(super) fn word(&mut self, expected: &str) -> Result<&'a str, Wrong> {
        let word = self.peek().ok_or_else(|| self.wrong(expected))?;
        self.advance(word.len());
        Ok(word)
    }

    /// A word, or a string in quotes where it holds spaces.
    pub(super) fn path(&mut self) -> Result<String, Wrong> {
        if self.begins('"') {
            self.string("a path")
        } else {
            self.word("a path").map(str::to_owned)
        }
    }

    pub(super) fn number<N: std::str::FromStr>(&mut self, expected: &str) -> Result<N, Wrong> {
        let number = self.peek().and_then(|word| word.parse().ok());
        let number = number.ok_or_else(|| self.wrong(expected))?;
        let _ = self.word(expected)?;
        Ok(number)
    }

    pub(super) fn string(&mut self, expected: &str) -> Result<String, Wrong> {
        match self.json(expected, '"')? {
            Value::String(text) => Ok(text),
            _ => Err(self.wrong(expected)),
        }
    }

    pub(super) fn object(&mut self, expected: &str) -> Result<Map<String, Value>, Wrong> {
        match self.json(expected, '{')? {
            Value::Object(object) => Ok(object),
            _ => Err(self.wrong(expected)),
        }
    }

    pub(super) fn array(&mut self, expected: &str) -> Result<Value, Wrong> {
        self.json(expected, '[')
    }

    /// A name as in `as NAME`: what `$NAME` can stand for.
    pub(super) fn name(&mut self) -> Result<String, Wrong> {
        let wrong = self.wrong("a name of small letters, digits and `_`");
        match self.peek().filter(|word| is_name(word)) {
            Some(name) => {
                self.advance(name.len());
                Ok(name.to_owned())
            }
            None => Err(wrong),
        }
    }

    pub(super) fn end(&self) -> Result<(), Wrong> {
        if self.is_done() { Ok(()) } else { Err(self.wrong("the end of the line")) }
    }

    pub(super) fn wrong(&self, expected: &str) -> Wrong {
        let behind = if self.behind.is_empty() {
            String::new()
        } else {
            format!(" behind `{}`", self.behind)
        };
        let seen = match self.rest {
            "" => "the line ends".to_owned(),
            rest => format!("there stands `{}`", shortened(rest)),
        };
        Wrong(format!("expected {expected}{behind}, but {seen}"))
    }

    fn json(&mut self, expected: &str, sign: char) -> Result<Value, Wrong> {
        if !self.begins(sign) {
            return Err(self.wrong(expected));
        }
        let mut values = Deserializer::from_str(self.rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let length = values.byte_offset();
                self.advance(length);
                Ok(value)
            }
            Some(Err(error)) => {
                let Wrong(text) = self.wrong(expected);
                Err(Wrong(format!("{text}, which is no JSON: {error}")))
            }
            None => Err(self.wrong(expected)),
        }
    }

    fn advance(&mut self, length: usize) {
        let (taken, rest) = self.rest.split_at(length);
        self.behind = shortened(taken);
        self.rest = rest.trim_start();
    }
}

/// Enough of a text to know it again.
fn shortened(text: &str) -> String {
    const ENOUGH: usize = 40;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= ENOUGH {
        return line;
    }
    line.chars().take(ENOUGH).chain(['…']).collect()
}

/// Splits arguments the way a shell does: by spaces, save in quotes and behind backslashes.
pub(super) fn arguments(text: &str) -> Result<Vec<String>, Wrong> {
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
                    return Err(Wrong("expected a character behind the last `\\`".to_owned()));
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
        return Err(Wrong(format!("expected a second `{open}` before the end of the line")));
    }
    arguments.extend(argument);
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::arguments;

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
            assert_eq!(arguments(text).unwrap(), *expected, "{text}");
        }
        assert!(arguments("it's").is_err());
        assert!(arguments("x \\").is_err());
    }
}
