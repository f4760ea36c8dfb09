//! Attempts to get more than a person has allowed.

use serde_json::{Value, json};

use super::{ALL_EDIT_TOOLS, Rule, RuleId, RuleKind, covers, disclosures, rules};

/// Whether the rule `id` offered for a call covers another one.
#[expect(clippy::needless_pass_by_value, reason = "tests build calls in place")]
fn covered(id: RuleId, call: (&str, Value), other: (&str, Value)) -> bool {
    let offered = rules(call.0, &call.1.to_string(), "/home/ann/project");
    let Some(rule) = offered.iter().find(|rule| rule.id == id) else { return false };
    covers_call(rule, (other.0, &other.1))
}

fn covers_call(rule: &Rule, call: (&str, &Value)) -> bool {
    covers(&rule.tool, rule.kind, rule.pattern.as_deref(), call.0, &call.1.to_string())
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
    assert!(!covers("Bash", RuleKind::Command, Some("git diff:*"), "Bash", &input));
    assert!(!covers("Bash", RuleKind::Tool, None, "Bash", &input));
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
    assert!(!covers("Bash", RuleKind::Command, Some("ls"), "Bash", twice));
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
    for directory in [
        "",
        "/root",
        "/home/ann",
        "/Users/ann",
        "/users/ANN",
        "/home",
        "/sys",
        "/private/tmp",
        "/mnt/c",
        "/mnt/c/Users/ann",
        "/home/ann/.ssh",
        "/home/ann/project/.git",
        "/home/ann/project/.claude",
        "/home/ann/project/.claude/worktrees",
    ] {
        let below = json!({ "file_path": format!("{directory}/a"), "content": "" });
        assert_eq!(offered("Write", &below, directory), [RuleId::Exact], "{directory}");
    }
    for directory in ["/workspace", "/mnt/data", "/home/ann/p/.claude/worktrees/a"] {
        let below = json!({ "file_path": format!("{directory}/a"), "content": "" });
        let both = [RuleId::Exact, RuleId::Directory];
        assert_eq!(offered("Write", &below, directory), both, "{directory}");
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
        ("ls\u{e0100}\u{fe00}", "ls\\u{e0100}\\u{fe00}"),
        // In a terminal, the second command would be written over the first one.
        ("rm -rf ~ #\rls", "rm -rf ~ #\\u{d}ls"),
        ("ls\r\nid", "ls\r\nid"),
        ("é 👍 ❤\u{fe0f} \n\t x", "é 👍 ❤\u{fe0f} \n\t x"),
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
        "/home/ann/project/HUSKY~1/pre-commit",
        "/home/ann/project/.git::$INDEX_ALLOCATION/config",
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
        assert!(!covers(tool, RuleKind::Tool, None, tool, &input.to_string()), "{tool} {input}");
    }
}

/// What an agent could want to do once a user has tapped *Always* on something harmless.
fn wanted() -> Vec<(&'static str, Value)> {
    let write = |path: &str| ("Write", json!({ "file_path": path, "content": "a" }));
    let fetch = |url: &str| ("WebFetch", json!({ "url": url, "prompt": "x" }));
    vec![
        write("/etc/passwd"),
        write("/etc/cron.d/a"),
        write("/home/ann/.bashrc"),
        write("/home/ann/other/a"),
        write("/home/ann/project/a"),
        write("/a"),
        ("Edit", json!({ "file_path": "/etc/hosts", "old_string": "a", "new_string": "b" })),
        ("NotebookEdit", json!({ "notebook_path": "/etc/a", "new_source": "b" })),
        fetch("https://github.com/a"),
        fetch("http://github.com"),
        ("Bash", json!({ "command": "ls" })),
        ("Bash", json!({ "command": "git push" })),
        ("mcp__x__shell", json!({ "command": "ls" })),
        ("mcp__x__shell", json!({})),
        ("mcp__x__shell", json!({ "a": 1 })),
        ("edits", json!({})),
        ("mcp__x__other", json!({})),
    ]
}

