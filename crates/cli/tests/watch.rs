//! `towpath watch` behind an agent: what arrives where, and that nothing holds up the stream.

#[expect(dead_code, reason = "commits are shown elsewhere")]
mod pipeline;
mod web_targets;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use pipeline::{Project, SESSION, tree};
use web_targets::Web;

#[test]
fn a_file_goes_when_its_result_has_come_and_not_before() {
    let project = Project::new();
    project.write("src/a.rs", "old");
    let mut watch = project.watch(&["--to", "../copy"]);
    watch.call("t1", "Edit", &project.root().join("src/a.rs").display().to_string());
    watch.hear("Edit is going to change");
    assert!(!project.beside("copy").exists());
    project.write("src/a.rs", "new");
    let file = project.root().join("src/a.rs");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
    watch.result("t1", false);
    watch.hear("src/a.rs → ../copy");
    let copy = project.beside("copy/src/a.rs");
    assert_eq!(fs::read_to_string(&copy).unwrap(), "new");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o750);
    // A file that is gone again goes there, too.
    fs::remove_file(&file).unwrap();
    watch.change("t2", "Write", "src/a.rs");
    watch.hear("src/a.rs → ../copy (deleted)");
    assert!(!project.beside("copy/src").exists());
    let finished = watch.finish();
    assert_eq!(finished.code, 0);
    assert_eq!(
        finished.changes(),
        ["src/a.rs | Edit | pushed | ../copy | -", "src/a.rs | Write | pushed | ../copy | deleted"]
    );
    assert_eq!(finished.report["changes"][0]["session"], SESSION);
}

#[test]
fn what_failed_is_outside_or_unfinished_is_reported_and_left_alone() {
    let project = Project::new();
    project.write("denied.txt", "as it was");
    project.write("notes.md", "x");
    fs::write(project.beside("secret"), "secret").unwrap();
    symlink(project.beside("secret"), project.root().join("link")).unwrap();
    let mut watch = project.watch(&["--to", "../copy", "--exclude", "*.md"]);
    watch.call("t1", "Write", "denied.txt");
    watch.result("t1", true);
    watch.change("t2", "Write", "/etc/passwd");
    watch.change("t3", "Edit", "link");
    watch.change("t4", "Edit", "../secret");
    watch.change("t5", "Edit", "notes.md");
    watch.call("t6", "MultiEdit", "never.txt");
    watch.end_turn();
    let finished = watch.finish();
    assert_eq!(
        finished.changes(),
        [
            "denied.txt | Write | skipped | - | the call failed",
            "/etc/passwd | Write | skipped | - | outside the project",
            "link | Edit | skipped | - | a link leads out of the project",
            "../secret | Edit | skipped | - | outside the project",
            "notes.md | Edit | skipped | - | not selected",
            "never.txt | MultiEdit | unfinished | - | its result never came",
        ]
    );
    assert_eq!((finished.code, &finished.report["turns"]), (0, &1.into()));
    assert!(!project.beside("copy").exists());
}

#[test]
fn what_the_shell_made_renamed_and_deleted_is_found_where_asked_for() {
    let project = Project::new();
    for file in ["old name", "gone", "kept"] {
        project.write(file, "content");
    }
    project.write(".gitignore", "*.log\n");
    let mut watch = project.watch(&["--to", "../copy", "--scan"]);
    for (id, file) in [("t1", "old name"), ("t2", "gone")] {
        watch.change(id, "Write", file);
        watch.hear(&format!("{file} → ../copy"));
    }
    watch.call("t3", "Bash", "unused");
    fs::rename(project.root().join("old name"), project.root().join("new name")).unwrap();
    fs::remove_file(project.root().join("gone")).unwrap();
    project.write("deep/er/made", "by make");
    project.write("x.log", "noise");
    watch.result("t3", true);
    watch.hear("old name → ../copy (deleted)");
    // What is still running when its command is over is found when the turn is.
    project.write("late", "in the background");
    watch.end_turn();
    let finished = watch.finish();
    assert_eq!(finished.code, 0);
    let made = |name: &str, content: &str| (name.to_owned(), content.to_owned());
    assert_eq!(
        tree(&project.beside("copy")),
        [
            made("deep/er/made", "by make"),
            made("late", "in the background"),
            made("new name", "content")
        ]
    );
}

#[test]
fn changes_of_a_turn_go_together_where_asked_for() {
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
    watch.hear("Edit is going to change a");
    assert!(!project.beside("log").exists());
    project.write("a", "second");
    watch.result("t2", false);
    watch.end_turn();
    let finished = watch.finish();
    assert_eq!(fs::read_to_string(project.beside("log")).unwrap(), "second Edit\n");
    assert_eq!(finished.changes().len(), 2, "both changes arrived with one push");
    assert!(finished.changes().iter().all(|line| line.contains("| pushed |")));
}

