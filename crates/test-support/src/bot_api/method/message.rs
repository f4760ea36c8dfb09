//! The methods for text messages: send, draft, edit, delete, pin and react.

use std::time::Duration;

use serde_json::Value;

use super::media::read_caption;
use crate::bot_api::call::{BotApiError, BotApiParams};
use crate::bot_api::limiter::BotApiLoad;
use crate::bot_api::state::{
    BotApiChat, BotApiContent, BotApiDraft, BotApiMarkup, BotApiMessage, BotApiMessageId,
    BotApiSender, BotApiState,
};
use crate::bot_api::text::BotApiText;

/// The longest text in UTF-16 code units, after parsing.
const MAX_TEXT: usize = 4_096;

/// The age up to which a bot can delete a message.
const DELETION_PERIOD: Duration = Duration::from_hours(48);

const NOT_MODIFIED: &str = "message is not modified: specified new message content and reply \
                            markup are exactly the same as a current content and reply markup of \
                            the message";

/// The emoji that Telegram allows as reactions.
const REACTIONS: [&str; 73] = [
    "👍",
    "👎",
    "❤",
    "🔥",
    "🥰",
    "👏",
    "😁",
    "🤔",
    "🤯",
    "😱",
    "🤬",
    "😢",
    "🎉",
    "🤩",
    "🤮",
    "💩",
    "🙏",
    "👌",
    "🕊",
    "🤡",
    "🥱",
    "🥴",
    "😍",
    "🐳",
    "❤‍🔥",
    "🌚",
    "🌭",
    "💯",
    "🤣",
    "⚡",
    "🍌",
    "🏆",
    "💔",
    "🤨",
    "😐",
    "🍓",
    "🍾",
    "💋",
    "🖕",
    "😈",
    "😴",
    "😭",
    "🤓",
    "👻",
    "👨‍💻",
    "👀",
    "🎃",
    "🙈",
    "😇",
    "😨",
    "🤝",
    "✍",
    "🤗",
    "🫡",
    "🎅",
    "🎄",
    "☃",
    "💅",
    "🤪",
    "🗿",
    "🆒",
    "💘",
    "🙉",
    "🦄",
    "😘",
    "💊",
    "🙊",
    "😎",
    "👾",
    "🤷‍♂",
    "🤷",
    "🤷‍♀",
    "😡",
];

impl BotApiState {
    pub(super) fn send_message(&mut self, params: &BotApiParams) -> Result<Value, BotApiError> {
        let text = read_text(params)?;
        let markup = BotApiMarkup::read(params)?;
        let destination = self.destination(params)?;
        self.check_rate("sendMessage", destination.chat, BotApiLoad::Messages(1))?;
        let content = BotApiContent::Text(text);
        let mut message = BotApiMessage::new(BotApiSender::Bot, destination.thread, content);
        message.markup = markup;
        let id = self.post(&destination, message);
        Ok(self.message_json(destination.chat, id))
    }

    pub(super) fn send_message_draft(&mut self, params: &BotApiParams) -> Result<(), BotApiError> {
        let text = BotApiText::read(params, "text", "entities")?;
        if text.is_empty() && !self.options.allow_empty_drafts {
            return Err(BotApiError::bad_request("text must be non-empty"));
        }
        if text.utf16_length() > MAX_TEXT {
            return Err(BotApiError::bad_request("message is too long"));
        }
        let reason = "draft identifier must be non-zero";
        let draft_id = params.number("draft_id").filter(|id| *id != 0);
        let draft_id = draft_id.ok_or_else(|| BotApiError::bad_request(reason))?;
        let destination = self.destination(params)?;
        if !self.chats.get(&destination.chat).is_some_and(BotApiChat::is_private) {
            return Err(BotApiError::bad_request("TEXTDRAFT_PEER_INVALID"));
        }
        self.check_rate("sendMessageDraft", destination.chat, BotApiLoad::Draft)?;
        let at = self.now();
        if let Some(chat) = self.chats.get_mut(&destination.chat) {
            chat.drafts.insert((destination.thread, draft_id), BotApiDraft { text, at });
        }
        Ok(())
    }

    pub(super) fn edit_message_text(
        &mut self,
        params: &BotApiParams,
    ) -> Result<Value, BotApiError> {
        let id = params.message_id()?;
        let (text, markup) = (read_text(params)?, BotApiMarkup::read(params)?);
        self.edit("editMessageText", params, id, markup, |content| match content {
            BotApiContent::Text(old) => Ok(replace(old, text)),
            BotApiContent::Media { .. } | BotApiContent::Service(..) => {
                Err(BotApiError::bad_request("there is no text in the message to edit"))
            }
        })
    }

    pub(super) fn edit_message_caption(
        &mut self,
        params: &BotApiParams,
    ) -> Result<Value, BotApiError> {
        let id = params.message_id()?;
        let (text, markup) = (read_caption(params)?, BotApiMarkup::read(params)?);
        self.edit("editMessageCaption", params, id, markup, |content| match content {
            BotApiContent::Media { caption, .. } => Ok(replace(caption, text)),
            BotApiContent::Text(_) | BotApiContent::Service(..) => {
                Err(BotApiError::bad_request("there is no caption in the message to edit"))
            }
        })
    }

