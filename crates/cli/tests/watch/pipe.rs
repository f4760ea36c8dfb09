//! Targets, hooks and scans, and that they never delay the stream.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::process::{Project, SESSION, TIMEOUT, tree};
use crate::web_server::WebServer;

#[test]
fn a_file_is_copied_after_its_result_and_not_before() {
    let project = Project::new();
    project.write("src/a.rs", "old");
    let mut watch = project.watch(&["--to", "../copy"]);
    watch.call("t1", "Edit", &project.root().join("src/a.rs").display().to_string());
    watch.wait_for("Edit is about to change");
    assert!(!project.sibling("copy").exists());
    project.write("src/a.rs", "new");
    let file = project.root().join("src/a.rs");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
    watch.result("t1", false);
    watch.wait_for("src/a.rs → ../copy");
    let copy = project.sibling("copy/src/a.rs");
    assert_eq!(fs::read_to_string(&copy).unwrap(), "new");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o750);
    // A file that was deleted is deleted from the copy.
    fs::remove_file(&file).unwrap();
    watch.change("t2", "Write", "src/a.rs");
    watch.wait_for("src/a.rs → ../copy (deleted)");
    assert!(!project.sibling("copy/src").exists());
    let result = watch.finish();
    assert_eq!(result.code, 0);
    assert_eq!(
        result.changes(),
        ["src/a.rs | Edit | pushed | ../copy | -", "src/a.rs | Write | pushed | ../copy | deleted"]
    );
    assert_eq!(result.report["changes"][0]["session"], SESSION);
}

#[test]
fn failed_outside_and_unfinished_changes_are_reported_and_not_copied() {
    let project = Project::new();
    project.write("denied.txt", "unchanged");
    project.write("notes.md", "x");
    fs::write(project.sibling("secret"), "secret").unwrap();
    symlink(project.sibling("secret"), project.root().join("link")).unwrap();
    let mut watch = project.watch(&["--to", "../copy", "--exclude", "*.md"]);
    watch.call("t1", "Write", "denied.txt");
    watch.result("t1", true);
    watch.change("t2", "Write", "/etc/passwd");
    watch.change("t3", "Edit", "link");
    watch.change("t4", "Edit", "../secret");
    watch.change("t5", "Edit", "notes.md");
    watch.call("t6", "MultiEdit", "never.txt");
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(
        result.changes(),
        [
            "denied.txt | Write | skipped | - | the call failed",
            "/etc/passwd | Write | skipped | - | outside the project",
            "link | Edit | skipped | - | a link leads out of the project",
            "../secret | Edit | skipped | - | outside the project",
            "notes.md | Edit | skipped | - | not selected",
            "never.txt | MultiEdit | unfinished | - | no result received",
        ]
    );
    assert_eq!((result.code, &result.report["turns"]), (0, &1.into()));
    assert!(!project.sibling("copy").exists());
}

#[test]
fn a_scan_finds_what_the_shell_created_renamed_and_deleted() {
    let project = Project::new();
    for file in ["old name", "gone", "kept"] {
        project.write(file, "content");
    }
    project.write(".gitignore", "*.log\n");
    let mut watch = project.watch(&["--to", "../copy", "--scan"]);
    for (id, file) in [("t1", "old name"), ("t2", "gone")] {
        watch.change(id, "Write", file);
        watch.wait_for(&format!("{file} → ../copy"));
    }
    watch.call("t3", "Bash", "unused");
    fs::rename(project.root().join("old name"), project.root().join("new name")).unwrap();
    fs::remove_file(project.root().join("gone")).unwrap();
    project.write("deep/er/made", "by make");
    project.write("x.log", "noise");
    watch.result("t3", true);
    watch.wait_for("old name → ../copy (deleted)");
    // Changes by background processes are found at the end of the turn.
    project.write("late", "in the background");
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(result.code, 0);
    let file = |name: &str, content: &str| (name.to_owned(), content.to_owned());
    assert_eq!(
        tree(&project.sibling("copy")),
        [
            file("deep/er/made", "by make"),
            file("late", "in the background"),
            file("new name", "content")
        ]
    );
}

