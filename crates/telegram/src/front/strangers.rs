//! People who are not on the list: each is worth a line in the log now and then.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::chat::Moment;
use crate::place::UserId;

/// How long nothing more is said of somebody.
const SILENCE: Duration = Duration::from_hours(1);

/// How many are told of within that time: a bot's name is public, and a log is finite.
const MOST: usize = 100;

/// Who was told of, and when.
#[derive(Debug, Default)]
pub(super) struct Strangers(BTreeMap<UserId, Moment>);

impl Strangers {
    /// Whether somebody is worth a word.
    pub(super) fn is_news(&mut self, user: UserId, now: Moment) -> bool {
        self.0.retain(|_, told| now.abs_diff(*told) < SILENCE);
        if self.0.len() >= MOST || self.0.contains_key(&user) {
            return false;
        }
        self.0.insert(user, now);
        true
    }
}