    pub(super) fn edit_message_reply_markup(
        &mut self,
        params: &BotApiParams,
    ) -> Result<Value, BotApiError> {
        let (id, markup) = (params.message_id()?, BotApiMarkup::read(params)?);
        self.edit("editMessageReplyMarkup", params, id, markup, |_| Ok(false))
    }

    /// Edits one of the bot's own messages. `change` returns whether the content differs.
    ///
    /// An edit without `reply_markup` removes the buttons.
    fn edit(
        &mut self,
        method: &str,
        params: &BotApiParams,
        id: BotApiMessageId,
        markup: Option<BotApiMarkup>,
        change: impl FnOnce(&mut BotApiContent) -> Result<bool, BotApiError>,
    ) -> Result<Value, BotApiError> {
        if matches!(markup, Some(BotApiMarkup::UserKeyboard(_))) {
            return Err(BotApiError::bad_request("inline keyboard expected"));
        }
        let chat = self.chat_of(params)?.id;
        self.check_rate(method, chat, BotApiLoad::Messages(1))?;
        let now = self.now();
        let message = self.chats.get_mut(&chat).and_then(|it| it.message_mut(id));
        let Some(message) = message else {
            return Err(BotApiError::bad_request("message to edit not found"));
        };
        let is_service = matches!(message.content, BotApiContent::Service(..));
        if message.from != BotApiSender::Bot || is_service {
            return Err(BotApiError::bad_request("message can't be edited"));
        }
        let old_markup = message.markup.as_ref().filter(|it| !it.rows().is_empty());
        let same_markup = old_markup == markup.as_ref();
        if !change(&mut message.content)? && same_markup {
            return Err(BotApiError::bad_request(NOT_MODIFIED));
        }
        message.markup = markup;
        message.edited_at = Some(now);
        message.edit_count += 1;
        Ok(self.message_json(chat, id))
    }

    pub(super) fn delete_message(&mut self, params: &BotApiParams) -> Result<(), BotApiError> {
        let id = params.message_id()?;
        let now = self.now();
        let Some(message) = self.chat_of(params)?.message_mut(id) else {
            return Err(BotApiError::bad_request("message to delete not found"));
        };
        if now > message.at + DELETION_PERIOD {
            return Err(BotApiError::bad_request("message can't be deleted for everyone"));
        }
        message.deleted = true;
        Ok(())
    }

    /// Skips the messages that do not exist or are too old.
    pub(super) fn delete_messages(&mut self, params: &BotApiParams) -> Result<(), BotApiError> {
        let ids = params.json("message_ids")?.unwrap_or_default();
        let ids = ids.as_array().map(Vec::as_slice).unwrap_or_default();
        match ids.len() {
            0 => return Err(BotApiError::bad_request("message identifiers are not specified")),
            1..=100 => {}
            _ => return Err(BotApiError::bad_request("too many message identifiers specified")),
        }
        let now = self.now();
        let chat = self.chat_of(params)?;
        for id in ids.iter().filter_map(Value::as_i64) {
            if let Some(message) = chat.message_mut(BotApiMessageId(id))
                && now <= message.at + DELETION_PERIOD
            {
                message.deleted = true;
            }
        }
        Ok(())
    }

    pub(super) fn pin_chat_message(&mut self, params: &BotApiParams) -> Result<(), BotApiError> {
        let id = params.message_id()?;
        let chat = self.chat_of(params)?;
        if chat.message(id).is_none() {
            return Err(BotApiError::bad_request("message to pin not found"));
        }
        chat.pinned.retain(|it| *it != id);
        chat.pinned.push(id);
        Ok(())
    }

    pub(super) fn set_message_reaction(
        &mut self,
        params: &BotApiParams,
    ) -> Result<(), BotApiError> {
        let id = params.message_id()?;
        let given = params.json("reaction")?.unwrap_or_default();
        let mut reactions = Vec::new();
        for reaction in given.as_array().map(Vec::as_slice).unwrap_or_default() {
            // Keyboards add a variation selector, which is not part of Telegram's name.
            let emoji = reaction["emoji"].as_str().unwrap_or_default().replace('\u{fe0f}', "");
            if reaction["type"] != "emoji" || !REACTIONS.contains(&emoji.as_str()) {
                return Err(BotApiError::bad_request("REACTION_INVALID"));
            }
            reactions.push(emoji);
        }
        if reactions.len() > 1 {
            return Err(BotApiError::bad_request("REACTIONS_TOO_MANY"));
        }
        let Some(message) = self.chat_of(params)?.message_mut(id) else {
            return Err(BotApiError::bad_request("message to react not found"));
        };
        message.reactions = reactions;
        Ok(())
    }
}

fn read_text(params: &BotApiParams) -> Result<BotApiText, BotApiError> {
    if params.text("text").is_empty() {
        return Err(BotApiError::bad_request("message text is empty"));
    }
    let text = BotApiText::read(params, "text", "entities")?;
    if text.is_empty() {
        return Err(BotApiError::bad_request("text must be non-empty"));
    }
    if text.utf16_length() > MAX_TEXT {
        return Err(BotApiError::bad_request("message is too long"));
    }
    Ok(text)
}

/// Replaces a text. Returns whether the new one differs.
fn replace(old: &mut BotApiText, new: BotApiText) -> bool {
    let changed = (&old.text, &old.entities) != (&new.text, &new.entities);
    *old = new;
    changed
}
