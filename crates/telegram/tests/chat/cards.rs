//! Requests as cards, and what users do with them.

use serde_json::{Value, json};
use session::{GrantScope, RequestAnswer, RuleChoice};
use towpath_telegram::BotCall;
use towpath_telegram::chat::{NextCall, UserIntent};
use towpath_telegram::checkpoint::ChatCheckpoint;
use wire::acp::PermissionChoiceKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
use wire::consent::{self, Rule, RuleId};
use wire::note::{Actor, Note, Outcome, RequestKind};
use wire::outgoing::PermissionMode;

use super::harness::{
    TestChat, ann, asks, bash, call, offered, opened, resolved, result, text, with_choices,
};

const DIRECTORY: &str = "/home/ann/project";

fn command() -> Value {
    json!({"command":"git diff --stat"})
}

fn rules(tool: &str, input: &Value) -> Vec<Rule> {
    consent::rules(tool, &input.to_string(), DIRECTORY)
}

/// A chat whose agent requests permission for a call.
fn requesting(tool: &str, input: &Value) -> TestChat {
    let mut test = TestChat::with_turn(1);
    test.line(&call("m1", "c1", tool, input)).line(&asks("r1", "c1", tool, input));
    test.note(&offered("r1", RequestKind::Permission, rules(tool, input))).run_calls();
    test
}

/// A chat whose agent requests permission to run a command.
fn asking() -> TestChat {
    let mut test = TestChat::with_turn(1);
    test.line(&text("m1", "I look.")).line(&bash("m1", "c1", "git diff --stat"));
    test.line(&asks("r1", "c1", "Bash", &command()));
    test.note(&offered("r1", RequestKind::Permission, rules("Bash", &command()))).run_calls();
    test
}

fn answer(request: &str, answer: RequestAnswer) -> UserIntent {
    UserIntent::Answer { request: request.to_owned(), answer }
}

fn allow(remember: Option<RuleChoice>, mode: Option<PermissionMode>) -> RequestAnswer {
    RequestAnswer::Allow { input: None, remember, mode }
}

fn deny(message: &str) -> RequestAnswer {
    RequestAnswer::Deny { message: message.to_owned(), interrupt: false }
}

#[test]
fn a_card_follows_the_messages_before_it_and_makes_a_sound() {
    let mut test = asking();
    assert_eq!(
        test.log(),
        [
            "1: I look.",
            "2: loud 🔐 Run git diff --stat⏎git diff --stat [Allow | Always… / Deny | Deny with reason]",
            "typing",
        ]
    );
    assert_eq!(test.tap("Allow"), answer("r1", allow(None, None)));
    let by = Some(Actor { name: "Bob".to_owned(), via: "telegram".to_owned() });
    let (message, answers) = (None, Vec::new());
    let outcome = Outcome::Allowed;
    test.note(&Note::RequestResolved {
        request: "r1".to_owned(),
        outcome,
        by,
        message,
        answers,
        choice: None,
    });
    test.run_calls();
    assert_eq!(test.log(), ["2 = Run git diff --stat⏎✔ Allowed by Bob in Telegram"]);
    test.line(&result("c1", "")).line(&text("m2", "Fine.")).over(1).wait(10_000);
    assert_eq!(test.log(), ["3: loud Fine.⏎⏎✔ 7.0 s"]);
}

#[test]
fn always_shows_the_text_of_each_rule_before_it_is_chosen() {
    let mut test = asking();
    test.log();
    assert_eq!(test.tap("Always"), UserIntent::ChangeCard);
    test.run_calls();
    assert_eq!(
        test.log(),
        [
            "2 = 🔐 Run git diff --stat⏎git diff --stat⏎⏎Always allow without asking:⏎1. Run exactly this command [1. In this session / 1. In all sessions in this directory / Back]"
        ]
    );
    let remember = |scope| RuleChoice { rule: RuleId::Exact, until: None, scope };
    let always = |scope| answer("r1", allow(Some(remember(scope)), None));
    assert_eq!(test.tap("In this session"), always(GrantScope::Session));
    assert_eq!(test.tap("In all"), always(GrantScope::Directory));
    assert_eq!(test.tap("Back"), UserIntent::ChangeCard);
    test.run_calls();
    assert_eq!(test.log().len(), 1);
    assert_eq!(test.tap("Deny"), answer("r1", deny(consent::DENIED)));
}

