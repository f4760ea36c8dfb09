//! The keys and lines of a request prompt.

use super::{RequestKeyEffect, RequestPrompt};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use session::RequestAnswer;
use std::path::Path;
use view::{Request, ToolAction};
use wire::acp::{PermissionChoice, PermissionChoiceKind};
use wire::consent::{self, RuleId};
use wire::note::RequestKind;
use wire::outgoing::PermissionMode;

fn prompt(tool: &str, wants: RequestKind, input: &str) -> RequestPrompt {
    let parsed: serde_json::Value = serde_json::from_str(input).unwrap();
    let target = ["command", "file_path"].into_iter().find_map(|key| parsed[key].as_str());
    let target = target.unwrap_or_default().trim().lines().next().unwrap_or_default();
    let request = Request {
        id: "r".to_owned(),
        item: None,
        kind: wants,
        tool: tool.to_owned(),
        action: ToolAction::of(tool),
        target: target.chars().take(100).collect(),
        input: input.to_owned(),
        description: None,
        reason: None,
        blocked_path: None,
        suggestions: None,
        at: None,
        expires: None,
        choices: Vec::new(),
        rules: consent::rules(tool, input, "/p"),
    };
    let mut prompt = RequestPrompt::new(request, Path::new("/p"));
    prompt.resize(80, 20);
    prompt
}

/// A request with the options of one question.
fn question(text: &str, label: &str, description: &str) -> RequestPrompt {
    let input = serde_json::json!({"questions": [{"question": text, "options": [
        {"label": label, "description": description}, {"label": "No"}]}]});
    prompt("AskUserQuestion", RequestKind::Question, &input.to_string())
}

/// Everything that the user had printed, without the breaks of lines.
fn printed(prompt: &RequestPrompt) -> String {
    prompt.full_lines().iter().map(|line| line.text().trim().to_owned()).collect()
}

fn command(command: &str) -> RequestPrompt {
    let input = serde_json::json!({ "command": command }).to_string();
    prompt("Bash", RequestKind::Permission, &input)
}

fn press(prompt: &mut RequestPrompt, keys: &str) -> RequestKeyEffect {
    let mut last = RequestKeyEffect::Ignored;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        last = prompt.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    last
}

fn text(prompt: &RequestPrompt) -> String {
    let lines = prompt.lines().0;
    lines.iter().map(view::terminal::StyledLine::text).collect::<Vec<_>>().join("\n")
}

fn denied(reason: &str, interrupt: bool) -> RequestKeyEffect {
    RequestKeyEffect::Resolve(RequestAnswer::Deny { message: reason.to_owned(), interrupt })
}

/// The rule that an effect remembers; none if it allows the call once.
fn allowed(effect: RequestKeyEffect) -> Option<RuleId> {
    match effect {
        RequestKeyEffect::Resolve(RequestAnswer::Allow { remember, mode: None, .. }) => {
            remember.map(|it| it.rule)
        }
        other => panic!("not allowed: {other:?}"),
    }
}

#[test]
fn a_call_is_allowed_once_always_or_denied() {
    let ask = || command("make");
    assert_eq!(allowed(press(&mut ask(), "y")), None);
    assert_eq!(allowed(press(&mut ask(), "a")), Some(RuleId::Exact));
    assert!(text(&ask()).contains("a always: Run exactly this command"), "{}", text(&ask()));
    assert_eq!(press(&mut ask(), "n"), denied("", false));
    assert_eq!(press(&mut ask(), "s"), denied("", true));
    assert_eq!(press(&mut ask(), "dnot yet\n"), denied("not yet", false));
    for key in ["1", "x", "\n"] {
        assert_eq!(press(&mut ask(), key), RequestKeyEffect::Ignored, "{key}");
    }
}

