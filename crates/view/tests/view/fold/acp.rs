//! Sessions of agents that speak the Agent Client Protocol: recordings of both sides, and journals with
//! notes.

mod hostile;
mod requests;

use std::fmt::Write as _;

use super::captures;
use super::documents::digest;
use serde_json::{Value, json};
use towpath_view::{
    Call, CallState, Conversation, Fold, ItemBody, PromptAuthor, SessionPhase, SubAgentState,
    TodoState,
};
use uuid::Uuid;
use wire::note::{Actor, Delivery, ExitCause, Note, TurnEnding};
use wire::{Origin, RecordedLine};

#[test]
fn captures_of_five_agents_are_the_documents_a_person_expects() {
    let mut documents = String::new();
    let mut agents = std::collections::BTreeSet::new();
    for record in captures().iter().filter(|record| record.name.starts_with("acp/")) {
        let document = record.document();
        let agent =
            document.agent.as_ref().map(towpath_view::AgentInfo::summary).unwrap_or_default();
        agents.insert(agent.split(' ').next().unwrap_or_default().to_owned());
        let _ = writeln!(documents, "=== {}\n{agent}\n{}", record.name, digest(&document));
    }
    assert_eq!(agents.len(), 5, "{agents:?}");
    insta::assert_snapshot!(documents);
}

/// A journal being written. After each entry a restored fold and a client must have the same document.
pub(super) struct AcpJournal {
    pub(super) fold: Fold,
    follower: Conversation,
    seq: u64,
}

impl AcpJournal {
    pub(super) fn new() -> Self {
        Self { fold: Fold::new(), follower: Conversation::default(), seq: 0 }
    }

    fn push(&mut self, origin: Origin, bytes: &[u8]) -> &mut Self {
        self.seq += 1;
        let line = RecordedLine { seq: self.seq, at: self.seq * 1000, origin, bytes };
        let mut restored = Fold::restore(&self.fold.save()).unwrap();
        restored.push_recorded(line);
        self.fold.push_recorded(line);
        let document = self.document();
        assert_eq!(restored.conversation(usize::MAX), document);
        self.follower.apply(&self.fold.patches(self.follower.revision).unwrap()).unwrap();
        assert_eq!(self.follower, document);
        self
    }

    pub(super) fn note(&mut self, note: &Note) -> &mut Self {
        self.push(Origin::Towpath, &note.to_line())
    }

    pub(super) fn sent(&mut self, message: &Value) -> &mut Self {
        self.push(Origin::Sent, message.to_string().as_bytes())
    }

    pub(super) fn said(&mut self, message: &Value) -> &mut Self {
        self.push(Origin::Agent, message.to_string().as_bytes())
    }

    pub(super) fn update(&mut self, update: &Value) -> &mut Self {
        self.said(&notification("s", update))
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.update(&chunk("agent_message_chunk", text))
    }

    pub(super) fn document(&self) -> Conversation {
        self.fold.conversation(usize::MAX)
    }

    /// A session with an open turn that answers the prompt `hello`.
    pub(super) fn in_turn() -> Self {
        let mut journal = Self::new();
        journal.note(&Note::AgentStarted { resumed: false });
        journal.sent(&call(1, "session/new", &json!({"cwd": "/p", "mcpServers": []})));
        journal.said(&answer(1, &json!({"sessionId": "s"})));
        journal.note(&Note::AgentReady { version: None });
        journal.prompt(1, "hello");
        journal
    }

    pub(super) fn prompt(&mut self, turn: u64, text: &str) -> &mut Self {
        let prompt = Uuid::from_u128(u128::from(turn));
        let queued = Note::PromptQueued {
            prompt,
            text: text.to_owned(),
            images: 0,
            delivery: Delivery::Queue,
            by: Actor { name: "Ada".to_owned(), via: "browser".to_owned() },
        };
        self.note(&queued);
        self.note(&Note::TurnStarted { turn, prompts: vec![prompt] });
        let params = json!({"sessionId": "s", "prompt": [{"type": "text", "text": text}]});
        self.sent(&json!({"jsonrpc": "2.0", "id": format!("prompt-{turn}"),
            "method": "session/prompt", "params": params}))
    }

    /// The bodies of all items but notices about settings.
    pub(super) fn bodies(&self) -> Vec<ItemBody> {
        self.document().items.into_iter().map(|item| item.body).collect()
    }

