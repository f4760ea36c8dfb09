//! Waiting for whoever has something, and hearing it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::attend::STALLED;
use super::keep::{Keeper, Phase, Record};

/// How long an agent may take to finish by itself when its shim is told to end.
const TERMINATED_PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks at what is left.
const DRAIN_PAUSE: Duration = Duration::from_millis(10);

/// Who has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Alarm,
    Owner,
    Door,
    Stdout,
    Stderr,
    Stdin,
}

impl Keeper {
    /// Waits until somebody has something, or something is due.
    pub(super) fn wait(&self, now: Instant) -> Vec<Source> {
        let mut sources = vec![(Source::Alarm, self.alarm.bell().as_fd(), PollFlags::IN)];
        if let Some(owner) = &self.owner {
            let awaits = owner.awaits(&self.spool);
            let out = if awaits { PollFlags::OUT } else { PollFlags::empty() };
            sources.push((Source::Owner, owner.socket.as_fd(), PollFlags::IN | out));
        }
        let door = self.door.to_poll().map(AsFd::as_fd).into_iter();
        let guests = self.door.guests().map(AsFd::as_fd);
        sources.extend(door.chain(guests).map(|fd| (Source::Door, fd, PollFlags::IN)));
        if let (Some(stdout), None) = (&self.agent.stdout, &self.stuck) {
            sources.push((Source::Stdout, stdout.as_fd(), PollFlags::IN));
        }
        if let Some(stderr) = &self.agent.stderr {
            sources.push((Source::Stderr, stderr.as_fd(), PollFlags::IN));
        }
        if let Some(stdin) = self.agent.stdin_to_poll() {
            sources.push((Source::Stdin, stdin.as_fd(), PollFlags::OUT));
        }
        let mut polled: Vec<PollFd<'_>> =
            sources.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();

        let timeout = self.due(now).map(|due| {
            let left = due.saturating_duration_since(now);
            // Rounded up: a wait that ends just before its time would be followed by many more.
            Timespec::try_from(left + Duration::from_millis(1)).unwrap_or_default()
        });
        if poll(&mut polled, timeout.as_ref()).is_err() {
            // A signal came; the alarm tells of those that matter.
            return vec![Source::Alarm];
        }
        let ready = sources.iter().zip(&polled).filter(|(_, fd)| !fd.revents().is_empty());
        ready.map(|((source, ..), _)| *source).collect()
    }

    /// When something is to be done even if nobody has anything.
    fn due(&self, now: Instant) -> Option<Instant> {
        let mut due = [self.door.due(), self.stuck.as_ref().map(|stuck| stuck.retry), None, None];
        match &self.phase {
            Phase::Running if self.ending.has_begun() => due[2] = self.ending.due(),
            Phase::Running => due[2] = self.lease.end(),
            // With a full disk there is nothing to look at before the next try.
            Phase::Draining { .. } if self.stuck.is_some() => {}
            Phase::Draining { .. } => due[2] = Some(now + DRAIN_PAUSE),
            Phase::Over { record, .. } => {
                due[2] = self.owner.as_ref().map(|owner| owner.moved + STALLED);
                if let Record::Due { at, .. } = record {
                    due[3] = Some(*at);
                }
            }
        }
        due.into_iter().flatten().min()
    }

    /// Deals with whoever has something.
    pub(super) fn hear(&mut self, ready: &[Source]) {
        let now = Instant::now();
        if ready.contains(&Source::Alarm) && self.alarm.hear() {
            self.begin_ending(now, TERMINATED_PATIENCE);
        }
        self.reap(now);
        if ready.contains(&Source::Owner) {
            self.hear_owner(now);
        }
        if ready.contains(&Source::Stdout) {
            self.read_stdout(now);
        }
        if ready.contains(&Source::Stderr) {
            self.read_stderr();
        }
        if ready.contains(&Source::Stdin) {
            self.agent.write();
        }
        if ready.contains(&Source::Door) {
            self.door.admit(now);
        }
        for caller in self.door.callers(now) {
            self.receive(caller, now);
        }
    }
}
