//! The arguments of commands that start a session or change its options.

use serde::de::IgnoredAny;
use session::ScheduleTimes;
use uuid::Uuid;

/// The most characters in one message of Telegram. A client sends the rest as another message.
const MESSAGE_LIMIT: usize = 4096;

/// What a session is to be created with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewSessionArguments {
    /// The first root if there is none.
    pub directory: Option<String>,
    /// Whether it is to work where the session that the chat shows works, if no directory is named.
    pub same_directory: bool,
    /// The default profile of the directory if there is none.
    pub profile: Option<String>,
    /// Names and values, as the user wrote them.
    pub options: Vec<(String, String)>,
}

/// What is to be done with an option of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetArguments {
    /// List all options.
    List,
    /// Show one option and the choices for it.
    Show(String),
    Set {
        name: String,
        value: String,
        /// Whether the user has confirmed it with a button.
        confirmed: bool,
    },
}

/// What is to be done with the messages that are sent later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleArguments {
    List,
    Add {
        /// The time zone in which the time is meant; that of the server if there is none.
        zone: Option<String>,
        when: String,
        text: String,
    },
    Remove(Uuid),
    /// It begins with no time, or nothing follows it.
    Incomplete(String),
}

/// Why the arguments of a command cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentsError {
    /// A quoted value that does not end.
    OpenQuote(String),
    /// Something between options that is none.
    NotAnOption(String),
    /// The client has sent only the beginning of the command in this message.
    Split,
}

impl NewSessionArguments {
    /// Reads `DIRECTORY name=value name="a value with spaces" --name value`. Everything before the first
    /// option is the directory.
    pub(crate) fn parse(text: &str) -> Result<Self, ArgumentsError> {
        check_length(text)?;
        let mut arguments = Self::default();
        let mut rest = text.trim();
        if let Some((directory, after)) = read_quoted(rest)? {
            arguments.directory = Some(directory.to_owned());
            rest = after;
        } else {
            let end = first_option(rest).unwrap_or(rest.len());
            let directory = rest[..end].trim();
            arguments.directory = (!directory.is_empty()).then(|| directory.to_owned());
            rest = &rest[end..];
        }
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return Ok(arguments);
            }
            let Some((name, after)) = read_name(rest) else {
                let word = rest.split_whitespace().next().unwrap_or_default();
                return Err(ArgumentsError::NotAnOption(word.to_owned()));
            };
            let (value, after) = read_value(after)?;
            if name == "profile" {
                arguments.profile = Some(value.to_owned());
            } else {
                arguments.options.push((name, value.to_owned()));
            }
            rest = after;
        }
    }
}

impl SetArguments {
    /// Reads `name`, `name value` or `name=value`. The value is the rest of the message.
    pub(crate) fn parse(text: &str) -> Result<Self, ArgumentsError> {
        check_length(text)?;
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::List);
        }
        let end = text.find(|it: char| it.is_whitespace() || it == '=').unwrap_or(text.len());
        let (name, value) = text.split_at(end);
        let value = value.trim_start();
        let value = value.strip_prefix('=').unwrap_or(value).trim();
        let name = normalized(name);
        Ok(match value {
            "" => Self::Show(name),
            value => Self::Set { name, value: value.to_owned(), confirmed: false },
        })
    }
}

impl ScheduleArguments {
    /// Reads `WHEN TEXT` or `zone=NAME WHEN TEXT`.
    pub(crate) fn parse(text: &str) -> Result<Self, ArgumentsError> {
        check_length(text)?;
        let text = text.trim();
        if text.is_empty() || text.eq_ignore_ascii_case("list") {
            return Ok(Self::List);
        }
        let (zone, rest) = match read_name(text) {
            Some((name, after)) if name == "zone" => {
                let (zone, after) = read_value(after)?;
                (Some(zone.to_owned()), after)
            }
            _ => (None, text),
        };
        Ok(match ScheduleTimes::split(rest) {
            Some((when, what)) if !what.is_empty() => {
                Self::Add { zone, when: when.to_owned(), text: what.to_owned() }
            }
            _ => Self::Incomplete(rest.trim().to_owned()),
        })
    }
}