    pub(super) fn call(&self, id: &str) -> Call {
        let id = towpath_view::ItemId::call(id);
        match &self.fold.item(&id).expect("the call").body {
            ItemBody::Call(call) => (**call).clone(),
            body => panic!("{body:?}"),
        }
    }
}

pub(super) fn call(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(super) fn answer(id: u64, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub(super) fn notification(session: &str, update: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update",
        "params": {"sessionId": session, "update": update}})
}

pub(super) fn chunk(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

fn texts(journal: &AcpJournal) -> Vec<String> {
    let text = |body| match body {
        ItemBody::Text { text } => Some(text),
        ItemBody::Thinking { text, .. } => Some(format!("({text})")),
        ItemBody::Call(call) => Some(format!("[{}]", call.target)),
        ItemBody::Prompt(prompt) => Some(format!("> {}", prompt.text)),
        _ => None,
    };
    journal.bodies().into_iter().filter_map(text).collect()
}

#[test]
fn a_message_without_an_id_ends_with_whatever_else_happens() {
    let mut journal = AcpJournal::in_turn();
    journal.text("\n\n").text("one ").text("word");
    journal.update(&json!({"sessionUpdate": "available_commands_update", "availableCommands": []}));
    journal.text(" more");
    assert_eq!(journal.document().status.phase, SessionPhase::Writing);
    journal.update(&chunk("agent_thought_chunk", "hm"));
    assert_eq!(journal.document().status.phase, SessionPhase::Thinking { tokens: None });
    journal.text("two");
    journal.update(&json!({"sessionUpdate": "usage_update", "used": 5, "size": 10}));
    journal.text("three");
    journal.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "look",
        "kind": "read", "status": "in_progress"}));
    journal.text("four");
    let expected =
        ["> hello", "one word more", "(hm)", "two", "three", "[look]", "four"].map(str::to_owned);
    assert_eq!(texts(&journal), expected);
    assert_eq!(journal.document().usage.window, Some(10));
}

#[test]
fn a_message_with_an_id_is_one_item_until_another_message_or_call_begins() {
    let named = |id: &str, text: &str| {
        let mut chunk = chunk("agent_message_chunk", text);
        chunk["messageId"] = json!(id);
        chunk
    };
    let mut journal = AcpJournal::in_turn();
    journal
        .update(&named("a", "one "))
        .update(&json!({"sessionUpdate": "usage_update", "used": 5}));
    journal.update(&named("a", "two")).update(&named("b", "three"));
    // Version 2 may replace a message.
    journal.update(&json!({"sessionUpdate": "agent_message", "messageId": "a",
        "content": [{"type": "text", "text": "ONE"}]}));
    journal.update(&json!({"sessionUpdate": "agent_message", "messageId": "b",
        "content": [{"type": "text", "text": "THREE"}]}));
    journal.update(&named("b", "!"));
    assert_eq!(texts(&journal), ["> hello", "ONE", "THREE!"].map(str::to_owned));
    let ids: Vec<_> = journal.document().items.iter().map(|item| item.id.to_string()).collect();
    assert!(ids[1].starts_with("m:a@") && ids[2].starts_with("m:b@"), "{ids:?}");
}

#[test]
fn a_prompt_of_a_journal_is_shown_once_and_its_end_is_that_of_the_note() {
    let mut journal = AcpJournal::in_turn();
    // Version 2 repeats the prompt before or after it says its id.
    journal.update(&json!({"sessionUpdate": "user_message", "messageId": "u1",
        "content": [{"type": "text", "text": "hello"}]}));
    journal.said(&json!({"jsonrpc": "2.0", "id": "prompt-1", "result": {"messageId": "u1"}}));
    journal.text("hi");
    journal.update(&json!({"sessionUpdate": "state_update", "state": "idle",
        "stopReason": "end_turn", "usage": {"inputTokens": 7, "outputTokens": 3}}));
    assert!(journal.document().status.phase.is_busy());
    journal.note(&Note::TurnEnded { turn: 1, ending: TurnEnding::Completed });
    let mut other = chunk("user_message_chunk", "from the ");
    other["messageId"] = json!("u2");
    journal.update(&other);
    other["content"]["text"] = json!("side");
    journal.update(&other);
    assert_eq!(texts(&journal), ["> hello", "hi", "> from the side"].map(str::to_owned));
    let document = journal.document();
    assert_eq!((document.usage.tokens.input, document.turns.last().unwrap().tokens.output), (7, 3));
}

