//! Lines in, news out.

use wire::{Reading, read};

use super::{Observer, ObserverOptions};
use crate::stream_event::StreamEvent;

/// The news of some lines, each in a word.
fn news(wants: ObserverOptions, lines: &[&str]) -> Vec<String> {
    let mut observer = Observer::new(wants);
    let mut said = Vec::new();
    let mut tell = |news: StreamEvent| {
        said.push(match news {
            StreamEvent::Directory { cwd, .. } => format!("in {cwd}"),
            StreamEvent::Session(id) => format!("session {id}"),
            StreamEvent::Announced { change, .. } => {
                format!("{} will {}", change.tool, change.path)
            }
            StreamEvent::Finished { change, failed: false, .. } => {
                format!("{} did {}", change.tool, change.path)
            }
            StreamEvent::Finished { change, failed: true, .. } => {
                format!("{} did not {}", change.tool, change.path)
            }
            StreamEvent::ShellEnded { .. } => "shell ended".to_owned(),
            StreamEvent::Prompt(text) => format!("asked {text}"),
            StreamEvent::Text(text) => format!("said {text}"),
            StreamEvent::TurnEnded => "turn ended".to_owned(),
            StreamEvent::Unfinished(_) | StreamEvent::Replayed | StreamEvent::Checkpoint(_) => {
                unreachable!("no observer says so")
            }
            StreamEvent::EndOfStream { unfinished } => {
                let paths: Vec<_> = unfinished.into_iter().map(|it| it.path).collect();
                format!("over {}", paths.join(" "))
            }
        });
    };
    for line in lines.iter().flat_map(|line| read(line.as_bytes())) {
        let Reading::Event(event) = line.reading else { panic!("{line:?}") };
        observer.observe(&event, &mut tell);
    }
    observer.finish(&mut tell);
    said
}

fn call(id: &str, tool: &str, input: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"{id}","name":"{tool}","input":{input}}}]}}}}"#
    )
}

fn result(id: &str, error: bool) -> String {
    format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"{id}","is_error":{error}}}]}}}}"#
    )
}

#[test]
fn a_change_is_announced_then_settled_once_and_in_the_order_of_results() {
    let a = call("a", "Write", r#"{"file_path":"/p/a"}"#);
    let b = call("b", "NotebookEdit", r#"{"notebook_path":"b.ipynb"}"#);
    let c = call("c", "MultiEdit", r#"{"file_path":"c"}"#);
    let read = call("r", "Read", r#"{"file_path":"r"}"#);
    let (b_did, a_did_not) = (result("b", false), result("a", true));
    let lines = [&*a, &b, &read, &c, &b_did, &result("r", false), &a_did_not, &b, &b_did];
    assert_eq!(
        news(ObserverOptions::default(), &lines),
        [
            "Write will /p/a",
            "NotebookEdit will b.ipynb",
            "MultiEdit will c",
            "NotebookEdit did b.ipynb",
            "Write did not /p/a",
            "over c",
        ]
    );
}

#[test]
fn the_flat_dialect_and_loose_results_say_the_same() {
    let lines = [
        r#"{"type":"session_start","session_id":"s"}"#,
        r#"{"type":"tool_use","id":"f","toolName":"Edit","toolInput":{"file_path":"x"}}"#,
        r#"{"type":"tool_result","toolUseId":"f","isError":false,"content":"ok"}"#,
        r#"{"type":"tool_use","id":"g","toolName":"Write","toolInput":{"file_path":"y"}}"#,
        r#"{"type":"tool_result","tool_use_id":"g","content":"ok"}"#,
        r#"{"type":"result","sessionId":"s","result":{"stopReason":"end_turn"}}"#,
    ];
    assert_eq!(
        news(ObserverOptions::default(), &lines),
        [
            "session s",
            "Edit will x",
            "Edit did x",
            "Write will y",
            "Write did y",
            "turn ended",
            "over "
        ]
    );
}

#[test]
fn words_and_commands_are_told_to_those_who_want_them() {
    let wants = ObserverOptions { words: true, shell: true, bodies: false };
    let lines = [
        r#"{"type":"system","subtype":"init","cwd":"/p","session_id":"s"}"#,
        r#"{"type":"user","message":{"role":"user","content":"do it"}}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I will."}]}}"#,
        r#"{"type":"assistant","parent_tool_use_id":"t","message":{"content":[{"type":"text","text":"sub"}]}}"#,
        &call("a", "Bash", r#"{"command":"make"}"#),
        &result("a", true),
        r#"{"type":"result","subtype":"success"}"#,
    ];
    assert_eq!(
        news(wants, &lines),
        ["session s", "in /p", "asked do it", "said I will.", "shell ended", "turn ended", "over "]
    );
}

#[test]
fn hooks_get_what_the_tool_was_given_and_gave_back() {
    let mut observer =
        Observer::new(ObserverOptions { bodies: true, ..ObserverOptions::default() });
    let mut told = Vec::new();
    for line in [
        call("a", "Write", r#"{"file_path":"a","content":"é\u00e9"}"#),
        result("a", false).replace("}]}}", r#"}]},"tool_use_result":{"type":"create"}}"#),
    ] {
        let Some(Reading::Event(event)) = read(line.as_bytes()).next().map(|it| it.reading) else {
            panic!("{line}")
        };
        observer.observe(&event, |news| told.push(news));
    }
    let [StreamEvent::Announced { input, .. }, StreamEvent::Finished { response, .. }] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!(input.as_ref().unwrap().get(), r#"{"file_path":"a","content":"é\u00e9"}"#);
    assert_eq!(response.as_ref().unwrap().get(), r#"{"type":"create"}"#);
}
