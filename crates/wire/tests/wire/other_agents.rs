//! Other agents' own streams and session files.
//!
//! Codex, Gemini, `OpenCode`, Copilot and pi are read from captures. The lines of Cursor, Droid and of
//! older releases of Codex follow published shapes.

use std::fmt::Write as _;

use towpath_wire::event::Body;
use towpath_wire::other_agents::{
    AgentStep, AgentStreamReader, CallAction, FileContent, TextExtent,
};
use towpath_wire::{Dialect, Line, Reading, read};

/// The steps of a stream in short, each with the dialect of its line.
fn steps(stream: &str) -> Vec<String> {
    let mut reader = AgentStreamReader::default();
    let mut found = Vec::new();
    for mut line in stream.lines().flat_map(|line| read(line.as_bytes())) {
        reader.complete(&mut line);
        found.extend(describe(&line));
    }
    found
}

fn describe(line: &Line<'_>) -> Vec<String> {
    let name = line.dialect.name();
    match &line.reading {
        Reading::Event(event) => match &event.body {
            Body::OtherAgent(other) => {
                other.steps.iter().map(|step| format!("{name} {}", short(step))).collect()
            }
            _ => vec![format!("{name} {}", event.kind)],
        },
        Reading::Unknown(unknown) => vec![format!("unknown {}", unknown.kind)],
        Reading::Mismatch(it) => vec![format!("mismatch {}: {}", it.kind, it.reason)],
        Reading::Noise(noise) => vec![format!("noise {noise}")],
    }
}

fn short(step: &AgentStep<'_>) -> String {
    match step {
        AgentStep::Session(facts) => format!(
            "session {} {} {}",
            facts.model.as_deref().unwrap_or("-"),
            facts.cwd.as_deref().unwrap_or("-"),
            facts.version.as_deref().unwrap_or("-")
        ),
        AgentStep::TurnStarted => "turn started".to_owned(),
        AgentStep::Prompt(text) => format!("prompt {text}"),
        AgentStep::Text(text) | AgentStep::Thinking(text) => {
            let kind = if matches!(step, AgentStep::Text(_)) { "text" } else { "thinking" };
            let more = if text.extent == TextExtent::Whole { "" } else { "…" };
            format!("{kind} {}{more}", text.text)
        }
        AgentStep::Call(call) => {
            let mut out = format!("call {} {}:", call.id, call.tool);
            match &call.action {
                CallAction::Run { command } => write!(out, " run {command}").expect("text"),
                CallAction::Change(files) => {
                    for file in files {
                        let how = match &file.change {
                            FileContent::Written(_) => "write",
                            FileContent::Replaced(_) => "replace",
                            FileContent::Patched(_) => "patch",
                            FileContent::Deleted => "delete",
                        };
                        write!(out, " {how} {}", file.path).expect("text");
                    }
                }
                CallAction::Read { path } => write!(out, " read {path}").expect("text"),
                CallAction::Search { pattern, .. } => {
                    write!(out, " search {pattern}").expect("text");
                }
                CallAction::Fetch { url } => write!(out, " fetch {url}").expect("text"),
                CallAction::SearchWeb { query } => {
                    write!(out, " search web {query}").expect("text");
                }
                CallAction::Track(todos) => {
                    for todo in todos {
                        write!(out, " {} {}", todo.state, todo.text).expect("text");
                    }
                }
                CallAction::Other => out.push_str(" other"),
            }
            out
        }
        AgentStep::CallEnded(end) => {
            let how = if end.failed { "failed" } else { "done" };
            format!("{how} {} {}", end.id, end.output.trim_end())
        }
        AgentStep::Usage(usage) => {
            let count = |tokens: Option<u64>| tokens.unwrap_or(0);
            let tokens = usage.usage;
            format!(
                "usage {} in {} out {} cached",
                count(tokens.input_tokens),
                count(tokens.output_tokens),
                count(tokens.cache_read_input_tokens)
            )
        }
        AgentStep::Compacted => "compacted".to_owned(),
        AgentStep::Notice(text) => format!("notice {text}"),
        AgentStep::Failure(text) => format!("failure {text}"),
        AgentStep::TurnEnded(end) => {
            let how = if end.failed() { "failed" } else { "completed" };
            format!("turn {how} {}", end.error.as_deref().unwrap_or_default())
        }
    }
}

