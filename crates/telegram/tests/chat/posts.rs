//! Messages between tool calls, answers, and the end of a turn.

use serde_json::json;
use towpath_telegram::ChatKind;
use wire::note::{Delivery, ExitCause, Note, PromptState, TurnEnding};

use super::harness::{
    TestChat, ann, bash, began, call, id, init, over, queued, result, starts, text, thinking,
    thinks,
};

#[test]
fn an_answer_is_sent_once_with_a_sound() {
    let mut test = TestChat::with_turn(1);
    test.run_calls().line(&text("m1", "Hello, **you**")).run_calls().over(1).run_calls();
    assert_eq!(test.log(), ["typing", "1: loud Hello, you⏎⏎✔ 7.0 s"]);
    test.wait(60_000);
    assert_eq!(test.log(), [""; 0]);
}

#[test]
fn messages_between_tool_calls_are_silent_and_depend_on_the_verbosity() {
    let turn = |verbosity: u8| {
        let mut test = TestChat::with_turn(verbosity);
        test.line(&thinking("m1", "a secret thought"));
        test.line(&text("m1", "I look.")).run_calls();
        test.line(&bash("m1", "c1", "ls -l")).run_calls();
        test.line(&result("c1", "a.rs")).run_calls();
        test.line(&text("m2", "There is a.rs.")).run_calls().over(1).run_calls();
        test.log()
    };
    assert_eq!(turn(0), ["typing", "1: loud There is a.rs.⏎⏎✔ 7.0 s"]);
    assert_eq!(turn(1), ["typing", "1: I look.", "2: loud There is a.rs.⏎⏎✔ 7.0 s"]);
    assert_eq!(
        turn(2),
        ["typing", "1: I look.", "2: ✔ Run ls -l", "3: loud There is a.rs.⏎⏎✔ 7.0 s"]
    );
}

#[test]
fn at_verbosity_0_the_last_text_is_an_answer_even_if_a_tool_call_follows() {
    let mut test = TestChat::with_turn(0);
    test.line(&text("m1", "First.")).line(&bash("m1", "c1", "a")).line(&result("c1", ""));
    test.line(&text("m2", "All done.")).line(&bash("m2", "c2", "b")).line(&result("c2", ""));
    test.run_calls().over(1).run_calls();
    assert_eq!(test.log(), ["typing", "1: loud All done.⏎⏎✔ 7.0 s"]);
}

