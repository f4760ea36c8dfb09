//! What becomes of prompts.

use journal::{SessionId, Status};
use wire::note::{Delivery, PromptState, TurnEnding};

use super::{Stage, ended, id};
use crate::heard::{Ended, Heard};
use crate::machine::{Command, Done, Input, Limits, Origins, Refusal, Start};
use crate::options::Options;

use PromptState::{Accepted, Cancelled, Indeterminate, Queued, Written};

#[test]
fn a_prompt_wakes_the_agent_and_is_done_when_its_turn_is() {
    let mut stage = Stage::new();
    assert_eq!(stage.prompt(1, Delivery::Queue), Ok(Done::Prompt(Queued)));
    assert_eq!(stage.started, [Start::Fresh]);
    assert_eq!(stage.said_prompts(), 0, "nothing is said before the agent is ready");
    stage.ready();
    assert_eq!(stage.said_prompts(), 1);
    stage.hear(Heard::TurnBegan { conversation: Some("c".to_owned()) });
    stage.hear(Heard::Accepted(id(1)));
    assert_eq!(stage.machine.status(), Status::Running);
    stage.hear(ended(&[1]));
    assert_eq!(stage.states(1), [Written, Accepted, PromptState::Done]);
    assert_eq!(stage.endings(), [(1, TurnEnding::Completed)]);
    assert_eq!(stage.machine.status(), Status::Idle);
}

#[test]
fn the_same_prompt_again_is_answered_and_not_run_again() {
    let mut stage = Stage::at_work();
    assert_eq!(stage.prompt(1, Delivery::Queue), Ok(Done::Prompt(Accepted)));
    stage.hear(ended(&[]));
    assert_eq!(stage.prompt(1, Delivery::Queue), Ok(Done::Prompt(PromptState::Done)));
    assert_eq!(stage.said_prompts(), 1);
}

#[test]
fn prompts_that_wait_go_one_by_one_in_their_order() {
    let mut stage = Stage::at_work();
    for number in 2..=4 {
        stage.prompt(number, Delivery::Queue).unwrap();
    }
    stage.command(Command::MovePrompt { prompt: id(4), before: Some(id(2)) }).unwrap().unwrap();
    stage.command(Command::RemovePrompt { prompt: id(3) }).unwrap().unwrap();
    let text = "changed".to_owned();
    stage.command(Command::EditPrompt { prompt: id(2), text }).unwrap().unwrap();
    assert_eq!(stage.said_prompts(), 1);
    stage.hear(ended(&[1]));
    assert!(stage.said.last().unwrap().contains("prompt 4"));
    stage.hear(ended(&[]));
    assert!(stage.said.last().unwrap().contains("changed"));
    assert_eq!(stage.states(3), [Cancelled]);
    let refusal = stage.command(Command::EditPrompt { prompt: id(4), text: "no".to_owned() });
    assert_eq!(refusal, Some(Err(Refusal::NotWaiting(PromptState::Done))));
}

#[test]
fn a_steering_prompt_that_is_folded_in_ends_with_the_turn() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Steer).unwrap();
    assert!(stage.said.last().unwrap().contains(r#""priority":"next""#));
    stage.hear(Heard::Accepted(id(2)));
    stage.hear(ended(&[]));
    assert_eq!(stage.states(2), [Written, Accepted, PromptState::Done]);
    assert_eq!(stage.endings().len(), 1);
    assert_eq!(stage.machine.status(), Status::Idle);
}

#[test]
fn a_steering_prompt_that_came_too_late_is_a_turn_of_its_own() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Steer).unwrap();
    stage.prompt(3, Delivery::Queue).unwrap();
    stage.hear(ended(&[1]));
    assert_eq!(stage.machine.status(), Status::Running, "the agent still has a prompt");
    assert_eq!(stage.said_prompts(), 2, "nothing is sent that could be merged with it");
    stage.hear(Heard::TurnBegan { conversation: None });
    stage.hear(Heard::Accepted(id(2)));
    stage.hear(ended(&[2]));
    assert_eq!(stage.states(2), [Written, Accepted, PromptState::Done]);
    assert_eq!(stage.said_prompts(), 3);
}

#[test]
fn a_prompt_the_agent_never_begins_with_is_indeterminate_and_not_sent_again() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Steer).unwrap();
    stage.hear(ended(&[1]));
    stage.hear(Heard::Idle);
    stage.wait(5000);
    assert_eq!(stage.states(2), [Written, Indeterminate]);
    assert_eq!(stage.said_prompts(), 2);
    assert_eq!(stage.machine.status(), Status::Idle);
}

#[test]
fn the_agent_may_begin_by_itself_and_our_prompt_waits_for_its_turn() {
    let mut stage = Stage::at_work();
    stage.hear(ended(&[1]));
    // A background task ends just as somebody prompts.
    stage.prompt(2, Delivery::Queue).unwrap();
    stage.hear(Heard::TurnBegan { conversation: None });
    let unsolicited = Ended { failure: None, prompts: Vec::new(), unsolicited: true };
    stage.hear(Heard::TurnEnded(unsolicited));
    assert_eq!(stage.states(2), [Written]);
    stage.hear(Heard::TurnBegan { conversation: None });
    stage.hear(Heard::Accepted(id(2)));
    stage.hear(ended(&[2]));
    assert_eq!(stage.states(2), [Written, Accepted, PromptState::Done]);
    assert_eq!(stage.endings().len(), 3);
}

#[test]
fn a_prompt_that_the_agent_lets_go_of_is_cancelled_and_its_turn_is_over() {
    let mut stage = Stage::new();
    stage.prompt(1, Delivery::Queue).unwrap();
    stage.ready();
    assert_eq!(stage.command(Command::RemovePrompt { prompt: id(1) }), None);
    stage.answer("cancel_async_message", Ok(Some(r#"{"cancelled":true}"#.to_owned())));
    assert_eq!(stage.states(1), [Written, Cancelled]);
    assert_eq!(stage.endings(), [(1, TurnEnding::Interrupted)]);
    assert_eq!(stage.machine.status(), Status::Idle);
}

#[test]
fn a_carried_prompt_is_watched_over_by_the_next_towpath_too() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Steer).unwrap();
    stage.hear(ended(&[1]));
    let mut origins = Origins::new(0, SessionId(id(0)), Limits::default(), Options::default());
    origins.prompts = stage.machine.prompts.in_flight().cloned().collect();
    (origins.turns, origins.agent_lives, origins.resumable) = (1, true, true);
    let mut stage = Stage::from(origins);
    stage.on(Input::AgentMet);
    assert_eq!(stage.machine.status(), Status::Running);
    stage.wait(31_000);
    assert_eq!(stage.states(2), [Indeterminate]);
}
