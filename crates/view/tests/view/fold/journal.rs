//! Journals: the agent's lines with Towpath's notes between them.

use super::push;
use serde_json::json;
use towpath_view::{
    Call, CallState, Conversation, Fold, Item, ItemBody, ItemId, NoticeLevel, Patch, Position,
    PromptAuthor, Revision, SessionPhase, Update,
};
use uuid::Uuid;
use wire::note::{
    Actor, Delivery, ExitCause, Note, Outcome, PromptState, QueuePolicy, RequestKind, Rewind,
    Setting, TurnEnding,
};

/// A journal being written, with the document after each entry.
struct Journal {
    fold: Fold,
    follower: Conversation,
    seq: u64,
}

impl Journal {
    fn new() -> Self {
        Self { fold: Fold::new(), follower: Conversation::default(), seq: 0 }
    }

    fn line(&mut self, line: &serde_json::Value) -> &mut Self {
        self.bytes(line.to_string().as_bytes())
    }

    fn note(&mut self, note: &Note) -> &mut Self {
        self.bytes(&note.to_line())
    }

    /// Appends an entry. A restored fold and a client must have the same document.
    fn bytes(&mut self, line: &[u8]) -> &mut Self {
        self.seq += 1;
        let mut saved = Fold::restore(&self.fold.save()).unwrap();
        push(&mut saved, self.seq, line);
        push(&mut self.fold, self.seq, line);
        let document = self.document();
        assert_eq!(saved.conversation(usize::MAX), document);
        self.follower.apply(&self.fold.patches(self.follower.revision).unwrap()).unwrap();
        assert_eq!(self.follower, document);
        self
    }

    fn document(&self) -> Conversation {
        self.fold.conversation(usize::MAX)
    }

    fn phase(&self) -> SessionPhase {
        self.document().status.phase
    }

    fn queue(&self) -> Vec<String> {
        self.document().queue.into_iter().map(|queued| queued.text).collect()
    }

    fn prompt(&self, id: Uuid) -> (u64, PromptState) {
        let item = self.fold.item(&ItemId::prompt(&id.to_string())).unwrap();
        let ItemBody::Prompt(prompt) = &item.body else { panic!("{item:?}") };
        (item.turn, prompt.state)
    }

    fn call(&self, id: &str) -> Call {
        match &self.fold.item(&ItemId::call(id)).unwrap().body {
            ItemBody::Call(call) => (**call).clone(),
            other => panic!("{other:?}"),
        }
    }

    fn queued(&mut self, id: Uuid, text: &str, delivery: Delivery) -> &mut Self {
        self.note(&Note::PromptQueued {
            prompt: id,
            text: text.to_owned(),
            images: 0,
            delivery,
            by: ann(),
        })
    }

    fn became(&mut self, id: Uuid, state: PromptState) -> &mut Self {
        self.note(&Note::PromptStateChanged { prompt: id, state })
    }

    /// A process that is ready, and a turn that answers a prompt.
    fn running(id: Uuid) -> Self {
        let mut journal = Self::new();
        journal
            .note(&Note::AgentStarted { resumed: false })
            .note(&Note::AgentReady { version: Some("2.1.325".to_owned()) })
            .queued(id, "go", Delivery::Queue)
            .note(&Note::TurnStarted { turn: 1, prompts: vec![id] })
            .became(id, PromptState::Written);
        journal
    }
}

fn ann() -> Actor {
    Actor { name: "ann".to_owned(), via: "browser".to_owned() }
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn init() -> serde_json::Value {
    json!({"type":"system","subtype":"init","session_id":"s","model":"opus","cwd":"/p","permissionMode":"default"})
}

fn replay(id: Uuid, text: &str) -> serde_json::Value {
    json!({"type":"user","message":{"role":"user","content":text},"uuid":id.to_string(),"isReplay":true})
}

fn stream(event: &serde_json::Value) -> serde_json::Value {
    json!({"type":"stream_event","event":event,"parent_tool_use_id":null})
}

fn start(message: &str) -> serde_json::Value {
    stream(
        &json!({"type":"message_start","message":{"id":message,"content":[],"usage":{"input_tokens":5,"output_tokens":1}}}),
    )
}

fn begin(block: &serde_json::Value) -> serde_json::Value {
    stream(&json!({"type":"content_block_start","index":0,"content_block":block}))
}

fn delta(delta: &serde_json::Value) -> serde_json::Value {
    stream(&json!({"type":"content_block_delta","index":0,"delta":delta}))
}

fn says(message: &str, block: &serde_json::Value) -> serde_json::Value {
    json!({"type":"assistant","message":{"id":message,"model":"opus","content":[block]},"parent_tool_use_id":null})
}

fn bash(call: &str) -> serde_json::Value {
    json!({"type":"tool_use","id":call,"name":"Bash","input":{"command":"ls"}})
}

fn result(call: &str, text: &str, failed: bool) -> serde_json::Value {
    json!({"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":call,"content":text,"is_error":failed}]}})
}

