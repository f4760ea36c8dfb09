//! Changing what was said. Buttons that an edit does not name again are gone.

use serde_json::Value;

use crate::bot_api::ids::{ChatId, MessageId};
use crate::bot_api::limiter::Load;
use crate::bot_api::markup::Markup;
use crate::bot_api::message::{Content, Sender};
use crate::bot_api::params::Params;
use crate::bot_api::refusal::Refusal;
use crate::bot_api::rich::Rich;
use crate::bot_api::world::World;

use super::media::caption;
use super::send::text;

const SAME: &str = "message is not modified: specified new message content and reply markup are \
                    exactly the same as a current content and reply markup of the message";

impl World {
    pub(super) fn edit_message_text(&mut self, params: &Params) -> Result<Value, Refusal> {
        let (id, rich, markup) = (params.message()?, text(params)?, Markup::read(params)?);
        self.edit("editMessageText", params, id, markup, |content| match content {
            Content::Text(old) => Ok(replace(old, rich)),
            Content::Media { .. } | Content::Note(..) => {
                Err(Refusal::bad("there is no text in the message to edit"))
            }
        })
    }

    pub(super) fn edit_message_caption(&mut self, params: &Params) -> Result<Value, Refusal> {
        let (id, rich, markup) = (params.message()?, caption(params)?, Markup::read(params)?);
        self.edit("editMessageCaption", params, id, markup, |content| match content {
            Content::Media { caption, .. } => Ok(replace(caption, rich)),
            Content::Text(_) | Content::Note(..) => {
                Err(Refusal::bad("there is no caption in the message to edit"))
            }
        })
    }

    pub(super) fn edit_message_reply_markup(&mut self, params: &Params) -> Result<Value, Refusal> {
        let (id, markup) = (params.message()?, Markup::read(params)?);
        self.edit("editMessageReplyMarkup", params, id, markup, |_| Ok(false))
    }

    /// Edits one of the bot's own messages; `change` says whether the content became another.
    fn edit(
        &mut self,
        method: &str,
        params: &Params,
        id: MessageId,
        markup: Option<Markup>,
        change: impl FnOnce(&mut Content) -> Result<bool, Refusal>,
    ) -> Result<Value, Refusal> {
        if matches!(markup, Some(Markup::Keyboard(_))) {
            return Err(Refusal::bad("inline keyboard expected"));
        }
        let chat = self.chat_of(params)?.id;
        self.admit(method, chat, Load::Messages(1))?;
        let now = self.now();
        let message = self.chats.get_mut(&chat).and_then(|it| it.message_mut(id));
        let Some(message) = message else {
            return Err(Refusal::bad("message to edit not found"));
        };
        if message.from != Sender::Bot || matches!(message.content, Content::Note(..)) {
            return Err(Refusal::bad("message can't be edited"));
        }
        let old = message.markup.as_ref().filter(|it| !it.rows().is_empty());
        let same = old == markup.as_ref();
        if !change(&mut message.content)? && same {
            return Err(Refusal::bad(SAME));
        }
        message.markup = markup;
        message.edited = Some(now);
        message.edits += 1;
        Ok(self.message_json(chat, id))
    }

    /// What a person does to a message of theirs.
    pub(in crate::bot_api) fn user_edit(&mut self, chat: ChatId, id: MessageId, rich: Rich) {
        let now = self.now();
        let message = self.chats.get_mut(&chat).and_then(|it| it.message_mut(id));
        let Some(message) = message else { return };
        match &mut message.content {
            Content::Text(old) | Content::Media { caption: old, .. } => *old = rich,
            Content::Note(..) => return,
        }
        message.edited = Some(now);
        message.edits += 1;
        let json = self.message_json(chat, id);
        self.updates.add(now, "edited_message", json);
    }
}

fn replace(old: &mut Rich, new: Rich) -> bool {
    let changed = (&old.text, &old.entities) != (&new.text, &new.entities);
    *old = new;
    changed
}
