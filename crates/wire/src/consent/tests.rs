//! Attempts to get more than a person has allowed.

use serde_json::{Value, json};

use super::{RuleId, covers, disclosures, rules};

/// Whether the rule `id` offered for a call covers another one.
#[expect(clippy::needless_pass_by_value, reason = "tests build calls in place")]
fn covered(id: RuleId, call: (&str, Value), other: (&str, Value)) -> bool {
    let offered = rules(call.0, &call.1.to_string(), "/home/ann/project");
    let Some(rule) = offered.iter().find(|rule| rule.id == id) else { return false };
    covers(&rule.tool, rule.pattern.as_deref(), other.0, &other.1.to_string())
}

fn offered(tool: &str, input: &Value, directory: &str) -> Vec<RuleId> {
    rules(tool, &input.to_string(), directory).iter().map(|rule| rule.id).collect()
}

#[test]
fn a_command_is_remembered_literally() {
    let bash = |command: &str| ("Bash", json!({ "command": command, "description": "x" }));
    assert!(covered(RuleId::Exact, bash("rm -rf build"), bash("rm -rf build")));
    for other in ["rm -rf /", "rm -rf build /", "rm -rf build; id", " rm -rf build", "rm"] {
        assert!(!covered(RuleId::Exact, bash("rm -rf build"), bash(other)), "{other}");
    }
    assert_eq!(offered("Bash", &bash("ls").1, "/p/q"), [RuleId::Exact]);
    // A prefix that an earlier version stored does not cover anything any more.
    let input = json!({ "command": "git diff --stat" }).to_string();
    assert!(!covers("Bash", Some("git diff:*"), "Bash", &input));
    assert!(!covers("Bash", None, "Bash", &input));
}

#[test]
fn a_field_no_rule_accounts_for_is_asked_every_time() {
    let plain = ("Bash", json!({ "command": "make" }));
    let unconfined = ("Bash", json!({ "command": "make", "dangerouslyDisableSandbox": true }));
    assert!(!covered(RuleId::Exact, plain, unconfined.clone()));
    assert!(offered(unconfined.0, &unconfined.1, "/p/q").is_empty());
    assert!(offered("Bash", &json!({ "command": ["sh"] }), "/p/q").is_empty());
    let twice = r#"{"command":"ls","command":"rm -rf /"}"#;
    assert!(rules("Bash", twice, "/p/q").is_empty());
    assert!(!covers("Bash", Some("ls"), "Bash", twice));
}

#[test]
fn an_edit_in_the_project_covers_the_project_and_nothing_beside_it() {
    let edit = |path: &str| ("Edit", json!({ "file_path": path, "old_string": "a" }));
    let write = |path: &str| ("Write", json!({ "file_path": path, "content": "a" }));
    let inside = || edit("/home/ann/project/src/a.rs");
    assert!(covered(RuleId::Directory, inside(), edit("/home/ann/project/b/c.rs")));
    assert!(covered(RuleId::Directory, inside(), write("/home/ann/project/new")));
    for path in [
        "/home/ann/.bashrc",
        "/home/ann/project",
        "/home/ann/projects/a",
        "/home/ann/project/../.ssh/id",
        "/home/ann/project/./../x",
        "/home/ann/project//etc",
        "/home/ann/project/.git/hooks/pre-commit",
        "/home/ann/project/sub/.GIT/config",
        "/home/ann/project/.claude/settings.json",
        "project/a",
    ] {
        assert!(!covered(RuleId::Directory, inside(), write(path)), "{path}");
    }
    let bash = ("Bash", json!({ "command": "/home/ann/project/a" }));
    assert!(!covered(RuleId::Directory, inside(), bash));
}

