//! Side questions: asked with the conversation in view, answered beside it.
//!
//! Nothing of them is kept: neither the question nor the answer becomes part of the history.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Session;
use super::talk::Speaker;
use crate::play::effect::{Effect, RequestNumber};
use crate::play::input::Reply;
use crate::play::message::Message;
use crate::play::tally::Tokens;
use crate::play::wording;

/// Side questions that the model has yet to answer.
#[derive(Debug, Default)]
pub(crate) struct Asides {
    open: BTreeMap<RequestNumber, Aside>,
}

#[derive(Debug)]
struct Aside {
    /// The control request that asked it.
    request: Value,
    message: Option<Message>,
}

impl Asides {
    /// Whether every question is answered.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl Aside {
    /// Takes a part of the answer; whether no more will come.
    fn take(&mut self, reply: &Reply) -> bool {
        match reply {
            Reply::Opened(_) => false,
            Reply::Event(event) if event["type"] == "message_start" => {
                self.message = Some(Message::start(event));
                false
            }
            Reply::Event(event) => {
                if let Some(message) = &mut self.message {
                    message.take(event);
                }
                event["type"] == "error" || self.message.as_ref().is_some_and(|it| it.complete)
            }
            Reply::Message(message) => {
                self.message = Some(Message::whole(message));
                true
            }
            Reply::Ended | Reply::Failed(_) => true,
        }
    }
}

impl Session {
    /// Asks the model beside the conversation.
    pub(super) fn ask_aside(&mut self, id: &Value, request: &Value) {
        let mut body = self.request_body(&Speaker::Main);
        let question = json!([
            { "type": "text", "text": wording::ASIDE },
            { "type": "text", "text": request["question"] },
        ]);
        if let Some(messages) = body["messages"].as_array_mut() {
            messages.push(json!({ "role": "user", "content": question }));
        }
        self.requests += 1;
        let number = self.requests;
        self.asides.open.insert(number, Aside { request: id.clone(), message: None });
        self.effects.push(Effect::Ask { number, body });
    }

    /// Something came of a side question, if the request is one.
    pub(super) fn aside_replied(&mut self, number: RequestNumber, reply: &Reply) {
        let Some(aside) = self.asides.open.get_mut(&number) else { return };
        if !aside.take(reply) {
            return;
        }
        let Some(aside) = self.asides.open.remove(&number) else { return };
        if let Some(message) = &aside.message {
            self.tally.count(&message.model, Tokens::read(&message.usage));
        }
        match aside.message.filter(|message| message.complete).and_then(|it| it.text()) {
            Some(text) => {
                self.succeed(&aside.request, json!({ "response": text, "synthetic": false }));
            }
            None => self.succeed(&aside.request, json!({ "response": null })),
        }
    }
}