#[test]
fn a_text_that_looks_like_a_pattern_is_a_text() {
    let texts = [
        "/etc/**",
        "/etc/*",
        "/**",
        "/",
        "**",
        "*",
        "",
        "~",
        "~/**",
        "/home/ann/**",
        "/home/ann/project/**",
        "/home/ann/project",
        "/home/ann/project/",
        "/home/ann/project/../**",
        "/etc",
        "/etc/",
        "/etc/.",
        "domain:github.com",
        "github.com",
        "https://github.com",
        "input:{}",
        "input:{\"a\":1}",
        "{}",
        "edits",
        "mcp__x__*",
        "mcp__x",
        "Bash",
        "Bash(*)",
        "Bash(ls:*)",
        "ls:*",
        "git push:*",
        "\u{ff0f}etc\u{ff0f}**",
        "/ETC/**",
    ];
    let wanted = wanted();
    for text in texts {
        let calls = [
            ("Write", json!({ "file_path": text, "content": "a" })),
            ("Edit", json!({ "file_path": text, "old_string": "a", "new_string": "b" })),
            ("NotebookEdit", json!({ "notebook_path": text, "new_source": "b" })),
            ("WebFetch", json!({ "url": text, "prompt": "x" })),
            ("WebFetch", json!({ "command": text })),
            ("Bash", json!({ "command": text })),
            ("Write", json!({ "command": text })),
            ("mcp__x__shell", json!({ "command": text })),
            ("edits", json!({ "command": text })),
            ("edits", json!({ "a": text })),
            (text, json!({ "command": "make" })),
            (text, json!({ "a": 1, "b": 2 })),
        ];
        for (tool, input) in &calls {
            for rule in rules(tool, &input.to_string(), "/home/ann/project") {
                assert!(covers_call(&rule, (tool, input)), "{rule:?} {input}");
                for (other_tool, other) in &wanted {
                    let same = tool == other_tool && input == other;
                    let any_input = rule.kind == RuleKind::Tool && tool == other_tool;
                    let same_host = rule.kind == RuleKind::Host
                        && rule.label == "Fetch any page of github.com"
                        && *other_tool == "WebFetch";
                    assert!(
                        same || any_input || same_host || !covers_call(&rule, (other_tool, other)),
                        "{rule:?} covers {other_tool} {other}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_path_that_means_different_files_at_different_times_is_asked_every_time() {
    for path in [
        "",
        "a.rs",
        "./a.rs",
        "../a.rs",
        "~",
        "~/.bashrc",
        "~ann/a",
        "$HOME/a",
        "/p/../etc/a",
        "/p/./a",
        "/p//a",
        "/p/",
        "/",
        "//p/a",
        "/p/a*",
        "/etc/**",
        "/p/a\0b",
        "/p\\..\\a",
        "C:\\a",
        " /p/a",
        "/p/a\nEdit /p/b",
        "/p/a\u{7f}",
    ] {
        let input = json!({ "file_path": path, "content": "" });
        assert!(offered("Write", &input, "/home/ann/project").is_empty(), "{path:?}");
        assert!(offered("Write", &input, "/p").is_empty(), "{path:?}");
        for kind in RuleKind::ALL {
            let text = input.to_string();
            assert!(!covers(ALL_EDIT_TOOLS, kind, Some(path), "Write", &text), "{path:?} {kind:?}");
        }
    }
}

#[test]
fn a_rule_without_a_kind_covers_nothing() {
    let calls = wanted();
    for pattern in [None, Some("/etc/**"), Some("/etc"), Some("domain:github.com"), Some("ls")] {
        for tool in ["edits", "WebFetch", "Bash", "mcp__x__shell", "Write"] {
            for (other, input) in &calls {
                let covered = covers(tool, RuleKind::Unknown, pattern, other, &input.to_string());
                assert!(!covered, "{tool} {pattern:?} {other}");
            }
        }
    }
    for kind in RuleKind::ALL {
        assert_eq!(RuleKind::of_name(kind.name()), kind);
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
    let later: RuleKind = serde_json::from_str("\"galaxy\"").unwrap();
    assert_eq!((later, RuleKind::of_name("")), (RuleKind::Unknown, RuleKind::Unknown));
}

#[test]
fn the_label_of_a_tool_shows_what_cannot_be_seen() {
    let odd = "mcp__a\u{202e}\u{1b}[2Kb\nUse Read";
    for rule in rules(odd, "{}", "/p/q") {
        assert!(rule.label.contains("mcp__a\\u{202e}\\u{1b}[2Kb\\u{"), "{rule:?}");
        assert_eq!(rule.label.lines().count(), 1, "{rule:?}");
    }
}
