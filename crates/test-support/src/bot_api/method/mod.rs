//! The methods of the Bot API, carried out on the world.
//!
//! Each checks in the order of the real server: the parameters, then the chat, then the rate, then
//! what is asked of it. A call that is refused before its rate is looked at costs nothing.

mod about;
mod delete;
mod draft;
mod edit;
mod media;
mod react;
mod send;
mod topic;

use serde_json::{Value, json};

use super::params::Params;
use super::refusal::Refusal;
use super::world::World;

pub(super) use media::LARGEST_UPLOAD;

/// Carries a call out. `getUpdates` waits, so it is not here.
pub(super) fn carry_out(
    world: &mut World,
    method: &str,
    params: &Params,
) -> Result<Value, Refusal> {
    let done = |outcome: Result<(), Refusal>| outcome.map(|()| json!(true));
    match method.to_ascii_lowercase().as_str() {
        "getme" => Ok(world.get_me()),
        "getchat" => world.get_chat(params),
        "getfile" => world.files.get(&params.text("file_id")),
        "getmycommands" => world.commands.get(params),
        "setmycommands" => done(world.commands.set(params)),
        "deletemycommands" => done(world.commands.delete(params)),
        "setwebhook" => done(world.set_webhook(params)),
        "deletewebhook" => {
            world.delete_webhook(params);
            Ok(json!(true))
        }
        "getwebhookinfo" => Ok(world.webhook.info(&world.clock, world.updates.len())),
        "sendmessage" => world.send_message(params),
        "sendmessagedraft" => done(world.send_message_draft(params)),
        "sendphoto" => world.send_photo(params),
        "senddocument" => world.send_document(params),
        "sendmediagroup" => world.send_media_group(params),
        "sendchataction" => done(world.send_chat_action(params)),
        "editmessagetext" => world.edit_message_text(params),
        "editmessagecaption" => world.edit_message_caption(params),
        "editmessagereplymarkup" => world.edit_message_reply_markup(params),
        "deletemessage" => done(world.delete_message(params)),
        "deletemessages" => done(world.delete_messages(params)),
        "answercallbackquery" => {
            let (now, life) = (world.now(), world.options.callback_life);
            done(world.callbacks.answer(now, life, params))
        }
        "setmessagereaction" => done(world.set_message_reaction(params)),
        "pinchatmessage" => done(world.pin_chat_message(params)),
        "createforumtopic" => world.create_forum_topic(params),
        "editforumtopic" => done(world.edit_forum_topic(params)),
        "closeforumtopic" => done(world.close_forum_topic(params)),
        "reopenforumtopic" => done(world.reopen_forum_topic(params)),
        "deleteforumtopic" => done(world.delete_forum_topic(params)),
        _ => Err(Refusal::not_found()),
    }
}
