//! Options that are changed while the agent runs.

use journal::SessionId;
use serde_json::json;
use wire::note::{Delivery, ExitCause, Note, PromptState, Setting};

use super::{Harness, ann, at, id, permission_request, turn_result};
use crate::command::{AgentQuery, CommandError, SessionCommand};
use crate::config::SessionLimits;
use crate::machine::{AgentExit, Input, MachineSnapshot, StartMode};
use crate::options::{IdleTimeout, SessionOptions};

const GONE: AgentExit = AgentExit::Exited { code: 0, stderr: String::new() };

fn change(values: &serde_json::Value) -> SessionCommand {
    let values = values.as_object().unwrap().clone().into_iter().collect();
    SessionCommand::Set { setting: Setting::Options(values), by: ann() }
}

fn exits(harness: &Harness) -> Vec<ExitCause> {
    let cause = |note: &Note| match note {
        Note::AgentExited { cause } => Some(cause.clone()),
        _ => None,
    };
    harness.notes.iter().filter_map(cause).collect()
}

#[test]
fn options_of_the_process_restart_the_agent_after_its_turn_and_prompts_wait() {
    let mut harness = Harness::with_running_turn();
    harness.command(change(&json!({"max_turns": 3}))).unwrap().unwrap();
    harness.prompt(2, Delivery::Queue).unwrap();
    assert_eq!(harness.stops, 0, "the turn goes on");
    harness.agent(turn_result(&[1]));
    assert_eq!(harness.stops, 1);
    assert_eq!(harness.written_prompts(), 1, "the old process gets no other prompt");
    harness.on(Input::AgentGone(GONE));
    assert_eq!(exits(&harness), [ExitCause::Restarted]);
    assert_eq!(harness.starts, [StartMode::NewConversation, StartMode::Resume]);
    assert_eq!(harness.machine.options().max_turns, Some(3));
    assert!(!harness.machine.options().restart_pending);
    harness.ready();
    assert_eq!(harness.written_prompts(), 2);
    assert_eq!(harness.states(2), [PromptState::Written]);
    assert_eq!((harness.stops, harness.machine.turns()), (1, 2));
}

#[test]
fn an_idle_agent_is_stopped_at_once_and_started_for_the_next_prompt() {
    let mut harness = Harness::with_running_turn();
    harness.agent(turn_result(&[1]));
    harness.command(change(&json!({"fallback_model": "sonnet"}))).unwrap().unwrap();
    assert_eq!(harness.stops, 1);
    harness.on(Input::AgentGone(GONE));
    assert_eq!(harness.starts.len(), 1, "nothing needs an agent");
    assert_eq!(harness.machine.status(), journal::SessionStatus::Idle);
    harness.prompt(2, Delivery::Queue).unwrap();
    assert_eq!(harness.starts.len(), 2);
}

#[test]
fn a_restart_waits_for_a_person_and_for_a_client() {
    let mut harness = Harness::with_running_turn();
    harness.agent(permission_request("r", "ls"));
    harness.agent(turn_result(&[1]));
    harness.command(SessionCommand::Query(AgentQuery::Context));
    harness.command(change(&json!({"max_turns": 3}))).unwrap().unwrap();
    assert_eq!(harness.stops, 0, "a client waits for the answer");
    harness.answer("get_context_usage", Ok(None));
    assert_eq!(harness.stops, 1);
}

#[test]
fn a_towpath_that_takes_over_restarts_the_agent_for_options_of_the_earlier_one() {
    let options = SessionOptions { restart_pending: true, ..SessionOptions::default() };
    let snapshot = MachineSnapshot::new(at(0), SessionId(id(0)), SessionLimits::default(), options);
    let mut harness = Harness::from(MachineSnapshot { agent_may_run: true, ..snapshot });
    harness.on(Input::AgentAttached { used: true });
    harness.prompt(1, Delivery::Queue).unwrap();
    harness.answer("initialize", Ok(None));
    assert_eq!((harness.stops, harness.written_prompts()), (1, 0));
    harness.on(Input::AgentGone(GONE));
    harness.ready();
    assert_eq!((harness.stops, harness.written_prompts()), (1, 1));
}

