//! Replies about messages that are sent later.

use session::PromptSchedule;
use uuid::Uuid;

use super::super::*;
use super::{NOW, ann};

fn schedule(number: u128, text: &str, when: &str) -> PromptSchedule {
    PromptSchedule {
        id: Uuid::from_u128(number),
        text: text.to_owned(),
        when: when.to_owned(),
        zone: "Europe/Berlin".to_owned(),
        next: NOW,
        by: ann(),
        created: 0,
        last: None,
    }
}

pub(super) fn replies_about_schedules() -> Vec<(&'static str, BotReply)> {
    let huge = "<b>&`_* ".repeat(9_000);
    let some = [
        schedule(1, "look at the\n<builds>", "weekdays 09:00"),
        schedule(2, "once", "at 2026-11-15 10:30"),
    ];
    let many: Vec<_> = (0..50).map(|number| schedule(number, &huge, "every 1m")).collect();
    vec![
        ("nothing scheduled", schedules(&[], "UTC")),
        ("scheduled", schedules(&some, "Europe/Berlin")),
        ("much scheduled", schedules(&many, &huge)),
        ("schedule added", schedule_added(Some(&some[0]))),
        ("schedule added and sent", schedule_added(None)),
        ("schedule removed", schedule_removed(Some(&some[0]))),
        ("unknown schedule removed", schedule_removed(None)),
        ("no time", schedule_incomplete(&huge)),
        ("schedule refused", schedule_refused("`at 9` is no time: write `at 09:00`")),
    ]
}
