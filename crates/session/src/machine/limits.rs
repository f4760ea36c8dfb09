//! How patient a session is.

/// How patient a session is, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Until a new process must have answered `initialize`. A loaded machine takes seconds.
    pub initialize: u64,
    /// Until the agent must have answered any other request of ours: up to 2.1.37 it does not
    /// answer one it does not know.
    pub control: u64,
    /// From an interrupt until the process is told to end; it usually obeys within 200 ms.
    pub interrupt: u64,
    /// From there until everything the agent started is killed.
    pub end: u64,
    /// Until a request to a person is refused for want of an answer; never where nothing is said.
    pub request: Option<u64>,
    /// Until an agent with nothing to do is ended; never where nothing is said.
    pub park: Option<u64>,
    /// Until a silent turn is called stalled.
    pub stall: u64,
    /// Until the agent must have begun with a prompt that it took during the turn before.
    pub carry: u64,
    /// From the agent's word that it has nothing to do until a turn without a result is over.
    pub idle: u64,
    /// Deaths in a row after which no further process is started unasked.
    pub restarts: u32,
}

impl Default for Limits {
    fn default() -> Self {
        const SECOND: u64 = 1000;
        const MINUTE: u64 = 60 * SECOND;
        Self {
            initialize: MINUTE,
            control: 20 * SECOND,
            interrupt: 5 * SECOND,
            end: 5 * SECOND,
            request: Some(24 * 60 * MINUTE),
            park: Some(30 * MINUTE),
            stall: 2 * MINUTE,
            carry: 30 * SECOND,
            idle: 2 * SECOND,
            restarts: 3,
        }
    }
}
