//! What the driver makes of the lines that real agents print, and of the machine's messages.

use serde_json::{Value, json};
use uuid::Uuid;
use wire::TurnResult;
use wire::acp::PermissionChoiceKind;
use wire::note::{Note, RequestKind};
use wire::outgoing::{ControlReply, OutgoingPrompt, OutgoingRequest, Priority};

use super::{AcpDriver, DialectStep};
use crate::agent_event::AgentEvent;
use crate::agent_message::{AgentMessage, SettingKey};
use crate::catalog::{AgentProtocol, AgentSpec};
use crate::options::SessionOptions;

const PROMPT: Uuid = Uuid::from_u128(7);

fn spec(mode: Option<&str>) -> AgentSpec {
    AgentSpec {
        name: "codex".to_owned(),
        title: "Codex".to_owned(),
        protocol: AgentProtocol::Acp,
        command: vec!["codex-acp".to_owned()],
        environment: std::collections::BTreeMap::default(),
        mode: mode.map(str::to_owned),
        install: None,
        sign_in: Some("run `codex login`".to_owned()),
        color: None,
    }
}

fn options() -> SessionOptions {
    SessionOptions { directory: "/p".into(), ..SessionOptions::default() }
}

/// A driver with what it did.
struct Fixture {
    driver: AcpDriver,
    options: SessionOptions,
}

impl Fixture {
    fn new(session: Option<&str>) -> Self {
        let mut driver = AcpDriver::new(Some(spec(Some("workspace-write"))), 0, None);
        driver.start(2, session.map(str::to_owned));
        Self { driver, options: options() }
    }

    fn read(&mut self, line: &Value) -> Vec<DialectStep> {
        self.driver.read(line.to_string().as_bytes(), 0, &self.options)
    }

    fn update(&mut self, update: &Value) -> Vec<DialectStep> {
        self.read(&json!({"jsonrpc": "2.0", "method": "session/update",
            "params": {"sessionId": "s", "update": update}}))
    }

