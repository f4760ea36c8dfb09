//! What users in a chat ask for.

use session::OptionRole;
use uuid::Uuid;
use wire::note::Actor;

use super::ChatCommand;
use crate::address::{ChatAddress, ChatId, ChatKind, MessageId, TelegramUserId};

/// Something that an update asks for. The result is reported in the chat it came from.
#[derive(Clone, Debug, PartialEq)]
pub enum InboundAction {
    /// A prompt for the chat's session. A chat without a session gets a new one first.
    Prompt(PromptDraft),
    /// An edit of a message whose prompt may still be queued.
    EditPrompt {
        address: ChatAddress,
        message: MessageId,
        /// The new text of the whole prompt, or of this message alone: see `whole`.
        text: String,
        /// Whether `text` is the whole prompt. If it is not, and the prompt consists of several
        /// messages, the text of the others is no longer known.
        whole: bool,
    },
    Command {
        address: ChatAddress,
        kind: ChatKind,
        message: MessageId,
        command: ChatCommand,
        by: Actor,
        role: OptionRole,
    },
    Tap {
        /// Without a topic if the message is too old for Telegram to name it.
        address: ChatAddress,
        kind: ChatKind,
        /// The id of the tap, which must be answered in any case.
        tap: String,
        message: MessageId,
        data: String,
        by: Actor,
        role: OptionRole,
    },
    /// Content that the agent cannot be given. The user is told with
    /// [`replies::rejected`](crate::replies::rejected); the rest of the prompt is used.
    Rejected { address: ChatAddress, kind: ChatKind, message: MessageId, content: RejectedContent },
    /// A group became a supergroup, which has another id.
    ChatMigrated { from: ChatId, to: ChatId },
    /// A user who is not on the list of allowed users. They get no answer.
    UnknownUser { user: TelegramUserId, name: String },
}

/// A prompt made of one or more messages.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptDraft {
    pub address: ChatAddress,
    pub kind: ChatKind,
    /// Derived from the id of the first message, so that a message never becomes two prompts.
    pub id: Uuid,
    pub messages: Vec<MessageId>,
    /// The message that the first one replies to. It may be a question of the agent.
    pub reply_to: Option<MessageId>,
    /// The text of that message, as lines that begin with `>`. It is part of a prompt, but not of an
    /// answer to a question: see [`PromptDraft::prompt_text`].
    pub quote: Option<String>,
    /// The text, with the names of the authors of forwarded messages.
    pub text: String,
    pub attachments: Vec<InboundFile>,
    pub by: Actor,
}

impl PromptDraft {
    /// The text for the agent, including the quote.
    pub fn prompt_text(&self) -> String {
        with_quote(self.quote.as_deref(), &self.text)
    }
}

/// A text below what it replies to. A command for the agent must come first, so it gets no quote.
pub(super) fn with_quote(quote: Option<&str>, text: &str) -> String {
    match quote {
        Some(quote) if !text.starts_with('/') => format!("{quote}\n\n{text}").trim_end().to_owned(),
        _ => text.to_owned(),
    }
}

/// The text of a prompt after an edit: the new text and the attached files of the old one.
/// [`session::append_file_paths`] puts files at the end of a prompt, and an edit does not remove them.
pub(crate) fn edited_prompt(before: &str, text: &str) -> String {
    let files = before.lines().rev().take_while(|line| line.starts_with("Attached file: "));
    let files: Vec<_> = files.collect();
    let text = Some(text).filter(|it| !it.is_empty());
    text.into_iter().chain(files.into_iter().rev()).collect::<Vec<_>>().join("\n")
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RejectedContent {
    /// A file that is larger than a bot can download.
    TooLarge { name: String, size: u64, limit: u64 },
    /// Something that cannot be part of a prompt, by its name: `polls`.
    Unsupported(&'static str),
}

/// A file that came with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundFile {
    pub file_id: String,
    pub name: String,
    /// In bytes, if Telegram reports it.
    pub size: Option<u64>,
    /// Whether it is a picture in a format that the model accepts. Other files are saved to disk.
    pub picture: bool,
}

#[cfg(test)]
mod tests {
    use super::edited_prompt;

    #[test]
    fn an_edited_prompt_keeps_its_files() {
        for (text, files) in [("look at it", &["/p/a", "/p/b"][..]), ("", &["/p/a"]), ("look", &[])]
        {
            let files: Vec<_> = files.iter().map(Into::into).collect();
            let before = session::append_file_paths(text, &files);
            for new in ["look closer\nAttached is all", ""] {
                assert_eq!(edited_prompt(&before, new), session::append_file_paths(new, &files));
            }
        }
    }
}
