//! Posts: what must be told, put together into messages.
//!
//! What is silent is merged with whatever silent stands next to it, so that an hour without a
//! network becomes a few messages. An answer stands for itself, with the end of its turn.

use std::borrow::Cow;

use view::telegram::{LIMIT, Look, Mark, Text, prose, turn_end};
use view::{Body, Item, Place, Prompt, Subject, Turn, shortened};
use wire::note::TurnEnding;

use super::nonce::Nonce;
use super::piece::{Fate, Piece, is_plan};
use super::{Chat, words};
use crate::call::{Button, Buttons, Words};
use crate::memory::Sending;

/// Files of a turn that are listed.
const FILES: usize = 10;

/// Characters of a prompt from elsewhere that are repeated.
const QUOTED: usize = 600;

/// Something that must be told.
#[derive(Debug)]
pub(super) struct Post {
    /// What is kept of it once part of it is sent.
    pub(super) sending: Sending,
    /// Its messages.
    pub(super) parts: Vec<Words>,
    /// What is under the last of them.
    pub(super) buttons: Buttons,
    /// Whether the first of them makes a sound.
    pub(super) loud: bool,
}

impl Chat {
    /// What is to be told next, of what stands up to `limit`; nothing where it cannot be said yet.
    pub(super) fn post(&self, limit: Option<Place>) -> Option<Post> {
        if let Some(sending) = self.memory.sending {
            return Some(self.begun(sending));
        }
        let verbosity = self.memory.verbosity;
        let mut chosen: Vec<Piece<'_>> = Vec::new();
        let mut kind = None;
        for piece in self.pieces(verbosity) {
            match piece {
                Piece::Item(item, _) if limit.is_some_and(|limit| item.place > limit) => break,
                Piece::Item(_, Fate::Passed) => {}
                Piece::Item(_, Fate::Held) => break,
                Piece::Item(_, fate) => {
                    if kind.is_some_and(|kind| kind != fate) {
                        break;
                    }
                    kind = Some(fate);
                    chosen.push(piece);
                }
                Piece::End(_) => {
                    if kind != Some(Fate::Silent) {
                        chosen.push(piece);
                    }
                    break;
                }
            }
        }
        let through = chosen.iter().rev().find_map(|piece| match piece {
            Piece::Item(item, _) => Some(item.place),
            Piece::End(_) => None,
        });
        let turn = chosen.last().and_then(|piece| match piece {
            Piece::Item(..) => None,
            Piece::End(turn) => Some(turn.number),
        });
        if chosen.is_empty() {
            return None;
        }
        let through = through.unwrap_or(self.memory.told);
        Some(self.put_together(&chosen, Sending { through, turn, verbosity, sent: 0 }))
    }

    /// The post that was begun, as it was then.
    fn begun(&self, sending: Sending) -> Post {
        let mut chosen = self.pieces(sending.verbosity);
        chosen.retain(|piece| match piece {
            Piece::Item(_, Fate::Passed) => false,
            Piece::Item(item, _) => item.place <= sending.through,
            Piece::End(turn) => sending.turn == Some(turn.number),
        });
        self.put_together(&chosen, sending)
    }

    fn put_together(&self, chosen: &[Piece<'_>], sending: Sending) -> Post {
        let look = Look { base: self.document.head.cwd.as_deref(), full: false };
        let mut text = Text::default();
        let mut calls: Vec<&Item> = Vec::new();
        let (mut loud, mut buttons) = (false, Buttons::new());
        for piece in chosen {
            if let Piece::Item(item, _) = piece
                && matches!(&item.body, Body::Call(call) if !is_plan(call))
            {
                calls.push(item);
                continue;
            }
            words::paragraph(&mut text, &view::telegram::items(&calls, look));
            calls.clear();
            match piece {
                Piece::Item(item, fate) => {
                    loud |= *fate == Fate::Loud;
                    words::paragraph(&mut text, &said(item, look));
                }
                Piece::End(turn) => {
                    let end = end(&self.with_cost(turn), text.is_empty(), look);
                    loud |= !end.is_empty();
                    words::paragraph(&mut text, &end);
                    buttons = self.below(turn);
                }
            }
        }
        words::paragraph(&mut text, &view::telegram::items(&calls, look));
        Post { sending, parts: text.messages(LIMIT), buttons, loud }
    }

    /// The turn without its cost where that cannot be known: the agent tells what all turns of its
    /// process cost together, and the ones before it were not folded.
    fn with_cost<'a>(&self, turn: &'a Turn) -> Cow<'a, Turn> {
        if turn.number >= self.costs_from {
            return Cow::Borrowed(turn);
        }
        Cow::Owned(Turn { cost: None, ..turn.clone() })
    }

    fn below(&self, turn: &Turn) -> Buttons {
        if turn.files.is_empty() {
            return Buttons::new();
        }
        let nonce = Nonce::of_turn(self.memory.session, turn.number);
        let data = nonce.with(&format!("d{}", turn.number));
        vec![vec![Button { label: "Show the changes".to_owned(), data }]]
    }

    /// A post is told up to here.
    pub(super) fn told(&mut self, sending: &Sending) {
        self.memory.told = self.memory.told.max(sending.through);
        self.memory.turn = self.memory.turn.max(sending.turn.unwrap_or(0));
        self.memory.sending = None;
    }
}

/// The end of a turn; nothing where the agent began by itself and had nothing to say.
fn end(turn: &Turn, alone: bool, look: Look<'_>) -> Text {
    let well = matches!(
        turn.end.as_ref().and_then(|end| end.how.as_ref()),
        None | Some(TurnEnding::Completed)
    );
    if alone && well && turn.prompts.is_empty() && turn.files.is_empty() {
        return Text::default();
    }
    let mut text = turn_end(turn);
    for file in turn.files.iter().take(FILES) {
        text.push("\n✎ ");
        text.push_marked(Mark::Code, shortened(&file.path, look.base));
        if file.times > 1 {
            text.push(&format!(" × {}", file.times));
        }
    }
    if turn.files.len() > FILES {
        text.push(&format!("\n… and {} more", turn.files.len() - FILES));
    }
    text
}

fn said(item: &Item, look: Look<'_>) -> Text {
    match &item.body {
        Body::Prompt(prompt) => quoted(prompt),
        Body::Text { text } if item.shed && text.is_empty() => {
            let mut text = Text::default();
            text.push("⚠️ ");
            text.push_marked(
                Mark::Italic,
                "Something was said here while nobody could be told, and there was too much of it. \
                 It is in the session.",
            );
            text
        }
        Body::Call(call) => match call.subject() {
            Subject::Plan(plan) => prose(&plan),
            _ => view::telegram::item(item, look),
        },
        _ => view::telegram::item(item, look),
    }
}

/// A prompt that was written elsewhere.
fn quoted(prompt: &Prompt) -> Text {
    let mut text = Text::default();
    let who = match &prompt.by {
        Some(by) => format!("{} {}:", by.name, words::by_way_of(&by.via)),
        None => "Somebody elsewhere:".to_owned(),
    };
    text.push_marked(Mark::Italic, &who);
    text.push("\n");
    let mut said = words::shortened_to(prompt.text.trim(), QUOTED);
    if prompt.images > 0 {
        let pictures = view::phrase::several(prompt.images, "picture", "pictures");
        said = format!("{said} [{pictures}]");
    }
    text.push_marked(Mark::Quote, said.trim());
    text
}
