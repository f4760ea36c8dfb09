//! What the bot and its chats are.

use serde_json::{Value, json};

use crate::bot_api::chat::Kind;
use crate::bot_api::params::Params;
use crate::bot_api::refusal::Refusal;
use crate::bot_api::world::World;

const ACTIONS: [&str; 11] = [
    "typing",
    "upload_photo",
    "record_video",
    "upload_video",
    "record_voice",
    "upload_voice",
    "upload_document",
    "choose_sticker",
    "find_location",
    "record_video_note",
    "upload_video_note",
];

impl World {
    pub(super) fn get_me(&self) -> Value {
        let mut bot = self.bot();
        bot["can_join_groups"] = true.into();
        // Here the bot is an administrator of its groups, which shows it every message.
        bot["can_read_all_group_messages"] = true.into();
        bot["supports_inline_queries"] = false.into();
        bot["has_topics_enabled"] = self.options.private_topics.into();
        bot
    }

    pub(super) fn get_chat(&mut self, params: &Params) -> Result<Value, Refusal> {
        let id = self.chat_of(params)?.id;
        let Some(chat) = self.chats.get(&id) else { return Err(Refusal::bad("chat not found")) };
        let mut json = self.chat_json(chat);
        json["accent_color_id"] = 0.into();
        json["max_reaction_count"] = 11.into();
        if matches!(chat.kind, Kind::Group { .. }) {
            json["permissions"] = json!({"can_send_messages": true});
        }
        if let Some(pinned) = chat.pinned.last() {
            json["pinned_message"] = self.message_json(id, *pinned);
        }
        Ok(json)
    }

    pub(super) fn send_chat_action(&mut self, params: &Params) -> Result<(), Refusal> {
        if !ACTIONS.contains(&params.text("action").as_ref()) {
            return Err(Refusal::bad("wrong parameter action in request"));
        }
        self.place(params).map(|_| ())
    }
}