#[test]
fn an_edit_elsewhere_covers_that_file_alone() {
    let write = |path: &str| ("Write", json!({ "file_path": path, "content": "a" }));
    let bashrc = || write("/home/ann/.bashrc");
    assert_eq!(offered("Write", &bashrc().1, "/home/ann/project"), [RuleId::Exact]);
    assert!(covered(RuleId::Exact, bashrc(), bashrc()));
    assert!(!covered(RuleId::Exact, bashrc(), write("/home/ann/.ssh/authorized_keys")));
    // A working directory that is a home or the root is too wide for a rule.
    for directory in ["/", "", "/root", "/home/ann", "/Users/ann", "/home", "relative", "/p/.."] {
        let below = json!({ "file_path": format!("{directory}/a"), "content": "" });
        assert_eq!(offered("Write", &below, directory), [RuleId::Exact], "{directory}");
    }
}

#[test]
fn a_host_covers_its_own_pages() {
    let fetch = |url: &str| ("WebFetch", json!({ "url": url, "prompt": "x" }));
    assert!(covered(RuleId::Host, fetch("https://example.org/a"), fetch("http://EXAMPLE.org/b")));
    for url in [
        "https://example.org.evil.com/",
        "https://example.org@evil.com/",
        "https://example.org:8443/",
        "https://evil.com/?example.org",
        "ftp://example.org/",
    ] {
        assert!(!covered(RuleId::Host, fetch("https://example.org/a"), fetch(url)), "{url}");
    }
    let odd = fetch("https://a@b.org/x");
    assert_eq!(offered(odd.0, &odd.1, "/p/q"), [RuleId::Exact]);
}

#[test]
fn other_tools_are_remembered_by_their_input_or_whole() {
    let call = |name: &str| ("mcp__db__query", json!({ "name": name }));
    assert!(covered(RuleId::Exact, call("a"), call("a")));
    assert!(!covered(RuleId::Exact, call("a"), call("b")));
    assert!(covered(RuleId::Tool, call("a"), call("b")));
    assert!(!covered(RuleId::Tool, call("a"), ("mcp__db__drop", json!({ "name": "a" }))));
    // A tool that takes a command is a shell, whatever its name.
    let shell = ("mcp__x__shell", json!({ "command": "ls" }));
    assert_eq!(offered(shell.0, &shell.1, "/p/q"), [RuleId::Exact]);
}

#[test]
fn what_must_be_seen_is_never_shortened() {
    let command = format!("echo {}; rm -rf ~", "x".repeat(5000));
    let shown = disclosures("Bash", &json!({ "command": command }).to_string());
    assert_eq!(shown[0].text, command);
    let odd = json!({ "command": "ls", "dangerouslyDisableSandbox": true }).to_string();
    assert!(disclosures("Bash", &odd).iter().any(|it| it.text == odd));
    assert_eq!(disclosures("Bash", "not json")[0].text, "not json");
}

#[test]
fn a_long_text_is_disclosed_whole_wherever_it_is() {
    let long = format!("{} and then rm -rf ~", "x".repeat(5000));
    for (tool, input) in [
        ("Bash", json!({ "command": long })),
        ("Bash", json!({ "command": "ls", "description": long })),
        ("Write", json!({ "file_path": format!("/p/{long}"), "content": "" })),
        ("NotebookEdit", json!({ "notebook_path": format!("/p/{long}"), "new_source": "" })),
        ("WebFetch", json!({ "url": format!("https://a/{long}"), "prompt": "x" })),
        ("Read", json!({ "file_path": long })),
        ("mcp__db__query", json!({ "sql": long })),
        ("", json!({ "command": long })),
        ("Bash", json!([long])),
        ("Bash", json!(long)),
    ] {
        let shown = disclosures(tool, &input.to_string());
        assert!(shown.iter().any(|it| it.text.contains(&long)), "{tool} {shown:?}");
    }
    // A short description is on the card in any case.
    let short = json!({ "command": "ls", "description": "lists" }).to_string();
    assert_eq!(disclosures("Bash", &short).len(), 1);
}

