//! Readings of single lines: events in every dialect, unknown kinds, and unexpected shapes.

use towpath_wire::event::{
    Block, Body, ControlResult, Delta, Record, ResultSubtype, Signal, Stream, System,
};
use towpath_wire::{Dialect, Line, Reading, read};

fn only(line: &str) -> Line<'_> {
    let mut lines = read(line.as_bytes());
    let first = lines.next().expect("a reading");
    assert!(lines.next().is_none(), "one reading expected of {line}");
    first
}

#[track_caller]
fn body(line: &str) -> (Dialect, Body<'_>) {
    let line = only(line);
    match line.reading {
        Reading::Event(event) => (line.dialect, event.body),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn mismatch(line: &str, expected: &str) {
    match only(line).reading {
        Reading::Mismatch(mismatch) => {
            assert_eq!(format!("{}: {}", mismatch.kind, mismatch.reason), expected);
            assert_eq!(mismatch.object.as_str(), line);
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn unknown(line: &str, kind: &str) {
    match only(line).reading {
        Reading::Unknown(unknown) => {
            assert_eq!(unknown.kind.to_string(), kind);
            assert_eq!(unknown.object.as_str(), line);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_known_kind_in_an_unexpected_shape_is_a_mismatch_with_a_path() {
    mismatch(r#"{"type":"assistant"}"#, "assistant: message: missing");
    mismatch(
        r#"{"type":"assistant","message":42}"#,
        "assistant: message: expected an object, found a number",
    );
    mismatch(
        r#"{"type":"user","message":{"role":"user","content":7}}"#,
        "user: message.content: expected a string or an array of blocks, found a number",
    );
    mismatch(
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"a"},{"type":"tool_use","id":"t","input":{}}]}}"#,
        "assistant: message.content[1].name: missing",
    );
    mismatch(r#"{"type":"result"}"#, "result: subtype: missing");
    mismatch(r#"{"type":"system","debug":1}"#, "system: subtype: missing");
    mismatch(r#"{"type":"stream_event","event":{"index":0}}"#, "stream_event: event.type: missing");
    mismatch(
        r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0}}"#,
        "stream_event: event.delta: missing",
    );
    mismatch(
        r#"{"type":"control_request","request":{"subtype":"interrupt"}}"#,
        "control_request/interrupt: request_id: missing",
    );
    mismatch(r#"{"type":"control_response"}"#, "control_response: response: missing");
    mismatch(r#"{"type":"control_cancel_request"}"#, "control_cancel_request: request_id: missing");
}

/// The agent waits for the answer to a request, and a person for the end of a turn, so neither may be
/// lost because of a field that nothing depends on.
#[test]
fn an_odd_field_is_reported_and_the_rest_of_the_event_is_read() {
    #[track_caller]
    fn unexpected(line: &str, expected: &[&str]) {
        match only(line).reading {
            Reading::Event(event) => assert_eq!(event.unexpected, expected),
            other => panic!("{other:?}"),
        }
    }
    unexpected(
        r#"{"type":"result","subtype":"success","is_error":"yes","num_turns":2}"#,
        &["is_error: expected true or false, found a string"],
    );
    unexpected(
        r#"{"type":"result","subtype":"success","usage":{"input_tokens":"many"},"result":[]}"#,
        &[
            "usage.input_tokens: expected a number, found a string",
            "result: expected a string, found an array",
        ],
    );
    unexpected(
        r#"{"type":"system","subtype":"init","session_id":5}"#,
        &["session_id: expected a string, found a number"],
    );
    unexpected(
        r#"{"type":"control_request","request":{"subtype":"can_use_tool","tool_name":[],"input":7},"request_id":"r"}"#,
        &["request.tool_name: expected a string, found an array"],
    );
    unexpected(
        r#"{"type":"control_request","request":{"subtype":"can_use_tool"},"request_id":"r"}"#,
        &[],
    );
}

#[test]
fn a_new_kind_is_unknown_and_keeps_its_name() {
    unknown(r#"{"type":"brand_new"}"#, "brand_new");
    unknown(r#"{"subtype":"sort","session_id":5,"type":"brand_new"}"#, "brand_new/sort");
    unknown(r#"{"type":"system","subtype":"brand_new","session_id":5}"#, "system/brand_new");
    unknown(r#"{"type":"stream_event","event":{"type":"brand_new"}}"#, "stream_event/brand_new");
    unknown(
        r#"{"type":"control_request","request_id":"r","request":{"subtype":"brand_new"}}"#,
        "control_request/brand_new",
    );
    unknown(
        r#"{"type":"control_response","response":{"subtype":"brand_new","request_id":"r"}}"#,
        "control_response/brand_new",
    );
}

#[test]
fn new_parts_of_a_known_kind_are_reported_and_the_event_is_read() {
    let names = |line| match only(line).reading {
        Reading::Event(event) => event.unmodelled(),
        other => panic!("{other:?}"),
    };
    let line = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"a"},{"type":"hologram"}]}}"#;
    assert_eq!(names(line), ["content_block/hologram"]);
    let line = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"hum"}}}"#;
    assert_eq!(names(line), ["delta/hum"]);
    let line = r#"{"type":"result","subtype":"error_new"}"#;
    assert_eq!(names(line), ["result/error_new"]);
    let (_, Body::TurnEnded(turn)) = body(line) else { panic!() };
    assert!(turn.failed());
}

#[test]
fn the_last_of_duplicate_keys_counts_even_for_the_type() {
    let line = only(r#"{"type":"user","message":"x","type":"keep_alive"}"#);
    assert_eq!(line.kind().unwrap().to_string(), "keep_alive");
    let line = only(r#"{"type":"system","subtype":"status","subtype":"init","model":"m"}"#);
    assert_eq!(line.kind().unwrap().to_string(), "system/init");
    let line = only(r#"{"t\u0079pe":"keep_alive","ty\u0070e":"system","subtype":"init"}"#);
    assert_eq!(line.kind().unwrap().to_string(), "system/init");
    let line = only(r#"{"type":"keep_alive","type":5}"#);
    assert!(matches!(line.reading, Reading::Noise(_)));
    let Body::Assistant(assistant) =
        body(r#"{"type":"assistant","message":{"id":"a"},"message":{"model":"m"}}"#).1
    else {
        panic!()
    };
    assert!(assistant.message.id.is_none() && assistant.message.model.unwrap() == "m");
}

#[test]
fn content_is_read_in_every_form() {
    for (content, texts) in [
        (r#""plain""#, &["plain"][..]),
        ("null", &[]),
        ("[]", &[]),
        (r#"[{"text":"a","type":"text"}]"#, &["a"]),
        (r#"{"type":"text","text":"a"}"#, &["a"]),
        (r#"[{"type":"text","text":"a"},"b",{"type":"text","text":"\u00e9"}]"#, &["a", "b", "é"]),
    ] {
        let line = format!(r#"{{"type":"user","message":{{"role":"user","content":{content}}}}}"#);
        let (_, Body::User(user)) = body(&line) else { panic!() };
        let found: Vec<String> = user
            .message
            .content
            .blocks()
            .map(|block| match block {
                Block::Text(text) => text.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(found, texts);
    }
}

#[test]
fn a_turn_failed_if_its_subtype_or_its_flag_is_an_error() {
    for (fields, failed) in [
        (r#""subtype":"success","is_error":false"#, false),
        (r#""subtype":"success""#, false),
        // HTTP 500, a refused connection or a missing key.
        (r#""subtype":"success","is_error":true"#, true),
        // An interrupt in versions up to 2.1.37.
        (r#""subtype":"error_during_execution","is_error":false"#, true),
        (r#""subtype":"error_max_turns""#, true),
        (r#""result":"flat""#, false),
    ] {
        let line = format!(r#"{{"type":"result",{fields}}}"#);
        let (_, Body::TurnEnded(turn)) = body(&line) else { panic!() };
        assert_eq!(turn.failed(), failed, "{line}");
    }
}

#[test]
fn observed_variations_of_field_types_are_accepted() {
    let line = r#"{"duration_ms":12.7,"total_cost_usd":1,"errors":[{"message":"x"},"y"],"stop_reason":null,"type":"result","modelUsage":{"m":{"inputTokens":3,"outputTokens":9,"costUSD":0.5}},"permission_denials":[{"tool_name":"Bash","tool_use_id":"t","tool_input":{"a":1}}],"subtype":"error_during_execution"}"#;
    let (_, Body::TurnEnded(turn)) = body(line) else { panic!() };
    assert_eq!(turn.duration_ms, Some(12));
    assert_eq!(turn.total_cost_usd, Some(1.0));
    assert_eq!(turn.errors.unwrap().items().count(), 2);
    assert!(
        matches!(turn.ending, Some(ResultSubtype::Error(name)) if name == "error_during_execution")
    );
    let model = turn.models().next().unwrap();
    assert_eq!((model.model.to_string(), model.usage.output_tokens), ("m".into(), Some(9)));
    assert_eq!(turn.denials().next().unwrap().tool_name.unwrap(), "Bash");

    let line = r#"{"type":"system","subtype":"api_retry","retry_delay_ms":512.25,"error_status":null,"attempt":1}"#;
    let (_, Body::System(System::ApiRetry(retry))) = body(line) else { panic!() };
    assert_eq!((retry.retry_delay_ms, retry.error_status), (Some(512.25), None));

    for result in [r#"{"a":1}"#, r#"[{"type":"text"}]"#, r#""Error: no""#] {
        let line = format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t","content":null}}]}},"tool_use_result":{result}}}"#
        );
        let (_, Body::User(user)) = body(&line) else { panic!() };
        assert_eq!(user.tool_use_result.unwrap().as_str(), result);
        assert!(user.is_tool_result());
    }
}

#[test]
fn the_flat_dialect_is_read_into_the_same_events() {
    let (dialect, Body::Init(_)) = body(r#"{"type":"session_start","session_id":"abc"}"#) else {
        panic!()
    };
    assert_eq!(dialect, Dialect::Flat);

    let (dialect, Body::Stream(Stream::BlockDelta { delta: Delta::Text(text), .. })) =
        body(r#"{"type":"text","text":"I'll help"}"#)
    else {
        panic!()
    };
    assert_eq!((dialect, text.to_string()), (Dialect::Flat, "I'll help".into()));

    let (dialect, Body::Assistant(assistant)) =
        body(r#"{"type":"tool_use","id":"t1","toolName":"Edit","toolInput":{"file_path":"a"}}"#)
    else {
        panic!()
    };
    let Some(Block::ToolUse(call)) = assistant.message.content.blocks().next() else { panic!() };
    assert_eq!((dialect, call.name.to_string()), (Dialect::Flat, "Edit".into()));

    let (dialect, Body::User(user)) =
        body(r#"{"type":"tool_result","toolUseId":"t1","isError":true,"content":{"a":1}}"#)
    else {
        panic!()
    };
    let Some(Block::ToolResult(result)) = user.message.content.blocks().next() else { panic!() };
    assert_eq!(dialect, Dialect::Flat);
    assert!(result.failed() && result.tool_use_id.unwrap() == "t1");

    let (dialect, Body::TurnEnded(turn)) = body(
        r#"{"type":"result","sessionId":"abc","result":{"stopReason":"end_turn","usage":{"inputTokens":1523,"outputTokens":842}}}"#,
    ) else {
        panic!()
    };
    assert_eq!(dialect, Dialect::Flat);
    assert_eq!(turn.usage.unwrap().output_tokens, Some(842));
    assert!(turn.stop_reason.unwrap() == "end_turn" && !turn.failed());

    let (_, Body::Signal(Signal::PermissionPrompt(prompt))) =
        body(r#"{"type":"permission_request","prompt":"Allow?","metadata":{}}"#)
    else {
        panic!()
    };
    assert_eq!(prompt.prompt.unwrap(), "Allow?");

    let (_, Body::Signal(Signal::Error(fault))) =
        body(r#"{"type":"error","error":{"type":"api_error","message":"Rate limit"}}"#)
    else {
        panic!()
    };
    assert!(fault.name.unwrap() == "api_error" && fault.message.unwrap() == "Rate limit");
}

#[test]
fn a_tool_result_outside_a_message_is_a_user_message() {
    let (dialect, Body::User(user)) =
        body(r#"{"type":"tool_result","tool_use_id":"t1","content":"done"}"#)
    else {
        panic!()
    };
    assert_eq!(dialect, Dialect::LooseToolResult);
    assert!(user.is_tool_result());
}

#[test]
fn the_field_names_of_session_files_are_read() {
    let line = r#"{"parentUuid":null,"isSidechain":true,"cwd":"/p","sessionId":"s","session_id":"other","version":"2.1.263","type":"assistant","message":{"id":"m","content":[]},"requestId":"req","isApiErrorMessage":true}"#;
    let line = only(line);
    assert_eq!(line.dialect, Dialect::Transcript);
    let event = line.event().unwrap();
    assert_eq!(event.envelope.session_id.unwrap(), "s");
    assert!(event.of_sub_agent());
    assert_eq!(event.envelope.file.as_ref().unwrap().version.unwrap(), "2.1.263");
    let Body::Assistant(assistant) = &event.body else { panic!() };
    assert!(assistant.api_error && assistant.request_id.unwrap() == "req");

    let line = r#"{"type":"summary","summary":"Fixing it","leafUuid":"x"}"#;
    let (dialect, Body::Record(Record::Title(title))) = body(line) else { panic!() };
    assert_eq!((dialect, title.unwrap().to_string()), (Dialect::Transcript, "Fixing it".into()));

    let line =
        r#"{"type":"queue-operation","operation":"enqueue","content":"next","sessionId":"s"}"#;
    let (_, Body::Record(Record::QueueOperation(queue))) = body(line) else { panic!() };
    assert_eq!(queue.operation.unwrap(), "enqueue");

    let line =
        r#"{"type":"progress","data":{"type":"bash_progress"},"toolUseID":"t","sessionId":"s"}"#;
    let (_, Body::Record(Record::Progress(progress))) = body(line) else { panic!() };
    assert_eq!(progress.name.unwrap(), "bash_progress");

    let line = r#"{"type":"system","subtype":"compact_boundary","compactMetadata":{"trigger":"auto","preTokens":9},"sessionId":"s"}"#;
    let (dialect, Body::System(System::CompactBoundary(boundary))) = body(line) else { panic!() };
    assert_eq!((dialect, boundary.pre_tokens), (Dialect::Transcript, Some(9)));

    let line = r#"{"type":"file-history-snapshot","messageId":"m","snapshot":{},"isSnapshotUpdate":false}"#;
    let (dialect, Body::Record(Record::Other)) = body(line) else { panic!() };
    assert_eq!(dialect, Dialect::Transcript);
}

#[test]
fn an_echoed_response_without_an_id_is_read() {
    // 2.1.325 writes this if the request had no id.
    let line = r#"{"type":"control_response","response":{"subtype":"success","response":{"mode":"plan"}}}"#;
    let (_, Body::ControlResponse(answer)) = body(line) else { panic!() };
    assert!(answer.request_id.is_none());
    assert!(matches!(answer.response, ControlResult::Success(Some(_))));
}

#[test]
fn text_that_ends_inside_an_emoji_is_read() {
    let line = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\ud83d"}}}"#;
    let (_, Body::Stream(Stream::BlockDelta { delta: Delta::Text(text), .. })) = body(line) else {
        panic!()
    };
    assert_eq!(text, "a\u{fffd}");
}
