//! Updates as Telegram sends them and the actions they become: users and chats.

#![expect(clippy::needless_pass_by_value, reason = "tables of JSON stay readable")]

mod prompts;
mod properties;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use session::OptionRole;

use super::{DOWNLOAD_LIMIT, Inbound, InboundAction, InboundBatch, InboundConfig, PromptDraft};
use crate::address::{ChatAddress, ChatKind, TelegramUserId};
use crate::update::TelegramUpdate;

const ANN: i64 = 501;
const BOB: i64 = 502;
const BOT: i64 = 9000;

fn config() -> InboundConfig {
    InboundConfig {
        allowed_users: BTreeSet::from([TelegramUserId(ANN), TelegramUserId(BOB)]),
        admins: BTreeSet::from([TelegramUserId(BOB)]),
        bot: TelegramUserId(BOT),
        username: "towpath_bot".to_owned(),
        download_limit: DOWNLOAD_LIMIT,
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

/// A message in a private chat with Ann. `more` adds or replaces fields.
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

fn update(number: i64, message: Value) -> TelegramUpdate {
    read(json!({"update_id": number, "message": message}))
}

fn edit(number: i64, message: Value) -> TelegramUpdate {
    read(json!({"update_id": number, "edited_message": message}))
}

fn read(update: Value) -> TelegramUpdate {
    TelegramUpdate::read(&update.to_string()).expect("an update")
}

/// The actions of messages that arrive at the same time.
fn actions(messages: impl IntoIterator<Item = Value>) -> Vec<String> {
    let mut inbound = Inbound::new(config());
    let mut batches = Vec::new();
    for (number, message) in (1..).zip(messages) {
        batches.extend(inbound.receive(&update(number, message), at(0)));
    }
    batches.extend(inbound.take_due(at(60_000)));
    assert_eq!(inbound.next_due(), None);
    described(&batches)
}

fn prompt(messages: impl IntoIterator<Item = Value>) -> PromptDraft {
    let mut inbound = Inbound::new(config());
    let mut batches = Vec::new();
    for (number, message) in (1..).zip(messages) {
        batches.extend(inbound.receive(&update(number, message), at(0)));
    }
    batches.extend(inbound.take_due(at(60_000)));
    let mut actions = batches.into_iter().flat_map(|it| it.actions);
    match (actions.next(), actions.next()) {
        (Some(InboundAction::Prompt(draft)), None) => draft,
        other => panic!("not one prompt: {other:?}"),
    }
}

fn described(batches: &[InboundBatch]) -> Vec<String> {
    batches.iter().flat_map(|it| &it.actions).map(describe).collect()
}

/// An action in one line.
fn describe(action: &InboundAction) -> String {
    match action {
        InboundAction::Prompt(draft) => {
            let mut line = format!("prompt {}", site(draft.address, Some(draft.kind)));
            let numbers: Vec<_> = draft.messages.iter().map(|it| it.0.to_string()).collect();
            write!(line, " [{}]", numbers.join(" ")).unwrap();
            if let Some(to) = draft.reply_to {
                write!(line, " to {}", to.0).unwrap();
            }
            write!(line, " {:?}", draft.prompt_text()).unwrap();
            for file in &draft.attachments {
                let sort = if file.picture { "picture" } else { "file" };
                write!(line, " +{sort} {} {}", file.file_id, file.name).unwrap();
            }
            line
        }
        InboundAction::EditPrompt { address, message, text, whole } => {
            let extent = if *whole { "whole" } else { "part" };
            format!("edit {} {} {extent} {text:?}", site(*address, None), message.0)
        }
        InboundAction::Command { address, kind, message, command, by, .. } => {
            let address = site(*address, Some(*kind));
            format!("command {address} {} {command:?} by {}", message.0, by.name)
        }
        InboundAction::Tap { address, kind, tap, message, data, by, .. } => {
            let address = site(*address, Some(*kind));
            format!("tap {address} {} {tap} {data} by {}", message.0, by.name)
        }
        InboundAction::Rejected { address, kind, message, content } => {
            format!("rejected {} {} {content:?}", site(*address, Some(*kind)), message.0)
        }
        InboundAction::ChatMigrated { from, to } => format!("migrated {} {}", from.0, to.0),
        InboundAction::UnknownUser { user, name } => format!("unknown user {} {name}", user.0),
    }
}

fn site(address: ChatAddress, kind: Option<ChatKind>) -> String {
    let chat = match address.chat.0 {
        ANN => "ann".to_owned(),
        -1_001_234_567_890 => "team".to_owned(),
        other => other.to_string(),
    };
    let kind = match kind {
        Some(ChatKind::Private) => "private ",
        Some(ChatKind::Group) => "group ",
        None => "",
    };
    match address.topic {
        Some(topic) => format!("{kind}{chat}/{}", topic.0),
        None => format!("{kind}{chat}"),
    }
}

#[test]
fn an_allowed_user_is_served_and_others_get_no_answer() {
    assert_eq!(
        actions([message(7, json!({"text": "hello"}))]),
        [r#"prompt private ann [7] "hello""#]
    );
    let eve = json!({"from": user(666), "chat": {"id": 666, "type": "private"}, "text": "/start"});
    assert_eq!(actions([message(7, eve)]), ["unknown user 666 Eve"]);
    let mut closed = config();
    closed.allowed_users = BTreeSet::new();
    let batches =
        Inbound::new(closed).receive(&update(1, message(7, json!({"text": "hello"}))), at(0));
    assert_eq!(described(&batches), ["unknown user 501 Ann"], "an empty list allows no one");
}

#[test]
fn an_unknown_user_is_logged_once_an_hour() {
    let mut inbound = Inbound::new(config());
    let hour = 3_600_000;
    let mut counted = Vec::new();
    for (number, moment) in [(1, 0), (2, 10), (3, hour - 1), (4, hour), (5, hour + 1)] {
        let update = match number % 3 {
            0 => read(json!({"update_id": number, "callback_query":
                {"id": "77", "from": user(666), "data": "x", "message": message(1, json!({}))}})),
            1 => update(number, message(number, json!({"from": user(666), "text": "psst"}))),
            _ => edit(number, message(number, json!({"from": user(666), "text": "psst"}))),
        };
        let batches = inbound.receive(&update, at(moment));
        assert_eq!(batches.iter().flat_map(|it| &it.updates).collect::<Vec<_>>(), [&number]);
        counted.push(described(&batches).len());
    }
    assert_eq!(counted, [1, 0, 0, 1, 0]);
}

#[test]
fn many_unknown_users_do_not_fill_the_log() {
    let mut inbound = Inbound::new(config());
    let described = (1..=1000).map(|id| {
        let from = json!({"id": 10_000 + id, "first_name": "x"});
        described(
            &inbound.receive(&update(id, message(id, json!({"from": from, "text": "x"}))), at(0)),
        )
        .len()
    });
    assert_eq!(described.sum::<usize>(), 100);
}

#[test]
fn bots_channels_and_messages_on_behalf_of_a_chat_are_ignored() {
    let group = json!({"id": -1_001_234_567_890_i64, "type": "supergroup", "title": "Team"});
    let anonymous = json!({"id": 1_087_968_824, "is_bot": true, "first_name": "Group"});
    for more in [
        json!({"from": user(BOT), "text": "me"}),
        json!({"from": anonymous, "sender_chat": group, "text": "admin"}),
        json!({"sender_chat": group, "text": "in the group's name"}),
        json!({"from": null, "text": "nobody"}),
        json!({"chat": {"id": -100, "type": "channel", "title": "News"}, "text": "post"}),
        json!({"new_chat_members": [user(ANN)]}),
        json!({"pinned_message": {"message_id": 1}}),
        json!({"text": "/stop@other_bot"}),
    ] {
        assert_eq!(actions([in_group(7, more.clone())]), [""; 0], "{more}");
    }
    let post = read(json!({"update_id": 1, "channel_post": message(1, json!({"text": "x"}))}));
    assert_eq!(Inbound::new(config()).receive(&post, at(0))[0].updates, [1]);
}

#[test]
fn topics_have_addresses_and_threads_of_replies_do_not() {
    let topic = json!({"message_thread_id": 42, "is_topic_message": true});
    for (more, site) in [
        (json!({}), "team"),
        (topic.clone(), "team/42"),
        (json!({"message_thread_id": 42}), "team"),
        (json!({"message_thread_id": 1, "is_topic_message": true}), "team"),
    ] {
        let mut message = in_group(50, json!({"text": "hi"}));
        put(&mut message, more);
        assert_eq!(actions([message]), [format!(r#"prompt group {site} [50] "hi""#)]);
    }
    let mut private = message(50, json!({"text": "hi"}));
    put(&mut private, topic);
    assert_eq!(actions([private]), [r#"prompt private ann/42 [50] "hi""#]);
}

#[test]
fn commands_have_their_address_and_do_not_wait() {
    let mut inbound = Inbound::new(config());
    let topic = json!({"message_thread_id": 42, "is_topic_message": true, "text": "/new@Towpath_Bot ~/x",
        "entities": [{"type": "bot_command", "offset": 0, "length": 16}]});
    let batches = inbound.receive(&update(1, in_group(50, topic)), at(0));
    let new = r#"New(NewSessionArguments { directory: Some("~/x"), same_directory: false, profile: None, options: [] })"#;
    assert_eq!(described(&batches), [format!("command group team/42 50 {new} by Ann")]);
    assert_eq!(
        actions([message(3, json!({"text": "/nonsense"}))]),
        [r#"command private ann 3 Unknown("nonsense") by Ann"#]
    );
    assert_eq!(
        actions([message(3, json!({"text": "//review 5"}))]),
        [r#"prompt private ann [3] "/review 5""#]
    );
}

#[test]
fn taps_are_passed_on() {
    let tap = |message| {
        let query = json!({"id": "4382bfdwdsb323b2d9", "from": user(ANN), "message": message,
            "chat_instance": "1", "data": "x9:a"});
        described(
            &Inbound::new(config())
                .receive(&read(json!({"update_id": 1, "callback_query": query})), at(0)),
        )
    };
    let topic = json!({"from": user(BOT), "message_thread_id": 42, "is_topic_message": true, "text": "May I?"});
    assert_eq!(tap(in_group(8, topic)), ["tap group team/42 8 4382bfdwdsb323b2d9 x9:a by Ann"]);
    let old = json!({"message_id": 8, "date": 0, "chat": {"id": ANN, "type": "private"}});
    assert_eq!(tap(old), ["tap private ann 8 4382bfdwdsb323b2d9 x9:a by Ann"]);
    assert_eq!(tap(json!(null)), [""; 0]);
}

#[test]
fn a_group_that_becomes_a_supergroup_is_migrated() {
    let more = json!({"chat": {"id": -55, "type": "group", "title": "Team"}, "from": user(666),
        "migrate_to_chat_id": -1_001_234_567_890_i64});
    assert_eq!(actions([message(9, more)]), ["migrated -55 -1001234567890"]);
}

#[test]
fn only_those_who_are_named_are_admins() {
    let role_of = |user: i64| {
        let mut inbound = Inbound::new(config());
        let text = json!({"text": "/set", "from": self::user(user)});
        let mut batches = inbound.receive(&update(1, message(3, text)), at(0));
        match batches.pop().and_then(|mut it| it.actions.pop()) {
            Some(InboundAction::Command { role, .. }) => Some(role),
            _ => None,
        }
    };
    assert_eq!(role_of(ANN), Some(OptionRole::Drive));
    assert_eq!(role_of(BOB), Some(OptionRole::Admin));
    assert_eq!(role_of(7), None, "not even allowed");
}
