//! Hooks that run before a file changes.

use std::sync::Arc;

use journal::{RequestRecord, SessionId};
use tokio::sync::mpsc;
use wire::note::{Delivery, HookConfig, Note, Setting, WatchChoice, WatchConfig};
use wire::outgoing::JsonObject;

use super::{Harness, ann, at, id};
use crate::agent_event::{AgentEvent, HookCallback};
use crate::command::{CommandError, CommandOutput, SessionCommand};
use crate::config::{HookRequest, SessionLimits, WatchPolicy};
use crate::machine::{Input, MachineSnapshot};
use crate::options::SessionOptions;

const DENY: &str = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}"#;

fn config() -> WatchConfig {
    let hooks = HookConfig { pre: Some("check".to_owned()), ..HookConfig::default() };
    WatchConfig { hooks, ..WatchConfig::default() }
}

fn runner() -> mpsc::UnboundedSender<HookRequest> {
    mpsc::unbounded_channel().0
}

fn snapshot(watch: WatchPolicy) -> MachineSnapshot {
    let (session, limits) = (SessionId(id(0)), SessionLimits::default());
    let new = MachineSnapshot::new(at(0), session, limits, SessionOptions::default());
    MachineSnapshot { watch, ..new }
}

/// A session with a hook by default, whose agent works on a prompt.
fn with_hook() -> Harness {
    let default = Some(Arc::new(config()));
    running(Harness::from(snapshot(WatchPolicy { default, hooks: Some(runner()) })))
}

fn running(mut harness: Harness) -> Harness {
    harness.prompt(1, Delivery::Queue).unwrap();
    harness.ready();
    harness.agent(AgentEvent::TurnStarted { conversation: Some("c".to_owned()) });
    harness
}