#[test]
fn silent_messages_that_wait_are_merged_and_answers_are_not() {
    let mut test = TestChat::with_turn(1);
    for n in 0..5 {
        test.line(&text(&format!("m{n}"), &format!("Step {n}.")));
        test.line(&bash(&format!("m{n}"), &format!("c{n}"), "ls"))
            .line(&result(&format!("c{n}"), ""));
    }
    test.line(&text("m9", "One.")).over(1);
    test.note(&queued(id(2), "more")).note(&began(2, &[id(2)])).line(&init());
    test.line(&text("m10", "Two.")).over(2).run_calls();
    assert_eq!(
        test.log(),
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
    let mut test = TestChat::with_turn(1);
    let words = (0..2_000).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
    test.line(&text("m1", &words)).over(1).run_calls();
    let sent: Vec<_> = test.telegram.messages.values().collect();
    assert_eq!(sent.len(), 5);
    assert_eq!(
        sent.iter().map(|it| it.loud).collect::<Vec<_>>(),
        [true, false, false, false, false]
    );
    let letters = |text: &str| text.replace(char::is_whitespace, "");
    assert_eq!(letters(&test.telegram.transcript()), letters(&format!("{words}✔ 7.0 s")));
}

#[test]
fn changed_files_are_listed_with_a_button() {
    let mut test = TestChat::with_turn(1);
    let input = json!({"file_path":"/p/src/a.rs","content":"x\n"});
    test.line(&call("m1", "c1", "Write", &input)).line(&result("c1", "ok"));
    test.line(&text("m2", "Done.")).over(1).run_calls();
    assert_eq!(test.log(), ["1: loud Done.⏎⏎✔ 7.0 s · 1 file changed⏎✎ src/a.rs [Show changes]"]);
    let intent = test.tap("Show");
    assert_eq!(intent, towpath_telegram::chat::UserIntent::ShowDiff { turn: 1 });
}

#[test]
fn a_failed_turn_is_reported_once() {
    let ends = |ending: TurnEnding, before: &[serde_json::Value]| {
        let mut test = TestChat::with_turn(1);
        for line in before {
            test.line(line);
        }
        test.run_calls().note(&Note::TurnEnded { turn: 1, ending }).run_calls();
        test.log().pop().unwrap()
    };
    assert_eq!(ends(TurnEnding::Interrupted, &[]), "1: loud ✘ Interrupted");
    let interrupted = json!({"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]}});
    assert_eq!(ends(TurnEnding::Interrupted, &[interrupted]), "1: loud ✘ Interrupted");
    let cause = ExitCause::Killed { signal: 9 };
    assert_eq!(
        ends(TurnEnding::Aborted { cause }, &[text("m1", "I will")]),
        "1: loud I will⏎⏎✘ Stopped: the agent was killed by signal 9"
    );
    let failure = json!({"type":"assistant","error":"rate_limit","isApiErrorMessage":true,"message":{"id":"x","model":"<synthetic>","content":[{"type":"text","text":"API Error: no"}]}});
    let message = "API Error: no".to_owned();
    assert_eq!(ends(TurnEnding::Failed { message }, &[failure]), "1: loud ✘ Failed: API Error: no");
}

#[test]
fn an_agent_that_is_lost_between_turns_is_reported() {
    let mut test = TestChat::with_turn(1);
    test.line(&text("m1", "Yes.")).over(1).run_calls().log();
    test.note(&Note::AgentExited { cause: ExitCause::Lost }).run_calls();
    assert_eq!(test.log(), ["2: loud ✘ The agent was lost when the machine stopped"]);
    test.note(&Note::AgentExited { cause: ExitCause::Parked }).wait(60_000);
    assert_eq!(test.log(), [""; 0]);
}

#[test]
fn texts_of_subagents_are_not_posted() {
    let mut test = TestChat::with_turn(2);
    let input = json!({"description":"look around","prompt":"look","subagent_type":"Explore"});
    test.line(&call("m1", "t1", "Task", &input));
    test.line(&json!({"type":"assistant","message":{"id":"s1","content":[{"type":"text","text":"inner words"}]},"parent_tool_use_id":"t1"}));
    test.line(&result("t1", "found")).line(&text("m2", "Fine.")).over(1).run_calls();
    assert_eq!(test.log(), ["1: ✔ Explore look around", "2: loud Fine.⏎⏎✔ 7.0 s"]);
}

#[test]
fn a_chat_that_resumes_a_session_gets_what_comes_after() {
    let mut test = TestChat::new(ChatKind::Private, 1);
    test.note(&queued(id(1), "go")).note(&began(1, &[id(1)])).line(&init());
    test.line(&text("m1", "Old.")).over(1);
    let checkpoint = test.chat.checkpoint().clone();
    let document = test.fold.conversation(usize::MAX);
    let checkpoint = towpath_telegram::checkpoint::ChatCheckpoint::from_now(
        checkpoint.address,
        checkpoint.kind,
        checkpoint.session,
        &document,
    );
    test.restart(checkpoint);
    test.run_calls();
    test.note(&queued(id(2), "and")).note(&began(2, &[id(2)])).line(&init());
    test.line(&text("m2", "New.")).over(2).run_calls();
    assert_eq!(test.log(), ["1: Ann in the browser:⏎and", "2: loud New.⏎⏎✔ 7.0 s"]);
}

#[test]
fn a_prompt_that_moves_to_the_next_turn_is_posted_once() {
    let mut test = TestChat::with_turn(1);
    test.line(&text("m1", "One."));
    let (text_of, delivery) = ("next".to_owned(), Delivery::Steer);
    let steers =
        Note::PromptQueued { prompt: id(2), text: text_of, images: 0, delivery, by: ann() };
    test.note(&steers)
        .note(&Note::PromptStateChanged { prompt: id(2), state: PromptState::Written });
    test.run_calls().over(1).run_calls();
    test.note(&began(2, &[id(2)])).line(&text("m2", "Two.")).over(2).run_calls();
    assert_eq!(
        test.log(),
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
fn a_notice_is_posted_while_the_agent_is_writing() {
    let mut test = TestChat::with_turn(1);
    let document = test.fold.conversation(1);
    test.chat.load(view::Conversation { more: true, ..document }, test.now);
    test.line(&starts("m1")).line(&thinks());
    test.note(&Note::Problem { text: "The disk is nearly full".to_owned() }).run_calls();
    assert_eq!(test.log(), ["1: ✘ The disk is nearly full", "typing"]);
}

#[test]
fn an_unknown_cost_is_not_shown() {
    let costs = |cost: f64| json!({"type":"result","subtype":"success","is_error":false,"result":"","duration_ms":7000,"total_cost_usd":cost});
    let mut test = TestChat::with_turn(1);
    test.line(&text("m1", "One.")).line(&costs(0.5)).note(&over(1)).run_calls();
    assert_eq!(test.log(), ["1: loud One.⏎⏎✔ 7.0 s · $0.50"]);
    let stored = test.chat.checkpoint().clone();
    test.restart(stored);
    for (turn, cost) in [(2, 0.75), (3, 1.25)] {
        test.note(&began(turn, &[])).line(&text(&format!("m{turn}"), "More."));
        test.line(&costs(cost)).note(&over(turn)).run_calls();
    }
    assert_eq!(test.log(), ["2: loud More.⏎⏎✔ 7.0 s", "3: loud More.⏎⏎✔ 7.0 s · $0.50"]);
}

#[test]
fn a_text_that_was_dropped_is_reported_as_missing() {
    let mut test = TestChat::with_turn(1);
    test.line(&text("m1", &"long ".repeat(200))).over(1);
    let mut document = test.fold.conversation(usize::MAX);
    for item in &mut document.items {
        if let view::ItemBody::Text { text } = &mut item.body {
            text.clear();
            item.trimmed = true;
        }
    }
    test.chat.load(document, test.now);
    test.run_calls();
    assert!(test.log()[0].starts_with("1: loud ⚠️ A message is missing here"));
}
