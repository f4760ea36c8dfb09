//! Other recordings of a session, which give documents of the same shape.

use serde_json::json;
use towpath_view::{
    CallState, Conversation, Fold, ItemBody, ItemId, PromptAuthor, SessionPhase, SubAgentState,
    TodoState,
};
use wire::note::{PromptState, RequestKind, TurnEnding};

fn fold(lines: &[serde_json::Value]) -> Conversation {
    let mut fold = Fold::new();
    for (seq, line) in (1..).zip(lines) {
        fold.push_line(seq, line.to_string().as_bytes());
    }
    fold.conversation(usize::MAX)
}

/// The kind and text of each item.
fn outline(document: &Conversation) -> Vec<(&'static str, String)> {
    let outline = document.items.iter().map(|item| match &item.body {
        ItemBody::Prompt(prompt) => ("prompt", prompt.text.clone()),
        ItemBody::Text { text } => ("text", text.clone()),
        ItemBody::Thinking { text, .. } => ("thinking", text.clone()),
        ItemBody::Call(call) => {
            let result = call.result.as_ref().map(|it| &*it.text).unwrap_or_default();
            ("call", format!("{} {} {:?} {result}", call.tool, call.target, call.state))
        }
        ItemBody::Failure { text, .. } => ("failure", text.clone()),
        ItemBody::Notice(notice) => ("notice", notice.text.clone()),
        ItemBody::Raw(raw) => ("raw", raw.text.clone()),
        ItemBody::Compaction(compaction) => ("compaction", compaction.summary.clone()),
        ItemBody::Interruption => ("interruption", String::new()),
        other => panic!("{other:?}"),
    });
    outline.collect()
}

fn owned(outline: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    outline.iter().map(|(sort, text)| (*sort, (*text).to_owned())).collect()
}

#[test]
fn the_flat_dialect_gives_the_same_shape() {
    let document = fold(&[
        json!({"type":"session_start","session_id":"s","model":"opus"}),
        json!({"type":"text","text":"Let me "}),
        json!({"type":"text","text":"look."}),
        json!({"type":"tool_use","id":"t1","toolName":"Read","toolInput":{"file_path":"a.rs"}}),
        json!({"type":"tool_result","toolUseId":"t1","isError":false,"content":"fn main"}),
        json!({"type":"text","text":"Done."}),
        json!({"type":"result","result":{"stopReason":"end_turn","usage":{"inputTokens":1}}}),
    ]);
    let expected =
        [("text", "Let me look."), ("call", "Read a.rs Done fn main"), ("text", "Done.")];
    assert_eq!(outline(&document), owned(&expected));
    assert_eq!(document.turns.len(), 1);
    assert_eq!(document.status.phase, SessionPhase::Idle);
}