#[test]
fn what_an_agent_repeats_after_a_load_is_not_shown_again() {
    let mut journal = AcpJournal::in_turn();
    journal.text("hi");
    journal
        .said(&json!({"jsonrpc": "2.0", "id": "prompt-1", "result": {"stopReason": "end_turn"}}));
    journal.note(&Note::TurnEnded { turn: 1, ending: TurnEnding::Completed });
    journal.note(&Note::AgentExited { cause: ExitCause::Parked });
    journal.note(&Note::AgentStarted { resumed: true });
    journal.sent(&call(0, "initialize", &json!({"protocolVersion": 1})));
    journal.sent(&call(1, "session/load", &json!({"sessionId": "s", "cwd": "/p"})));
    journal.update(&chunk("user_message_chunk", "hello"));
    journal.said(&answer(
        1,
        &json!({"modes": {"currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}]}}),
    ));
    // Some agents answer first.
    journal.text("hi");
    journal.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "old", "title": "old"}));
    journal.note(&Note::AgentReady { version: None });
    journal.prompt(2, "again");
    journal.text("new");
    assert_eq!(texts(&journal), ["> hello", "hi", "> again", "new"].map(str::to_owned));
    assert_eq!(journal.document().head.mode.as_deref(), Some("ask"));
}

#[test]
fn the_cost_of_a_session_is_divided_among_its_turns() {
    let mut journal = AcpJournal::in_turn();
    let cost = |amount: f64| {
        json!({"sessionUpdate": "usage_update", "used": 1, "size": 2,
        "cost": {"amount": amount, "currency": "USD"}})
    };
    journal.update(&cost(0.25)).update(&cost(0.5)).update(&cost(0.5));
    journal.note(&Note::TurnEnded { turn: 1, ending: TurnEnding::Completed });
    journal.prompt(2, "again");
    journal.update(&cost(0.75));
    journal.update(&json!({"sessionUpdate": "usage_update",
        "cost": {"amount": 99, "currency": "EUR"}}));
    let document = journal.document();
    let costs: Vec<_> = document.turns.iter().filter_map(|turn| turn.cost).collect();
    assert_eq!((costs, document.usage.cost), (vec![0.5, 0.25], Some(0.75)));
}

#[test]
fn plans_and_tools_for_lists_are_the_to_do_list() {
    let mut journal = AcpJournal::in_turn();
    journal.update(&json!({"sessionUpdate": "plan", "entries": [
        {"content": "a", "priority": "high", "status": "completed"},
        {"content": "b", "priority": "low", "status": "in_progress"}, {"odd": 1}]}));
    let todos = |journal: &AcpJournal| -> Vec<(String, TodoState)> {
        let todos = journal.document().todos;
        todos.into_iter().map(|todo| (todo.text, todo.state)).collect()
    };
    let both = [("a".to_owned(), TodoState::Done), ("b".to_owned(), TodoState::Doing)];
    assert_eq!(todos(&journal), both);
    journal.update(&json!({"sessionUpdate": "plan_removed"}));
    assert_eq!(todos(&journal), []);
    journal.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "t", "name": "update_plan",
        "rawInput": {"plan": [{"step": "c", "status": "pending"}]}, "status": "completed"}));
    assert_eq!(todos(&journal), [("c".to_owned(), TodoState::Pending)]);
}