#[test]
fn several_rules_are_offered_by_their_labels() {
    let ask =
        || prompt("Write", RequestKind::Permission, r#"{"file_path":"/p/a.txt","content":""}"#);
    let mut open = ask();
    assert_eq!(press(&mut open, "a"), RequestKeyEffect::Redraw);
    for rule in &open.request.rules {
        assert!(text(&open).contains(&rule.label), "{}", text(&open));
    }
    assert_eq!(allowed(press(&mut ask(), "a1")), Some(RuleId::Exact));
    assert_eq!(allowed(press(&mut ask(), "a2")), Some(RuleId::Directory));
    assert_eq!(press(&mut ask(), "a3"), RequestKeyEffect::Ignored);
    assert_eq!(allowed(press(&mut ask(), "a\x1by")), None);
}

#[test]
fn a_call_without_rules_cannot_be_allowed_always() {
    let input = r#"{"command":"make","dangerouslyDisableSandbox":true}"#;
    let mut ask = prompt("Bash", RequestKind::Permission, input);
    assert!(!text(&ask).contains("always"), "{}", text(&ask));
    assert!(text(&ask).contains("dangerouslyDisableSandbox"), "{}", text(&ask));
    assert_eq!(press(&mut ask, "a"), RequestKeyEffect::Ignored);
    assert_eq!(allowed(press(&mut ask, "y")), None);
}

#[test]
fn a_command_that_does_not_fit_is_allowed_only_after_it_was_shown() {
    let long = format!("echo {}; rm -rf ~", "x".repeat(5000));
    let mut ask = command(&long);
    assert!(ask.lines().0.len() <= 20);
    let before = text(&ask);
    assert!(!before.contains("y yes") && !before.contains("always"), "{before}");
    assert!(before.contains("press v to show everything"), "{before}");
    for key in ["y", "a", "a1"] {
        assert_eq!(press(&mut ask, key), RequestKeyEffect::Ignored, "{key}");
    }
    assert_eq!(press(&mut ask, "v"), RequestKeyEffect::ShowAll);
    assert_eq!(press(&mut ask, "y"), RequestKeyEffect::Ignored, "it is not printed yet");
    let full: String = ask.full_lines().iter().map(|line| line.text().trim().to_owned()).collect();
    assert!(full.contains(&long), "every character is printed");
    ask.mark_reviewed();
    assert!(text(&ask).contains("y yes"), "{}", text(&ask));
    assert_eq!(allowed(press(&mut ask, "a")), Some(RuleId::Exact));

    let mut ask = command(&long);
    ask.resize(80, 200);
    assert!(text(&ask).contains("y yes"), "all of it is on the screen");
    assert_eq!(allowed(press(&mut ask, "y")), None);
    assert_eq!(press(&mut command(&long), "n"), denied("", false), "denying needs no review");
}

#[test]
fn a_long_label_of_a_rule_is_shown_in_full_too() {
    let path = format!("/p/{}", "x".repeat(3000));
    let input = serde_json::json!({ "file_path": path, "content": "" }).to_string();
    let mut ask = prompt("Write", RequestKind::Permission, &input);
    assert_eq!(press(&mut ask, "a"), RequestKeyEffect::Ignored);
    ask.resize(80, 200);
    press(&mut ask, "a");
    let lines: String = ask.lines().0.iter().map(|line| line.text().trim().to_owned()).collect();
    assert!(lines.contains(&format!("{path}, whatever the change")), "{lines}");
}

#[test]
fn hidden_characters_and_further_lines_are_visible() {
    let shown = text(&command("make\nrm -rf ~ \u{1b}[8m\u{200b}"));
    assert!(shown.starts_with("? Allow Run make …?\n  Command: make\n"), "{shown}");
    assert!(shown.contains("rm -rf ~ \\u{1b}[8m\\u{200b}"), "{shown}");
    assert!(text(&command("make")).starts_with("? Allow Run make?\n  y yes"));
}

#[test]
fn a_plan_is_approved_with_the_mode_that_follows() {
    for (key, expected) in [("y", PermissionMode::Default), ("a", PermissionMode::AcceptEdits)] {
        let mut ask = prompt("ExitPlanMode", RequestKind::Plan, r#"{"plan":"x"}"#);
        assert!(text(&ask).contains("a approve, then accept edits   y approve, then ask"));
        let RequestKeyEffect::Resolve(RequestAnswer::Allow { mode, .. }) = press(&mut ask, key)
        else {
            panic!("`{key}` approves")
        };
        assert_eq!(mode, Some(expected));
    }
}

#[test]
fn questions_are_answered_one_by_one() {
    let input = r#"{"questions":[
        {"question":"Way?","options":[{"label":"Up"},{"label":"Down"}]},
        {"question":"Luggage?","multiSelect":true,"options":[{"label":"Rope"},{"label":"Tea"},{"label":"Map"}]}]}"#;
    let ask = || prompt("AskUserQuestion", RequestKind::Question, input);
    let answers = |way: &str, luggage: &str| {
        let pair = |question: &str, answer: &str| (question.to_owned(), answer.to_owned());
        let answers = vec![pair("Way?", way), pair("Luggage?", luggage)];
        RequestKeyEffect::Resolve(RequestAnswer::Answers(answers))
    };
    assert_eq!(press(&mut ask(), "21322\n"), answers("Down", "Rope, Map"));
    assert_eq!(press(&mut ask(), "0sideways\n21\n"), answers("sideways", "Rope, Tea"));
    assert_eq!(press(&mut ask(), "110a hat\n"), answers("Up", "Rope, a hat"));
    assert_eq!(press(&mut ask(), "1n"), denied("", false));
    assert_eq!(press(&mut ask(), "9"), RequestKeyEffect::Ignored);
    assert_eq!(press(&mut ask(), "1\n"), RequestKeyEffect::Ignored, "nothing is selected");
}

