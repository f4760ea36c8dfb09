//! Commands.

/// A command, with what was given to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A new session, in a directory.
    New(Option<String>),
    /// The sessions there are.
    Sessions,
    /// Another session for this place, by the beginning of its id.
    Resume(Option<String>),
    /// The running turn is to stop.
    Stop,
    /// How the session is.
    Status,
    /// What it has cost.
    Cost,
    /// The model, or which to choose from.
    Model(Option<String>),
    /// The permission mode, or which to choose from.
    Mode(Option<String>),
    /// The prompts that wait.
    Queue,
    /// Have the history summarised, with an eye on something where it is said. The agent does it:
    /// it goes to it as the prompt `/compact`.
    Compact(Option<String>),
    /// How much is told, or what there is to choose from.
    Verbose(Option<u8>),
    /// The changes of the last turn.
    Diff,
    /// What there is.
    Help,
    /// One there is not, by its name without the slash.
    Unknown(String),
}

/// What words are that somebody wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// A command for us.
    Command(Command),
    /// One for another bot.
    Elsewhere,
    /// Words.
    Words,
}

impl Written {
    /// Reads words, for the bot of this name. Telegram marks commands in a message, but only those
    /// that it would accept as names, so the words decide and not the marks.
    pub(super) fn read(text: &str, username: &str) -> Self {
        let Some(rest) = text.strip_prefix('/') else { return Self::Words };
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, given) = rest.split_at(end);
        let (name, addressee) = match word.split_once('@') {
            Some((name, addressee)) => (name, Some(addressee)),
            None => (word, None),
        };
        // `/usr/bin` and `//` are no commands; the agent's own have names like `pr-review:all`.
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-:".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return Self::Words;
        }
        if addressee.is_some_and(|it| !it.eq_ignore_ascii_case(username)) {
            return Self::Elsewhere;
        }
        Self::Command(Command::named(name, given.trim()))
    }
}

impl Command {
    /// The command of a name, with nothing given to it.
    #[cfg(test)]
    pub(crate) fn of(name: &str) -> Self {
        Self::named(name, "")
    }

    fn named(name: &str, given: &str) -> Self {
        let something = || Some(given.to_owned()).filter(|it| !it.is_empty());
        match name.to_ascii_lowercase().as_str() {
            "new" => Self::New(something()),
            "sessions" => Self::Sessions,
            "resume" => Self::Resume(something()),
            "stop" => Self::Stop,
            "status" => Self::Status,
            "cost" => Self::Cost,
            "model" => Self::Model(something()),
            "mode" => Self::Mode(something()),
            "queue" => Self::Queue,
            "compact" => Self::Compact(something()),
            "verbose" => Self::Verbose(given.parse().ok().filter(|it| *it <= 2)),
            "diff" => Self::Diff,
            // What Telegram sends when somebody opens a chat with a bot.
            "help" | "start" => Self::Help,
            _ => Self::Unknown(name.to_owned()),
        }
    }
}

/// Words without the slash that keeps them from being a command: `//review` is `/review` for the
/// agent. `// a comment` is what it is.
pub(super) fn unescaped(text: &str) -> &str {
    match text.strip_prefix('/') {
        Some(rest)
            if rest.strip_prefix('/').is_some_and(|it| it.starts_with(char::is_alphanumeric)) =>
        {
            rest
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, Written, unescaped};

    fn read(text: &str) -> Written {
        Written::read(text, "Towpath_bot")
    }

    #[test]
    fn commands_are_read_with_what_is_given_to_them() {
        let some = |it: &str| Some(it.to_owned());
        for (text, command) in [
            ("/new", Command::New(None)),
            ("/new ~/a b", Command::New(some("~/a b"))),
            ("/NEW\n/srv", Command::New(some("/srv"))),
            ("/stop@towpath_BOT", Command::Stop),
            ("/stop now please", Command::Stop),
            ("/resume@towpath_bot  ab12 ", Command::Resume(some("ab12"))),
            ("/model", Command::Model(None)),
            ("/mode plan", Command::Mode(some("plan"))),
            ("/compact keep the names", Command::Compact(some("keep the names"))),
            ("/verbose 2", Command::Verbose(Some(2))),
            ("/verbose 3", Command::Verbose(None)),
            ("/verbose lots", Command::Verbose(None)),
            ("/start deep-link", Command::Help),
            ("/pr-review:all x", Command::Unknown("pr-review:all".to_owned())),
        ] {
            assert_eq!(read(text), Written::Command(command), "{text}");
        }
    }

    #[test]
    fn words_that_only_look_like_commands_are_words() {
        for text in
            ["", "/", "stop", " /stop", "/usr/bin/env is gone", "//stop", "/ stop", "/é", "/@x"]
        {
            assert_eq!(read(text), Written::Words, "{text}");
        }
        assert_eq!(read("/stop@other_bot"), Written::Elsewhere);
        assert_eq!(read("/stop@"), Written::Elsewhere);
    }

    #[test]
    fn two_slashes_are_one_for_the_agent() {
        for (text, words) in [
            ("//review 12", "/review 12"),
            ("// a comment", "// a comment"),
            ("///", "///"),
            ("/a", "/a"),
            ("a", "a"),
        ] {
            assert_eq!(unescaped(text), words);
        }
    }
}
