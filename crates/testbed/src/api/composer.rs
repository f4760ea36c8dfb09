//! The middle of a stream: everything between `message_start` and `message_delta`.
//!
//! "After N deltas" counts every `content_block_delta`. After none is right behind `message_start`;
//! what is to happen after more deltas than there are happens behind the last block.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::scenario::{Block, Fault, Reply, Trouble};

use super::act::{Act, CHUNK, flush};
use super::event::{Content, Delta, Event, Problem};
use super::pieces::pieces;

/// Events put in order, with the waits and faults between them.
pub(super) struct Composer {
    acts: Vec<Act>,
    buffer: Vec<u8>,
    deltas: usize,
    pace: Duration,
    hold: Option<(usize, String)>,
    trouble: Option<(usize, Trouble)>,
    ended: bool,
}

impl Composer {
    pub(super) fn new(reply: &Reply) -> Self {
        let hold = reply.hold.as_ref().and_then(|it| Some((it.after?, it.name.clone())));
        let trouble = match &reply.fault {
            Some(Fault::After { deltas, trouble }) => Some((*deltas, trouble.clone())),
            _ => None,
        };
        let mut composer = Self {
            acts: Vec::new(),
            buffer: Vec::new(),
            deltas: 0,
            pace: reply.pace,
            hold,
            trouble,
            ended: false,
        };
        composer.reach(0);
        composer
    }

    pub(super) fn block(&mut self, index: usize, block: &Block, mark: &str) {
        let nothing = Value::Object(Map::new());
        let content_block = match block {
            Block::Text(_) => Content::Text { text: "" },
            Block::Thinking(_) => Content::Thinking { thinking: "", signature: "" },
            Block::Tool { name, .. } => Content::ToolUse { id: mark, name, input: &nothing },
            Block::Raw(value) => Content::Raw(value),
        };
        self.event(&Event::ContentBlockStart { index, content_block });
        if index == 0 {
            self.event(&Event::Ping);
        }
        match block {
            Block::Text(text) => {
                for text in pieces(text) {
                    self.delta(index, Delta::Text { text });
                }
            }
            Block::Thinking(thinking) => {
                for thinking in pieces(thinking) {
                    self.delta(index, Delta::Thinking { thinking });
                }
                self.delta(index, Delta::Signature { signature: mark });
            }
            Block::Tool { input, .. } => {
                // The real API begins with an empty piece.
                self.delta(index, Delta::InputJson { partial_json: "" });
                for partial_json in pieces(&input.to_string()) {
                    self.delta(index, Delta::InputJson { partial_json });
                }
            }
            Block::Raw(_) => {}
        }
        self.event(&Event::ContentBlockStop { index });
    }

    fn event(&mut self, event: &Event<'_>) {
        if self.ended {
            return;
        }
        event.write_to(&mut self.buffer);
        if self.buffer.len() >= CHUNK {
            flush(&mut self.buffer, &mut self.acts);
        }
    }

    fn delta(&mut self, index: usize, delta: Delta<'_>) {
        if self.ended {
            return;
        }
        if self.deltas > 0 && !self.pace.is_zero() {
            self.act(Act::Pause(self.pace));
        }
        self.event(&Event::ContentBlockDelta { index, delta });
        self.deltas += 1;
        self.reach(self.deltas);
    }

