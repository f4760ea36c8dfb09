//! `sendMessage`

use serde_json::Value;

use crate::bot_api::limiter::Load;
use crate::bot_api::markup::Markup;
use crate::bot_api::message::{Content, Message, Sender};
use crate::bot_api::params::Params;
use crate::bot_api::refusal::Refusal;
use crate::bot_api::rich::Rich;
use crate::bot_api::world::World;

/// The longest text, after its tags became entities.
pub(super) const LONGEST_TEXT: usize = 4_096;

impl World {
    pub(super) fn send_message(&mut self, params: &Params) -> Result<Value, Refusal> {
        let rich = text(params)?;
        let markup = Markup::read(params)?;
        let place = self.place(params)?;
        self.admit("sendMessage", place.chat, Load::Messages(1))?;
        let mut message = Message::new(Sender::Bot, place.thread, Content::Text(rich));
        message.markup = markup;
        let id = self.post(&place, message);
        Ok(self.message_json(place.chat, id))
    }
}

/// The text of a message, which must be there and fit.
pub(super) fn text(params: &Params) -> Result<Rich, Refusal> {
    if params.text("text").is_empty() {
        return Err(Refusal::bad("message text is empty"));
    }
    let rich = Rich::read(params, "text", "entities")?;
    if rich.is_empty() {
        return Err(Refusal::bad("text must be non-empty"));
    }
    if rich.units() > LONGEST_TEXT {
        return Err(Refusal::bad("message is too long"));
    }
    Ok(rich)
}
