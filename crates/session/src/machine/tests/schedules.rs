//! Prompts that are sent at their time.

use journal::SessionId;
use uuid::Uuid;
use wire::note::{Delivery, Note, PromptState};

use super::{Harness, ann, at, id, turn_result};
use crate::agent_event::AgentEvent;
use crate::command::{CommandError, CommandOutput, SessionCommand};
use crate::config::SessionLimits;
use crate::machine::{ClockReading, Input, MachineSnapshot};
use crate::options::SessionOptions;
use crate::schedule::{MAX_SCHEDULE_TEXT, MAX_SCHEDULES, NewSchedule};

const HOUR: u64 = 60 * 60 * 1000;

fn schedule(number: u128, when: &str) -> SessionCommand {
    let (text, zone) = (format!("scheduled {number}"), "Europe/Berlin".to_owned());
    let when = when.to_owned();
    SessionCommand::Schedule(NewSchedule { id: id(number), text, when, zone, by: ann() })
}

/// When scheduled prompts were due: the time, whether one was queued, and how many were missed.
fn due(harness: &Harness) -> Vec<(u64, bool, u64)> {
    let due = |note: &Note| match note {
        Note::ScheduleDue { due, prompt, missed, .. } => Some((*due, prompt.is_some(), *missed)),
        _ => None,
    };
    harness.notes.iter().filter_map(due).collect()
}

/// The machine of another process that continues with what this one has stored, at a later time.
fn restarted(before: &Harness, now: u64) -> Harness {
    let options = before.machine.options().clone();
    let session = SessionId(id(0));
    let limits = SessionLimits::default();
    let mut snapshot = MachineSnapshot::new(at(now), session, limits, options);
    snapshot.prompts = before.machine.prompts.queued().cloned().collect();
    let mut harness = Harness::from(snapshot);
    harness.now = now;
    harness
}

#[test]
fn a_prompt_is_sent_once_at_its_time() {
    let mut harness = Harness::new();
    assert_eq!(harness.command(schedule(9, "in 2h")), Some(Ok(CommandOutput::None)));
    assert_eq!(harness.command(schedule(9, "in 2h")), Some(Ok(CommandOutput::None)));
    harness.wait(2 * HOUR - 1);
    assert_eq!((harness.starts.len(), due(&harness)), (0, vec![]));
    harness.wait(1);
    assert_eq!(due(&harness), [(2 * HOUR, true, 0)]);
    harness.ready();
    assert!(harness.written.last().unwrap().contains("scheduled 9"));
    harness.agent(AgentEvent::TurnStarted { conversation: None });
    harness.agent(turn_result(&[]));
    harness.wait(HOUR / 3);
    assert_eq!((harness.written_prompts(), due(&harness).len()), (1, 1));
    assert!(harness.machine.options().schedules.is_empty());
}

#[test]
fn a_prompt_that_was_missed_is_sent_once_and_says_how_often_it_was_due() {
    let mut before = Harness::new();
    before.command(schedule(9, "every 1h")).unwrap().unwrap();
    let now = 5 * HOUR + 1;
    let mut harness = restarted(&before, now);
    harness.on(Input::Tick);
    assert_eq!(due(&harness), [(HOUR, true, 4)]);
    assert_eq!(harness.machine.options().schedules[0].next, 6 * HOUR);
    // The same again, as if nothing of it had been stored, sends the same prompt.
    let mut again = restarted(&before, now + 7);
    again.on(Input::Tick);
    let prompt = |harness: &Harness| -> Vec<Uuid> {
        harness.machine.prompts.queued().map(|it| it.id).collect()
    };
    assert_eq!(prompt(&harness), prompt(&again));
}

#[test]
fn prompts_do_not_pile_up_behind_a_long_turn() {
    let mut harness = Harness::with_running_turn();
    harness.command(schedule(9, "every 30m")).unwrap().unwrap();
    for _ in 0..8 {
        harness.wait(HOUR / 2);
    }
    assert_eq!(harness.machine.prompts.queued().count(), 1);
    assert_eq!(due(&harness).iter().filter(|(_, queued, _)| *queued).count(), 1);
    assert_eq!(due(&harness).len(), 8);
}

