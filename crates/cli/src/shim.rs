//! The hidden mode in which this program is the shim between Towpath and one agent.
//!
//! It is not part of the documented command line, and it is checked before the command line is
//! parsed: one shim runs for every live agent, and building the argument parser would take a good
//! part of the shim's memory.

/// Whether this process was started as a shim.
pub(crate) fn is_requested() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().is_some_and(|first| first == session::shim::MODE) && arguments.next().is_none()
}

/// Runs the shim until its agent has exited.
pub(crate) fn run() -> ! {
    std::process::exit(session::shim::run_shim())
}
