//! The session without a process: inputs in, effects out.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::play::args::PlayerArgs;
use crate::play::event::{
    CallInspection, ModelFailure, ModelReply, PlayerEffect, PlayerInput, ToolErrorFlag, ToolOutcome,
};
use crate::play::release::PlayerRelease;
use crate::play::session::PlayerSession;
use crate::play::settings::{PlayerEnvironment, PlayerSettings};
use crate::play::stamps::IdGenerator;
use crate::play::stdio::parse_stdin_line;
use crate::play::transcript::ResumedConversation;

const STREAM: &str = "-p --verbose --input-format stream-json --output-format stream-json";

/// A session with the lines it has printed and its other effects.
struct SessionHarness {
    player: PlayerSession,
    now: SystemTime,
    lines: Vec<Value>,
    effects: Vec<PlayerEffect>,
}

impl SessionHarness {
    fn new(flags: &str) -> Self {
        let args = PlayerArgs::parse(flags.split_whitespace().map(str::to_owned).collect());
        let args = args.unwrap();
        let environment = PlayerEnvironment {
            cwd: "/project".into(),
            home: "/home".into(),
            ..PlayerEnvironment::default()
        };
        let settings = PlayerSettings::load(&args, &environment);
        let (id, ids) = ("session".to_owned(), IdGenerator::seeded(7));
        let player = PlayerSession::new(
            args,
            environment,
            settings,
            id,
            ResumedConversation::default(),
            ids,
        );
        Self { player, now: UNIX_EPOCH, lines: Vec::new(), effects: Vec::new() }
    }

    fn on(&mut self, input: PlayerInput) {
        self.now += Duration::from_millis(1);
        for effect in self.player.on(self.now, input) {
            match effect {
                PlayerEffect::Print(line) => self.lines.push(line),
                PlayerEffect::Record { .. } => {}
                other => self.effects.push(other),
            }
        }
    }

    fn send(&mut self, line: &Value) {
        self.on(PlayerInput::Stdin(parse_stdin_line(
            line.to_string().as_bytes(),
            PlayerRelease::default(),
        )));
    }

    fn prompt(&mut self, text: &str) {
        self.send(&json!({"type": "user", "message": {"role": "user", "content": text}}));
    }

    /// The last request to the model.
    fn model_request(&self) -> (u64, &Value) {
        let request = self.effects.iter().rev().find_map(|effect| match effect {
            PlayerEffect::RequestModel { number, body } => Some((*number, body)),
            _ => None,
        });
        request.expect("a request")
    }

    fn reply(&mut self, reply: ModelReply) {
        let (number, _) = self.model_request();
        self.on(PlayerInput::Model(number, reply));
    }

    /// Starts a reply with part of a text.
    fn start_text(&mut self, text: &str) {
        let message = json!({"id": "msg", "model": "m", "usage": {"output_tokens": 1}});
        self.reply(ModelReply::Event(json!({"type": "message_start", "message": message})));
        let block = json!({"type": "text", "text": ""});
        let start = json!({"type": "content_block_start", "index": 0, "content_block": block});
        self.reply(ModelReply::Event(start));
        let delta = json!({"type": "text_delta", "text": text});
        let delta = json!({"type": "content_block_delta", "index": 0, "delta": delta});
        self.reply(ModelReply::Event(delta));
    }

    /// Sends a whole reply.
    fn answer(&mut self, blocks: &Value, stop: &str) {
        let usage = json!({"input_tokens": 3, "output_tokens": 9});
        let message = json!({"id": "msg", "model": "m", "content": blocks, "stop_reason": stop, "usage": usage});
        self.reply(ModelReply::Message(message));
    }

    fn call_tool(&mut self, tool: &str, input: &Value) {
        self.answer(
            &json!([{"type": "tool_use", "id": "t", "name": tool, "input": input}]),
            "tool_use",
        );
        if self.effects.iter().any(|effect| matches!(effect, PlayerEffect::Inspect(_))) {
            self.on(PlayerInput::Inspected {
                call: "t".to_owned(),
                inspection: CallInspection::Valid,
            });
        }
    }

    fn finish_tool(&mut self, text: &str) {
        let outcome = ToolOutcome {
            content: text.into(),
            error_flag: ToolErrorFlag::Success,
            report: json!({}),
        };
        self.on(PlayerInput::ToolDone { call: "t".to_owned(), outcome });
    }

    fn kinds(&self) -> Vec<String> {
        let kind = |line: &Value| {
            let name = line["subtype"].as_str().or(line["request"]["subtype"].as_str());
            let state = line["state"].as_str();
            let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
            [text(&line["type"]), name.or(state).unwrap_or_default().to_owned()]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("/")
        };
        self.lines.iter().map(kind).collect()
    }

    fn last(&self, kind: &str) -> &Value {
        self.lines.iter().rfind(|line| line["type"] == kind).expect("a line of this type")
    }

    fn tool_runs(&self) -> usize {
        self.effects.iter().filter(|effect| matches!(effect, PlayerEffect::RunTool(_))).count()
    }
}

