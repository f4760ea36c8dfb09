//! Properties for all input: every update is returned once, and processing updates again changes nothing.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ANN, BOB, BOT, at, config, message, user};
use crate::inbound::InboundAction;
use crate::inbound::{Inbound, InboundBatch};
use crate::update::TelegramUpdate;

fn samples() -> Vec<Value> {
    let file = json!({"file_id": "F", "file_name": "a.pdf", "mime_type": "application/pdf", "file_size": 30});
    let reply = message(3, json!({"from": user(BOT), "text": "Which?\nThis?"}));
    let messages = [
        json!({"text": "hello", "entities": [{"type": "bold", "offset": 0, "length": 5}]}),
        json!({"text": "/new@towpath_bot x"}),
        json!({"text": "@towpath_bot x"}),
        json!({"photo": [{"file_id": "P", "width": 9, "height": 9, "file_size": 9}], "media_group_id": "1",
            "caption": "look"}),
        json!({"document": file, "media_group_id": "1"}),
        json!({"voice": file, "forward_origin": {"type": "user", "sender_user": user(BOB)}}),
        json!({"text": "blue", "reply_to_message": reply, "quote": {"text": "This?", "position": 7}}),
        json!({"text": "x", "message_thread_id": 42, "is_topic_message": true,
            "chat": {"id": -100_123, "type": "supergroup", "is_forum": true, "title": "T"}}),
        json!({"sticker": {"file_id": "S", "emoji": "👍"}}),
        json!({"poll": {}, "from": user(BOB)}),
    ];
    let mut samples: Vec<_> = messages
        .into_iter()
        .flat_map(|more| ["message", "edited_message"].map(|name| (name, more.clone())))
        .map(|(name, more)| json!({"update_id": 1, name: message(7, more)}))
        .collect();
    samples
        .push(json!({"update_id": 1, "callback_query": {"id": "1", "from": user(ANN), "data": "x",
        "message": message(7, json!({"from": user(BOT), "text": "May I?"}))}}));
    samples
}

/// Replaces or removes one value of an update.
fn mutate(value: &mut Value, at: usize, with: Option<&Value>) {
    fn paths(value: &Value, path: &str, out: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                let path = format!("{path}/{name}");
                out.push(path.clone());
                paths(value, &path, out);
            }),
            Value::Array(values) => values.iter().enumerate().for_each(|(index, value)| {
                paths(value, &format!("{path}/{index}"), out);
            }),
            _ => {}
        }
    }
    let mut all = Vec::new();
    paths(value, "", &mut all);
    let Some(path) = all.get(at % all.len().max(1)) else { return };
    if let Some(new) = with {
        *value.pointer_mut(path).unwrap() = new.clone();
    } else {
        let (parent, name) = path.rsplit_once('/').unwrap();
        value.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
    }
}

fn oddities() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        Just(None),
        Just(Some(Value::Null)),
        Just(Some(json!({}))),
        Just(Some(json!([]))),
        Just(Some(json!([{"file_id": 1}]))),
        any::<i64>().prop_map(|it| Some(json!(it))),
        any::<f64>().prop_map(|it| Some(json!(it))),
        any::<bool>().prop_map(|it| Some(json!(it))),
        "[/@ a\\n\u{e9}\u{1f44d}]{0,12}".prop_map(|it| Some(json!(it))),
    ]
}

prop_compose! {
    fn odd_update()(
        sample in prop::sample::select(samples()),
        changes in prop::collection::vec((any::<usize>(), oddities()), 0..4),
        message in 1..12i64,
        date in 0..6u64,
    ) -> Value {
        let mut update = sample;
        for name in ["message", "edited_message"] {
            if let Some(it) = update.get_mut(name) {
                it["message_id"] = json!(message);
                it["date"] = json!(1_763_200_000 + date);
            }
        }
        for (at, with) in changes {
            mutate(&mut update, at, with.as_ref());
        }
        update
    }
}

/// Processes updates at their times, and checks for complete prompts in between.
fn run(updates: &[(TelegramUpdate, u64)], look: &[u64]) -> Vec<InboundBatch> {
    let mut inbound = Inbound::new(config());
    let mut batches = Vec::new();
    let mut looks = look.iter().peekable();
    for (update, moment) in updates {
        while let Some(look) = looks.next_if(|look| *look <= moment) {
            batches.extend(inbound.take_due(at(*look)));
        }
        batches.extend(inbound.receive(update, at(*moment)));
    }
    batches.extend(inbound.take_due(at(1_000_000)));
    assert_eq!(inbound.pending_updates().count(), 0);
    batches
}

proptest! {
    #[test]
    fn every_update_is_returned_once_and_a_second_run_is_the_same(
        odd in prop::collection::vec((odd_update(), 0..1_500u64), 1..30),
        mut look in prop::collection::vec(0..40_000u64, 0..30),
    ) {
        let mut moment = 0;
        let updates: Vec<_> = (1..).zip(odd).filter_map(|(number, (update, pause))| {
            moment += pause;
            let mut update = TelegramUpdate::read(&update.to_string())?;
            update.update_id = number;
            Some((update, moment))
        }).collect();
        look.sort_unstable();
        let batches = run(&updates, &look);
        let mut back: Vec<_> = batches.iter().flat_map(|it| it.updates.clone()).collect();
        back.sort_unstable();
        prop_assert_eq!(back, updates.iter().map(|(it, _)| it.update_id).collect::<Vec<_>>());

        // Processing the same updates again, checked at other times, yields the same prompts.
        let prompts = |batches: &[InboundBatch]| {
            let actions = batches.iter().flat_map(|it| it.actions.clone());
            let mut prompts: Vec<_> = actions.filter_map(|action| match action {
                InboundAction::Prompt(draft) => Some((draft.id, draft.address, draft.messages, draft.text)),
                _ => None,
            }).collect();
            prompts.sort();
            prompts
        };
        prop_assert_eq!(prompts(&batches), prompts(&run(&updates, &[])));
    }

    #[test]
    fn any_text_is_read(text in any::<String>(), caption in any::<Option<String>>(), name in any::<String>()) {
        let document = json!({"file_id": "F", "file_name": name, "mime_type": name});
        let message = message(7, json!({"text": text, "caption": caption, "document": document,
            "forward_origin": {"sender_user_name": name}}));
        let update = TelegramUpdate::read(&json!({"update_id": 1, "message": message}).to_string()).unwrap();
        let mut inbound = Inbound::new(config());
        inbound.receive(&update, at(0));
        inbound.take_due(at(10_000));
    }

    #[test]
    fn any_string_is_parsed_without_a_panic(text in any::<String>()) {
        let _ = TelegramUpdate::read(&text);
    }
}

#[test]
fn a_field_of_another_shape_affects_only_itself() {
    let odd = json!({"update_id": 5, "message": message(7, json!({
        "text": "hello", "quote": "two", "photo": {"a": 1}, "forward_origin": [], "reply_to_message": 5,
        "date": "today", "media_group_id": 7, "is_topic_message": "yes",
    }))});
    let update = TelegramUpdate::read(&odd.to_string()).unwrap();
    let message = update.message.unwrap();
    assert_eq!(message.text.as_deref(), Some("hello"));
    assert_eq!((message.photo.len(), message.quote, message.date), (0, None, 0));
}
