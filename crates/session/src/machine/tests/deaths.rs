//! How agents come and go.

use journal::{SessionId, Status};
use wire::note::{Cause, Delivery, Note, Outcome, PromptState, TurnEnding};

use super::{Stage, asked, ended, id};
use crate::heard::{Ended, Heard};
use crate::machine::{Gone, Input, Limits, Origins, Start};
use crate::options::Options;

use PromptState::{Accepted, Indeterminate, Written};

#[test]
fn a_death_cuts_the_turn_settles_the_prompt_and_does_not_repeat_it() {
    let mut stage = Stage::at_work();
    stage.hear(asked("r", "id"));
    stage.on(Input::AgentGone(Gone::Killed(9)));
    assert_eq!(stage.endings(), [(1, TurnEnding::Cut { cause: Cause::Killed { signal: 9 } })]);
    assert_eq!(stage.states(1), [Written, Accepted, PromptState::Done]);
    assert_eq!(stage.outcomes(), [("r".to_owned(), Outcome::Withdrawn)]);
    assert_eq!(stage.machine.status(), Status::Dead);
    assert_eq!(stage.started.len(), 1, "nothing is to be done");
    stage.prompt(2, Delivery::Queue).unwrap();
    assert_eq!(stage.started, [Start::Fresh, Start::Resume]);
}

#[test]
fn a_prompt_that_was_only_written_when_the_agent_died_is_indeterminate() {
    let mut stage = Stage::new();
    stage.prompt(1, Delivery::Queue).unwrap();
    stage.ready();
    stage.on(Input::AgentGone(Gone::Lost));
    assert_eq!(stage.states(1), [Written, Indeterminate]);
    stage.wait(60_000);
    assert_eq!(stage.started.len(), 1);
}

#[test]
fn a_cut_turn_is_taken_up_again_only_where_that_is_wanted() {
    let options = Options { continue_after_cut: true, ..Options::default() };
    let mut stage = Stage::from(Origins::new(0, SessionId(id(0)), Limits::default(), options));
    stage.prompt(1, Delivery::Queue).unwrap();
    stage.ready();
    stage.hear(Heard::TurnBegan { conversation: Some("c".to_owned()) });
    stage.prompt(2, Delivery::Queue).unwrap();
    stage.on(Input::AgentGone(Gone::Killed(9)));
    stage.ready();
    assert!(stage.said.last().unwrap().contains("cut off"));
    stage.hear(ended(&[]));
    assert!(stage.said.last().unwrap().contains("prompt 2"));
}

#[test]
fn an_agent_that_keeps_dying_is_not_started_for_ever() {
    let mut stage = Stage::new();
    stage.prompt(1, Delivery::Queue).unwrap();
    for _ in 0..20 {
        if stage.machine.status() == Status::Failed {
            break;
        }
        stage.on(Input::AgentGone(Gone::Exited { code: 1, stderr: String::new() }));
        stage.wait(60_000);
    }
    assert_eq!(stage.machine.status(), Status::Failed);
    assert_eq!(stage.started.len(), 4);
    assert_eq!(stage.states(1), [], "the prompt still waits");
    // A person's word is worth another try.
    stage.prompt(2, Delivery::Queue).unwrap();
    assert_eq!(stage.started.len(), 5);
}

#[test]
fn a_conversation_the_agent_has_lost_begins_anew() {
    let mut stage = Stage::at_work();
    stage.on(Input::AgentGone(Gone::Killed(9)));
    stage.prompt(2, Delivery::Queue).unwrap();
    stage.on(Input::AgentStarted);
    let failure = Some("No conversation found with session ID: c".to_owned());
    stage.hear(Heard::TurnEnded(Ended { failure, prompts: Vec::new(), unsolicited: false }));
    stage.on(Input::AgentGone(Gone::Exited { code: 1, stderr: String::new() }));
    stage.wait(10_000);
    assert_eq!(stage.started, [Start::Fresh, Start::Resume, Start::Fresh]);
}

#[test]
fn an_agent_that_does_not_get_ready_is_killed() {
    let mut stage = Stage::new();
    stage.prompt(1, Delivery::Queue).unwrap();
    stage.on(Input::AgentStarted);
    stage.wait(61_000);
    assert_eq!(stage.killed, 1);
    stage.on(Input::AgentGone(Gone::Killed(9)));
    assert!(stage.notes.contains(&Note::AgentGone { cause: Cause::NotReady }));
}

#[test]
fn an_agent_with_nothing_to_do_is_parked_and_wakes_for_the_next_prompt() {
    let mut stage = Stage::at_work();
    stage.hear(ended(&[1]));
    stage.wait(31 * 60_000);
    assert_eq!(stage.ended, 1);
    stage.on(Input::AgentGone(Gone::Exited { code: 0, stderr: String::new() }));
    assert!(stage.notes.contains(&Note::AgentGone { cause: Cause::Parked }));
    assert_eq!(stage.machine.status(), Status::Idle);
    stage.prompt(2, Delivery::Queue).unwrap();
    assert_eq!(stage.started, [Start::Fresh, Start::Resume]);
}

#[test]
fn a_session_taken_over_in_mid_turn_goes_on_where_it_was() {
    let mut origins = Origins::new(0, SessionId(id(0)), Limits::default(), Options::default());
    origins.turns = 3;
    origins.turn_is_open = true;
    origins.agent_lives = true;
    origins.resumable = true;
    let mut stage = Stage::from(origins);
    stage.on(Input::AgentMet);
    stage.prompt(7, Delivery::Queue).unwrap();
    // It is busy and does not say whether it is ready.
    stage.wait(61_000);
    assert_eq!((stage.killed, stage.said_prompts()), (0, 0));
    stage.hear(ended(&[]));
    assert_eq!(stage.endings(), [(3, TurnEnding::Completed)]);
    assert_eq!(stage.said_prompts(), 1);
}

#[test]
fn nothing_is_said_to_an_agent_that_only_left_its_last_words() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Queue).unwrap();
    let mut origins = Origins::new(0, SessionId(id(0)), Limits::default(), Options::default());
    origins.prompts = stage.machine.prompts.queued().cloned().collect();
    (origins.turns, origins.turn_is_open) = (1, true);
    (origins.agent_lives, origins.resumable) = (true, true);
    let mut stage = Stage::from(origins);
    stage.hear(asked("r", "id"));
    stage.hear(ended(&[1]));
    assert_eq!(stage.said.len(), 0);
    stage.on(Input::AgentGone(Gone::Lost));
    stage.ready();
    assert_eq!(stage.states(2), [Written], "it is sent to the next agent");
}
