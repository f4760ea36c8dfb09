//! Requests and results of the captures with one field in an unexpected shape.

use serde_json::Value;
use towpath_wire::outgoing::{ControlReply, OutgoingLine};
use towpath_wire::{TurnSignal, is_answerable, read};

/// Replaced by text that `serde_json` cannot build as a value.
const PLACEHOLDER: &str = "@odd@";

/// Values that no field expects, and those that some fields do not.
fn odd_values() -> Vec<String> {
    let nest = |open: &str, close: &str| open.repeat(2_000) + &close.repeat(2_000);
    ["null", "true", "-1", "1.5", "1e400", "\"\"", "\"text\"", "[]", "{}", "[{\"a\":[null]}]"]
        .into_iter()
        .map(str::to_owned)
        .chain([nest("[", "]"), format!("{}1{}", "{\"a\":".repeat(2_000), "}".repeat(2_000))])
        .collect()
}

/// The paths of all values of an object, as JSON pointers.
fn paths(value: &Value, path: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, it)| (key.clone(), it)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, it)| (index.to_string(), it)).collect()
        }
        _ => Vec::new(),
    };
    for (key, child) in children {
        let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        found.push(path.clone());
        paths(child, &path, found);
    }
}

fn captured(wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut lines: Vec<Value> = crate::recordings::of_claude()
        .iter()
        .flat_map(|(_, bytes)| bytes.split(|&byte| byte == b'\n'))
        .filter_map(|line| serde_json::from_slice(line).ok())
        .filter(wanted)
        .collect();
    // One line of each shape is enough.
    let shape = |line: &Value| {
        let mut found = Vec::new();
        paths(line, "", &mut found);
        found.join(" ")
    };
    lines.sort_by_key(shape);
    lines.dedup_by_key(|line| shape(line));
    lines
}

/// Calls `check` with every line that has one value replaced or removed, except the `essential` ones.
fn for_each_odd_line(lines: &[Value], essential: &[&str], check: impl Fn(&str)) {
    assert!(!lines.is_empty());
    let odd = odd_values();
    for line in lines {
        let mut all = Vec::new();
        paths(line, "", &mut all);
        for path in all.iter().filter(|path| !essential.contains(&path.as_str())) {
            let mut changed = line.clone();
            *changed.pointer_mut(path).expect("a path") = Value::from(PLACEHOLDER);
            let text = changed.to_string();
            for odd in &odd {
                check(&text.replace(&format!("\"{PLACEHOLDER}\""), odd));
            }
            let (parent, key) = path.rsplit_once('/').expect("a path");
            if let Some(Value::Object(fields)) = changed.pointer_mut(parent) {
                fields.remove(key);
                check(&changed.to_string());
            }
        }
    }
}

#[track_caller]
fn start_of(line: &str) -> &str {
    &line[..line.floor_char_boundary(400)]
}

#[test]
fn a_permission_request_can_be_answered_whatever_its_fields_look_like() {
    let requests = captured(|line| line["request"]["subtype"] == "can_use_tool");
    // The id has a test of its own below.
    let essential = ["/type", "/request_id", "/request", "/request/subtype"];
    for_each_odd_line(&requests, &essential, |line| {
        let signal = TurnSignal::of(&read(line.as_bytes()).next().expect("a line"));
        assert!(
            matches!(signal, Some(TurnSignal::RequestOpened { .. })),
            "{}: {signal:?}",
            start_of(line)
        );
    });
}

#[test]
fn a_request_of_any_content_can_be_refused() {
    let requests = captured(|line| line["type"] == "control_request");
    for_each_odd_line(&requests, &["/type"], |line| {
        let signal = TurnSignal::of(&read(line.as_bytes()).next().expect("a line"));
        assert!(
            matches!(
                signal,
                Some(
                    TurnSignal::RequestOpened { .. }
                        | TurnSignal::UnknownRequest(_)
                        | TurnSignal::UnsupportedRequest { .. }
                        | TurnSignal::HookCalled { .. }
                )
            ),
            "{}: {signal:?}",
            start_of(line)
        );
    });
}

#[test]
fn a_request_with_any_id_is_seen_and_answered_with_the_same_one() {
    let requests = captured(|line| line["request"]["subtype"] == "can_use_tool");
    for request in &requests {
        for id in odd_values() {
            let mut changed = request.clone();
            changed["request_id"] = Value::from(PLACEHOLDER);
            let line = changed.to_string().replace(&format!("\"{PLACEHOLDER}\""), &id);
            let signal = TurnSignal::of(&read(line.as_bytes()).next().expect("a line"));
            let key = match &signal {
                Some(TurnSignal::RequestOpened { id, .. }) => id.key(),
                Some(TurnSignal::UnknownRequest(request)) => request.id.key(),
                _ => panic!("{}: {signal:?}", start_of(&line)),
            };
            let echoed = OutgoingLine::reply(&key, &ControlReply::deny("no"));
            let can_be_repeated = id.starts_with(['"', '-']) || id.starts_with('1');
            assert_eq!(is_answerable(&key), can_be_repeated, "{id}");
            let field = format!("\"request_id\":{id},");
            assert_eq!(echoed.as_str().contains(&field), can_be_repeated, "{}", echoed.as_str());
        }
    }
}

#[test]
fn a_result_ends_the_turn_whatever_its_fields_look_like() {
    let results = captured(|line| line["type"] == "result");
    for_each_odd_line(&results, &["/type"], |line| {
        let signal = TurnSignal::of(&read(line.as_bytes()).next().expect("a line"));
        assert!(matches!(signal, Some(TurnSignal::Ended(_))), "{}: {signal:?}", start_of(line));
    });
    for bare in [r#"{"type":"result"}"#, r#"{"type":"result","subtype":5,"usage":"x"}"#] {
        let signal = TurnSignal::of(&read(bare.as_bytes()).next().expect("a line"));
        assert!(matches!(signal, Some(TurnSignal::Ended(_))), "{bare}: {signal:?}");
    }
}
