//! Denied calls, and the usage that only results report.

use towpath_view::{CallState, Conversation, Fold, ItemBody, TokenCounts};

fn folded(lines: &[&str]) -> Conversation {
    let mut fold = Fold::new();
    for (seq, line) in (1..).zip(lines) {
        fold.push_line(seq, line.as_bytes());
    }
    fold.conversation(usize::MAX)
}

const EDIT: &str = r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Edit","input":{"file_path":"/p/a.txt","old_string":"a","new_string":"b"}}]}}"#;
const RESULT_WITHOUT_FLAG: &str = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"Claude requested permissions to write to /p/a.txt, but you haven't granted it yet."}]}}"#;
const END: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"I could not.","permission_denials":[{"tool_name":"Edit","tool_use_id":"t1","tool_input":{"file_path":"/p/a.txt","old_string":"a","new_string":"b"}}]}"#;
const LIVE: &str = r#"{"type":"system","subtype":"permission_denied","tool_name":"Edit","tool_use_id":"t1","message":"no"}"#;

fn states(document: &Conversation) -> Vec<CallState> {
    let calls = document.items.iter().filter_map(|item| match &item.body {
        ItemBody::Call(call) => Some(call.state),
        _ => None,
    });
    calls.collect()
}

#[test]
fn a_denied_edit_is_denied_however_its_result_looks() {
    for lines in [
        &[EDIT, RESULT_WITHOUT_FLAG, END][..],
        &[EDIT, LIVE, RESULT_WITHOUT_FLAG, END],
        &[EDIT, RESULT_WITHOUT_FLAG, LIVE],
        &[EDIT, LIVE, RESULT_WITHOUT_FLAG],
        &[EDIT, END],
        &[END],
    ] {
        let document = folded(lines);
        assert_eq!(states(&document), [CallState::Denied], "{lines:#?}");
        let turn = document.turns.last().unwrap();
        assert!(turn.files.is_empty(), "{:?}", turn.files);
        let item = document.items.iter().find(|item| matches!(item.body, ItemBody::Call(_)));
        let options =
            towpath_view::terminal::TerminalOptions { width: 80, base: Some("/p"), full: false };
        let shown = towpath_view::terminal::item(item.unwrap(), options)[0].text();
        assert!(shown.starts_with('⊘') && shown.contains("a.txt"), "{shown}");
    }
}

#[test]
fn an_edit_that_was_not_denied_is_done() {
    let other = END.replace("\"t1\"", "\"t2\"");
    let document = folded(&[EDIT, RESULT_WITHOUT_FLAG, &other]);
    assert_eq!(states(&document), [CallState::Done]);
    assert_eq!(document.turns.last().unwrap().files[0].edits, 1);
}

#[test]
fn ten_thousand_denials_of_a_lone_result_are_counted_and_not_all_shown() {
    let one = r#"{"tool_name":"Write","tool_use_id":"tN","tool_input":{"file_path":"/p/N"}}"#;
    let all: Vec<String> = (0..10_000).map(|n| one.replace('N', &n.to_string())).collect();
    let line = format!(
        r#"{{"type":"result","subtype":"success","result":"x","permission_denials":[{}]}}"#,
        all.join(",")
    );
    let document = folded(&[&line]);
    assert_eq!(states(&document).len(), 100);
    let has_rest = document.items.iter().any(
        |item| matches!(&item.body, ItemBody::Notice(it) if it.text == "9,900 more calls were denied"),
    );
    assert!(has_rest);
}

#[test]
fn the_usage_of_a_result_counts_where_no_message_has_any() {
    let result = r#"{"type":"result","subtype":"success","result":"x","usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":100}}"#;
    let expected = TokenCounts { input: 10, output: 5, cache_read: 100, cache_write: 0 };
    let document = folded(&[result]);
    assert_eq!(document.usage.tokens, expected);
    assert_eq!(document.turns.last().unwrap().tokens, expected);

    let message = r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":10,"output_tokens":2,"cache_read_input_tokens":100}}}"#;
    let document = folded(&[message, result]);
    assert_eq!(document.usage.tokens, TokenCounts { output: 2, ..expected });

    let flat = r#"{"type":"result","sessionId":"s","result":{"stopReason":"end_turn","usage":{"inputTokens":5,"outputTokens":7}}}"#;
    let text = r#"{"type":"text","text":"done"}"#;
    let document = folded(&[text, flat, text, flat]);
    assert_eq!((document.usage.tokens.input, document.usage.tokens.output), (10, 14));

    let array = format!("[{message},{result}]");
    assert_eq!(folded(&[&array]).usage.tokens.output, 2);
}