#[test]
fn a_recording_of_the_api_alone_gives_the_same_shape() {
    let document = fold(&[
        json!({"type":"message_start","message":{"id":"m1","role":"assistant","content":[],"usage":{"input_tokens":9,"output_tokens":1}}}),
        json!({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}),
        json!({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I options."}}),
        json!({"type":"content_block_stop","index":0}),
        json!({"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"Bash","input":{}}}),
        json!({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"ls\"}"}}),
        json!({"type":"content_block_stop","index":1}),
        json!({"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":20}}),
        json!({"type":"message_stop"}),
    ]);
    assert_eq!(outline(&document), owned(&[("text", "I options."), ("call", "Bash ls Running ")]));
    assert_eq!(document.usage.tokens.output, 20);
}

#[test]
fn a_result_alone_is_a_turn_with_its_text() {
    let document = fold(&[json!({"type":"result","subtype":"success","is_error":false,
        "result":"Forty-two.","total_cost_usd":0.25,"duration_ms":1500,"session_id":"s"})]);
    assert_eq!(outline(&document), owned(&[("text", "Forty-two.")]));
    let end = document.turns[0].end.as_ref().unwrap();
    assert_eq!((end.ending.clone(), end.duration_ms), (Some(TurnEnding::Completed), Some(1500)));
    assert_eq!(document.usage.cost, Some(0.25));
}

#[test]
fn an_array_of_events_on_one_line_is_folded_like_its_lines() {
    let events = [
        json!({"type":"system","subtype":"init","session_id":"s"}),
        json!({"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"a"}]}}),
        json!({"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"b"}]}}),
        json!({"type":"result","subtype":"success","is_error":false,"result":"b"}),
    ];
    let (lines, array) = (fold(&events), fold(&[json!(events)]));
    assert_eq!(outline(&array), outline(&lines));
    assert_eq!(outline(&array), owned(&[("text", "a"), ("text", "b")]));
    let ids = |document: &Conversation| {
        document.items.iter().map(|item| item.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&array), ids(&lines));
}

#[test]
fn unknown_lines_are_shown_raw() {
    let mut fold = Fold::new();
    fold.push_line(1, b"npm warn deprecated");
    fold.push_line(2, br#"{"type":"from_next_year","secret":7}"#);
    fold.push_line(3, br#"{"type":"assistant","message":7}"#);
    fold.push_line(4, b"");
    fold.push_line(5, &[0xff, 0xfe]);
    let document = fold.conversation(usize::MAX);
    let raws: Vec<_> = document
        .items
        .iter()
        .map(|item| match &item.body {
            ItemBody::Raw(raw) => (&*raw.name, item.first),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(raws, [("", 1), ("from_next_year", 2), ("assistant", 3), ("", 5)]);
    assert_eq!(fold.hidden_entries(), 1);
}

#[test]
fn a_long_odd_line_is_cut_at_a_character() {
    let mut fold = Fold::new();
    fold.push_line(1, "é".repeat(20_000).as_bytes());
    let document = fold.conversation(1);
    let ItemBody::Raw(raw) = &document.items[0].body else { panic!() };
    assert_eq!(raw.text.len(), 16 << 10);
}

#[test]
fn a_sub_agent_of_an_old_session_file_belongs_to_the_call_with_its_prompt() {
    let file = |mut line: serde_json::Value, sidechain: bool| {
        line["isSidechain"] = json!(sidechain);
        line["sessionId"] = json!("s");
        line["timestamp"] = json!("2026-11-15T09:34:49.873Z");
        line
    };
    let task = |id: &str, prompt: &str| json!({"type":"tool_use","id":id,"name":"Task","input":{"description":"d","prompt":prompt}});
    let says = |id: &str, block: serde_json::Value| json!({"type":"assistant","message":{"id":id,"content":[block],"usage":{"input_tokens":2,"output_tokens":1}}});
    let user = |content: serde_json::Value| json!({"type":"user","message":{"role":"user","content":content}});
    let document = fold(&[
        file(user(json!("go")), false),
        file(says("m1", task("t1", "find A")), false),
        file(says("m1", task("t2", "find B")), false),
        file(user(json!("find A")), true),
        file(says("m2", json!({"type":"text","text":"A is here"})), true),
        file(user(json!([{"type":"tool_result","tool_use_id":"t1","content":"here"}])), false),
        file(
            user(
                json!([{"type":"tool_result","tool_use_id":"t2","content":"there","is_error":true}]),
            ),
            false,
        ),
        file(says("m3", json!({"type":"text","text":"Found."})), false),
    ]);
    let nested: Vec<_> =
        document.items.iter().filter(|item| item.parent == Some(ItemId::call("t1"))).collect();
    assert_eq!(nested.len(), 2);
    let ItemBody::Prompt(prompt) = &nested[0].body else { panic!("{nested:?}") };
    assert_eq!(prompt.author, PromptAuthor::Agent);
    let ItemBody::Call(call) = &document.items[1].body else { panic!() };
    let agent = call.agent.as_ref().unwrap();
    assert_eq!((agent.state, agent.tokens.input), (SubAgentState::Completed, 2));
    let ItemBody::Call(call) = &document.items[2].body else { panic!() };
    assert_eq!(call.agent.as_ref().unwrap().state, SubAgentState::Failed);
    assert_eq!(document.usage.tokens.input, 6);
    assert_eq!(document.usage.context, Some(3), "the main agent's alone");
    assert_eq!(document.status.phase, SessionPhase::Idle);
}

#[test]
fn a_prompt_sent_while_the_agent_worked_is_in_the_document_of_its_file() {
    let document = fold(&[
        json!({"type":"user","message":{"role":"user","content":"go"},"uuid":"00000000-0000-0000-0000-000000000001","sessionId":"s"}),
        json!({"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]},"sessionId":"s"}),
        json!({"type":"attachment","attachment":{"type":"queued_command","prompt":"and b"},"uuid":"00000000-0000-0000-0000-000000000002","sessionId":"s"}),
        json!({"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]},"sessionId":"s"}),
    ]);
    let expected = [("prompt", "go"), ("call", "Bash ls Done x"), ("prompt", "and b")];
    assert_eq!(outline(&document), owned(&expected));
    assert_eq!(document.turns.len(), 1);
}

#[test]
fn to_do_lists_are_tracked_in_both_their_forms() {
    let call = |id: &str, name: &str, input: serde_json::Value| json!({"type":"assistant","message":{"id":id,"content":[{"type":"tool_use","id":id,"name":name,"input":input}]}});
    let done = |id: &str, structured: serde_json::Value| json!({"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":id,"content":"ok"}]},"tool_use_result":structured});
    let document = fold(&[
        call(
            "a",
            "TodoWrite",
            json!({"todos":[{"content":"One","status":"in_progress","activeForm":"Doing one"}]}),
        ),
        done("a", json!({})),
    ]);
    assert_eq!(document.todos.len(), 1);
    assert_eq!((&*document.todos[0].text, document.todos[0].state), ("One", TodoState::Doing));

    let document = fold(&[
        call("a", "TaskCreate", json!({"subject":"One","activeForm":"Doing one"})),
        done("a", json!({"task":{"id":"1","subject":"One"}})),
        call("b", "TaskCreate", json!({"subject":"Two"})),
        done("b", json!({"task":{"id":"2","subject":"Two"}})),
        call("c", "TaskUpdate", json!({"taskId":"2","status":"completed"})),
        done("c", json!({"success":true})),
        call("d", "TaskUpdate", json!({"taskId":"1","status":"deleted"})),
        done("d", json!({"success":true})),
    ]);
    assert_eq!(document.todos.len(), 1);
    assert_eq!((&*document.todos[0].text, document.todos[0].state), ("Two", TodoState::Done));
}

#[test]
fn a_background_agent_continues_after_its_turn() {
    let mut lines = vec![
        json!({"type":"system","subtype":"init","session_id":"s"}),
        json!({"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Task","input":{"prompt":"dig"}}]}}),
        json!({"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"launched"}]},"tool_use_result":{"isAsync":true,"status":"async_launched","agentId":"a1"}}),
        json!({"type":"assistant","message":{"id":"n","content":[{"type":"tool_use","id":"inner","name":"Bash","input":{"command":"dig"}}]},"parent_tool_use_id":"t"}),
        json!({"type":"assistant","message":{"id":"o","content":[{"type":"tool_use","id":"cut","name":"Bash","input":{"command":"ls"}}]}}),
        json!({"type":"result","subtype":"success","is_error":false,"result":"ok"}),
    ];
    let state = |document: &Conversation, id: &str| {
        let item = document.items.iter().find(|it| it.id == ItemId::call(id)).unwrap();
        match &item.body {
            ItemBody::Call(call) => (call.state, call.agent.as_ref().map(|agent| agent.state)),
            other => panic!("{other:?}"),
        }
    };
    let document = fold(&lines);
    assert_eq!(state(&document, "t"), (CallState::Done, Some(SubAgentState::Running)));
    assert_eq!(state(&document, "inner"), (CallState::Running, None));
    assert_eq!(state(&document, "cut"), (CallState::Unanswered, None));
    assert_eq!(document.status.phase, SessionPhase::Idle);
    lines.push(json!({"type":"system","subtype":"task_notification","task_id":"a1","tool_use_id":"t","status":"completed","summary":"dug"}));
    let document = fold(&lines);
    assert_eq!(state(&document, "t").1, Some(SubAgentState::Completed));
    assert_eq!(document.turns.len(), 1, "news of a task begin no turn");
}

#[test]
fn answers_to_a_question_are_found_in_a_session_file() {
    let document = fold(&[
        json!({"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"q","name":"AskUserQuestion","input":{"questions":[{"question":"Which?","options":[]}]}}]},"sessionId":"s"}),
        json!({"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"q","content":"answered"}]},"toolUseResult":{"questions":[],"answers":{"Which?":"A"}},"sessionId":"s"}),
    ]);
    let ItemBody::Call(call) = &document.items[0].body else { panic!() };
    assert_eq!(call.target, "Which?");
    let answers = &call.permission.as_ref().unwrap().answers;
    assert_eq!(answers, &[("Which?".to_owned(), "A".to_owned())]);
}

#[test]
fn a_sub_agent_that_asks_is_found_by_its_task() {
    let document = fold(&[
        json!({"type":"system","subtype":"init","session_id":"s"}),
        json!({"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Task","input":{"prompt":"dig"}}]}}),
        json!({"type":"system","subtype":"task_started","task_id":"a1","tool_use_id":"t"}),
        json!({"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"rm x"},"tool_use_id":"inner","agent_id":"a1"}}),
    ]);
    let inner = document.items.last().unwrap();
    assert_eq!(
        (inner.id.clone(), inner.parent.clone()),
        (ItemId::call("inner"), Some(ItemId::call("t")))
    );
    assert_eq!(document.status.phase, SessionPhase::Waiting { requests: 1 });
}

#[test]
fn images_of_a_result_are_counted_and_not_stored() {
    let document = fold(&[
        json!({"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Read","input":{"file_path":"a.png"}}]}}),
        json!({"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[
            {"type":"text","text":"a picture"},
            {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAAAAAA"}}]}]}}),
    ]);
    let ItemBody::Call(call) = &document.items[0].body else { panic!() };
    let result = call.result.as_ref().unwrap();
    assert_eq!((&*result.text, result.seq), ("a picture", 2));
    assert_eq!((&*result.images[0].media_type, result.images[0].bytes), ("image/png", 6));
    assert_eq!(call.state, CallState::Done);
}

#[test]
fn a_long_result_is_cut_and_says_so() {
    let text = "ab".repeat(200 << 10);
    let document = fold(&[
        json!({"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"yes"}}]}}),
        json!({"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":text}]}}),
    ]);
    let ItemBody::Call(call) = &document.items[0].body else { panic!() };
    let result = call.result.as_ref().unwrap();
    assert_eq!((result.text.len(), result.omitted_bytes), (256 << 10, 144 << 10));
}

#[test]
fn prompts_of_a_bare_stream_are_done_with_their_turn() {
    let document = fold(&[
        json!({"type":"system","subtype":"init","session_id":"s"}),
        json!({"type":"user","message":{"role":"user","content":"go"},"isReplay":true,"uuid":"00000000-0000-0000-0000-000000000001"}),
        json!({"type":"user","message":{"role":"user","content":"go"},"isReplay":true,"uuid":"00000000-0000-0000-0000-000000000001"}),
        json!({"type":"result","subtype":"error_during_execution","is_error":false,"errors":["no way"]}),
    ]);
    assert_eq!(document.items.len(), 1, "a prompt that is repeated is one prompt");
    let ItemBody::Prompt(prompt) = &document.items[0].body else { panic!() };
    assert_eq!(prompt.state, PromptState::Done);
    let ending = document.turns[0].end.as_ref().unwrap().ending.clone();
    assert_eq!(ending, Some(TurnEnding::Failed { message: "no way".to_owned() }));
}

#[test]
fn the_words_behind_an_interruption_are_shown() {
    let document = fold(&[
        json!({"type":"user","uuid":"u1","message":{"content":"start"}}),
        json!({"type":"user","uuid":"u2","message":{"content":[
            {"type":"text","text":"[Request interrupted by user]"},
            {"type":"text","text":"use tabs instead"},
        ]}}),
        json!({"type":"user","uuid":"u3","message":{"content":"[Request interrupted by user for tool use]"}}),
    ]);
    let expected = [
        ("prompt", "start"),
        ("prompt", "use tabs instead"),
        ("interruption", ""),
        ("interruption", ""),
    ];
    let mut found = outline(&document);
    found.sort_by_key(|(sort, _)| *sort == "interruption");
    assert_eq!(found, owned(&expected));
}

#[test]
fn a_result_before_its_call_loses_neither() {
    let document = fold(&[
        json!({"type":"user","message":{"content":[
            {"type":"tool_result","tool_use_id":"t1","content":"no such file","is_error":true},
            {"type":"tool_result","tool_use_id":"t2","content":"done"},
        ]}}),
        json!({"type":"assistant","message":{"id":"m","content":[
            {"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"a.rs"}},
            {"type":"tool_use","id":"t2","name":"Write","input":{"file_path":"b.rs","content":""}},
        ]}}),
    ]);
    let expected = [("call", "Read a.rs Failed no such file"), ("call", "Write b.rs Done done")];
    assert_eq!(outline(&document), owned(&expected));
    assert_eq!(document.turns[0].files[0].path, "b.rs");
}

#[test]
fn a_result_of_another_agent_is_not_taken_for_a_success() {
    // As Gemini and droid write them.
    let document = fold(&[
        json!({"type":"tool_result","tool_id":"x","status":"error","output":"no"}),
        json!({"type":"tool_result","id":"y","toolId":"Read","isError":true,"value":"no"}),
        json!({"type":"tool_result","tool_use_id":"x","status":"error"}),
    ]);
    assert_eq!(document.items.len(), 3);
    for item in &document.items[..2] {
        let ItemBody::Call(call) = &item.body else { panic!("{item:?}") };
        assert_eq!(call.state, CallState::Failed);
        assert_eq!(call.result.as_ref().unwrap().text, "no");
    }
    // No agent writes it like this.
    assert!(matches!(document.items[2].body, ItemBody::Raw(_)));
    for unknown in [
        json!({"type":"tool_result","content":"no"}),
        json!({"type":"tool_result","content":"no","status":"error"}),
        json!({"type":"tool_result","content":"no","isError":true}),
        json!({"type":"tool_result","content":"no","is_error":false}),
        json!({"type":"tool_result","tool_use_id":"","content":"no"}),
        json!({"type":"tool_result","tool_use_id":null,"content":"no"}),
        json!({"type":"tool_result","tool_use_id":"x"}),
        json!({"type":"tool_result","tool_use_id":"x","content":"no","status":"error"}),
        json!({"type":"tool_result","tool_use_id":"x","content":"no","error":"no"}),
        json!({"type":"tool_result","tool_use_id":"x","content":"no","success":false}),
        json!({"type":"tool_result","tool_use_id":"x","content":"no","exit_code":1}),
        json!({"type":"tool_result","toolUseId":"x","content":"no","status":"error"}),
        json!({"type":"tool_result","toolUseId":"x","isError":"yes","content":"no"}),
    ] {
        let document = fold(std::slice::from_ref(&unknown));
        let bodies: Vec<_> = document.items.iter().map(|item| &item.body).collect();
        assert!(matches!(bodies[..], [ItemBody::Raw(_)]), "{unknown}: {bodies:?}");
    }
    // As the documents of two wrappers describe it.
    for (known, state) in [
        (
            json!({"type":"tool_result","toolUseId":"x","isError":false,"content":"a"}),
            CallState::Done,
        ),
        (
            json!({"type":"tool_result","toolUseId":"x","isError":true,"content":"a"}),
            CallState::Failed,
        ),
        (json!({"type":"tool_result","tool_use_id":"x","content":"a"}), CallState::Done),
    ] {
        let document = fold(std::slice::from_ref(&known));
        let ItemBody::Call(call) = &document.items[0].body else { panic!("{known}") };
        assert_eq!(call.state, state, "{known}");
    }
}

#[test]
fn a_second_request_with_the_id_of_an_open_one_does_not_take_its_place() {
    let ask = |command: &str| json!({"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":command}}});
    let document = fold(&[ask("rm -rf ~"), ask("ls")]);
    assert_eq!(document.requests.len(), 1);
    assert_eq!(document.requests[0].disclosures()[0].text, "rm -rf ~");
    let withdrawn = json!({"type":"control_cancel_request","request_id":"r"});
    let document = fold(&[ask("rm -rf ~"), withdrawn, ask("ls")]);
    assert_eq!(document.requests[0].disclosures()[0].text, "ls");
}

#[test]
fn a_request_without_an_id_needs_a_person() {
    let start = json!({"type":"system","subtype":"init","session_id":"s"});
    let ask = json!({"type":"control_request","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}});
    let document = fold(&[start.clone(), ask]);
    let request = &document.requests[0];
    assert_eq!(request.kind, RequestKind::Unknown);
    assert!(request.tool.contains("Denying it stops the turn"), "{}", request.tool);
    assert!(request.disclosures()[0].text.contains("\"ls\""));
    assert!(matches!(document.status.phase, SessionPhase::Waiting { requests: 1 }));
    let ask = json!({"type":"control_request","request_id":7,"request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}});
    let document = fold(&[start, ask]);
    assert_eq!(
        (document.requests[0].kind, &*document.requests[0].id),
        (RequestKind::Permission, "number:7")
    );
}

#[test]
fn a_system_line_without_a_subtype_is_shown() {
    let document = fold(&[json!({"type":"system","text":"hello"})]);
    assert!(outline(&document)[0].1.contains("hello"));
}

#[test]
fn a_request_of_an_unknown_kind_waits_for_a_person_and_a_strange_result_ends_the_turn() {
    let ask =
        json!({"type":"control_request","request_id":"r","request":{"subtype":"teleport","to":7}});
    let start = json!({"type":"system","subtype":"init","session_id":"s"});
    let document = fold(&[start.clone(), ask.clone()]);
    let request = &document.requests[0];
    assert_eq!((request.kind, request.tool.as_str()), (RequestKind::Unknown, "teleport"));
    assert!(request.disclosures()[0].text.contains("\"to\":7"));
    assert!(matches!(document.status.phase, SessionPhase::Waiting { requests: 1 }));
    for result in [
        json!({"type":"result"}),
        json!({"type":"result","subtype":"success","usage":"many","duration_ms":-1.5,"is_error":"x"}),
    ] {
        let document = fold(&[start.clone(), ask.clone(), result]);
        assert!(document.turns[0].end.is_some());
        assert!(document.requests.is_empty());
        assert_eq!(document.status.phase, SessionPhase::Idle);
    }
    let odd = json!({"type":"control_request","request_id":"r","request":{
        "subtype":"can_use_tool","tool_name":"Bash","input":"rm -rf /","decision_reason":{"type":"rule"},
        "blocked_path":7,"permission_suggestions":{},"agent_id":5,"description":["a"]}});
    let document = fold(&[start, odd]);
    let request = &document.requests[0];
    assert_eq!(request.kind, RequestKind::Permission);
    assert_eq!(request.reason.as_deref(), Some(r#"{"type":"rule"}"#));
    assert_eq!(request.blocked_path.as_deref(), Some("7"));
    assert_eq!(request.disclosures()[0].text, "\"rm -rf /\"");
}
