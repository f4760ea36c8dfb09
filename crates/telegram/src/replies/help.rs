//! What there is.

use view::telegram::{Mark, Text};

use super::{Said, marked};

/// The commands, with a line about each; what `setMyCommands` registers.
pub fn commands() -> &'static [(&'static str, &'static str)] {
    &[
        ("new", "Begin a new session here: /new or /new DIRECTORY"),
        ("sessions", "Show the sessions and pick one"),
        ("resume", "Show another session here: /resume ID"),
        ("stop", "Stop what the agent is doing"),
        ("status", "What the agent is doing"),
        ("cost", "Tokens and dollars so far"),
        ("model", "Choose the model"),
        ("mode", "Choose what the agent may do unasked"),
        ("queue", "Messages that wait for their turn"),
        ("compact", "Have the conversation summarised to make room"),
        ("verbose", "How much to tell: 0, 1 or 2"),
        ("diff", "What the last turn changed"),
        ("help", "This list"),
    ]
}

/// What the bot is for and what it understands.
pub fn help() -> Said {
    let mut text = Text::default();
    text.push("Write what you want done and the agent gets to work. ");
    text.push("Pictures, files, voice messages and forwards go along with it. ");
    text.push("While it works, further messages wait their turn.\n");
    for (name, line) in commands() {
        text.push(&format!("\n/{name} – {line}"));
    }
    text.push("\n\nTwo slashes hand a command to the agent itself: ");
    text.push_marked(Mark::Code, "//review");
    text.push(".");
    text.into()
}

/// There is no such command.
pub fn unknown(name: &str) -> Said {
    let name = super::cut(name, 64);
    marked(&format!(
        "I don’t know /{name}. /help shows what I know. If it is a command of the agent, write `//{name}`."
    ))
    .into()
}
