//! Much of everything, and what no agent should send.

use super::{AcpJournal, chunk, notification};
use serde_json::{Value, json};
use towpath_view::{Fold, ItemBody};

/// A fold after the setup of a recording, and the number of its last line.
fn recording() -> (Fold, u64) {
    let mut fold = Fold::with_budget(1 << 20);
    fold.push_line(1, br#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#);
    (fold, 1)
}

fn push(fold: &mut Fold, seq: &mut u64, message: &Value) {
    *seq += 1;
    fold.push_line(*seq, message.to_string().as_bytes());
}

#[test]
fn a_million_chunks_of_one_message_take_bounded_memory() {
    let (mut fold, mut seq) = recording();
    let line = notification("s", &chunk("agent_message_chunk", "sixteen letters ")).to_string();
    for _ in 0..1_000_000 {
        seq += 1;
        fold.push_line(seq, line.as_bytes());
    }
    let saved = fold.save().len();
    assert!(saved < 8 << 20, "{saved} bytes");
    let Some(ItemBody::Text { text }) =
        fold.conversation(usize::MAX).items.pop().map(|item| item.body)
    else {
        panic!("no text")
    };
    assert!(text.ends_with("sixteen letters ") && text.len() <= (1 << 20) + 16);
}

#[test]
fn a_hundred_megabytes_of_output_are_cut_and_counted() {
    let (mut fold, mut seq) = recording();
    let output = "0123456789abcde\n".repeat((100 << 20) / 16);
    push(
        &mut fold,
        &mut seq,
        &notification(
            "s",
            &json!({"sessionUpdate": "tool_call",
        "toolCallId": "whole", "status": "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": output}}]}),
        ),
    );
    let part = &output[..1 << 20];
    for _ in 0..20 {
        push(
            &mut fold,
            &mut seq,
            &notification(
                "s",
                &json!({"sessionUpdate": "tool_call_update",
            "toolCallId": "parts", "_meta": {"terminal_output": {"data": part}}}),
            ),
        );
    }
    let document = fold.conversation(usize::MAX);
    let results = document.items.iter().filter_map(|item| match &item.body {
        ItemBody::Call(call) => call.result.as_ref(),
        _ => None,
    });
    let sizes: Vec<_> = results.map(|it| it.text.len() as u64 + it.omitted_bytes).collect();
    assert_eq!(sizes, [100 << 20, 20 << 20]);
    assert!(fold.save().len() < 4 << 20);
}

#[test]
fn ten_thousand_open_calls_with_huge_ids_take_bounded_memory() {
    let (mut fold, mut seq) = recording();
    for number in 0..10_000 {
        push(
            &mut fold,
            &mut seq,
            &notification(
                "s",
                &json!({"sessionUpdate": "tool_call",
            "toolCallId": format!("{}{number}", "i".repeat(2000)), "title": "t".repeat(3000)}),
            ),
        );
    }
    let huge = "x".repeat(1 << 20);
    for number in 0..20 {
        let id = format!("{huge}{number}");
        for update in [
            json!({"sessionUpdate": "tool_call", "toolCallId": id, "status": "completed"}),
            json!({"sessionUpdate": "agent_message_chunk", "messageId": id,
                "content": {"type": "text", "text": "a"}}),
            json!({"sessionUpdate": "terminal_update", "terminalId": id}),
            json!({"sessionUpdate": "subagent_update", "sessionId": id, "title": "t"}),
            json!({"sessionUpdate": "current_mode_update", "currentModeId": id}),
        ] {
            push(&mut fold, &mut seq, &notification("s", &update));
        }
        push(
            &mut fold,
            &mut seq,
            &notification(&format!("other{id}"), &chunk("agent_message_chunk", "a")),
        );
    }
    let document = fold.conversation(usize::MAX);
    assert!(document.items.iter().all(|item| item.id.as_str().len() < 400));
    // Ids that differ only at their end are different calls.
    assert!(document.items.len() > 10_040, "{}", document.items.len());
    let saved = fold.save().len();
    assert!(saved < 120 << 20, "{saved} bytes");
}

