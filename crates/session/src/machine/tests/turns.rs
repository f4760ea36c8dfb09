//! How turns end.

use journal::SessionStatus;
use wire::ReportedState;
use wire::note::{Delivery, Note, PromptState, QueuePolicy, TurnEnding};

use super::{Harness, failed_result, id, interrupt, turn_result};
use crate::agent_event::AgentEvent;
use crate::machine::{AgentExit, Input, StartMode};

use PromptState::{Cancelled, Indeterminate, Written};

#[test]
fn an_idle_agent_ends_a_turn_that_got_no_result() {
    let mut harness = Harness::with_running_turn();
    harness.agent(AgentEvent::StateReported(ReportedState::Idle));
    assert!(harness.endings().is_empty(), "a result may be on its way");
    harness.wait(3000);
    assert!(matches!(harness.endings()[..], [(1, TurnEnding::Failed { .. })]));
    // The result comes too late.
    harness.agent(turn_result(&[1]));
    assert_eq!(harness.endings().len(), 1);
}

#[test]
fn a_late_idle_report_of_the_previous_turn_ends_nothing() {
    let mut harness = Harness::with_running_turn();
    harness.prompt(2, Delivery::Queue).unwrap();
    harness.agent(turn_result(&[1]));
    harness.agent(AgentEvent::StateReported(ReportedState::Idle));
    harness.wait(10_000);
    assert_eq!(harness.endings().len(), 1);
}

#[test]
fn an_interrupt_keeps_or_clears_the_queue() {
    for (queue, after) in
        [(QueuePolicy::Keep, vec![Written]), (QueuePolicy::Clear, vec![Cancelled])]
    {
        let mut harness = Harness::with_running_turn();
        harness.prompt(2, Delivery::Queue).unwrap();
        harness.command(interrupt(queue)).unwrap().unwrap();
        harness.agent(failed_result());
        assert_eq!(harness.endings(), [(1, TurnEnding::Interrupted)]);
        assert_eq!(harness.states(2), after);
    }
}

#[test]
fn an_agent_that_ignores_an_interrupt_is_stopped_and_the_session_continues() {
    let mut harness = Harness::with_running_turn();
    harness.prompt(2, Delivery::Queue).unwrap();
    harness.command(interrupt(QueuePolicy::Keep)).unwrap().unwrap();
    harness.wait(4000);
    assert_eq!((harness.stops, harness.kills), (0, 0));
    harness.wait(2000);
    assert_eq!((harness.stops, harness.kills), (1, 0));
    harness.wait(21_000);
    assert!(harness.kills >= 1);
    harness.on(Input::AgentGone(AgentExit::Killed(9)));
    assert_eq!(harness.endings(), [(1, TurnEnding::Interrupted)]);
    assert_eq!(harness.starts, [StartMode::NewConversation, StartMode::Resume]);
    harness.ready();
    assert_eq!(harness.states(2), [Written]);
}

#[test]
fn a_silent_turn_is_reported_as_stalled_once() {
    let mut harness = Harness::with_running_turn();
    harness.wait(10 * 60_000);
    let stalls = |harness: &Harness| {
        harness.notes.iter().filter(|note| matches!(note, Note::Stalled { .. })).count()
    };
    assert_eq!(stalls(&harness), 1);
    harness.agent(AgentEvent::Output);
    harness.wait(10 * 60_000);
    assert_eq!(stalls(&harness), 2);
}

#[test]
fn late_events_of_the_previous_turn_do_not_confirm_this_one() {
    let mut harness = Harness::with_running_turn();
    harness.prompt(2, Delivery::Queue).unwrap();
    harness.agent(turn_result(&[1]));
    harness.agent(AgentEvent::PromptAccepted(id(1)));
    harness.agent(AgentEvent::StateReported(ReportedState::Idle));
    harness.wait(10_000);
    assert_eq!(harness.states(2), [Written]);
    // An agent that never starts with it must not keep the session busy for ever.
    harness.wait(30_000);
    assert_eq!(harness.states(2), [Written, Indeterminate]);
    assert_eq!(harness.machine.status(), SessionStatus::Idle);
}
