//! From a plan to an agent that runs.
//!
//! Nothing is started before everything else stands: the lock, the spool, the socket. The register is
//! written last, so whoever reads it finds a socket that listens.

use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

use super::agent::Agent;
use super::alarm::Alarm;
use super::door::Door;
use super::keep::Keeper;
use crate::shim::kin;
use crate::shim::place::{Place, Register, private_directory};
use crate::shim::plan::{Plan, Refusal};
use crate::shim::spool::Spool;

/// How long the shim before may still take to leave: it has told its owner of the end by then.
const PREDECESSOR_PATIENCE: Duration = Duration::from_secs(3);

/// Starts the agent, or says why not.
pub(super) fn begin(plan: &Plan) -> Result<Keeper, Refusal> {
    for path in [&plan.directory, &plan.socket, &plan.working_directory] {
        if !path.is_absolute() {
            return Err(Refusal::Plan(format!("`{}` is not an absolute path", path.display())));
        }
    }
    detach();
    let place = Place::at(&plan.directory);
    private_directory(&plan.directory).map_err(|error| cannot_make(&plan.directory, &error))?;
    if let Some(directory) = plan.socket.parent() {
        private_directory(directory).map_err(|error| cannot_make(directory, &error))?;
    }
    let occupied = || Refusal::Occupied { directory: plan.directory.display().to_string() };
    let lock = place
        .lock_shim_within(PREDECESSOR_PATIENCE)
        .map_err(|error| cannot_make(&plan.directory, &error))?
        .ok_or_else(occupied)?;
    if place.had(plan.run) {
        return Err(occupied());
    }
    let alarm = Alarm::set().map_err(|error| cannot_make(&plan.directory, &error))?;
    let spool =
        Spool::create(&place, plan.run).map_err(|error| cannot_make(&plan.directory, &error))?;
    let door = Door::open(&plan.socket).map_err(|error| cannot_make(&plan.socket, &error))?;
    let agent = Agent::start(plan).inspect_err(|_| {
        // What was made for an agent that never was would look like what one left.
        let _ = place.remove(plan.run);
        door.remove();
    })?;
    let shim = rustix::process::getpid().as_raw_nonzero().get();
    let register = Register {
        run: plan.run,
        socket: plan.socket.clone(),
        shim,
        agent: agent.id,
        agent_born: kin::birth(agent.id, &plan.marker),
        marker: plan.marker.clone(),
    };
    let keeper = Keeper::new(plan, place, lock, spool, door, alarm, agent, Instant::now());
    if let Err(error) = keeper.register(&register) {
        keeper.abandon();
        return Err(cannot_make(&plan.directory, &error));
    }
    Ok(keeper)
}

fn cannot_make(path: &Path, reason: &dyn Display) -> Refusal {
    Refusal::Place { path: path.display().to_string(), reason: reason.to_string() }
}

/// Leaves the session of whoever started this process, and its working directory, and takes in what
/// the agent's descendants leave behind.
fn detach() {
    // It fails only for a leader of a group, which is detached enough.
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    #[cfg(target_os = "linux")]
    {
        let ours = rustix::process::getpid();
        // Without it, orphans are found by their marker alone.
        let _ = rustix::process::set_child_subreaper(Some(ours));
    }
}
