//! `towpath inspect`: exit code, stdout and stderr of the built binary.

use std::fs;

use crate::program::{Program, capture};

const TURN: &str = r#"{"type":"system","subtype":"init","cwd":"/p","session_id":"s1","model":"claude-opus-5-5","claude_code_version":"2.1.325","tools":[]}
{"type":"assistant","session_id":"s1","message":{"id":"m1","model":"claude-opus-5-5","content":[{"type":"tool_use","id":"t1","name":"Write","input":{"file_path":"/p/a.txt"}}],"usage":{"input_tokens":3,"output_tokens":1,"cache_read_input_tokens":1000}}}
{"type":"user","session_id":"s1","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"done"}]}}
{"type":"assistant","session_id":"s1","message":{"id":"m2","model":"claude-opus-5-5","content":[{"type":"tool_use","id":"t2","name":"Bash","input":{"command":"false"}},{"type":"tool_use","id":"t3","name":"Edit","input":{"file_path":"b.txt"}}],"usage":{"input_tokens":4,"output_tokens":2}}}
{"type":"user","session_id":"s1","message":{"content":[{"type":"tool_result","tool_use_id":"t2","content":"exit 1","is_error":true}]}}
{"duration_ms":1200,"type":"result","subtype":"success","is_error":true,"session_id":"s1","total_cost_usd":0.0123,"result":"API Error: 500"}
"#;

const ANOMALIES: &str = "{\"type\":\"next_years\"}\n\
    not an event, \u{1b}[31mred\u{1b}[0m\n\
    \n\
    {\"type\":\"assistant\",\"message\":5}\n\
    {\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"hologram\"}]}}\n\
    data: {\"type\":\"keep_alive\"}\n";

#[test]
fn the_report_summarizes_a_stream() {
    insta::assert_snapshot!(Program::inspect(&[]).stdin(TURN).run());
}

#[test]
fn the_json_output_has_the_documented_keys() {
    insta::assert_snapshot!(Program::inspect(&["--json"]).stdin(TURN).pretty().run());
}

#[test]
fn events_of_every_dialect_have_one_format() {
    let flat = r#"{"type":"tool_use","id":"t1","toolName":"Edit","toolInput":{"file_path":"a"}}
{"type":"tool_result","toolUseId":"t1","isError":false,"content":"ok"}
{"type":"text","text":"done\n"}
{"type":"result","sessionId":"s","result":{"stopReason":"end_turn","usage":{"inputTokens":5,"outputTokens":7}}}
"#;
    insta::assert_snapshot!("events_flat", Program::inspect(&["--events"]).stdin(flat).run());
    insta::assert_snapshot!("events_stream", Program::inspect(&["--events"]).stdin(TURN).run());
}

#[test]
fn usage_of_results_and_denials_are_counted_in_every_output_format() {
    let object = r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s1","result":"no","usage":{"input_tokens":10,"output_tokens":5},"permission_denials":[{"tool_name":"Write","tool_use_id":"t1","tool_input":{"file_path":"/p/a.txt"}},{"tool_name":"Bash","tool_use_id":"t9","tool_input":{}}]}"#;
    let report = Program::inspect(&[]).stdin(object).run().stdout;
    assert!(report.contains("  tokens  10 in, 5 out, 0 from cache, 0 to cache\n"), "{report}");
    assert!(report.contains("  denied  2 calls: Bash 1, Write 1\n"), "{report}");
    // The result of the call does not say that it was denied.
    let lines: Vec<&str> = TURN.lines().collect();
    let array = format!("[{},{}]\n", lines[..3].join(","), object);
    let json = Program::inspect(&["--json"]).stdin(&array).run().stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["files"][0]["ok"], false, "{json}");
    let session = &json["sessions"][0];
    assert_eq!(session["tokens"]["output"], 1, "messages have usage: {json}");
    assert_eq!(session["denials"]["Write"], 1);
    assert_eq!(session["tools"]["Write"]["failed"], 1);
    let flat = r#"{"type":"result","sessionId":"s","result":{"stopReason":"end_turn","usage":{"inputTokens":5,"outputTokens":7}}}"#;
    let report = Program::inspect(&[]).stdin(flat).run().stdout;
    assert!(report.contains("  tokens  5 in, 7 out"), "{report}");
}