fn capture(name: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    std::fs::read_to_string(root.join(name)).expect("a capture")
}

/// Everything but texts and tokens.
fn essential(stream: &str) -> Vec<String> {
    let kept = ["prompt", "call", "done", "failed", "turn completed", "turn failed", "failure"];
    let is_kept = |step: &String| {
        let (_, step) = step.split_once(' ').expect("a dialect");
        kept.iter().any(|start| step.starts_with(start))
    };
    steps(stream).into_iter().filter(is_kept).collect()
}

#[test]
fn a_file_that_a_real_agent_changed_is_found_whatever_the_agent() {
    let expected = |dialect: &str, prompt: bool, steps: &[&str]| -> Vec<String> {
        let prompt = prompt.then(|| format!("{dialect} prompt edit please"));
        let steps = steps.iter().map(|step| format!("{dialect} {step}"));
        prompt.into_iter().chain(steps).collect()
    };
    let made = "/home/dev/project/made.txt";
    assert_eq!(
        essential(&capture("codex-0.166.0/stream/edit.jsonl")),
        expected(
            "codex-exec",
            false,
            &[
                &format!("call item_2 file_change: patch {made} write /home/dev/project/more.txt"),
                "done item_2 ",
                "turn completed ",
            ]
        )
    );
    assert_eq!(
        essential(&capture("codex-0.166.0/session/edit.jsonl")),
        expected(
            "codex-rollout",
            true,
            &[
                "call call_23 exec_command: replace made.txt write more.txt",
                "done call_23 Success. Updated the following files:\nA more.txt\nM made.txt",
                "turn completed ",
            ]
        )
    );
    assert_eq!(
        essential(&capture("gemini-cli-0.61.0/stream/write.jsonl")),
        [
            "gemini prompt write please",
            "gemini call write_file__fc17 write_file: write /home/dev/.gemini/tmp/project/made.txt",
            "gemini done write_file__fc17 ",
            "gemini turn completed ",
        ]
    );
    assert_eq!(
        essential(&capture("opencode-1.18.33/stream/edit.jsonl")),
        expected(
            "opencode",
            false,
            &[
                &format!("call call_26 edit: replace {made}"),
                "done call_26 Edit applied successfully.",
                "turn completed ",
            ]
        )
    );
    let copilot = expected(
        "copilot",
        true,
        &[
            &format!("call call_30 edit: replace {made}"),
            "done call_30 File /home/dev/project/made.txt updated with changes.",
            "turn completed ",
        ],
    );
    assert_eq!(essential(&capture("copilot-1.0.102/stream/edit.jsonl")), copilot);
    assert_eq!(essential(&capture("copilot-1.0.102/session/edit.jsonl")), copilot);
    let pi = expected(
        "pi",
        true,
        &[
            &format!("call call_32 edit: replace {made}"),
            "done call_32 Successfully replaced 1 block(s) in /home/dev/project/made.txt.",
            "turn completed ",
        ],
    );
    assert_eq!(essential(&capture("pi-0.73.1/stream/edit.jsonl")), pi);
    assert_eq!(essential(&capture("pi-0.73.1/session/edit.jsonl")), pi);
}

#[test]
fn a_failure_of_the_model_is_a_failed_turn_with_its_message_once() {
    for (name, message) in [
        ("codex-0.166.0/stream/error.jsonl", "stub says no"),
        ("codex-0.166.0/session/error.jsonl", "stub says no"),
        ("gemini-cli-0.61.0/stream/error.jsonl", "[API Error:"),
        ("opencode-1.18.33/stream/error.jsonl", "stub says no"),
        ("copilot-1.0.102/stream/error.jsonl", "400 stub says no"),
        ("copilot-1.0.102/session/error.jsonl", "400 stub says no"),
        ("pi-0.73.1/stream/error.jsonl", "400 stub says no"),
        ("pi-0.73.1/session/error.jsonl", "400 stub says no"),
    ] {
        let steps = steps(&capture(name));
        let ends: Vec<_> = steps.iter().filter(|step| step.contains(" turn ")).collect();
        let ended: Vec<_> = ends.iter().filter(|step| !step.ends_with("started")).collect();
        assert_eq!(ended.len(), 1, "{name}: {steps:#?}");
        let failed = format!(" turn failed {message}");
        assert!(ended[0].contains(&failed), "{name}: {steps:#?}");
    }
}

