//! `setMessageReaction`

use crate::bot_api::params::Params;
use crate::bot_api::refusal::Refusal;
use crate::bot_api::world::World;

/// The emoji that may be a reaction.
const ALLOWED: [&str; 73] = [
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

impl World {
    pub(super) fn set_message_reaction(&mut self, params: &Params) -> Result<(), Refusal> {
        let id = params.message()?;
        let given = params.json("reaction")?.unwrap_or_default();
        let mut reactions = Vec::new();
        for reaction in given.as_array().map(Vec::as_slice).unwrap_or_default() {
            // The variation selector that keyboards add is no part of the name.
            let emoji = reaction["emoji"].as_str().unwrap_or_default().replace('\u{fe0f}', "");
            if reaction["type"] != "emoji" || !ALLOWED.contains(&emoji.as_str()) {
                return Err(Refusal::bad("REACTION_INVALID"));
            }
            reactions.push(emoji);
        }
        if reactions.len() > 1 {
            return Err(Refusal::bad("REACTIONS_TOO_MANY"));
        }
        let Some(message) = self.chat_of(params)?.message_mut(id) else {
            return Err(Refusal::bad("message to react not found"));
        };
        message.reactions = reactions;
        Ok(())
    }
}
