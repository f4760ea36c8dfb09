//! Updates as Telegram sends them, and what becomes of them.

#![expect(clippy::needless_pass_by_value, reason = "tables of JSON are hard enough to read")]

mod content;
mod gathering;
mod people;
mod robust;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::{DOWNLOAD, Front, Rules, Taken};
use crate::deed::{Deed, Draft};
use crate::place::{Kind, Place, UserId};
use crate::update::Update;

const ANN: i64 = 501;
const BOB: i64 = 502;
const BOT: i64 = 9000;

fn rules() -> Rules {
    Rules {
        allow: BTreeSet::from([UserId(ANN), UserId(BOB)]),
        bot: UserId(BOT),
        username: "towpath_bot".to_owned(),
        download: DOWNLOAD,
    }
}

fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn user(id: i64) -> Value {
    match id {
        ANN => {
            json!({"id": ANN, "is_bot": false, "first_name": "Ann", "username": "ann_w", "language_code": "en"})
        }
        BOB => json!({"id": BOB, "is_bot": false, "first_name": "Bob"}),
        BOT => {
            json!({"id": BOT, "is_bot": true, "first_name": "Towpath", "username": "towpath_bot"})
        }
        id => json!({"id": id, "is_bot": false, "first_name": "Eve\n", "username": "eve"}),
    }
}

/// A message in a private chat with Ann; `more` adds fields or has others in their place.
fn message(id: i64, more: Value) -> Value {
    let mut message = json!({
        "message_id": id,
        "from": user(ANN),
        "chat": {"id": ANN, "first_name": "Ann", "username": "ann_w", "type": "private"},
        "date": 1_763_200_000,
    });
    put(&mut message, more);
    message
}

/// A message of Ann's in a group with topics.
fn in_group(id: i64, more: Value) -> Value {
    let chat = json!({"id": -1_001_234_567_890_i64, "title": "Team", "type": "supergroup", "is_forum": true});
    let mut message = message(id, json!({ "chat": chat }));
    put(&mut message, more);
    message
}

fn put(message: &mut Value, more: Value) {
    let (Value::Object(fields), Value::Object(more)) = (message, more) else {
        panic!("no objects")
    };
    fields.extend(more);
}

fn update(number: i64, message: Value) -> Update {
    read(json!({"update_id": number, "message": message}))
}

fn edit(number: i64, message: Value) -> Update {
    read(json!({"update_id": number, "edited_message": message}))
}

fn read(update: Value) -> Update {
    Update::read(&update.to_string()).expect("an update")
}

/// What becomes of messages that come at the same moment, once nothing more comes.
fn deeds(messages: impl IntoIterator<Item = Value>) -> Vec<String> {
    let mut front = Front::new(rules());
    let mut taken = Vec::new();
    for (number, message) in (1..).zip(messages) {
        taken.extend(front.take(&update(number, message), at(0)));
    }
    taken.extend(front.due(at(60_000)));
    assert_eq!(front.wakes(), None);
    told(&taken)
}

fn prompt(messages: impl IntoIterator<Item = Value>) -> Draft {
    let mut front = Front::new(rules());
    let mut taken = Vec::new();
    for (number, message) in (1..).zip(messages) {
        taken.extend(front.take(&update(number, message), at(0)));
    }
    taken.extend(front.due(at(60_000)));
    let mut deeds = taken.into_iter().flat_map(|it| it.deeds);
    match (deeds.next(), deeds.next()) {
        (Some(Deed::Prompt(draft)), None) => draft,
        other => panic!("not one prompt: {other:?}"),
    }
}

fn told(taken: &[Taken]) -> Vec<String> {
    taken.iter().flat_map(|it| &it.deeds).map(tell).collect()
}

/// A deed in a line.
fn tell(deed: &Deed) -> String {
    match deed {
        Deed::Prompt(draft) => {
            let mut line = format!("prompt {}", site(draft.place, Some(draft.kind)));
            let numbers: Vec<_> = draft.messages.iter().map(|it| it.0.to_string()).collect();
            write!(line, " [{}]", numbers.join(" ")).unwrap();
            if let Some(to) = draft.reply_to {
                write!(line, " to {}", to.0).unwrap();
            }
            write!(line, " {:?}", draft.words()).unwrap();
            for file in &draft.attachments {
                let sort = if file.picture { "picture" } else { "file" };
                write!(line, " +{sort} {} {}", file.file, file.name).unwrap();
            }
            line
        }
        Deed::Reword { place, message, text, whole } => {
            let extent = if *whole { "whole" } else { "part" };
            format!("reword {} {} {extent} {text:?}", site(*place, None), message.0)
        }
        Deed::Command { place, kind, message, command, by } => {
            let place = site(*place, Some(*kind));
            format!("command {place} {} {command:?} by {}", message.0, by.name)
        }
        Deed::Tap { place, kind, tap, message, data, by } => {
            let place = site(*place, Some(*kind));
            format!("tap {place} {} {tap} {data} by {}", message.0, by.name)
        }
        Deed::Left { place, kind, message, what } => {
            format!("left {} {} {what:?}", site(*place, Some(*kind)), message.0)
        }
        Deed::Moved { from, to } => format!("moved {} {}", from.0, to.0),
        Deed::Stranger { user, name } => format!("stranger {} {name}", user.0),
    }
}

fn site(place: Place, kind: Option<Kind>) -> String {
    let chat = match place.chat.0 {
        ANN => "ann".to_owned(),
        -1_001_234_567_890 => "team".to_owned(),
        other => other.to_string(),
    };
    let kind = match kind {
        Some(Kind::Private) => "private ",
        Some(Kind::Group) => "group ",
        None => "",
    };
    match place.thread {
        Some(thread) => format!("{kind}{chat}/{}", thread.0),
        None => format!("{kind}{chat}"),
    }
}
