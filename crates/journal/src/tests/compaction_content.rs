//! Compaction loses no streamed content, whatever lines the agent leaves out or sends late.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use view::{Fold, Item, ItemBody};
use wire::note::{Note, TurnEnding};

use super::{TestJournal, all, id, new_session};
use crate::{Batch, Entry, NewEntry, Origin, Seq};

/// How the agent repeats a block in an `assistant` line.
#[derive(Clone, Copy, Debug)]
enum Repeat {
    /// Before the block ends, as the CLI does.
    InTime,
    /// While the next block streams.
    Late,
    /// After the message.
    TooLate,
    Never,
    /// With other content, such as after an interrupt.
    Shortened,
}

#[derive(Clone, Debug)]
struct Block {
    kind: u8,
    pieces: Vec<String>,
    repeat: Repeat,
}

#[derive(Clone, Debug)]
struct Message {
    blocks: Vec<Block>,
    /// After how many lines the turn is interrupted.
    interrupted: Option<prop::sample::Index>,
}

fn blocks() -> impl Strategy<Value = Block> {
    let repeat = prop_oneof![
        4 => Just(Repeat::InTime),
        1 => Just(Repeat::Late),
        1 => Just(Repeat::TooLate),
        1 => Just(Repeat::Never),
        1 => Just(Repeat::Shortened),
    ];
    let piece = prop_oneof!["[a-b]{0,3}", ".{0,6}", Just("\u{2028}\"\\ü".to_owned())];
    (0..3u8, prop::collection::vec(piece, 0..4), repeat).prop_map(|(kind, pieces, repeat)| Block {
        kind,
        pieces,
        repeat,
    })
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let message = (
        prop::collection::vec(blocks(), 0..4),
        prop::option::weighted(0.3, any::<prop::sample::Index>()),
    )
        .prop_map(|(blocks, interrupted)| Message { blocks, interrupted });
    prop::collection::vec(message, 1..5)
}

fn event(event: &Value) -> String {
    json!({"type": "stream_event", "session_id": "s", "parent_tool_use_id": null, "event": event})
        .to_string()
}

fn assistant(message: &str, block: &Value) -> String {
    json!({"type": "assistant", "session_id": "s", "parent_tool_use_id": null,
        "message": {"id": message, "role": "assistant", "content": [block]}})
    .to_string()
}

impl Block {
    /// The block with some content.
    fn with(&self, call: &str, content: &str) -> Value {
        match self.kind {
            0 => json!({"type": "text", "text": content}),
            1 => json!({"type": "thinking", "thinking": content, "signature": ""}),
            _ => {
                json!({"type": "tool_use", "id": call, "name": "Bash", "input": {"command": content}})
            }
        }
    }

    fn delta(&self, text: &str) -> Value {
        match self.kind {
            0 => json!({"type": "text_delta", "text": text}),
            1 => json!({"type": "thinking_delta", "thinking": text}),
            _ => json!({"type": "input_json_delta", "partial_json": text}),
        }
    }

    fn started(&self, call: &str) -> Value {
        let mut start = self.with(call, "");
        if self.kind == 2 {
            start["input"] = json!({});
        }
        start
    }
}

/// The lines of a turn, notes included.
fn turn(number: usize, message: &Message) -> Vec<NewEntry> {
    let id = format!("msg_{number}");
    let mut out = vec![event(
        &json!({"type": "message_start", "message": {"id": id, "role": "assistant", "content": []}}),
    )];
    let (mut late, mut too_late) = (Vec::new(), Vec::new());
    for (index, block) in message.blocks.iter().enumerate() {
        let call = format!("toolu_{number}_{index}");
        out.push(event(&json!({"type": "content_block_start", "index": index, "content_block": block.started(&call)})));
        out.append(&mut late);
        let content = block.pieces.concat();
        let streamed = match block.kind {
            2 => {
                // The fragments are no valid JSON on their own.
                let whole = json!({"command": content}).to_string();
                let middle = (0..=whole.len() / 2).rev().find(|at| whole.is_char_boundary(*at));
                let (one, other) = whole.split_at(middle.unwrap());
                vec![one.to_owned(), other.to_owned()]
            }
            _ => block.pieces.clone(),
        };
        for piece in streamed {
            out.push(event(&json!({"type": "content_block_delta", "index": index, "delta": block.delta(&piece)})));
        }
        let complete = assistant(&id, &block.with(&call, &content));
        match block.repeat {
            Repeat::InTime => out.push(complete),
            Repeat::Late => late.push(complete),
            Repeat::TooLate => too_late.push(complete),
            Repeat::Never => {}
            Repeat::Shortened => {
                let shorter: String = content.chars().skip(1).collect();
                out.push(assistant(&id, &block.with(&call, &shorter)));
            }
        }
        out.push(event(&json!({"type": "content_block_stop", "index": index})));
    }
    out.append(&mut late);
    out.push(event(&json!({"type": "message_stop"})));
    out.append(&mut too_late);
    if let Some(at) = message.interrupted {
        out.truncate(at.index(out.len()) + 1);
    }
    let note = Note::TurnEnded { turn: number as u64, ending: TurnEnding::Interrupted };
    let entry = |origin, bytes: Vec<u8>| NewEntry { origin, bytes: bytes.into(), transient: false };
    let agent = out.into_iter().map(|line| entry(Origin::Agent, line.into_bytes()));
    agent.chain([entry(Origin::Towpath, note.to_line())]).collect()
}

