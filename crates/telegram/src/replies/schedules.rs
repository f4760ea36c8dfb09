//! Replies about messages that are sent later.

use session::PromptSchedule;
use uuid::Uuid;
use view::telegram::{FormattedText, TextFormat};
use wire::consent::visible;

use super::{BotReply, formatted, shortened};
use crate::bot::BotButton;

/// Scheduled messages that are listed.
const SCHEDULES: usize = 12;

/// Characters of a scheduled message in the list and on its button.
const TEXT: usize = 120;
const LABEL: usize = 28;

const USAGE: &str = "To add one, say when and what: `/schedule tomorrow 9:00 run the tests`, \
    `/schedule every weekday at 9 look through the new issues`, `/schedule in 2h go on`.";

/// The scheduled messages, each with a button that removes it. `zone` is that in which a time is meant.
pub fn schedules(schedules: &[PromptSchedule], zone: &str) -> BotReply {
    let mut reply = BotReply::default();
    if schedules.is_empty() {
        reply.text.push("Nothing is scheduled in this session.");
    } else {
        reply.text.push_formatted(TextFormat::Bold, "Scheduled messages");
    }
    for (schedule, number) in schedules.iter().zip(1..).take(SCHEDULES) {
        let text = shortened(&visible(&schedule.text), TEXT);
        reply.text.push(&format!("\n\n{number}. {text}\n"));
        push_times(&mut reply.text, schedule);
        let by = shortened(&schedule.by.name, 40);
        reply.text.push(&format!(" · by {by}"));
        let label = format!("✕ {number}. {}", shortened(&text, LABEL));
        reply.buttons.push(vec![remove_schedule_button(label, schedule.id)]);
    }
    if schedules.len() > SCHEDULES {
        reply.text.push(&format!("\n\n… and {} more", schedules.len() - SCHEDULES));
    }
    reply.text.push("\n\n");
    reply.text.append(&formatted(USAGE));
    reply.text.append(&formatted(&format!(
        " Times are those of `{}`; for another zone, begin with `zone=Europe/Berlin`.",
        shortened(zone, 60)
    )));
    reply
}

pub fn schedule_added(schedule: Option<&PromptSchedule>) -> BotReply {
    // A short time may have passed already.
    let Some(schedule) = schedule else { return "Scheduled, and sent just now.".into() };
    let mut text = FormattedText::plain("Scheduled: ");
    push_times(&mut text, schedule);
    text.push(".");
    let label = format!("✕ {}", shortened(&visible(&schedule.text), LABEL));
    let buttons = vec![vec![remove_schedule_button(label, schedule.id)]];
    BotReply { text, buttons }
}

pub fn schedule_removed(schedule: Option<&PromptSchedule>) -> BotReply {
    match schedule {
        Some(schedule) => {
            let text = shortened(&visible(&schedule.text), LABEL);
            format!("Removed. “{text}” will not be sent.").into()
        }
        None => "Removed. It will not be sent.".into(),
    }
}

/// There is no time, or nothing that is to be sent.
pub fn schedule_incomplete(text: &str) -> BotReply {
    let mut reply = FormattedText::default();
    reply.push_formatted(TextFormat::Code, &shortened(&visible(text), 60));
    reply.push(" does not say when and what. ");
    reply.append(&formatted(USAGE));
    reply.into()
}

/// The session refused a schedule.
pub fn schedule_refused(why: &str) -> BotReply {
    formatted(&format!("Not scheduled: {}.", shortened(&visible(why), 500))).into()
}

fn push_times(text: &mut FormattedText, schedule: &PromptSchedule) {
    // A schedule that is sent once says the same as its next time.
    if !schedule.when.starts_with("at ") {
        text.push_formatted(TextFormat::Bold, &shortened(&schedule.when, 60));
        text.push(", next ");
    }
    text.push_formatted(TextFormat::Bold, &schedule.next_text());
}

fn remove_schedule_button(label: String, schedule: Uuid) -> BotButton {
    BotButton { label, data: format!("s:{}", schedule.simple()) }
}
