//! What is skipped could not have mattered, and what matters is found however it is cut.

use proptest::prelude::*;

use super::{FilteredLine, Interest, Prefilter, WINDOW};

const ALL: Interest = Interest { results: true, words: true, whole: true, all: false };
const CALLS: Interest = Interest { results: false, words: false, whole: false, all: false };

/// ActionTrigger line that is handed on, when the stream comes in pieces of `size`.
fn skim(stream: &[u8], size: usize, interest: Interest) -> Vec<String> {
    let mut prefilter = Prefilter::default();
    let mut found = Vec::new();
    let mut say = |it: FilteredLine<'_>| match it {
        FilteredLine::Line(line) => found.push(String::from_utf8_lossy(line).into_owned()),
        FilteredLine::Abridged(line) => found.push(format!("~{}", String::from_utf8_lossy(line))),
        FilteredLine::Unreadable => found.push("unreadable".to_owned()),
    };
    let mut left = stream;
    while !left.is_empty() {
        let room = prefilter.room();
        let count = room.len().min(size).min(left.len());
        room[..count].copy_from_slice(&left[..count]);
        left = &left[count..];
        prefilter.put(count, interest, |it| {
            say(it);
            interest
        });
    }
    prefilter.finish(&mut say);
    found
}

const DELTA: &str = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}},"parent_tool_use_id":null}"#;
const CALL: &str = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"Write","input":{"file_path":"a"}}]}}"#;
const RESULT: &str =
    r#"{"type":"user","message":{"content":[{"tool_use_id":"a","type":"tool_result"}]}}"#;
const SAID: &str = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"x"}]}}"#;
const INIT: &str = r#"{"type":"system","subtype":"init"}"#;

#[test]
fn only_lines_that_may_matter_are_handed_on() {
    let stream = [INIT, DELTA, CALL, DELTA, RESULT, SAID, DELTA].join("\n");
    for size in [1, 7, 100, 10_000] {
        assert_eq!(skim(stream.as_bytes(), size, CALLS), [INIT, CALL, DELTA], "{size}");
        let results = Interest { results: true, ..CALLS };
        assert_eq!(skim(stream.as_bytes(), size, results), [INIT, CALL, RESULT, DELTA], "{size}");
        let all = [INIT, CALL, RESULT, SAID, DELTA];
        assert_eq!(skim(stream.as_bytes(), size, ALL), all, "{size}");
    }
}