fn session(flags: &str) -> SessionHarness {
    SessionHarness::new(&format!("{STREAM} {flags}"))
}

#[test]
fn a_prompt_is_answered_and_the_session_exits_after_stdin() {
    let mut session = session("");
    session.prompt("hi");
    session.answer(&json!([{"type": "text", "text": "hello"}]), "end_turn");
    assert_eq!(session.kinds(), ["system/init", "assistant", "result/success"]);
    let result = session.last("result");
    assert_eq!((&result["result"], &result["num_turns"]), (&json!("hello"), &json!(1)));
    session.on(PlayerInput::StdinClosed);
    assert_eq!(session.effects.last(), Some(&PlayerEffect::Exit(0)));
}

#[test]
fn a_call_runs_only_when_the_host_allows_it() {
    let mut session = session("--permission-prompt-tool stdio");
    session.prompt("go");
    session.call_tool("Bash", &json!({"command": "touch a"}));
    assert_eq!(session.tool_runs(), 0);
    let request = session.last("control_request").clone();
    assert_eq!(request["request"]["tool_name"], "Bash");
    let payload = json!({"behavior": "allow", "updatedInput": {"command": "touch b"}});
    let response =
        json!({"subtype": "success", "request_id": request["request_id"], "response": payload});
    session.send(&json!({"type": "control_response", "response": response}));
    let Some(PlayerEffect::RunTool(invocation)) = session.effects.last() else {
        panic!("no tool runs")
    };
    assert_eq!(invocation.input, json!({"command": "touch b"}));
    // A second answer to the same request is ignored.
    session.send(&json!({"type": "control_response", "response": response}));
    assert_eq!(session.tool_runs(), 1);
    session.finish_tool("ran");
    let (_, body) = session.model_request();
    assert_eq!(body["messages"][2]["content"][0]["content"], "ran");
}

#[test]
fn a_call_is_denied_if_no_host_answers_permission_requests() {
    let mut session = session("");
    session.prompt("go");
    session.call_tool("Bash", &json!({"command": "touch a"}));
    assert_eq!(session.tool_runs(), 0);
    session.answer(&json!([{"type": "text", "text": "oh"}]), "end_turn");
    assert_eq!(session.last("result")["permission_denials"][0]["tool_name"], "Bash");
    let kinds = session.kinds();
    assert!(kinds.contains(&"system/permission_denied".to_owned()), "{kinds:?}");
}

#[test]
fn prompts_during_a_text_share_the_next_turn() {
    let mut session = session("");
    session.prompt("one");
    session.start_text("so");
    session.prompt("two");
    session.prompt("three");
    session.reply(ModelReply::Event(json!({"type": "content_block_stop", "index": 0})));
    session.reply(ModelReply::Event(json!({"type": "message_stop"})));
    let (_, body) = session.model_request();
    assert_eq!(body["messages"][2]["content"][0]["text"], "two\nthree");
}

#[test]
fn a_prompt_during_a_tool_joins_the_turn() {
    let mut session = session("--dangerously-skip-permissions");
    session.prompt("one");
    session.call_tool("Bash", &json!({"command": "make"}));
    session.prompt("two");
    session.finish_tool("made");
    let (_, body) = session.model_request();
    let newest = &body["messages"][3];
    assert_eq!(newest["role"], "system");
    assert!(newest["content"][0]["text"].as_str().unwrap().contains("working:\ntwo\n"));
    session.answer(&json!([{"type": "text", "text": "both"}]), "end_turn");
    assert_eq!(session.kinds().iter().filter(|kind| *kind == "result/success").count(), 1);
}

#[test]
fn an_urgent_prompt_ends_the_turn_after_its_tool() {
    let mut session = session("--dangerously-skip-permissions");
    session.prompt("one");
    session.call_tool("Bash", &json!({"command": "make"}));
    let message = json!({"role": "user", "content": "two"});
    session.send(&json!({"type": "user", "message": message, "priority": "now"}));
    session.finish_tool("made");
    assert_eq!(session.last("result")["terminal_reason"], "aborted_tools");
    let (_, body) = session.model_request();
    let messages = body["messages"].as_array().unwrap();
    assert!(messages.last().unwrap().to_string().contains("two"));
}

#[test]
fn a_duplicate_prompt_is_not_answered_again() {
    let mut session = session("--replay-user-messages");
    let message = json!({"role": "user", "content": "one"});
    let line = json!({"type": "user", "message": message, "uuid": "u"});
    session.send(&line);
    session.answer(&json!([{"type": "text", "text": "1"}]), "end_turn");
    let before = session.lines.len();
    session.send(&line);
    assert_eq!(session.lines.len(), before + 1);
    assert_eq!(session.lines[before]["isReplay"], true);
}

