//! A queue that is held.

use journal::{SessionId, SessionStatus};
use wire::note::{Delivery, HoldReason, Note, PromptState, QueuePolicy, TurnEnding};

use super::{Harness, ann, at, failed_result, id, interrupt, turn_result};
use crate::command::{PromptChange, SessionCommand};
use crate::config::SessionLimits;
use crate::machine::MachineSnapshot;

use PromptState::{Cancelled, Written};

/// A session whose turn was stopped with two prompts in the queue.
fn held() -> Harness {
    let mut harness = Harness::with_running_turn();
    harness.prompt(2, Delivery::Queue).unwrap();
    harness.prompt(3, Delivery::Queue).unwrap();
    harness.command(interrupt(QueuePolicy::Hold)).unwrap().unwrap();
    harness.agent(failed_result());
    assert_eq!(harness.endings(), [(1, TurnEnding::Interrupted)]);
    harness
}

fn resume() -> SessionCommand {
    SessionCommand::ResumeQueue { by: ann(), limit: None }
}

#[test]
fn a_held_queue_is_sent_only_after_it_is_resumed() {
    let mut harness = held();
    harness.wait(60 * 60 * 1000);
    assert_eq!(harness.written_prompts(), 1);
    assert_eq!(harness.machine.status(), SessionStatus::Idle);
    let reason = HoldReason::Interrupted;
    assert!(harness.notes.contains(&Note::QueueHeld { reason, by: Some(ann()) }));
    harness.command(resume()).unwrap().unwrap();
    assert!(harness.notes.contains(&Note::QueueResumed { by: Some(ann()) }));
    if harness.written_prompts() == 1 {
        // The idle agent was stopped meanwhile.
        harness.on(crate::machine::Input::AgentGone(crate::machine::AgentExit::Unknown));
        harness.ready();
    }
    assert_eq!(harness.states(2), [Written]);
    harness.agent(turn_result(&[2]));
    assert_eq!(harness.states(3), [Written]);
}

#[test]
fn a_new_prompt_or_one_that_is_to_be_sent_now_resumes_the_queue() {
    let mut harness = held();
    // The same prompt again is not a new one.
    harness.prompt(3, Delivery::Queue).unwrap();
    assert_eq!(harness.written_prompts(), 1);
    harness.prompt(4, Delivery::Queue).unwrap();
    assert_eq!(harness.states(2), [Written], "the queue keeps its order");
    let mut harness = held();
    let change = PromptChange { delivery: Some(Delivery::Steer), ..PromptChange::default() };
    harness.command(SessionCommand::ChangePrompt { prompt: id(3), change }).unwrap().unwrap();
    assert_eq!(harness.states(2), [Written]);
}

#[test]
fn a_queue_without_prompts_is_not_held() {
    let mut harness = Harness::with_running_turn();
    harness.command(interrupt(QueuePolicy::Hold)).unwrap().unwrap();
    assert!(!harness.machine.is_queue_held());
    let mut harness = held();
    for number in [2, 3] {
        harness.command(SessionCommand::RemovePrompt { prompt: id(number) }).unwrap().unwrap();
        assert_eq!(harness.states(number), [Cancelled]);
    }
    assert!(!harness.machine.is_queue_held());
    assert!(harness.notes.contains(&Note::QueueResumed { by: None }));
}

#[test]
fn a_prompt_is_held_while_the_agent_starts() {
    let mut harness = Harness::new();
    harness.prompt(1, Delivery::Queue).unwrap();
    harness.command(interrupt(QueuePolicy::Hold)).unwrap().unwrap();
    harness.ready();
    assert_eq!(harness.written_prompts(), 0);
    harness.command(resume()).unwrap().unwrap();
    assert_eq!(harness.written_prompts(), 1);
}

#[test]
fn a_held_queue_stays_held_in_the_next_process() {
    let before = held();
    let options = before.machine.options().clone();
    let session = SessionId(id(0));
    let mut snapshot = MachineSnapshot::new(at(0), session, SessionLimits::default(), options);
    snapshot.prompts = before.machine.prompts.queued().cloned().collect();
    let mut harness = Harness::from(snapshot);
    harness.wait(60_000);
    assert_eq!((harness.starts.len(), harness.written_prompts()), (0, 0));
    harness.command(resume()).unwrap().unwrap();
    harness.ready();
    assert_eq!(harness.states(2), [Written]);
}
