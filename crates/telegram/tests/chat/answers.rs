//! What is said on the way, and what a turn ends with.

use serde_json::json;
use towpath_telegram::Kind;
use wire::note::{Cause, Delivery, Note, PromptState, TurnEnding};

use super::room::Room;
use super::script::{
    ann, bash, began, call, id, init, over, queued, result, starts, text, thinking, thinks,
};

#[test]
fn an_answer_comes_once_and_with_a_sound() {
    let mut room = Room::asked(1);
    room.settle().line(&text("m1", "Hello, **you**")).settle().over(1).settle();
    assert_eq!(room.log(), ["typing", "1: loud Hello, you⏎⏎✔ 7.0 s"]);
    room.wait(60_000);
    assert_eq!(room.log(), [""; 0]);
}

#[test]
fn what_is_said_on_the_way_comes_silently_and_only_where_it_is_wanted() {
    let turn = |verbosity: u8| {
        let mut room = Room::asked(verbosity);
        room.line(&thinking("m1", "a secret thought"));
        room.line(&text("m1", "I look.")).settle();
        room.line(&bash("m1", "c1", "ls -l")).settle();
        room.line(&result("c1", "a.rs")).settle();
        room.line(&text("m2", "There is a.rs.")).settle().over(1).settle();
        room.log()
    };
    assert_eq!(turn(0), ["typing", "1: loud There is a.rs.⏎⏎✔ 7.0 s"]);
    assert_eq!(turn(1), ["typing", "1: I look.", "2: loud There is a.rs.⏎⏎✔ 7.0 s"]);
    assert_eq!(
        turn(2),
        ["typing", "1: I look.", "2: ✔ Run ls -l", "3: loud There is a.rs.⏎⏎✔ 7.0 s"]
    );
}

#[test]
fn where_only_answers_are_told_the_last_words_are_one_even_if_a_tool_comes_after_them() {
    let mut room = Room::asked(0);
    room.line(&text("m1", "First.")).line(&bash("m1", "c1", "a")).line(&result("c1", ""));
    room.line(&text("m2", "All done.")).line(&bash("m2", "c2", "b")).line(&result("c2", ""));
    room.settle().over(1).settle();
    assert_eq!(room.log(), ["typing", "1: loud All done.⏎⏎✔ 7.0 s"]);
}

#[test]
fn what_waits_silently_is_merged_and_answers_are_not() {
    let mut room = Room::asked(1);
    for n in 0..5 {
        room.line(&text(&format!("m{n}"), &format!("Step {n}.")));
        room.line(&bash(&format!("m{n}"), &format!("c{n}"), "ls"))
            .line(&result(&format!("c{n}"), ""));
    }
    room.line(&text("m9", "One.")).over(1);
    room.note(&queued(id(2), "more")).note(&began(2, &[id(2)])).line(&init());
    room.line(&text("m10", "Two.")).over(2).settle();
    assert_eq!(
        room.log(),
        [
            "1: Step 0.⏎⏎Step 1.⏎⏎Step 2.⏎⏎Step 3.⏎⏎Step 4.",
            "2: loud One.⏎⏎✔ 7.0 s",
            "3: Ann in the browser:⏎more",
            "4: loud Two.⏎⏎✔ 7.0 s",
        ]
    );
}

#[test]
fn a_long_answer_makes_one_sound() {
    let mut room = Room::asked(1);
    let words = (0..2_000).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
    room.line(&text("m1", &words)).over(1).settle();
    let sent: Vec<_> = room.telegram.messages.values().collect();
    assert_eq!(sent.len(), 5);
    assert_eq!(
        sent.iter().map(|it| it.loud).collect::<Vec<_>>(),
        [true, false, false, false, false]
    );
    let letters = |text: &str| text.replace(char::is_whitespace, "");
    assert_eq!(letters(&room.telegram.transcript()), letters(&format!("{words}✔ 7.0 s")));
}

#[test]
fn changed_files_are_listed_and_can_be_looked_at() {
    let mut room = Room::asked(1);
    let input = json!({"file_path":"/p/src/a.rs","content":"x\n"});
    room.line(&call("m1", "c1", "Write", &input)).line(&result("c1", "ok"));
    room.line(&text("m2", "Done.")).over(1).settle();
    assert_eq!(
        room.log(),
        ["1: loud Done.⏎⏎✔ 7.0 s · 1 file changed⏎✎ src/a.rs [Show the changes]"]
    );
    let meaning = room.tap("Show");
    assert_eq!(meaning, towpath_telegram::chat::Meaning::Diff { turn: 1 });
}

