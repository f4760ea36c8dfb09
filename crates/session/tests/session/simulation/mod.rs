//! The core of an owner, with its machine, against random failures, thousands of times.
//!
//! It is the code that ships: only the journal, the shim with its agent, the users and the clocks
//! are models.
//!
//! Each run follows from one number. A run that fails names it: `TOWPATH_SIM_SEED` repeats that run
//! and prints every step, `TOWPATH_SIM_RUNS` changes the number of runs and `TOWPATH_SIM_FIRST` the first
//! of them.

mod acp;
mod agent_model;
mod invariants;
mod lines;
mod storage;
mod users;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use towpath_session::{RequestAnswer, SessionCommand};
use wire::note::{PromptState, QueuePolicy};

use agent_model::{Faults, Generation};
use users::ann;
use world::World;

#[test]
fn nothing_is_lost_repeated_or_left_waiting_whatever_fails() {
    if let Some(seed) = number_from("TOWPATH_SIM_SEED") {
        return run_seed(seed, true);
    }
    let runs = number_from("TOWPATH_SIM_RUNS").unwrap_or(10_000);
    let first = number_from("TOWPATH_SIM_FIRST").unwrap_or(0);
    let next = AtomicU64::new(first);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(8) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + runs {
                        break;
                    }
                    run_seed(seed, false);
                }
            });
        }
    });
}

fn run_seed(seed: u64, traced: bool) {
    let mut world = World::new(seed, traced);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run_world(&mut world))) {
        let steps = world.trace.unwrap_or_default().join("\n");
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref().copied()).unwrap_or_default();
        panic!("{steps}\nrun again with TOWPATH_SIM_SEED={seed}: {text}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the seed of a failed run is given this way")]
fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Longer than any timeout of the machine.
const VERY_LONG: u64 = 24 * 60 * 60 * 1000;

/// After this time without a deadline of the machine, a person interrupts a turn.
const QUIET: u64 = 5 * 60 * 1000;

/// Everything fails for a while, then everything works, and the session must come to rest.
fn run_world(world: &mut World) {
    let steps = 40 + world.random.below(160);
    for _ in 0..steps {
        step(world);
    }
    finish(world);
    world.invariants.check_finished();
    check_prompts(world);
    let last = world.users.plain_prompt();
    let id = last.id;
    world.command(SessionCommand::Prompt(last));
    finish(world);
    world.invariants.check_finished();
    let state = world.invariants.prompts[&id].0;
    assert_eq!(state, PromptState::Done, "the session does not continue");
    assert_eq!(world.storage.runs.get(&id), Some(&1), "the last prompt was not run");
    check_prompts(world);
}

/// Lets one random thing happen.
fn step(world: &mut World) {
    if world.down {
        if world.random.one_in(4) {
            world.now += world.random.below(200_000);
        }
        return world.take_over();
    }
    world.deliver_commands(usize::MAX);
    match world.random.below(36) {
        0..=4 => command(world),
        5..=14 => {
            world.step_agent();
        }
        15..=22 => {
            let most = if world.random.one_in(3) { 100 } else { 2000 };
            let most = 1 + world.random.below(most);
            if !world.read_leftovers(most) && !world.read_output(most) {
                world.read_exit();
            }
        }
        23 | 24 => {
            let _ = world.finish_write() || world.finish_start() || world.finish_attach();
        }
        25 | 26 => {
            let pause = 1 + world.random.below(300);
            pass(world, world.now + pause);
        }
        27 => {
            if let Some(pause) = world.pause() {
                wait_long(world, world.now + pause);
            }
        }
        28 if world.random.one_in(6) => world.kill_agent(),
        29 if world.random.one_in(6) => {
            world.record(|| "towpath dies".to_owned());
            world.die();
        }
        30 if world.random.one_in(4) => world.lose_connection(),
        31 if world.random.one_in(6) => {
            let stopped = world.random.one_in(2);
            world.record(|| format!("the shim is stopped: {stopped}"));
            world.stop_shim(stopped);
        }
        32 if world.random.one_in(3) => disturb_clocks(world),
        33 if world.random.one_in(8) => world.release(),
        34 | 35 => {
            world.finish_hook();
        }
        _ => {}
    }
}

/// Lets a user send a command: a new one, an earlier one again, or one that was delayed.
fn command(world: &mut World) {
    if !world.takes_commands() {
        return;
    }
    let requests: Vec<String> = world.invariants.requests.keys().cloned().collect();
    let recent = requests.len().saturating_sub(4);
    let command = world.users.next(&mut world.random, &requests[recent..]);
    if let Some(command) = command {
        world.command(command);
    }
}