fn ask(request: &str, call: &str) -> serde_json::Value {
    json!({"type":"control_request","request_id":request,"request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":call,"description":"look"}})
}

fn ended(subtype: &str, cost: f64) -> serde_json::Value {
    json!({"type":"result","subtype":subtype,"is_error":subtype != "success","result":"","total_cost_usd":cost,"duration_ms":7})
}

fn over(turn: u64) -> Note {
    Note::TurnEnded { turn, ending: TurnEnding::Completed }
}

fn text_of(item: &Item) -> &str {
    match &item.body {
        ItemBody::Text { text } | ItemBody::Thinking { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_prompt_goes_from_the_queue_into_its_turn_and_is_done_with_it() {
    let mut journal = Journal::new();
    journal.note(&Note::AgentStarted { resumed: false });
    assert_eq!(journal.phase(), SessionPhase::Starting);
    journal.note(&Note::AgentReady { version: None });
    assert_eq!(journal.phase(), SessionPhase::Idle);
    journal.queued(id(1), "go", Delivery::Queue);
    assert_eq!(journal.queue(), ["go"]);
    journal.became(id(1), PromptState::Written);
    assert_eq!(journal.document().queue[0].state, PromptState::Written);
    journal.note(&Note::TurnStarted { turn: 1, prompts: vec![id(1)] });
    assert!(journal.queue().is_empty());
    assert_eq!(journal.prompt(id(1)), (1, PromptState::Written));
    assert_eq!(journal.phase(), SessionPhase::Working);
    journal.line(&init()).line(&replay(id(1), "go")).became(id(1), PromptState::Accepted);
    assert_eq!(journal.prompt(id(1)), (1, PromptState::Accepted));
    journal.line(&ended("success", 0.5)).became(id(1), PromptState::Done).note(&over(1));
    assert_eq!(journal.prompt(id(1)), (1, PromptState::Done));
    let document = journal.document();
    assert_eq!(document.items.len(), 1, "{:?}", document.items);
    let ItemBody::Prompt(prompt) = &document.items[0].body else { panic!() };
    assert_eq!((prompt.by.clone(), prompt.author), (Some(ann()), PromptAuthor::User));
    assert_eq!(document.turns[0].end.as_ref().unwrap().ending, Some(TurnEnding::Completed));
    assert_eq!(document.turns[0].cost, Some(0.5));
    assert_eq!(journal.phase(), SessionPhase::Idle);
}

#[test]
fn a_sign_in_is_asked_for_until_the_agent_is_started_again() {
    let mut journal = Journal::new();
    let methods = vec!["Use a key".to_owned(), "Use the browser".to_owned()];
    let needed = Note::SignInNeeded { text: "Run `agent login`.".to_owned(), methods };
    let exited = Note::AgentExited { cause: ExitCause::NotReady };
    journal.note(&Note::AgentStarted { resumed: false }).note(&needed).note(&exited);
    let document = journal.document();
    let asked = document.status.sign_in.as_ref().expect("a sign-in");
    assert_eq!((asked.text.as_str(), asked.methods.len()), ("Run `agent login`.", 2));
    let ItemBody::Notice(notice) = &document.items[0].body else { panic!("{document:?}") };
    assert_eq!(notice.text, "Run `agent login`. The agent offers: Use a key; Use the browser.");
    journal.note(&Note::AgentStarted { resumed: false });
    assert_eq!(journal.document().status.sign_in, None);
}

#[test]
fn queued_prompts_are_edited_moved_and_cancelled() {
    let mut journal = Journal::running(id(1));
    journal
        .queued(id(2), "two", Delivery::Queue)
        .queued(id(3), "three", Delivery::Queue)
        .queued(id(4), "four", Delivery::Queue)
        .note(&Note::PromptEdited { prompt: id(3), text: "drei".to_owned() })
        .note(&Note::PromptMoved { prompt: id(4), before: Some(id(2)) })
        .note(&Note::PromptMoved { prompt: id(2), before: None });
    assert_eq!(journal.queue(), ["four", "drei", "two"]);
    journal.became(id(3), PromptState::Cancelled);
    assert_eq!(journal.queue(), ["four", "two"]);
    journal.became(id(4), PromptState::Indeterminate);
    assert_eq!(journal.prompt(id(4)), (1, PromptState::Indeterminate));
}

#[test]
fn a_steering_prompt_is_placed_where_it_came_in() {
    let mut journal = Journal::running(id(1));
    journal
        .line(&says("m1", &bash("t1")))
        .queued(id(2), "no, rather", Delivery::Steer)
        .became(id(2), PromptState::Written)
        .line(&result("t1", "a", false))
        .line(&replay(id(2), "no, rather"))
        .line(&says("m2", &json!({"type":"text","text":"as you like"})));
    let ids: Vec<_> = journal.document().items.iter().map(|it| it.id.to_string()).collect();
    let (first, second) = (format!("p:{}", id(1)), format!("p:{}", id(2)));
    assert_eq!(ids, [&first, "c:t1", &second, "m:m2.0"]);
    assert_eq!(journal.prompt(id(2)), (1, PromptState::Accepted));
}

#[test]
fn a_prompt_that_the_turn_did_not_answer_moves_to_the_one_that_does() {
    let mut journal = Journal::running(id(1));
    journal
        .line(&says("m1", &json!({"type":"text","text":"one"})))
        .queued(id(2), "next", Delivery::Steer)
        .became(id(2), PromptState::Written);
    assert_eq!(journal.prompt(id(2)).0, 1);
    journal.note(&over(1)).note(&Note::TurnStarted { turn: 2, prompts: vec![id(2)] });
    assert_eq!(journal.prompt(id(2)).0, 2);
    let document = journal.document();
    assert_eq!(document.turns[0].prompts.len(), 1);
    assert_eq!(document.turns[1].prompts, [ItemId::prompt(&id(2).to_string())]);
}

#[test]
fn turns_after_a_rewind_are_marked_as_rewound() {
    let mut journal = Journal::running(id(1));
    journal.note(&over(1));
    for turn in 2..4 {
        let prompt = id(turn.into());
        journal.queued(prompt, "more", Delivery::Queue);
        journal.note(&Note::TurnStarted { turn, prompts: vec![prompt] }).note(&over(turn));
    }
    let rewound = |journal: &Journal| -> Vec<bool> {
        journal.document().turns.iter().map(|turn| turn.rewound).collect()
    };
    let went_back = |what| Note::Rewound { prompt: id(2), what, by: ann() };
    journal.note(&went_back(Rewind::Files));
    assert_eq!(rewound(&journal)[..3], [false; 3]);
    journal.note(&went_back(Rewind::Conversation));
    assert_eq!(rewound(&journal)[..3], [false, true, true]);
    journal.queued(id(9), "again", Delivery::Queue);
    journal.note(&Note::TurnStarted { turn: 4, prompts: vec![id(9)] });
    assert_eq!(rewound(&journal).last(), Some(&false));
}

#[test]
fn the_status_shows_what_the_agent_does() {
    let mut journal = Journal::running(id(1));
    journal.line(&init()).line(&json!({"type":"system","subtype":"status","status":"requesting"}));
    assert_eq!(journal.phase(), SessionPhase::Working);
    journal.line(&start("m1")).line(&begin(&json!({"type":"thinking","thinking":""})));
    assert_eq!(journal.phase(), SessionPhase::Thinking { tokens: None });
    journal.line(&json!({"type":"system","subtype":"thinking_tokens","estimated_tokens":40}));
    assert_eq!(journal.phase(), SessionPhase::Thinking { tokens: Some(40) });
    journal.line(&says("m1", &json!({"type":"thinking","thinking":"hm"})));
    assert_eq!(journal.phase(), SessionPhase::Working);
    journal.line(&begin(&json!({"type":"text","text":""})));
    assert_eq!(journal.phase(), SessionPhase::Writing);
    journal.line(&says("m1", &json!({"type":"text","text":"Well"})));
    journal.line(&says("m1", &bash("t1"))).line(&says("m1", &bash("t2")));
    let item = ItemId::call("t2");
    let (tool, target) = ("Bash".to_owned(), "ls".to_owned());
    assert_eq!(journal.phase(), SessionPhase::Running { tool, target, item, others: 1 });
    journal.line(&ask("r1", "t2"));
    assert_eq!(journal.phase(), SessionPhase::Waiting { requests: 1 });
    journal.note(&Note::RequestResolved {
        request: "r1".to_owned(),
        outcome: Outcome::Allowed,
        by: Some(ann()),
        message: None,
        answers: Vec::new(),
        choice: None,
    });
    journal.line(&result("t1", "", false)).line(&result("t2", "", false));
    assert_eq!(journal.phase(), SessionPhase::Working);
    let retry = json!({"type":"system","subtype":"api_retry","attempt":2,"max_retries":10,"retry_delay_ms":1171.5,"error_status":529,"error":"overloaded"});
    journal.line(&retry);
    let waiting =
        SessionPhase::Retrying { attempt: Some(2), max_attempts: Some(10), delay_ms: Some(1171) };
    assert_eq!(journal.phase(), waiting);
    journal.note(&Note::Stalled { seconds: 90 });
    assert_eq!(journal.phase(), SessionPhase::Stalled { seconds: 90 });
    journal.line(&json!({"type":"system","subtype":"status","status":"compacting"}));
    assert_eq!(journal.phase(), SessionPhase::Compacting);
    journal.line(&json!({"type":"system","subtype":"status","status":null}));
    journal.note(&Note::InterruptRequested { by: ann(), queue: QueuePolicy::Keep });
    assert_eq!(journal.phase(), SessionPhase::Interrupting);
    journal.line(&ended("error_during_execution", 0.1));
    journal.note(&Note::TurnEnded { turn: 1, ending: TurnEnding::Interrupted });
    assert_eq!(journal.phase(), SessionPhase::Idle);
    journal.note(&Note::AgentExited { cause: ExitCause::Parked });
    assert!(journal.phase().is_parked() && !journal.phase().is_busy());
}

#[test]
fn a_request_is_open_until_it_is_resolved_and_its_outcome_stays() {
    let mut journal = Journal::running(id(1));
    journal.line(&says("m1", &bash("t1"))).line(&ask("r1", "t1")).note(&Note::RequestOpened {
        request: "r1".to_owned(),
        kind: RequestKind::Permission,
        expires: Some(99),
        rules: Vec::new(),
        choices: Vec::new(),
    });
    let document = journal.document();
    let request = &document.requests[0];
    assert_eq!((request.expires, request.item.clone()), (Some(99), Some(ItemId::call("t1"))));
    assert_eq!((&*request.target, request.description.as_deref()), ("ls", Some("look")));
    assert_eq!(journal.call("t1").state, CallState::Waiting);
    // The CLI repeats the answer, then the note says who gave it.
    journal.line(&json!({"type":"control_response","response":{"subtype":"success","request_id":"r1","response":{"behavior":"deny","message":"no"}}}));
    assert!(journal.document().requests.is_empty());
    journal.note(&Note::RequestResolved {
        request: "r1".to_owned(),
        outcome: Outcome::Denied,
        by: Some(ann()),
        message: Some("no".to_owned()),
        answers: Vec::new(),
        choice: None,
    });
    journal.line(&result("t1", "no", true));
    let call = journal.call("t1");
    assert_eq!(call.state, CallState::Denied);
    let permission = call.permission.unwrap();
    assert_eq!((permission.outcome, permission.by), (Some(Outcome::Denied), Some(ann())));
}

#[test]
fn a_question_keeps_its_answers() {
    let mut journal = Journal::running(id(1));
    let input = json!({"questions":[{"question":"Which?","header":"Pick","options":[{"label":"A","description":"a"}],"multiSelect":false}]});
    journal
        .line(&says("m1", &json!({"type":"tool_use","id":"q1","name":"AskUserQuestion","input":input})))
        .line(&json!({"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"AskUserQuestion","input":input,"tool_use_id":"q1"}}));
    assert_eq!(journal.document().requests[0].kind, RequestKind::Question);
    journal.note(&Note::RequestResolved {
        request: "r1".to_owned(),
        outcome: Outcome::Allowed,
        by: Some(ann()),
        message: None,
        answers: vec![("Which?".to_owned(), "A".to_owned())],
        choice: None,
    });
    let call = journal.call("q1");
    assert!(
        matches!(call.tool_input(), towpath_view::ToolInput::Questions(it) if it[0].text == "Which?")
    );
    let answers = call.permission.unwrap().answers;
    assert_eq!(answers, [("Which?".to_owned(), "A".to_owned())]);
}

#[test]
fn a_turn_that_was_cut_keeps_its_text_and_the_cause() {
    let mut journal = Journal::running(id(1));
    journal
        .line(&start("m1"))
        .line(&begin(&json!({"type":"text","text":""})))
        .line(&delta(&json!({"type":"text_delta","text":"Once upon"})))
        .line(&says("m0", &bash("t0")));
    // The line of another message means that the model was asked again.
    assert!(journal.document().items.iter().all(|item| !item.open));
    journal
        .line(&start("m2"))
        .line(&begin(&json!({"type":"text","text":""})))
        .line(&delta(&json!({"type":"text_delta","text":"Once"})))
        .note(&Note::AgentExited { cause: ExitCause::Lost })
        .note(&Note::TurnEnded { turn: 1, ending: TurnEnding::Aborted { cause: ExitCause::Lost } })
        .became(id(1), PromptState::Indeterminate);
    let document = journal.document();
    let text = document.items.iter().find(|it| it.id.as_str() == "m:m2.0").unwrap();
    assert_eq!((text_of(text), text.open), ("Once", false));
    assert!(text.position.0 < Position::OPEN);
    assert_eq!(journal.call("t0").state, CallState::Unanswered);
    assert!(matches!(document.items.last().unwrap().body, ItemBody::Agent(_)));
    assert!(matches!(journal.phase(), SessionPhase::Stopped { cause: ExitCause::Lost }));
    let end = document.turns[0].end.clone().unwrap();
    assert_eq!(end.ending, Some(TurnEnding::Aborted { cause: ExitCause::Lost }));
}

#[test]
fn text_grows_by_patches_in_utf_16_units() {
    let mut journal = Journal::running(id(1));
    journal.line(&start("m1")).line(&begin(&json!({"type":"text","text":""})));
    journal.line(&delta(&json!({"type":"text_delta","text":"né 🚣"})));
    let before = journal.fold.revision();
    journal.line(&delta(&json!({"type":"text_delta","text":" towards"})));
    journal.line(&delta(&json!({"type":"text_delta","text":" Bath"})));
    let update = journal.fold.patches(before).unwrap();
    let sent = serde_json::to_value(&update.patches).unwrap();
    let rev = journal.seq;
    let grown =
        json!([{"patch":"append","id":"m:m1.0","rev":rev,"offset":5,"text":" towards Bath"}]);
    assert_eq!(sent, grown);
    // A client that has nothing gets the item whole.
    let whole = journal.fold.patches(Revision(0)).unwrap();
    let sent = serde_json::to_string(&whole.patches).unwrap();
    assert!(sent.contains(r#""body":{"kind":"text","text":"né 🚣 towards Bath"}"#), "{sent}");
}

#[test]
fn an_outdated_patch_is_ignored() {
    let mut journal = Journal::running(id(1));
    journal.line(&start("m1")).line(&begin(&json!({"type":"text","text":""})));
    let from = journal.fold.revision();
    journal.line(&delta(&json!({"type":"text_delta","text":"Once"})));
    let grown = journal.fold.patches(from).unwrap();
    let whole = journal.fold.patches(Revision(0)).unwrap();
    journal.line(&says("m1", &json!({"type":"text","text":"Once upon a time"})));
    // A gateway that merges what waits may send a patch under a later update than its own.
    for update in [grown, whole] {
        let items = update.patches.into_iter();
        let items = items.filter(|it| matches!(it, Patch::Item { .. } | Patch::Append { .. }));
        let to = Revision(journal.follower.revision.0 + 1);
        let late = Update { from, to, patches: items.collect() };
        let mut follower = journal.follower.clone();
        follower.apply(&late).unwrap();
        assert_eq!(follower.items, journal.follower.items);
    }
}

#[test]
fn the_input_of_a_call_grows_until_its_line_completes_it() {
    let mut journal = Journal::running(id(1));
    journal
        .line(&start("m1"))
        .line(&begin(&json!({"type":"tool_use","id":"t1","name":"Bash","input":{}})))
        .line(&delta(&json!({"type":"input_json_delta","partial_json":"{\"command\":"})));
    let call = journal.call("t1");
    assert_eq!((&*call.input, call.state), ("{\"command\":", CallState::Writing));
    journal.line(&says("m1", &bash("t1")));
    let call = journal.call("t1");
    assert_eq!((&*call.input, &*call.target), ("{\"command\":\"ls\"}", "ls"));
    assert_eq!(call.state, CallState::Running);
}

#[test]
fn a_call_with_a_request_while_it_is_written_reaches_clients_whole() {
    let mut journal = Journal::running(id(1));
    journal
        .line(&start("m1"))
        .line(&begin(&json!({"type":"tool_use","id":"t1","name":"Bash","input":{}})))
        .line(&delta(&json!({"type":"input_json_delta","partial_json":"{\"command\":"})))
        .line(&ask("r1", "t1"));
    assert_eq!(journal.follower.requests.len(), 1);
    journal.line(&delta(&json!({"type":"input_json_delta","partial_json":"\"ls\"}"})));
    assert_eq!(journal.call("t1").state, CallState::Waiting);
}

#[test]
fn cost_is_counted_once_whether_or_not_a_resumed_process_restarts_it() {
    for (version, after_resume, total) in
        [("2.1.197", 2.0, 3.5), ("2.1.325", 2.0, 2.0), ("2.1.325", 0.25, 1.75)]
    {
        let mut journal = Journal::new();
        journal.note(&Note::AgentReady { version: Some(version.to_owned()) });
        for (turn, cost) in [(1, 1.0), (2, 1.5)] {
            journal
                .note(&Note::TurnStarted { turn, prompts: Vec::new() })
                .line(&ended("success", cost))
                .note(&over(turn));
        }
        journal
            .note(&Note::AgentExited { cause: ExitCause::Parked })
            .note(&Note::AgentStarted { resumed: true })
            .note(&Note::TurnStarted { turn: 3, prompts: Vec::new() })
            .line(&ended("success", after_resume))
            .note(&over(3));
        assert_eq!(journal.document().usage.cost, Some(total), "{version} {after_resume}");
        assert_eq!(journal.document().turns[1].cost, Some(0.5));
    }
}

#[test]
fn settings_titles_and_errors_are_shown() {
    let mut journal = Journal::running(id(1));
    journal
        .note(&Note::SettingChanged {
            setting: Setting::PermissionMode("plan".to_owned()),
            by: ann(),
        })
        .note(&Note::TitleChanged { title: "the lock".to_owned() })
        .note(&Note::Problem { text: "disk full".to_owned() });
    let document = journal.document();
    assert_eq!(document.head.mode.as_deref(), Some("plan"));
    assert_eq!(document.head.title.as_deref(), Some("the lock"));
    let ItemBody::Notice(notice) = &document.items.last().unwrap().body else { panic!() };
    assert_eq!((notice.level, &*notice.text), (NoticeLevel::Error, "disk full"));
}

#[test]
fn a_note_of_a_later_version_is_shown_raw() {
    let mut journal = Journal::running(id(1));
    journal.line(&json!({"type":"towpath","note":"teleported","to":"x"}));
    let document = journal.document();
    let ItemBody::Raw(raw) = &document.items.last().unwrap().body else { panic!() };
    assert_eq!(raw.name, "towpath");
    assert!(raw.text.contains("teleported"));
}