fn check_length(text: &str) -> Result<(), ArgumentsError> {
    // The name of the command is missing here, and the client splits at a space before the limit.
    let split = text.encode_utf16().count() + "/new@".len() + 60 >= MESSAGE_LIMIT;
    if split { Err(ArgumentsError::Split) } else { Ok(()) }
}

/// Where the first `name=` begins.
fn first_option(text: &str) -> Option<usize> {
    let mut start_of_word = true;
    text.char_indices().find_map(|(at, it)| {
        let found = start_of_word && read_name(&text[at..]).is_some();
        start_of_word = it.is_whitespace();
        found.then_some(at)
    })
}

/// The name before an equals sign, and what follows the sign. A name with two dashes may also end with a
/// space. Phones replace the two dashes that users type by a long one.
fn read_name(text: &str) -> Option<(String, &str)> {
    let flag = text.strip_prefix("--").or_else(|| text.strip_prefix('—'));
    let text = flag.unwrap_or(text);
    let end = text.find(|it: char| !(it.is_ascii_alphanumeric() || it == '_' || it == '-'))?;
    let after = match text[end..].strip_prefix('=') {
        Some(after) => after,
        None if flag.is_some() && text[end..].starts_with(char::is_whitespace) => {
            text[end..].trim_start()
        }
        None => return None,
    };
    let starts_with_letter = text.starts_with(|it: char| it.is_ascii_alphabetic());
    starts_with_letter.then(|| (normalized(&text[..end]), after))
}