#[test]
fn tokens_are_counted_once_for_each_request() {
    for (name, input, output, cached) in [
        ("codex-0.166.0/session/shell.jsonl", 160, 50, 80),
        ("opencode-1.18.33/stream/shell.jsonl", 160, 50, 80),
        ("copilot-1.0.102/session/shell.jsonl", 160, 50, 80),
        ("pi-0.73.1/stream/shell.jsonl", 160, 50, 80),
        ("pi-0.73.1/session/shell.jsonl", 160, 50, 80),
    ] {
        let mut sums = [0; 3];
        for step in steps(&capture(name)).iter().filter(|step| step.contains(" usage ")) {
            let numbers = step.split(' ').filter_map(|word| word.parse::<u64>().ok());
            numbers.zip(&mut sums).for_each(|(number, sum)| *sum += number);
        }
        assert_eq!(sums, [input, output, cached], "{name}");
    }
}

/// `cursor-agent --output-format stream-json --stream-partial-output`, after its documentation.
const CURSOR: &str = r#"{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/p","session_id":"c1","model":"Auto","permissionMode":"default"}
{"type":"user","message":{"role":"user","content":[{"type":"text","text":"fix it"}]},"session_id":"c1"}
{"type":"thinking","subtype":"delta","text":"Hm","session_id":"c1","timestamp_ms":1}
{"type":"thinking","subtype":"completed","session_id":"c1","timestamp_ms":2}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I "}]},"session_id":"c1","timestamp_ms":3}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"will."}]},"session_id":"c1","timestamp_ms":4}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I will."}]},"session_id":"c1","model_call_id":"m1","timestamp_ms":5}
{"type":"tool_call","subtype":"started","call_id":"t1\nfc","tool_call":{"shellToolCall":{"args":{"command":"make"}}},"model_call_id":"m1","session_id":"c1","timestamp_ms":6}
{"type":"tool_call","subtype":"started","call_id":"t2","tool_call":{"editToolCall":{"args":{"path":"/p/a.rs","streamContent":"x"}}},"session_id":"c1"}
{"type":"tool_call","subtype":"completed","call_id":"t2","tool_call":{"editToolCall":{"args":{"path":"/p/a.rs","streamContent":"x"},"result":{"success":{"path":"/p/a.rs","linesAdded":1,"diffString":"@@ -1 +1 @@\n-a\n+x"}}}},"session_id":"c1"}
{"type":"tool_call","subtype":"completed","call_id":"t1\nfc","tool_call":{"shellToolCall":{"args":{"command":"make"},"result":{"success":{"exitCode":2,"stdout":"out","stderr":"no rule"}}}},"session_id":"c1"}
{"type":"tool_call","subtype":"completed","call_id":"t3","tool_call":{"writeToolCall":{"args":{"path":"b","fileText":"y"},"result":{"rejected":{"reason":"not allowed"}}}},"session_id":"c1"}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"Done."}]},"session_id":"c1"}
{"type":"result","subtype":"success","duration_ms":10,"is_error":false,"result":"I will.Done.","session_id":"c1","request_id":"r"}
"#;

#[test]
fn cursors_lines_are_its_own_though_most_look_like_claudes() {
    assert_eq!(
        steps(CURSOR),
        [
            "cursor system/init",
            "cursor user",
            "cursor thinking Hm…",
            "cursor assistant",
            "cursor call t1\nfc shell: run make",
            "cursor call t2 edit: replace /p/a.rs",
            "cursor done t2 ",
            "cursor failed t1\nfc out\nno rule",
            "cursor call t3 write: write b",
            "cursor failed t3 not allowed",
            "cursor assistant",
            "cursor result/success",
        ]
    );
    // From the first line that only Cursor writes on, its other lines are known, too.
    let middle: String = CURSOR.lines().skip(7).flat_map(|line| [line, "\n"]).collect();
    assert!(steps(&middle).iter().all(|step| step.starts_with("cursor ")), "{:#?}", steps(&middle));
}