#[test]
fn the_stream_goes_on_while_a_target_hangs() {
    let project = Project::new();
    project.write("a", "x");
    let web = Web::answering(|_| None);
    let mut watch = project.watch(&["--to", &web.url, "--exec", "sleep 1000", "--grace", "1"]);
    watch.change("t1", "Write", "a");
    let asked = web.asked.recv_timeout(pipeline::PATIENCE).expect("a request that is left waiting");
    assert_eq!(asked.line, "put /a http/1.1");
    // Far more than any pipe holds goes through while it hangs.
    for _ in 0..32 {
        watch.bytes(&vec![b'x'; 1 << 20]);
    }
    watch.change("t2", "Write", "a");
    let finished = watch.finish();
    assert_eq!(finished.code, 1);
    assert!(finished.changes().iter().all(|line| line.contains("| failed |")));
    assert_eq!(finished.report["bytes"].as_u64().unwrap() >> 20, 32);
}

#[test]
fn a_disk_that_is_full_is_reported_and_the_stream_goes_on() {
    let project = Project::new();
    project.write("large", &"x".repeat(100_000));
    project.write("small", "x");
    // No file may become larger than a few blocks.
    let limit = "trap '' XFSZ; ulimit -f 8";
    let mut watch = project.watch_after(limit, &["--to", "../copy", "--attempts", "2"]);
    watch.change("t1", "Write", "large");
    watch.change("t2", "Write", "small");
    for _ in 0..8 {
        watch.bytes(&vec![b'\n'; 1 << 20]);
    }
    let finished = watch.finish();
    assert_eq!(finished.code, 1);
    assert!(finished.changes()[0].starts_with("large | Write | failed | ../copy | File too large"));
    assert_eq!(tree(&project.beside("copy")), [("small".to_owned(), "x".to_owned())]);
}