#[test]
fn every_offered_rule_has_its_buttons() {
    let input = json!({"file_path":"/home/ann/project/a.rs","old_string":"a","new_string":"b"});
    let mut test = requesting("Edit", &input);
    test.log();
    test.tap("Always");
    test.run_calls();
    let log = test.log().pop().unwrap();
    let listed = "1. Edit /home/ann/project/a.rs, whatever the change⏎2. Edit any file in /home/ann/project [1. In this session / 1. In all";
    assert!(log.contains(listed), "{log}");
    let rule = RuleId::Directory;
    let choice = RuleChoice { rule, until: None, scope: GrantScope::Session };
    assert_eq!(test.tap("2. In this session"), answer("r1", allow(Some(choice), None)));
}

#[test]
fn always_is_not_offered_without_a_rule() {
    let input = json!({"command":"ls","dangerouslyDisableSandbox":true});
    let mut test = requesting("Bash", &input);
    let log = test.log();
    let card = "Command:⏎ls⏎Input:⏎{\"command\":\"ls\",\"dangerouslyDisableSandbox\":true} [Allow / Deny | Deny with reason]";
    assert!(log[0].ends_with(card), "{log:?}");
}

/// Everything that Telegram shows, without white space.
fn shown(test: &TestChat, files: &str) -> String {
    format!("{}{files}", test.telegram.transcript()).replace(char::is_whitespace, "")
}

/// Makes the calls until the chat is idle. Returns the content of the files that were sent.
fn run_with_files(test: &mut TestChat) -> String {
    let mut files = String::new();
    while let NextCall::Call(call, _) = test.chat.next_call(test.now) {
        if let BotCall::SendText { content, .. } = &call {
            files.push_str(content);
        }
        test.step();
    }
    files
}

fn labels(test: &TestChat) -> Vec<String> {
    let buttons = test.telegram.messages.values().flat_map(|it| it.buttons.iter().flatten());
    buttons.map(|it| it.label.clone()).collect()
}

#[test]
fn nothing_can_be_allowed_before_it_was_shown_in_full() {
    let long = |letter: &str| format!("{}; rm -rf ~", letter.repeat(5_000));
    let many_lines = "echo hello\n".repeat(60);
    let huge = long("x").repeat(10);
    let path = format!("/srv/{}", "a".repeat(5_000));
    for (tool, input, hidden) in [
        ("Bash", json!({"command": long("x")}), long("x")),
        ("Bash", json!({"command": long("👍")}), long("👍")),
        ("Bash", json!({"command": many_lines}), many_lines.clone()),
        ("Bash", json!({"command": huge}), huge.clone()),
        ("Bash", json!({"command": long("x"), "description": long("y")}), long("x")),
        ("Edit", json!({"file_path": path, "old_string": "a", "new_string": "b"}), path.clone()),
        ("Write", json!({"file_path": path, "content": "a"}), path.clone()),
        ("mcp__db__query", json!({"query": long("z")}), long("z")),
    ] {
        let hidden = hidden.replace(char::is_whitespace, "");
        let mut test = requesting(tool, &input);
        let card = test.telegram.newest();
        assert!(!shown(&test, "").contains(&hidden), "{tool}");
        assert_eq!(labels(&test), ["Show all", "Deny", "Deny with reason"], "{tool}");
        // A button of another card, or of an earlier version, allows nothing either.
        let (_, data) = test.telegram.button("Show all");
        let key = data.strip_suffix("s").unwrap();
        for verb in ["y", "a", "r0s", "r0d", "as", "ad"] {
            let intent = test.chat.read_tap(card, &format!("{key}{verb}"));
            assert!(matches!(intent, UserIntent::Stale(_)), "{tool} {verb}: {intent:?}");
        }
        assert_eq!(test.tap("Show all"), UserIntent::ChangeCard);
        let files = run_with_files(&mut test);
        assert!(shown(&test, &files).contains(&hidden), "{tool}");
        assert!(!test.telegram.messages.contains_key(&card), "the card is below the text");
        let newest = &test.telegram.messages[&test.telegram.newest()];
        assert!(newest.plain.contains("Shown in full above."), "{}", newest.plain);
        assert_eq!(test.tap("Allow"), answer("r1", allow(None, None)), "{tool}");
        // The only rule of this edit names the path, which is too long for the card.
        assert_eq!(labels(&test).contains(&"Always…".to_owned()), !path.contains(&hidden));
    }
}