#[test]
fn a_turn_that_went_wrong_says_so_once() {
    let ends = |ending: TurnEnding, before: &[serde_json::Value]| {
        let mut room = Room::asked(1);
        for line in before {
            room.line(line);
        }
        room.settle().note(&Note::TurnOver { turn: 1, ending }).settle();
        room.log().pop().unwrap()
    };
    assert_eq!(ends(TurnEnding::Interrupted, &[]), "1: loud ✘ interrupted");
    let interrupted = json!({"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]}});
    assert_eq!(ends(TurnEnding::Interrupted, &[interrupted]), "1: loud ✘ interrupted");
    let cause = Cause::Killed { signal: 9 };
    assert_eq!(
        ends(TurnEnding::Cut { cause }, &[text("m1", "I will")]),
        "1: loud I will⏎⏎✘ cut short: the agent was ended by signal 9"
    );
    let failure = json!({"type":"assistant","error":"rate_limit","isApiErrorMessage":true,"message":{"id":"x","model":"<synthetic>","content":[{"type":"text","text":"API Error: no"}]}});
    let message = "API Error: no".to_owned();
    assert_eq!(ends(TurnEnding::Failed { message }, &[failure]), "1: loud ✘ failed: API Error: no");
}

#[test]
fn an_agent_that_is_lost_between_turns_is_told_of() {
    let mut room = Room::asked(1);
    room.line(&text("m1", "Yes.")).over(1).settle().log();
    room.note(&Note::AgentGone { cause: Cause::Lost }).settle();
    assert_eq!(room.log(), ["2: loud ✘ the agent was lost with its machine"]);
    room.note(&Note::AgentGone { cause: Cause::Parked }).wait(60_000);
    assert_eq!(room.log(), [""; 0]);
}

#[test]
fn the_agents_of_an_agent_are_not_heard() {
    let mut room = Room::asked(2);
    let input = json!({"description":"look around","prompt":"look","subagent_type":"Explore"});
    room.line(&call("m1", "t1", "Task", &input));
    room.line(&json!({"type":"assistant","message":{"id":"s1","content":[{"type":"text","text":"inner words"}]},"parent_tool_use_id":"t1"}));
    room.line(&result("t1", "found")).line(&text("m2", "Fine.")).over(1).settle();
    assert_eq!(room.log(), ["1: ✔ Explore look around", "2: loud Fine.⏎⏎✔ 7.0 s"]);
}

#[test]
fn a_place_that_takes_up_a_session_hears_what_comes_from_there_on() {
    let mut room = Room::of(Kind::Private, 1);
    room.note(&queued(id(1), "go")).note(&began(1, &[id(1)])).line(&init());
    room.line(&text("m1", "Old.")).over(1);
    let memory = room.chat.memory().clone();
    let document = room.fold.conversation(usize::MAX);
    let memory = towpath_telegram::memory::PlaceMemory::from_here(
        memory.place,
        memory.kind,
        memory.session,
        &document,
    );
    room.restart(memory);
    room.settle();
    room.note(&queued(id(2), "and")).note(&began(2, &[id(2)])).line(&init());
    room.line(&text("m2", "New.")).over(2).settle();
    assert_eq!(room.log(), ["1: Ann in the browser:⏎and", "2: loud New.⏎⏎✔ 7.0 s"]);
}

#[test]
fn a_prompt_that_moves_to_the_next_turn_is_told_once() {
    let mut room = Room::asked(1);
    room.line(&text("m1", "One."));
    let (text_of, delivery) = ("next".to_owned(), Delivery::Steer);
    let steers =
        Note::PromptQueued { prompt: id(2), text: text_of, images: 0, delivery, by: ann() };
    room.note(&steers).note(&Note::PromptBecame { prompt: id(2), state: PromptState::Written });
    room.settle().over(1).settle();
    room.note(&began(2, &[id(2)])).line(&text("m2", "Two.")).over(2).settle();
    assert_eq!(
        room.log(),
        [
            "typing",
            "1: loud One.",
            "2: Ann in the browser:⏎next",
            "3: loud ✔ 7.0 s",
            "4: loud Two.⏎⏎✔ 7.0 s",
        ]
    );
}

#[test]
fn what_comes_while_something_is_being_written_is_heard() {
    let mut room = Room::asked(1);
    let document = room.fold.conversation(1);
    room.chat.begin(view::Conversation { more: true, ..document }, room.now);
    room.line(&starts("m1")).line(&thinks());
    room.note(&Note::Trouble { text: "The disk is nearly full".to_owned() }).settle();
    assert_eq!(room.log(), ["1: ✘ The disk is nearly full", "typing"]);
}

#[test]
fn a_cost_that_cannot_be_known_is_not_made_up() {
    let costs = |cost: f64| json!({"type":"result","subtype":"success","is_error":false,"result":"","duration_ms":7000,"total_cost_usd":cost});
    let mut room = Room::asked(1);
    room.line(&text("m1", "One.")).line(&costs(0.5)).note(&over(1)).settle();
    assert_eq!(room.log(), ["1: loud One.⏎⏎✔ 7.0 s · $0.50"]);
    let kept = room.chat.memory().clone();
    room.restart(kept);
    for (turn, cost) in [(2, 0.75), (3, 1.25)] {
        room.note(&began(turn, &[])).line(&text(&format!("m{turn}"), "More."));
        room.line(&costs(cost)).note(&over(turn)).settle();
    }
    assert_eq!(room.log(), ["2: loud More.⏎⏎✔ 7.0 s", "3: loud More.⏎⏎✔ 7.0 s · $0.50"]);
}

#[test]
fn words_that_were_let_go_are_not_passed_over_in_silence() {
    let mut room = Room::asked(1);
    room.line(&text("m1", &"long ".repeat(200))).over(1);
    let mut document = room.fold.conversation(usize::MAX);
    for item in &mut document.items {
        if let view::Body::Text { text } = &mut item.body {
            text.clear();
            item.shed = true;
        }
    }
    room.chat.begin(document, room.now);
    room.settle();
    assert!(room.log()[0].starts_with("1: loud ⚠️ Something was said here"));
}