/// Sets the wall clock, suspends the machine, stops Towpath itself or fills the disk for a while.
fn disturb_clocks(world: &mut World) {
    const HOUR: u64 = 60 * 60 * 1000;
    let length = 1 + world.random.below(3 * HOUR);
    match world.random.below(4) {
        0 => world.wall -= length,
        // A suspended machine does not count its monotonic clock on.
        1 => world.wall += length,
        2 => fill_disk(world),
        _ => {
            world.record(|| format!("towpath is stopped for {length} ms"));
            world.paused = true;
            world.now += length;
            let owed = world.shim.as_ref().is_some_and(|shim| shim.kill_at.is_some());
            // The agent and its shim went on meanwhile.
            while !owed && world.random.below(4) > 0 && world.step_agent() {}
            world.tick();
            kill_if_due(world);
        }
    }
}

/// Lets the journal refuse everything for a while, in which the agent and its shim go on.
fn fill_disk(world: &mut World) {
    let until = world.now + world.random.below(3 * 60 * 1000);
    world.record(|| format!("the disk is full until {until}"));
    world.disk_is_full = true;
    command(world);
    while !world.down && !world.core.is_ready() && world.now < until {
        if !world.finish_write() {
            let Some(pause) = world.pause() else { break };
            world.now += pause;
            world.tick();
        }
        if world.random.one_in(8) {
            world.step_agent();
        }
    }
    world.disk_is_full = false;
    kill_if_due(world);
}

/// Lets time pass until a deadline. The machine may give up on an agent that takes so long, except
/// that an agent may be slow to start with a turn.
fn wait_long(world: &mut World, at: u64) {
    let all_heard = !world.finish_write()
        && !world.finish_attach()
        && !world.read_leftovers(1000)
        && !world.deliver_commands(usize::MAX)
        && !world.read_output(1000);
    let stopped = world.shim.as_ref().is_some_and(|shim| shim.stopped);
    let slow = world.shim.as_ref().is_some_and(|shim| shim.agent.is_slow_to_start());
    let turn = world.core.machine().turns();
    if world.down {
    } else if all_heard && slow && world.invariants.turn.is_some() && world.slow_turn < turn {
        world.slow_turn = turn;
        pass(world, at.min(world.now + 20_000));
    } else if all_heard && !stopped && !world.step_agent() {
        pass(world, at);
    } else if world.random.one_in(4) {
        world.timed_out = true;
        pass(world, at);
    }
}

/// Lets time pass until a moment, with a tick at every deadline before it.
fn pass(world: &mut World, until: u64) {
    // The owner's task reads what has come before it waits. That matters after a stop: a deadline that
    // passed meanwhile is only half a second away, and the others are never that close.
    while world.paused && !world.down && world.read_output(1000) {}
    if world.down {
        return;
    }
    let mut ticks = 0;
    while let Some(pause) = world.pause().filter(|pause| world.now + pause <= until) {
        ticks += 1;
        assert!(ticks < 300, "a deadline that never passes");
        world.now += pause;
        // What is stopped cannot answer in time.
        world.timed_out |= world.shim.as_ref().is_some_and(|shim| shim.stopped);
        world.tick();
        if world.down {
            return;
        }
    }
    world.now = world.now.max(until);
    kill_if_due(world);
}

fn kill_if_due(world: &mut World) {
    let now = world.now;
    let late = world.shim.as_ref().filter(|shim| !shim.stopped).and_then(|shim| shim.kill_at);
    if late.is_some_and(|at| at <= now) {
        world.kill_agent();
    }
}