#[test]
fn what_only_towpath_needs_to_know_restarts_nothing() {
    let mut harness = Harness::with_running_turn();
    harness.agent(turn_result(&[1]));
    let values = json!({"idle_timeout": "10s", "continue_after_cut": true});
    harness.command(change(&values)).unwrap().unwrap();
    assert_eq!(harness.stops, 0);
    harness.wait(9_000);
    assert_eq!(harness.stops, 0);
    harness.wait(1_000);
    assert_eq!(harness.stops, 1, "it was idle for as long as the session allows");
    let never =
        SessionOptions { idle_timeout: Some(IdleTimeout::Never), ..SessionOptions::default() };
    let snapshot = MachineSnapshot::new(at(0), SessionId(id(0)), SessionLimits::default(), never);
    let mut harness = Harness::from(snapshot);
    harness.command(SessionCommand::Wake);
    harness.ready();
    harness.wait(1_000_000_000);
    assert_eq!(harness.stops, 0);
}

#[test]
fn an_option_that_is_not_valid_changes_nothing() {
    let mut harness = Harness::new();
    let values = json!({"fallback_model": "x", "max_turns": -1});
    let reply = harness.command(change(&values)).unwrap();
    assert!(matches!(reply, Err(CommandError::InvalidOption(_))), "{reply:?}");
    assert_eq!(harness.machine.options(), &SessionOptions::default());
    assert_eq!(harness.notes, []);
}

#[test]
fn a_note_about_options_has_no_secrets() {
    let mut harness = Harness::new();
    let values = json!({"environment": {"TOKEN": "secret"}, "max_turns": 3});
    harness.command(change(&values)).unwrap().unwrap();
    assert_eq!(harness.machine.options().environment["TOKEN"], "secret");
    let notes = format!("{:?}", harness.notes);
    assert!(notes.contains("TOKEN") && !notes.contains("secret"), "{notes}");
}

#[test]
fn a_session_that_is_to_be_deleted_ends_when_it_is_closed_or_idle_and_nothing_waits() {
    let deleted = SessionOptions { delete_when_ended: true, ..SessionOptions::default() };
    let new = || {
        let limits = SessionLimits { park: Some(60_000), ..SessionLimits::default() };
        let session = SessionId(id(0));
        Harness::from(MachineSnapshot::new(at(0), session, limits, deleted.clone()))
    };
    let mut closed = new();
    closed.prompt(1, Delivery::Queue).unwrap();
    closed.ready();
    closed.agent(turn_result(&[1]));
    closed.command(SessionCommand::Close).unwrap().unwrap();
    assert!(!closed.machine.has_ended(), "the agent still runs");
    closed.prompt(2, Delivery::Queue).unwrap();
    closed.on(Input::AgentGone(GONE));
    assert!(!closed.machine.has_ended(), "a prompt waits");
    closed.ready();
    closed.agent(turn_result(&[2]));
    closed.wait(60_000);
    closed.on(Input::AgentGone(GONE));
    assert!(closed.machine.has_ended(), "it was idle for long enough");

    let mut restarted = new();
    restarted.command(SessionCommand::Wake);
    restarted.ready();
    restarted.command(change(&json!({"max_turns": 3}))).unwrap().unwrap();
    restarted.on(Input::AgentGone(GONE));
    assert!(!restarted.machine.has_ended(), "it was stopped to be started again");

    let mut unused = new();
    unused.wait(59_000);
    assert!(!unused.machine.has_ended());
    unused.wait(1_000);
    assert!(unused.machine.has_ended(), "no client uses it");

    let mut kept = Harness::new();
    kept.command(SessionCommand::Close).unwrap().unwrap();
    kept.command(change(&json!({"delete_when_ended": true}))).unwrap().unwrap();
    assert!(!kept.machine.has_ended(), "setting the option deletes nothing");
}

#[test]
fn a_conversation_that_the_cli_does_not_keep_is_not_resumed() {
    let options = SessionOptions { without_persistence: true, ..SessionOptions::default() };
    let limits = SessionLimits::default();
    let snapshot = MachineSnapshot::new(at(0), SessionId(id(0)), limits, options);
    let mut harness = Harness::from(MachineSnapshot { resumable: true, ..snapshot });
    harness.prompt(1, Delivery::Queue).unwrap();
    assert_eq!(harness.starts, [StartMode::NewConversation]);
    let said = |it: &Note| matches!(it, Note::Problem { text } if text.contains("keeps nothing"));
    assert!(harness.notes.iter().any(said), "{:?}", harness.notes);
}