#[test]
fn a_long_description_does_not_hide_the_command() {
    let input = json!({"command":"git diff --stat","description":"d".repeat(5_000)});
    let mut test = requesting("Bash", &input);
    let log = test.log();
    // The command is on the card, and the rest of the description comes before *Allow*.
    assert!(log[0].contains("⏎git diff --stat"), "{log:?}");
    assert!(log[0].ends_with("[Show all / Deny | Deny with reason]"), "{log:?}");
}

#[test]
fn hidden_characters_are_shown() {
    let mut test = requesting("Bash", &json!({"command":"ls\r\u{202e}x"}));
    let log = test.log();
    assert!(log[0].contains("⏎ls\\u{d}\\u{202e}x ["), "{log:?}");
}

#[test]
fn a_request_with_a_reused_id_must_be_shown_again() {
    let mut test = asking();
    let (message, data) = test.telegram.button("Allow");
    // The agent was restarted and asks for something else before the card could change.
    test.note(&resolved("r1", Outcome::Withdrawn));
    test.line(&bash("m2", "c2", "rm -rf ~"));
    test.line(&asks("r1", "c2", "Bash", &json!({"command":"rm -rf ~"})));
    test.note(&opened("r1", RequestKind::Permission));
    let intent = test.chat.read_tap(message, &data);
    assert!(matches!(intent, UserIntent::Stale(_)), "{intent:?}");
    test.run_calls();
    assert_eq!(test.tap("Allow"), answer("r1", allow(None, None)));
}

#[test]
fn a_request_with_the_id_of_an_open_one_does_not_take_its_place() {
    let mut test = asking();
    let shown = test.log();
    test.line(&bash("m2", "c2", "rm -rf ~"));
    test.line(&asks("r1", "c2", "Bash", &json!({"command":"rm -rf ~"})));
    test.run_calls();
    let log = test.log();
    assert!(!shown.is_empty() && !log.iter().any(|it| it.contains("Allow")), "{log:?}");
}

#[test]
fn a_denial_may_have_a_reason_and_a_message_that_is_no_reply_is_none() {
    let mut test = asking();
    test.log();
    assert_eq!(test.chat.read_reply(test.telegram.newest(), "no, use tabs"), None);
    assert_eq!(test.tap("Deny with reason"), UserIntent::ChangeCard);
    test.run_calls();
    assert_eq!(
        test.log(),
        [
            "3: re 2 loud asking Reply to this message with the reason, or with what the agent should do instead."
        ]
    );
    let asked = test.telegram.newest();
    assert_eq!(test.chat.read_reply(asked, " use tabs "), Some(answer("r1", deny("use tabs"))));
    test.note(&resolved("r1", Outcome::Denied)).run_calls();
    assert_eq!(test.log(), ["2 = Run git diff --stat⏎✘ Denied by Ann in the browser", "3 gone"]);
    let late = test.chat.read_reply(asked, "use spaces");
    let why = "Too late: Denied by Ann in the browser.";
    assert_eq!(late, Some(UserIntent::Stale(why.to_owned())));
}

#[test]
fn a_late_tap_is_told_the_outcome() {
    let mut test = asking();
    let (message, data) = test.telegram.button("Allow");
    test.note(&resolved("r1", Outcome::AllowedAndRemembered)).run_calls();
    let stale = test.chat.read_tap(message, &data);
    let why = "Too late: Always allowed by Ann in the browser.";
    assert_eq!(stale, UserIntent::Stale(why.to_owned()));
    for data in ["0123456789abcde.y", "nonsense"] {
        let intent = test.chat.read_tap(message, data);
        assert!(matches!(intent, UserIntent::Stale(_)));
    }
}

#[test]
fn a_request_that_was_resolved_before_its_card_was_sent_has_no_card() {
    let mut test = TestChat::with_turn(1);
    test.line(&bash("m1", "c1", "ls")).line(&asks("r1", "c1", "Bash", &json!({"command":"ls"})));
    test.note(&opened("r1", RequestKind::Permission)).note(&resolved("r1", Outcome::Allowed));
    test.line(&result("c1", "")).line(&text("m2", "Fine.")).over(1).run_calls();
    assert_eq!(test.log(), ["1: loud Fine.⏎⏎✔ 7.0 s"]);
    assert!(test.chat.checkpoint().cards.is_empty());
}

