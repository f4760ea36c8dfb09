//! What a prompt waits for before the agent gets it, besides the journal.
//!
//! In a fleet another machine may take a session over while this one is cut off. It must know of every prompt
//! that an agent was given, or it would run the prompt again. So a prompt goes to the agent only after the
//! machines of the fleet have its record too. Nothing else waits: the agent's output does not, and neither do
//! answers to its requests, which cannot be given twice.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use journal::SessionId;

use crate::shim::ShimCommand;

/// Whether a prompt may be given to the agent.
pub type GateFuture<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Waits until what a session has written is stored elsewhere too.
pub trait PromptConfirmation: fmt::Debug + Send + Sync {
    /// Waits for everything that the session has written so far. False if it never will be, because the
    /// session belongs to another machine: its agent gets no prompt any more.
    fn confirmed(&self, session: SessionId) -> GateFuture<'_>;
}

/// The gate of all sessions of a process. It is open until it is [set](Self::set). Clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct PromptGate(Arc<OnceLock<Arc<dyn PromptConfirmation>>>);

impl PromptGate {
    /// Makes prompts wait from now on. Only the first call has an effect.
    pub fn set(&self, confirmation: Arc<dyn PromptConfirmation>) {
        let _ = self.0.set(confirmation);
    }

    pub(crate) fn get(&self) -> Option<&Arc<dyn PromptConfirmation>> {
        self.0.get()
    }
}

/// Whether a command gives the agent a prompt. The product writes these lines itself, so their beginning is
/// known.
pub(crate) fn is_prompt(command: &ShimCommand) -> bool {
    let ShimCommand::Write { bytes, .. } = command else { return false };
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.into_iter().any(|line| {
        let head = &line[..line.len().min(256)];
        line.starts_with(br#"{"type":"user""#) || contains(head, br#""session/prompt""#)
    })
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
