//! What follows from how a call went.

use super::Chat;
use super::card::Shown;
use super::order::Task;
use crate::call::{Call, Failure, Reply};
use crate::memory::Sending;

impl Chat {
    pub(super) fn conclude(&mut self, task: Task, call: Call, outcome: Result<Reply, Failure>) {
        match outcome {
            Ok(Reply::Sent(message)) => self.done(task, call, Some(message)),
            Ok(Reply::Done) | Err(Failure::NotModified) => self.done(task, call, None),
            Err(Failure::Tags(_)) if self.untagged.as_ref() != Some(&task) => {
                self.untagged = Some(task);
            }
            Err(Failure::Tags(why) | Failure::Refused(why)) => self.give_up(task, &why),
            Err(Failure::NoSuchMessage) => self.missing(task),
            // Where nobody wants to hear from us, or where there is no such place, there is nothing
            // to do until somebody speaks or the place is another.
            Err(Failure::NotWanted(_) | Failure::NoSuchThread) => self.unwanted = true,
            // The same again; when is not for a chat to say.
            Err(Failure::TooFast(_) | Failure::NotReached(_) | Failure::Unknown(_)) => {}
        }
    }

    fn done(&mut self, task: Task, call: Call, message: Option<crate::MessageId>) {
        if self.untagged.as_ref() == Some(&task) {
            self.untagged = None;
        }
        let is_new = matches!(call, Call::Send(_) | Call::SendFile { .. } | Call::SendText { .. });
        if is_new && task != Task::Progress {
            self.live.is_buried(self.memory.progress.is_some());
        }
        match task {
            Task::Reply => {
                self.replies.pop_front();
            }
            Task::Card(id) => {
                self.card_sent(&id, message);
                self.shows(id, call);
            }
            Task::Recard(id) => self.shows(id, call),
            Task::Settle(id) => self.settle(&id),
            Task::Ask(id, asking) => {
                self.asking.retain(|known| *known != (id.clone(), asking));
                if let (Some(card), Some(message)) = (self.memory.cards.get_mut(&id), message) {
                    let before = card.asking.replace((message, asking));
                    self.litter.extend(before.map(|(message, _)| message));
                }
            }
            Task::Litter(message) => self.litter.retain(|known| *known != message),
            Task::Post(sending, of) => self.part_told(sending, of),
            Task::File => {
                self.files.pop_front();
            }
            Task::Progress => {
                self.memory.progress = message.or(self.memory.progress);
                if let Some((words, buttons)) = said(call) {
                    self.live.shows(Shown { words, buttons });
                }
            }
            Task::Away => {
                self.memory.progress = None;
                self.live.is_away();
            }
            Task::Draft => {
                if let Call::Draft { draft, text, .. } = call {
                    self.live.draft.shows(draft, text);
                }
            }
            Task::Typing | Task::Stray => {}
        }
    }

    fn part_told(&mut self, mut sending: Sending, of: usize) {
        sending.sent += 1;
        if sending.sent < of {
            self.memory.sending = Some(sending);
        } else {
            self.told(&sending);
        }
    }

    fn shows(&mut self, request: String, call: Call) {
        if let Some((words, buttons)) = said(call) {
            self.shown.insert(request, Shown { words, buttons });
        }
    }

    /// The outcome of a request is shown, as well as it could be.
    fn settle(&mut self, request: &str) {
        let outcome = self.outcome(request).unwrap_or_default();
        self.shown.remove(request);
        if let Some(card) = self.memory.cards.get_mut(request) {
            card.settled = true;
            card.outcome = outcome;
            // A late reply to it is still told that it is late.
            self.litter.extend(card.asking.map(|(message, _)| message));
        }
    }

    /// It will not help to try again.
    fn give_up(&mut self, task: Task, why: &str) {
        self.untagged = None;
        match task {
            Task::Reply => {
                self.replies.pop_front();
            }
            Task::Card(id) => {
                self.given_up.insert(id);
                self.apologise("The agent asks something that could not be shown here.", why);
            }
            Task::Recard(id) => {
                self.memory.cards.entry(id.clone()).or_default().message = None;
                self.shown.remove(&id);
                self.given_up.insert(id);
                self.apologise("The agent asks something that could not be shown here.", why);
            }
            Task::Settle(id) => self.settle(&id),
            Task::Ask(id, _) => self.asking.retain(|(known, _)| *known != id),
            Task::Litter(message) => self.litter.retain(|known| *known != message),
            Task::Post(sending, of) => {
                self.part_told(sending, of);
                self.apologise("Something that was said could not be shown here.", why);
            }
            Task::File => {
                let file = self.files.pop_front();
                let name = file.as_ref().and_then(|file| file.path.file_name());
                let name = name.map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
                self.apologise(&format!("The file {name} could not be sent."), why);
            }
            Task::Progress => self.live.is_refused(),
            Task::Away => {
                self.memory.progress = None;
                self.live.is_away();
            }
            Task::Draft => self.live.draft.is_refused(),
            Task::Typing | Task::Stray => {}
        }
    }

    /// The message is not there any more.
    fn missing(&mut self, task: Task) {
        match task {
            Task::Reply => match self.replies.front_mut() {
                // What it answers is gone, not it.
                Some(saying) if saying.to.is_some() => saying.to = None,
                _ => drop(self.replies.pop_front()),
            },
            Task::Recard(id) => {
                self.shown.remove(&id);
                if let Some(card) = self.memory.cards.get_mut(&id) {
                    card.message = None;
                }
            }
            Task::Settle(id) => self.settle(&id),
            Task::Ask(id, _) => {
                if let Some(card) = self.memory.cards.get_mut(&id) {
                    card.message = None;
                }
            }
            Task::Progress | Task::Away => {
                self.memory.progress = None;
                self.live.is_away();
            }
            task => self.give_up(task, "there is no such message"),
        }
    }
}

/// What a call shows.
fn said(call: Call) -> Option<(crate::Words, crate::Buttons)> {
    match call {
        Call::Send(message) => Some((message.words, message.buttons)),
        Call::Edit { words, buttons, .. } => Some((words, buttons)),
        _ => None,
    }
}
