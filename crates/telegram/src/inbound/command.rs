//! Commands such as `/new`.

use uuid::Uuid;

use super::arguments::{ArgumentsError, NewSessionArguments, ScheduleArguments, SetArguments};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatCommand {
    /// Starts a session.
    New(NewSessionArguments),
    Sessions,
    /// Shows another session in this chat, by the beginning of its id.
    Resume(Option<String>),
    /// Searches all sessions.
    Search(Option<String>),
    Stop,
    Status,
    Cost,
    /// Sets the model, or lists the choices.
    Model(Option<String>),
    /// Sets the permission mode, or lists the choices.
    Mode(Option<String>),
    /// Lists, shows or sets what only the agent of the session has: what the user wrote.
    AgentOptions(String),
    /// Lists, shows or sets options.
    Set(SetArguments),
    /// Lists the profiles.
    Profiles,
    Commit(CommitArgument),
    Queue,
    /// Lists, adds or removes messages that are sent later.
    Schedule(ScheduleArguments),
    /// Lists what is always allowed, or revokes one of it.
    Rules(Option<Uuid>),
    /// Has the agent compact the conversation, with optional instructions. The agent gets it as the
    /// prompt `/compact`.
    Compact(Option<String>),
    /// Sets the verbosity, or lists the choices.
    Verbose(Option<u8>),
    Diff,
    Help,
    /// A name that is not a command, without the slash.
    Unknown(String),
    /// A command whose arguments cannot be read.
    Invalid(ArgumentsError),
}

/// What is to be done about commits of the files that the agent changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitArgument {
    On,
    Off,
    /// Show what is set, and the latest commits.
    Status,
}

/// What the text of a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ParsedText {
    Command(ChatCommand),
    /// A command for another bot.
    OtherBot,
    Text,
}

impl ParsedText {
    /// Telegram marks commands in a message, but only names that it would accept itself. So the text
    /// decides, not the marks.
    pub(super) fn parse(text: &str, username: &str) -> Self {
        let Some(rest) = text.strip_prefix('/') else { return Self::Text };
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, argument) = rest.split_at(end);
        let (name, addressee) = match word.split_once('@') {
            Some((name, addressee)) => (name, Some(addressee)),
            None => (word, None),
        };
        // `/usr/bin` and `//` are not commands. The agent's own have names like `pr-review:all`.
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-:".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return Self::Text;
        }
        if addressee.is_some_and(|it| !it.eq_ignore_ascii_case(username)) {
            return Self::OtherBot;
        }
        Self::Command(ChatCommand::new(name, argument.trim()))
    }
}

impl ChatCommand {
    pub(crate) fn new(name: &str, argument: &str) -> Self {
        let optional = || Some(argument.to_owned()).filter(|it| !it.is_empty());
        match name.to_ascii_lowercase().as_str() {
            "new" => NewSessionArguments::parse(argument).map_or_else(Self::Invalid, Self::New),
            "sessions" => Self::Sessions,
            "resume" => Self::Resume(optional()),
            "search" => Self::Search(optional()),
            "stop" => Self::Stop,
            "status" => Self::Status,
            "cost" => Self::Cost,
            "model" => Self::Model(optional()),
            "mode" => Self::Mode(optional()),
            "options" | "option" => Self::AgentOptions(argument.to_owned()),
            "set" => SetArguments::parse(argument).map_or_else(Self::Invalid, Self::Set),
            "profile" | "profiles" => Self::Profiles,
            "commit" => Self::Commit(CommitArgument::parse(argument)),
            "queue" => Self::Queue,
            "schedule" | "schedules" => {
                ScheduleArguments::parse(argument).map_or_else(Self::Invalid, Self::Schedule)
            }
            "rules" => Self::Rules(None),
            "compact" => Self::Compact(optional()),
            "verbose" => Self::Verbose(argument.parse().ok().filter(|it| *it <= 2)),
            "diff" => Self::Diff,
            // Clients send `/start` when a user opens the chat with a bot.
            "help" | "start" => Self::Help,
            _ => Self::Unknown(name.to_owned()),
        }
    }
}

impl CommitArgument {
    fn parse(text: &str) -> Self {
        match text.to_ascii_lowercase().as_str() {
            "on" => Self::On,
            "off" => Self::Off,
            _ => Self::Status,
        }
    }
}

/// Removes the slash that escapes a command for the agent: `//review` becomes `/review`.
/// `// a comment` stays as it is.
pub(super) fn unescape(text: &str) -> &str {
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
    use super::{ChatCommand, CommitArgument, ParsedText, unescape};
    use crate::inbound::{ArgumentsError, NewSessionArguments, SetArguments};

    fn read(text: &str) -> ParsedText {
        ParsedText::parse(text, "Towpath_bot")
    }

    #[test]
    fn commands_are_parsed_with_their_arguments() {
        let some = |it: &str| Some(it.to_owned());
        let new = |directory| {
            ChatCommand::New(NewSessionArguments { directory, ..NewSessionArguments::default() })
        };
        for (text, command) in [
            ("/new", new(None)),
            ("/new ~/a b", new(some("~/a b"))),
            ("/NEW\n/srv", new(some("/srv"))),
            ("/new model=\"x", ChatCommand::Invalid(ArgumentsError::OpenQuote("\"x".to_owned()))),
            ("/set", ChatCommand::Set(SetArguments::List)),
            ("/set mode", ChatCommand::Set(SetArguments::Show("mode".to_owned()))),
            ("/profile", ChatCommand::Profiles),
            ("/commit On", ChatCommand::Commit(CommitArgument::On)),
            ("/commit", ChatCommand::Commit(CommitArgument::Status)),
            ("/stop@towpath_BOT", ChatCommand::Stop),
            ("/stop now please", ChatCommand::Stop),
            ("/resume@towpath_bot  ab12 ", ChatCommand::Resume(some("ab12"))),
            ("/search \"retry  timeout\" x", ChatCommand::Search(some("\"retry  timeout\" x"))),
            ("/model", ChatCommand::Model(None)),
            ("/mode plan", ChatCommand::Mode(some("plan"))),
            ("/compact keep the names", ChatCommand::Compact(some("keep the names"))),
            ("/verbose 2", ChatCommand::Verbose(Some(2))),
            ("/verbose 3", ChatCommand::Verbose(None)),
            ("/verbose lots", ChatCommand::Verbose(None)),
            ("/start deep-link", ChatCommand::Help),
            ("/pr-review:all x", ChatCommand::Unknown("pr-review:all".to_owned())),
        ] {
            assert_eq!(read(text), ParsedText::Command(command), "{text}");
        }
    }

    #[test]
    fn text_that_only_looks_like_a_command_is_text() {
        for text in
            ["", "/", "stop", " /stop", "/usr/bin/env is gone", "//stop", "/ stop", "/é", "/@x"]
        {
            assert_eq!(read(text), ParsedText::Text, "{text}");
        }
        assert_eq!(read("/stop@other_bot"), ParsedText::OtherBot);
        assert_eq!(read("/stop@"), ParsedText::OtherBot);
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
            assert_eq!(unescape(text), words);
        }
    }
}