    fn text(&mut self) -> Vec<DialectStep> {
        self.update(&json!({"sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "hi"}}))
    }

    fn answer(&mut self, id: &str, result: &Value) -> Vec<DialectStep> {
        self.read(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn fail(&mut self, id: &str, code: i64) -> Vec<DialectStep> {
        let error = json!({"code": code, "message": "no", "data": {"details": "because"}});
        self.read(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
    }

    fn initialize(&mut self) -> Vec<DialectStep> {
        let request = OutgoingRequest::Initialize(Box::default());
        self.driver.message(AgentMessage::Request { id: "control".to_owned(), request })
    }

    fn capable(&mut self, capabilities: &Value) -> Vec<DialectStep> {
        self.answer(
            "towpath-initialize",
            &json!({"protocolVersion": 1, "agentInfo": {"name": "x", "version": "2.6.0"},
                "agentCapabilities": capabilities, "_meta": {"steering": {"supported": true}},
                "authMethods": [{"id": "key", "name": "API key", "description": "Use a key"}]}),
        )
    }

    /// A driver whose session is open.
    fn ready() -> Self {
        let mut this = Self::new(None);
        this.initialize();
        this.capable(&json!({"promptCapabilities": {"image": true}}));
        let steps = this.answer(
            "towpath-new",
            &json!({"sessionId": "s", "modes": {"currentModeId": "agent", "availableModes": []},
            "configOptions": [
                {"id": "model", "category": "model", "type": "select"},
                {"id": "fast", "category": "model_config", "type": "boolean"},
            ]}),
        );
        assert_eq!(sent(&steps)[0]["method"], "session/set_mode");
        let steps = this.answer("towpath-set-mode", &json!({}));
        assert!(events(&steps).iter().any(|it| matches!(it, AgentEvent::RequestAnswered { .. })));
        this
    }

    /// A driver whose agent works on a prompt.
    fn prompted() -> Self {
        let mut this = Self::ready();
        let steps = this.driver.message(AgentMessage::Prompt(prompt(PROMPT)));
        assert_eq!(sent(&steps)[0]["method"], "session/prompt");
        this
    }

    fn ask(&mut self, id: &Value) -> Vec<DialectStep> {
        self.read(&json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission",
            "params": {"sessionId": "s", "toolCall": {"toolCallId": "c", "title": "ls", "kind": "execute"},
            "options": [
                {"optionId": "a", "name": "Allow for this session", "kind": "allow_always"},
                {"optionId": "o", "name": "Allow", "kind": "allow_once"},
                {"optionId": "r", "name": "Reject", "kind": "reject_once"},
            ]}}))
    }

    fn end(&mut self, reason: &str) -> Vec<DialectStep> {
        let id = format!("prompt-{PROMPT}");
        self.answer(&id, &json!({"stopReason": reason, "usage": {"totalTokens": 1}}))
    }
}

fn prompt(id: Uuid) -> OutgoingPrompt {
    OutgoingPrompt::text(id, "do it").unwrap()
}

fn sent(steps: &[DialectStep]) -> Vec<Value> {
    let line = |step: &DialectStep| match step {
        DialectStep::Send(line) => Some(serde_json::from_str(line.as_str()).unwrap()),
        _ => None,
    };
    steps.iter().filter_map(line).collect()
}

fn events(steps: &[DialectStep]) -> Vec<AgentEvent> {
    let event = |step: &DialectStep| match step {
        DialectStep::Event(event) => Some(event.clone()),
        _ => None,
    };
    steps.iter().filter_map(event).collect()
}

fn notes(steps: &[DialectStep]) -> Vec<Note> {
    let note = |step: &DialectStep| match step {
        DialectStep::Note(note) => Some(note.clone()),
        _ => None,
    };
    steps.iter().filter_map(note).collect()
}

fn ended(failure: Option<&str>, prompts: &[Uuid]) -> AgentEvent {
    let failure = failure.map(str::to_owned);
    AgentEvent::TurnEnded(TurnResult {
        failure,
        prompts: prompts.to_vec(),
        ..TurnResult::default()
    })
}

#[test]
fn the_agent_is_ready_when_its_session_is_open_and_has_its_mode() {
    let mut this = Fixture::new(None);
    let lines = sent(&this.initialize());
    assert_eq!(lines[0]["method"], "initialize");
    assert_eq!(lines[0]["params"]["clientCapabilities"]["fs"]["readTextFile"], false);
    let lines = sent(&this.capable(&json!({})));
    assert_eq!(
        (&lines[0]["method"], &lines[0]["params"]["cwd"]),
        (&json!("session/new"), &json!("/p"))
    );
    let steps =
        this.answer("towpath-new", &json!({"sessionId": "s", "modes": {"availableModes": []}}));
    assert_eq!(sent(&steps)[0]["params"], json!({"sessionId": "s", "modeId": "workspace-write"}));
    assert_eq!(events(&steps), [AgentEvent::ConversationOpened("s".to_owned())]);
    let events = events(&this.answer("towpath-set-mode", &json!({})));
    assert_eq!(events[0], AgentEvent::SteeringOffered(true));
    let AgentEvent::RequestAnswered { id, answer: Ok(Some(capabilities)) } = &events[1] else {
        panic!("{events:?}")
    };
    assert!(id == "control" && capabilities.contains("2.6.0"), "{capabilities}");
}

#[test]
fn a_session_is_resumed_else_loaded_else_begun_again_with_a_word_about_it() {
    let resumes = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    let mut this = Fixture::new(Some("old"));
    this.initialize();
    let lines = sent(&this.capable(&resumes));
    assert_eq!(lines[0]["method"], "session/resume");
    assert_eq!(lines[0]["params"]["sessionId"], "old");
    let lines = sent(&this.fail("towpath-resume", -32603));
    assert_eq!(lines[0]["method"], "session/load");
    // The history is repeated before the answer.
    assert_eq!(this.text(), [DialectStep::Event(AgentEvent::Output)]);
    let steps = this.fail("towpath-load", -32602);
    assert_eq!(sent(&steps)[0]["method"], "session/new");
    assert_eq!(events(&steps), [AgentEvent::ConversationLost]);
    let [Note::Problem { text }] = &notes(&steps)[..] else { panic!("{steps:?}") };
    assert!(text.contains("no: because") && text.contains("new one"), "{text}");
    let steps = this.answer("towpath-new", &json!({"sessionId": "new"}));
    assert!(events(&steps).contains(&AgentEvent::ConversationOpened("new".to_owned())));

    let mut this = Fixture::new(Some("old"));
    this.initialize();
    let lines = sent(&this.capable(&json!({"loadSession": true})));
    assert_eq!(lines[0]["method"], "session/load");
    let steps = this.answer("towpath-load", &Value::Null);
    assert_eq!(events(&steps)[0], AgentEvent::ConversationOpened("old".to_owned()));
    // Some agents repeat the rest behind the answer.
    assert_eq!(this.driver.deadline(), Some(300));
    assert_eq!(this.text(), [DialectStep::Event(AgentEvent::Output)]);
    assert!(this.driver.tick(299).is_empty());
    assert!(!this.driver.tick(300).is_empty());
    assert_eq!(this.text(), [DialectStep::Event(AgentEvent::Output)]);
    this.driver.message(AgentMessage::Prompt(prompt(PROMPT)));
    assert!(events(&this.text()).contains(&AgentEvent::PromptAccepted(PROMPT)));

    let mut this = Fixture::new(Some("old"));
    this.initialize();
    let steps = this.capable(&json!({}));
    assert_eq!(sent(&steps)[0]["method"], "session/new");
    assert_eq!(notes(&steps).len(), 1);
}

#[test]
fn a_copied_session_never_continues_the_original() {
    for (capabilities, method) in [
        (json!({"sessionCapabilities": {"fork": {}, "resume": {}}}), "session/fork"),
        (json!({"sessionCapabilities": {"resume": {}}, "loadSession": true}), "session/new"),
    ] {
        let mut this = Fixture::new(None);
        this.driver.start_copy(2, "old".to_owned());
        this.initialize();
        let steps = this.capable(&capabilities);
        assert_eq!(sent(&steps)[0]["method"], method);
        assert_eq!(notes(&steps).is_empty(), method == "session/fork");
        if method == "session/fork" {
            assert_eq!(sent(&steps)[0]["params"]["sessionId"], "old");
            let steps = this.answer("towpath-fork", &json!({"sessionId": "copy"}));
            let opened = AgentEvent::ConversationOpened("copy".to_owned());
            assert!(events(&steps).contains(&opened), "{steps:?}");
        }
    }
    let mut this = Fixture::new(None);
    this.driver.start_copy(2, "old".to_owned());
    this.initialize();
    this.capable(&json!({"sessionCapabilities": {"fork": {}}}));
    let steps = this.answer("towpath-fork", &json!({}));
    assert!(matches!(events(&steps)[..], [AgentEvent::StartFailed { .. }]), "{steps:?}");
}

#[test]
fn an_agent_that_needs_a_sign_in_says_how_and_is_not_tried_again() {
    let mut this = Fixture::new(None);
    this.initialize();
    this.capable(&json!({}));
    let steps = this.fail("towpath-new", -32000);
    let [Note::SignInNeeded { text, methods }] = &notes(&steps)[..] else { panic!("{steps:?}") };
    assert!(text.contains("run `codex login`") && text.starts_with("Codex needs"), "{text}");
    assert_eq!(methods, &["API key: Use a key"]);
    assert!(matches!(events(&steps)[..], [AgentEvent::StartFailed { retry: false, .. }]));
}

#[test]
fn a_turn_is_confirmed_by_work_and_ends_with_the_answer() {
    let mut this = Fixture::prompted();
    let usage = json!({"sessionUpdate": "usage_update", "used": 1, "size": 2});
    assert_eq!(this.update(&usage), [DialectStep::Event(AgentEvent::Output)]);
    let started =
        [AgentEvent::TurnStarted { conversation: None }, AgentEvent::PromptAccepted(PROMPT)];
    assert_eq!(events(&this.text()), started);
    assert_eq!(events(&this.text()), [AgentEvent::Output]);
    assert_eq!(events(&this.end("end_turn")), [ended(None, &[PROMPT])]);
    assert_eq!(this.end("end_turn"), [DialectStep::Event(AgentEvent::Output)], "a second answer");
    assert_eq!(events(&this.text()), [AgentEvent::Unprompted]);
    let late = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"});
    assert_eq!(events(&this.update(&late)), [AgentEvent::Output]);
}

#[test]
fn reasons_to_stop_are_endings_and_errors_are_failures() {
    for (reason, failure) in [
        ("end_turn", None),
        ("max_tokens", Some("limit of tokens")),
        ("refusal", Some("refused")),
        ("max_turn_requests", Some("limit of model requests")),
        ("something_new", Some("something_new")),
    ] {
        let mut this = Fixture::prompted();
        let events = events(&this.end(reason));
        let [AgentEvent::TurnEnded(result)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(result.failure.is_some(), failure.is_some());
        let text = result.failure.clone().unwrap_or_default();
        assert!(text.contains(failure.unwrap_or_default()), "{text}");
    }
    let cancelled = AgentEvent::TurnCancelled { prompts: vec![PROMPT] };
    assert_eq!(events(&Fixture::prompted().end("cancelled")), [cancelled]);
    let steps = Fixture::prompted().fail(&format!("prompt-{PROMPT}"), -32603);
    assert_eq!(events(&steps), [ended(Some("no: because"), &[PROMPT])]);
    let steps = Fixture::prompted().fail(&format!("prompt-{PROMPT}"), -32000);
    assert!(matches!(notes(&steps)[..], [Note::SignInNeeded { .. }]));
}

#[test]
fn an_error_that_looks_like_a_success_is_a_failure() {
    let broken = json!({"sessionUpdate": "session_info_update",
        "_meta": {"codex": {"threadStatus": {"type": "systemError"}}}});
    let answer = |usage: Value| {
        let mut this = Fixture::prompted();
        this.update(&broken);
        this.text();
        let id = format!("prompt-{PROMPT}");
        let events = events(&this.answer(&id, &json!({"stopReason": "end_turn", "usage": usage})));
        let AgentEvent::TurnEnded(result) = &events[0] else { panic!("{events:?}") };
        result.failure.is_some()
    };
    assert!(answer(Value::Null));
    assert!(!answer(json!({"totalTokens": 3})), "it went on after the error");
}

#[test]
fn a_request_has_the_agents_choices_and_an_id_of_its_own_in_every_process() {
    use PermissionChoiceKind::{AllowAlways, AllowOnce, RejectOnce};
    let mut this = Fixture::prompted();
    let events = events(&this.ask(&json!(0)));
    let Some(AgentEvent::RequestOpened(request)) = events.last() else { panic!("{events:?}") };
    assert_eq!((request.id.as_str(), request.kind), ("2:0", RequestKind::Permission));
    assert_eq!(
        (request.tool_name.as_str(), request.tool_use_id.as_deref()),
        ("execute", Some("c"))
    );
    let kinds: Vec<_> = request.choices.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [AllowAlways, AllowOnce, RejectOnce]);
    let choose = |request: &str, choice: &str| AgentMessage::Choice {
        request: request.to_owned(),
        choice: Some(choice.to_owned()),
    };
    assert_eq!(this.driver.message(choose("1:0", "o")), [], "a request of an earlier process");
    let lines = sent(&this.driver.message(choose("2:0", "o")));
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "o"}});
    assert_eq!(lines, [json!({"jsonrpc": "2.0", "id": 0, "result": outcome})]);
    assert_eq!(this.driver.message(choose("2:0", "o")), [], "a second answer");
}

#[test]
fn a_withdrawn_request_is_resolved_and_answered() {
    let mut this = Fixture::prompted();
    this.ask(&json!("x"));
    let steps = this.read(
        &json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "x"}}),
    );
    let withdrawn = AgentEvent::RequestWithdrawn { id: "2:\"x\"".to_owned() };
    assert_eq!(events(&steps), [withdrawn]);
    assert_eq!(sent(&steps)[0]["error"]["code"], -32800);
}

