//! No user agrees to a text that was not shown: long and hidden texts in every part of a request.

use serde_json::{Value, json};
use session::RequestAnswer;
use towpath_telegram::BotCall;
use towpath_telegram::chat::{NextCall, UserIntent};
use wire::note::RequestKind;

use super::harness::{TestChat, asks, call, opened};

fn requesting(kind: RequestKind, tool: &str, input: &Value, more: &Value) -> TestChat {
    let mut asks = asks("r1", "c1", tool, input);
    for (name, value) in more.as_object().into_iter().flatten() {
        asks["request"][name] = value.clone();
    }
    let mut test = TestChat::with_turn(1);
    test.line(&call("m1", "c1", tool, input)).line(&asks);
    test.note(&opened("r1", kind)).run_calls();
    test
}

fn labels(test: &TestChat) -> Vec<String> {
    let buttons = test.telegram.messages[&test.telegram.newest()].buttons.iter().flatten();
    buttons.map(|button| button.label.clone()).collect()
}

/// Makes all calls, and returns the content of text files among them.
fn run_with_files(test: &mut TestChat) -> String {
    let mut files = String::new();
    loop {
        if let NextCall::Call(BotCall::SendText { content, .. }, _) = test.chat.next_call(test.now)
        {
            files.push_str(&content);
        }
        if !test.step() {
            return files;
        }
    }
}

fn allowed(intent: &UserIntent) -> bool {
    let UserIntent::Answer { answer, .. } = intent else { return false };
    !matches!(answer, RequestAnswer::Deny { .. })
}

#[test]
fn a_long_remark_about_a_call_is_shown_in_full_before_the_call_can_be_allowed() {
    for length in [5_000, 100_000] {
        let long = format!("{}, and deletes everything", "harmless ".repeat(length / 9));
        for field in ["description", "decision_reason", "blocked_path"] {
            let more = json!({ field: long });
            let input = json!({"command": "make"});
            let mut test = requesting(RequestKind::Permission, "Bash", &input, &more);
            assert_eq!(labels(&test), ["Show all", "Deny", "Deny with reason"], "{field}");
            let (card, data) = test.telegram.button("Show all");
            let intent = test.chat.read_tap(card, &data.replace(".s", ".y"));
            assert!(matches!(intent, UserIntent::Stale(_)), "{field}: {intent:?}");
            test.tap("Show all");
            let files = run_with_files(&mut test);
            let seen = format!("{files}{}", test.telegram.transcript());
            assert!(seen.contains("and deletes everything"), "{field}");
            assert!(allowed(&test.tap("Allow")), "{field}");
        }
    }
}

#[test]
fn a_remark_that_fits_is_on_the_card_with_its_hidden_characters() {
    let remark = format!("{}\u{202e}\u{200b}\u{1b}[8m the end", "word ".repeat(60));
    for field in ["description", "decision_reason"] {
        let more = json!({ field: remark });
        let input = json!({"command": "make"});
        let test = requesting(RequestKind::Permission, "Bash", &input, &more);
        let card = test.telegram.transcript();
        assert!(card.contains("word \\u{202e}\\u{200b}␛[8m the end"), "{field}: {card}");
        assert_eq!(labels(&test)[0], "Allow", "{field}");
    }
    let more = json!({"description": "short \u{202e}\u{3164}\u{e0061}"});
    let input = json!({"command": "make"});
    let test = requesting(RequestKind::Permission, "Bash", &input, &more);
    let card = test.telegram.transcript();
    assert!(card.contains("short \\u{202e}\\u{3164}\\u{e0061}"), "{card}");
}

#[test]
fn a_long_question_is_shown_in_full_before_an_option_can_be_chosen() {
    let question = |text: &str, label: &str, description: &str| {
        json!({"questions":[{"question": text, "header": "H", "multiSelect": false, "options": [
            {"label": label, "description": description}, {"label": "No", "description": ""}]}]})
    };
    let long = format!("{} and delete it", "really ".repeat(1_000));
    for input in [
        question(&long, "Yes", "d"),
        question("Sure?", &long, "d"),
        question("Sure?", "Yes", &long),
    ] {
        let mut test = requesting(RequestKind::Question, "AskUserQuestion", &input, &Value::Null);
        assert_eq!(labels(&test), ["Show all", "Skip"]);
        let (card, data) = test.telegram.button("Show all");
        let choose = data.replace(".s", ".q0.0");
        let intent = test.chat.read_tap(card, &choose);
        assert!(matches!(intent, UserIntent::Stale(_)), "{intent:?}");
        test.tap("Show all");
        let files = run_with_files(&mut test);
        assert!(format!("{files}{}", test.telegram.transcript()).contains("and delete it"));
        assert!(allowed(&test.chat.read_tap(test.telegram.newest(), &choose)));
    }
    let input = question("Sure?\u{200b}", "Yes \u{202e}no", &"word ".repeat(100));
    let test = requesting(RequestKind::Question, "AskUserQuestion", &input, &Value::Null);
    let card = test.telegram.transcript();
    assert!(card.contains("Sure?\\u{200b}") && card.contains("1. Yes \\u{202e}no"), "{card}");
    assert!(card.contains("word ".repeat(100).trim()), "{card}");
    assert!(labels(&test)[0].contains("Yes \\u{202e}no"));
}

#[test]
fn an_unknown_request_shows_what_it_contains_and_can_only_be_denied() {
    for padding in [10, 5_000, 200_000] {
        let mut test = TestChat::with_turn(1);
        let content = "x".repeat(padding);
        test.line(&json!({"type":"control_request","request_id":"r1",
            "request":{"subtype":"grant_everything","what":content}}));
        test.note(&opened("r1", RequestKind::Unknown)).run_calls();
        let card = test.telegram.transcript();
        assert!(card.contains("grant_everything") && card.contains("only deny"), "{card}");
        let (message, data) = test.telegram.button("Deny");
        let key = data.strip_suffix('n').unwrap();
        for verb in ["y", "a", "r0s", "r0d", "pe", "pa", "q0.0", "b"] {
            let intent = test.chat.read_tap(message, &format!("{key}{verb}"));
            assert!(matches!(intent, UserIntent::Stale(_)), "{verb}: {intent:?}");
        }
        if padding > 1_000 {
            test.tap("Show all");
            let files = run_with_files(&mut test);
            let seen = format!("{files}{}", test.telegram.transcript()).replace('\n', "");
            assert!(seen.contains(&content));
        }
        let UserIntent::Answer { answer: RequestAnswer::Deny { .. }, .. } = test.tap("Deny") else {
            panic!("it is denied")
        };
    }
}
