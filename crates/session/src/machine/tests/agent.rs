//! Starts and exits of the agent process.

use journal::{SessionId, SessionStatus};
use wire::TurnResult;
use wire::note::{Delivery, ExitCause, Note, Outcome, PromptState, TurnEnding};

use super::{Harness, at, id, permission_request, turn_result};
use crate::agent_event::AgentEvent;
use crate::config::SessionLimits;
use crate::machine::{AgentExit, Input, MachineSnapshot, StartMode};
use crate::options::SessionOptions;

use PromptState::{Accepted, Indeterminate, Written};

#[test]
fn an_exit_cuts_the_turn_and_the_prompt_is_not_sent_again() {
    let mut harness = Harness::with_running_turn();
    harness.agent(permission_request("r", "id"));
    harness.on(Input::AgentGone(AgentExit::Killed(9)));
    assert_eq!(
        harness.endings(),
        [(1, TurnEnding::Aborted { cause: ExitCause::Killed { signal: 9 } })]
    );
    assert_eq!(harness.states(1), [Written, Accepted, PromptState::Done]);
    assert_eq!(harness.outcomes(), [("r".to_owned(), Outcome::Withdrawn)]);
    assert_eq!(harness.machine.status(), SessionStatus::Dead);
    assert_eq!(harness.starts.len(), 1, "nothing is to be done");
    harness.prompt(2, Delivery::Queue).unwrap();
    assert_eq!(harness.starts, [StartMode::NewConversation, StartMode::Resume]);
}

#[test]
fn a_prompt_that_was_only_written_when_the_agent_died_is_indeterminate() {
    let mut harness = Harness::new();
    harness.prompt(1, Delivery::Queue).unwrap();
    harness.ready();
    harness.on(Input::AgentGone(AgentExit::Unknown));
    assert_eq!(harness.states(1), [Written, Indeterminate]);
    harness.wait(60_000);
    assert_eq!(harness.starts.len(), 1);
}

#[test]
fn a_cut_turn_continues_only_if_the_options_say_so() {
    let options = SessionOptions { continue_after_cut: true, ..SessionOptions::default() };
    let mut harness = Harness::from(MachineSnapshot::new(
        at(0),
        SessionId(id(0)),
        SessionLimits::default(),
        options,
    ));
    harness.prompt(1, Delivery::Queue).unwrap();
    harness.ready();
    harness.agent(AgentEvent::TurnStarted { conversation: Some("c".to_owned()) });
    harness.prompt(2, Delivery::Queue).unwrap();
    harness.on(Input::AgentGone(AgentExit::Killed(9)));
    harness.ready();
    assert!(harness.written.last().unwrap().contains("cut off"));
    harness.agent(turn_result(&[]));
    assert!(harness.written.last().unwrap().contains("prompt 2"));
}

#[test]
fn an_agent_that_keeps_exiting_is_not_restarted_for_ever() {
    let mut harness = Harness::new();
    harness.prompt(1, Delivery::Queue).unwrap();
    for _ in 0..20 {
        if harness.machine.status() == SessionStatus::Failed {
            break;
        }
        harness.on(Input::AgentGone(AgentExit::Exited { code: 1, stderr: String::new() }));
        harness.wait(60_000);
    }
    assert_eq!(harness.machine.status(), SessionStatus::Failed);
    assert_eq!(harness.starts.len(), 4);
    assert_eq!(harness.states(1), [], "the prompt still waits");
    // A new prompt is a reason to try again.
    harness.prompt(2, Delivery::Queue).unwrap();
    assert_eq!(harness.starts.len(), 5);
}

#[test]
fn a_conversation_the_agent_has_lost_starts_again() {
    let mut harness = Harness::with_running_turn();
    harness.on(Input::AgentGone(AgentExit::Killed(9)));
    harness.prompt(2, Delivery::Queue).unwrap();
    harness.on(Input::AgentStarted);
    let failure = Some("No conversation found with session ID: c".to_owned());
    harness.agent(AgentEvent::TurnEnded(TurnResult { failure, ..TurnResult::default() }));
    harness.on(Input::AgentGone(AgentExit::Exited { code: 1, stderr: String::new() }));
    harness.wait(10_000);
    assert_eq!(
        harness.starts,
        [StartMode::NewConversation, StartMode::Resume, StartMode::NewConversation]
    );
}

#[test]
fn an_agent_that_does_not_get_ready_is_killed() {
    let mut harness = Harness::new();
    harness.prompt(1, Delivery::Queue).unwrap();
    harness.on(Input::AgentStarted);
    harness.wait(61_000);
    assert_eq!(harness.kills, 1);
    harness.on(Input::AgentGone(AgentExit::Killed(9)));
    assert!(harness.notes.contains(&Note::AgentExited { cause: ExitCause::NotReady }));
}

#[test]
fn an_idle_agent_is_parked_and_started_again_for_the_next_prompt() {
    let mut harness = Harness::with_running_turn();
    harness.agent(turn_result(&[1]));
    harness.wait(31 * 60_000);
    assert_eq!(harness.stops, 1);
    harness.on(Input::AgentGone(AgentExit::Exited { code: 0, stderr: String::new() }));
    assert!(harness.notes.contains(&Note::AgentExited { cause: ExitCause::Parked }));
    assert_eq!(harness.machine.status(), SessionStatus::Idle);
    harness.prompt(2, Delivery::Queue).unwrap();
    assert_eq!(harness.starts, [StartMode::NewConversation, StartMode::Resume]);
}

#[test]
fn a_session_taken_over_during_a_turn_continues_it() {
    let mut snapshot = MachineSnapshot::new(
        at(0),
        SessionId(id(0)),
        SessionLimits::default(),
        SessionOptions::default(),
    );
    snapshot.turns = 3;
    snapshot.turn_is_open = true;
    snapshot.agent_may_run = true;
    snapshot.resumable = true;
    let mut harness = Harness::from(snapshot);
    harness.on(Input::AgentAttached { used: true });
    harness.prompt(7, Delivery::Queue).unwrap();
    // It is busy and does not answer `initialize`.
    harness.wait(61_000);
    assert_eq!((harness.kills, harness.written_prompts()), (0, 0));
    harness.agent(turn_result(&[]));
    assert_eq!(harness.endings(), [(3, TurnEnding::Completed)]);
    assert_eq!(harness.written_prompts(), 1);
}

#[test]
fn nothing_is_written_to_an_agent_that_only_left_output() {
    let mut harness = Harness::with_running_turn();
    harness.prompt(2, Delivery::Queue).unwrap();
    let mut snapshot = MachineSnapshot::new(
        at(0),
        SessionId(id(0)),
        SessionLimits::default(),
        SessionOptions::default(),
    );
    snapshot.prompts = harness.machine.prompts.queued().cloned().collect();
    (snapshot.turns, snapshot.turn_is_open) = (1, true);
    (snapshot.agent_may_run, snapshot.resumable) = (true, true);
    let mut harness = Harness::from(snapshot);
    harness.agent(permission_request("r", "id"));
    harness.agent(turn_result(&[1]));
    assert_eq!(harness.written.len(), 0);
    harness.on(Input::AgentGone(AgentExit::Unknown));
    harness.ready();
    assert_eq!(harness.states(2), [Written], "it is sent to the next agent");
}
