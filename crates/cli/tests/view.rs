//! `towpath view` from the outside: exit code, stdout and stderr of the built binary.

#![expect(clippy::disallowed_methods, reason = "tests start the program they test")]

#[expect(dead_code, reason = "other commands need more of it")]
mod program;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use program::{Output, Program, capture};

const STREAM: &str = r##"{"type":"system","subtype":"init","cwd":"/p","session_id":"s1","model":"claude-opus-5-5","claude_code_version":"2.1.325","tools":[]}
{"type":"assistant","session_id":"s1","message":{"id":"m1","content":[{"type":"thinking","thinking":"one\ntwo\nthree\nfour\nfive"}],"usage":{"input_tokens":3,"output_tokens":1}}}
{"type":"assistant","session_id":"s1","message":{"id":"m1","content":[{"type":"text","text":"# Title\n\nSome **strong** words.\n\n- a\n- b\n"}],"usage":{"input_tokens":3,"output_tokens":1}}}
{"type":"assistant","session_id":"s1","message":{"id":"m2","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make test"}}],"usage":{"input_tokens":4,"output_tokens":2}}}
{"type":"user","session_id":"s1","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"\u001b[31mno\u001b[0m rule","is_error":true}]}}
{"type":"next_years"}
not an event
{"duration_ms":1200,"type":"result","subtype":"success","is_error":false,"session_id":"s1","total_cost_usd":0.0123,"result":"x"}
"##;

fn view(arguments: &[&str]) -> Program {
    Program::new(&[&["view"], arguments].concat())
}

#[test]
fn a_stream_is_printed() {
    insta::assert_snapshot!(view(&["--width", "60"]).stdin(STREAM).run());
}

#[test]
fn a_stream_is_printed_in_full() {
    insta::assert_snapshot!(view(&["--width", "60", "--full"]).stdin(STREAM).run());
}

#[test]
fn a_transcript_is_printed() {
    let path = capture("2.1.260/transcript/tools-misc.jsonl");
    insta::assert_snapshot!(view(&["--width", "80", path.to_str().unwrap()]).run());
}

#[test]
fn the_streams_of_other_agents_are_printed() {
    for name in [
        "codex-0.166.0/stream/edit",
        "codex-0.166.0/session/edit",
        "codex-0.166.0/stream/error",
        "gemini-cli-0.61.0/stream/shell",
        "opencode-1.18.33/stream/edit",
        "copilot-1.0.102/stream/thinking",
        "copilot-1.0.102/session/error",
        "pi-0.73.1/stream/shell",
    ] {
        let path = capture(&format!("{name}.jsonl"));
        let path = path.to_str().unwrap();
        let printed = view(&["--width", "80", path]).run();
        insta::assert_snapshot!(name.replace(['/', '.'], "_"), printed);
        let page = view(&["--html", "-", path]).run();
        assert!(page.stdout.ends_with("</html>\n"), "{name}");
        assert!(!page.stdout.contains("not recognized"), "{name}");
    }
}

#[test]
fn colours_follow_the_environment() {
    let plain = view(&[]).stdin(STREAM).run();
    assert!(!plain.stdout.contains('\u{1b}'), "{}", plain.stdout);
    let forced = view(&[]).env("CLICOLOR_FORCE", "1").stdin(STREAM).run();
    assert!(forced.stdout.contains("\u{1b}[31m"), "{}", forced.stdout);
    let refused = view(&[]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").stdin(STREAM).run();
    assert!(!refused.stdout.contains('\u{1b}'), "{}", refused.stdout);
}

#[test]
fn odd_input_is_shown_unchanged() {
    for odd in [
        "",
        "\n\n\n",
        "plain words\n",
        "{",
        "{\"type\":\"assistant\",\"message\":5}\n",
        "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"hologram\"}]}}\n",
        "\u{feff}[{\"type\":\"keep_alive\"}]",
        "\0\u{1b}]0;owned\u{7}x\n",
        "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"never\",\"content\":\"x\"}]}}",
    ] {
        let Output { code, stdout, stderr } = view(&["--full"]).stdin(odd).run();
        assert_eq!((code, stderr.as_str()), (0, ""), "{odd:?}");
        assert!(!stdout.contains(['\u{1b}', '\0', '\u{7}']), "{odd:?} gave {stdout:?}");
        let page = view(&["--html", "-"]).stdin(odd).run();
        assert_eq!(page.code, 0, "{odd:?}");
        assert!(page.stdout.ends_with("</html>\n"), "{odd:?}");
    }
    assert!(view(&[]).stdin("plain words\n").run().stdout.contains("plain words"));
    assert!(view(&[]).stdin("{\"type\":\"next_years\"}\n").run().stdout.contains("next_years"));
}

#[test]
fn an_unreadable_input_is_an_error_with_a_hint() {
    insta::assert_snapshot!(view(&["/no/such/file.jsonl"]).run());
    let folder = tempfile::tempdir().unwrap();
    let output = view(&[folder.path().to_str().unwrap()]).run();
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("name one of the files in it"), "{}", output.stderr);
}

#[test]
fn a_closed_stdout_is_not_an_error() {
    let long = STREAM.repeat(2000);
    let output = view(&[]).stdin(&long).close_stdout_early().run();
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
}

#[test]
fn an_exported_page_contains_the_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.html");
    let output = view(&["--html", path.to_str().unwrap()]).stdin(STREAM).run();
    assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (0, "", ""));
    let page = std::fs::read_to_string(&path).unwrap();
    for part in [
        "<!doctype html>",
        "<strong>strong</strong>",
        "make test",
        "<span class=\"f1\">no</span>",
        "claude-opus-5-5",
        "$0.01",
        "next_years",
        "not an event",
        "<svg",
        "</html>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no other file is left behind");
    let nowhere = folder.path().join("no/such/folder/talk.html");
    let output = view(&["--html", nowhere.to_str().unwrap()]).stdin(STREAM).run();
    assert_eq!(output.code, 2, "{output}");
}

/// Text must be on the screen before the answer is complete.
#[test]
fn a_paragraph_is_printed_before_the_answer_is_complete() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_towpath"))
        .arg("view")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let delta = |text: &str| {
        format!(
            r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}},"session_id":"s1"}}"#
        )
    };
    writeln!(stdin, r#"{{"type":"stream_event","event":{{"type":"message_start","message":{{"id":"m1","role":"assistant","content":[]}}}},"session_id":"s1"}}"#).unwrap();
    writeln!(stdin, r#"{{"type":"stream_event","event":{{"type":"content_block_start","index":0,"content_block":{{"type":"text","text":""}}}},"session_id":"s1"}}"#).unwrap();
    writeln!(stdin, "{}", delta("The first paragraph.\\n\\nThe sec")).unwrap();
    stdin.flush().unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "The first paragraph.");
    writeln!(stdin, "{}", delta("ond one.")).unwrap();
    drop(stdin);
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert_eq!(rest, ["", "The second one."]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_file_is_followed_as_it_grows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let mut file = std::fs::File::create(&path).unwrap();
    let message = |text: &str, id: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","content":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    };
    writeln!(file, "{}", message("one", "m1")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_towpath"))
        .args(["view", "--follow"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "one");
    writeln!(file, "{}", message("two", "m2")).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "");
    assert_eq!(lines.next().unwrap().unwrap(), "two");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Events as `jq` and JSON libraries print them for people.
fn pretty_printed() -> String {
    let events = STREAM.lines().filter_map(|it| serde_json::from_str::<serde_json::Value>(it).ok());
    let pretty = |it| serde_json::to_string_pretty(&it).expect("JSON") + "\n";
    events.map(pretty).collect()
}

#[test]
fn pretty_printed_events_are_read() {
    let pretty = pretty_printed();
    let events: Vec<serde_json::Value> =
        STREAM.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
    let array = serde_json::to_string_pretty(&events).unwrap();
    // What the program that started the agent said first.
    let noise = format!("[09:00:01] starting\nwarning: {{no config}}\n{pretty}");
    let texts = [
        pretty.clone(),
        format!("\n\n{pretty}"),
        pretty.replace('\n', "\r\n"),
        array,
        noise.clone(),
    ];
    for text in texts {
        let shown = view(&["--width", "60"]).stdin(&text).run();
        assert_eq!(shown.code, 0);
        assert!(shown.stdout.contains("Some strong words."), "{}", shown.stdout);
        assert!(shown.stdout.contains("make test"), "{}", shown.stdout);
        assert!(!shown.stdout.contains("session_id"), "{}", shown.stdout);
    }
    let report = |input: &str| {
        let report = Program::new(&["inspect", "--json"]).stdin(input).run();
        serde_json::from_str::<serde_json::Value>(&report.stdout).unwrap()
    };
    let plain = report(&pretty);
    assert!(plain.to_string().contains("s1"), "{plain}");
    assert!(!plain.to_string().contains("not JSON"), "{plain}");
    assert_eq!(report(&noise)["sessions"], plain["sessions"]);
}

/// Text as a terminal with that many columns shows it.
fn wrapped(text: &str, columns: usize) -> String {
    let rows = text.lines().map(|line| {
        let chars: Vec<char> = line.chars().collect();
        let rows: Vec<String> = chars.chunks(columns).map(|row| row.iter().collect()).collect();
        rows.join("\n") + "\n"
    });
    rows.collect()
}

#[test]
fn events_copied_from_a_terminal_are_read() {
    let copied = format!("$ claude -p hi\n{}", wrapped(STREAM, 80));
    for arguments in [&["--width", "60"][..], &["--width", "60", "--rejoin"]] {
        let shown = view(arguments).stdin(&copied).run().stdout;
        assert!(shown.contains("Some strong words.") && shown.contains("make test"), "{shown}");
        assert!(!shown.contains("session_id"), "{shown}");
    }
    let whole = Program::new(&["inspect", "--json"]).stdin(STREAM).run().stdout;
    let report = Program::new(&["inspect", "--json"]).stdin(&wrapped(STREAM, 80)).run().stdout;
    let sessions = |report: &str| {
        serde_json::from_str::<serde_json::Value>(report).unwrap()["sessions"].clone()
    };
    assert_eq!(sessions(&report), sessions(&whole));
    // A real recording, and one that was cut off in the middle of a line before it went on.
    let path = capture("2.1.325/stdout/max-turns-1.jsonl");
    let recording = std::fs::read_to_string(path).unwrap();
    let expected = view(&["--width", "80"]).stdin(&recording).run().stdout;
    assert_eq!(view(&["--width", "80"]).stdin(&wrapped(&recording, 120)).run().stdout, expected);
    let cut = STREAM.replacen(
        "\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n",
        "\"usage\":{\"inp\n",
        1,
    );
    let shown = view(&["--width", "60"]).stdin(&cut).run().stdout;
    assert!(shown.contains("Some strong words.") && shown.contains("make test"), "{shown}");
}

#[test]
fn the_agents_own_description_is_folded() {
    let tools: Vec<String> = (0..10_000).map(|n| format!("\"mcp__tool_{n}\"")).collect();
    let init = format!(
        r#"{{"type":"system","subtype":"init","cwd":"/p","session_id":"s1","model":"m<1>","claude_code_version":"2.1.325","permissionMode":"plan","tools":[{}],"mcp_servers":[{{"name":"db","status":"failed"}}]}}"#,
        tools.join(",")
    );
    let output = view(&["--width", "100"]).stdin(&init).run();
    let first = output.stdout.lines().next().unwrap();
    assert_eq!(
        first,
        "Claude Code 2.1.325 · m<1> · plan · 10,000 tools · 1 MCP server · db: failed"
    );
    let full = view(&["--width", "100", "--full"]).stdin(&init).run().stdout;
    let words = full.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("mcp__tool_1999 and 8,000 more"), "{full}");
    assert!(full.len() < 60_000, "{}", full.len());
    let page = view(&["--html", "-"]).stdin(&init).run().stdout;
    assert!(
        page.contains(
            "<details class=\"contents agent\"><summary>Claude Code 2.1.325 · m&lt;1&gt;"
        )
    );
    assert!(page.contains("<dt>MCP servers</dt><dd>1: db (failed)</dd>"));
}

#[test]
fn a_lone_result_shows_its_usage_and_what_was_denied() {
    let object = r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s1","result":"no","usage":{"input_tokens":10,"output_tokens":5},"permission_denials":[{"tool_name":"Write","tool_use_id":"t1","tool_input":{"file_path":"/p/a.txt","content":"x"}}]}"#;
    let output = view(&[]).stdin(object).run().stdout;
    assert!(output.contains("⊘ Write /p/a.txt"), "{output}");
    assert!(output.contains("10 tokens in, 5 out"), "{output}");
    let page = view(&["--html", "-"]).stdin(object).run().stdout;
    assert!(page.contains("a.txt") && page.contains("denied"), "{page}");
}

#[test]
fn an_unknown_event_is_shown_with_its_content() {
    let shown = view(&[]).stdin("{\"type\":\"next_years\",\"to\":\"the moon\"}\n").run();
    assert!(shown.stdout.contains("the moon"), "{}", shown.stdout);
}

/// Values that nest a million levels deep, closed and not, in lines of several kinds.
fn deep_lines() -> String {
    let levels = 1_000_000;
    let errors = "{\"error\":".repeat(levels) + "1" + &"}".repeat(levels);
    let arrays = "[".repeat(levels) + &"]".repeat(levels);
    let open = "{\"a\":".repeat(levels);
    let mut lines = String::new();
    for (head, deep) in [
        (r#"{"type":"error","error":"#, &errors),
        (r#"{"type":"error","error":"#, &open),
        (r#"{"type":"result","subtype":"success","usage":"#, &arrays),
        (r#"{"type":"next_years","a":"#, &errors),
        (r#"{"type":"assistant","message":"#, &arrays),
    ] {
        lines.extend([head, deep, "}\n"]);
    }
    lines.extend([
        r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Write","input":{"file_path":"a","content":"#,
        &arrays,
        "}}]}}\n",
    ]);
    lines + "{\"type\":\"assistant\",\"message\":{\"content\":\"The end.\"}}\n"
}

#[test]
fn values_that_nest_a_million_levels_deep_are_read_by_every_command() {
    let lines = deep_lines();
    let shown = view(&[]).stdin(&lines).run();
    assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
    assert!(shown.stdout.contains("The end."));
    for arguments in [
        &["view", "--full"][..],
        &["view", "--html", "-"],
        &["inspect"],
        &["inspect", "--events"],
        &["inspect", "--rejoin"],
        &["watch"],
    ] {
        let Output { code, stderr, .. } = Program::new(arguments).stdin(&lines).run();
        assert_eq!(code, 0, "{arguments:?} {stderr}");
    }
}