#[test]
fn characters_that_cannot_be_seen_are_disclosed() {
    for (hidden, shown) in [
        ("ls \u{202e}fdp.sh", "ls \\u{202e}fdp.sh"),
        ("rm\u{200b} -rf", "rm\\u{200b} -rf"),
        ("ls\0; id", "ls\\u{0}; id"),
        ("a\u{2066}b\u{2069}", "a\\u{2066}b\\u{2069}"),
        ("\u{feff}ls", "\\u{feff}ls"),
        ("ls \u{1b}[8m; id", "ls \\u{1b}[8m; id"),
        ("ls\u{e0041}", "ls\\u{e0041}"),
        ("é 👍 \n\t x", "é 👍 \n\t x"),
    ] {
        let found = disclosures("Bash", &json!({ "command": hidden }).to_string());
        assert_eq!(found[0].text, shown);
    }
    let rules = rules("Write", r#"{"file_path":"/p/\u202ecod","content":""}"#, "/home/ann/x");
    assert!(rules[0].label.contains("\\u{202e}"), "{rules:?}");
}

#[test]
fn similar_commands_and_paths_are_asked_again() {
    let bash = |command: &str| ("Bash", json!({ "command": command }));
    for other in [
        "rm -rf build ",
        "rm -rf build\n",
        "rm -rf build\0",
        "rm -rf build\u{200b}",
        "rm -rf bu\u{456}ld",
        "rm  -rf build",
        "rm -rf build/..",
        "RM -rf build",
    ] {
        assert!(!covered(RuleId::Exact, bash("rm -rf build"), bash(other)), "{other:?}");
    }
    let write = |path: &str| ("Write", json!({ "file_path": path, "content": "a" }));
    let inside = || write("/home/ann/project/src/a.rs");
    for other in [
        "/home/ann/project/src/a.rs ",
        "/home/ann/project/src/a.rs\n",
        "/home/ann/project/src/../src/a.rs",
        "/home/ann/project/src/a.rs/",
        "/home/ann/project/src/a.r\u{455}",
        "~/project/src/a.rs",
    ] {
        assert!(!covered(RuleId::Exact, inside(), write(other)), "{other:?}");
    }
    for other in [
        "/home/ann/project/.git /config",
        "/home/ann/project/.git./config",
        "/home/ann/project/.gi\u{200c}t/config",
        "/home/ann/project/.\u{17f}sh/id",
        "/home/ann/project/GIT~1/config",
        "/home/ann/project/a\0b",
        "/home/ann/project/..\\.ssh\\id",
        "/home/ann/project/.. /x",
        "/home/ann/project/...",
        "/home/ann/project/a/\u{200b}",
    ] {
        assert!(!covered(RuleId::Directory, inside(), write(other)), "{other:?}");
    }
}

#[test]
fn a_second_path_or_field_is_asked_again() {
    let edit = |tool: &'static str, input: Value| (tool, input);
    let inside = || edit("Write", json!({ "file_path": "/home/ann/project/a", "content": "" }));
    for other in [
        edit(
            "NotebookEdit",
            json!({ "file_path": "/home/ann/project/a", "notebook_path": "/home/ann/.bashrc" }),
        ),
        edit("NotebookEdit", json!({ "file_path": "/home/ann/project/a" })),
        edit(
            "Write",
            json!({ "file_path": "/home/ann/project/a", "notebook_path": "/home/ann/.bashrc" }),
        ),
        edit("Write", json!({ "file_path": "/home/ann/project/a", "path": "/etc/passwd" })),
        edit("Write", json!({ "file_path": ["/home/ann/project/a"] })),
    ] {
        let shown = disclosures(other.0, &other.1.to_string());
        assert_eq!(shown[0].label, "Input", "{other:?}");
        for id in [RuleId::Exact, RuleId::Directory] {
            assert!(!covered(id, inside(), other.clone()), "{other:?}");
        }
        assert!(offered(other.0, &other.1, "/home/ann/project").is_empty(), "{other:?}");
    }
    let two = json!({ "file_path": "/ok", "path": "/secret" }).to_string();
    assert_eq!(disclosures("Read", &two)[0].label, "Input");
}

#[test]
fn nothing_is_remembered_about_an_unknown_tool_or_an_odd_input() {
    for (tool, input) in [("", json!({})), ("X", json!([])), ("X", json!("x")), ("X", json!(null))]
    {
        assert!(offered(tool, &input, "/p/q").is_empty(), "{tool} {input}");
        assert!(!covers(tool, None, tool, &input.to_string()), "{tool} {input}");
    }
}