/// `droid exec --output-format stream-json`, after its documentation.
const DROID: &str = r#"{"type":"system","subtype":"init","cwd":"/p","session_id":"d1","tools":["Read","Execute"],"model":"claude-opus-4-7","reasoning_effort":"high"}
{"type":"message","role":"user","id":"u1","text":"go","timestamp":1762517060816,"session_id":"d1"}
{"type":"reasoning","id":"r1","text":"Hm.","timestamp":1,"session_id":"d1"}
{"type":"reasoning","id":"r1","text":"Hm.","timestamp":1,"session_id":"d1"}
{"type":"tool_call","id":"k1","messageId":"m","toolId":"Create","toolName":"Create","parameters":{"file_path":"/p/n.md","content":"x"},"timestamp":2,"session_id":"d1"}
{"type":"tool_result","id":"k1","messageId":"m","toolId":"Create","isError":false,"value":"created","timestamp":3,"session_id":"d1"}
{"type":"tool_call","id":"k2","toolId":"Execute","toolName":"Execute","parameters":{"command":"ls"},"session_id":"d1"}
{"type":"tool_result","id":"k2","toolId":"Execute","isError":true,"error":{"type":"tool_error","message":"denied"},"session_id":"d1"}
{"type":"message","role":"assistant","id":"a1","text":"Done.","timestamp":4,"session_id":"d1"}
{"type":"completion","finalText":"Done.","numTurns":2,"durationMs":3000,"session_id":"d1","usage":{"input_tokens":10,"output_tokens":3,"cache_read_input_tokens":4}}
{"type":"error","source":"cli","message":"Exec failed","timestamp":5,"session_id":"d1"}
{"type":"completion","finalText":"Droid turn failed","session_id":"d1","isError":true}
"#;

#[test]
fn droid_is_read() {
    assert_eq!(
        steps(DROID),
        [
            "droid system/init",
            "droid prompt go",
            "droid thinking Hm.",
            "droid call k1 Create: write /p/n.md",
            "droid done k1 created",
            "droid call k2 Execute: run ls",
            "droid failed k2 denied",
            "droid text Done.",
            "droid turn completed ",
            "droid failure Exec failed",
            "droid turn failed Droid turn failed",
        ]
    );
}

