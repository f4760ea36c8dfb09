//! Prompts that are sent later: at a time, or again and again.
//!
//! Everything here is pure. The schedules of a session are stored with its options, and the
//! [machine](crate::machine) sends their prompts.

mod times;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wire::note::Actor;

pub use times::{ScheduleError, ScheduleTimes};

/// How many schedules a session may have.
pub const MAX_SCHEDULES: usize = 50;

/// How long the text of a scheduled prompt may be, in bytes. It is stored with the options of the
/// session, which are read whenever sessions are listed.
pub const MAX_SCHEDULE_TEXT: usize = 64 << 10;

/// A prompt that is to be sent later, as its sender made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSchedule {
    /// Made by the sender, so that a schedule that is sent again is not added twice.
    pub id: Uuid,
    pub text: String,
    /// When, in the grammar of [`ScheduleTimes`].
    pub when: String,
    /// The IANA name of the time zone in which `when` is meant.
    pub zone: String,
    pub by: Actor,
}

/// A prompt that is sent later. Stored with the options of its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptSchedule {
    pub id: Uuid,
    pub text: String,
    /// When, as [`ScheduleTimes`] writes it.
    pub when: String,
    pub zone: String,
    /// When it is sent next, in milliseconds since 1970.
    pub next: u64,
    pub by: Actor,
    pub created: u64,
    /// The prompt that it sent last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Uuid>,
}

impl PromptSchedule {
    /// The id of the prompt that is sent at `due`. It follows from the schedule and the time, so that
    /// the same occurrence cannot be sent twice.
    pub fn prompt_id(&self, due: u64) -> Uuid {
        Uuid::new_v5(&self.id, &due.to_be_bytes())
    }

    /// When it is sent next, in its own time zone, as `2026-11-17 09:00 CET`.
    pub fn next_text(&self) -> String {
        let zone = TimeZone::get(&self.zone).unwrap_or(TimeZone::UTC);
        let at = i64::try_from(self.next).ok().and_then(|it| Timestamp::from_millisecond(it).ok());
        let at = at.unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(zone);
        at.strftime("%Y-%m-%d %H:%M %Z").to_string()
    }
}