#[test]
fn an_expired_or_withdrawn_request_says_so() {
    for (outcome, text) in [
        (Outcome::Expired, "⌛ Denied: no answer in time"),
        (Outcome::Withdrawn, "– No longer needed"),
    ] {
        let mut test = asking();
        test.log();
        let (request, message, answers) = ("r1".to_owned(), None, Vec::new());
        test.note(&Note::RequestResolved {
            request,
            outcome,
            by: None,
            message,
            answers,
            choice: None,
        });
        test.run_calls();
        assert_eq!(test.log(), [format!("2 = Run git diff --stat⏎{text}")]);
    }
}

#[test]
fn a_card_shows_the_change_of_an_edit() {
    let input = json!({"file_path":"/p/a.rs","old_string":"let x = 1;","new_string":"let x = 2;"});
    let mut test = requesting("Edit", &input);
    assert_eq!(
        test.log()[0],
        "1: loud 🔐 Edit a.rs⏎/p/a.rs⏎-let x = 1;⏎+let x = 2; [Allow | Always… / Deny | Deny with reason]"
    );
}

#[test]
fn the_details_of_a_long_edit_are_shortened() {
    let input = json!({"file_path":"/p/a.rs","content":"<line> & more\n".repeat(5_000)});
    let mut test = requesting("Write", &input);
    assert!(test.log()[0].contains("… 4960 more lines"));
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
    let mut test = TestChat::with_turn(0);
    test.line(&text("m1", "Some things are unclear."));
    test.line(&call("m1", "c1", "AskUserQuestion", &questions()));
    test.line(&asks("r1", "c1", "AskUserQuestion", &questions()));
    test.run_calls();
    assert_eq!(
        test.log(),
        [
            "1: Some things are unclear.",
            "2: loud ❓ 1 of 3 · Which one?⏎1. Red – Red it is⏎2. Blue – Blue it is [1. Red / 2. Blue / Other… | Skip]",
            "typing",
        ]
    );
    let (message, old) = test.telegram.button("Red");
    assert_eq!(test.tap("Blue"), UserIntent::ChangeCard);
    let stale = UserIntent::Stale("This question was already answered.".to_owned());
    assert_eq!(test.chat.read_tap(message, &old), stale);
    test.run_calls();
    assert_eq!(
        test.log(),
        [
            "2 = ✔ Which one? Blue⏎❓ 2 of 3 · Which ones?⏎1. A – A it is⏎2. B – B it is⏎3. C – C it is [☐ A / ☐ B / ☐ C / Done | Other… | Skip]"
        ]
    );
    assert_eq!(test.tap("Done"), UserIntent::Stale("Select at least one option first.".to_owned()));
    for option in ["A", "B", "C", "B"] {
        assert_eq!(test.tap(&format!(" {option}")), UserIntent::ChangeCard);
        test.run_calls();
    }
    assert!(test.log().pop().unwrap().ends_with("[☑ A / ☐ B / ☑ C / Done | Other… | Skip]"));
    assert_eq!(test.tap("Done"), UserIntent::ChangeCard);
    test.run_calls();
    assert_eq!(test.tap("Other"), UserIntent::ChangeCard);
    test.run_calls();
    assert_eq!(
        test.log().pop().unwrap(),
        "3: re 2 loud asking And why?⏎Reply to this message with your answer."
    );
    let pair = |question: &str, answer: &str| (question.to_owned(), answer.to_owned());
    let answers =
        vec![pair("Which one?", "Blue"), pair("Which ones?", "A, C"), pair("And why?", "Just so")];
    let meaning = test.chat.read_reply(test.telegram.newest(), "Just so");
    assert_eq!(meaning, Some(answer("r1", RequestAnswer::Answers(answers.clone()))));
    let (request, outcome, by) = ("r1".to_owned(), Outcome::Allowed, Some(ann()));
    test.note(&Note::RequestResolved {
        request,
        outcome,
        by,
        message: None,
        answers,
        choice: None,
    })
    .run_calls();
    assert_eq!(
        test.log(),
        [
            "2 = Question: Which one?⏎✔ Answered by Ann in the browser⏎Which one? → Blue⏎Which ones? → A, C⏎And why? → Just so",
            "3 gone",
        ]
    );
}

