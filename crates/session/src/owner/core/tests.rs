//! Examples of what the core does while the journal or the shim does not answer. The simulation
//! checks what must always hold.

use std::path::Path;

use journal::{SessionId, SessionStatus, SpoolPosition};
use uuid::Uuid;
use wire::note::{Actor, Delivery, Note, QueuePolicy};

use super::{
    AttachOutcome, OwnerCore, OwnerEffect, OwnerInput, OwnerSnapshot, Seq, StartOutcome,
    WriteFailure,
};
use crate::command::{NewPrompt, SessionCommand};
use crate::config::SessionLimits;
use crate::machine::{ClockReading, CommandId};
use crate::session::{Error, LeaveOutcome};
use crate::shim::{AgentSignal, ShimCommand, ShimEvent};

fn ann() -> Actor {
    Actor { name: "ann".to_owned(), via: "terminal".to_owned() }
}

fn core(options: &str) -> OwnerCore {
    let session = SessionId(Uuid::nil());
    let limits = SessionLimits::default();
    let now = ClockReading::default();
    OwnerCore::new(OwnerSnapshot::new(now, session, limits, Path::new("/p"), options))
}

fn at(monotonic: u64) -> ClockReading {
    ClockReading { wall: monotonic, monotonic }
}

fn prompt(number: u64) -> OwnerInput {
    let prompt = NewPrompt {
        id: Uuid::from_u128(number.into()),
        text: "do it".to_owned(),
        images: Vec::new(),
        delivery: Delivery::Queue,
        by: ann(),
    };
    let command = Box::new(SessionCommand::Prompt(prompt));
    OwnerInput::Command { id: CommandId(number), command }
}

/// Feeds an input, and answers every write.
fn settle(core: &mut OwnerCore, now: u64, input: OwnerInput) -> Vec<OwnerEffect> {
    let mut effects = core.on(at(now), input);
    while !core.is_ready() {
        effects.extend(core.on(at(now), OwnerInput::Written(Ok(Seq(1)))));
    }
    effects
}

fn reports_problem(effect: &OwnerEffect) -> bool {
    let OwnerEffect::Write(batch) = effect else { return false };
    let mut notes = batch.entries.iter().filter_map(|entry| Note::read(&entry.bytes));
    notes.any(|note| matches!(note, Note::Problem { .. }))
}

/// A core whose agent runs.
fn running() -> OwnerCore {
    let mut core = core("{}");
    let effects = settle(&mut core, 0, prompt(1));
    assert!(effects.iter().any(|it| matches!(it, OwnerEffect::Start { run: 1, .. })));
    settle(&mut core, 0, OwnerInput::Started(StartOutcome::Running { pings: false }));
    core
}

fn replies(effects: &[OwnerEffect]) -> Vec<u64> {
    let not_stored = |it: &OwnerEffect| match it {
        OwnerEffect::Reply(id, Err(Error::NotStored)) => Some(id.0),
        _ => None,
    };
    effects.iter().filter_map(not_stored).collect()
}

#[test]
fn leaving_on_a_full_disk_says_that_it_could_not_store() {
    let mut core = running();
    let effects = core.on(at(1), prompt(2));
    assert!(matches!(effects[..], [OwnerEffect::Write(_)]));
    let effects = core.on(at(1), OwnerInput::Written(Err(WriteFailure::Full)));
    assert!(matches!(effects[..], [OwnerEffect::Reply(CommandId(2), Err(_))]), "{effects:?}");
    let again = core.on(at(2), OwnerInput::Leave);
    assert!(matches!(again[..], [OwnerEffect::Write(_)]), "it tries once more: {again:?}");
    let effects = core.on(at(2), OwnerInput::Written(Err(WriteFailure::Full)));
    assert!(matches!(effects[..], [OwnerEffect::Leave(LeaveOutcome::NotStored)]));
}

#[test]
fn a_full_disk_refuses_commands_at_once_and_lets_an_interrupt_through() {
    let mut core = running();
    let _ = core.on(at(1), prompt(2));
    // This one came while the write was on its way.
    assert!(core.on(at(1), prompt(3)).is_empty());
    let effects = core.on(at(1), OwnerInput::Written(Err(WriteFailure::Full)));
    let full = |it: &OwnerEffect| matches!(it, OwnerEffect::Reply(CommandId(2), Err(_)));
    assert!(full(&effects[0]), "its client does not wait for space: {effects:?}");
    assert_eq!(replies(&effects), [3]);
    let by = ann();
    let command = Box::new(SessionCommand::Interrupt { queue: QueuePolicy::Keep, by, turn: None });
    let effects = core.on(at(2), OwnerInput::Command { id: CommandId(4), command });
    let signal = ShimCommand::Signal(AgentSignal::Interrupt);
    assert!(matches!(&effects[0], OwnerEffect::Send(it) if *it == signal), "{effects:?}");
    assert_eq!(replies(&effects), [4]);
    assert_eq!(core.pause(at(2)), Some(999));
    let effects = core.on(at(1001), OwnerInput::Tick);
    assert!(matches!(effects[..], [OwnerEffect::Write(_)]), "{effects:?}");
    let effects = core.on(at(1001), OwnerInput::Written(Ok(Seq(2))));
    assert!(!effects.iter().any(|it| matches!(it, OwnerEffect::Reply(..))), "{effects:?}");
    assert!(core.is_ready());
}

