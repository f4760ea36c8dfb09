//! Holding the queue: prompts wait although the agent could take them.

use uuid::Uuid;
use wire::note::{Actor, HoldReason, Note};

use super::Machine;

impl Machine {
    /// The next prompt to send; none if the queue is empty or held.
    pub(super) fn next_prompt(&self) -> Option<Uuid> {
        self.prompts.next_queued().filter(|_| !self.is_queue_held())
    }

    /// Whether prompts wait until someone resumes the queue.
    pub fn is_queue_held(&self) -> bool {
        self.options.queue_hold.is_some()
    }

    /// Whether prompts wait for a person or for their time, so that the session has not ended.
    pub(super) fn has_later_prompts(&self) -> bool {
        self.is_queue_held() || !self.options.schedules.is_empty()
    }

    /// Holds the queue, unless it is empty or held already.
    pub(super) fn hold_queue(&mut self, reason: HoldReason, by: Option<Actor>) {
        if self.is_queue_held() || self.prompts.next_queued().is_none() {
            return;
        }
        self.change_options(|options| options.queue_hold = Some(reason.clone()));
        self.note(Note::QueueHeld { reason, by });
    }

    pub(super) fn resume_queue(&mut self, by: Option<Actor>) {
        if !self.is_queue_held() {
            return;
        }
        if let Some(by) = &by {
            self.raise_budget(by);
        }
        self.change_options(|options| options.queue_hold = None);
        self.note(Note::QueueResumed { by });
    }

    /// A person sends a prompt, or wants one to be sent now, after the turn was stopped.
    pub(super) fn go_on_after_interrupt(&mut self, by: Option<Actor>) {
        if self.options.queue_hold == Some(HoldReason::Interrupted) {
            self.resume_queue(by);
        }
    }

    /// A queue in which nothing is left is not held: the next prompt would wait for no reason.
    pub(super) fn release_empty_queue(&mut self) {
        if self.prompts.next_queued().is_none() {
            self.resume_queue(None);
        }
    }
}