#[test]
fn a_suspended_machine_notices_within_a_minute_that_the_time_has_come() {
    let mut harness = Harness::new();
    harness.command(schedule(9, "in 8h")).unwrap().unwrap();
    assert_eq!(harness.machine.deadline(), Some(60_000));
    // The wall clock went on; the monotonic one did not.
    let resumed = ClockReading { wall: 9 * HOUR, monotonic: 60_000 };
    let effects = harness.machine.on(resumed, Input::Tick);
    let due = |it: &crate::machine::Effect| {
        matches!(it, crate::machine::Effect::Note(Note::ScheduleDue { .. }))
    };
    assert!(effects.iter().any(due));
}

#[test]
fn a_removed_schedule_sends_nothing_and_its_queued_prompt_stays() {
    let mut harness = Harness::with_running_turn();
    harness.command(schedule(9, "every 30m")).unwrap().unwrap();
    harness.wait(HOUR / 2);
    let remove = || SessionCommand::RemoveSchedule { schedule: id(9), by: ann() };
    assert_eq!(harness.command(remove()), Some(Ok(CommandOutput::None)));
    assert_eq!(harness.command(remove()), Some(Err(CommandError::NoSuchSchedule)));
    harness.wait(24 * HOUR);
    assert_eq!(due(&harness).len(), 1);
    assert_eq!(harness.machine.prompts.queued().count(), 1);
}

#[test]
fn a_scheduled_prompt_does_not_resume_a_held_queue() {
    let mut harness = Harness::with_running_turn();
    harness.prompt(2, Delivery::Queue).unwrap();
    harness.command(super::interrupt(wire::note::QueuePolicy::Hold)).unwrap().unwrap();
    harness.agent(super::failed_result());
    harness.command(schedule(9, "in 1m")).unwrap().unwrap();
    harness.wait(120_000);
    assert_eq!(due(&harness).len(), 1);
    assert_eq!((harness.written_prompts(), harness.machine.is_queue_held()), (1, true));
    assert_eq!(harness.states(2), Vec::<PromptState>::new());
}

#[test]
fn what_cannot_be_scheduled_is_refused() {
    let mut harness = Harness::new();
    for (when, zone, text) in [
        ("soon", "UTC", "x".to_owned()),
        ("in 2h", "Nowhere", "x".to_owned()),
        ("in 2h", "UTC", "x".repeat(MAX_SCHEDULE_TEXT + 1)),
        ("in 2h", "UTC", " ".to_owned()),
    ] {
        let (when, zone) = (when.to_owned(), zone.to_owned());
        let new = NewSchedule { id: id(1), text, when, zone, by: ann() };
        let refused = harness.command(SessionCommand::Schedule(new)).unwrap().unwrap_err();
        let expected = matches!(refused, CommandError::Invalid(_) | CommandError::EmptyPrompt);
        assert!(expected, "{refused:?}");
    }
    for number in 0..MAX_SCHEDULES as u128 {
        harness.command(schedule(number, "every 1d")).unwrap().unwrap();
    }
    assert!(harness.command(schedule(999, "every 1d")).unwrap().is_err());
    for _ in 0..24 {
        harness.wait(HOUR);
    }
    assert_eq!(due(&harness).len(), MAX_SCHEDULES);
}

#[test]
fn a_process_that_only_reads_what_agents_left_sends_nothing() {
    let limits = SessionLimits { sends_scheduled: false, ..SessionLimits::default() };
    let mut before = Harness::new();
    before.command(schedule(9, "every 1h")).unwrap().unwrap();
    let options: SessionOptions = before.machine.options().clone();
    let snapshot = MachineSnapshot::new(at(9 * HOUR), SessionId(id(0)), limits, options);
    let mut harness = Harness::from(snapshot);
    harness.wait(9 * HOUR);
    assert_eq!(due(&harness), []);
}