#[test]
fn what_overrules_the_beginning_of_a_line_is_noticed() {
    let twice = DELTA.replace("null}", r#"null,"type":"tool_use","toolName":"Write"}"#);
    let escaped = CALL.replace("tool_use", r"tool_us\u0065");
    let coloured = DELTA.replace(r#""x""#, r#""\u001b[1m""#);
    let stream = [&twice, DELTA, &escaped, &coloured, ""].join("\n");
    for size in [1, 10, 100_000] {
        assert_eq!(skim(stream.as_bytes(), size, CALLS), [&*twice, &*escaped], "{size}");
    }
}

#[test]
fn a_line_longer_than_the_window_is_abridged_wherever_its_path_stands() {
    let content = "x\\\"\\\\".repeat(WINDOW);
    for input in [
        format!(r#"{{"file_path":"a","content":"{content}"}}"#),
        format!(r#"{{"content":"{content}","file_path":"a"}}"#),
    ] {
        let call = CALL.replace(r#"{"file_path":"a"}"#, &input);
        let short = input.replace(&content, "");
        let short = format!("~{}", CALL.replace(r#"{"file_path":"a"}"#, &short));
        for size in [1000, 4096, WINDOW] {
            let stream = format!("{DELTA}\n{call}\n{RESULT}\r\n");
            let results = Interest { results: true, ..CALLS };
            let found = skim(stream.as_bytes(), size, results);
            assert_eq!(found, [short.clone(), format!("{RESULT}\r")], "{size}");
        }
    }
}

#[test]
fn a_result_longer_than_the_window_is_read_if_one_is_awaited_wherever_it_says_what_it_is() {
    let content = "y".repeat(2 * WINDOW);
    let result = format!(
        r#"{{"type":"user","message":{{"content":[{{"content":"{content}","type":"tool_result"}}]}}}}"#
    );
    let stream = format!("{result}\n{INIT}\n");
    assert_eq!(skim(stream.as_bytes(), 9000, CALLS), [INIT]);
    let results = Interest { results: true, ..CALLS };
    let short = format!("~{}", result.replace(&content, ""));
    assert_eq!(skim(stream.as_bytes(), 9000, results), [&*short, INIT]);
}

#[test]
fn escapes_at_the_end_of_a_piece_are_remembered() {
    // Backslashes in rows of any length, cut anywhere, before a quote that closes and one that does
    // not.
    for backslashes in 0..6 {
        let inside = format!("{}{}\\\"", "z".repeat(13 << 10), "\\\\".repeat(backslashes));
        let call = CALL.replace(r#""a"}"#, &format!(r#""a","content":"{inside}{inside}"}}"#));
        let padded = format!("{call}{}", " ".repeat(WINDOW));
        let short = format!("~{}", CALL.replace(r#""a"}"#, r#""a","content":""}"#));
        for size in [13, 997, 4096] {
            let found = skim(padded.as_bytes(), size, CALLS);
            assert_eq!(found, [&*short], "{backslashes} {size}");
        }
    }
}

#[test]
fn a_long_line_is_abridged_unless_somebody_wants_all_of_it() {
    let content = "x\\n".repeat(10_000);
    let call = CALL.replace(r#""a"}"#, &format!(r#""a","content":"{content}"}}"#));
    let stream = format!("{call}\n{INIT}\n");
    let short = format!("~{}", call.replace(&content, ""));
    assert_eq!(skim(stream.as_bytes(), 7000, CALLS), [&*short, INIT]);
    assert_eq!(skim(stream.as_bytes(), 7000, ALL), [&*call, INIT]);
}

#[test]
fn a_call_with_a_hundred_thousand_small_edits_is_abridged_too() {
    let edits = vec![r#"{"old_string":"a","new_string":"b"}"#; 100_000].join(",");
    let input = format!(r#"{{"edits":[{edits}],"file_path":"a"}}"#);
    let call = CALL.replace(r#"{"file_path":"a"}"#, &input);
    let found = skim(call.as_bytes(), 4096, CALLS);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].ends_with(r#"],"file_path":"a"}}]}}"#),
        "{}",
        &found[0][found[0].len() - 80..]
    );
    assert!(found[0].len() < WINDOW);
    let line: serde_json::Value = serde_json::from_str(&found[0][1..]).unwrap();
    assert_eq!(line["message"]["content"][0]["input"]["file_path"], "a");
}

#[test]
fn a_session_in_one_array_is_handed_on_message_by_message() {
    let long = SAID.replace(r#""x""#, &format!("\"{}\"", "y".repeat(100_000)));
    let mut events = vec![&*long; 20];
    events.extend([CALL, RESULT]);
    let found = skim(format!("[{}]\n{INIT}\n", events.join(",")).as_bytes(), 5000, CALLS);
    assert_eq!(found.len(), 23);
    assert_eq!(found[20], format!("~,{CALL}"));
    assert_eq!(found[22], INIT);
}

#[test]
fn what_is_no_json_and_endless_is_given_up_and_the_next_line_read() {
    let noise = "[1,2],".repeat(1 << 20);
    let found = skim(format!("{noise}\n{INIT}\n").as_bytes(), 50_000, CALLS);
    assert_eq!(found, ["unreadable", INIT]);
}

proptest! {
    #[test]
    fn any_cutting_gives_the_same_lines(
        lines in proptest::collection::vec(
            prop_oneof![Just(DELTA), Just(CALL), Just(RESULT), Just(SAID), Just(INIT), Just(""), Just("\u{2028}\\u0074 tool_use\"")], 0..30),
        size in 1_usize..400,
    ) {
        let stream = lines.join("\n");
        let whole = skim(stream.as_bytes(), usize::MAX, ALL);
        prop_assert_eq!(&whole, &skim(stream.as_bytes(), size, ALL));
        let expected: Vec<&str> = lines
            .iter()
            .enumerate()
            .filter(|(n, line)| !(**line == DELTA && n + 1 < lines.len()))
            .filter(|(n, line)| !(line.is_empty() && n + 1 == lines.len()))
            .map(|(_, line)| *line)
            .collect();
        prop_assert_eq!(whole, expected);
    }
}