#[test]
fn a_server_gets_files_with_token_and_tag_and_is_tried_again() {
    let project = Project::new();
    project.write("a b/ü?#.txt", "one");
    let web = Web::answering(|n| {
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
    watch.hear("trying again");
    watch.hear(&format!("ü?#.txt → {}/base/", web.url));
    project.write("a b/ü?#.txt", "two");
    watch.change("t2", "Write", "a b/ü?#.txt");
    watch.hear("somebody else changed it there");
    fs::remove_file(project.root().join("a b/ü?#.txt")).unwrap();
    watch.change("t3", "Write", "a b/ü?#.txt");
    let finished = watch.finish();
    assert_eq!(finished.code, 1, "one change did not arrive");
    let asked: Vec<_> = web.asked.try_iter().collect();
    let path = "/base/a%20b/%c3%bc%3f%23.txt?secret=1 http/1.1";
    let lines: Vec<&str> = asked.iter().map(|it| &*it.line).collect();
    let put = format!("put {path}");
    assert_eq!(lines, [&*put, &put, &put, &format!("delete {path}")]);
    assert_eq!(asked[1].body, b"one");
    let has = |n: usize, header: &str| asked[n].headers.iter().any(|it| it == header);
    assert!((0..4).all(|n| has(n, "authorization: bearer s3cret")));
    assert!(!has(1, "if-match: \"v1\"") && has(2, "if-match: \"v1\""));
    let said = format!("{:?} {}", finished.remarks, finished.report);
    assert!(!said.contains("secret"), "{said}");
}

#[test]
fn hooks_get_what_the_cli_would_give_them_and_cannot_break_anything() {
    let project = Project::new();
    project.write("a", "x");
    let but = project.beside("but");
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
    let finished = watch.finish();
    assert_eq!(finished.code, 0, "{:?}", finished.remarks);
    assert_eq!(finished.report["failed_hooks"], 2);
    let said = finished.remarks.join("\n");
    assert!(said.contains("hook: `sleep 1000` took longer than 2 s and was ended"), "{said}");
    assert!(said.contains("failed (exit status: 3)"), "{said}");
    let read = |name: &str| fs::read_to_string(project.beside(name)).unwrap();
    let told: serde_json::Value = serde_json::from_str(&read("pre.log")).unwrap();
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
    assert_eq!(told, expected);
    let told: serde_json::Value = serde_json::from_str(&read("stop.log")).unwrap();
    assert_eq!((&told["hook_event_name"], &told["tool_name"]), (&"Stop".into(), &().into()));
    let log = read("but.log");
    let words: Vec<&str> = log.lines().filter(|line| !line.starts_with('{')).collect();
    assert_eq!(words, ["pre-tool", "post-tool", "stop"]);
    assert!(log.contains(r#""tool_response":"so""#), "{log}");
}

#[test]
fn a_gitbutler_without_hooks_is_said_once() {
    let project = Project::new();
    project.write("a", "x");
    let path = "/usr/local/bin:/usr/bin:/bin";
    let mut watch = project.watch_with(&["--gitbutler"], &[("PATH", path)]);
    watch.change("t1", "Write", "a");
    watch.change("t2", "Write", "a");
    let finished = watch.finish();
    let said = finished.remarks.iter().filter(|line| line.contains("GitButler")).count();
    assert_eq!((finished.code, said), (0, 1), "{:?}", finished.remarks);
}

#[test]
fn options_that_cannot_be_followed_are_refused_before_anything_is_passed() {
    let project = Project::new();
    for (arguments, words) in [
        (&["--to", "ftp://somewhere/x"][..], "cannot be used"),
        (&["--to", "http://"], "is no address"),
        (&["--to", "."], "the project cannot be its own target"),
        (&["--include", "a{"], "`a{` is no pattern"),
        (&["--project", "nowhere"], "there is no directory `nowhere`"),
    ] {
        #[expect(clippy::disallowed_methods, reason = "tests start the program they test")]
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_towpath"))
            .arg("watch")
            .args(arguments)
            .current_dir(project.root())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn events_spread_over_lines_and_arrays_of_them_are_understood() {
    let project = Project::new();
    project.write("a", "x");
    let mut watch = project.watch(&["--to", "../copy", "--rejoin"]);
    let call = r#"{"type": "tool_use", "id": "t1", "toolName": "Write",
        "toolInput": {"file_path": "a"}}"#;
    watch.line(call);
    watch.line("{\"type\":\"tool_result\",\n\"toolUseId\":\"t1\"}");
    watch.hear("a → ../copy");
    watch.line(
        r#"[{"type":"tool_use","id":"t2","toolName":"Edit","toolInput":{"file_path":"a"}},{"type":"tool_result","toolUseId":"t2"}]"#,
    );
    watch.hear("a → ../copy");
    let finished = watch.finish();
    assert_eq!((finished.code, finished.changes().len()), (0, 2));
}

#[test]
fn a_stream_from_elsewhere_is_passed_on_and_its_changes_skipped() {
    let project = Project::new();
    let mut watch = project.watch(&["--to", "../copy"]);
    // The recording names a directory first that this machine has, so the project is settled.
    watch.line(r#"{"type":"system","subtype":"init","cwd":"/no/such/place","session_id":"s2"}"#);
    watch.change("t1", "Write", "b");
    let finished = watch.finish();
    assert_eq!(finished.changes(), ["b | Write | skipped | - | outside the project"]);
}

#[test]
fn a_target_inside_the_project_is_not_found_by_scanning() {
    let project = Project::new();
    symlink(project.root(), project.beside("other name")).unwrap();
    // The directory does not exist yet, and is named through a link.
    let copy = project.beside("other name/sub/../copy").display().to_string();
    project.write("sub/a", "x");
    let mut watch = project.watch(&["--to", &copy, "--scan"]);
    watch.change("t1", "Write", "sub/a");
    watch.hear("sub/a →");
    for turn in ["one", "two"] {
        project.write("sub/a", turn);
        watch.change(turn, "Bash", "unused");
        watch.hear("sub/a →");
    }
    let finished = watch.finish();
    assert_eq!(finished.changes().len(), 3, "{:?}", finished.changes());
    assert_eq!(tree(&project.root().join("copy")), [("sub/a".to_owned(), "two".to_owned())]);
}

#[test]
fn what_is_found_of_a_call_that_is_not_over_is_left_to_it() {
    let project = Project::new();
    project.write("a", "x");
    let mut watch = project.watch(&["--to", "../copy", "--scan"]);
    watch.change("t1", "Write", "a");
    watch.hear("a → ../copy");
    // As a sub-agent in the background does it: the turn ends while its call is under way.
    watch.call("t2", "Write", "b");
    watch.hear("Write is going to change b");
    project.write("b", "by the sub-agent");
    watch.change("t3", "Bash", "unused");
    watch.end_turn();
    watch.result("t2", false);
    watch.hear("b → ../copy");
    watch.end_turn();
    let finished = watch.finish();
    assert_eq!(
        finished.changes(),
        ["a | Write | pushed | ../copy | -", "b | Write | pushed | ../copy | -"]
    );
}
