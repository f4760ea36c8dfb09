//! Taking messages away, and pinning them.

use std::time::Duration;

use crate::bot_api::ids::MessageId;
use crate::bot_api::params::Params;
use crate::bot_api::refusal::Refusal;
use crate::bot_api::world::World;

/// After this long a message stays.
const FINAL: Duration = Duration::from_hours(48);

impl World {
    pub(super) fn delete_message(&mut self, params: &Params) -> Result<(), Refusal> {
        let id = params.message()?;
        let now = self.now();
        let Some(message) = self.chat_of(params)?.message_mut(id) else {
            return Err(Refusal::bad("message to delete not found"));
        };
        if now > message.at + FINAL {
            return Err(Refusal::bad("message can't be deleted for everyone"));
        }
        message.deleted = true;
        Ok(())
    }

    /// Those that are not there are passed over.
    pub(super) fn delete_messages(&mut self, params: &Params) -> Result<(), Refusal> {
        let ids = params.json("message_ids")?.unwrap_or_default();
        let ids = ids.as_array().map(Vec::as_slice).unwrap_or_default();
        match ids.len() {
            0 => return Err(Refusal::bad("message identifiers are not specified")),
            1..=100 => {}
            _ => return Err(Refusal::bad("too many message identifiers specified")),
        }
        let now = self.now();
        let chat = self.chat_of(params)?;
        for id in ids.iter().filter_map(serde_json::Value::as_i64) {
            if let Some(message) = chat.message_mut(MessageId(id))
                && now <= message.at + FINAL
            {
                message.deleted = true;
            }
        }
        Ok(())
    }

    pub(super) fn pin_chat_message(&mut self, params: &Params) -> Result<(), Refusal> {
        let id = params.message()?;
        let chat = self.chat_of(params)?;
        if chat.message(id).is_none() {
            return Err(Refusal::bad("message to pin not found"));
        }
        chat.pinned.retain(|it| *it != id);
        chat.pinned.push(id);
        Ok(())
    }
}