#[test]
fn with_every_turn_changes_are_copied_at_the_end_of_the_turn() {
    let project = Project::new();
    project.write("a", "first");
    let mut watch = project.watch(&[
        "--every",
        "turn",
        "--exec",
        "cat \"$1\" >> ../log; echo \" $TOWPATH_TOOL\" >> ../log",
    ]);
    watch.change("t1", "Write", "a");
    watch.call("t2", "Edit", "a");
    watch.wait_for("Edit is about to change a");
    assert!(!project.sibling("log").exists());
    project.write("a", "second");
    watch.result("t2", false);
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(fs::read_to_string(project.sibling("log")).unwrap(), "second Edit\n");
    assert_eq!(result.changes().len(), 2, "both changes arrived with one push");
    assert!(result.changes().iter().all(|line| line.contains("| pushed |")));
}

#[test]
fn the_stream_continues_while_a_target_hangs() {
    let project = Project::new();
    project.write("a", "x");
    let web = WebServer::start(|_| None);
    let mut watch = project.watch(&["--to", &web.url, "--exec", "sleep 1000", "--grace", "1"]);
    watch.change("t1", "Write", "a");
    let request = web.requests.recv_timeout(TIMEOUT).expect("a request without a response");
    assert_eq!(request.line, "put /a http/1.1");
    // Much more than a pipe can hold is copied while the target hangs.
    for _ in 0..32 {
        watch.bytes(&vec![b'x'; 1 << 20]);
    }
    watch.change("t2", "Write", "a");
    let result = watch.finish();
    assert_eq!(result.code, 1);
    assert!(result.changes().iter().all(|line| line.contains("| failed |")));
    assert_eq!(result.report["bytes"].as_u64().unwrap() >> 20, 32);
}

#[test]
fn a_full_disk_is_reported_and_the_stream_continues() {
    let project = Project::new();
    project.write("large", &"x".repeat(100_000));
    project.write("small", "x");
    // Files are limited to a few blocks.
    let limit = "trap '' XFSZ; ulimit -f 8";
    let mut watch = project.watch_after(limit, &["--to", "../copy", "--attempts", "2"]);
    watch.change("t1", "Write", "large");
    watch.change("t2", "Write", "small");
    for _ in 0..8 {
        watch.bytes(&[&[b'x'; 1023], b"\n".as_slice()].concat().repeat(1024));
    }
    let result = watch.finish();
    assert_eq!(result.code, 1);
    assert!(result.changes()[0].starts_with("large | Write | failed | ../copy | File too large"));
    assert_eq!(tree(&project.sibling("copy")), [("small".to_owned(), "x".to_owned())]);
}

#[test]
fn a_server_gets_files_with_token_and_etag_and_is_retried() {
    let project = Project::new();
    project.write("a b/ü?#.txt", "one");
    let web = WebServer::start(|n| {
        Some(match n {
            0 => "503 Busy",
            1 => "201 Created\r\nETag: \"v1\"",
            2 => "412 Precondition Failed",
            _ => "404 Not Found",
        })
    });
    let url = format!("{}/base/?secret=1", web.url);
    let arguments = ["--to", &*url];
    let mut watch = project.watch_with(&arguments, &[("TOWPATH_WATCH_TOKEN", "s3cret")]);
    watch.change("t1", "Write", "a b/ü?#.txt");
    watch.wait_for("retrying");
    watch.wait_for(&format!("ü?#.txt → {}/base/", web.url));
    project.write("a b/ü?#.txt", "two");
    watch.change("t2", "Write", "a b/ü?#.txt");
    watch.wait_for("the file was changed on the server");
    fs::remove_file(project.root().join("a b/ü?#.txt")).unwrap();
    watch.change("t3", "Write", "a b/ü?#.txt");
    let result = watch.finish();
    assert_eq!(result.code, 1, "one change did not arrive");
    let requests: Vec<_> = web.requests.try_iter().collect();
    let path = "/base/a%20b/%c3%bc%3f%23.txt?secret=1 http/1.1";
    let lines: Vec<&str> = requests.iter().map(|it| &*it.line).collect();
    let put = format!("put {path}");
    let (get, delete) = (format!("get {path}"), format!("delete {path}"));
    assert_eq!(lines, [&*put, &put, &put, &get, &delete]);
    assert_eq!(requests[1].body, b"one");
    let has = |n: usize, header: &str| requests[n].headers.iter().any(|it| it == header);
    assert!((0..5).all(|n| has(n, "authorization: bearer s3cret")));
    assert!(!has(1, "if-match: \"v1\"") && has(2, "if-match: \"v1\""));
    let output = format!("{:?} {}", result.log, result.report);
    assert!(!output.contains("secret"), "{output}");
}

