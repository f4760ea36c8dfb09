//! How an agent is spoken with.
//!
//! The machine decides on meanings: an [`AgentEvent`] comes in, an [`AgentMessage`] goes out. For the CLI
//! each line has one meaning and each message is one line, without any state. An agent over the Agent
//! Client Protocol needs a [driver](AcpDriver), because there a message may need several lines or none,
//! and an answer only has a meaning together with its request.

mod acp;

use wire::note::Note;
use wire::outgoing::OutgoingLine;

use crate::agent_event::AgentEvent;

pub(crate) use acp::AcpDriver;

/// How the agent of a session is spoken with.
#[derive(Debug)]
pub(crate) enum AgentDialect {
    StreamJson,
    Acp(Box<AcpDriver>),
}

/// Something that follows from a line of the agent or a message to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DialectStep {
    /// What the machine is told.
    Event(AgentEvent),
    /// A line for the agent.
    Send(OutgoingLine),
    /// What is written into the journal.
    Note(Note),
}

impl AgentDialect {
    pub(crate) fn driver(&mut self) -> Option<&mut AcpDriver> {
        match self {
            Self::StreamJson => None,
            Self::Acp(driver) => Some(driver),
        }
    }

    /// When a driver needs a tick.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match self {
            Self::StreamJson => None,
            Self::Acp(driver) => driver.deadline(),
        }
    }

    /// What was agreed with the agent, if that has changed since it was last asked for.
    pub(crate) fn take_changed_state(&mut self) -> Option<String> {
        self.driver()?.take_changed_state()
    }
}
