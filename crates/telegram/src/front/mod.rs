//! What people send: updates of Telegram become [`Deed`]s.
//!
//! Pure. Albums and forwards come as several messages within a moment, so a prompt is put together
//! before it is one. How messages are put together depends on nothing but what they are and when
//! they came: updates that are taken again after a crash, with the moments they first came at, make
//! the same prompts under the same ids.
//!
//! The list of who may use the bot comes first. Whoever is not on it gets no answer, not even that
//! there is a list; nor do bots, channels and whoever speaks in the name of a chat.

mod attachment;
mod command;
mod gathering;
mod part;
mod recent;
mod strangers;
#[cfg(test)]
mod tests;

pub use command::Command;

use std::collections::BTreeSet;

use wire::note::Actor;

use crate::chat::Moment;
use crate::deed::{Deed, Left};
use crate::place::{ChatId, Kind, Place, ThreadId, UserId};
use crate::update::{CallbackQuery, Message, Update, User};
use command::Written;
use gathering::{Gathering, Sender};
use part::Part;
use recent::{Edit, Recent};
use strangers::Strangers;

/// What a front has to know.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Who may use the bot. Nobody, where it is empty.
    pub allow: BTreeSet<UserId>,
    /// The bot itself.
    pub bot: UserId,
    /// Its name for everybody, without the `@`.
    pub username: String,
    /// How many bytes of a file a bot can fetch: [`DOWNLOAD`], or more on a server of one's own.
    pub download: u64,
}

/// How many bytes of a file a bot can fetch from Telegram's own servers.
pub const DOWNLOAD: u64 = 20 << 20;

/// Deeds, in order, and the updates they are made of.
///
/// Every update that is taken comes back in exactly one of these, be it with no deed at all. It is
/// kept on the disk until then, and until the deeds are done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// What is to be done.
    pub deeds: Vec<Deed>,
    /// The updates they are made of.
    pub updates: Vec<i64>,
}

/// Reads what people send.
#[derive(Debug)]
pub struct Front {
    rules: Rules,
    /// At most one for each person in each place.
    gathering: Vec<Gathering>,
    recent: Recent,
    strangers: Strangers,
}

impl Front {
    /// A front that has seen nothing yet.
    pub fn new(rules: Rules) -> Self {
        let (recent, strangers) = (Recent::default(), Strangers::default());
        Self { rules, gathering: Vec::new(), recent, strangers }
    }

    /// Takes an update that came at a moment. Moments count from any fixed point that is the same
    /// for updates kept from an earlier life, such as 1970; what was due before `now` comes first.
    pub fn take(&mut self, update: &Update, now: Moment) -> Vec<Taken> {
        let mut taken = self.due(now);
        let id = update.update_id;
        if self.held().any(|held| held == id) {
            return taken;
        }
        if let Some(message) = &update.message {
            self.message(message, id, now, &mut taken);
        } else if let Some(message) = &update.edited_message {
            self.edited(message, id, now, &mut taken);
        } else {
            let deed = update.callback_query.as_ref().and_then(|tap| self.tapped(tap, now));
            taken.push(Taken { deeds: deed.into_iter().collect(), updates: vec![id] });
        }
        taken
    }

    /// What is put together by now.
    pub fn due(&mut self, now: Moment) -> Vec<Taken> {
        let mut complete: Vec<_> = self.gathering.extract_if(.., |it| it.is_due(now)).collect();
        complete.sort_by_key(Gathering::due);
        complete.into_iter().map(|it| self.finish(it)).collect()
    }

    /// When something will be due.
    pub fn wakes(&self) -> Option<Moment> {
        self.gathering.iter().map(Gathering::due).min()
    }

    /// The updates that have not come back yet.
    pub fn held(&self) -> impl Iterator<Item = i64> {
        self.gathering.iter().flat_map(Gathering::updates).copied()
    }

    fn message(&mut self, message: &Message, id: i64, now: Moment, taken: &mut Vec<Taken>) {
        let nothing = Taken { deeds: Vec::new(), updates: vec![id] };
        if let Some(to) = message.migrate_to_chat_id {
            // Telegram itself says so, whoever it was that changed the group.
            let deed = Deed::Moved { from: message.chat.id, to };
            taken.push(Taken { deeds: vec![deed], ..nothing });
            return;
        }
        let Some(sender) = self.sender(message) else {
            let deed = person(message).and_then(|(from, _)| self.stranger(from, now));
            taken.push(Taken { deeds: deed.into_iter().collect(), ..nothing });
            return;
        };
        match written(message, &self.rules.username) {
            Written::Command(command) => {
                // What was sent before the command is meant before it.
                taken.extend(self.close(&sender));
                let Sender { place, kind, by, .. } = sender;
                let message = message.message_id;
                let deed = Deed::Command { place, kind, message, command, by };
                taken.push(Taken { deeds: vec![deed], ..nothing });
            }
            Written::Elsewhere => taken.push(nothing),
            Written::Words => {
                let part = Part::read(message, &self.rules);
                taken.extend(self.gather(sender, part, id, now));
            }
        }
    }