fn call(request: &str) -> AgentEvent {
    AgentEvent::HookCalled(HookCallback {
        id: request.to_owned(),
        callback: "towpath-pre".to_owned(),
        input: Some(r#"{"tool_name":"Write"}"#.to_owned()),
    })
}

fn answer(request: &str, output: Option<&str>) -> SessionCommand {
    let output = output.map(|it| JsonObject::parse(it).unwrap());
    SessionCommand::AnswerHook { request: request.to_owned(), output }
}

fn answers(harness: &Harness) -> Vec<&str> {
    let lines = harness.written.iter().map(String::as_str);
    lines.filter(|line| line.contains("control_response")).collect()
}

fn initializations(harness: &Harness) -> Vec<&str> {
    let lines = harness.written.iter().map(String::as_str);
    lines.filter(|line| line.contains(r#""subtype":"initialize""#)).collect()
}

#[test]
fn a_hook_is_registered_only_if_there_is_one_and_something_runs_it() {
    let harness = with_hook();
    let [line] = initializations(&harness)[..] else { panic!("{:?}", harness.written) };
    let hooks = r#""hooks":{"PreToolUse":[{"matcher":"Edit|MultiEdit|NotebookEdit|Write","hookCallbackIds":["towpath-pre"],"timeout":600}]}"#;
    assert!(line.contains(hooks), "{line}");
    let default = || Some(Arc::new(config()));
    let no_hooks = Some(Arc::new(WatchConfig::default()));
    for policy in [
        WatchPolicy::default(),
        WatchPolicy { default: default(), hooks: None },
        WatchPolicy { default: no_hooks, hooks: Some(runner()) },
        WatchPolicy { default: None, hooks: Some(runner()) },
    ] {
        let mut harness = running(Harness::from(snapshot(policy)));
        assert!(!initializations(&harness)[0].contains("hooks"), "{:?}", harness.written);
        // An agent of an earlier Towpath may call it all the same.
        harness.agent(call("h"));
        assert!(harness.hooks.is_empty());
        let [line] = answers(&harness)[..] else { panic!("{:?}", harness.written) };
        assert!(line.contains(r#""request_id":"h","response":{}"#), "{line}");
    }
}

#[test]
fn the_call_waits_for_the_first_answer_of_its_hook() {
    let mut harness = with_hook();
    harness.agent(call("h"));
    // The same line again, as after a lost connection.
    harness.agent(call("h"));
    assert_eq!(harness.hooks.len(), 1);
    assert_eq!(harness.hooks[0].input, r#"{"tool_name":"Write"}"#);
    assert!(answers(&harness).is_empty());
    assert_eq!(harness.machine.status(), journal::SessionStatus::Running);
    assert_eq!(harness.command(answer("h", Some(DENY))), Some(Ok(CommandOutput::None)));
    let late = harness.command(answer("h", None));
    assert_eq!(late, Some(Err(CommandError::NoSuchRequest)));
    harness.wait(10 * 60_000);
    let [line] = answers(&harness)[..] else { panic!("{:?}", harness.written) };
    assert!(line.contains(DENY), "{line}");
}

#[test]
fn a_hook_that_does_not_answer_lets_the_call_go_on_and_this_is_noted() {
    let mut harness = with_hook();
    harness.agent(call("h"));
    harness.wait(80_000);
    let [line] = answers(&harness)[..] else { panic!("{:?}", harness.written) };
    assert!(line.contains(r#""request_id":"h","response":{}"#), "{line}");
    let noted = harness.notes.iter().any(
        |note| matches!(note, Note::Problem { text } if text.contains("did not answer in time")),
    );
    assert!(noted, "{:?}", harness.notes);
}

#[test]
fn a_hook_that_an_earlier_owner_left_runs_again_and_is_answered_once() {
    let record = RequestRecord::of_hook("h".to_owned(), r#"{"a":1}"#.to_owned(), 0);
    for policy in [
        WatchPolicy { default: Some(Arc::new(config())), hooks: Some(runner()) },
        WatchPolicy::default(),
    ] {
        let runs = policy.hooks.is_some();
        let mut harness = Harness::from(MachineSnapshot {
            requests: vec![record.clone()],
            agent_may_run: true,
            turns: 1,
            turn_is_open: true,
            ..snapshot(policy)
        });
        assert!(harness.hooks.is_empty());
        harness.on(Input::AgentAttached { used: true });
        assert_eq!(harness.hooks.len(), usize::from(runs));
        if runs {
            assert_eq!(harness.hooks[0].input, r#"{"a":1}"#);
            assert!(answers(&harness).is_empty());
            harness.command(answer("h", None)).unwrap().unwrap();
        }
        assert_eq!(answers(&harness).len(), 1, "{:?}", harness.written);
    }
}

#[test]
fn a_hook_that_is_added_later_is_made_known_to_the_running_agent() {
    let mut harness =
        running(Harness::from(snapshot(WatchPolicy { default: None, hooks: Some(runner()) })));
    let set = |choice| SessionCommand::Set { setting: Setting::Watch(choice), by: ann() };
    harness.command(set(WatchChoice::Own(Box::new(config())))).unwrap().unwrap();
    assert_eq!(initializations(&harness).len(), 2);
    assert!(initializations(&harness)[1].contains("towpath-pre"));
    harness.answer("initialize", Ok(None));
    harness.agent(call("1"));
    assert_eq!(harness.hooks.len(), 1);
    // Once it is switched off, its calls are answered at once.
    harness.command(set(WatchChoice::Off)).unwrap().unwrap();
    harness.agent(call("2"));
    assert_eq!((harness.hooks.len(), answers(&harness).len()), (1, 1));
    harness.command(set(WatchChoice::Own(Box::new(config())))).unwrap().unwrap();
    assert_eq!(initializations(&harness).len(), 2, "the agent knows it already");
}

#[test]
fn a_version_that_takes_no_hooks_later_is_reported() {
    let mut harness =
        running(Harness::from(snapshot(WatchPolicy { default: None, hooks: Some(runner()) })));
    let setting = Setting::Watch(WatchChoice::Own(Box::new(config())));
    harness.command(SessionCommand::Set { setting, by: ann() }).unwrap().unwrap();
    harness.answer("initialize", Err("Already initialized".to_owned()));
    let noted = harness
        .notes
        .iter()
        .any(|it| matches!(it, Note::Problem { text } if text.contains("next start")));
    assert!(noted, "{:?}", harness.notes);
}

#[test]
fn a_call_that_is_too_long_for_a_hook_is_denied_and_not_let_through() {
    let mut line = br#"{"type":"control_request","request_id":"h","request":{"subtype":"hook_callback","callback_id":"towpath-pre","input":{"tool_input":{"content":""#.to_vec();
    line.resize(1 << 20, b'x');
    let mut harness = with_hook();
    harness.agent(AgentEvent::of_start(&line));
    let [answer] = answers(&harness)[..] else { panic!("{:?}", harness.written) };
    assert!(answer.contains(r#""permissionDecision":"deny""#), "{answer}");
    assert!(harness.hooks.is_empty());
}

#[test]
fn a_withdrawn_call_and_one_of_a_dead_agent_need_no_answer() {
    let mut harness = with_hook();
    harness.agent(call("1"));
    harness.agent(AgentEvent::RequestWithdrawn { id: "1".to_owned() });
    assert_eq!(harness.command(answer("1", None)), Some(Err(CommandError::NoSuchRequest)));
    harness.agent(call("2"));
    harness.on(Input::AgentGone(crate::machine::AgentExit::Unknown));
    assert_eq!(harness.command(answer("2", None)), Some(Err(CommandError::NoSuchRequest)));
    assert!(answers(&harness).is_empty());
}
