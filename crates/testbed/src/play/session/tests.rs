//! The session without a process: inputs in, effects out.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Past, Session};
use crate::play::arguments::Arguments;
use crate::play::effect::Effect;
use crate::play::ids::Ids;
use crate::play::input::{Finding, Input, Marked, Outcome, Reply, Trouble};
use crate::play::said;
use crate::play::settings::Settings;
use crate::play::surroundings::Surroundings;

/// A session, its lines so far, and what it wants from others.
struct Stage {
    session: Session,
    now: SystemTime,
    lines: Vec<Value>,
    wanted: Vec<Effect>,
}

impl Stage {
    fn new(flags: &str) -> Self {
        let arguments = Arguments::read(flags.split_whitespace().map(str::to_owned).collect());
        let arguments = arguments.unwrap();
        let around = Surroundings {
            cwd: "/project".into(),
            home: "/home".into(),
            ..Surroundings::default()
        };
        let settings = Settings::load(&arguments, &around);
        let (id, ids) = ("session".to_owned(), Ids::seeded(7));
        let session = Session::new(arguments, around, settings, id, Past::default(), ids);
        Self { session, now: UNIX_EPOCH, lines: Vec::new(), wanted: Vec::new() }
    }

    fn on(&mut self, input: Input) {
        self.now += Duration::from_millis(1);
        for effect in self.session.on(self.now, input) {
            match effect {
                Effect::Print(line) => self.lines.push(line),
                Effect::Record { .. } => {}
                other => self.wanted.push(other),
            }
        }
    }

    fn say(&mut self, line: &Value) {
        self.on(Input::Said(said::read(line.to_string().as_bytes())));
    }

    fn prompt(&mut self, text: &str) {
        self.say(&json!({"type": "user", "message": {"role": "user", "content": text}}));
    }

    /// The newest request to the model.
    fn asked(&self) -> (u64, &Value) {
        let asks = self.wanted.iter().rev().find_map(|effect| match effect {
            Effect::Ask { number, body } => Some((*number, body)),
            _ => None,
        });
        asks.expect("a request")
    }

    fn reply(&mut self, reply: Reply) {
        let (number, _) = self.asked();
        self.on(Input::Reply(number, reply));
    }

    /// The model begins to say a text.
    fn begin(&mut self, text: &str) {
        let message = json!({"id": "msg", "model": "m", "usage": {"output_tokens": 1}});
        self.reply(Reply::Event(json!({"type": "message_start", "message": message})));
        let block = json!({"type": "text", "text": ""});
        let start = json!({"type": "content_block_start", "index": 0, "content_block": block});
        self.reply(Reply::Event(start));
        let delta = json!({"type": "text_delta", "text": text});
        let delta = json!({"type": "content_block_delta", "index": 0, "delta": delta});
        self.reply(Reply::Event(delta));
    }

    /// The model says all of it.
    fn speak(&mut self, blocks: &Value, stop: &str) {
        let usage = json!({"input_tokens": 3, "output_tokens": 9});
        let message = json!({"id": "msg", "model": "m", "content": blocks, "stop_reason": stop, "usage": usage});
        self.reply(Reply::Message(message));
    }

    fn call(&mut self, tool: &str, input: &Value) {
        self.speak(
            &json!([{"type": "tool_use", "id": "t", "name": tool, "input": input}]),
            "tool_use",
        );
        if self.wanted.iter().any(|effect| matches!(effect, Effect::Inspect(_))) {
            self.on(Input::Inspected { call: "t".to_owned(), finding: Finding::Fine });
        }
    }

    fn done(&mut self, text: &str) {
        let outcome = Outcome { content: text.into(), marked: Marked::Success, report: json!({}) };
        self.on(Input::Done { call: "t".to_owned(), outcome });
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
        self.lines.iter().rfind(|line| line["type"] == kind).expect("such a line")
    }

    fn runs(&self) -> usize {
        self.wanted.iter().filter(|effect| matches!(effect, Effect::Run(_))).count()
    }
}

const STREAM: &str = "-p --verbose --input-format stream-json --output-format stream-json";

fn stage(flags: &str) -> Stage {
    Stage::new(&format!("{STREAM} {flags}"))
}

