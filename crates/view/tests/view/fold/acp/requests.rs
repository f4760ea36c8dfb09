//! Calls, and what the agent asks about them.

use super::{AcpJournal, answer, call};
use serde_json::{Value, json};
use towpath_view::{Call, CallState, ItemBody, SessionPhase, ToolAction};
use wire::acp::{PermissionChoice, PermissionChoiceKind};
use wire::note::{Actor, Note, Outcome, RequestKind, TurnEnding};

fn ask(journal: &mut AcpJournal, about: &Value) {
    let options = json!([{"optionId": "y", "name": "Yes, always here", "kind": "allow_always"},
        {"optionId": "n", "name": "No", "kind": "reject_once"}]);
    let params = json!({"sessionId": "s", "toolCall": about, "options": options});
    journal.said(&call(0, "session/request_permission", &params));
    let choice = |id: &str, name: &str, kind| PermissionChoice {
        id: id.to_owned(),
        name: name.to_owned(),
        kind,
    };
    journal.note(&Note::RequestOpened {
        request: "2:0".to_owned(),
        kind: RequestKind::Permission,
        expires: Some(7),
        rules: Vec::new(),
        choices: vec![
            choice("y", "Yes, always here", PermissionChoiceKind::AllowAlways),
            choice("n", "No", PermissionChoiceKind::RejectOnce),
        ],
    });
}

fn resolved(outcome: Outcome, choice: &str) -> Note {
    Note::RequestResolved {
        request: "2:0".to_owned(),
        outcome,
        by: Some(Actor { name: "Ada".to_owned(), via: "browser".to_owned() }),
        message: None,
        answers: Vec::new(),
        choice: Some(choice.to_owned()),
    }
}

#[test]
fn a_request_may_be_the_first_that_is_heard_of_a_call() {
    let mut journal = AcpJournal::in_turn();
    ask(
        &mut journal,
        &json!({"toolCallId": "c", "title": "rm -r x", "kind": "execute",
        "status": "pending", "content": [{"type": "content",
            "content": {"type": "text", "text": "in /p"}}]}),
    );
    let document = journal.document();
    assert_eq!(document.status.phase, SessionPhase::Waiting { requests: 1 });
    let request = &document.requests[0];
    assert_eq!((request.id.as_str(), request.expires, request.choices.len()), ("2:0", Some(7), 2));
    assert_eq!((request.action, request.target.as_str()), (ToolAction::Run, "rm -r x"));
    // Everything that the agent says about it is there to be seen before an answer.
    let disclosed: String = request.disclosures().into_iter().map(|it| it.text).collect();
    assert!(disclosed.contains("rm -r x") && disclosed.contains("in /p"), "{disclosed}");
    journal.note(&resolved(Outcome::AllowedAndRemembered, "Yes, always here"));
    // What was sent says no more than the note.
    journal.sent(&answer(0, &json!({"outcome": {"outcome": "cancelled"}})));
    journal.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
        "status": "completed", "content": []}));
    let call = journal.call("c");
    assert_eq!((call.state, call.result), (CallState::Done, None));
    let permission = call.permission.unwrap();
    assert_eq!(permission.choice.as_deref(), Some("Yes, always here"));
    assert_eq!(permission.outcome, Some(Outcome::AllowedAndRemembered));
}

#[test]
fn a_denied_call_stays_denied_whatever_the_agent_says_of_it() {
    for last in [None, Some("failed"), Some("completed")] {
        let mut journal = AcpJournal::in_turn();
        ask(&mut journal, &json!({"toolCallId": "c", "title": "t"}));
        journal.note(&resolved(Outcome::Denied, "No"));
        if let Some(status) = last {
            journal.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
                "status": status}));
        }
        journal.note(&Note::TurnEnded { turn: 1, ending: TurnEnding::Interrupted });
        assert_eq!(journal.call("c").state, CallState::Denied, "{last:?}");
    }
}

#[test]
fn a_withdrawn_request_is_gone() {
    let mut journal = AcpJournal::in_turn();
    ask(&mut journal, &json!({"toolCallId": "c", "title": "t"}));
    journal.said(&json!({"jsonrpc": "2.0", "method": "$/cancel_request",
        "params": {"requestId": 0}}));
    assert_eq!(journal.document().requests, []);
}

#[test]
fn a_request_that_nobody_is_asked_is_not_open() {
    let mut journal = AcpJournal::in_turn();
    journal.said(&call(4, "elicitation/create", &json!({"message": "", "sessionId": "s"})));
    journal.sent(&json!({"jsonrpc": "2.0", "id": 4, "error": {"code": -32602, "message": "no"}}));
    assert_eq!(journal.document().requests, []);
}