#[test]
fn an_interrupt_keeps_the_partial_text_and_the_process() {
    let mut session = session("--include-partial-messages");
    session.prompt("one");
    session.start_text("half a se");
    let request = json!({"subtype": "interrupt"});
    session.send(&json!({"type": "control_request", "request_id": "i", "request": request}));
    let kinds = session.kinds();
    let tail: Vec<&str> = kinds[kinds.len() - 7..].iter().map(String::as_str).collect();
    let expected = [
        "control_response",
        "assistant",
        "user",
        "stream_event",
        "stream_event",
        "stream_event",
        "result/error_during_execution",
    ];
    assert_eq!(tail, expected);
    assert_eq!(session.last("assistant")["aborted"], true);
    assert!(matches!(session.effects.last(), Some(PlayerEffect::CancelRequest(_))));
    session.prompt("two");
    let (_, body) = session.model_request();
    assert_eq!(body["messages"][1]["content"][0]["text"], "half a se");
}

#[test]
fn an_interrupt_cancels_an_open_permission_request_first() {
    let mut session = session("--permission-prompt-tool stdio");
    session.prompt("go");
    session.call_tool("Bash", &json!({"command": "touch a"}));
    let request = json!({"subtype": "interrupt"});
    session.send(&json!({"type": "control_request", "request_id": "i", "request": request}));
    let kinds = session.kinds();
    let expected = [
        "control_request/can_use_tool",
        "control_cancel_request",
        "control_response",
        "user",
        "user",
        "result/error_during_execution",
    ];
    assert_eq!(kinds[kinds.len() - 6..], expected);
}

#[test]
fn a_transient_failure_is_retried_and_a_permanent_one_reported() {
    let mut session = session("");
    session.prompt("one");
    let busy =
        ModelFailure { status: Some(529), message: "Overloaded".into(), ..ModelFailure::default() };
    session.reply(ModelReply::Failed(busy));
    assert_eq!(session.lines.last().unwrap()["subtype"], "api_retry");
    let Some(PlayerEffect::StartTimer { timer, .. }) = session.effects.last().cloned() else {
        panic!("no timer")
    };
    session.on(PlayerInput::Timer(timer));
    let forbidden =
        ModelFailure { status: Some(403), message: "forbidden".into(), ..ModelFailure::default() };
    session.reply(ModelReply::Failed(forbidden));
    let result = session.last("result");
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(true)));
    assert_eq!(result["result"], "Failed to authenticate. API Error: 403 forbidden");
    session.on(PlayerInput::StdinClosed);
    assert_eq!(session.effects.last(), Some(&PlayerEffect::Exit(1)));
}

#[test]
fn open_permission_requests_are_denied_at_the_end_of_stdin() {
    let mut session = session("--permission-prompt-tool stdio");
    session.prompt("go");
    session.call_tool("Bash", &json!({"command": "touch a"}));
    session.on(PlayerInput::StdinClosed);
    let content = &session.last("user")["message"]["content"][0]["content"];
    assert!(content.as_str().unwrap().contains("stream closed before response received"));
    session.answer(&json!([{"type": "text", "text": "ok"}]), "end_turn");
    assert_eq!(session.effects.last(), Some(&PlayerEffect::Exit(0)));
}

#[test]
fn clear_continues_with_a_new_session_id() {
    let mut session = session("");
    session.prompt("one");
    session.answer(&json!([{"type": "text", "text": "1"}]), "end_turn");
    session.prompt("/clear");
    assert_eq!(session.last("conversation_reset")["session_id"], "session");
    assert_ne!(session.last("result")["session_id"], "session");
    session.prompt("two");
    let (_, body) = session.model_request();
    assert_eq!(body["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn a_side_question_leaves_no_trace_in_the_history() {
    let mut session = SessionHarness::new(STREAM);
    session.prompt("hello");
    session.answer(&json!([{"type": "text", "text": "Hello!"}]), "end_turn");
    let question = json!({"subtype": "side_question", "question": "two and two?"});
    session.send(&json!({"type": "control_request", "request_id": "q", "request": question}));
    session.answer(&json!([{"type": "text", "text": "Four."}]), "end_turn");
    assert_eq!(session.last("control_response")["response"]["response"]["response"], "Four.");
    session.prompt("go on");
    assert!(!session.model_request().1["messages"].to_string().contains("two and two"));
}

#[test]
fn a_blocked_prompt_never_reaches_the_model() {
    let mut session = SessionHarness::new(STREAM);
    let hooks = json!({"UserPromptSubmit": [{"hookCallbackIds": ["prompt"]}]});
    let hello = json!({"subtype": "initialize", "hooks": hooks});
    session.send(&json!({"type": "control_request", "request_id": "i", "request": hello}));
    session.prompt("hello");
    let id = session.last("control_request")["request_id"].clone();
    let answer = json!({"decision": "block", "reason": "not allowed"});
    let response = json!({"subtype": "success", "request_id": id, "response": answer});
    session.send(&json!({"type": "control_response", "response": response}));
    assert!(
        !session.effects.iter().any(|effect| matches!(effect, PlayerEffect::RequestModel { .. }))
    );
    assert!(session.last("result")["result"].as_str().unwrap().contains("not allowed"));
}
