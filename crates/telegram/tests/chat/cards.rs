//! Requests as cards, and what people do with them.

use serde_json::{Value, json};
use session::machine::{Answer, Reach, Remember};
use towpath_telegram::chat::Meaning;
use wire::note::{Actor, Note, Outcome, Wants};
use wire::say::PermissionMode;

use super::room::Room;
use super::script::{ann, asks, bash, call, opened, resolved, result, text};

fn command() -> Value {
    json!({"command":"git diff --stat"})
}

/// A chat whose agent asks to run a command.
fn asking() -> Room {
    let mut room = Room::asked(1);
    room.line(&text("m1", "I look.")).line(&bash("m1", "c1", "git diff --stat"));
    room.line(&asks("r1", "c1", "Bash", &command())).note(&opened("r1", Wants::Permission));
    room.settle();
    room
}

fn answer(request: &str, answer: Answer) -> Meaning {
    Meaning::Answer { request: request.to_owned(), answer }
}

fn allow(remember: Option<Remember>, mode: Option<PermissionMode>) -> Answer {
    Answer::Allow { input: None, remember, mode }
}

fn deny(message: &str) -> Answer {
    Answer::Deny { message: message.to_owned(), interrupt: false }
}

#[test]
fn a_card_comes_behind_what_was_said_and_with_a_sound() {
    let mut room = asking();
    assert_eq!(
        room.log(),
        [
            "1: I look.",
            "2: loud 🔐 Run git diff --stat⏎git diff --stat [✔ Allow | Always… / ✘ Deny | ✘ Deny & say why]",
            "typing",
        ]
    );
    assert_eq!(room.tap("Allow"), answer("r1", allow(None, None)));
    let by = Some(Actor { name: "Bob".to_owned(), via: "telegram".to_owned() });
    let (message, answers) = (None, Vec::new());
    let outcome = Outcome::Allowed;
    room.note(&Note::RequestResolved { request: "r1".to_owned(), outcome, by, message, answers });
    room.settle();
    assert_eq!(room.log(), ["2 = Run git diff --stat⏎✔ Allowed by Bob in Telegram"]);
    room.line(&result("c1", "")).line(&text("m2", "Fine.")).over(1).wait(10_000);
    assert_eq!(room.log(), ["3: loud Fine.⏎⏎✔ 7.0 s"]);
}

#[test]
fn always_says_what_it_means_before_it_is_said() {
    let mut room = asking();
    room.log();
    assert_eq!(room.tap("Always"), Meaning::Card);
    room.settle();
    assert_eq!(
        room.log(),
        [
            "2 = 🔐 Run git diff --stat⏎git diff --stat⏎⏎From here on allowed without asking: Bash(git diff:*) [In this session / In every session of this directory / ‹ Back]"
        ]
    );
    let remember = |reach| Remember { pattern: Some("git diff:*".to_owned()), until: None, reach };
    assert_eq!(
        room.tap("In this session"),
        answer("r1", allow(Some(remember(Reach::Session)), None))
    );
    assert_eq!(room.tap("In every"), answer("r1", allow(Some(remember(Reach::Directory)), None)));
    assert_eq!(room.tap("Back"), Meaning::Card);
    room.settle();
    assert_eq!(room.log().len(), 1);
    assert_eq!(room.tap("✘ Deny"), answer("r1", deny("The user said no.")));
}

#[test]
fn a_refusal_may_have_a_reason_and_free_text_is_none() {
    let mut room = asking();
    room.log();
    assert_eq!(room.chat.replied(room.telegram.newest(), "no, use tabs"), None);
    assert_eq!(room.tap("say why"), Meaning::Card);
    room.settle();
    assert_eq!(
        room.log(),
        ["3: re 2 loud asking Why not, or what should it do instead? Reply to this message."]
    );
    let asked = room.telegram.newest();
    assert_eq!(room.chat.replied(asked, " use tabs "), Some(answer("r1", deny("use tabs"))));
    room.note(&resolved("r1", Outcome::Denied)).settle();
    assert_eq!(room.log(), ["2 = Run git diff --stat⏎✘ Denied by Ann in the browser", "3 gone"]);
    let late = room.chat.replied(asked, "use spaces");
    assert_eq!(late, Some(Meaning::Stale("Too late: Denied by Ann in the browser.".to_owned())));
}

#[test]
fn a_tap_that_comes_too_late_is_told_so() {
    let mut room = asking();
    let (message, data) = room.telegram.button("Allow");
    room.note(&resolved("r1", Outcome::AllowedAndRemembered)).settle();
    let stale = room.chat.tapped(message, &data, &ann());
    let words = "Too late: Allowed by Ann in the browser, from here on too.";
    assert_eq!(stale, Meaning::Stale(words.to_owned()));
    assert!(matches!(room.chat.tapped(message, "0123456789abcde.y", &ann()), Meaning::Stale(_)));
    assert!(matches!(room.chat.tapped(message, "nonsense", &ann()), Meaning::Stale(_)));
}