#[test]
fn the_agents_own_description_is_in_the_report() {
    let tools: Vec<String> = (0..10_000).map(|n| format!("\"mcp__tool_{n}\"")).collect();
    let init = format!(
        r#"{{"type":"system","subtype":"init","cwd":"/p","session_id":"s1","permissionMode":"plan","tools":[{}],"mcp_servers":[{{"name":"db","status":"failed"}}],"skills":["verify"],"plugins":[{{"name":"notes","path":"/x"}}],"apiKeySource":"none","output_style":"default"}}"#,
        tools.join(",")
    );
    let report = Program::inspect(&[]).stdin(&init).run().stdout;
    for line in [
        "MCP servers   1: db (failed)",
        "skills        1: verify",
        "plugins       1: notes",
        "API key       none",
    ] {
        assert!(report.contains(line), "{line} is not in {report}");
    }
    assert!(report.contains(" and 9,988 more\n") && report.len() < 2000, "{report}");
    let json = Program::inspect(&["--json"]).stdin(&init).run().stdout;
    assert!(json.len() < 60_000, "{}", json.len());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sessions"][0]["agent"]["tools"]["total"], 10_000);
}

#[test]
fn anomalies_are_listed_with_their_position() {
    insta::assert_snapshot!(Program::inspect(&[]).stdin(ANOMALIES).run());
}

#[test]
fn strict_exits_with_1_if_anything_is_unknown_or_mismatched() {
    assert_eq!(Program::inspect(&["--strict"]).stdin(TURN).run().code, 0);
    assert_eq!(Program::inspect(&["--strict", "--json"]).stdin(ANOMALIES).run().code, 1);
    for line in [
        r#"{"type":"next_years"}"#,
        r#"{"type":"assistant","message":5}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"hologram"}]}}"#,
        r#"{"type":"result","subtype":"error_new"}"#,
    ] {
        assert_eq!(Program::inspect(&["--strict"]).stdin(line).run().code, 1, "{line}");
    }
    assert_eq!(Program::inspect(&["--strict"]).stdin("noise\n\n").run().code, 0);
}

