//! Tests of partial matching.

use serde_json::{Value, json};

use super::{ScenarioVariables, contains_text, match_request, match_value, matches_text};

#[test]
fn an_ellipsis_matches_any_text() {
    let mut variables = ScenarioVariables::default();
    variables.set("dots", "a…b");
    let table = [
        ("abc", "abc", true),
        ("abc", "abcd", false),
        ("…", "", true),
        ("a…", "abc", true),
        ("…c", "abc", true),
        ("a…c", "ac", true),
        ("a…b…a", "aba", true),
        ("ab…ba", "aba", false),
        ("…b…", "abc", true),
        ("…x…", "abc", false),
        ("", "", true),
        ("", "a", false),
        ("…a…a…", "a", false),
        ("$dots", "a…b", true),
        ("$dots", "axb", false),
        ("<$dots>…", "<a…b> and more", true),
    ];
    for (pattern, text, expected) in table {
        assert_eq!(matches_text(pattern, text, &variables), expected, "{pattern} on {text}");
    }
    assert!(contains_text("is", "this", &variables));
}

#[test]
fn a_pattern_matches_in_part() {
    let yes = [
        (json!({}), json!({"a": 1})),
        (json!({"a": 1}), json!({"a": 1.0, "b": 2})),
        (json!({"a": {"b": "x…"}}), json!({"a": {"b": "xyz", "c": 1}})),
        (json!([1, 3]), json!([1, 2, 3])),
        (json!([]), json!([])),
        (json!({"a": "$absent"}), json!({"b": 1})),
        (json!({"a": "$any"}), json!({"a": null})),
        (json!({"a": null}), json!({"a": null})),
        (json!({"a": "$x", "b": "$x"}), json!({"a": "1", "b": "1"})),
        (json!(["$x", {"id": "$x"}]), json!(["no", "yes", {"id": "yes"}])),
        (json!({"a": ["$x"], "b": "$x"}), json!({"a": ["1", "2"], "b": "2"})),
        (json!("$cwd/x"), json!("/p/x")),
    ];
    let no = [
        (json!({"a": 1}), json!({"a": 2})),
        (json!({"a": 1}), json!({})),
        (json!([3, 1]), json!([1, 2, 3])),
        (json!([1, 1]), json!([1])),
        (json!([]), json!([1])),
        (json!({"a": "$absent"}), json!({"a": null})),
        (json!({"a": "$any"}), json!({})),
        (json!({"a": "$x"}), json!({"a": 1})),
        (json!({"a": "$x", "b": "$x"}), json!({"a": "1", "b": "2"})),
        (json!("1"), json!(1)),
        (json!({"a": false}), json!({"a": null})),
    ];
    let mut variables = ScenarioVariables::default();
    variables.set("cwd", "/p");
    for (pattern, actual) in yes {
        assert!(match_value(&pattern, &actual, &variables).is_ok(), "{pattern} on {actual}");
    }
    for (pattern, actual) in no {
        assert!(match_value(&pattern, &actual, &variables).is_err(), "{pattern} on {actual}");
    }
}

#[test]
fn a_variable_keeps_the_value_of_its_first_match() {
    let first =
        match_value(&json!({"id": "$call"}), &json!({"id": "t1"}), &ScenarioVariables::default());
    let variables = first.unwrap();
    assert_eq!(variables.get("call"), Some("t1"));
    assert!(match_value(&json!({"id": "$call"}), &json!({"id": "t2"}), &variables).is_err());
    assert!(match_value(&json!({"id": "…$call…"}), &json!({"id": "<t1>"}), &variables).is_ok());
}

#[test]
fn a_mismatch_has_a_path_and_both_values() {
    let mut variables = ScenarioVariables::default();
    variables.set("call", "t1");
    let explain = |pattern: Value, actual: Value| {
        let mismatch = match_value(&pattern, &actual, &variables).unwrap_err();
        (mismatch.path, mismatch.expected, mismatch.actual)
    };
    let owned = |path: &str, expected: &str, actual: &str| {
        (path.to_owned(), expected.to_owned(), actual.to_owned())
    };
    assert_eq!(
        explain(
            json!({"message": {"content": [{"type": "tool_result", "tool_use_id": "$call"}]}}),
            json!({"message": {"content": [{"type": "text"}, {"type": "tool_result", "tool_use_id": "t2"}]}}),
        ),
        owned("message.content[1].tool_use_id", r#""t1""#, r#""t2""#)
    );
    assert_eq!(explain(json!({"a": "$x"}), json!({"b": 1})), owned("a", "any string", "nothing"));
    assert_eq!(explain(json!({"a": "$absent"}), json!({"a": 1})), owned("a", "nothing", "1"));
    assert_eq!(explain(json!({"a": [1, 2]}), json!({"a": [2]})), owned("a[0]", "1", "2"));
    assert_eq!(explain(json!({"a": [1]}), json!({"a": []})), owned("a[0]", "1", "nothing"));
    assert_eq!(explain(json!([]), json!([1])), owned("", "[]", "[1]"));
}

#[test]
fn in_a_request_a_text_is_the_same_as_one_text_block() {
    let text = json!({"messages": [{"role": "user", "content": "x"}], "system": "s"});
    let block = |text: &str| json!([{"type": "text", "text": text, "cache_control": {}}]);
    let blocks =
        json!({"messages": [{"role": "user", "content": block("x")}], "system": block("s")});
    let short = json!({"messages": [{"content": [{"text": "x"}]}]});
    let variables = ScenarioVariables::default();
    let same = |pattern: &Value, actual: &Value| match_request(pattern, actual, &variables).is_ok();
    for (pattern, actual) in [(&text, &blocks), (&short, &text), (&short, &blocks), (&text, &text)]
    {
        assert!(same(pattern, actual), "{pattern} on {actual}");
    }
    assert!(match_value(&short, &text, &variables).is_err(), "a line is not a request");
    assert!(match_value(&text, &blocks, &variables).is_err(), "a line is not a request");

    let result = |content: Value| json!({"messages": [{"content": [{"type": "tool_result", "content": content}]}]});
    assert!(same(&result(json!("x")), &result(block("x"))), "also in the result of a tool");
    let two = json!({"messages": [{"content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]}]});
    assert!(!same(&json!({"messages": [{"content": "x"}]}), &two), "more than the text");
    assert!(!same(&short, &json!({"messages": [{"role": "user", "content": "y"}]})));
}

#[test]
fn the_mismatch_of_a_request_is_in_the_message_that_is_meant() {
    let user = |content: Value| json!({"role": "user", "content": content});
    let blocks = |text: &str| json!([{"type": "text", "text": text}]);
    let actual = json!({"messages": [
        user(blocks("<system-reminder>the date</system-reminder>")),
        user(json!("what was it again?")),
        user(blocks("and something else")),
    ]});
    let pattern = json!({"messages": [user(json!([{"type": "text", "text": "what was it?"}]))]});
    let mismatch = match_request(&pattern, &actual, &ScenarioVariables::default()).unwrap_err();
    assert_eq!(mismatch.path, "messages[1].content[0].text");
    assert_eq!(mismatch.actual, r#""what was it again?""#);
}
