//! Clocks that are set, options that cannot be read, and lines that are too long.

use journal::{SessionId, SessionStatus};
use wire::note::{Delivery, ExitCause, Note, QueuePolicy};

use super::{Harness, allow, ann, at, edit, id, interrupt, permission_request};
use crate::command::{CommandError, NewPrompt, RequestAnswer, SessionCommand};
use crate::config::SessionLimits;
use crate::machine::{ClockReading, Input, MachineSnapshot};
use crate::options::{SessionOptions, UnreadableOptions};
use crate::shim::MAX_WRITE;

const HOUR: u64 = 60 * 60 * 1000;

#[test]
fn a_clock_that_is_set_back_does_not_delay_the_end_of_an_interrupted_turn() {
    let mut harness = Harness::with_running_turn();
    harness.now = 2 * HOUR;
    harness.command(interrupt(QueuePolicy::Keep)).unwrap().unwrap();
    let later = harness.now + SessionLimits::default().interrupt;
    assert_eq!(harness.machine.deadline(), Some(later));
    let set_back = ClockReading { wall: HOUR, monotonic: later };
    let effects = harness.machine.on(set_back, Input::Tick);
    let stops = |it: &_| matches!(it, crate::machine::Effect::Stop { .. });
    assert!(effects.iter().any(stops), "{effects:?}");
}

#[test]
fn a_suspended_machine_neither_kills_a_starting_agent_nor_expires_a_request() {
    let limits = SessionLimits { request: Some(HOUR), ..SessionLimits::default() };
    let mut harness = Harness::with(limits);
    harness.prompt(1, Delivery::Queue).unwrap();
    harness.on(Input::AgentStarted);
    // The wall clock counts on while the machine is suspended, the monotonic one does not.
    let resumed = ClockReading { wall: 9 * HOUR, monotonic: 1_000 };
    assert!(harness.machine.on(resumed, Input::Tick).is_empty());
    harness.answer("initialize", Ok(None));
    harness.agent(permission_request("r", "id"));
    let resumed = ClockReading { wall: 99 * HOUR, monotonic: 2_000 };
    assert!(harness.machine.on(resumed, Input::Tick).is_empty());
}

#[test]
fn unreadable_options_start_no_agent_and_are_not_replaced() {
    let directory = "/p".into();
    let reason = "expected value at line 1 column 1".to_owned();
    let snapshot = MachineSnapshot {
        options: Err(UnreadableOptions { directory, reason: reason.clone() }),
        ..MachineSnapshot::new(
            at(0),
            SessionId(id(0)),
            SessionLimits::default(),
            SessionOptions::default(),
        )
    };
    let mut harness = Harness::from(snapshot);
    harness.prompt(1, Delivery::Queue).unwrap();
    assert_eq!(harness.starts, []);
    assert_eq!(harness.machine.status(), SessionStatus::Failed);
    let told = |note: &Note| match note {
        Note::AgentExited { cause: ExitCause::NotStarted { message } } => message.contains(&reason),
        _ => false,
    };
    assert!(harness.notes.iter().any(told), "{:?}", harness.notes);
    let setting = wire::note::Setting::Model(None);
    for command in [SessionCommand::Set { setting, by: ann() }, SessionCommand::Wake] {
        let reply = harness.command(command);
        assert!(matches!(reply, Some(Err(CommandError::UnreadableOptions(_)))), "{reply:?}");
    }
    assert_eq!(harness.starts, []);
}

#[test]
fn a_prompt_that_could_never_be_sent_is_refused_before_it_is_stored() {
    let mut harness = Harness::new();
    let prompt = |number, length: usize| {
        SessionCommand::Prompt(NewPrompt {
            id: id(number),
            text: "x".repeat(length),
            images: Vec::new(),
            delivery: Delivery::Queue,
            by: ann(),
        })
    };
    for length in [65 << 20, MAX_WRITE] {
        let refused = harness.command(prompt(1, length)).unwrap().unwrap_err();
        assert!(matches!(refused, CommandError::TooLarge { .. }), "{refused}");
        assert!(refused.to_string().contains("the limit is 64 MiB"), "{refused}");
    }
    assert!(harness.notes.is_empty());
    harness.command(prompt(1, MAX_WRITE - 500)).unwrap().unwrap();
    harness.prompt(2, Delivery::Queue).unwrap();
    let refused = harness.command(edit(2, &"x".repeat(65 << 20))).unwrap();
    assert!(matches!(refused, Err(CommandError::TooLarge { .. })));
    harness.command(edit(2, "y")).unwrap().unwrap();
    harness.ready();
    let longest = harness.written.iter().map(|line| line.len() + 1).max().unwrap();
    assert!(longest > MAX_WRITE - 1000 && longest <= MAX_WRITE, "{longest}");
}

#[test]
fn an_answer_that_could_never_be_sent_leaves_the_request_open() {
    let mut harness = Harness::with_running_turn();
    harness.agent(permission_request("r", "id"));
    let answer = |answer| SessionCommand::Answer { request: "r".to_owned(), answer, by: ann() };
    let deny = RequestAnswer::Deny { message: "x".repeat(65 << 20), interrupt: false };
    let refused = harness.command(answer(deny)).unwrap();
    assert!(matches!(refused, Err(CommandError::TooLarge { .. })));
    harness.command(answer(allow())).unwrap().unwrap();
}

#[test]
fn a_shim_that_lets_a_killed_agent_live_is_reported_once() {
    let mut harness = Harness::with_running_turn();
    harness.command(SessionCommand::Close).unwrap().unwrap();
    harness.wait(10 * 60 * 1000);
    assert!(harness.kills > 5);
    let problems = harness.notes.iter().filter(|it| matches!(it, Note::Problem { .. })).count();
    assert_eq!(problems, 1);
}