#[test]
fn an_interrupt_cancels_the_turn_and_all_open_requests() {
    let mut this = Fixture::prompted();
    this.ask(&json!(0));
    let request = OutgoingRequest::Interrupt { cancel_queued: false };
    let steps = this.driver.message(AgentMessage::Request { id: "i".to_owned(), request });
    let lines = sent(&steps);
    assert_eq!(
        lines[0],
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}})
    );
    assert_eq!(lines[1]["result"]["outcome"]["outcome"], "cancelled");
    assert!(events(&steps).contains(&AgentEvent::RequestWithdrawn { id: "2:0".to_owned() }));
    // A request that was on its way.
    let steps = this.ask(&json!(1));
    assert_eq!(sent(&steps)[0]["result"]["outcome"]["outcome"], "cancelled");
    // Some agents answer with an error.
    let steps = this.fail(&format!("prompt-{PROMPT}"), -32603);
    assert_eq!(events(&steps), [AgentEvent::TurnCancelled { prompts: vec![PROMPT] }]);
}

#[test]
fn an_agent_that_ends_the_turn_before_its_request_is_answered_still_gets_the_answer() {
    let mut this = Fixture::prompted();
    this.ask(&json!(0));
    let steps = this.end("cancelled");
    assert_eq!(sent(&steps)[0]["result"]["outcome"]["outcome"], "cancelled");
    let withdrawn = AgentEvent::RequestWithdrawn { id: "2:0".to_owned() };
    let cancelled = AgentEvent::TurnCancelled { prompts: vec![PROMPT] };
    assert_eq!(events(&steps), [withdrawn, cancelled]);
}

