//! Sessions that are longer than a fold's budget.

use serde_json::json;
use towpath_view::{Fold, HistoryPage, Item, ItemBody, OlderItems, Position, Revision, Turn};
use uuid::Uuid;
use wire::note::{Actor, Delivery, Note, PromptState, TurnEnding};

use super::{captures, push};

const BUDGET: usize = 256 << 10;

/// A long session as a bare stream: many turns of a prompt, a big result and an answer.
fn stream(turns: u64) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for turn in 0..turns {
        lines.push(json!({"type":"system","subtype":"init","session_id":"s"}));
        lines.push(json!({"type":"user","message":{"role":"user","content":format!("prompt {turn}")},"isReplay":true,"uuid":Uuid::from_u128(turn.into()).to_string()}));
        lines.push(json!({"type":"assistant","message":{"id":format!("m{turn}a"),"content":[{"type":"tool_use","id":format!("t{turn}"),"name":"Read","input":{"file_path":format!("f{turn}")}}],"usage":{"input_tokens":1,"output_tokens":1}}}));
        lines.push(json!({"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":format!("t{turn}"),"content":"x".repeat(3000)}]}}));
        lines.push(json!({"type":"assistant","message":{"id":format!("m{turn}b"),"content":[{"type":"text","text":format!("answer {turn} {}", "y".repeat(600))}],"usage":{"input_tokens":1,"output_tokens":1}}}));
        lines.push(json!({"type":"result","subtype":"success","is_error":false,"result":"","total_cost_usd":(turn + 1)}));
    }
    lines.iter().map(|line| line.to_string().into_bytes()).collect()
}

/// The same as a journal whose prompts were queued during the turn before.
fn journal(turns: u64) -> Vec<Vec<u8>> {
    let id = |turn: u64| Uuid::from_u128(turn.into());
    let by = Actor { name: "ann".to_owned(), via: "api".to_owned() };
    let queued = |turn: u64| Note::PromptQueued {
        prompt: id(turn),
        text: format!("prompt {turn} {}", "z".repeat(300)),
        images: 0,
        delivery: Delivery::Queue,
        by: by.clone(),
    };
    let mut lines = vec![Note::AgentReady { version: None }.to_line(), queued(0).to_line()];
    for turn in 0..turns {
        let began = Note::TurnStarted { turn: turn + 1, prompts: vec![id(turn)] };
        lines.push(began.to_line());
        for line in stream(1) {
            let line = String::from_utf8(line).unwrap();
            let line = line.replace("m0", &format!("m{turn}")).replace("t0", &format!("t{turn}"));
            let line = line.replace(&id(0).to_string(), &id(turn).to_string());
            lines.push(line.into_bytes());
            if lines.len() % 7 == 3 {
                lines.push(queued(turn + 1).to_line());
            }
        }
        if lines.iter().all(|line| *line != queued(turn + 1).to_line()) {
            lines.push(queued(turn + 1).to_line());
        }
        lines.push(
            Note::PromptStateChanged { prompt: id(turn), state: PromptState::Done }.to_line(),
        );
        let over = Note::TurnEnded { turn: turn + 1, ending: TurnEnding::Completed };
        lines.push(over.to_line());
    }
    lines
}

/// One very long turn.
fn one_turn(calls: u64) -> Vec<Vec<u8>> {
    let mut lines = vec![json!({"type":"system","subtype":"init","session_id":"s"})];
    for call in 0..calls {
        lines.push(json!({"type":"assistant","message":{"id":format!("m{call}"),"content":[{"type":"tool_use","id":format!("t{call}"),"name":"Read","input":{"file_path":format!("f{call}")}}]}}));
        lines.push(json!({"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":format!("t{call}"),"content":"x".repeat(2000)}]}}));
    }
    lines.iter().map(|line| line.to_string().into_bytes()).collect()
}

fn fold(lines: &[Vec<u8>], mut fold: Fold) -> Fold {
    for (seq, line) in (1..).zip(lines) {
        push(&mut fold, seq, line);
    }
    fold
}

