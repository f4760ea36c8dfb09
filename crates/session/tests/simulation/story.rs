//! The story of one run: everything goes wrong for a while, then all behave, and it must end well.

use towpath_session::machine::{Answer, Command};
use wire::note::{PromptState, QueueFate};

use crate::cli::{Dialect, Mood};
use crate::people::ann;
use crate::world::World;

/// Longer than any patience of the machine.
const VERY_LONG: u64 = 24 * 60 * 60 * 1000;

pub(crate) fn tell(world: &mut World) {
    let steps = 40 + world.dice.below(160);
    for _ in 0..steps {
        mishap(world);
    }
    settle(world);
    world.ledger.is_settled();
    check_prompts(world);
    let last = world.people.plain_prompt();
    let id = last.id;
    world.command(Command::Prompt(last));
    settle(world);
    world.ledger.is_settled();
    let state = world.ledger.prompts[&id].0;
    assert_eq!(state, PromptState::Done, "the session does not go on");
    assert_eq!(world.memory.runs.get(&id), Some(&1), "the last prompt was not run");
    check_prompts(world);
}

/// One thing happens.
fn mishap(world: &mut World) {
    if world.down {
        // A clock that stood still would number requests alike.
        world.now += 1000 + if world.dice.one_in(4) { world.dice.below(200_000) } else { 0 };
        return world.arrive();
    }
    match world.dice.below(30) {
        0..=4 => {
            let requests: Vec<String> = world.ledger.requests.keys().cloned().collect();
            let recent = requests.len().saturating_sub(4);
            let command = world.people.want(&mut world.dice, &requests[recent..]);
            world.command(command);
        }
        5..=14 => {
            world.step_agent();
        }
        15..=22 => {
            let most = 1 + world.dice.below(4);
            if !world.hear(most) {
                world.hear_of_the_end();
            }
        }
        23 | 24 => {
            world.finish_start();
        }
        25 | 26 => {
            let pause = 1 + world.dice.below(300);
            pass(world, world.now + pause);
        }
        27 => {
            if let Some(at) = world.machine.deadline() {
                wait_long(world, at);
            }
        }
        28 if world.dice.one_in(6) => world.kill_agent(),
        29 if world.dice.one_in(6) => {
            world.record(|| "towpath dies".to_owned());
            world.die();
        }
        _ => {}
    }
}

/// Time passes until a deadline. The machine need not put up with an agent that takes so long for
/// something, except that it may be slow to begin with a turn.
fn wait_long(world: &mut World, at: u64) {
    let all_heard = !world.hear(1);
    let slow = world.shim.as_ref().is_some_and(|shim| shim.cli.is_slow_to_begin());
    let turn = world.machine.turns();
    if world.down {
    } else if all_heard && slow && world.ledger.turn.is_some() && world.slow_turn < turn {
        world.slow_turn = turn;
        pass(world, at.min(world.now + 20_000));
    } else if all_heard && !world.step_agent() {
        pass(world, at);
    } else if world.dice.one_in(4) {
        world.lagged = true;
        pass(world, at);
    }
}

/// Time passes until a moment, with a tick at every deadline before it.
fn pass(world: &mut World, until: u64) {
    let mut ticks = 0;
    while let Some(at) = world.machine.deadline().filter(|at| *at <= until) {
        ticks += 1;
        assert!(ticks < 200, "a deadline that is never done with");
        world.now = world.now.max(at);
        world.tick();
        if world.down {
            return;
        }
    }
    world.now = world.now.max(until);
    end_by_force(world);
}

fn end_by_force(world: &mut World) {
    let now = world.now;
    let late = world.shim.as_ref().and_then(|shim| shim.kill_at).is_some_and(|at| at <= now);
    if late {
        world.kill_agent();
    }
}

/// Lets everybody do what they still have to, obediently, until nothing is left.
fn settle(world: &mut World) {
    world.faulty = false;
    if let Some(shim) = &mut world.shim {
        shim.cli.mood = Mood { mute: shim.cli.mood.mute, ..Mood::default() };
    }
    let mut interrupts = 0;
    for _ in 0..20_000 {
        if world.down {
            world.now += 1000;
            world.arrive();
            continue;
        }
        if world.finish_start()
            || world.hear(3)
            || world.step_agent()
            || world.hear_of_the_end()
            || answer_somebody(world)
        {
            continue;
        }
        if let Some(shim) = &world.shim {
            let waits = shim.gone().is_none() && shim.cli.waits_for_an_answer();
            assert!(!waits || !world.connected, "the agent waits for an answer for ever");
        }
        let kill_at = world.shim.as_ref().and_then(|shim| shim.kill_at);
        let due = world.shim.as_ref().and_then(|shim| shim.cli.due());
        let next = [world.machine.deadline(), kill_at, due].into_iter().flatten().min();
        match next {
            Some(at) => {
                assert!(at - world.now.min(at) < VERY_LONG, "a deadline far away");
                pass(world, at);
            }
            None if world.machine.is_busy() => {
                interrupts += 1;
                assert!(interrupts < 3, "busy for ever");
                let by = ann();
                world.command(Command::Interrupt { queue: QueueFate::Keep, by });
            }
            None if world.machine.status() == journal::Status::Failed => {
                let prompt = world.people.plain_prompt();
                world.command(Command::Prompt(prompt));
            }
            None => return check_settings(world),
        }
    }
    panic!("nobody comes to rest");
}

fn answer_somebody(world: &mut World) -> bool {
    let Some(request) = world.ledger.open_requests().first().cloned() else { return false };
    let answer = Answer::Deny { message: "no".to_owned(), interrupt: false };
    world.command(Command::Answer { request, answer, by: ann() });
    true
}

fn check_prompts(world: &World) {
    for (prompt, (state, _)) in &world.ledger.prompts {
        let runs = world.memory.runs.get(prompt).copied().unwrap_or(0);
        assert!(runs <= 1, "{prompt} was run {runs} times");
        let lost = world.orphaned.contains(prompt) || world.lagged;
        match state {
            PromptState::Done => {
                // 2.1.37 does not tell that it went on without one.
                let dropped = world.memory.dropped.contains(prompt) || world.agent_died;
                let untold = world.dialect == Dialect::Old && dropped;
                assert!(runs == 1 || lost || untold, "{prompt} is done and was never run");
            }
            PromptState::Cancelled => assert_eq!(runs, 0, "{prompt} was cancelled and run"),
            PromptState::Indeterminate => {
                assert!(world.ledger.was_said(*prompt) || lost, "{prompt} was never said");
                let forgotten = world.memory.dropped.contains(prompt);
                assert!(lost || forgotten, "{prompt} is given up for no reason");
            }
            _ => {}
        }
    }
}

fn check_settings(world: &World) {
    let live = world.shim.as_ref().filter(|shim| shim.gone().is_none() && world.connected);
    if let Some(shim) = live.filter(|_| !world.settings_unknown) {
        let wanted = &world.machine.options().model;
        assert_eq!(shim.cli.model, *wanted, "the agent has another model than it is said to have");
    }
}