#[test]
fn there_is_never_a_second_prompt_and_a_steered_one_joins_the_turn_or_comes_back() {
    let mut this = Fixture::prompted();
    let (second, steered, refused) = (Uuid::from_u128(8), Uuid::from_u128(9), Uuid::from_u128(10));
    let steps = this.driver.message(AgentMessage::Prompt(prompt(second)));
    assert_eq!(steps, [DialectStep::Event(AgentEvent::PromptReturned(second))]);
    for id in [steered, refused] {
        let prompt = prompt(id).priority(Priority::Next);
        let steps = this.driver.message(AgentMessage::Prompt(prompt));
        assert_eq!(sent(&steps)[0]["method"], "_session/steering");
    }
    let steps = this.answer(&format!("steer-{steered}"), &json!({"outcome": "injected"}));
    assert_eq!(events(&steps), [AgentEvent::PromptAccepted(steered)]);
    let steps = this.answer(&format!("steer-{refused}"), &json!({"outcome": "promptRequired"}));
    assert_eq!(events(&steps), [AgentEvent::PromptReturned(refused)]);
    assert_eq!(events(&this.end("end_turn")), [ended(None, &[PROMPT, steered])]);
}

#[test]
fn what_is_not_offered_is_refused_and_what_is_not_known_ignored() {
    let mut this = Fixture::prompted();
    for method in ["fs/write_text_file", "terminal/create", "made/up", "session/new"] {
        let steps = this.read(&json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": {}}));
        assert_eq!(sent(&steps)[0]["error"]["code"], -32601, "{method}");
    }
    let notification = json!({"jsonrpc": "2.0", "method": "qwen/notify/x", "params": {}});
    assert_eq!(events(&this.read(&notification)), [AgentEvent::Output]);
    // A known request in another shape waits for an answer too.
    let steps =
        this.read(&json!({"jsonrpc": "2.0", "id": 5, "method": "session/request_permission"}));
    assert!(sent(&steps)[0]["error"]["code"].is_i64(), "{steps:?}");
    for line in ["", "this is no longer maintained", "{\"jsonrpc\":", "[]", "\u{1b}[1m{}"] {
        let steps = this.driver.read(line.as_bytes(), 0, &this.options);
        assert_eq!(steps, [DialectStep::Event(AgentEvent::Output)], "{line}");
    }
    let error =
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}});
    assert_eq!(events(&this.read(&error)), [AgentEvent::Output]);
}