/// Folds a page as its caller does: from the entries it names.
fn read_page(lines: &[Vec<u8>], page: &HistoryPage) -> OlderItems {
    let mut fold = Fold::for_page(page);
    for seq in page.first..=page.last {
        push(&mut fold, seq, &lines[usize::try_from(seq).unwrap() - 1]);
    }
    fold.page_items(page)
}

/// Everything that scrolling up from the newest items shows.
fn scroll(lines: &[Vec<u8>], fold: &Fold, step: usize) -> (Vec<Item>, Vec<Turn>) {
    let newest = fold.conversation(step);
    let mut seen = newest.items;
    let mut seen_turns = newest.turns;
    let mut more = newest.more;
    let mut rounds = 0;
    while more {
        rounds += 1;
        assert!(rounds < 10_000, "scrolling comes to no end");
        let top = seen.first().map_or(Position(u64::MAX, 0), |item| item.position);
        let older = match fold.older(top, step) {
            OlderItems::Page(page) => read_page(lines, &page),
            here @ OlderItems::Available { .. } => here,
        };
        let OlderItems::Available { items, turns, more: still } = older else {
            panic!("a page of a page")
        };
        assert!(items.iter().all(|item| turns.iter().any(|turn| turn.number == item.turn)));
        assert!(!items.is_empty() || !still, "an empty page before {top:?}");
        seen.splice(0..0, items);
        seen_turns.extend(turns);
        more = still;
    }
    (seen, seen_turns)
}

#[track_caller]
fn check_scrolling(lines: &[Vec<u8>], step: usize) {
    let whole = fold(lines, Fold::with_budget(usize::MAX)).conversation(usize::MAX);
    let (whole, turns) = (whole.items, whole.turns);
    let small = fold(lines, Fold::with_budget(BUDGET));
    let kept = small.conversation(usize::MAX).items;
    assert!(
        kept.len() < whole.len() || kept.iter().any(|item| item.trimmed),
        "nothing was evicted"
    );
    let (seen, seen_turns) = scroll(lines, &small, step);
    for turn in seen_turns {
        assert!(turns.contains(&turn), "{turn:?}");
    }
    assert_eq!(seen.len(), whole.len());
    for (seen, whole) in seen.iter().zip(&whole) {
        if !seen.trimmed {
            assert_eq!(seen, whole);
        }
        assert_eq!(seen.id, whole.id);
    }
    // The first screen may have trimmed items. Everything that came by scrolling is whole.
    let scrolled = &seen[..seen.len() - step.min(seen.len())];
    assert!(scrolled.iter().all(|item| !item.trimmed));
}

#[test]
fn evicted_items_come_back_unchanged_by_pages() {
    for step in [7, 50, 200] {
        check_scrolling(&stream(150), step);
        check_scrolling(&journal(150), step);
    }
}

#[test]
fn a_turn_larger_than_the_budget_comes_back_too() {
    check_scrolling(&one_turn(400), 50);
}

#[test]
fn a_fold_stays_within_its_budget() {
    let whole = fold(&stream(1000), Fold::with_budget(usize::MAX)).save().len();
    let small = fold(&stream(1000), Fold::with_budget(BUDGET));
    let items = serde_json::to_vec(&small.conversation(usize::MAX).items).unwrap().len();
    assert!(items < BUDGET, "{items}");
    // Turns and counts stay, items do not.
    assert!(small.save().len() < whole / 5, "{} of {whole}", small.save().len());
    assert_eq!(small.conversation(0).usage.cost, Some(1000.0));
    assert_eq!(small.conversation(0).usage.tokens.input, 2000);
}

#[test]
fn the_newest_items_are_whole_whatever_the_budget() {
    let small = fold(&stream(50), Fold::with_budget(0));
    let newest = small.conversation(60);
    assert!(newest.items.iter().all(|item| !item.trimmed));
    assert!(newest.more);
}