#[test]
fn a_sub_agent_is_a_call_with_what_it_does_below_it() {
    let mut journal = AcpJournal::in_turn();
    journal.update(&json!({"sessionUpdate": "subagent_update", "sessionId": "child",
        "title": "look at it", "description": "general", "state": {"state": "running"}}));
    let message = json!({"sessionUpdate": "session_message", "senderSessionId": "s",
        "recipientSessionId": "child", "content": [{"type": "text", "text": "go"}]});
    journal.update(&message);
    journal.said(&notification("child", &message));
    journal.said(&notification("child", &chunk("agent_message_chunk", "below")));
    journal.said(&notification(
        "child",
        &json!({"sessionUpdate": "tool_call", "toolCallId": "c",
        "kind": "execute", "rawInput": {"command": ["bash", "-lc", "ls"]}}),
    ));
    journal.said(&notification("stranger", &chunk("agent_message_chunk", "not ours")));
    journal.note(&Note::TurnEnded { turn: 1, ending: TurnEnding::Completed });
    assert_eq!(journal.call("agent:child").state, CallState::Running);
    journal.update(&json!({"sessionUpdate": "subagent_update", "sessionId": "child",
        "state": {"state": "idle", "stopReason": "end_turn"}}));
    let agent = journal.call("agent:child");
    let state = agent.agent.map(|agent| (agent.state, agent.calls));
    assert_eq!((agent.state, state), (CallState::Done, Some((SubAgentState::Completed, 1))));
    let document = journal.document();
    let below = document.items.iter().filter(|item| item.parent.is_some());
    let below: Vec<_> = below.map(|item| &item.body).collect();
    assert!(matches!(below[0], ItemBody::Prompt(it) if it.author == PromptAuthor::Agent));
    assert_eq!((below.len(), journal.call("c").target.as_str()), (3, "ls"));
    // A process that is gone has no running agents.
    journal.update(&json!({"sessionUpdate": "subagent_update", "sessionId": "other",
        "title": "t", "state": "running"}));
    journal.note(&Note::AgentExited { cause: ExitCause::Parked });
    assert_eq!(journal.call("agent:other").agent.unwrap().state, SubAgentState::Stopped);
}

#[test]
fn failures_notices_and_compactions_are_items() {
    let mut journal = AcpJournal::in_turn();
    journal.update(&json!({"sessionUpdate": "notice", "severity": "warning", "title": "T",
        "description": "D"}));
    journal.update(&json!({"sessionUpdate": "compaction_update", "compactionId": "k",
        "status": "in_progress"}));
    assert_eq!(journal.document().status.phase, SessionPhase::Compacting);
    journal.update(&json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "k",
        "content": {"type": "text", "text": "short"}}));
    journal.update(&json!({"sessionUpdate": "compaction_update", "compactionId": "k",
        "status": "completed"}));
    journal.update(&json!({"sessionUpdate": "brand_new", "a": 1}));
    journal.said(&json!({"jsonrpc": "2.0", "method": "_vendor/news", "params": {}}));
    journal.said(&json!({"jsonrpc": "2.0", "id": "prompt-1", "error": {"code": -32603,
        "message": "Internal error", "data": {"details": "no model"}}}));
    let bodies = journal.bodies();
    assert!(matches!(&bodies[1], ItemBody::Notice(notice) if notice.text == "T\nD"), "{bodies:?}");
    assert!(matches!(&bodies[2], ItemBody::Compaction(it) if it.summary == "short"), "{bodies:?}");
    assert!(matches!(&bodies[3], ItemBody::Raw(raw) if raw.name.ends_with("brand_new")));
    assert!(
        matches!(&bodies[4], ItemBody::Failure { text, .. } if text == "Internal error: no model")
    );
    assert_eq!(bodies.len(), 5);
}

#[test]
fn an_agent_says_its_name_and_what_can_be_chosen() {
    let mut journal = AcpJournal::new();
    journal.said(&answer(
        0,
        &json!({"protocolVersion": 1,
        "agentInfo": {"name": "x-acp", "title": "X", "version": "1.2"},
        "_meta": {"steering": {"supported": true}}}),
    ));
    journal.said(&answer(
        1,
        &json!({"sessionId": "s", "configOptions": [
        {"id": "m", "name": "Model", "category": "model", "type": "select", "currentValue": "a",
            "options": [{"name": "Group", "options": [{"value": "a", "name": "Model A"}]}]},
        {"configId": "e", "name": "Effort", "category": "thought_level", "currentValue": "low",
            "options": [{"value": "low", "name": "Low"}]},
        {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": true}]}),
    ));
    journal.update(&json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"}));
    let agent = journal.document().agent.unwrap();
    assert_eq!(agent.summary(), "X 1.2 · Model A · plan");
    assert!(agent.can_steer);
    assert_eq!(agent.efforts.unwrap().current.as_deref(), Some("low"));
    let switch = &agent.options[0];
    assert_eq!((switch.current.as_deref(), switch.values.len()), (Some("true"), 2));
    let head = journal.document().head;
    assert_eq!((head.model.as_deref(), head.effort.as_deref()), (Some("a"), Some("low")));
}