fn normalized(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// A value, which ends at white space unless it is quoted or JSON, and what follows it.
fn read_value(text: &str) -> Result<(&str, &str), ArgumentsError> {
    if let Some(quoted) = read_quoted(text)? {
        return Ok(quoted);
    }
    if text.starts_with(['{', '[']) {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
        if let Some(Ok(_)) = values.next() {
            return Ok(text.split_at(values.byte_offset()));
        }
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    Ok(text.split_at(end))
}

/// A text in quotes, and what follows it. Phones replace the quotes that users type by others.
fn read_quoted(text: &str) -> Result<Option<(&str, &str)>, ArgumentsError> {
    let Some(opening) = text.chars().next() else { return Ok(None) };
    let closing: &[char] = match opening {
        '"' | '“' | '„' | '”' => &['"', '“', '”'],
        '\'' | '‘' | '‚' | '’' => &['\'', '‘', '’'],
        '«' => &['»'],
        _ => return Ok(None),
    };
    let inner = &text[opening.len_utf8()..];
    // An apostrophe inside a word does not end the text.
    let ends = |(at, mark): (usize, &str)| {
        let after = &inner[at + mark.len()..];
        let ends = after.is_empty() || after.starts_with(char::is_whitespace);
        ends.then_some((&inner[..at], after))
    };
    let end = inner.match_indices(closing).find_map(ends);
    if end.is_none() {
        return Err(ArgumentsError::OpenQuote(text.chars().take(40).collect()));
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::{ArgumentsError, NewSessionArguments, ScheduleArguments, SetArguments};

    fn new(
        directory: Option<&str>,
        profile: Option<&str>,
        options: &[(&str, &str)],
    ) -> NewSessionArguments {
        let own = |it: &str| it.to_owned();
        NewSessionArguments {
            directory: directory.map(own),
            same_directory: false,
            profile: profile.map(own),
            options: options.iter().map(|(name, value)| (own(name), own(value))).collect(),
        }
    }

    #[test]
    fn a_new_session_has_a_directory_a_profile_and_options() {
        for (text, arguments) in [
            ("", new(None, None, &[])),
            ("~/a b", new(Some("~/a b"), None, &[])),
            ("inner model=opus", new(Some("inner"), None, &[("model", "opus")])),
            ("profile=ci", new(None, Some("ci"), &[])),
            ("--agent codex", new(None, None, &[("agent", "codex")])),
            (
                "inner —agent codex mode=plan",
                new(Some("inner"), None, &[("agent", "codex"), ("mode", "plan")]),
            ),
            ("my app --max-turns=3", new(Some("my app"), None, &[("max_turns", "3")])),
            (
                "my app Max-Turns=3\nmode=plan",
                new(Some("my app"), None, &[("max_turns", "3"), ("mode", "plan")]),
            ),
            ("\"a=b\" model=x", new(Some("a=b"), None, &[("model", "x")])),
            (
                "append_system_prompt=“Don't be <b>long</b>” model='a b'",
                new(
                    None,
                    None,
                    &[("append_system_prompt", "Don't be <b>long</b>"), ("model", "a b")],
                ),
            ),
            (
                "mcp_config={\"mcpServers\": {\"a\": {\"command\": \"x y\"}}} model=x",
                new(
                    None,
                    None,
                    &[
                        ("mcp_config", "{\"mcpServers\": {\"a\": {\"command\": \"x y\"}}}"),
                        ("model", "x"),
                    ],
                ),
            ),
            ("model=", new(None, None, &[("model", "")])),
            ("é/ü model=é", new(Some("é/ü"), None, &[("model", "é")])),
        ] {
            assert_eq!(NewSessionArguments::parse(text), Ok(arguments), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, error) in [
            ("model=x and then", ArgumentsError::NotAnOption("and".to_owned())),
            ("model=\"x", ArgumentsError::OpenQuote("\"x".to_owned())),
            ("\"a b", ArgumentsError::OpenQuote("\"a b".to_owned())),
        ] {
            assert_eq!(NewSessionArguments::parse(text), Err(error), "{text}");
        }
        let long = format!("append_system_prompt={}", "é".repeat(5000));
        assert_eq!(NewSessionArguments::parse(&long), Err(ArgumentsError::Split));
        assert_eq!(SetArguments::parse(&long), Err(ArgumentsError::Split));
    }

    #[test]
    fn an_option_is_shown_or_set_with_the_rest_of_the_message() {
        let set = |name: &str, value: &str| SetArguments::Set {
            name: name.to_owned(),
            value: value.to_owned(),
            confirmed: false,
        };
        for (text, arguments) in [
            ("", SetArguments::List),
            ("mode", SetArguments::Show("mode".to_owned())),
            ("mode=", SetArguments::Show("mode".to_owned())),
            ("mode plan", set("mode", "plan")),
            ("Max-Turns = 3", set("max_turns", "3")),
            ("environment A=1\nB=2", set("environment", "A=1\nB=2")),
            ("environment=A=1", set("environment", "A=1")),
            ("append_system_prompt \"a\" = b", set("append_system_prompt", "\"a\" = b")),
        ] {
            assert_eq!(SetArguments::parse(text), Ok(arguments), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_parsed(text in ".*") {
            let _ = NewSessionArguments::parse(&text);
            let _ = SetArguments::parse(&text);
        }
    }

    #[test]
    fn a_scheduled_message_has_a_time_a_text_and_maybe_a_zone() {
        let add = |zone: Option<&str>, when: &str, text: &str| ScheduleArguments::Add {
            zone: zone.map(str::to_owned),
            when: when.to_owned(),
            text: text.to_owned(),
        };
        for (text, arguments) in [
            ("", ScheduleArguments::List),
            ("List", ScheduleArguments::List),
            ("tomorrow 9:00 run it", add(None, "tomorrow 9:00", "run it")),
            (
                "Zone=Europe/Berlin every weekday at 9 look\nagain",
                add(Some("Europe/Berlin"), "every weekday at 9", "look\nagain"),
            ),
            ("in 2h", ScheduleArguments::Incomplete("in 2h".to_owned())),
            ("run it", ScheduleArguments::Incomplete("run it".to_owned())),
        ] {
            assert_eq!(ScheduleArguments::parse(text), Ok(arguments), "{text}");
        }
        let long = format!("in 2h {}", "é".repeat(4096));
        assert_eq!(ScheduleArguments::parse(&long), Err(ArgumentsError::Split));
    }
}