#[test]
fn hooks_get_the_json_of_the_cli_and_failing_ones_are_counted() {
    let project = Project::new();
    project.write("a", "x");
    let but = project.sibling("but");
    fs::write(
        &but,
        "#!/bin/sh\n[ \"$3\" = --help ] || { echo \"$2\"; cat; echo; } >> ../but.log\n",
    )
    .unwrap();
    fs::set_permissions(&but, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", but.parent().unwrap().display());
    let mut watch = project.watch_with(
        &[
            "--gitbutler",
            "--timeout",
            "2",
            "--pre",
            "cat >> ../pre.log",
            "--post",
            "sleep 1000",
            "--stop",
            "cat >> ../stop.log; exit 3",
        ],
        &[("PATH", &path), ("HOME", "/home/someone")],
    );
    watch.change("t1", "Write", "a");
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(result.code, 0, "{:?}", result.log);
    assert_eq!(result.report["failed_hooks"], 2);
    let log = result.log.join("\n");
    assert!(log.contains("hook: `sleep 1000` took longer than 2 s and was stopped"), "{log}");
    assert!(log.contains("failed (exit status: 3)"), "{log}");
    let read = |name: &str| fs::read_to_string(project.sibling(name)).unwrap();
    let input: serde_json::Value = serde_json::from_str(&read("pre.log")).unwrap();
    let root = project.root().display().to_string();
    let folder = root.replace(|it: char| !it.is_ascii_alphanumeric(), "-");
    let expected = serde_json::json!({
        "session_id": SESSION,
        "transcript_path": format!("/home/someone/.claude/projects/{folder}/{SESSION}.jsonl"),
        "cwd": root,
        "permission_mode": "acceptEdits",
        "hook_event_name": "PreToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": "a", "content": "…"},
        "tool_use_id": "t1",
    });
    assert_eq!(input, expected);
    let input: serde_json::Value = serde_json::from_str(&read("stop.log")).unwrap();
    assert_eq!((&input["hook_event_name"], &input["tool_name"]), (&"Stop".into(), &().into()));
    let log = read("but.log");
    let events: Vec<&str> = log.lines().filter(|line| !line.starts_with('{')).collect();
    assert_eq!(events, ["pre-tool", "post-tool", "stop"]);
    assert!(log.contains(r#""tool_response":"so""#), "{log}");
}

#[test]
fn a_gitbutler_without_hooks_is_logged_once() {
    let project = Project::new();
    project.write("a", "x");
    let path = "/usr/local/bin:/usr/bin:/bin";
    let mut watch = project.watch_with(&["--gitbutler"], &[("PATH", path)]);
    watch.change("t1", "Write", "a");
    watch.change("t2", "Write", "a");
    let result = watch.finish();
    let count = result.log.iter().filter(|line| line.contains("GitButler")).count();
    assert_eq!((result.code, count), (0, 1), "{:?}", result.log);
}

#[test]
fn unusable_arguments_are_an_error_before_anything_is_copied() {
    let project = Project::new();
    for (arguments, message) in [
        (&["--to", "ftp://somewhere/x"][..], "cannot use `ftp://somewhere/x` as a target"),
        (&["--to", "http://"], "is not a valid address"),
        (&["--to", "."], "the target is the project itself"),
        (&["--include", "a{"], "`a{` is not a valid pattern"),
        (&["--project", "nowhere"], "no such directory: `nowhere`"),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_towpath"))
            .arg("watch")
            .args(arguments)
            .current_dir(project.root())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(message), "{stderr}");
    }
}

#[test]
fn events_split_into_lines_and_arrays_of_events_are_read() {
    let project = Project::new();
    project.write("a", "x");
    let mut watch = project.watch(&["--to", "../copy", "--rejoin"]);
    let call = r#"{"type": "tool_use", "id": "t1", "toolName": "Write",
        "toolInput": {"file_path": "a"}}"#;
    watch.line(call);
    watch.line("{\"type\":\"tool_result\",\n\"toolUseId\":\"t1\"}");
    watch.wait_for("a → ../copy");
    watch.line(
        r#"[{"type":"tool_use","id":"t2","toolName":"Edit","toolInput":{"file_path":"a"}},{"type":"tool_result","toolUseId":"t2"}]"#,
    );
    watch.wait_for("a → ../copy");
    let result = watch.finish();
    assert_eq!((result.code, result.changes().len()), (0, 2));
}

