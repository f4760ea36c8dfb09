//! A reply made ready to be sent.
//!
//! Everything that does not depend on the request is rendered once and shared by all who get the
//! reply; the message's id, its model and its counts are put around it. What happens on the way
//! (waits, faults) is a list of [`Act`]s, so a test can read it without a socket.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::scenario::{Block, Fault, Reply, Trouble};

use super::act::{self, Act, CHUNK};
use super::composer::Composer;
use super::event::{Content, Event, Message, Stop, write_json};
use super::ids::Ids;
use super::recording::Recording;
use super::refusal::Refusal;
use super::request::Request;
use super::usage::{Moment, Usage};

/// A reply made ready.
#[derive(Debug)]
pub(super) struct Answer {
    /// The gate it waits at before its first byte.
    pub(super) hold: Option<String>,
    pub(super) matter: Matter,
}

/// What an answer consists of.
#[derive(Debug)]
pub(super) enum Matter {
    Message(Prepared),
    Refusal(Refusal),
    Recording(Arc<Recording>),
}

/// A message, ready but for what the request decides.
#[derive(Debug)]
pub(super) struct Prepared {
    content: Box<RawValue>,
    stop: String,
    usage: Option<Map<String, Value>>,
    output_tokens: u64,
    /// What happens between `message_start` and `message_delta`.
    acts: Vec<Act>,
    /// Whether `message_delta` and what follows it are sent.
    ends: bool,
    pub(super) trouble: Option<Trouble>,
}

impl Answer {
    /// Makes a reply ready. Calls without an id get one, so such a reply is made ready for each use.
    pub(super) fn prepare(reply: &Reply, ids: &Ids) -> Self {
        let hold = reply.hold.as_ref().filter(|it| it.after.is_none()).map(|it| it.name.clone());
        let matter = match &reply.fault {
            Some(Fault::Status { status, kind, message, headers }) => {
                Matter::Refusal(Refusal::new(*status, kind, message).with_headers(headers))
            }
            _ => Matter::Message(Prepared::new(reply, ids)),
        };
        Self { hold, matter }
    }

    pub(super) fn of_text(text: String, ids: &Ids) -> Self {
        Self::prepare(&Reply { blocks: vec![Block::Text(text)], ..Reply::default() }, ids)
    }
}

impl Prepared {
    /// Whether it has no block: then its trouble is all there is to it.
    pub(super) fn is_empty(&self) -> bool {
        self.content.get() == "[]"
    }

    fn new(reply: &Reply, ids: &Ids) -> Self {
        // What a block needs beside itself: a call its id, thoughts their signature.
        let marks: Vec<String> = reply.blocks.iter().map(|block| mark(block, ids)).collect();
        let blocks = || reply.blocks.iter().zip(&marks);
        let whole: Vec<Content<'_>> = blocks().map(|(block, mark)| whole(block, mark)).collect();
        let content = serde_json::value::to_raw_value(&whole).expect("text and values are JSON");

        let called = reply.blocks.iter().any(|block| match block {
            Block::Tool { .. } => true,
            Block::Raw(value) => value["type"] == "tool_use",
            Block::Text(_) | Block::Thinking(_) => false,
        });
        let usual = if called { "tool_use" } else { "end_turn" };
        let stop = reply.stop.clone().unwrap_or_else(|| usual.to_owned());

        let mut composer = Composer::new(reply);
        for (index, (block, mark)) in blocks().enumerate() {
            composer.block(index, block, mark);
        }
        let (acts, deltas, ends) = composer.finish();
        let trouble = match &reply.fault {
            Some(Fault::After { trouble, .. }) => Some(trouble.clone()),
            _ => None,
        };
        let output_tokens = deltas.max(1) as u64;
        Self { content, stop, usage: reply.usage.clone(), output_tokens, acts, ends, trouble }
    }

    /// All that happens when it is sent as a stream.
    pub(super) fn stream(&self, request: &Request<'_>, id: &str, input_tokens: u64) -> Vec<Act> {
        let mut buffer = Vec::with_capacity(2048);
        let nothing = RawValue::from_string("[]".to_owned()).expect("it is JSON");
        let names = (&*request.model, id);
        let usage = self.usage(Moment::Start, input_tokens);
        let message = Message::new(names, &nothing, Stop::default(), usage);
        Event::MessageStart { message }.write_to(&mut buffer);

        let mut acts = Vec::with_capacity(self.acts.len() + 2);
        for act in &self.acts {
            match act {
                // Copying a small piece is cheaper than a write of its own.
                Act::Send(bytes) if buffer.len() + bytes.len() <= CHUNK => {
                    buffer.extend_from_slice(bytes);
                    continue;
                }
                _ => {}
            }
            act::flush(&mut buffer, &mut acts);
            acts.push(act.clone());
        }
        if self.ends {
            let usage = self.usage(Moment::End, input_tokens);
            Event::MessageDelta { delta: self.stop(request), usage }.write_to(&mut buffer);
            Event::MessageStop.write_to(&mut buffer);
        }
        act::flush(&mut buffer, &mut acts);
        acts
    }

    /// The message in one piece.
    pub(super) fn whole(&self, request: &Request<'_>, id: &str, input_tokens: u64) -> Bytes {
        let usage = self.usage(Moment::Whole, input_tokens);
        let mut body = Vec::with_capacity(512 + self.content.get().len());
        let names = (&*request.model, id);
        write_json(&Message::new(names, &self.content, self.stop(request), usage), &mut body);
        body.into()
    }

    fn usage(&self, at: Moment, input_tokens: u64) -> Usage<'_> {
        Usage { at, input_tokens, output_tokens: self.output_tokens, given: self.usage.as_ref() }
    }

    fn stop<'a>(&'a self, request: &'a Request<'_>) -> Stop<'a> {
        let sequence = (self.stop == "stop_sequence").then(|| request.stop_sequence()).flatten();
        Stop { stop_reason: Some(&self.stop), stop_sequence: sequence }
    }
}

/// What is made up for a block: the id of a call, the signature of thoughts.
fn mark(block: &Block, ids: &Ids) -> String {
    match block {
        Block::Tool { id, .. } => id.clone().unwrap_or_else(|| ids.call()),
        Block::Thinking(thinking) => signature(thinking),
        Block::Text(_) | Block::Raw(_) => String::new(),
    }
}

/// A block as it stands in the whole message.
fn whole<'a>(block: &'a Block, mark: &'a str) -> Content<'a> {
    match block {
        Block::Text(text) => Content::Text { text },
        Block::Thinking(thinking) => Content::Thinking { thinking, signature: mark },
        Block::Tool { name, input, .. } => Content::ToolUse { id: mark, name, input },
        Block::Raw(value) => Content::Raw(value),
    }
}

/// A signature for thoughts: opaque to clients, which only hand it back.
fn signature(thinking: &str) -> String {
    let sum = thinking.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("EqoBCkgIARABGAIiQ{sum:016x}{:016x}==", sum.rotate_left(29))
}