/// Everything a reader can learn about the blocks of each message: what was streamed and is not in a
/// complete block, and the complete blocks. It does not use the code under test.
fn content(entries: &[Entry]) -> BTreeMap<String, Vec<String>> {
    let mut streamed: BTreeMap<(String, u64), (String, String)> = BTreeMap::new();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut message = String::new();
    for entry in entries.iter().filter(|entry| entry.origin == Origin::Agent) {
        let line: Value = serde_json::from_slice(&entry.bytes).unwrap();
        let inner = &line["event"];
        let index = inner["index"].as_u64().unwrap_or_default();
        let key = (message.clone(), index);
        match inner["type"].as_str() {
            Some("message_start") => {
                inner["message"]["id"].as_str().unwrap().clone_into(&mut message);
            }
            Some("content_block_start") => {
                let kind = inner["content_block"]["type"].as_str().unwrap().to_owned();
                let call = inner["content_block"]["id"].as_str().unwrap_or_default();
                streamed.insert(key, (format!("{kind} {call} "), String::new()));
            }
            Some("content_block_delta") => {
                let delta = &inner["delta"];
                let text =
                    ["text", "thinking", "partial_json"].iter().find_map(|it| delta[it].as_str());
                streamed.get_mut(&key).unwrap().1.push_str(text.unwrap());
            }
            _ => {}
        }
        if line["type"] == "assistant" {
            let block = &line["message"]["content"][0];
            let name = block["type"].as_str().unwrap();
            let call = block["id"].as_str().unwrap_or_default();
            let text = match name {
                "tool_use" => block["input"].to_string(),
                name => block[if name == "text" { "text" } else { "thinking" }]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            };
            let message = line["message"]["id"].as_str().unwrap().to_owned();
            found.entry(message).or_default().push(format!("{name} {call} {text}"));
        }
    }
    // A streamed block that is also complete counts once, however often it is there.
    for ((message, _), (head, text)) in streamed {
        found.entry(message).or_default().push(head + &text);
    }
    for blocks in found.values_mut() {
        blocks.sort();
        blocks.dedup();
        // A block in which nothing was written gets no line.
        blocks.retain(|block| !matches!(&**block, "text  " | "thinking  "));
    }
    found.retain(|_, blocks| !blocks.is_empty());
    found
}

/// What a person sees: the texts of the conversation, in order.
fn folded(entries: &[Entry]) -> Vec<String> {
    let mut fold = Fold::new();
    for entry in entries {
        fold.push_recorded(entry.line());
    }
    let conversation = fold.conversation(usize::MAX);
    let text = |item: &Item| match &item.body {
        ItemBody::Text { text } => format!("text {text}"),
        ItemBody::Thinking { text, .. } => format!("thinking {text}"),
        body => serde_json::to_string(body).unwrap(),
    };
    let mut texts: Vec<String> = conversation.items.iter().map(text).collect();
    // A block in which nothing was written shows nothing.
    texts.retain(|text| !matches!(&**text, "text " | "thinking "));
    texts
}

/// Stores the turns of messages, compacts them, and compares what is left with what was there.
async fn check(messages: &[Message], compact_after_each: bool) {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    let (mut written, mut last) = (Vec::new(), Seq(0));
    for (number, message) in messages.iter().enumerate() {
        let entries = turn(number, message);
        written.extend(entries.clone());
        last = journal.write(id(1), Batch { entries, ..Batch::default() }).await.unwrap();
        if compact_after_each {
            journal.compact(id(1), last).await.unwrap();
        }
    }
    journal.compact(id(1), last).await.unwrap();
    let entry = |(seq, new): (Seq, NewEntry)| Entry {
        seq,
        at: 0,
        origin: new.origin,
        bytes: new.bytes,
        continues: false,
        omitted: 0,
    };
    let before: Vec<Entry> = (1..).map(Seq).zip(written).map(entry).collect();
    let after = all(&journal, id(1)).await;
    assert_eq!(content(&after), content(&before));
    assert_eq!(folded(&after), folded(&before));
}

#[tokio::test]
async fn only_paths_may_be_repeated_in_another_form() {
    // `/shop` instead of `//shop` would be the same file; as commands they are not the same.
    let command = Block { kind: 2, pieces: vec!["//shop".to_owned()], repeat: Repeat::Shortened };
    check(&[Message { blocks: vec![command], interrupted: None }], false).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn compaction_loses_no_content_of_any_turn(
        messages in messages(),
        compact_after_each in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(&messages, compact_after_each));
    }
}