#[test]
fn a_journal_that_does_not_answer_does_not_hang_clients() {
    let mut core = running();
    let _ = core.on(at(1), prompt(2));
    assert!(core.on(at(1), prompt(3)).is_empty());
    assert_eq!(core.pause(at(1)), Some(10_000));
    let effects = core.on(at(10_001), OwnerInput::Tick);
    let busy = |it: &OwnerEffect, number| {
        let busy = Err::<crate::command::CommandOutput, _>(Error::Journal(journal::Error::Busy));
        matches!((it, busy), (OwnerEffect::Reply(id, Err(Error::Journal(_))), Err(_)) if id.0 == number)
    };
    assert!(busy(&effects[0], 3), "{effects:?}");
    assert!(busy(&core.on(at(10_002), prompt(4))[0], 4));
    let effects = core.on(at(10_003), OwnerInput::Leave);
    assert!(matches!(effects[..], [OwnerEffect::Leave(LeaveOutcome::NotStored)]), "{effects:?}");
}

#[test]
fn the_agent_is_not_blamed_for_the_time_in_which_the_disk_was_full() {
    let mut core = running();
    let minute = 60_000;
    let _ = core.on(at(minute - 5_000), prompt(2));
    let full = || OwnerInput::Written(Err(WriteFailure::Full));
    let mut now = minute - 5_000;
    while now < 3 * minute {
        let _ = core.on(at(now), full());
        now += core.pause(at(now)).expect("it tries again");
        let effects = core.on(at(now), OwnerInput::Tick);
        assert!(matches!(effects[..], [OwnerEffect::Write(_)]), "{effects:?}");
    }
    let _ = core.on(at(now), OwnerInput::Written(Ok(Seq(2))));
    let kills = |effects: &[OwnerEffect]| {
        let kill = ShimCommand::Signal(AgentSignal::Kill);
        effects.iter().any(|it| matches!(it, OwnerEffect::Send(command) if *command == kill))
    };
    let effects = settle(&mut core, now, OwnerInput::Tick);
    assert!(!kills(&effects), "its answer may wait to be read: {effects:?}");
    let pause = core.pause(at(now)).expect("it still has to answer");
    assert!((1..=500).contains(&pause), "{pause}");
    let effects = settle(&mut core, now + pause, OwnerInput::Tick);
    assert!(kills(&effects), "it has not answered in time: {effects:?}");
}

#[test]
fn commands_are_answered_while_the_shim_does_not_answer() {
    let mut core = running();
    let effects = settle(&mut core, 1, OwnerInput::Disconnected);
    assert!(effects.iter().any(|it| matches!(it, OwnerEffect::Attach { run: 1, from: 0 })));
    let effects = settle(&mut core, 2, prompt(2));
    assert!(effects.iter().any(|it| matches!(it, OwnerEffect::Reply(CommandId(2), Ok(_)))));
    assert!(!effects.iter().any(|it| matches!(it, OwnerEffect::Send(_))), "{effects:?}");
    let effects = settle(&mut core, 3_001, OwnerInput::Tick);
    assert!(effects.iter().any(reports_problem), "{effects:?}");
    assert!(core.is_silent());
    // Stopping it meanwhile is not forgotten.
    let close = Box::new(SessionCommand::Close);
    settle(&mut core, 3_002, OwnerInput::Command { id: CommandId(3), command: close });
    let effects = core.on(
        at(9_000),
        OwnerInput::Attached(AttachOutcome::Attached { last_write: 0, pings: false }),
    );
    assert!(matches!(
        effects[..],
        [OwnerEffect::Send(ShimCommand::Stop { .. }), OwnerEffect::LoadOutbound]
    ));
}

#[test]
fn a_request_to_stop_that_was_lost_with_the_connection_is_repeated() {
    let mut core = running();
    let close = Box::new(SessionCommand::Close);
    let effects = settle(&mut core, 1, OwnerInput::Command { id: CommandId(2), command: close });
    let stops = |effects: &[OwnerEffect]| {
        effects.iter().any(|it| matches!(it, OwnerEffect::Send(ShimCommand::Stop { .. })))
    };
    assert!(stops(&effects), "{effects:?}");
    for now in [2, 3] {
        settle(&mut core, now, OwnerInput::Disconnected);
        let attached = AttachOutcome::Attached { last_write: 0, pings: false };
        let effects = core.on(at(now), OwnerInput::Attached(attached));
        assert!(stops(&effects), "{effects:?}");
        let _ = core.on(at(now), OwnerInput::Outbound(Vec::new()));
    }
}