#[test]
fn every_line_fits_the_width() {
    for width in [20, 40, 80] {
        let mut ask = command("make everything\nand more");
        ask.resize(width, 20);
        assert!(ask.lines().0.iter().all(|line| line.width() <= width));
    }
    let mut ask = command("make");
    press(&mut ask, "d");
    let (lines, cursor) = ask.lines();
    assert_eq!(cursor, Some((lines.len() - 1, 4)));
}

#[test]
fn a_long_question_is_answered_only_after_it_was_shown() {
    let long = format!("{}and_delete_it", "really_".repeat(1_000));
    for mut ask in
        [question(&long, "Yes", ""), question("Sure?", &long, ""), question("Sure?", "Yes", &long)]
    {
        assert!(ask.lines().0.len() <= 20, "{}", text(&ask));
        assert!(text(&ask).contains("v show all (required"), "{}", text(&ask));
        assert_eq!(press(&mut ask, "1"), RequestKeyEffect::Ignored);
        assert_eq!(press(&mut ask, "v"), RequestKeyEffect::ShowAll);
        assert!(printed(&ask).contains(&long));
        ask.mark_reviewed();
        assert!(matches!(press(&mut ask, "1"), RequestKeyEffect::Resolve(_)));
    }
    // An answer in the user's own words agrees to nothing.
    let mut ask = question(&long, "Yes", "");
    let answers = vec![(long.clone(), "no idea".to_owned())];
    let answered = RequestKeyEffect::Resolve(RequestAnswer::Answers(answers));
    assert_eq!(press(&mut ask, "0no idea\n"), answered);
    assert_eq!(press(&mut question(&long, "Yes", ""), "n"), denied("", false));
}

#[test]
fn options_are_not_cut_at_the_edge_of_the_screen() {
    let label = "word ".repeat(40);
    let ask = question("Sure?", &label, &"why ".repeat(30));
    let shown: String = ask.lines().0.iter().map(view::terminal::StyledLine::text).collect();
    assert_eq!(shown.matches("word").count(), 40, "{shown}");
    assert_eq!(shown.matches("why").count(), 30, "{shown}");
}

#[test]
fn no_part_of_a_request_controls_the_terminal_or_hides_characters() {
    let evil = "a\u{1b}[2J\u{1b}]52;c;x\u{7}\u{9b}8m\r\u{202e}b\u{200b}\u{3164}";
    let mut permission = command(evil);
    permission.request.reason = Some(evil.to_owned());
    permission.request.description = Some(evil.repeat(30));
    permission.disclosures = super::disclosures(&permission.request);
    let mut unknown = prompt("subtype", RequestKind::Unknown, "{}");
    unknown.request.tool = evil.to_owned();
    for mut ask in [permission, unknown, question(evil, evil, evil)] {
        ask.resize(80, 200);
        for lines in [ask.lines().0, ask.full_lines()] {
            let shown =
                lines.iter().map(view::terminal::StyledLine::text).collect::<Vec<_>>().join("\n");
            let hidden = |c: char| {
                c != '\n' && c.is_control() || ['\u{202e}', '\u{200b}', '\u{3164}'].contains(&c)
            };
            assert!(!shown.contains(hidden), "{shown:?}");
            assert!(shown.replace('\n', "").contains("\\u{202e}b\\u{200b}"), "{shown}");
        }
    }
}

#[test]
fn a_long_description_or_reason_must_be_shown_too() {
    let long = format!("{}and_delete_it", "harmless_".repeat(600));
    for field in 0..2 {
        let mut ask = command("make");
        match field {
            0 => ask.request.description = Some(long.clone()),
            _ => ask.request.reason = Some(long.clone()),
        }
        ask.disclosures = super::disclosures(&ask.request);
        assert_eq!(press(&mut ask, "y"), RequestKeyEffect::Ignored);
        assert!(printed(&ask).contains(&long));
        ask.mark_reviewed();
        assert_eq!(allowed(press(&mut ask, "y")), None);
    }
}

