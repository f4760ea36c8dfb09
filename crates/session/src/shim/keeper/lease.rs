//! How long an agent lives without an owner.

use std::time::{Duration, Instant};

use super::pulse::Doing;

/// How long the first owner may take to come, however short the grace: it is on its way.
const ARRIVAL: Duration = Duration::from_secs(30);

/// How long an agent lives without an owner, and since when it has none.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) grace: Duration,
    pub(super) ask_grace: Duration,
    pub(super) limit: Duration,
    /// When the owner left; nothing while there is one.
    left: Option<Instant>,
    /// Whether there ever was one.
    owned: bool,
    doing: Doing,
    since: Instant,
}

impl Lease {
    /// A lease that runs from `now` on, before any owner has come.
    pub(super) fn new(grace: Duration, ask_grace: Duration, limit: Duration, now: Instant) -> Self {
        let left = Some(now);
        Self { grace, ask_grace, limit, left, owned: false, doing: Doing::Nothing, since: now }
    }

    pub(super) fn owner_came(&mut self) {
        self.left = None;
        self.owned = true;
    }

    pub(super) fn owner_left(&mut self, now: Instant) {
        self.left.get_or_insert(now);
    }

    /// What the agent does, seen now.
    pub(super) fn seen(&mut self, doing: Doing, now: Instant) {
        if doing != self.doing {
            self.doing = doing;
            self.since = now;
        }
    }

    /// When the agent must end, as things stand.
    pub(super) fn end(&self) -> Option<Instant> {
        let left = self.left?;
        let since = left.max(self.since);
        let sooner = match self.doing {
            Doing::Nothing if self.owned => since.checked_add(self.grace),
            Doing::Nothing => since.checked_add(self.grace.max(ARRIVAL)),
            Doing::Waiting => since.checked_add(self.ask_grace),
            Doing::Turn => None,
        };
        self.limit_end().into_iter().chain(sooner).min()
    }

    /// When the agent must end whatever it does. What is too far away to be counted never comes.
    pub(super) fn limit_end(&self) -> Option<Instant> {
        self.left?.checked_add(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Doing, Lease};

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lease(now: Instant) -> Lease {
        Lease::new(secs(10), secs(100), secs(1000), now)
    }

    #[test]
    fn an_owned_agent_lives() {
        let start = Instant::now();
        let mut lease = lease(start);
        assert_eq!(lease.end(), Some(start + secs(30)), "nobody came yet");
        lease.owner_came();
        assert_eq!(lease.end(), None);
    }

    #[test]
    fn a_turn_finishes_and_the_grace_counts_from_its_end() {
        let start = Instant::now();
        let mut lease = lease(start);
        lease.owner_came();
        lease.seen(Doing::Turn, start + secs(1));
        lease.owner_left(start + secs(2));
        assert_eq!(lease.end(), Some(start + secs(1002)), "but not for ever");
        lease.seen(Doing::Nothing, start + secs(50));
        lease.seen(Doing::Nothing, start + secs(55));
        assert_eq!(lease.end(), Some(start + secs(60)));
    }

    #[test]
    fn one_that_waits_for_a_person_is_given_longer_from_when_the_owner_left() {
        let start = Instant::now();
        let mut lease = lease(start);
        lease.owner_came();
        lease.seen(Doing::Waiting, start + secs(1));
        lease.owner_left(start + secs(20));
        assert_eq!(lease.end(), Some(start + secs(120)));
        lease.seen(Doing::Turn, start + secs(30));
        assert_eq!(lease.end(), Some(start + secs(1020)));
    }

    #[test]
    fn a_limit_beyond_all_time_is_none() {
        let start = Instant::now();
        let mut lease = Lease::new(Duration::MAX, Duration::MAX, Duration::MAX, start);
        assert_eq!(lease.end(), None);
        lease.owned = true;
        lease.grace = secs(1);
        assert_eq!(lease.end(), Some(start + secs(1)));
    }
}
