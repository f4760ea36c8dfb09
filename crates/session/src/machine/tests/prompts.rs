//! Prompts from the queue to their final state.

use journal::{SessionId, SessionStatus};
use wire::note::{Delivery, PromptState, TurnEnding};
use wire::{ReportedState, TurnResult};

use super::{Harness, at, edit, id, turn_result};
use crate::agent_event::AgentEvent;
use crate::command::{CommandError, CommandOutput, PromptChange, SessionCommand};
use crate::config::SessionLimits;
use crate::machine::{Input, MachineSnapshot, StartMode};
use crate::options::SessionOptions;

use PromptState::{Accepted, Cancelled, Indeterminate, Queued, Written};

#[test]
fn a_prompt_starts_the_agent_and_is_done_with_its_turn() {
    let mut harness = Harness::new();
    assert_eq!(harness.prompt(1, Delivery::Queue), Ok(CommandOutput::Prompt(Queued)));
    assert_eq!(harness.starts, [StartMode::NewConversation]);
    assert_eq!(harness.written_prompts(), 0, "nothing is written before the agent is ready");
    harness.ready();
    assert_eq!(harness.written_prompts(), 1);
    harness.agent(AgentEvent::TurnStarted { conversation: Some("c".to_owned()) });
    harness.agent(AgentEvent::PromptAccepted(id(1)));
    assert_eq!(harness.machine.status(), SessionStatus::Running);
    harness.agent(turn_result(&[1]));
    assert_eq!(harness.states(1), [Written, Accepted, PromptState::Done]);
    assert_eq!(harness.endings(), [(1, TurnEnding::Completed)]);
    assert_eq!(harness.machine.status(), SessionStatus::Idle);
}

#[test]
fn a_prompt_sent_twice_is_run_once() {
    let mut harness = Harness::with_running_turn();
    assert_eq!(harness.prompt(1, Delivery::Queue), Ok(CommandOutput::Prompt(Accepted)));
    harness.agent(turn_result(&[]));
    assert_eq!(harness.prompt(1, Delivery::Queue), Ok(CommandOutput::Prompt(PromptState::Done)));
    assert_eq!(harness.written_prompts(), 1);
}

#[test]
fn waiting_prompts_run_one_by_one_in_order() {
    let mut harness = Harness::with_running_turn();
    for number in 2..=4 {
        harness.prompt(number, Delivery::Queue).unwrap();
    }
    harness
        .command(SessionCommand::MovePrompt { prompt: id(4), before: Some(id(2)) })
        .unwrap()
        .unwrap();
    harness.command(SessionCommand::RemovePrompt { prompt: id(3) }).unwrap().unwrap();
    harness.command(edit(2, "changed")).unwrap().unwrap();
    assert_eq!(harness.written_prompts(), 1);
    harness.agent(turn_result(&[1]));
    assert!(harness.written.last().unwrap().contains("prompt 4"));
    harness.agent(turn_result(&[]));
    assert!(harness.written.last().unwrap().contains("changed"));
    assert_eq!(harness.states(3), [Cancelled]);
    let refusal = harness.command(edit(4, "no"));
    assert_eq!(refusal, Some(Err(CommandError::NotWaiting(PromptState::Done))));
}