#[test]
fn a_huge_diff_is_cut_and_takes_no_time() {
    let old = (0..300_000).map(|line| format!("old {line}\n")).collect::<Vec<_>>().concat();
    let new = old.replace("old", "new");
    let (mut fold, mut seq) = recording();
    let begun = std::time::Instant::now();
    push(
        &mut fold,
        &mut seq,
        &notification(
            "s",
            &json!({"sessionUpdate": "tool_call",
        "toolCallId": "c", "kind": "edit", "status": "completed",
        "content": [{"type": "diff", "path": "/a", "oldText": old, "newText": new}]}),
        ),
    );
    assert!(begun.elapsed().as_secs() < 60);
    assert!(fold.save().len() < 2 << 20);
}

/// Reproducible pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

fn any_message(dice: &mut Dice) -> Value {
    let session = ["s", "s", "s", "child", "other"][dice.below(5)];
    let id = ["a", "b", "c"][dice.below(3)];
    let status = ["pending", "in_progress", "completed", "failed", "odd"][dice.below(5)];
    let state = ["running", "idle"][dice.below(2)];
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
    let update = match dice.below(16) {
        0..4 => chunk(["agent_message_chunk", "agent_thought_chunk"][dice.below(2)], "word "),
        4 => json!({"sessionUpdate": "agent_message_chunk", "messageId": id,
            "content": {"type": "text", "text": "named "}}),
        5 => json!({"sessionUpdate": "agent_message", "messageId": id,
            "content": [{"type": "text", "text": "whole"}]}),
        6..9 => json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
            "kind": "edit", "rawInput": {"file_path": "/f"}, "content": [
                {"type": "diff", "path": "/f", "oldText": "a\n", "newText": "b\n"},
                {"type": "terminal", "terminalId": "t"}]}),
        9 => json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "YQ=="}),
        10 => json!({"sessionUpdate": "subagent_update", "sessionId": "child", "title": "t",
            "state": {"state": state}}),
        11 => json!({"sessionUpdate": "state_update", "state": state,
            "stopReason": "end_turn"}),
        12 => json!({"sessionUpdate": "usage_update", "used": dice.below(9), "size": 9,
            "cost": {"amount": dice.below(4), "currency": "USD"}}),
        13 => chunk("user_message_chunk", "from the side"),
        14 => {
            return json!({"jsonrpc": "2.0", "id": dice.below(2), "method":
            "session/request_permission", "params": {"sessionId": session,
            "toolCall": {"toolCallId": id, "title": "t"}, "options": options}});
        }
        _ => {
            return json!({"jsonrpc": "2.0", "method": "$/cancel_request",
            "params": {"requestId": dice.below(2)}});
        }
    };
    notification(session, &update)
}

fn any_sent(dice: &mut Dice) -> Value {
    let id = dice.below(3);
    let params = json!({"sessionId": "s", "cwd": "/p", "prompt": [{"type": "text", "text": "p"}]});
    match dice.below(5) {
        0 | 1 => json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}),
        2 => json!({"jsonrpc": "2.0", "id": id, "method": "session/load", "params": params}),
        3 => json!({"jsonrpc": "2.0", "id": id, "result": {"outcome":
            {"outcome": "selected", "optionId": "y"}}}),
        _ => json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}),
    }
}

#[test]
fn any_order_of_messages_gives_one_document_however_it_is_folded() {
    for seed in 1..120 {
        let mut dice = Dice(seed);
        let has_notes = seed % 2 == 0;
        // The journal checks restored folds and clients after each entry.
        let mut journal = if has_notes { AcpJournal::in_turn() } else { AcpJournal::new() };
        for _ in 0..60 {
            match dice.below(8) {
                0 => journal.sent(&any_sent(&mut dice)),
                1 => journal.said(&json!({"jsonrpc": "2.0", "id": dice.below(3),
                    "result": {"stopReason": "end_turn", "usage": null}})),
                _ => journal.said(&any_message(&mut dice)),
            };
            let document = journal.document();
            let mut ids: Vec<_> = document.items.iter().map(|item| item.id.clone()).collect();
            assert!(document.items.is_sorted_by_key(|item| item.position), "seed {seed}");
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), document.items.len(), "seed {seed}");
        }
    }
}