#[test]
fn unreadable_files_are_reported_and_the_rest_is_inspected() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    fs::write(path("good.jsonl"), TURN).unwrap();
    fs::write(path("program"), b"\x7fELF\x00\x00\x01").unwrap();
    fs::write(path("packed.gz"), b"\x1f\x8b\x08\x00").unwrap();
    fs::write(path("wide.jsonl"), b"\xff\xfe{\x00").unwrap();
    fs::create_dir(path("folder")).unwrap();
    let files = ["missing.jsonl", "program", "packed.gz", "wide.jsonl", "folder", "good.jsonl"];
    let files: Vec<String> = files.map(path).to_vec();
    let arguments: Vec<&str> =
        ["--json"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let output = Program::inspect(&arguments).run();
    assert_eq!(output.code, 2);
    assert!(output.stdout.contains(r#""lines":6"#), "{}", output.stdout);
    let stderr = output.stderr.replace(&*directory.path().to_string_lossy(), "DIR");
    insta::assert_snapshot!(stderr);
}

#[test]
fn nul_bytes_among_events_do_not_make_a_file_binary() {
    let stream = format!("\0\0\0\0\n{TURN}");
    let output = Program::inspect(&["--json"]).stdin(&stream).run();
    assert_eq!(output.code, 0);
    assert!(output.stdout.contains(r#""noise":1"#) && output.stdout.contains(r#""lines":7"#));
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let stream = TURN.repeat(20_000);
    let output = Program::inspect(&["--events"]).stdin(&stream).close_stdout_early().run();
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
}

#[test]
fn events_spread_over_lines_are_rejoined() {
    let wrapped = "{\"type\":\"result\",\"subtype\":\"succ\r\ness\",\"is_error\":false,\r\n\"result\":\"ok\"}\r\n";
    for arguments in [&["--json"][..], &["--json", "--rejoin"]] {
        let output = Program::inspect(arguments).stdin(wrapped).run();
        assert!(output.stdout.contains(r#""events":{"result/success":1}"#), "{}", output.stdout);
        let totals = format!(r#""lines":3,"bytes":{},"noise":0"#, wrapped.len());
        assert!(output.stdout.contains(&totals), "{}", output.stdout);
    }
}

#[test]
fn a_line_beyond_the_limit_is_counted_and_the_rest_read() {
    let stream = format!("{{\"type\":\"{}\"}}\n{TURN}", "x".repeat(1 << 20));
    let output = Program::inspect(&["--max-line", "1"]).stdin(&stream).run();
    assert_eq!(output.code, 0);
    assert!(output.stdout.contains("stdin:1  noise    1 MiB, longer than --max-line"));
    assert!(output.stdout.contains("session s1"));
}

#[test]
fn a_real_stream_and_a_real_session_file_have_no_anomalies() {
    for file in ["2.1.325/stdout/tools-misc.jsonl", "2.1.260/transcript/tools-misc.jsonl"] {
        let path = capture(file);
        let output = Program::inspect(&["--strict", path.to_str().unwrap()]).run();
        assert_eq!(output.code, 0, "{}", output.stdout);
        insta::assert_snapshot!(file.replace('/', "_"), output);
    }
}

#[test]
fn resumed_and_cleared_sessions_are_counted_separately() {
    let stream = r#"{"type":"result","subtype":"success","session_id":"a","total_cost_usd":0.5}
{"type":"conversation_reset","new_conversation_id":"b","session_id":"a"}
{"type":"result","subtype":"success","session_id":"b","total_cost_usd":0.75}
{"type":"result","subtype":"success","session_id":"a","total_cost_usd":0.25}
"#;
    let output = Program::inspect(&["--json"]).stdin(stream).run();
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let sessions: Vec<_> = json["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["id"].as_str().unwrap(), it["turns"].as_u64(), it["cost_usd"].as_f64()))
        .collect();
    // The second process of `a` starts its count at zero.
    assert_eq!(sessions, [("a", Some(2), Some(0.75)), ("b", Some(1), Some(0.75))]);
}

#[test]
fn a_fork_does_not_count_its_origin_again() {
    let line = |session: &str, id: &str| {
        format!(
            r#"{{"type":"assistant","sessionId":"{session}","requestId":"r-{id}","message":{{"id":"{id}","content":[],"usage":{{"input_tokens":5,"output_tokens":7}}}}}}"#
        )
    };
    let stream = [line("a", "m1"), line("b", "m1"), line("b", "m2"), line("a", "m1")].join("\n");
    let output = Program::inspect(&["--json"]).stdin(&stream).run();
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let outputs: Vec<_> = json["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["tokens"]["output"].as_u64().unwrap())
        .collect();
    assert_eq!(outputs, [7, 7]);
}

#[test]
fn help_shows_examples_and_completions_are_printed() {
    let help = Program::new(&["inspect", "--help"]).run();
    assert!(help.stdout.contains("Examples:") && help.stdout.contains("--strict"));
    for shell in ["bash", "zsh", "fish"] {
        let output = Program::new(&["completions", shell]).run();
        assert!(output.code == 0 && output.stdout.contains("towpath"), "{shell}");
        for agent in ["codex", "gemini", "opencode"] {
            assert!(output.stdout.contains(agent), "{shell} does not know {agent}");
        }
    }
    let version = Program::new(&["--version"]).run();
    assert_eq!(version.stdout, format!("towpath {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn other_agents_are_named_and_counted() {
    let path = capture("codex-0.166.0/session/edit.jsonl");
    insta::assert_snapshot!("codex_rollout", Program::inspect(&[]).stdin(&read(&path)).run());
    let path = capture("gemini-cli-0.61.0/stream/write.jsonl");
    insta::assert_snapshot!("gemini_stream", Program::inspect(&[]).stdin(&read(&path)).run());
    let path = capture("opencode-1.18.33/stream/edit.jsonl");
    let events = Program::inspect(&["--events"]).stdin(&read(&path)).run();
    insta::assert_snapshot!("opencode_events", events);
    for (name, dialect, program, turns, tool) in [
        ("codex-0.166.0/stream/shell", "codex-exec", "codex", 1, "command_execution"),
        ("codex-0.166.0/session/shell", "codex-rollout", "codex", 1, "exec_command"),
        ("gemini-cli-0.61.0/stream/shell", "gemini", "gemini", 1, "run_shell_command"),
        ("opencode-1.18.33/stream/shell", "opencode", "opencode", 1, "bash"),
        ("copilot-1.0.102/stream/shell", "copilot", "copilot", 1, "bash"),
        ("copilot-1.0.102/session/shell", "copilot", "copilot", 1, "bash"),
        ("pi-0.73.1/stream/shell", "pi", "pi", 1, "bash"),
        ("pi-0.73.1/session/shell", "pi", "pi", 1, "bash"),
    ] {
        let path = capture(&format!("{name}.jsonl"));
        let output = Program::inspect(&["--json", "--strict"]).stdin(&read(&path)).run();
        assert_eq!(output.code, 0, "{name}");
        let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let dialects = json["dialects"].as_object().unwrap();
        assert_eq!(dialects.keys().collect::<Vec<_>>(), [dialect], "{name}");
        assert_eq!((&json["noise"], &json["mismatch_count"]), (&0.into(), &0.into()), "{name}");
        let session = &json["sessions"][0];
        assert_eq!(session["program"], program, "{name}");
        assert_eq!(session["turns"], turns, "{name}");
        assert_eq!(session["tools"][tool]["calls"], 1, "{name}: {json}");
    }
}

fn read(path: &std::path::Path) -> String {
    fs::read_to_string(path).expect("a capture")
}