#[test]
fn a_request_that_is_refused_without_a_person_is_reported() {
    let options = json!([{"optionId": "a", "name": "Allow", "kind": "allow_once"}]);
    for (method, params) in [
        ("session/request_permission", json!({"sessionId": "s", "options": []})),
        ("session/request_permission", json!({"sessionId": "s", "options": "allow"})),
        ("session/request_permission", json!([options])),
        ("session/ask_the_user", json!({"text": "Which?"})),
        ("elicitation/create", json!({"message": "x", "requestedSchema": {}})),
        ("elicitation/create", json!([])),
    ] {
        let mut fixture = Fixture::prompted();
        let request = json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params});
        let steps = fixture.read(&request);
        let answers = sent(&steps);
        assert_eq!((answers.len(), &answers[0]["id"]), (1, &json!(5)), "{request}");
        assert!(answers[0]["error"].is_object(), "{request}: {answers:?}");
        assert!(matches!(notes(&steps)[..], [Note::Problem { .. }]), "{request}: {steps:?}");
    }
    let mut fixture = Fixture::prompted();
    let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": options});
    let request = json!({"jsonrpc": "2.0", "id": [5], "method": "session/request_permission", "params": params});
    let steps = fixture.read(&request);
    assert!(matches!(notes(&steps)[..], [Note::Problem { .. }]), "{steps:?}");
    // Nor does an answer get lost that is not quite in the form of the protocol.
    let id = format!("prompt-{PROMPT}");
    let steps = fixture.read(&json!({"id": id, "result": {"stopReason": "end_turn"}}));
    assert!(events(&steps).contains(&ended(None, &[PROMPT])), "{steps:?}");
    // What is outside the protocol is not for a person.
    let steps = fixture.read(&json!({"jsonrpc": "2.0", "id": 6, "method": "_x/y", "params": {}}));
    assert_eq!(notes(&steps), []);
}

