//! The hidden mode in which this program stands between Towpath and one agent.
//!
//! It is not on the command line as people see it, and it is asked for before that is read: one of
//! these runs for every live agent, and building the arguments alone would take a good part of the
//! memory it has.

/// Whether this process was started as a shim.
pub(crate) fn is_wanted() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().is_some_and(|first| first == session::shim::MODE) && arguments.next().is_none()
}

/// Is a shim until its agent has ended.
pub(crate) fn run() -> ! {
    std::process::exit(session::shim::run_shim())
}