#[test]
fn a_steering_prompt_that_is_folded_in_ends_with_the_turn() {
    let mut harness = Harness::with_running_turn();
    harness.prompt(2, Delivery::Steer).unwrap();
    assert!(harness.written.last().unwrap().contains(r#""priority":"next""#));
    harness.agent(AgentEvent::PromptAccepted(id(2)));
    harness.agent(turn_result(&[]));
    assert_eq!(harness.states(2), [Written, Accepted, PromptState::Done]);
    assert_eq!(harness.endings().len(), 1);
    assert_eq!(harness.machine.status(), SessionStatus::Idle);
}

#[test]
fn a_waiting_prompt_can_be_steered_into_the_running_turn() {
    let mut harness = Harness::with_running_turn();
    harness.prompt(2, Delivery::Queue).unwrap();
    assert_eq!(harness.written_prompts(), 1);
    let steer = || {
        let change = PromptChange { delivery: Some(Delivery::Steer), ..PromptChange::default() };
        SessionCommand::ChangePrompt { prompt: id(2), change }
    };
    harness.command(steer()).unwrap().unwrap();
    assert_eq!(harness.states(2), [Written]);
    assert!(harness.written.last().unwrap().contains(r#""priority":"next""#));
    let again = harness.command(steer());
    assert_eq!(again, Some(Err(CommandError::NotWaiting(Written))));
}

#[test]
fn the_text_and_the_delivery_of_a_prompt_change_together_or_not_at_all() {
    let mut harness = Harness::with_running_turn();
    harness.prompt(2, Delivery::Queue).unwrap();
    let change = |text: &str| {
        let (text, delivery) = (Some(text.to_owned()), Some(Delivery::Steer));
        let change = PromptChange { text, delivery };
        SessionCommand::ChangePrompt { prompt: id(2), change }
    };
    for (text, error) in [
        (" ".to_owned(), CommandError::EmptyPrompt),
        ("x".repeat(65 << 20), CommandError::TooLarge { what: "the prompt".into(), size: 0 }),
    ] {
        let refused = harness.command(change(&text)).unwrap().unwrap_err();
        assert_eq!(std::mem::discriminant(&refused), std::mem::discriminant(&error));
        assert_eq!(harness.states(2), [], "it was not steered with its old text");
    }
    harness.command(change("changed")).unwrap().unwrap();
    assert_eq!(harness.states(2), [Written]);
    let written = harness.written.last().unwrap();
    assert!(written.contains("changed") && written.contains(r#""priority":"next""#), "{written}");
}

#[test]
fn a_question_to_an_agent_that_does_not_run_starts_none() {
    let mut harness = Harness::new();
    let query = SessionCommand::Query(crate::command::AgentQuery::Context);
    assert_eq!(harness.command(query), Some(Err(CommandError::NoAgent)));
    assert!(harness.starts.is_empty());
}

#[test]
fn a_steering_prompt_that_came_too_late_gets_its_own_turn() {
    let mut harness = Harness::with_running_turn();
    harness.prompt(2, Delivery::Steer).unwrap();
    harness.prompt(3, Delivery::Queue).unwrap();
    harness.agent(turn_result(&[1]));
    assert_eq!(harness.machine.status(), SessionStatus::Running, "the agent still has a prompt");
    assert_eq!(harness.written_prompts(), 2, "nothing is sent that could be merged with it");
    harness.agent(AgentEvent::TurnStarted { conversation: None });
    harness.agent(AgentEvent::PromptAccepted(id(2)));
    harness.agent(turn_result(&[2]));
    assert_eq!(harness.states(2), [Written, Accepted, PromptState::Done]);
    assert_eq!(harness.written_prompts(), 3);
}

#[test]
fn a_prompt_the_agent_never_starts_with_is_indeterminate_and_not_sent_again() {
    let mut harness = Harness::with_running_turn();
    harness.prompt(2, Delivery::Steer).unwrap();
    harness.agent(turn_result(&[1]));
    harness.agent(AgentEvent::StateReported(ReportedState::Idle));
    harness.wait(5000);
    assert_eq!(harness.states(2), [Written, Indeterminate]);
    assert_eq!(harness.written_prompts(), 2);
    assert_eq!(harness.machine.status(), SessionStatus::Idle);
}

#[test]
fn a_turn_the_agent_starts_by_itself_does_not_answer_our_prompt() {
    let mut harness = Harness::with_running_turn();
    harness.agent(turn_result(&[1]));
    // A background task ends just as a client sends a prompt.
    harness.prompt(2, Delivery::Queue).unwrap();
    harness.agent(AgentEvent::TurnStarted { conversation: None });
    let unsolicited = TurnResult { unsolicited: true, ..TurnResult::default() };
    harness.agent(AgentEvent::TurnEnded(unsolicited));
    assert_eq!(harness.states(2), [Written]);
    harness.agent(AgentEvent::TurnStarted { conversation: None });
    harness.agent(AgentEvent::PromptAccepted(id(2)));
    harness.agent(turn_result(&[2]));
    assert_eq!(harness.states(2), [Written, Accepted, PromptState::Done]);
    assert_eq!(harness.endings().len(), 3);
}

#[test]
fn a_prompt_the_agent_drops_is_cancelled_and_its_turn_ends() {
    let mut harness = Harness::new();
    harness.prompt(1, Delivery::Queue).unwrap();
    harness.ready();
    assert_eq!(harness.command(SessionCommand::RemovePrompt { prompt: id(1) }), None);
    harness.answer("cancel_async_message", Ok(Some(r#"{"cancelled":true}"#.to_owned())));
    assert_eq!(harness.states(1), [Written, Cancelled]);
    assert_eq!(harness.endings(), [(1, TurnEnding::Interrupted)]);
    assert_eq!(harness.machine.status(), SessionStatus::Idle);
}

#[test]
fn a_prompt_is_not_given_up_before_it_has_reached_the_agent() {
    for delivered in [true, false] {
        let mut harness = Harness::with_running_turn();
        harness.prompt(2, Delivery::Steer).unwrap();
        harness.on(Input::LinesDelayed { until: harness.now + 60_000 });
        harness.agent(turn_result(&[1]));
        harness.agent(AgentEvent::StateReported(ReportedState::Idle));
        harness.wait(60_000);
        assert_eq!(harness.states(2), [Written], "it is sent again only now");
        if delivered {
            harness.on(Input::LinesDelivered);
            harness.wait(29_000);
            assert_eq!(harness.states(2), [Written]);
            harness.agent(AgentEvent::TurnStarted { conversation: None });
            harness.agent(AgentEvent::PromptAccepted(id(2)));
            harness.agent(turn_result(&[2]));
            assert_eq!(harness.states(2), [Written, Accepted, PromptState::Done]);
        } else {
            harness.wait(31_000);
            assert_eq!(harness.states(2), [Written, Indeterminate], "but not for ever");
        }
    }
}

#[test]
fn a_late_result_of_the_turn_before_does_not_end_a_turn_after_a_takeover() {
    for lists_prompts in [true, false] {
        let mut harness = Harness::with_running_turn();
        let mut snapshot = MachineSnapshot::new(
            at(0),
            SessionId(id(0)),
            SessionLimits::default(),
            SessionOptions::default(),
        );
        harness.prompt(2, Delivery::Steer).unwrap();
        snapshot.prompts = harness.machine.prompts.in_flight().cloned().collect();
        snapshot.prompts.retain(|it| it.id == id(2));
        snapshot.prompts[0].turn = Some(2);
        (snapshot.turns, snapshot.turn_is_open) = (2, true);
        (snapshot.agent_may_run, snapshot.resumable) = (true, true);
        let mut harness = Harness::from(snapshot);
        harness.on(Input::AgentAttached { used: true });
        harness.agent(turn_result(&[]));
        assert_eq!(harness.endings(), [], "it is not known whose result it is");
        if !lists_prompts {
            harness.agent(AgentEvent::TurnStarted { conversation: None });
        }
        harness.agent(turn_result(if lists_prompts { &[2] } else { &[] }));
        assert_eq!(harness.states(2), [PromptState::Done]);
        assert_eq!(harness.endings(), [(2, TurnEnding::Completed)]);
    }
}

#[test]
fn a_carried_prompt_keeps_its_timeout_after_a_takeover() {
    let mut harness = Harness::with_running_turn();
    harness.prompt(2, Delivery::Steer).unwrap();
    harness.agent(turn_result(&[1]));
    let mut snapshot = MachineSnapshot::new(
        at(0),
        SessionId(id(0)),
        SessionLimits::default(),
        SessionOptions::default(),
    );
    snapshot.prompts = harness.machine.prompts.in_flight().cloned().collect();
    (snapshot.turns, snapshot.agent_may_run, snapshot.resumable) = (1, true, true);
    let mut harness = Harness::from(snapshot);
    harness.on(Input::AgentAttached { used: true });
    assert_eq!(harness.machine.status(), SessionStatus::Running);
    harness.wait(31_000);
    assert_eq!(harness.states(2), [Indeterminate]);
}
