//! What people want, set going.

use tracing::{debug, warn};

use super::Desk;
use super::errand::{Errand, What};
use crate::call::Call;
use crate::chat::Meaning;
use crate::deed::Deed;
use crate::front::Command;
use crate::place::{MessageId, Place};
use crate::replies::{self, Said};

/// How much a place is told where nobody said.
const VERBOSITY: u8 = 1;

/// The longest answer to a tap that Telegram shows, in characters.
const LONGEST_WORD: usize = 180;

/// How a tap or a reply comes about.
struct Wanted {
    place: Place,
    message: Option<MessageId>,
    by: wire::note::Actor,
    updates: Vec<i64>,
    /// The tap to be answered.
    tap: Option<String>,
}

impl Desk {
    /// Sets going what somebody wants.
    pub(super) async fn deed(&mut self, deed: Deed, updates: Vec<i64>) {
        let (place, kind) = match &deed {
            Deed::Prompt(draft) => (draft.place, Some(draft.kind)),
            Deed::Command { place, kind, .. }
            | Deed::Tap { place, kind, .. }
            | Deed::Left { place, kind, .. } => (*place, Some(*kind)),
            Deed::Reword { place, .. } => (*place, None),
            Deed::Moved { from, to } => {
                self.moved(*from, *to).await;
                return self.forget(updates).await;
            }
            Deed::Stranger { user, name } => {
                warn!(user = user.0, name, "somebody who is not allowed wrote to the bot");
                return self.forget(updates).await;
            }
        };
        match kind {
            Some(kind) => drop(self.booth(place, kind)),
            None if self.booths.contains_key(&place) => {}
            None => return self.forget(updates).await,
        }
        let Some(booth) = self.booths.get_mut(&place) else { return };
        if !booth.is_ready() {
            // What it means depends on what the chat shows.
            booth.early.push((deed, updates));
            return;
        }
        booth.with(crate::chat::Chat::spoken_to);
        match deed {
            Deed::Prompt(draft) => {
                let (message, by) = (draft.messages.first().copied(), draft.by.clone());
                let answered = draft
                    .reply_to
                    .and_then(|to| booth.with(|chat| chat.replied(to, &draft.text)).flatten());
                if let Some(meaning) = answered {
                    let wanted = Wanted { place, message, by, updates, tap: None };
                    self.meant(meaning, wanted).await;
                } else {
                    let what = What::Prompt(Box::new(draft));
                    self.errand(Errand { what, place, message, by, updates }).await;
                }
            }
            Deed::Reword { message, text, whole, .. } => {
                self.reword(place, message, text, whole, updates).await;
            }
            Deed::Command { message, command: Command::Verbose(None), .. } => {
                let level = booth.memory().map_or(VERBOSITY, |it| it.verbosity);
                self.say(place, &replies::verbosity(level), Some(message));
                self.forget(updates).await;
            }
            Deed::Command { message, command: Command::Stop, by, .. } => {
                // Stopping does not wait behind what is to be stopped.
                let message = Some(message);
                let errand = Errand { what: What::Stop, place, message, by, updates };
                self.do_now(errand, None).await;
            }
            Deed::Command { message, command, by, .. } => {
                let (what, message) = (What::Command(command), Some(message));
                self.errand(Errand { what, place, message, by, updates }).await;
            }
            Deed::Tap { tap, message, data, by, .. } => {
                let meaning = match replies::meaning(&data) {
                    Some(meaning) => Some(meaning),
                    None => booth.with(|chat| chat.tapped(message, &data, &by)),
                };
                let meaning = meaning.unwrap_or_else(|| Meaning::Stale(replies::too_old()));
                let (message, tap) = (Some(message), Some(tap));
                self.meant(meaning, Wanted { place, message, by, updates, tap }).await;
            }
            Deed::Left { message, what, .. } => {
                self.say(place, &replies::left(&what), Some(message));
                self.forget(updates).await;
            }
            Deed::Moved { .. } | Deed::Stranger { .. } => {}
        }
    }

    /// Does what a tap, or a reply to a card, means.
    async fn meant(&mut self, meaning: Meaning, wanted: Wanted) {
        let Wanted { place, message, by, updates, tap } = wanted;
        // The chat may have changed by it: a choice was ticked.
        self.keep(place).await;
        let errand = |what| Errand { what, place, message, by, updates };
        match meaning {
            Meaning::Answer { request, answer } => {
                self.do_now(errand(What::Answer { request, answer }), tap).await;
            }
            Meaning::Stop => self.do_now(errand(What::Stop), tap).await,
            Meaning::Unqueue(prompt) => self.do_now(errand(What::Unqueue(prompt)), tap).await,
            Meaning::Diff { turn } => {
                self.answer(tap, None);
                self.do_now(errand(What::Diff { turn: Some(turn) }), None).await;
            }
            // They change what the place shows, so they wait their turn like what is written.
            Meaning::Resume(session) => {
                self.answer(tap, None);
                self.errand(errand(What::Resume(session))).await;
            }
            Meaning::Command(command) => {
                self.answer(tap, None);
                self.errand(errand(What::Command(command))).await;
            }
            Meaning::Card => {
                self.answer(tap, None);
                let Errand { updates, .. } = errand(What::Stop);
                self.forget(updates).await;
            }
            Meaning::Stale(why) => {
                let Errand { updates, .. } = errand(What::Stop);
                match tap {
                    Some(_) => self.answer(tap, Some(why)),
                    None => self.say(place, &Said::from(why), message),
                }
                self.forget(updates).await;
            }
        }
    }

    async fn reword(
        &mut self,
        place: Place,
        message: MessageId,
        text: String,
        whole: bool,
        updates: Vec<i64>,
    ) {
        let memory = self.booths.get(&place).and_then(|booth| booth.memory());
        let prompts = memory.map(|memory| &memory.prompts);
        let prompt = prompts.and_then(|it| it.get(&message)).copied();
        let Some(prompt) = prompt else { return self.forget(updates).await };
        let parts = prompts.map_or(0, |it| it.values().filter(|it| **it == prompt).count());
        if !whole && parts > 1 {
            // Nobody knows any more what the other messages said.
            self.say(place, &replies::too_late_to_reword(), Some(message));
            return self.forget(updates).await;
        }
        let by = wire::note::Actor { name: String::new(), via: "telegram".to_owned() };
        let (what, message) = (What::Reword { prompt, text }, Some(message));
        self.errand(Errand { what, place, message, by, updates }).await;
    }

    fn say(&mut self, place: Place, said: &Said, to: Option<MessageId>) {
        if let Some(booth) = self.booths.get_mut(&place) {
            booth.asides.say(place, said, to);
            booth.stir();
        }
    }

    /// Answers a tap, outside of any queue.
    fn answer(&mut self, tap: Option<String>, word: Option<String>) {
        if let Some(tap) = tap {
            let bot = self.means.bot.clone();
            self.work.spawn(async move { answer_tap(&bot, tap, word).await });
        }
    }
}

pub(super) async fn answer_tap(bot: &crate::bot::Bot, tap: String, word: Option<String>) {
    let text = word.map(|word| match word.char_indices().nth(LONGEST_WORD) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word,
    });
    let call = Call::Answer { tap, text, alert: false };
    if let Err(trouble) = bot.call(&call).await {
        // It may be too old; whoever tapped sees the card.
        debug!(%trouble, "a tap could not be answered");
    }
}