#[test]
fn what_is_settled_before_its_card_was_sent_has_none() {
    let mut room = Room::asked(1);
    room.line(&bash("m1", "c1", "ls")).line(&asks("r1", "c1", "Bash", &json!({"command":"ls"})));
    room.note(&opened("r1", Wants::Permission)).note(&resolved("r1", Outcome::Allowed));
    room.line(&result("c1", "")).line(&text("m2", "Fine.")).over(1).settle();
    assert_eq!(room.log(), ["1: loud Fine.⏎⏎✔ 7.0 s"]);
    assert!(room.chat.memory().cards.is_empty());
}

#[test]
fn what_nobody_answered_or_needs_any_more_says_so() {
    for (outcome, words) in [
        (Outcome::Expired, "⌛ Nobody answered in time"),
        (Outcome::Withdrawn, "– No longer needed"),
    ] {
        let mut room = asking();
        room.log();
        let (request, message, answers) = ("r1".to_owned(), None, Vec::new());
        room.note(&Note::RequestResolved { request, outcome, by: None, message, answers });
        room.settle();
        assert_eq!(room.log(), [format!("2 = Run git diff --stat⏎{words}")]);
    }
}

#[test]
fn a_card_shows_what_would_be_changed() {
    let mut room = Room::asked(1);
    let input = json!({"file_path":"/p/a.rs","old_string":"let x = 1;","new_string":"let x = 2;"});
    room.line(&call("m1", "c1", "Edit", &input)).line(&asks("r1", "c1", "Edit", &input));
    room.settle();
    assert_eq!(
        room.log()[0],
        "1: loud 🔐 Edit a.rs⏎/p/a.rs⏎-let x = 1;⏎+let x = 2; [✔ Allow | Always… / ✘ Deny | ✘ Deny & say why]"
    );
}

#[test]
fn a_card_that_would_be_too_long_is_cut() {
    let mut room = Room::asked(1);
    let input = json!({"file_path":"/p/a.rs","content":"<line> & more\n".repeat(5_000)});
    room.line(&call("m1", "c1", "Write", &input)).line(&asks("r1", "c1", "Write", &input));
    room.settle();
    assert!(room.log()[0].contains("… 4960 more lines"));
}

fn questions() -> Value {
    let option = |label: &str| json!({"label":label,"description":format!("{label} it is")});
    json!({"questions":[
        {"question":"Which one?","header":"One","options":[option("Red"), option("Blue")],"multiSelect":false},
        {"question":"Which ones?","header":"Many","options":[option("A"), option("B"), option("C")],"multiSelect":true},
        {"question":"And why?","header":"Why","options":[option("So")],"multiSelect":false},
    ]})
}

#[test]
fn questions_are_asked_one_by_one() {
    let mut room = Room::asked(0);
    room.line(&text("m1", "Some things are unclear."));
    room.line(&call("m1", "c1", "AskUserQuestion", &questions()));
    room.line(&asks("r1", "c1", "AskUserQuestion", &questions()));
    room.settle();
    assert_eq!(
        room.log(),
        [
            "1: Some things are unclear.",
            "2: loud ❓ 1 of 3 · Which one?⏎1. Red – Red it is⏎2. Blue – Blue it is [1. Red / 2. Blue / Other… | Don't answer]",
            "typing",
        ]
    );
    let (message, old) = room.telegram.button("Red");
    assert_eq!(room.tap("Blue"), Meaning::Card);
    let stale = Meaning::Stale("That question is answered already.".to_owned());
    assert_eq!(room.chat.tapped(message, &old, &ann()), stale);
    room.settle();
    assert_eq!(
        room.log(),
        [
            "2 = ✔ Which one? Blue⏎❓ 2 of 3 · Which ones?⏎1. A – A it is⏎2. B – B it is⏎3. C – C it is [☐ A / ☐ B / ☐ C / ✔ Done | Other… | Don't answer]"
        ]
    );
    assert_eq!(room.tap("Done"), Meaning::Stale("Nothing is ticked yet.".to_owned()));
    for tick in ["A", "B", "C", "B"] {
        assert_eq!(room.tap(&format!(" {tick}")), Meaning::Card);
        room.settle();
    }
    assert!(
        room.log().pop().unwrap().ends_with("[☑ A / ☐ B / ☑ C / ✔ Done | Other… | Don't answer]")
    );
    assert_eq!(room.tap("Done"), Meaning::Card);
    room.settle();
    assert_eq!(room.tap("Other"), Meaning::Card);
    room.settle();
    assert_eq!(
        room.log().pop().unwrap(),
        "3: re 2 loud asking And why?⏎Reply to this message with your answer."
    );
    let pair = |question: &str, answer: &str| (question.to_owned(), answer.to_owned());
    let answers =
        vec![pair("Which one?", "Blue"), pair("Which ones?", "A, C"), pair("And why?", "Just so")];
    let meaning = room.chat.replied(room.telegram.newest(), "Just so");
    assert_eq!(meaning, Some(answer("r1", Answer::Answers(answers.clone()))));
    let (request, outcome, by) = ("r1".to_owned(), Outcome::Allowed, Some(ann()));
    room.note(&Note::RequestResolved { request, outcome, by, message: None, answers }).settle();
    assert_eq!(
        room.log(),
        [
            "2 = Question: Which one?⏎✔ Answered by Ann in the browser⏎Which one? → Blue⏎Which ones? → A, C⏎And why? → Just so",
            "3 gone",
        ]
    );
}

