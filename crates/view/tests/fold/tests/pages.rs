//! Sessions that are longer than what a fold keeps.

use serde_json::json;
use towpath_view::{Body, Entry, Fold, Item, Older, Page, Place, Revision, Source, Turn};
use uuid::Uuid;
use wire::note::{Actor, Delivery, Note, PromptState, TurnEnding};

use super::record::{captures, push};

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

/// The same as a journal, whose prompts waited during the turn before.
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
        let began = Note::TurnBegan { turn: turn + 1, prompts: vec![id(turn)] };
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
        lines.push(Note::PromptBecame { prompt: id(turn), state: PromptState::Done }.to_line());
        let over = Note::TurnOver { turn: turn + 1, ending: TurnEnding::Completed };
        lines.push(over.to_line());
    }
    lines
}

/// One turn in which a great deal happens.
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
fn read_page(lines: &[Vec<u8>], page: &Page) -> Older {
    let mut fold = Fold::of_page(page);
    for seq in page.first..=page.last {
        push(&mut fold, seq, &lines[usize::try_from(seq).unwrap() - 1]);
    }
    fold.page_items(page)
}

/// Everything that can be seen by scrolling up from the newest items.
fn scroll(lines: &[Vec<u8>], fold: &Fold, step: usize) -> (Vec<Item>, Vec<Turn>) {
    let newest = fold.conversation(step);
    let mut seen = newest.items;
    let mut seen_turns = newest.turns;
    let mut more = newest.more;
    let mut rounds = 0;
    while more {
        rounds += 1;
        assert!(rounds < 10_000, "scrolling comes to no end");
        let top = seen.first().map_or(Place(u64::MAX, 0), |item| item.place);
        let older = match fold.older(top, step) {
            Older::Page(page) => read_page(lines, &page),
            here @ Older::Here { .. } => here,
        };
        let Older::Here { items, turns, more: still } = older else { panic!("a page of a page") };
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
    assert!(kept.len() < whole.len() || kept.iter().any(|item| item.shed), "nothing was let go");
    let (seen, seen_turns) = scroll(lines, &small, step);
    for turn in seen_turns {
        assert!(turns.contains(&turn), "{turn:?}");
    }
    assert_eq!(seen.len(), whole.len());
    for (seen, whole) in seen.iter().zip(&whole) {
        if !seen.shed {
            assert_eq!(seen, whole);
        }
        assert_eq!(seen.id, whole.id);
    }
    // What was lightened and is on the first screen is brought by a page when it is scrolled to;
    // of all that came by scrolling, everything is whole.
    let scrolled = &seen[..seen.len() - step.min(seen.len())];
    assert!(scrolled.iter().all(|item| !item.shed));
}

#[test]
fn what_a_fold_let_go_comes_back_by_pages_as_it_was() {
    for step in [7, 50, 200] {
        check_scrolling(&stream(150), step);
        check_scrolling(&journal(150), step);
    }
}

#[test]
fn a_turn_that_is_longer_than_the_budget_comes_back_too() {
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
    assert!(newest.items.iter().all(|item| !item.shed));
    assert!(newest.more);
}

#[test]
fn a_follower_that_was_away_too_long_is_told_to_begin_anew() {
    let small = fold(&stream(150), Fold::with_budget(BUDGET));
    assert_eq!(small.patches(Revision(3)), None);
    let recent = small.conversation(20);
    assert!(small.patches(recent.revision).unwrap().patches.is_empty());
}

#[test]
fn a_small_fold_saved_anywhere_goes_on_as_if_it_had_not_been() {
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
fn work_that_is_under_way_is_never_let_go() {
    let mut fold = Fold::with_budget(0);
    let call = json!({"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"slow","name":"Bash","input":{"command":"make"}}]}});
    fold.push_line(1, call.to_string().as_bytes());
    for (seq, line) in (2..).zip(one_turn(200)) {
        for line in wire::read(&line) {
            fold.push(Entry { seq, at: None, source: Source::Agent(&line) });
        }
    }
    let result = json!({"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"slow","content":"made"}]}});
    fold.push_line(9999, result.to_string().as_bytes());
    let item = fold.item(&towpath_view::ItemId::call("slow")).unwrap();
    let Body::Call(call) = &item.body else { panic!() };
    assert_eq!(call.outcome.as_ref().unwrap().text, "made");
}