    /// Does what is to happen after so many deltas.
    fn reach(&mut self, deltas: usize) {
        if let Some((_, name)) = self.hold.take_if(|(after, _)| *after <= deltas) {
            self.act(Act::Hold(name));
        }
        if let Some((_, trouble)) = self.trouble.take_if(|(after, _)| *after <= deltas) {
            match trouble {
                Trouble::SseError { kind, message } => {
                    let error = Problem { kind: &kind, message: &message };
                    self.event(&Event::Error { error });
                    self.ended = true;
                }
                Trouble::Truncate => self.ended = true,
                Trouble::Disconnect => self.end(Act::Break),
                Trouble::Stall => self.end(Act::Stall),
                Trouble::Garbage => {
                    self.buffer.extend_from_slice(b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\x07 no event\n\n");
                }
            }
        }
    }

    fn end(&mut self, act: Act) {
        self.act(act);
        self.ended = true;
    }

    fn act(&mut self, act: Act) {
        flush(&mut self.buffer, &mut self.acts);
        self.acts.push(act);
    }

    pub(super) fn finish(mut self) -> (Vec<Act>, usize, bool) {
        // A reply shorter than its wait or fault has it at the end.
        if !self.ended {
            self.reach(usize::MAX);
        }
        flush(&mut self.buffer, &mut self.acts);
        (self.acts, self.deltas, !self.ended)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use crate::scenario::{Block, Fault, Hold, Reply, Trouble};

    use super::{Act, Composer};

    /// What happens, briefly: the text of deltas, the first letter of other events, waits and faults.
    fn brief(reply: &Reply) -> String {
        let mut composer = Composer::new(reply);
        for (index, block) in reply.blocks.iter().enumerate() {
            composer.block(index, block, "mark");
        }
        let (acts, _, ends) = composer.finish();
        let acts: Vec<String> = acts
            .iter()
            .map(|act| match act {
                Act::Send(bytes) => events(std::str::from_utf8(bytes).unwrap()),
                Act::Pause(time) => format!("{}ms", time.as_millis()),
                Act::Hold(name) => format!("hold {name}"),
                Act::Break => "break".to_owned(),
                Act::Stall => "stall".to_owned(),
            })
            .collect();
        acts.join(" | ") + if ends { "" } else { " !" }
    }

    fn events(text: &str) -> String {
        let event = |event: &str| {
            let data = event.split_once("data: ").unwrap().1;
            let Ok(data) = serde_json::from_str::<Value>(data) else { return "garbage".to_owned() };
            match data["type"].as_str().unwrap() {
                "content_block_start" => {
                    format!("<{}", data["content_block"]["type"].as_str().unwrap())
                }
                "content_block_stop" => ">".to_owned(),
                "content_block_delta" => {
                    let delta = data["delta"].as_object().unwrap();
                    delta.iter().find(|(key, _)| *key != "type").unwrap().1.to_string()
                }
                other => other.to_owned(),
            }
        };
        text.split_terminator("\n\n").map(event).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_kind_of_block_is_streamed_as_the_api_does() {
        let tool = Block::Tool { name: "Read".to_owned(), input: json!({"a": 1}), id: None };
        let raw = Block::Raw(json!({"type": "redacted_thinking", "data": "x"}));
        let blocks =
            vec![Block::Thinking("hm so".to_owned()), Block::Text("a b".to_owned()), tool, raw];
        let expected = r#"<thinking ping "hm" " so" "mark" > <text "a" " b" > <tool_use "" "{\"a\":1}" > <redacted_thinking >"#;
        assert_eq!(brief(&Reply { blocks, ..Reply::default() }), expected);
    }

    #[test]
    fn waits_and_faults_come_after_so_many_deltas() {
        let fault = |deltas, trouble| Some(Fault::After { deltas, trouble });
        let hold = |after| Some(Hold { name: "g".to_owned(), after });
        let error =
            Trouble::SseError { kind: "overloaded_error".to_owned(), message: String::new() };
        let cases = [
            (None, None, 0, r#"<text ping "a" " b" >"#),
            (None, None, 5, r#"<text ping "a" | 5ms | " b" >"#),
            (hold(None), None, 0, r#"<text ping "a" " b" >"#),
            (hold(Some(0)), None, 0, r#"hold g | <text ping "a" " b" >"#),
            (hold(Some(1)), None, 0, r#"<text ping "a" | hold g | " b" >"#),
            (hold(Some(9)), None, 0, r#"<text ping "a" " b" > | hold g"#),
            (None, fault(1, Trouble::Disconnect), 0, r#"<text ping "a" | break !"#),
            (None, fault(1, Trouble::Stall), 0, r#"<text ping "a" | stall !"#),
            (None, fault(1, Trouble::Truncate), 0, r#"<text ping "a" !"#),
            (None, fault(0, Trouble::Truncate), 0, " !"),
            (None, fault(1, Trouble::Garbage), 0, r#"<text ping "a" garbage " b" >"#),
            (None, fault(9, error.clone()), 0, r#"<text ping "a" " b" > error !"#),
            (hold(Some(1)), fault(1, error), 0, r#"<text ping "a" | hold g | error !"#),
        ];
        for (hold, fault, pace, expected) in cases {
            let blocks = vec![Block::Text("a b".to_owned())];
            let pace = Duration::from_millis(pace);
            let reply = Reply { blocks, hold, pace, fault, ..Reply::default() };
            assert_eq!(brief(&reply), expected);
        }
    }
}
