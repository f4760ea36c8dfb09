//! Tokens, counted once.
//!
//! The CLI writes a line per content block, each with the usage of the whole message as known by
//! then; adding them up counts a message several times. So usage is kept by `message.id`, and the
//! last value wins: that of a later line about the message, or of its `message_delta`, which alone
//! has the final number of output tokens. Sub-agents have messages of their own and count.

use std::collections::HashMap;

use crate::event::{Body, Event, Message, Stream, Usage};

/// Tokens of a session, each message counted once.
#[derive(Debug, Default)]
pub struct Tally {
    by_message: HashMap<String, Usage>,
    /// The message being written, by the call its sub-agent belongs to.
    open: HashMap<Option<String>, String>,
    /// Messages without an id cannot be told apart, so each counts.
    anonymous: Tokens,
}

/// Numbers of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read at full price.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Taken from the prompt cache.
    pub cache_read: u64,
    /// Put into the prompt cache.
    pub cache_write: u64,
}

impl Tally {
    /// Counts what the event says of tokens.
    pub fn observe(&mut self, event: &Event<'_>) {
        match &event.body {
            Body::Assistant(assistant) => self.count(&assistant.message),
            Body::Stream(Stream::MessageStart(message)) => {
                self.count(message);
                if let Some(id) = message.id {
                    self.open.insert(writer(event), id.into());
                }
            }
            Body::Stream(Stream::MessageDelta { usage: Some(usage), .. }) => {
                if let Some(id) = self.open.get(&writer(event)) {
                    overlay(&mut self.by_message, id.clone(), *usage);
                }
            }
            Body::Stream(Stream::MessageStop) => {
                self.open.remove(&writer(event));
            }
            _ => {}
        }
    }

    fn count(&mut self, message: &Message<'_>) {
        let Some(usage) = message.usage else { return };
        match message.id {
            Some(id) => overlay(&mut self.by_message, id.into(), usage),
            None => self.anonymous = self.anonymous.plus(usage.into()),
        }
    }

    /// All tokens so far.
    pub fn total(&self) -> Tokens {
        self.by_message.values().fold(self.anonymous, |sum, usage| sum.plus((*usage).into()))
    }
}

fn writer(event: &Event<'_>) -> Option<String> {
    event.envelope.parent_tool_use_id.map(String::from)
}

fn overlay(by_message: &mut HashMap<String, Usage>, id: String, later: Usage) {
    let usage = by_message.entry(id).or_default();
    *usage = usage.overlaid(later);
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input_tokens.unwrap_or(0),
            output: usage.output_tokens.unwrap_or(0),
            cache_read: usage.cache_read_input_tokens.unwrap_or(0),
            cache_write: usage.cache_creation_input_tokens.unwrap_or(0),
        }
    }
}

impl Tokens {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

impl std::iter::Sum for Tokens {
    fn sum<I: Iterator<Item = Self>>(tokens: I) -> Self {
        tokens.fold(Self::default(), Self::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::{Tally, Tokens};
    use crate::{Reading, read};

    fn total(lines: &[&str]) -> Tokens {
        let mut tally = Tally::default();
        for line in lines.iter().flat_map(|line| read(line.as_bytes())) {
            let Reading::Event(event) = line.reading else { panic!("{line:?}") };
            tally.observe(&event);
        }
        tally.total()
    }

    const START: &str = r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1","usage":{"input_tokens":3,"output_tokens":1}}}}"#;
    const BLOCK: &str = r#"{"type":"assistant","message":{"id":"m1","content":[],"usage":{"input_tokens":3,"cache_read_input_tokens":7,"output_tokens":1}}}"#;
    const DELTA: &str = r#"{"type":"stream_event","event":{"type":"message_delta","delta":{},"usage":{"output_tokens":9}}}"#;
    const SUB_AGENT: &str = r#"{"type":"assistant","parent_tool_use_id":"t","message":{"id":"m2","content":[],"usage":{"input_tokens":10,"output_tokens":2,"cache_creation_input_tokens":5}}}"#;

    #[test]
    fn a_message_counts_once_with_its_last_usage() {
        let tokens = total(&[START, BLOCK, BLOCK, DELTA]);
        assert_eq!(tokens, Tokens { input: 3, output: 9, cache_read: 7, cache_write: 0 });
    }

    #[test]
    fn sub_agents_count_and_do_not_disturb_the_message_being_written() {
        let tokens = total(&[START, SUB_AGENT, DELTA, SUB_AGENT]);
        assert_eq!(tokens, Tokens { input: 13, output: 11, cache_read: 0, cache_write: 5 });
    }

    #[test]
    fn a_delta_of_nothing_counts_for_nothing() {
        assert_eq!(total(&[DELTA]), Tokens::default());
    }
}