#[test]
fn a_plan_is_posted_before_it_is_approved() {
    let mut test = TestChat::with_turn(0);
    let input = json!({"plan":"# Plan\n\n1. Do it"});
    test.line(&text("m1", "Here is my plan.")).line(&call("m1", "c1", "ExitPlanMode", &input));
    test.line(&asks("r1", "c1", "ExitPlanMode", &input)).run_calls();
    assert_eq!(
        test.log(),
        [
            "1: Here is my plan.⏎⏎Plan⏎⏎1. Do it",
            "2: loud ◫ Approve this plan? [Approve: Accept edits / Approve: Ask / Keep planning | Request changes]",
            "typing",
        ]
    );
    let approve = |mode| answer("r1", allow(None, Some(mode)));
    assert_eq!(test.tap("Accept edits"), approve(PermissionMode::AcceptEdits));
    assert_eq!(test.tap("Approve: Ask"), approve(PermissionMode::Default));
    assert_eq!(test.tap("Keep planning"), answer("r1", deny("Keep planning.")));
    assert_eq!(test.tap("Request changes"), UserIntent::ChangeCard);
    test.run_calls();
    let intent = test.chat.read_reply(test.telegram.newest(), "in two steps");
    assert_eq!(intent, Some(answer("r1", deny("in two steps"))));
    test.log();
    test.note(&resolved("r1", Outcome::Allowed)).run_calls();
    assert_eq!(test.log(), ["2 = Plan⏎✔ Approved by Ann in the browser", "3 gone"]);
}

#[test]
fn a_plan_that_was_not_posted_here_must_be_shown_in_full() {
    let mut test = TestChat::with_turn(0);
    let input = json!({"plan": format!("{} and rm -rf ~", "step ".repeat(1_000))});
    test.line(&call("m1", "c1", "ExitPlanMode", &input));
    test.line(&asks("r1", "c1", "ExitPlanMode", &input));
    let before = test.chat.checkpoint().clone();
    let document = test.fold.conversation(usize::MAX);
    let (address, kind, session) = (before.address, before.kind, before.session);
    test.restart(ChatCheckpoint::from_now(address, kind, session, &document));
    test.run_calls();
    assert_eq!(labels(&test), ["Show all", "Keep planning", "Request changes"]);
    test.tap("Show all");
    test.run_calls();
    assert!(test.telegram.transcript().contains("and rm -rf ~"));
    let approve = answer("r1", allow(None, Some(PermissionMode::AcceptEdits)));
    assert_eq!(test.tap("Accept edits"), approve);
}

#[test]
fn a_card_of_an_earlier_process_still_changes() {
    let mut test = asking();
    let stored = test.chat.checkpoint().clone();
    test.restart(stored);
    test.run_calls().log();
    assert_eq!(test.tap("Always"), UserIntent::ChangeCard);
    test.run_calls();
    assert!(test.log()[0].contains("Always allow without asking"));
}

#[test]
fn a_card_outlives_the_process() {
    let mut test = asking();
    let (message, data) = test.telegram.button("Allow");
    let stored = test.chat.checkpoint().clone();
    test.restart(stored.clone());
    test.run_calls().log();
    assert_eq!(test.chat.read_tap(message, &data), answer("r1", allow(None, None)));
    test.restart(stored);
    test.note(&resolved("r1", Outcome::Allowed)).run_calls();
    assert_eq!(test.log()[0], "2 = Run git diff --stat⏎✔ Allowed by Ann in the browser");
}

#[test]
fn several_requests_have_a_card_each() {
    let mut test = TestChat::with_turn(1);
    test.line(&bash("m1", "c1", "a")).line(&bash("m1", "c2", "b"));
    test.line(&asks("r1", "c1", "Bash", &json!({"command":"a"})));
    test.line(&asks("r2", "c2", "Bash", &json!({"command":"b"}))).run_calls();
    assert_eq!(test.log().len(), 3);
    test.note(&resolved("r2", Outcome::Allowed)).run_calls();
    assert_eq!(test.log(), ["2 = Run b⏎✔ Allowed by Ann in the browser"]);
    test.note(&resolved("r1", Outcome::Denied)).run_calls();
    assert_eq!(test.log(), ["1 = Run a⏎✘ Denied by Ann in the browser"]);
}

#[test]
fn an_id_that_is_used_again_is_another_request() {
    let mut test = asking();
    test.note(&resolved("r1", Outcome::Allowed)).line(&result("c1", "")).run_calls().log();
    test.line(&bash("m2", "c2", "rm x")).line(&asks(
        "r1",
        "c2",
        "Bash",
        &json!({"command":"rm x"}),
    ));
    test.run_calls();
    assert!(test.log()[0].contains("loud 🔐 Run rm x"));
    assert_eq!(test.tap("Allow"), answer("r1", allow(None, None)));
    test.note(&resolved("r1", Outcome::Denied)).run_calls();
    assert_eq!(test.log()[0], "3 = Run rm x⏎✘ Denied by Ann in the browser");
}