#[test]
fn a_form_is_questions_and_its_answers_are_kept() {
    let mut journal = AcpJournal::in_turn();
    journal.said(&call(
        3,
        "elicitation/create",
        &json!({"mode": "form", "sessionId": "s",
        "message": "Two things", "requestedSchema": {"properties": {
            "a": {"type": "string", "title": "Colour", "oneOf": [{"const": "r", "title": "red"}]},
            "a_custom": {"type": "string", "title": "Other"},
            "b": {"type": "array", "description": "Which?", "items": {"enum": ["x", "y"]}}}}}),
    ));
    journal.note(&Note::RequestOpened {
        request: "1:3".to_owned(),
        kind: RequestKind::Question,
        expires: None,
        rules: Vec::new(),
        choices: Vec::new(),
    });
    let request = journal.document().requests.remove(0);
    let input: Value = serde_json::from_str(&request.input).unwrap();
    assert_eq!(input["questions"][0]["question"], "Colour");
    assert_eq!(input["questions"][1]["question"], "Which?");
    assert_eq!(input["questions"][1]["options"][1]["label"], "y");
    assert_eq!(input["questions"].as_array().unwrap().len(), 2);
    journal.note(&Note::RequestResolved {
        request: "1:3".to_owned(),
        outcome: Outcome::Allowed,
        by: None,
        message: None,
        answers: vec![("Colour".to_owned(), "red".to_owned())],
        choice: None,
    });
    let bodies = journal.bodies();
    let Some(ItemBody::Call(question)) = bodies.last() else { panic!("{bodies:?}") };
    assert_eq!((question.action, question.state), (ToolAction::Ask, CallState::Done));
    assert_eq!(question.permission.as_ref().unwrap().answers[0].1, "red");
}

fn lines(call: &Call) -> Vec<String> {
    let diff = towpath_view::diff::Diff::of(call).expect("a diff");
    let lines = diff.hunks.iter().flat_map(|hunk| &hunk.lines);
    let number = |number: Option<usize>| number.map_or_else(String::new, |it| it.to_string());
    lines
        .map(|line| format!("{}{} {}", line.change.sign(), number(line.number), line.text()))
        .collect()
}

#[test]
fn diffs_of_both_versions_are_hunks_with_line_numbers() {
    let mut journal = AcpJournal::in_turn();
    let old = (1..=9).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
    journal.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "edit",
        "content": [{"type": "diff", "path": "/p/a", "oldText": old,
            "newText": old.replace("7\n", "seven\n")}]}));
    let expected = [" 4 4", " 5 5", " 6 6", "-7 7", "+7 seven", " 8 8", " 9 9"];
    assert_eq!(lines(&journal.call("c")), expected);
    assert_eq!((journal.call("c").target, journal.call("c").files.len()), ("/p/a".to_owned(), 1));
    // A part of a file says where it begins.
    journal.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "d", "kind": "edit",
        "locations": [{"path": "/p/a", "line": 40}],
        "content": [{"type": "diff", "path": "/p/a", "oldText": "x", "newText": "y"}]}));
    assert_eq!(lines(&journal.call("d")), ["-40 x", "+40 y"]);
    let patch = "diff --git a b\n--- a\n+++ b\n@@ -3,2 +3,3 @@ fn\n a\n-b\n+c\n+--- d\n@@ -9 +10 @@\n-x\n+y\n";
    journal.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "e", "kind": "edit",
        "status": "completed", "content": [{"type": "diff",
            "changes": [{"operation": "modify", "path": "/p/b"}],
            "patch": {"format": "git_patch", "text": patch}}]}));
    assert_eq!(lines(&journal.call("e")), [" 3 a", "-4 b", "+4 c", "+5 --- d", "-9 x", "+10 y"]);
    let files: Vec<_> =
        journal.document().turns.last().unwrap().files.iter().map(|it| it.path.clone()).collect();
    assert_eq!(files, ["/p/b"]);
}

#[test]
fn the_output_of_terminals_is_that_of_their_calls() {
    let mut journal = AcpJournal::in_turn();
    // Version 2: the terminal may come first, and a character may be split.
    journal.update(&json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t",
        "data": "w6k="}));
    journal.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
        "kind": "execute", "content": [{"type": "terminal", "terminalId": "t"}]}));
    journal.update(
        &json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "YcM="}),
    );
    journal.update(
        &json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "qQo="}),
    );
    assert_eq!(journal.call("c").result.unwrap().text, "éaé\n");
    journal.update(&json!({"sessionUpdate": "terminal_update", "terminalId": "t",
        "output": {"data": "YWxs"}, "exitStatus": {"exitCode": 3}}));
    assert_eq!(journal.call("c").result.unwrap().text, "all\nExit code 3");
    // Version 1: outside the protocol.
    journal.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "d",
        "status": "completed", "_meta": {"terminal_output": {"terminal_id": "d", "data": "out"}}}));
    assert_eq!(journal.call("d").result.unwrap().text, "out");
}

#[test]
fn output_is_what_the_content_says_or_else_what_was_returned() {
    let mut journal = AcpJournal::in_turn();
    let text = |text: &str| {
        json!([{"type": "content", "content": {"type": "text", "text": text}},
        {"type": "content", "content": {"type": "image", "mimeType": "image/png", "data": "QUJD"}}])
    };
    journal.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Look",
        "kind": "other", "content": text("before it runs")}));
    let call = journal.call("c");
    assert_eq!(
        (call.state, call.progress.unwrap().text.as_str()),
        (CallState::Writing, "before it runs")
    );
    journal.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
        "status": "completed", "content": text("```console\nout\n```"), "rawOutput": "raw"}));
    let result = journal.call("c").result.unwrap();
    assert_eq!((result.text.as_str(), result.images[0].bytes), ("out\n", 3));
    for (raw, expected) in [
        (json!("plain"), "plain"),
        (json!({"output": "inner", "x": 1}), "inner"),
        (json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "a\nb"),
        (json!({"n": 1}), r#"{"n":1}"#),
    ] {
        journal.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": expected,
            "status": "failed", "rawOutput": raw}));
        let call = journal.call(expected);
        assert_eq!((call.state, call.result.unwrap().text.as_str()), (CallState::Failed, expected));
    }
}