#[test]
fn a_line_that_is_too_long_is_judged_by_its_start() {
    let mut this = Fixture::prompted();
    let start =
        br#"{"jsonrpc":"2.0","id": "a-1","method":"session/request_permission","params":{"x":"xxx"#;
    let steps = this.driver.read_start(start, &this.options);
    assert_eq!(sent(&steps)[0]["id"], "a-1");
    let start = br#"{"jsonrpc":"2.0","method":"session/update","params":{"x":"xxx"#;
    assert_eq!(events(&this.driver.read_start(start, &this.options)), [AgentEvent::Output]);
    let start = format!(r#"{{"jsonrpc":"2.0","id":"prompt-{PROMPT}","result":{{"_meta":"xxx"#);
    let steps = this.driver.read_start(start.as_bytes(), &this.options);
    assert_eq!(events(&steps), [ended(None, &[PROMPT])]);
}

#[test]
fn settings_go_the_way_that_the_session_offers() {
    let mut this = Fixture::ready();
    let mut set = |key, value: Option<&str>| {
        let value = value.map(str::to_owned);
        this.driver.message(AgentMessage::Set { id: "c".to_owned(), key, value })
    };
    let lines = sent(&set(SettingKey::Mode, Some("plan")));
    assert_eq!(lines[0]["method"], "session/set_mode");
    let lines = sent(&set(SettingKey::Model, Some("m")));
    assert_eq!(lines[0]["params"], json!({"sessionId": "s", "configId": "model", "value": "m"}));
    let lines = sent(&set(SettingKey::Option("fast".to_owned()), Some("true")));
    assert_eq!(lines[0]["params"]["value"], true);
    for (key, value) in [
        (SettingKey::Effort, Some("high")),
        (SettingKey::Model, None),
        (SettingKey::Option("fast".to_owned()), Some("maybe")),
        (SettingKey::Option("other".to_owned()), Some("x")),
    ] {
        let events = events(&set(key.clone(), value));
        assert!(
            matches!(&events[..], [AgentEvent::RequestAnswered { answer: Err(_), .. }]),
            "{key:?}"
        );
    }
    let events = events(&this.fail("c", -32602));
    let answer = Err("no: because".to_owned());
    assert_eq!(events, [AgentEvent::RequestAnswered { id: "c".to_owned(), answer }]);
}

#[test]
fn what_only_the_cli_can_do_is_refused_at_once() {
    let mut this = Fixture::ready();
    for request in [
        OutgoingRequest::GetUsage {},
        OutgoingRequest::RewindFiles { user_message_id: "x".to_owned(), dry_run: false },
        OutgoingRequest::FileSuggestions { query: "x".to_owned() },
    ] {
        let steps = this.driver.message(AgentMessage::Request { id: "c".to_owned(), request });
        assert!(sent(&steps).is_empty());
        assert!(matches!(
            &events(&steps)[..],
            [AgentEvent::RequestAnswered { answer: Err(_), .. }]
        ));
    }
}

#[test]
fn a_form_is_a_question_and_its_answers_have_the_types_of_its_fields() {
    let mut this = Fixture::prompted();
    let steps = this.read(&json!({"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {
        "mode": "form", "sessionId": "s", "message": "Which colour?", "requestedSchema": {"type": "object", "properties": {
            "question_0": {"type": "string", "title": "Colour", "oneOf": [
                {"const": "r", "title": "red", "description": "warm"}, {"const": "b", "title": "blue"}]},
            "question_0_custom": {"type": "string", "title": "Other"},
            "count": {"type": "integer", "title": "How many?"},
            "sure": {"type": "boolean", "title": "Sure?"},
            "tags": {"type": "array", "title": "Tags", "items": {"enum": ["x", "y"]}},
        }}}}));
    let events = events(&steps);
    let Some(AgentEvent::RequestOpened(request)) = events.last() else { panic!("{events:?}") };
    assert_eq!(request.kind, RequestKind::Question);
    let input: Value = request.input.parse().unwrap();
    let questions = input["questions"].as_array().unwrap();
    let named = |name: &str| questions.iter().find(|it| it["header"] == name).unwrap();
    assert_eq!(questions.len(), 4);
    assert_eq!(named("Colour")["options"][0], json!({"label": "red", "description": "warm"}));
    let answers = [("Colour", "green"), ("How many?", "3"), ("Sure?", "Yes"), ("Tags", "x, y")];
    let answers = answers.map(|(question, answer)| (question.to_owned(), answer.to_owned()));
    let request = request.id.clone();
    let steps = this.driver.message(AgentMessage::Answers { request, answers: answers.to_vec() });
    let content =
        json!({"question_0_custom": "green", "count": 3, "sure": true, "tags": ["x", "y"]});
    assert_eq!(sent(&steps)[0]["result"], json!({"action": "accept", "content": content}));
}