#[test]
fn a_subagent_is_named() {
    let mut test = TestChat::with_turn(1);
    let input = json!({"description":"look around","prompt":"look","subagent_type":"Explore"});
    test.line(&call("m1", "t1", "Task", &input));
    test.line(&json!({"type":"assistant","message":{"id":"s1","content":[{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"ls"}}]},"parent_tool_use_id":"t1"}));
    test.line(&asks("r1", "c1", "Bash", &json!({"command":"ls"}))).run_calls();
    assert!(test.log()[0].starts_with("1: loud 🔐 Run ls⏎Requested by a subagent: look around⏎ls"));
}

#[test]
fn a_chat_that_switches_to_another_session_leaves_nothing_active() {
    let mut test = TestChat::with_turn(1);
    test.wait(3_000);
    test.line(&bash("m1", "c1", "ls")).line(&asks("r1", "c1", "Bash", &json!({"command":"ls"})));
    test.run_calls().log();
    for call in test.chat.closing_calls() {
        test.telegram.call(&call, test.now, std::time::Duration::ZERO).unwrap();
    }
    assert_eq!(
        test.log(),
        ["1 gone", "2 = Run ls⏎Still open, but this chat now shows another session."]
    );
}

fn choose(choice: &str) -> RequestAnswer {
    RequestAnswer::Choose { choice: choice.to_owned() }
}

#[test]
fn the_choices_of_an_agent_are_buttons_with_its_own_words() {
    let always =
        "Yes, and do not ask again for commands that start with `git diff` in this project";
    let mut test = TestChat::with_turn(1);
    test.line(&bash("m1", "c1", "git diff --stat")).line(&asks("r1", "c1", "Bash", &command()));
    let choices = [
        (AllowOnce, "Yes"),
        (AllowAlways, "Yes, for this session"),
        (AllowAlways, always),
        (RejectOnce, "No"),
        (RejectAlways, "Never"),
    ];
    test.note(&with_choices("r1", &choices)).run_calls();
    let cut: String = always.chars().take(40).collect();
    assert_eq!(
        test.log(),
        [
            format!(
                "1: loud 🔐 Run git diff --stat⏎git diff --stat⏎✔ {always} [✔ Yes / ✔ Yes, for this \
                 session / ✔ {cut}… / ✘ No | ✘ Never]"
            ),
            "typing".to_owned(),
        ]
    );
    assert_eq!(test.tap("✔ Yes, for this session"), answer("r1", choose("option-1")));
    assert_eq!(test.tap("✘ Never"), answer("r1", choose("option-4")));
}

#[test]
fn a_choice_that_allows_needs_the_whole_command_and_one_that_refuses_does_not() {
    let lines = (0..2000).map(|it| format!("echo line {it}")).collect::<Vec<_>>().join("\n");
    let input = json!({ "command": lines });
    let mut test = TestChat::with_turn(1);
    test.line(&bash("m1", "c1", &lines)).line(&asks("r1", "c1", "Bash", &input));
    test.note(&with_choices("r1", &[(AllowOnce, "Yes"), (RejectOnce, "No")])).run_calls();
    let log = test.log().join("");
    assert!(log.contains("[Show all / ✘ No]") && !log.contains("✔ Yes"), "{log}");
    assert_eq!(test.tap("✘ No"), answer("r1", choose("option-1")));
    test.tap("Show all");
    test.run_calls();
    let log = test.log().join("");
    assert!(log.contains("[✔ Yes / ✘ No]"), "{log}");
    assert_eq!(test.tap("✔ Yes"), answer("r1", choose("option-0")));
}

#[test]
fn a_request_whose_choices_only_allow_can_still_be_denied() {
    let mut test = TestChat::with_turn(1);
    test.line(&bash("m1", "c1", "git diff --stat")).line(&asks("r1", "c1", "Bash", &command()));
    test.note(&with_choices("r1", &[(AllowOnce, "Go on")])).run_calls();
    assert!(test.log().join("").contains("[✔ Go on / Deny]"));
    assert_eq!(test.tap("Deny"), answer("r1", deny(consent::denial(""))));
}