#[test]
fn a_plan_that_is_not_on_the_screen_is_approved_only_after_it_was_shown() {
    let mut ask = prompt("ExitPlanMode", RequestKind::Plan, r#"{"plan":"x"}"#);
    ask.set_call_rows(18);
    assert_eq!(press(&mut ask, "y"), RequestKeyEffect::Ignored);
    assert!(text(&ask).contains("v show all (required"), "{}", text(&ask));
    ask.mark_reviewed();
    assert!(matches!(press(&mut ask, "y"), RequestKeyEffect::Resolve(_)));
}

#[test]
fn an_unknown_request_is_shown_as_it_is_and_can_only_be_denied() {
    for padding in [10, 5_000] {
        let content = "x".repeat(padding);
        let input = serde_json::json!({"subtype": "grant_everything", "what": content});
        let mut ask = prompt("grant_everything", RequestKind::Unknown, &input.to_string());
        assert!(text(&ask).contains("Unknown request grant_everything"), "{}", text(&ask));
        assert!(printed(&ask).contains(&content));
        for reviewed in [false, true] {
            if reviewed {
                ask.mark_reviewed();
            }
            for key in ["y", "a", "a1", "1", "\n"] {
                assert_eq!(press(&mut ask, key), RequestKeyEffect::Ignored, "{key}");
            }
            assert!(!text(&ask).contains("y yes") && text(&ask).contains("n no"), "{}", text(&ask));
        }
        assert_eq!(press(&mut ask, "n"), denied("", false));
    }
}

/// A request for a command, with choices of the agent's own.
fn with_choices(command: &str, choices: &[(PermissionChoiceKind, &str)]) -> RequestPrompt {
    let input = serde_json::json!({ "command": command }).to_string();
    let mut request = prompt("Bash", RequestKind::Permission, &input).request;
    let choice = |(number, (kind, name)): (usize, &(PermissionChoiceKind, &str))| {
        PermissionChoice { id: format!("id{number}"), name: (*name).to_owned(), kind: *kind }
    };
    request.choices = choices.iter().enumerate().map(choice).collect();
    let mut prompt = RequestPrompt::new(request, Path::new("/p"));
    prompt.resize(80, 20);
    prompt
}

fn chosen(choice: &str) -> RequestKeyEffect {
    RequestKeyEffect::Resolve(RequestAnswer::Choose { choice: choice.to_owned() })
}

#[test]
fn the_choices_of_an_agent_are_lines_with_its_words_and_a_key_each() {
    use PermissionChoiceKind::{AllowAlways, AllowOnce, RejectOnce};
    let choices =
        [(AllowAlways, "Always in this project"), (AllowOnce, "Once"), (RejectOnce, "No")];
    let ask = || with_choices("make", &choices);
    let shown = text(&ask());
    for line in ["1  ✔ Always in this project", "2  ✔ Once", "3  ✘ No"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(!shown.contains("always:") && !shown.contains("reason"), "{shown}");
    assert_eq!(press(&mut ask(), "1"), chosen("id0"));
    // A plain yes is the narrowest one.
    assert_eq!(press(&mut ask(), "y"), chosen("id1"));
    assert_eq!(press(&mut ask(), "n"), chosen("id2"));
    assert_eq!(press(&mut ask(), "4"), RequestKeyEffect::Ignored);
    assert_eq!(press(&mut ask(), "s"), denied("", true));
    assert_eq!(press(&mut with_choices("make", &choices[..2]), "n"), denied("", false));
}

#[test]
fn a_choice_that_allows_works_only_after_all_of_a_long_command_was_shown() {
    use PermissionChoiceKind::{AllowOnce, RejectOnce};
    let long = (0..40).map(|it| format!("echo {it}")).collect::<Vec<_>>().join("\n");
    let name = "Yes, ".repeat(40);
    let mut prompt = with_choices(&long, &[(AllowOnce, name.as_str()), (RejectOnce, "No")]);
    assert_eq!(press(&mut prompt, "1"), RequestKeyEffect::Ignored);
    assert_eq!(press(&mut prompt, "y"), RequestKeyEffect::Ignored);
    assert!(text(&prompt).contains("show all"), "{}", text(&prompt));
    assert_eq!(press(&mut prompt, "2"), chosen("id1"));
    assert_eq!(press(&mut prompt, "v"), RequestKeyEffect::ShowAll);
    assert!(printed(&prompt).contains("echo 39"));
    prompt.mark_reviewed();
    assert_eq!(press(&mut prompt, "1"), chosen("id0"));
}