#[test]
fn a_shim_that_stops_answering_is_reported_until_it_answers_again() {
    let mut core = core("{}");
    settle(&mut core, 0, prompt(1));
    let running = StartOutcome::Running { pings: true };
    let effects = settle(&mut core, 0, OwnerInput::Started(running));
    let pings = |effects: &[OwnerEffect]| {
        let ping = |it: &OwnerEffect| match it {
            OwnerEffect::Send(ShimCommand::Ping(number)) => Some(*number),
            _ => None,
        };
        effects.iter().filter_map(ping).collect::<Vec<_>>()
    };
    assert_eq!(pings(&effects), [1], "it was told something: {effects:?}");
    let effects = settle(&mut core, 10, OwnerInput::Shim(ShimEvent::Pong(1)));
    assert!(effects.is_empty() && !core.is_silent(), "{effects:?}");
    // Nothing is heard in the middle of the turn.
    let mut now = 10;
    let mut asked = Vec::new();
    while !core.is_silent() {
        now += core.pause(at(now)).expect("it notices");
        let effects = settle(&mut core, now, OwnerInput::Tick);
        asked.extend(pings(&effects));
        assert_eq!(effects.iter().any(reports_problem), core.is_silent());
    }
    assert_eq!((asked, now), (vec![2], 33_010));
    settle(&mut core, now + 1, OwnerInput::Shim(ShimEvent::Pong(2)));
    assert!(!core.is_silent());
}

#[test]
fn a_line_that_the_shim_refused_is_sent_again() {
    let mut core = running();
    let refused = ShimEvent::WriteRefused { number: 1, last: 0 };
    assert!(core.on(at(5), OwnerInput::Shim(refused)).is_empty());
    assert_eq!(core.pause(at(5)), Some(1_000));
    let effects = core.on(at(1_005), OwnerInput::Tick);
    assert!(matches!(effects[..], [OwnerEffect::LoadOutbound]), "{effects:?}");
    let line = journal::OutboundLine { number: 1, bytes: "x\n".into() };
    let effects = core.on(at(1_005), OwnerInput::Outbound(vec![line]));
    assert!(matches!(effects[..], [OwnerEffect::Send(ShimCommand::Write { number: 1, .. })]));
}

#[test]
fn unreadable_options_are_not_taken_for_defaults() {
    for options in ["", "null", r#"{"disallowed_tools":"Bash"}"#, r#"{"max_budget_usd":"x"}"#] {
        let mut core = core(options);
        let effects = settle(&mut core, 0, prompt(1));
        assert!(!effects.iter().any(|it| matches!(it, OwnerEffect::Start { .. })), "{options}");
        assert_eq!(core.machine().status(), SessionStatus::Failed);
    }
}

#[test]
fn a_request_too_long_to_be_held_is_answered_by_the_owner_that_reads_its_end() {
    let session = SessionId(Uuid::nil());
    let limits = SessionLimits { longest_line: 64, ..SessionLimits::default() };
    let mut snapshot = OwnerSnapshot::new(at(0), session, limits, Path::new("/p"), "{}");
    snapshot.record.status = SessionStatus::Running;
    snapshot.record.spool = SpoolPosition { run: 1, offset: 100 };
    snapshot.has_process = true;
    let start =
        r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","#;
    snapshot.unfinished_line = Some(start.into());
    let mut core = OwnerCore::new(snapshot);
    let effects = core.on(at(0), OwnerInput::TakeOver);
    assert!(matches!(effects[..], [OwnerEffect::Attach { run: 1, from: 100 }]), "{effects:?}");
    let attached = AttachOutcome::Attached { last_write: 0, pings: false };
    let effects = core.on(at(0), OwnerInput::Attached(attached));
    assert!(matches!(effects[..], [OwnerEffect::LoadOutbound]), "{effects:?}");
    settle(&mut core, 0, OwnerInput::Outbound(Vec::new()));
    // The connection is lost once more before the line ends.
    let output = |offset, bytes: &[u8]| {
        OwnerInput::Shim(ShimEvent::Output { offset, bytes: bytes.to_vec() })
    };
    settle(&mut core, 0, output(100, b"\"input\":\"xxxxx"));
    let effects = settle(&mut core, 0, OwnerInput::Disconnected);
    let again = |it: &OwnerEffect| matches!(it, OwnerEffect::Attach { run: 1, from: 114 });
    assert!(effects.iter().any(again), "{effects:?}");
    let attached = AttachOutcome::Attached { last_write: 1, pings: false };
    let _ = core.on(at(0), OwnerInput::Attached(attached));
    settle(&mut core, 0, OwnerInput::Outbound(Vec::new()));
    let effects = settle(&mut core, 0, output(114, b"xxx\"}}\n"));
    let answers = |it: &OwnerEffect| match it {
        OwnerEffect::Write(batch) => batch.outbound.iter().any(|line| {
            line.bytes.starts_with(b"{\"type\":\"control_response\"")
                && String::from_utf8_lossy(&line.bytes).contains("\"request_id\":\"r\"")
        }),
        _ => false,
    };
    assert!(effects.iter().any(answers), "{effects:?}");
}