#[test]
fn a_plan_is_read_before_it_is_approved() {
    let mut room = Room::asked(0);
    let input = json!({"plan":"# Plan\n\n1. Do it"});
    room.line(&text("m1", "Here is my plan.")).line(&call("m1", "c1", "ExitPlanMode", &input));
    room.line(&asks("r1", "c1", "ExitPlanMode", &input)).settle();
    assert_eq!(
        room.log(),
        [
            "1: Here is my plan.⏎⏎Plan⏎⏎1. Do it",
            "2: loud ◫ Shall it go on with this plan? [✔ Approve & accept edits / ✔ Approve & ask each / ✎ Keep planning | ✎ … and say what]",
            "typing",
        ]
    );
    let approve = |mode| answer("r1", allow(None, Some(mode)));
    assert_eq!(room.tap("accept edits"), approve(PermissionMode::AcceptEdits));
    assert_eq!(room.tap("ask each"), approve(PermissionMode::Default));
    assert_eq!(room.tap("Keep planning"), answer("r1", deny("Keep planning.")));
    assert_eq!(room.tap("say what"), Meaning::Card);
    room.settle();
    let meaning = room.chat.replied(room.telegram.newest(), "in two steps");
    assert_eq!(meaning, Some(answer("r1", deny("in two steps"))));
    room.log();
    room.note(&resolved("r1", Outcome::Allowed)).settle();
    assert_eq!(room.log(), ["2 = Plan⏎✔ Approved by Ann in the browser", "3 gone"]);
}

#[test]
fn a_card_outlives_the_process_and_is_settled_by_the_next() {
    let mut room = asking();
    let (message, data) = room.telegram.button("Allow");
    let kept = room.chat.memory().clone();
    room.restart(kept.clone());
    room.settle().log();
    assert_eq!(room.chat.tapped(message, &data, &ann()), answer("r1", allow(None, None)));
    room.restart(kept);
    room.note(&resolved("r1", Outcome::Allowed)).settle();
    assert_eq!(room.log()[0], "2 = Run git diff --stat⏎✔ Allowed by Ann in the browser");
}

#[test]
fn several_requests_have_a_card_each() {
    let mut room = Room::asked(1);
    room.line(&bash("m1", "c1", "a")).line(&bash("m1", "c2", "b"));
    room.line(&asks("r1", "c1", "Bash", &json!({"command":"a"})));
    room.line(&asks("r2", "c2", "Bash", &json!({"command":"b"}))).settle();
    assert_eq!(room.log().len(), 3);
    room.note(&resolved("r2", Outcome::Allowed)).settle();
    assert_eq!(room.log(), ["2 = Run b⏎✔ Allowed by Ann in the browser"]);
    room.note(&resolved("r1", Outcome::Denied)).settle();
    assert_eq!(room.log(), ["1 = Run a⏎✘ Denied by Ann in the browser"]);
}

#[test]
fn an_id_that_is_used_again_is_another_request() {
    let mut room = asking();
    room.note(&resolved("r1", Outcome::Allowed)).line(&result("c1", "")).settle().log();
    room.line(&bash("m2", "c2", "rm x")).line(&asks(
        "r1",
        "c2",
        "Bash",
        &json!({"command":"rm x"}),
    ));
    room.settle();
    assert!(room.log()[0].contains("loud 🔐 Run rm x"));
    assert_eq!(room.tap("Allow"), answer("r1", allow(None, None)));
    room.note(&resolved("r1", Outcome::Denied)).settle();
    assert_eq!(room.log()[0], "3 = Run rm x⏎✘ Denied by Ann in the browser");
}

#[test]
fn an_agent_of_the_agent_is_named() {
    let mut room = Room::asked(1);
    let input = json!({"description":"look around","prompt":"look","subagent_type":"Explore"});
    room.line(&call("m1", "t1", "Task", &input));
    room.line(&json!({"type":"assistant","message":{"id":"s1","content":[{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"ls"}}]},"parent_tool_use_id":"t1"}));
    room.line(&asks("r1", "c1", "Bash", &json!({"command":"ls"}))).settle();
    assert!(
        room.log()[0].starts_with("1: loud 🔐 Run ls⏎Asked by an agent of its own: look around⏎ls")
    );
}

#[test]
fn a_place_that_turns_to_another_session_leaves_nothing_behind() {
    let mut room = Room::asked(1);
    room.wait(3_000);
    room.line(&bash("m1", "c1", "ls")).line(&asks("r1", "c1", "Bash", &json!({"command":"ls"})));
    room.settle().log();
    for call in room.chat.leave() {
        room.telegram.take(&call, room.now, std::time::Duration::ZERO).unwrap();
    }
    assert_eq!(
        room.log(),
        ["1 gone", "2 = Run ls⏎This waits in its session, which is not shown here any more."]
    );
}