#[test]
fn huge_newest_items_keep_the_beginnings_of_their_texts() {
    let text = |number: usize| format!("answer {number} {}", "y".repeat(1 << 20));
    let line = |number| json!({"type":"assistant","message":{"id":format!("m{number}"),"content":[{"type":"text","text":text(number)}]}});
    let lines: Vec<_> = (0..30).map(|number| line(number).to_string().into_bytes()).collect();
    let fold = fold(&lines, Fold::with_budget(BUDGET));
    let items = fold.conversation(60).items;
    assert_eq!(items.len(), 30);
    let bytes: usize = items.iter().map(towpath_view::Item::text_bytes).sum();
    assert!(bytes < 4 << 20, "{bytes}");
    let (last, others) = items.split_last().unwrap();
    assert!(!last.trimmed && last.text_bytes() > 1 << 20);
    for (number, item) in others.iter().enumerate().take(25) {
        let towpath_view::ItemBody::Text { text } = &item.body else { panic!("{item:?}") };
        assert!(item.trimmed && text.starts_with(&format!("answer {number} yyy")));
    }
}

#[test]
fn a_client_that_was_away_too_long_needs_a_new_document() {
    let small = fold(&stream(150), Fold::with_budget(BUDGET));
    assert_eq!(small.patches(Revision(3)), None);
    let recent = small.conversation(20);
    assert!(small.patches(recent.revision).unwrap().patches.is_empty());
}

#[test]
fn a_small_fold_can_be_saved_and_restored_anywhere() {
    let lines = stream(120);
    let whole = fold(&lines, Fold::with_budget(BUDGET)).conversation(usize::MAX);
    for cut in (0..lines.len()).step_by(37) {
        let prefix = fold(&lines[..cut], Fold::with_budget(BUDGET));
        let mut rest = Fold::restore(&prefix.save()).unwrap();
        for (seq, line) in (1..).zip(&lines).skip(cut) {
            push(&mut rest, seq, line);
        }
        assert_eq!(rest.conversation(usize::MAX), whole, "cut at {cut}");
    }
}

#[test]
fn a_first_screen_says_whether_there_is_more() {
    for record in captures() {
        let fold = record.fold();
        let all = fold.conversation(usize::MAX);
        assert!(!all.more);
        for items in [0, 1, all.items.len()] {
            let screen = fold.conversation(items);
            assert_eq!(screen.more, items < all.items.len(), "{}", record.name);
            assert_eq!(screen.items, all.items[all.items.len() - items.min(all.items.len())..]);
        }
    }
}

#[test]
fn a_first_screen_can_be_kept_small() {
    let whole = fold(&stream(50), Fold::new());
    let screen = whole.conversation_within(200, 20_000);
    let size = serde_json::to_vec(&screen.items).unwrap().len();
    assert!((10_000..25_000).contains(&size), "{size}");
    assert!(screen.more);
    let all = whole.conversation(usize::MAX).items;
    assert_eq!(screen.items, all[all.len() - screen.items.len()..]);
    assert_eq!(whole.conversation_within(200, 0).items.len(), 1);
    assert_eq!(whole.conversation_within(0, 99).items.len(), 0);
}

#[test]
fn unfinished_work_is_never_evicted() {
    let mut fold = Fold::with_budget(0);
    let call = json!({"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"slow","name":"Bash","input":{"command":"make"}}]}});
    fold.push_line(1, call.to_string().as_bytes());
    for (seq, line) in (2..).zip(one_turn(200)) {
        for line in wire::read(&line) {
            fold.push_event(seq, None, &line);
        }
    }
    let result = json!({"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"slow","content":"made"}]}});
    fold.push_line(9999, result.to_string().as_bytes());
    let item = fold.item(&towpath_view::ItemId::call("slow")).unwrap();
    let ItemBody::Call(call) = &item.body else { panic!() };
    assert_eq!(call.result.as_ref().unwrap().text, "made");
}