    /// Puts a message to what it belongs to. What comes back is complete.
    fn gather(&mut self, sender: Sender, mut part: Part, id: i64, now: Moment) -> Vec<Taken> {
        if sender.kind == Kind::Group && matches!(part.left, Some(Left::Unreadable(_))) {
            // Among people, a poll is nothing that one would have to excuse oneself for.
            part.left = None;
        }
        if !part.has_content() && part.left.is_none() {
            return vec![Taken { deeds: Vec::new(), updates: vec![id] }];
        }
        let alone = part.may_answer();
        if let Some(open) = self.open(&sender)
            && !alone
            && open.fits(&part)
        {
            open.add(part, id, now);
        } else {
            let mut taken: Vec<_> = self.close(&sender).into_iter().collect();
            let new = Gathering::begin(sender, part, id, now);
            if alone {
                taken.push(self.finish(new));
            } else {
                self.gathering.push(new);
            }
            return taken;
        }
        self.due(now)
    }

    fn edited(&mut self, message: &Message, id: i64, now: Moment, taken: &mut Vec<Taken>) {
        let nothing = Taken { deeds: Vec::new(), updates: vec![id] };
        let Some(sender) = self.sender(message) else {
            let deed = person(message).and_then(|(from, _)| self.stranger(from, now));
            taken.push(Taken { deeds: deed.into_iter().collect(), ..nothing });
            return;
        };
        let part = Part::read(message, &self.rules);
        if self.gathering.iter_mut().any(|it| it.edit(&part, id)) {
            return;
        }
        // A command is carried out once, whatever becomes of the message.
        let words = written(message, &self.rules.username) == Written::Words;
        let reworded = match words.then(|| self.recent.edit(part)) {
            None | Some(Edit::Nothing) => None,
            Some(Edit::Whole(text)) => Some((text, true)),
            Some(Edit::Part(text)) => Some((text, false)).filter(|(text, _)| !text.is_empty()),
        };
        let (place, message) = (sender.place, message.message_id);
        let deed = reworded.map(|(text, whole)| Deed::Reword { place, message, text, whole });
        taken.push(Taken { deeds: deed.into_iter().collect(), ..nothing });
    }

    fn tapped(&mut self, tap: &CallbackQuery, now: Moment) -> Option<Deed> {
        if !self.rules.allow.contains(&tap.from.id) {
            return self.stranger(&tap.from, now);
        }
        let message = tap.message.as_ref()?;
        Some(Deed::Tap {
            place: place(message),
            kind: kind(&message.chat.kind)?,
            tap: tap.id.clone(),
            message: message.message_id,
            data: tap.data.clone()?,
            by: actor(&tap.from),
        })
    }

    /// Whose message it is, if it is somebody's who may use the bot.
    fn sender(&self, message: &Message) -> Option<Sender> {
        let (from, kind) = person(message)?;
        let allowed = self.rules.allow.contains(&from.id);
        allowed.then(|| Sender { place: place(message), kind, user: from.id, by: actor(from) })
    }

    fn stranger(&mut self, user: &User, now: Moment) -> Option<Deed> {
        let name = part::name(user);
        self.strangers.is_news(user.id, now).then_some(Deed::Stranger { user: user.id, name })
    }

    fn open(&mut self, sender: &Sender) -> Option<&mut Gathering> {
        self.gathering.iter_mut().find(|it| it.place == sender.place && it.user == sender.user)
    }

    /// What somebody sent so far is all there is.
    fn close(&mut self, sender: &Sender) -> Option<Taken> {
        let same = |it: &Gathering| it.place == sender.place && it.user == sender.user;
        let at = self.gathering.iter().position(same)?;
        let complete = self.gathering.remove(at);
        Some(self.finish(complete))
    }

    fn finish(&mut self, complete: Gathering) -> Taken {
        let (taken, parts) = complete.finish(self.rules.bot);
        self.recent.remember(parts);
        taken
    }
}

/// What the words of a message are. Somebody else's words are never a command.
fn written(message: &Message, username: &str) -> Written {
    match &message.text {
        Some(text) if message.forward_origin.is_none() => Written::read(text, username),
        _ => Written::Words,
    }
}

/// The person who wrote a message, if a person did and speaks for themselves.
fn person(message: &Message) -> Option<(&User, Kind)> {
    let from = message.from.as_ref().filter(|it| !it.is_bot && message.sender_chat.is_none())?;
    Some((from, kind(&message.chat.kind)?))
}

fn kind(name: &str) -> Option<Kind> {
    match name {
        "private" => Some(Kind::Private),
        "group" | "supergroup" => Some(Kind::Group),
        _ => None,
    }
}

/// Where a message is. A thread of replies in a group is no topic, and the general topic has no
/// number, though it is 1 where Telegram's clients speak of it.
fn place(message: &Message) -> Place {
    let thread = message.message_thread_id.filter(|_| message.is_topic_message);
    let general = |it: ThreadId| it.0 == 1 && message.chat.id < ChatId(0);
    Place { chat: message.chat.id, thread: thread.filter(|it| !general(*it)) }
}

fn actor(user: &User) -> Actor {
    Actor { name: part::name(user), via: "telegram".to_owned() }
}