#[test]
fn a_prompt_is_answered_and_the_end_of_input_is_the_end() {
    let mut stage = stage("");
    stage.prompt("hi");
    stage.speak(&json!([{"type": "text", "text": "hello"}]), "end_turn");
    assert_eq!(stage.kinds(), ["system/init", "assistant", "result/success"]);
    let result = stage.last("result");
    assert_eq!((&result["result"], &result["num_turns"]), (&json!("hello"), &json!(1)));
    stage.on(Input::Closed);
    assert_eq!(stage.wanted.last(), Some(&Effect::End(0)));
}

#[test]
fn a_call_runs_only_when_the_host_allows_it() {
    let mut stage = stage("--permission-prompt-tool stdio");
    stage.prompt("go");
    stage.call("Bash", &json!({"command": "touch a"}));
    assert_eq!(stage.runs(), 0);
    let ask = stage.last("control_request").clone();
    assert_eq!(ask["request"]["tool_name"], "Bash");
    let payload = json!({"behavior": "allow", "updatedInput": {"command": "touch b"}});
    let response =
        json!({"subtype": "success", "request_id": ask["request_id"], "response": payload});
    stage.say(&json!({"type": "control_response", "response": response}));
    let Some(Effect::Run(work)) = stage.wanted.last() else { panic!("nothing runs") };
    assert_eq!(work.input, json!({"command": "touch b"}));
    // A second answer is about nothing.
    stage.say(&json!({"type": "control_response", "response": response}));
    assert_eq!(stage.runs(), 1);
    stage.done("ran");
    let (_, body) = stage.asked();
    assert_eq!(body["messages"][2]["content"][0]["content"], "ran");
}

#[test]
fn what_nobody_can_be_asked_about_is_denied_at_once() {
    let mut stage = stage("");
    stage.prompt("go");
    stage.call("Bash", &json!({"command": "touch a"}));
    assert_eq!(stage.runs(), 0);
    stage.speak(&json!([{"type": "text", "text": "oh"}]), "end_turn");
    assert_eq!(stage.last("result")["permission_denials"][0]["tool_name"], "Bash");
    let kinds = stage.kinds();
    assert!(kinds.contains(&"system/permission_denied".to_owned()), "{kinds:?}");
}

#[test]
fn prompts_that_come_during_a_text_are_answered_together_afterwards() {
    let mut stage = stage("");
    stage.prompt("one");
    stage.begin("so");
    stage.prompt("two");
    stage.prompt("three");
    stage.reply(Reply::Event(json!({"type": "content_block_stop", "index": 0})));
    stage.reply(Reply::Event(json!({"type": "message_stop"})));
    let (_, body) = stage.asked();
    assert_eq!(body["messages"][2]["content"][0]["text"], "two\nthree");
}

#[test]
fn a_prompt_that_comes_during_a_tool_joins_the_turn() {
    let mut stage = stage("--dangerously-skip-permissions");
    stage.prompt("one");
    stage.call("Bash", &json!({"command": "make"}));
    stage.prompt("two");
    stage.done("made");
    let (_, body) = stage.asked();
    let newest = &body["messages"][3];
    assert_eq!(newest["role"], "system");
    assert!(newest["content"][0]["text"].as_str().unwrap().contains("working:\ntwo\n"));
    stage.speak(&json!([{"type": "text", "text": "both"}]), "end_turn");
    assert_eq!(stage.kinds().iter().filter(|kind| *kind == "result/success").count(), 1);
}

#[test]
fn an_urgent_prompt_ends_the_turn_after_its_tool() {
    let mut stage = stage("--dangerously-skip-permissions");
    stage.prompt("one");
    stage.call("Bash", &json!({"command": "make"}));
    let message = json!({"role": "user", "content": "two"});
    stage.say(&json!({"type": "user", "message": message, "priority": "now"}));
    stage.done("made");
    assert_eq!(stage.last("result")["terminal_reason"], "aborted_tools");
    let (_, body) = stage.asked();
    let messages = body["messages"].as_array().unwrap();
    assert!(messages.last().unwrap().to_string().contains("two"));
}

#[test]
fn a_prompt_that_came_before_is_not_answered_again() {
    let mut stage = stage("--replay-user-messages");
    let message = json!({"role": "user", "content": "one"});
    let line = json!({"type": "user", "message": message, "uuid": "u"});
    stage.say(&line);
    stage.speak(&json!([{"type": "text", "text": "1"}]), "end_turn");
    let before = stage.lines.len();
    stage.say(&line);
    assert_eq!(stage.lines.len(), before + 1);
    assert_eq!(stage.lines[before]["isReplay"], true);
}