#[test]
fn a_link_can_be_opened_or_declined_and_a_form_declined() {
    let link = |id: u64| {
        json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create",
        "params": {"mode": "url", "message": "Sign in", "url": "https://example.com"}})
    };
    let mut this = Fixture::prompted();
    for (id, choice, action) in [(0, "accept", "accept"), (1, "decline", "decline")] {
        this.read(&link(id));
        let request = format!("2:{id}");
        let choice = Some(choice.to_owned());
        let lines = sent(&this.driver.message(AgentMessage::Choice { request, choice }));
        assert_eq!(lines[0]["result"]["action"], action);
    }
    let form = json!({"properties": {"a": {"type": "string"}}});
    this.read(&json!({"jsonrpc": "2.0", "id": 2, "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": form}}));
    let reply = ControlReply::deny("no");
    let lines =
        sent(&this.driver.message(AgentMessage::Reply { request: "2:2".to_owned(), reply }));
    assert_eq!(lines[0]["result"], json!({"action": "decline"}));
}

#[test]
fn another_owner_goes_on_where_the_first_one_stopped() {
    let mut first = Fixture::prompted();
    first.ask(&json!(0));
    let state = first.driver.take_changed_state().expect("it has changed");
    assert_eq!(first.driver.take_changed_state(), None);
    let driver = AcpDriver::new(Some(spec(None)), 2, Some(state.clone()));
    let mut second = Fixture { driver, options: options() };
    assert_eq!(events(&second.driver.attach(0)), [AgentEvent::SteeringOffered(true)]);
    let events_of = events(&second.initialize());
    assert!(matches!(&events_of[..], [AgentEvent::RequestAnswered { answer: Ok(Some(_)), .. }]));
    let choice = AgentMessage::Choice { request: "2:0".to_owned(), choice: Some("o".to_owned()) };
    assert_eq!(sent(&second.driver.message(choice)).len(), 1);
    assert_eq!(events(&second.end("end_turn")), [ended(None, &[PROMPT])]);
    let mut other_run = AcpDriver::new(None, 3, Some(state));
    assert!(!other_run.has_open_prompt() && other_run.attach(0).is_empty());
}