/// Lets everything finish without faults, until nothing is left to do.
fn finish(world: &mut World) {
    world.faulty = false;
    world.stop_shim(false);
    if let Some(shim) = &mut world.shim {
        shim.agent.faults =
            Faults { never_ready: shim.agent.faults.never_ready, ..Faults::default() };
    }
    let mut interrupts = 0;
    let mut waiting_since: Option<u64> = None;
    let mut quiet_since = world.now;
    for _ in 0..20_000 {
        if world.down {
            world.now += 1000;
            world.take_over();
            continue;
        }
        if world.finish_write()
            || world.finish_attach()
            || world.read_leftovers(2_000)
            || world.finish_start()
            || world.deliver_commands(usize::MAX)
            || world.read_output(500)
            || world.step_agent()
            || world.read_exit()
            || answer_request(world)
            || world.finish_hook()
            || remove_schedule(world)
        {
            continue;
        }
        let mut shims = world.shim.iter().filter(|_| world.connected && world.core.is_ready());
        let waits = shims.any(|it| it.exit().is_none() && it.agent.waits_for_answer());
        // A line that the shim refused is sent again a little later.
        waiting_since = waits.then(|| waiting_since.unwrap_or(world.now));
        let waited = waiting_since.map_or(0, |since| world.now - since);
        assert!(waited < 5_000, "the agent waits for an answer for ever");
        let kill_at = world.shim.as_ref().and_then(|shim| shim.kill_at);
        let kill_at = kill_at.filter(|at| *at > world.now);
        let due = world.shim.as_ref().and_then(|shim| shim.agent.due());
        let tick = world.pause().map(|pause| world.now + pause);
        let next = [tick, kill_at, due].into_iter().flatten().min();
        // While a turn runs, the shim is asked for ever whether it is still there.
        let expects = world.core.machine().deadline().is_some() || !world.core.is_ready();
        if expects || kill_at.is_some() || due.is_some() {
            quiet_since = world.now;
        }
        let next = next.filter(|_| world.now - quiet_since < QUIET);
        match next {
            Some(at) => {
                assert!(at - world.now.min(at) < VERY_LONG, "a deadline far away");
                pass(world, at);
            }
            None if world.core.machine().is_busy() => {
                quiet_since = world.now;
                interrupts += 1;
                assert!(interrupts < 3, "busy for ever");
                let by = ann();
                world.command(SessionCommand::Interrupt {
                    queue: QueuePolicy::Keep,
                    by,
                    turn: None,
                });
            }
            None if world.status() == journal::SessionStatus::Failed => {
                let prompt = world.users.plain_prompt();
                world.command(SessionCommand::Prompt(prompt));
            }
            None if world.invariants.held => {
                quiet_since = world.now;
                world.command(SessionCommand::ResumeQueue { by: ann(), limit: None });
            }
            None => {
                assert!(!world.core.is_silent(), "a shim that answers is reported as silent");
                let open = world.stored.requests.values().find(|it| it.resolution.is_none());
                assert!(open.is_none(), "{open:?} was never answered");
                return check_settings(world);
            }
        }
    }
    panic!("the session does not come to rest");
}

/// Removes what would be sent again and again, so that the session can come to rest.
fn remove_schedule(world: &mut World) -> bool {
    let schedule = world.invariants.schedules.keys().next().copied();
    let Some(schedule) = schedule.filter(|_| world.takes_commands() && world.core.is_ready())
    else {
        return false;
    };
    world.command(SessionCommand::RemoveSchedule { schedule, by: ann() });
    true
}

fn answer_request(world: &mut World) -> bool {
    if !world.takes_commands() || !world.core.is_ready() {
        return false;
    }
    let open = world.invariants.open_requests();
    let Some(request) = open.first().cloned() else { return false };
    let answer = RequestAnswer::Deny { message: "no".to_owned(), interrupt: false };
    world.command(SessionCommand::Answer { request, answer, by: ann() });
    // A process that is being stopped cannot be answered.
    world.invariants.open_requests() != open
}

fn check_prompts(world: &World) {
    for (prompt, (state, _)) in &world.invariants.prompts {
        let runs = world.storage.runs.get(prompt).copied().unwrap_or(0);
        assert!(runs <= 1, "{prompt} was run {runs} times");
        let lost = world.orphaned.contains(prompt) || world.timed_out;
        match state {
            PromptState::Done => {
                // 2.1.37 does not report that it dropped a prompt.
                let dropped = world.storage.dropped.contains(prompt) || world.agent_died;
                let unreported = world.generation == Generation::Old && dropped;
                assert!(runs == 1 || lost || unreported, "{prompt} is done and was never run");
            }
            PromptState::Cancelled => assert_eq!(runs, 0, "{prompt} was cancelled and run"),
            PromptState::Indeterminate => {
                assert!(
                    world.invariants.was_written(*prompt) || lost,
                    "{prompt} was never written"
                );
                let forgotten = world.storage.dropped.contains(prompt);
                assert!(lost || forgotten, "{prompt} was given up without a reason");
            }
            _ => {}
        }
    }
}

fn check_settings(world: &World) {
    let live = world.shim.as_ref().filter(|shim| shim.exit().is_none() && world.connected);
    if let Some(shim) = live {
        let wanted = world.core.machine().options();
        assert!(!wanted.restart_pending, "the agent was not restarted for changed options");
        assert_eq!(shim.agent.max_turns, wanted.max_turns, "the agent runs with old options");
    }
    if let Some(shim) = live.filter(|_| !world.settings_unknown) {
        let wanted = &world.core.machine().options().model;
        assert_eq!(shim.agent.model, *wanted, "the agent does not have the model of the options");
    }
}
