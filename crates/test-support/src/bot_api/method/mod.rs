//! The methods of the Bot API, and those among them that concern the bot itself.
//!
//! Each method checks in the order of the real server: the parameters, the chat, the rate, and then
//! the rest. A call that is rejected before the rate check does not count towards a limit.

mod media;
mod message;
mod topic;

use serde_json::{Value, json};

use super::call::{BotApiError, BotApiParams};
use super::state::{BotApiChatKind, BotApiState};

pub(crate) use media::MAX_UPLOAD;

const CHAT_ACTIONS: [&str; 11] = [
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

/// Carries out a call of any method but `getUpdates`, which waits.
pub(crate) fn execute(
    state: &mut BotApiState,
    method: &str,
    params: &BotApiParams,
) -> Result<Value, BotApiError> {
    let unit = |result: Result<(), BotApiError>| result.map(|()| json!(true));
    match method.to_ascii_lowercase().as_str() {
        "getme" => Ok(state.get_me()),
        "getchat" => state.get_chat(params),
        "getfile" => state.files.get(&params.text("file_id")),
        "getmycommands" => state.commands.get(params),
        "setmycommands" => unit(state.commands.set(params)),
        "deletemycommands" => unit(state.commands.delete(params)),
        "setwebhook" => unit(state.set_webhook(params)),
        "deletewebhook" => {
            state.delete_webhook(params);
            Ok(json!(true))
        }
        "getwebhookinfo" => Ok(state.webhook.info(&state.clock, state.updates.len())),
        "sendmessage" => state.send_message(params),
        "sendmessagedraft" => unit(state.send_message_draft(params)),
        "sendphoto" => state.send_photo(params),
        "senddocument" => state.send_document(params),
        "sendmediagroup" => state.send_media_group(params),
        "sendchataction" => unit(state.send_chat_action(params)),
        "editmessagetext" => state.edit_message_text(params),
        "editmessagecaption" => state.edit_message_caption(params),
        "editmessagereplymarkup" => state.edit_message_reply_markup(params),
        "deletemessage" => unit(state.delete_message(params)),
        "deletemessages" => unit(state.delete_messages(params)),
        "answercallbackquery" => {
            let (now, lifetime) = (state.now(), state.options.callback_lifetime);
            unit(state.callbacks.set_answer(now, lifetime, params))
        }
        "setmessagereaction" => unit(state.set_message_reaction(params)),
        "pinchatmessage" => unit(state.pin_chat_message(params)),
        "createforumtopic" => state.create_forum_topic(params),
        "editforumtopic" => unit(state.edit_forum_topic(params)),
        "closeforumtopic" => unit(state.close_forum_topic(params)),
        "reopenforumtopic" => unit(state.reopen_forum_topic(params)),
        "deleteforumtopic" => unit(state.delete_forum_topic(params)),
        _ => Err(BotApiError::not_found()),
    }
}

impl BotApiState {
    fn get_me(&self) -> Value {
        let mut bot = self.bot_json();
        bot["can_join_groups"] = true.into();
        // The bot is an administrator of its groups, so it receives every message.
        bot["can_read_all_group_messages"] = true.into();
        bot["supports_inline_queries"] = false.into();
        bot["has_topics_enabled"] = self.options.private_topics.into();
        bot
    }

    fn get_chat(&mut self, params: &BotApiParams) -> Result<Value, BotApiError> {
        let id = self.chat_of(params)?.id;
        let Some(chat) = self.chats.get(&id) else {
            return Err(BotApiError::bad_request("chat not found"));
        };
        let mut json = self.chat_json(chat);
        json["accent_color_id"] = 0.into();
        json["max_reaction_count"] = 11.into();
        if matches!(chat.kind, BotApiChatKind::Group { .. }) {
            json["permissions"] = json!({"can_send_messages": true});
        }
        if let Some(pinned) = chat.pinned.last() {
            json["pinned_message"] = self.message_json(id, *pinned);
        }
        Ok(json)
    }

    fn send_chat_action(&mut self, params: &BotApiParams) -> Result<(), BotApiError> {
        if !CHAT_ACTIONS.contains(&params.text("action").as_ref()) {
            return Err(BotApiError::bad_request("wrong parameter action in request"));
        }
        self.destination(params).map(|_| ())
    }
}

/// The bot's command menus, one per scope and language.
#[derive(Debug, Default)]
pub(crate) struct BotApiCommandMenus(Vec<(BotApiCommandScope, Value)>);

/// A scope and a language code.
type BotApiCommandScope = (Value, String);

impl BotApiCommandMenus {
    fn set(&mut self, params: &BotApiParams) -> Result<(), BotApiError> {
        let commands = params.json("commands")?.unwrap_or_default();
        let Some(list) = commands.as_array() else {
            return Err(BotApiError::bad_request(
                "can't parse commands: expected an Array of BotCommand",
            ));
        };
        if list.len() > 100 {
            return Err(BotApiError::bad_request("BOT_COMMANDS_TOO_MUCH"));
        }
        for command in list {
            let is_allowed = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_';
            let name = command["command"].as_str().unwrap_or_default();
            let name = name.strip_prefix('/').unwrap_or(name);
            if !(1..=32).contains(&name.len()) || !name.bytes().all(is_allowed) {
                return Err(BotApiError::bad_request("BOT_COMMAND_INVALID"));
            }
            let description = command["description"].as_str().unwrap_or_default();
            if !(1..=256).contains(&description.chars().count()) {
                return Err(BotApiError::bad_request("BOT_COMMAND_DESCRIPTION_INVALID"));
            }
        }
        let scope = read_scope(params)?;
        self.0.retain(|(it, _)| *it != scope);
        if !list.is_empty() {
            self.0.push((scope, commands));
        }
        Ok(())
    }

    fn get(&self, params: &BotApiParams) -> Result<Value, BotApiError> {
        let scope = read_scope(params)?;
        let found = self.0.iter().find(|(it, _)| *it == scope);
        Ok(found.map_or_else(|| json!([]), |(_, commands)| commands.clone()))
    }

    fn delete(&mut self, params: &BotApiParams) -> Result<(), BotApiError> {
        let scope = read_scope(params)?;
        self.0.retain(|(it, _)| *it != scope);
        Ok(())
    }
}

fn read_scope(params: &BotApiParams) -> Result<BotApiCommandScope, BotApiError> {
    let scope = params.json("scope")?.unwrap_or_else(|| json!({"type": "default"}));
    Ok((scope, params.text("language_code").into_owned()))
}
