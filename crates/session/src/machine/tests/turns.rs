//! How turns end.

use journal::Status;
use wire::note::{Delivery, Note, PromptState, QueueFate, TurnEnding};

use super::{Stage, ended, failed, id, interrupt};
use crate::heard::Heard;
use crate::machine::{Gone, Input, Start};

use PromptState::{Cancelled, Indeterminate, Written};

#[test]
fn an_idle_agent_ends_a_turn_that_got_no_result() {
    let mut stage = Stage::at_work();
    stage.hear(Heard::Idle);
    assert!(stage.endings().is_empty(), "a result may be on its way");
    stage.wait(3000);
    assert!(matches!(stage.endings()[..], [(1, TurnEnding::Failed { .. })]));
    // The result after all: too late.
    stage.hear(ended(&[1]));
    assert_eq!(stage.endings().len(), 1);
}

#[test]
fn a_late_idle_of_the_turn_before_ends_nothing() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Queue).unwrap();
    stage.hear(ended(&[1]));
    stage.hear(Heard::Idle);
    stage.wait(10_000);
    assert_eq!(stage.endings().len(), 1);
}

#[test]
fn an_interrupt_keeps_or_clears_the_queue_as_it_was_told() {
    for (queue, after) in [(QueueFate::Keep, vec![Written]), (QueueFate::Clear, vec![Cancelled])] {
        let mut stage = Stage::at_work();
        stage.prompt(2, Delivery::Queue).unwrap();
        stage.command(interrupt(queue)).unwrap().unwrap();
        stage.hear(failed());
        assert_eq!(stage.endings(), [(1, TurnEnding::Interrupted)]);
        assert_eq!(stage.states(2), after);
    }
}

#[test]
fn an_agent_that_does_not_obey_is_ended_and_the_session_goes_on() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Queue).unwrap();
    stage.command(interrupt(QueueFate::Keep)).unwrap().unwrap();
    stage.wait(4000);
    assert_eq!((stage.ended, stage.killed), (0, 0));
    stage.wait(2000);
    assert_eq!((stage.ended, stage.killed), (1, 0));
    stage.wait(21_000);
    assert!(stage.killed >= 1);
    stage.on(Input::AgentGone(Gone::Killed(9)));
    assert_eq!(stage.endings(), [(1, TurnEnding::Interrupted)]);
    assert_eq!(stage.started, [Start::Fresh, Start::Resume]);
    stage.ready();
    assert_eq!(stage.states(2), [Written]);
}

#[test]
fn a_silent_turn_is_called_stalled_once() {
    let mut stage = Stage::at_work();
    stage.wait(10 * 60_000);
    let stalls = |stage: &Stage| {
        stage.notes.iter().filter(|note| matches!(note, Note::Stalled { .. })).count()
    };
    assert_eq!(stalls(&stage), 1);
    stage.hear(Heard::Life);
    stage.wait(10 * 60_000);
    assert_eq!(stalls(&stage), 2);
}

#[test]
fn what_is_said_late_of_the_turn_before_is_no_sign_of_this_one() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Queue).unwrap();
    stage.hear(ended(&[1]));
    stage.hear(Heard::Accepted(id(1)));
    stage.hear(Heard::Idle);
    stage.wait(10_000);
    assert_eq!(stage.states(2), [Written]);
    // An agent that never begins with it must not keep the session busy for ever.
    stage.wait(30_000);
    assert_eq!(stage.states(2), [Written, Indeterminate]);
    assert_eq!(stage.machine.status(), Status::Idle);
}