/// Rollouts of releases of 2025, after public files.
const OLD_ROLLOUT: &str = r#"{"id":"s1","timestamp":"2025-07-01T00:00:00Z","instructions":null}
{"record_type":"state"}
{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>\n</environment_context>"}]}
{"type":"message","role":"user","content":[{"type":"input_text","text":"fix it"}]}
{"type":"function_call","name":"shell","arguments":"{\"command\":[\"bash\",\"-lc\",\"ls; false\"]}","call_id":"c1"}
{"type":"function_call_output","call_id":"c1","output":"{\"output\":\"a\\n\",\"metadata\":{\"exit_code\":1,\"duration_seconds\":0.1}}"}
{"timestamp":"2025-09-01T00:00:00Z","type":"response_item","payload":{"type":"custom_tool_call","call_id":"c2","name":"apply_patch","input":"*** Begin Patch\n*** Delete File: old.txt\n*** End Patch"}}
{"timestamp":"2025-09-01T00:00:00Z","type":"event_msg","payload":{"type":"patch_apply_end","call_id":"c2","success":false,"stdout":"","stderr":"no such file","changes":{"/p/old.txt":{"type":"delete"}}}}
{"timestamp":"2025-09-01T00:00:00Z","type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"c2","output":"{\"output\":\"ok\",\"metadata\":{\"exit_code\":0}}"}}
{"timestamp":"2025-09-01T00:00:00Z","type":"response_item","payload":{"type":"custom_tool_call","call_id":"c3","name":"exec","input":"await tools.apply_patch(p)"}}
{"timestamp":"2025-09-01T00:00:00Z","type":"event_msg","payload":{"type":"patch_apply_end","call_id":"exec-1","success":true,"changes":{"/p/a":{"type":"update","unified_diff":"@@ -1 +1 @@\n-a\n+b","move_path":"/p/b"}}}}
{"timestamp":"2025-09-01T00:00:00Z","type":"event_msg","payload":{"type":"error","message":"stream disconnected"}}
{"timestamp":"2025-09-01T00:00:00Z","type":"event_msg","payload":{"type":"task_complete","last_agent_message":null}}
{"timestamp":"2025-09-01T00:00:00Z","type":"event_msg","payload":{"type":"turn_aborted","reason":"interrupted"}}
"#;

#[test]
fn rollouts_of_older_releases_are_read() {
    assert_eq!(
        steps(OLD_ROLLOUT),
        [
            "noise JSON without a `type`",
            "noise JSON without a `type`",
            "codex-rollout prompt fix it",
            "codex-rollout call c1 shell: run ls; false",
            "codex-rollout failed c1 a",
            "codex-rollout call c2 apply_patch: delete old.txt",
            "codex-rollout failed c2 no such file",
            "codex-rollout call c3 exec: other",
            "codex-rollout call exec-1 apply_patch: patch /p/a patch /p/b",
            "codex-rollout done exec-1 ",
            "codex-rollout failure stream disconnected",
            "codex-rollout turn failed stream disconnected",
            "codex-rollout turn failed interrupted",
        ]
    );
}

#[test]
fn the_items_of_a_second_process_are_not_those_of_the_first() {
    let run = capture("codex-0.166.0/stream/shell.jsonl");
    let calls = essential(&format!("{run}{run}"));
    let ids = ["call item_2", "done item_2", "call 2:item_2", "done 2:item_2"];
    for id in ids {
        assert_eq!(calls.iter().filter(|it| it.contains(&format!(" {id} "))).count(), 1, "{id}");
    }
    assert_eq!(calls.iter().filter(|it| it.contains("turn completed")).count(), 2);
}

#[test]
fn a_stream_that_begins_in_the_middle_is_named_and_read() {
    for (name, dialect) in [
        ("codex-0.166.0/stream/shell.jsonl", "codex-exec"),
        ("codex-0.166.0/session/shell.jsonl", "codex-rollout"),
        ("gemini-cli-0.61.0/stream/shell.jsonl", "gemini"),
        ("opencode-1.18.33/stream/shell.jsonl", "opencode"),
        ("copilot-1.0.102/stream/shell.jsonl", "copilot"),
        ("pi-0.73.1/stream/shell.jsonl", "pi"),
    ] {
        let text = capture(name);
        let lines: Vec<&str> = text.lines().collect();
        for start in 0..lines.len() {
            let first = read(lines[start].as_bytes()).next().unwrap();
            assert_eq!(first.dialect.name(), dialect, "{name}:{start}");
            let steps = steps(&lines[start..].join("\n"));
            assert!(steps.iter().all(|it| it.starts_with(dialect)), "{name}:{start} {steps:#?}");
        }
    }
}

#[test]
fn agents_in_one_file_are_told_apart_line_by_line() {
    let names = [
        "codex-0.166.0/stream/edit.jsonl",
        "gemini-cli-0.61.0/stream/shell.jsonl",
        "2.1.325/stdout/tools-misc.jsonl",
        "opencode-1.18.33/stream/shell.jsonl",
        "pi-0.73.1/session/shell.jsonl",
    ];
    let texts: Vec<String> = names.iter().map(|name| capture(name)).collect();
    let mut mixed = String::new();
    let longest = texts.iter().map(|text| text.lines().count()).max().unwrap();
    for at in 0..longest {
        for text in &texts {
            mixed.extend(text.lines().nth(at).map(|line| format!("{line}\n")));
        }
    }
    let mut reader = AgentStreamReader::default();
    for mut line in mixed.lines().flat_map(|line| read(line.as_bytes())) {
        let alone = line.dialect;
        reader.complete(&mut line);
        assert_eq!(line.dialect, alone);
        assert!(matches!(line.reading, Reading::Event(_)), "{line:?}");
    }
}

#[test]
fn a_known_kind_in_an_unexpected_shape_is_a_mismatch_and_an_unknown_one_stays_unknown() {
    for (line, expected) in [
        (r#"{"type":"item.completed","item":5}"#, "mismatch item.completed: item: expected"),
        (r#"{"type":"item.completed","item":{"type":"command_execution","id":"i"}}"#, "mismatch"),
        (
            r#"{"type":"item.completed","item":{"id":"i","type":"hologram"}}"#,
            "unknown item.completed/hologram",
        ),
        (r#"{"type":"item.completed"}"#, "mismatch item.completed: "),
        (r#"{"type":"turn.completed","usage":"much"}"#, "mismatch turn.completed: usage"),
        (r#"{"type":"event_msg","payload":{"type":"new_thing"}}"#, "unknown event_msg/new_thing"),
        (
            r#"{"type":"event_msg","payload":{"type":"user_message","message":{}}}"#,
            "mismatch event_msg: payload.message",
        ),
        (
            r#"{"type":"response_item","payload":{"type":"new_item"}}"#,
            "unknown response_item/new_item",
        ),
        (r#"{"type":"tool_use","tool_id":"t","tool_name":7}"#, "mismatch tool_use: tool_name"),
        (r#"{"type":"tool_result","tool_id":"t"}"#, "mismatch tool_result: status"),
        (r#"{"type":"text","sessionID":"s","part":{"id":"p"}}"#, "mismatch text: "),
        (r#"{"type":"step_finish","sessionID":"s"}"#, "mismatch step_finish: part"),
        (
            r#"{"type":"tool_call","subtype":"started","call_id":"c","tool_call":{}}"#,
            "mismatch tool_call/started: tool_call",
        ),
        (r#"{"type":"tool_call","subtype":"paused","call_id":"c"}"#, "unknown tool_call/paused"),
        (r#"{"type":"session.hologram","data":{},"id":"1"}"#, "unknown session.hologram"),
        (
            r#"{"type":"tool.execution_start","data":{"toolCallId":1}}"#,
            "mismatch tool.execution_start: data.toolCallId",
        ),
        (r#"{"type":"message_end","message":{"content":[]}}"#, "mismatch message_end: role"),
        (r#"{"type":"some.thing"}"#, "unknown some.thing"),
        (r#"{"type":"message"}"#, "unknown message"),
        (r#"{"type":"init"}"#, "unknown init"),
        (r#"{"type":"completion"}"#, "unknown completion"),
    ] {
        let found = steps(line);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{line}: {found:?}");
    }
}

#[test]
fn what_does_not_say_success_is_not_shown_as_one() {
    for (line, failed) in [
        (
            r#"{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"x","exit_code":null,"status":"declined"}}"#,
            "failed i",
        ),
        (
            r#"{"type":"item.completed","item":{"id":"i","type":"file_change","changes":[],"status":"failed"}}"#,
            "failed i",
        ),
        (r#"{"type":"tool_result","tool_id":"t","status":"cancelled"}"#, "failed t"),
        (
            r#"{"type":"tool_use","sessionID":"s","part":{"tool":"bash","callID":"t","state":{"status":"completed","input":{"command":"x"},"metadata":{"exit":1}}}}"#,
            "failed t",
        ),
        (
            r#"{"type":"tool_call","subtype":"completed","call_id":"t","tool_call":{"shellToolCall":{"args":{}}}}"#,
            "failed t",
        ),
        (r#"{"type":"tool.execution_complete","data":{"toolCallId":"t"}}"#, "failed t"),
        (
            r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"t","output":"Wall time: 1\nProcess exited with code 7\nOutput:\n"}}"#,
            "failed t",
        ),
        (r#"{"type":"result","timestamp":"x","status":"error","stats":{}}"#, "turn failed"),
        (r#"{"type":"result","sessionId":"s","exitCode":3}"#, "turn failed"),
    ] {
        let found = steps(line);
        let last = found.last().map(String::as_str).unwrap_or_default();
        assert!(last.contains(failed), "{line}: {found:?}");
        assert!(!last.contains("done") && !last.contains("completed"), "{line}: {found:?}");
    }
}

/// The steps of messages of the Agent Client Protocol.
fn acp_steps(lines: &[&str]) -> Vec<String> {
    let mut reader = AgentStreamReader::default();
    let mut found = Vec::new();
    for line in lines.iter().flat_map(|line| read(line.as_bytes())) {
        let Reading::Event(event) = &line.reading else { panic!("{line:?}") };
        let Body::Acp(acp) = &event.body else { panic!("{line:?}") };
        found.extend(reader.acp_steps(acp).iter().map(short));
    }
    found
}

#[test]
fn the_calls_and_turns_of_an_agent_over_acp_are_found() {
    let prompt = r#"{"jsonrpc":"2.0","id":4,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go"}]}}"#;
    let update = |update: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
        )
    };
    let pending = update(
        r#"{"sessionUpdate":"tool_call","toolCallId":"a","name":"Write","kind":"edit","status":"pending","locations":[],"rawInput":{}}"#,
    );
    let diff = update(
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","content":[{"type":"diff","path":"/p/a","oldText":null,"newText":"x"}]}"#,
    );
    let done = update(
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed","rawOutput":"ok"}"#,
    );
    let ended = r#"{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn","usage":null}}"#;
    assert_eq!(
        acp_steps(&[prompt, &pending, &diff, &done, &done, ended]),
        [
            "prompt go",
            "call a Write: other",
            "call a tool: write /p/a",
            "done a ok",
            "turn completed ",
        ]
    );
    let error = r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"boom"}}"#;
    assert_eq!(acp_steps(&[prompt, error]), ["prompt go", "turn failed boom"]);
    assert_eq!(acp_steps(&[error]), [""; 0], "it may answer anything");
    // codex-acp 2.6.0, when the API fails.
    let status = update(
        r#"{"sessionUpdate":"session_info_update","_meta":{"codex":{"threadStatus":{"type":"systemError"}}}}"#,
    );
    let failed = acp_steps(&[prompt, &status, ended]);
    assert_eq!(failed, ["prompt go", "turn failed the agent reported a system error"]);
    let cancelled = r#"{"jsonrpc":"2.0","id":4,"result":{"stopReason":"cancelled"}}"#;
    assert_eq!(acp_steps(&[prompt, cancelled]), ["prompt go", "turn failed cancelled"]);
}

#[test]
fn every_line_of_claude_code_stays_as_it_is() {
    let mut reader = AgentStreamReader::default();
    for (path, bytes) in crate::recordings::of_claude() {
        for line in bytes.split(|&byte| byte == b'\n').flat_map(read) {
            let before = format!("{line:?}");
            assert!(!before.contains("OtherAgent"), "{}: {before}", path.display());
            let mut after = line;
            reader.complete(&mut after);
            assert_eq!(format!("{after:?}"), before, "{}", path.display());
        }
    }
}

#[test]
fn a_line_of_a_hundred_megabytes_or_a_million_levels_is_read() {
    let huge = "x".repeat(100 << 20);
    let line = format!(
        r#"{{"type":"item.completed","item":{{"id":"i","type":"command_execution","command":"cat","aggregated_output":"{huge}","exit_code":0,"status":"completed"}}}}"#
    );
    let mut line = read(line.as_bytes()).next().unwrap();
    AgentStreamReader::default().complete(&mut line);
    assert_eq!(line.dialect, Dialect::CodexExec);
    let Reading::Event(event) = &line.reading else { panic!() };
    let Body::OtherAgent(other) = &event.body else { panic!() };
    assert!(matches!(&other.steps[1], AgentStep::CallEnded(end) if end.output.len() == 100 << 20));
    let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
    for line in [
        format!(
            r#"{{"type":"tool_use","tool_id":"t","tool_name":"write_file","parameters":{deep}}}"#
        ),
        format!(r#"{{"type":"item.started","item":{deep}}}"#),
        format!(r#"{{"type":"session.info","data":{{"message":"m","more":{deep}}}}}"#),
        format!(r#"{{"type":"message_end","message":{{"role":"assistant","content":[{deep}]}}}}"#),
        format!(
            r#"{{"type":"event_msg","payload":{{"type":"item_completed","item":{{"type":"FileChange","id":"i","changes":{deep}}}}}}}"#
        ),
    ] {
        assert!(read(line.as_bytes()).all(|it| it.kind().is_some()));
    }
}
