//! The reader agrees with `serde_json` on mutated captures.
//!
//! Syntax is compared with `IgnoredAny`, which like this crate has no limit for depth or numbers
//! and accepts lone surrogates. Values are compared if `serde_json` can build a `Value`, including
//! duplicate keys (the last counts) and escaped keys.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;
use towpath_wire::event::{Body, Delta, Message, Stream};
use towpath_wire::json::Text;
use towpath_wire::{Event, Kind, Noise, Reading, read};

static LINES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut lines: Vec<String> = crate::recordings::all()
        .iter()
        .flat_map(|(_, bytes)| bytes.split(|&byte| byte == b'\n'))
        .map(|line| String::from_utf8(line.to_vec()).expect("captures are UTF-8"))
        .filter(|line| line.starts_with('{') && line.len() < 20_000)
        .collect();
    lines.sort();
    lines.dedup();
    lines
});

/// A change to a line. Positions are fractions of its length, so that they fit any line.
#[derive(Clone, Debug)]
enum Mutation {
    Replace(f64, u8),
    Insert(f64, u8),
    InsertText(f64, &'static str),
    Delete(f64, usize),
    Copy(f64, usize, f64),
    /// Replaces a letter of a key or a string with an escape.
    EscapeNth(f64),
    /// Repeats some fields before the closing brace, as duplicate keys.
    RepeatFields(f64, f64),
    MoveTypeLast,
    /// Appends a field of another line.
    AppendField(usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let position = 0.0..1.0_f64;
    prop_oneof![
        3 => (position.clone(), any::<u8>()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        3 => (position.clone(), prop::sample::select(br#"{}[]",:\u0a1-.eEntf "#.to_vec()))
            .prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        2 => (position.clone(), prop::sample::select(vec![
                "\\ud83d", "\\u0000", "\u{2028}", "é", "1e999", "-0", "00", "nul", "{}", "[[[[", "\r", "\t",
            ]))
            .prop_map(|(at, text)| Mutation::InsertText(at, text)),
        2 => (position.clone(), 1_usize..40).prop_map(|(at, length)| Mutation::Delete(at, length)),
        1 => (position.clone(), 1_usize..200, position.clone())
            .prop_map(|(from, length, to)| Mutation::Copy(from, length, to)),
        3 => position.clone().prop_map(Mutation::EscapeNth),
        3 => (position.clone(), position).prop_map(|(from, to)| Mutation::RepeatFields(from, to)),
        1 => Just(Mutation::MoveTypeLast),
        2 => any::<usize>().prop_map(Mutation::AppendField),
    ]
}

fn apply(mutation: &Mutation, line: &mut Vec<u8>) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "any position inside is fine"
    )]
    let position = |at: f64, line: &[u8]| (at * line.len() as f64) as usize;
    let splice = |line: &mut Vec<u8>, at: usize, text: &[u8]| {
        line.splice(at..at, text.iter().copied());
    };
    if line.is_empty() {
        return;
    }
    match mutation {
        Mutation::Replace(at, byte) => {
            let at = position(*at, line);
            line[at] = *byte;
        }
        Mutation::Insert(at, byte) => splice(line, position(*at, line), &[*byte]),
        Mutation::InsertText(at, text) => splice(line, position(*at, line), text.as_bytes()),
        Mutation::Delete(at, length) => {
            let at = position(*at, line);
            line.drain(at..(at + length).min(line.len()));
        }
        Mutation::Copy(from, length, to) => {
            let from = position(*from, line);
            let part = line[from..(from + length).min(line.len())].to_vec();
            splice(line, position(*to, line), &part);
        }
        Mutation::EscapeNth(at) => {
            let from = position(*at, line);
            if let Some(found) = line[from..].iter().position(u8::is_ascii_lowercase) {
                let escape = format!("\\u{:04x}", line[from + found]);
                line.splice(from + found..=from + found, escape.bytes());
            }
        }
        Mutation::RepeatFields(from, to) => {
            let (from, to) = (position(*from, line), position(*to, line));
            let comma =
                |at: usize| line[at..].iter().position(|&byte| byte == b',').map(|it| at + it);
            if let (Some(from), Some(to)) = (comma(from.min(to)), comma(from.max(to))) {
                let fields = line[from..to].to_vec();
                splice(line, line.len() - 1, &fields);
            }
        }
        Mutation::MoveTypeLast => {
            let text = String::from_utf8_lossy(line).into_owned();
            if let Some((head, rest)) = text.split_once(',')
                && let Some(rest) = rest.strip_suffix('}')
            {
                let head = head.trim_start_matches('{');
                *line = format!("{{{rest},{head}}}").into_bytes();
            }
        }
        Mutation::AppendField(index) => {
            let other = &LINES[index % LINES.len()];
            if let Some((field, _)) = other[1..].split_once(',') {
                let appended = format!(",{field}");
                splice(line, line.len() - 1, appended.as_bytes());
            }
        }
    }
}

/// Checks the properties that hold for any bytes.
fn check(line: &[u8]) -> Result<(), TestCaseError> {
    let readings: Vec<_> = read(line).collect();
    let bytes: Vec<u8> = readings.iter().flat_map(|line| line.bytes).copied().collect();
    prop_assert_eq!(&bytes, &line);

    let Ok(text) = std::str::from_utf8(line) else {
        prop_assert!(matches!(readings[0].reading, Reading::Noise(Noise::NotUtf8)));
        return Ok(());
    };
    if !text.starts_with('{') {
        return Ok(());
    }
    // Both parsers continue after the first object; only the first is compared.
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let valid = matches!(stream.next(), Some(Ok(_)));
    let not_json = matches!(readings[0].reading, Reading::Noise(Noise::NotJson));
    prop_assert_eq!(valid, !not_json, "syntax");
    if !valid {
        prop_assert_eq!(readings.len(), 1);
        return Ok(());
    }
    let object = &text[..stream.byte_offset()];
    if let Ok(value) = serde_json::from_str::<Value>(object) {
        agrees(&readings[0].reading, &value)?;
        if let Some(found) = Kind::find(object.as_bytes()) {
            let read = readings[0].kind().map(|kind| kind.name.to_string());
            prop_assert_eq!(Some(found.name.to_string()), read, "kind found");
        }
    }
    Ok(())
}

fn agrees(reading: &Reading<'_>, value: &Value) -> Result<(), TestCaseError> {
    let Some(name) = value["type"].as_str() else {
        // A message of the Agent Client Protocol has no type, alone or in a recording.
        let is_rpc = value["jsonrpc"].is_string() || value["msg"]["jsonrpc"].is_string();
        prop_assert!(is_rpc || matches!(reading, Reading::Noise(Noise::Untyped)));
        return Ok(());
    };
    let kind = match reading {
        Reading::Event(event) => event.kind,
        Reading::Unknown(unknown) => unknown.kind,
        Reading::Mismatch(mismatch) => mismatch.kind,
        Reading::Noise(noise) => return Err(TestCaseError::fail(format!("noise: {noise}"))),
    };
    prop_assert_eq!(kind.name, name);
    if matches!(name, "system" | "result") {
        prop_assert!(same(kind.subtype, value["subtype"].as_str()), "subtype");
    }
    let Reading::Event(event) = reading else { return Ok(()) };
    // Other agents have an envelope of their own.
    if matches!(event.body, Body::OtherAgent(_)) {
        return Ok(());
    }
    envelope_agrees(event, value)?;
    match &event.body {
        Body::Assistant(assistant) if has_only_message(value) => {
            message_agrees(&assistant.message, &value["message"])?;
        }
        Body::User(user) if name == "user" && has_only_message(value) => {
            message_agrees(&user.message, &value["message"])?;
        }
        Body::Stream(Stream::BlockDelta { index, delta }) if name == "stream_event" => {
            let inner = &value["event"]["delta"];
            prop_assert_eq!(*index, value["event"]["index"].as_f64().map_or(0, count));
            if let (Delta::Text(text), None) = (delta, inner.get("partial_json")) {
                prop_assert_eq!(&*text.decode(), inner["text"].as_str().unwrap_or(""));
            }
        }
        Body::TurnEnded(turn) => {
            prop_assert_eq!(
                turn.is_error,
                value["is_error"].as_bool().or(value["isError"].as_bool())
            );
            if let Some(result) = value["result"].as_str() {
                prop_assert!(same(turn.result, Some(result)), "result");
            }
            if let Some(cost) = value["total_cost_usd"].as_f64() {
                // By default, `serde_json` may be wrong in the last bit.
                let read = turn.total_cost_usd.expect("a cost");
                prop_assert!((read - cost).abs() <= f64::EPSILON * cost.abs());
            }
        }
        _ => {}
    }
    Ok(())
}

/// Whether the content is in `message` and not at the top level.
fn has_only_message(value: &Value) -> bool {
    value["message"].is_object() && value.get("content").is_none()
}

fn same(read: Option<Text<'_>>, expected: Option<&str>) -> bool {
    match (read, expected) {
        (Some(read), Some(expected)) => read == expected && read.decode() == expected,
        (None, None) => true,
        _ => false,
    }
}

fn envelope_agrees(event: &Event<'_>, value: &Value) -> Result<(), TestCaseError> {
    let session = value["sessionId"].as_str().or(value["session_id"].as_str());
    // With both spellings, one may be `null`, which this comparison does not model.
    if value.get("sessionId").is_none() || value.get("session_id").is_none() {
        prop_assert!(same(event.envelope.session_id, session), "session id");
    }
    prop_assert!(same(event.envelope.uuid, value["uuid"].as_str()), "uuid");
    let parent = value["parent_tool_use_id"].as_str();
    prop_assert!(same(event.envelope.parent_tool_use_id, parent), "parent");
    Ok(())
}

fn message_agrees(message: &Message<'_>, value: &Value) -> Result<(), TestCaseError> {
    prop_assert!(same(message.id, value["id"].as_str()), "message id");
    prop_assert!(same(message.model, value["model"].as_str()), "model");
    if let Some(usage) = message.usage {
        let expected = value["usage"]["output_tokens"].as_f64().map(count);
        prop_assert_eq!(usage.output_tokens, expected);
    }
    if let Some(blocks) = value["content"].as_array() {
        prop_assert_eq!(message.content.blocks().count(), blocks.len());
    }
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates like the reader"
)]
fn count(number: f64) -> u64 {
    number as u64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_captures_are_read_as_serde_json_reads_them(
        index in any::<prop::sample::Index>(),
        mutations in prop::collection::vec(mutation(), 0..4),
    ) {
        let mut line = index.get(&LINES).clone().into_bytes();
        for mutation in &mutations {
            apply(mutation, &mut line);
        }
        line.retain(|&byte| byte != b'\n');
        check(&line)?;
    }

    #[test]
    fn any_bytes_are_read_without_panic(line in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&line)?;
        let _ = Kind::find(&line);
    }

    #[test]
    fn json_like_text_is_read_as_serde_json_reads_it(
        line in r#"\{("(type|subtype|a|message|content|\\u0074ype)":("[a-z\\"]{0,6}"|-?[0-9.e]{1,4}|\[\]|\{\}|null|true),?){0,5}\}"#
    ) {
        check(line.as_bytes())?;
    }
}