#[test]
fn an_interrupt_keeps_what_was_said_and_the_process() {
    let mut stage = stage("--include-partial-messages");
    stage.prompt("one");
    stage.begin("half a se");
    let request = json!({"subtype": "interrupt"});
    stage.say(&json!({"type": "control_request", "request_id": "i", "request": request}));
    let kinds = stage.kinds();
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
    assert_eq!(stage.last("assistant")["aborted"], true);
    assert!(matches!(stage.wanted.last(), Some(Effect::Hush(_))));
    stage.prompt("two");
    let (_, body) = stage.asked();
    assert_eq!(body["messages"][1]["content"][0]["text"], "half a se");
}

#[test]
fn an_interrupted_question_is_taken_back_first() {
    let mut stage = stage("--permission-prompt-tool stdio");
    stage.prompt("go");
    stage.call("Bash", &json!({"command": "touch a"}));
    let request = json!({"subtype": "interrupt"});
    stage.say(&json!({"type": "control_request", "request_id": "i", "request": request}));
    let kinds = stage.kinds();
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
fn a_failure_that_may_pass_is_tried_again_and_one_that_will_not_is_told() {
    let mut stage = stage("");
    stage.prompt("one");
    let busy = Trouble { status: Some(529), message: "Overloaded".into(), ..Trouble::default() };
    stage.reply(Reply::Failed(busy));
    assert_eq!(stage.lines.last().unwrap()["subtype"], "api_retry");
    let Some(Effect::Wake { timer, .. }) = stage.wanted.last().cloned() else { panic!("no timer") };
    stage.on(Input::Woken(timer));
    let gone = Trouble { status: Some(403), message: "forbidden".into(), ..Trouble::default() };
    stage.reply(Reply::Failed(gone));
    let result = stage.last("result");
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(true)));
    assert_eq!(result["result"], "Failed to authenticate. API Error: 403 forbidden");
    stage.on(Input::Closed);
    assert_eq!(stage.wanted.last(), Some(&Effect::End(1)));
}

#[test]
fn when_nobody_will_answer_any_more_questions_are_denials() {
    let mut stage = stage("--permission-prompt-tool stdio");
    stage.prompt("go");
    stage.call("Bash", &json!({"command": "touch a"}));
    stage.on(Input::Closed);
    let content = &stage.last("user")["message"]["content"][0]["content"];
    assert!(content.as_str().unwrap().contains("stream closed before response received"));
    stage.speak(&json!([{"type": "text", "text": "ok"}]), "end_turn");
    assert_eq!(stage.wanted.last(), Some(&Effect::End(0)));
}

#[test]
fn clearing_goes_on_under_another_id() {
    let mut stage = stage("");
    stage.prompt("one");
    stage.speak(&json!([{"type": "text", "text": "1"}]), "end_turn");
    stage.prompt("/clear");
    assert_eq!(stage.last("conversation_reset")["session_id"], "session");
    assert_ne!(stage.last("result")["session_id"], "session");
    stage.prompt("two");
    let (_, body) = stage.asked();
    assert_eq!(body["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn a_side_question_leaves_no_trace_in_the_history() {
    let mut stage = Stage::new(STREAM);
    stage.prompt("hello");
    stage.speak(&json!([{"type": "text", "text": "Hello!"}]), "end_turn");
    let question = json!({"subtype": "side_question", "question": "two and two?"});
    stage.say(&json!({"type": "control_request", "request_id": "q", "request": question}));
    stage.speak(&json!([{"type": "text", "text": "Four."}]), "end_turn");
    assert_eq!(stage.last("control_response")["response"]["response"]["response"], "Four.");
    stage.prompt("go on");
    assert!(!stage.asked().1["messages"].to_string().contains("two and two"));
}

#[test]
fn a_blocked_prompt_never_reaches_the_model() {
    let mut stage = Stage::new(STREAM);
    let hooks = json!({"UserPromptSubmit": [{"hookCallbackIds": ["prompt"]}]});
    let hello = json!({"subtype": "initialize", "hooks": hooks});
    stage.say(&json!({"type": "control_request", "request_id": "i", "request": hello}));
    stage.prompt("hello");
    let id = stage.last("control_request")["request_id"].clone();
    let answer = json!({"decision": "block", "reason": "hush"});
    let response = json!({"subtype": "success", "request_id": id, "response": answer});
    stage.say(&json!({"type": "control_response", "response": response}));
    assert!(!stage.wanted.iter().any(|effect| matches!(effect, Effect::Ask { .. })));
    assert!(stage.last("result")["result"].as_str().unwrap().contains("hush"));
}
