//! The same core with an agent over the Agent Client Protocol: a model of one that does wrong what real ones
//! do wrong, and a world in which everything may die at any effect.

mod agent;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use towpath_session::{RequestAnswer, SessionCommand};
use wire::note::{PromptState, QueuePolicy};

use super::number_from;
use super::users::ann;
use world::AcpWorld;

/// Longer than any limit of the machine.
const ROUNDS: u32 = 4_000;

#[test]
fn over_the_agent_client_protocol_nothing_is_lost_repeated_or_left_waiting() {
    let seeds = match number_from("TOWPATH_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_from("TOWPATH_SIM_RUNS").unwrap_or(2_000).min(100_000),
    };
    let traced = number_from("TOWPATH_SIM_SEED").is_some();
    for seed in seeds {
        let mut world = AcpWorld::new(seed, traced);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&mut world))) {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref().copied()).unwrap_or_default();
            let steps = world.trace.unwrap_or_default().join("\n");
            panic!("{steps}\nrun again with TOWPATH_SIM_SEED={seed}: {text}");
        }
    }
}

fn run(world: &mut AcpWorld) {
    for _ in 0..40 + world.random.below(120) {
        step(world);
    }
    finish(world);
    world.check_finished();
    let last = world.users.plain_prompt();
    let id = last.id;
    world.command(SessionCommand::Prompt(last));
    finish(world);
    world.check_finished();
    let state = world.invariants.prompts[&id].0;
    assert_eq!(state, PromptState::Done, "the session does not continue");
    assert_eq!(world.runs.get(&id), Some(&1), "the last prompt was not run");
}

/// Lets one random thing happen.
fn step(world: &mut AcpWorld) {
    if world.down {
        return world.take_over();
    }
    world.deliver(usize::MAX);
    match world.random.below(36) {
        0..=4 => world.random_command(),
        5..=14 => drop(world.step_agent()),
        15..=22 => {
            let most = 1 + world.random.below(700);
            let _ = world.read_leftovers(most) || world.read_output(most) || world.read_exit();
        }
        23 | 24 => {
            let _ = world.finish_write() || world.finish_start() || world.finish_attach();
        }
        25 | 26 => {
            let pause = 1 + world.random.below(2_000);
            world.pass(pause);
        }
        27 => {
            if let Some(pause) = world.pause() {
                world.slow |= pause > 1_000;
                world.pass(pause);
            }
        }
        28 if world.random.one_in(6) => world.kill_agent(),
        29 if world.random.one_in(6) => world.die(),
        30 if world.random.one_in(4) => world.lose_connection(),
        31 if world.random.one_in(6) => {
            let stopped = world.random.one_in(2);
            world.stop_shim(stopped);
        }
        32 if world.random.one_in(4) => world.step_clock(),
        33 if world.random.one_in(4) => world.fill_disk(),
        _ => {}
    }
}

/// Lets everything finish without faults.
fn finish(world: &mut AcpWorld) {
    world.faulty = false;
    world.stop_shim(false);
    if let Some(shim) = &mut world.shim {
        shim.agent.faults.behave();
    }
    let mut interrupts = 0;
    for _ in 0..ROUNDS {
        if let Some(schedule) = world.invariants.schedules.keys().next().copied()
            && !world.down
            && world.core.is_ready()
        {
            world.command(SessionCommand::RemoveSchedule { schedule, by: ann() });
        }
        if world.down {
            world.take_over();
            continue;
        }
        if world.finish_write()
            || world.finish_attach()
            || world.read_leftovers(100_000)
            || world.finish_start()
            || world.deliver(usize::MAX)
            || world.read_output(500)
            || world.step_agent()
            || world.read_exit()
            || answer(world)
        {
            continue;
        }
        let shim = world.shim.as_ref().filter(|shim| shim.agent.exit.is_none());
        let kill_in = shim.and_then(|shim| shim.kill_at).map(|at| at.saturating_sub(world.now));
        let expects = world.core.machine().deadline().is_some() || kill_in.is_some();
        let next = [world.pause(), kill_in].into_iter().flatten().min();
        match next.filter(|_| expects || !world.core.is_ready()) {
            Some(pause) => world.pass(pause.max(1)),
            None if world.core.machine().is_busy() => {
                interrupts += 1;
                assert!(interrupts < 5, "busy for ever");
                let (queue, by) = (QueuePolicy::Keep, ann());
                world.command(SessionCommand::Interrupt { queue, by, turn: None });
            }
            None if world.core.machine().status() == journal::SessionStatus::Failed => {
                let prompt = world.users.plain_prompt();
                world.command(SessionCommand::Prompt(prompt));
            }
            None if world.invariants.held => {
                world.command(SessionCommand::ResumeQueue { by: ann(), limit: None });
            }
            None => return,
        }
    }
    panic!("the session does not come to rest");
}

fn answer(world: &mut AcpWorld) -> bool {
    if !world.core.is_ready() {
        return false;
    }
    let open = world.invariants.open_requests();
    let Some(request) = open.first().cloned() else { return false };
    let choice = if world.random.one_in(2) { "yes" } else { "no" }.to_owned();
    let answer = RequestAnswer::Choose { choice };
    world.command(SessionCommand::Answer { request, answer, by: ann() });
    world.invariants.open_requests() != open
}
