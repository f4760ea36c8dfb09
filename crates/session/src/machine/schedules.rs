//! Prompts that are sent at their time.
//!
//! The wall clock decides when. A prompt whose time passed while nothing ran is sent once, as soon as
//! something runs again; how many more were missed is noted. What is stored in one step is the note,
//! the prompt in the queue and the next time, so that a crash leaves all of it or nothing.

use uuid::Uuid;
use wire::note::{Actor, Delivery, Note, PromptState};
use wire::outgoing::OutgoingPrompt;

use super::Machine;
use crate::command::{CommandError, CommandOutput, CommandResult, NewPrompt};
use crate::schedule::{
    MAX_SCHEDULE_TEXT, MAX_SCHEDULES, NewSchedule, PromptSchedule, ScheduleError, ScheduleTimes,
};

/// The wall clock is looked at again after this time: it may be set, and the monotonic clock stands
/// still while the machine is suspended.
const CLOCK_CHECK: u64 = 60_000;

impl Machine {
    pub(super) fn add_schedule(&mut self, new: NewSchedule) -> CommandResult {
        if let Some(reason) = &self.unreadable_options {
            return Err(CommandError::UnreadableOptions(reason.clone()));
        }
        // The same id again is the same schedule again.
        if self.options.schedules.iter().any(|known| known.id == new.id) {
            return Ok(CommandOutput::None);
        }
        let invalid = |error: ScheduleError| CommandError::Invalid(error.to_string().into());
        let NewSchedule { id, text, when, zone, by } = new;
        if text.len() > MAX_SCHEDULE_TEXT {
            let most = MAX_SCHEDULE_TEXT >> 10;
            let text = format!(
                "the text of a scheduled prompt may have at most {most} KiB; put it into a file and \
                 name the file"
            );
            return Err(CommandError::Invalid(text.into()));
        }
        if self.options.schedules.len() >= MAX_SCHEDULES {
            let text = format!("a session may have at most {MAX_SCHEDULES} scheduled prompts");
            return Err(CommandError::Invalid(text.into()));
        }
        let prompt = OutgoingPrompt::with_images(id, text.clone(), Vec::new());
        self.limits.check_prompt(prompt.map_err(|_| CommandError::EmptyPrompt)?)?;
        let time_zone = ScheduleTimes::zone(&zone).map_err(invalid)?;
        let times = ScheduleTimes::parse(&when, &time_zone, self.wall).map_err(invalid)?;
        let next = times.after(self.wall, &time_zone);
        let next = next.ok_or_else(|| invalid(ScheduleError::Passed(when)))?;
        let when = times.text(&time_zone);
        let schedule = PromptSchedule {
            id,
            text: text.clone(),
            when: when.clone(),
            zone: zone.clone(),
            next,
            by: by.clone(),
            created: self.wall,
            last: None,
        };
        // A session that is set to be deleted when it has ended has not.
        self.ended = false;
        self.change_options(|options| options.schedules.push(schedule));
        self.note(Note::PromptScheduled { schedule: id, text, when, zone, next, by });
        Ok(CommandOutput::None)
    }

    pub(super) fn remove_schedule(&mut self, schedule: Uuid, by: Actor) -> CommandResult {
        if !self.options.schedules.iter().any(|known| known.id == schedule) {
            return Err(CommandError::NoSuchSchedule);
        }
        self.change_options(|options| options.schedules.retain(|known| known.id != schedule));
        self.note(Note::ScheduleRemoved { schedule, by });
        Ok(CommandOutput::None)
    }

    /// When the next prompt is to be sent, or the clock is to be looked at again.
    pub(super) fn schedule_deadline(&self) -> Option<u64> {
        let next = self.options.schedules.iter().map(|it| it.next).min();
        let next = next.filter(|_| self.limits.sends_scheduled)?;
        Some(self.now + next.saturating_sub(self.wall).min(CLOCK_CHECK))
    }

    /// Queues the prompts whose time has come.
    pub(super) fn send_scheduled(&mut self) {
        if !self.limits.sends_scheduled {
            return;
        }
        let now = self.wall;
        let due = self.options.schedules.iter().filter(|it| it.next <= now);
        let mut due: Vec<PromptSchedule> = due.cloned().collect();
        due.sort_by_key(|schedule| schedule.next);
        for schedule in due {
            self.send_schedule(&schedule);
        }
    }

    fn send_schedule(&mut self, schedule: &PromptSchedule) {
        let (id, due) = (schedule.id, schedule.next);
        // A later version may have written a time that this one cannot read.
        let following = ScheduleTimes::zone(&schedule.zone).ok().and_then(|zone| {
            // A single time has passed by now, so it is read as it was meant before it.
            let times = ScheduleTimes::parse(&schedule.when, &zone, due.saturating_sub(1)).ok()?;
            Some(times.advance(due, self.wall, &zone))
        });
        let (next, missed) = following.unwrap_or((None, 0));
        // Prompts must not pile up behind a long turn.
        let waits = |it: &Uuid| self.prompts.state(*it) == Some(PromptState::Queued);
        let waits = schedule.last.as_ref().is_some_and(waits);
        let prompt = (!waits).then(|| schedule.prompt_id(due));
        self.change_options(|options| match next {
            Some(next) => {
                let known = options.schedules.iter_mut().find(|it| it.id == id);
                if let Some(known) = known {
                    known.next = next;
                    known.last = prompt.or(known.last);
                }
            }
            None => options.schedules.retain(|it| it.id != id),
        });
        self.note(Note::ScheduleDue { schedule: id, prompt, due, missed, next });
        if let Some(prompt) = prompt.filter(|it| self.prompts.state(*it).is_none()) {
            self.retry_failed_agent();
            self.queue_prompt(NewPrompt {
                id: prompt,
                text: schedule.text.clone(),
                images: Vec::new(),
                delivery: Delivery::Queue,
                by: Actor { name: schedule.by.name.clone(), via: "schedule".to_owned() },
            });
        }
    }
}