#[test]
fn a_stream_of_another_machine_is_copied_and_its_changes_are_skipped() {
    let project = Project::new();
    let mut watch = project.watch(&["--to", "../copy"]);
    // The first directory of the stream exists, so it stays the project.
    watch.line(r#"{"type":"system","subtype":"init","cwd":"/no/such/place","session_id":"s2"}"#);
    watch.change("t1", "Write", "b");
    let result = watch.finish();
    assert_eq!(result.changes(), ["b | Write | skipped | - | outside the project"]);
}

#[test]
fn a_scan_leaves_out_a_target_inside_the_project() {
    let project = Project::new();
    symlink(project.root(), project.sibling("other name")).unwrap();
    // The directory does not exist yet, and its path contains a link.
    let copy = project.sibling("other name/sub/../copy").display().to_string();
    project.write("sub/a", "x");
    let mut watch = project.watch(&["--to", &copy, "--scan"]);
    watch.change("t1", "Write", "sub/a");
    watch.wait_for("sub/a →");
    for turn in ["one", "two"] {
        project.write("sub/a", turn);
        watch.change(turn, "Bash", "unused");
        watch.wait_for("sub/a →");
    }
    let result = watch.finish();
    assert_eq!(result.changes().len(), 3, "{:?}", result.changes());
    assert_eq!(tree(&project.root().join("copy")), [("sub/a".to_owned(), "two".to_owned())]);
}

#[test]
fn a_scan_leaves_the_file_of_an_open_call_to_the_call() {
    let project = Project::new();
    project.write("a", "x");
    let mut watch = project.watch(&["--to", "../copy", "--scan"]);
    watch.change("t1", "Write", "a");
    watch.wait_for("a → ../copy");
    // As with a sub-agent in the background: the turn ends while its call is open.
    watch.call("t2", "Write", "b");
    watch.wait_for("Write is about to change b");
    project.write("b", "by the sub-agent");
    watch.change("t3", "Bash", "unused");
    watch.end_turn();
    watch.result("t2", false);
    watch.wait_for("b → ../copy");
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(
        result.changes(),
        ["a | Write | pushed | ../copy | -", "b | Write | pushed | ../copy | -"]
    );
}

#[test]
fn deeply_nested_and_very_long_lines_do_not_hide_other_changes() {
    const DEPTH: usize = 1_000_000;
    let nested = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    let objects = format!("{}1{}", "{\"a\":".repeat(DEPTH), "}".repeat(DEPTH));
    let long = "x".repeat(70 << 20);
    let call = |id: &str, content: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"{id}","name":"Write","input":{{"file_path":"{id}","content":{content}}}}}]}}}}"#
        )
    };
    let result = |id: &str, content: &str| {
        format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"{id}","content":{content}}}]}}}}"#
        )
    };
    for options in [[].as_slice(), ["--post", "cat > /dev/null"].as_slice()] {
        let project = Project::new();
        let mut watch = project.watch(&[["--to", "../copy"].as_slice(), options].concat());
        let names = ["before", "deep", "objects", "long", "after"];
        for name in names {
            project.write(name, name);
        }
        watch.change("t1", "Write", "before");
        for line in [&nested, &objects, &nested[..DEPTH], &format!("{{\"type\":{nested}}}")] {
            watch.line(line);
        }
        for (name, content) in [("deep", &nested), ("objects", &objects)] {
            watch.line(&call(name, content));
            watch.line(&result(name, content));
        }
        let text = format!("\"{long}\"");
        let is_short = options.is_empty();
        watch.line(&call("long", if is_short { "1" } else { &text }));
        watch.line(&result("long", if is_short { &text } else { "1" }));
        watch.change("t2", "Write", "after");
        watch.end_turn();
        let result = watch.finish();
        assert_eq!(result.code, 0, "{:?}", result.log);
        let copied: Vec<String> =
            tree(&project.sibling("copy")).into_iter().map(|(name, _)| name).collect();
        assert_eq!(copied, ["after", "before", "deep", "long", "objects"], "{options:?}");
    }
}