#[test]
fn version_two_ends_a_turn_with_a_state() {
    let mut this = Fixture::new(None);
    this.initialize();
    this.answer(
        "towpath-initialize",
        &json!({"protocolVersion": 2, "info": {"name": "x"}, "capabilities": {}}),
    );
    this.answer(
        "towpath-new",
        &json!({"sessionId": "s", "configOptions": [{"configId": "mode", "category": "mode"}]}),
    );
    this.answer("towpath-set-mode", &json!({}));
    this.driver.message(AgentMessage::Prompt(prompt(PROMPT)));
    let idle = |reason: &str| json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": reason});
    let steps = this.answer(&format!("prompt-{PROMPT}"), &json!({"messageId": "m"}));
    assert!(events(&steps).contains(&AgentEvent::PromptAccepted(PROMPT)));
    assert_eq!(events(&this.text()), [AgentEvent::Output]);
    assert_eq!(events(&this.update(&idle("end_turn"))), [ended(None, &[PROMPT])]);
    assert_eq!(events(&this.update(&idle("end_turn"))), [AgentEvent::Output]);
}

#[test]
fn a_version_that_nobody_knows_is_refused() {
    let mut this = Fixture::new(None);
    this.initialize();
    let steps = this.answer("towpath-initialize", &json!({"protocolVersion": 9}));
    assert!(matches!(events(&steps)[..], [AgentEvent::StartFailed { retry: false, .. }]));
}

#[test]
fn images_are_left_out_with_a_word_about_it_if_the_agent_takes_none() {
    let mut this = Fixture::new(None);
    this.initialize();
    this.capable(&json!({}));
    this.answer("towpath-new", &json!({"sessionId": "s"}));
    let image = wire::outgoing::Image::new(b"GIF89a\x01\x00\x01\x00").unwrap();
    let prompt = OutgoingPrompt::with_images(PROMPT, "look", vec![image]).unwrap();
    let steps = this.driver.message(AgentMessage::Prompt(prompt));
    assert_eq!(sent(&steps)[0]["params"]["prompt"].as_array().unwrap().len(), 1);
    assert!(matches!(notes(&steps)[..], [Note::Problem { .. }]));
}

#[test]
fn the_cost_in_dollars_is_reported_and_that_of_a_replayed_session_is_not() {
    let usage =
        |cost: Value| json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost});
    let mut this = Fixture::ready();
    let steps = this.update(&usage(json!({"amount": 0.25, "currency": "USD"})));
    assert_eq!(events(&steps), [AgentEvent::CostReported(0.25)]);
    for cost in
        [json!({"amount": 3, "currency": "EUR"}), json!({"amount": "3"}), json!(3), json!(null)]
    {
        assert_eq!(events(&this.update(&usage(cost))), [AgentEvent::Output]);
    }
    let mut replaying = Fixture::new(Some("old"));
    let steps = replaying.update(&usage(json!({"amount": 9, "currency": "USD"})));
    assert_eq!(events(&steps), [AgentEvent::Output]);
}
