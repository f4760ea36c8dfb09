//! `sendMessageDraft`: a text that is still being written.

use crate::bot_api::chat::Sketch;
use crate::bot_api::limiter::Load;
use crate::bot_api::params::Params;
use crate::bot_api::refusal::Refusal;
use crate::bot_api::rich::Rich;
use crate::bot_api::world::World;

use super::send::LONGEST_TEXT;

impl World {
    pub(super) fn send_message_draft(&mut self, params: &Params) -> Result<(), Refusal> {
        let rich = Rich::read(params, "text", "entities")?;
        if rich.is_empty() && !self.options.empty_drafts {
            return Err(Refusal::bad("text must be non-empty"));
        }
        if rich.units() > LONGEST_TEXT {
            return Err(Refusal::bad("message is too long"));
        }
        let number = params.number("draft_id").filter(|id| *id != 0);
        let number = number.ok_or_else(|| Refusal::bad("draft identifier must be non-zero"))?;
        let place = self.place(params)?;
        if !self.chats.get(&place.chat).is_some_and(super::super::chat::Chat::is_private) {
            return Err(Refusal::bad("TEXTDRAFT_PEER_INVALID"));
        }
        self.admit("sendMessageDraft", place.chat, Load::Draft)?;
        let at = self.now();
        if let Some(chat) = self.chats.get_mut(&place.chat) {
            chat.drafts.insert((place.thread, number), Sketch { rich, at });
        }
        Ok(())
    }
}
