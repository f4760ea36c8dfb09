//! Every kind that the crate knows is explained.
//!
//! The kinds are found by trying: every word in the crate's source is used as a type, a subtype and so
//! on, and what is not read as unknown is known.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use towpath_wire::explanation::{TO_AGENT, explanations};
use towpath_wire::{Reading, read};

/// All words in string literals of the source.
fn words() -> BTreeSet<String> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut words = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the source") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let source = std::fs::read_to_string(path).expect("a source file");
                let literals = source.split('"');
                let is_word = |it: &&str| {
                    !it.is_empty()
                        && it.len() < 60
                        && it.chars().all(|it| {
                            it.is_ascii_lowercase() || it.is_ascii_digit() || "_-".contains(it)
                        })
                };
                words.extend(literals.filter(is_word).map(str::to_owned));
            }
        }
    }
    assert!(words.len() > 400, "{}", words.len());
    words
}

/// Whether a line is of a known kind, and contains nothing unknown.
fn is_known(line: &str) -> bool {
    let mut known = false;
    for line in read(line.as_bytes()) {
        // Other agents' lines are no part of this protocol.
        if line.dialect.program() != "claude" {
            return false;
        }
        match line.reading {
            Reading::Event(event) => {
                known = !event.unmodelled().iter().any(|part| !part.contains(": "));
            }
            Reading::Mismatch(_) => known = true,
            Reading::Unknown(_) | Reading::Noise(_) => return false,
        }
    }
    known
}

/// The kinds that need subtypes or content to be told apart, with a line for a subtype `X`.
const TEMPLATES: [(&str, &str); 7] = [
    ("system/X", r#"{"type":"system","subtype":"X"}"#),
    ("result/X", r#"{"type":"result","subtype":"X"}"#),
    (
        "control_request/X",
        r#"{"type":"control_request","request_id":"r","request":{"subtype":"X"}}"#,
    ),
    (
        "control_response/X",
        r#"{"type":"control_response","response":{"subtype":"X","request_id":"r"}}"#,
    ),
    ("stream_event/X", r#"{"type":"stream_event","event":{"type":"X"}}"#),
    (
        "stream_event/content_block_delta(X)",
        r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"X"}}}"#,
    ),
    ("content_block/X", r#"{"type":"assistant","message":{"content":[{"type":"X"}]}}"#),
];

/// Types whose subtypes or contents are explained instead.
const DIVIDED: [&str; 7] = [
    "system",
    "assistant",
    "user",
    "control_request",
    "control_response",
    "stream_event",
    // Notes of Towpath's are no part of the protocol.
    "towpath",
];

#[test]
fn every_known_kind_is_explained() {
    let explained: BTreeMap<&str, String> =
        explanations().into_iter().map(|it| (it.name, it.text)).collect();
    let is_explained = |name: &str| {
        let variants = explained
            .keys()
            .any(|it| it.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')));
        explained.contains_key(name)
            || explained.contains_key(&*format!("{name}{TO_AGENT}"))
            || variants
    };
    let mut missing = Vec::new();
    let mut known = 0;
    for word in words() {
        if !DIVIDED.contains(&&*word) && is_known(&format!(r#"{{"type":"{word}"}}"#)) {
            known += 1;
            if !is_explained(&word) {
                missing.push(word.clone());
            }
        }
        for (name, line) in TEMPLATES {
            let (name, line) = (name.replace('X', &word), line.replace('X', &word));
            if is_known(&line) {
                known += 1;
                if !is_explained(&name) {
                    missing.push(name);
                }
            }
        }
    }
    assert!(missing.is_empty(), "no explanation of {missing:#?}");
    assert!(known > 300, "{known}");
}

#[test]
fn variants_that_hosts_must_tell_apart_have_explanations() {
    let explanations = explanations();
    for name in [
        "assistant(text)",
        "assistant(thinking)",
        "assistant(tool_use)",
        "assistant(error)",
        "user(replay)",
        "user(synthetic)",
        "user(tool_result)",
        "user(tool_result, is_error)",
        "result/success",
        "result/success(is_error)",
        "result/success(permission_denials)",
        "stream_event/content_block_start(tool_use)",
    ] {
        assert!(explanations.iter().any(|it| it.name == name), "{name}");
    }
}

#[test]
fn an_explanation_is_of_something_known_and_says_something() {
    let explanations = explanations();
    let names: BTreeSet<&str> = explanations.iter().map(|it| it.name).collect();
    assert_eq!(names.len(), explanations.len(), "a name has two explanations");
    let mut unknown = Vec::new();
    for explanation in &explanations {
        assert!(explanation.text.len() > 40, "{}", explanation.name);
        assert!(explanation.text.ends_with(['.', '`']), "{}", explanation.text);
        if explanation.group == "Actions" || explanation.name == format!("line{TO_AGENT}") {
            continue;
        }
        let name = explanation.name.trim_end_matches(TO_AGENT);
        let (kind, content) = match name.split_once('(') {
            Some((kind, content)) => (kind, Some(content.trim_end_matches(')'))),
            None => (name, None),
        };
        let template = |kind: &str, word: &str| {
            let (_, line) = TEMPLATES.iter().find(|(name, _)| name.starts_with(kind)).unwrap();
            line.replace('X', word)
        };
        let line = match (kind.split_once('/'), content) {
            (Some(("stream_event", "content_block_delta")), Some(delta)) => {
                template("stream_event/content_block_delta", delta)
            }
            (Some((kind, subtype)), _) => template(&format!("{kind}/"), subtype),
            // Without an id it could be another program's.
            (None, _) if kind == "tool_result" => {
                r#"{"type":"tool_result","tool_use_id":"t","content":"x"}"#.to_owned()
            }
            (None, _) => format!(r#"{{"type":"{kind}"}}"#),
        };
        if !is_known(&line) {
            unknown.push(explanation.name);
        }
    }
    assert!(unknown.is_empty(), "explained and not known: {unknown:#?}");
}
