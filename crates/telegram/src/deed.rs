//! What people in a chat want done.

use uuid::Uuid;
use wire::note::Actor;

use crate::place::{ChatId, Kind, MessageId, Place, UserId};

/// Something a person wants done. What comes of it is said in the chat it came from.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    /// A prompt, for the session of the place; a place without one gets one first.
    Prompt(Draft),
    /// A message was edited whose prompt may still wait.
    Reword {
        /// Where.
        place: Place,
        /// Which message.
        message: MessageId,
        /// What the prompt says from here on, or this message alone: see `whole`.
        text: String,
        /// Whether `text` is all of the prompt's words. Where it is not, and other messages are
        /// part of the same prompt, nobody knows any more what these said.
        whole: bool,
    },
    /// A command.
    Command {
        /// Where.
        place: Place,
        /// What sort of chat that is.
        kind: Kind,
        /// The message with it.
        message: MessageId,
        /// Which.
        command: crate::front::Command,
        /// Whose.
        by: Actor,
    },
    /// A button was tapped.
    Tap {
        /// Where; without a topic where the message is too old for Telegram to say.
        place: Place,
        /// What sort of chat that is.
        kind: Kind,
        /// The tap, to be answered in any case.
        tap: String,
        /// The message under which the button is.
        message: MessageId,
        /// What the button carries.
        data: String,
        /// Who tapped.
        by: Actor,
    },
    /// Something could not be taken; the person is told in the words of
    /// [`replies::left`](crate::replies::left). The rest of the prompt, if any, goes on without it.
    Left {
        /// Where.
        place: Place,
        /// What sort of chat that is.
        kind: Kind,
        /// The message it came with.
        message: MessageId,
        /// What.
        what: Left,
    },
    /// A group became a supergroup: the same place under another number.
    Moved {
        /// What it was.
        from: ChatId,
        /// What it is.
        to: ChatId,
    },
    /// Somebody who is not on the list. They get no answer.
    Stranger {
        /// Who.
        user: UserId,
        /// What they call themselves.
        name: String,
    },
}

/// A prompt as it was put together from one message or several.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Where.
    pub place: Place,
    /// What sort of chat that is.
    pub kind: Kind,
    /// Its id, made of the first message's, so that the same message is never two prompts.
    pub id: Uuid,
    /// The messages it is made of.
    pub messages: Vec<MessageId>,
    /// The message that the first of them replies to: it may answer a question of the agent.
    pub reply_to: Option<MessageId>,
    /// What that message says, as lines that begin with `>`. No part of an answer to a question of
    /// the agent, but part of a prompt: [`Draft::words`].
    pub quote: Option<String>,
    /// The words, with the names of those who were forwarded.
    pub text: String,
    /// What is to be fetched and go with it.
    pub attachments: Vec<Attachment>,
    /// Whose.
    pub by: Actor,
}

impl Draft {
    /// The words as the agent is to get them: with what they reply to.
    pub fn words(&self) -> String {
        quoted(self.quote.as_deref(), &self.text)
    }
}

/// Words under what they reply to. A command for the agent has to stand first, so it stands alone.
pub(crate) fn quoted(quote: Option<&str>, text: &str) -> String {
    match quote {
        Some(quote) if !text.starts_with('/') => format!("{quote}\n\n{text}").trim_end().to_owned(),
        _ => text.to_owned(),
    }
}

/// What a prompt says once it is reworded: the new words, and then the files that the old ones end
/// with, for [`session::with_files`] put them there and an edit of a message takes none away.
pub fn reworded(before: &str, words: &str) -> String {
    let files = before.lines().rev().take_while(|line| line.starts_with("Attached file: "));
    let files: Vec<_> = files.collect();
    let words = Some(words).filter(|it| !it.is_empty());
    words.into_iter().chain(files.into_iter().rev()).collect::<Vec<_>>().join("\n")
}

/// Something that could not be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// A file that a bot cannot fetch, for its size.
    TooLarge {
        /// What it is called.
        name: String,
        /// How many bytes.
        size: u64,
        /// How many there may be.
        most: u64,
    },
    /// Something that no prompt can be made of, by its name: `a poll`.
    Unreadable(&'static str),
}

/// A file that came with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Telegram's name for it.
    pub file: String,
    /// What it is called.
    pub name: String,
    /// What sort of file the sender says it is.
    pub media_type: Option<String>,
    /// How many bytes, as far as Telegram says.
    pub size: Option<u64>,
    /// A picture the model can look at: png, jpeg, gif, webp. Anything else is kept on the disk.
    pub picture: bool,
}

#[cfg(test)]
mod tests {
    use super::reworded;

    #[test]
    fn a_prompt_that_is_reworded_keeps_its_files() {
        for (words, files) in
            [("look at it", &["/p/a", "/p/b"][..]), ("", &["/p/a"]), ("look", &[])]
        {
            let files: Vec<_> = files.iter().map(Into::into).collect();
            let before = session::with_files(words, &files);
            for new in ["look closer\nAttached is all", ""] {
                assert_eq!(reworded(&before, new), session::with_files(new, &files));
            }
        }
    }
}
