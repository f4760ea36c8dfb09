//! `towpath sessions`: list, show, rename and delete.

use crate::home::TestHome;

/// Replaces ids and times by placeholders.
fn normalize(text: &str) -> String {
    let is_id = |word: &str| {
        let hex = |part: &str| part.chars().all(|it| it.is_ascii_hexdigit());
        (word.len() == 8 && hex(word)) || (word.len() == 36 && word.split('-').all(hex))
    };
    let date = |word: &str| word.len() == 10 && word.chars().filter(|it| *it == '-').count() == 2;
    let time = |word: &str| word.len() == 5 && word.as_bytes()[2] == b':';
    text.split_inclusive([' ', '\n', ':'])
        .map(|part| {
            let word = part.trim_end_matches([' ', '\n']);
            let normal = match word {
                _ if is_id(word) && word.len() == 8 => "ID123456",
                _ if is_id(word) => "LONG-ID",
                _ if date(word) => "DATE",
                _ => word,
            };
            part.replacen(word, normal, 1)
        })
        .collect::<String>()
        .split_inclusive('\n')
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let words: Vec<&str> =
                words.iter().map(|it| if time(it) { "TIME" } else { it }).collect();
            words.join(" ")
        })
        .collect()
}

#[test]
fn without_sessions_a_hint_says_how_to_start_one() {
    let home = TestHome::new();
    let output = home.towpath(&["sessions"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output}");
    assert!(output.stderr.contains("start one with `towpath run`"), "{output}");
    assert_eq!(home.json(&["sessions", "--json"]), serde_json::json!([]));
    assert_eq!(home.json(&["sessions", "list", "--json"]), serde_json::json!([]));
}

#[test]
fn sessions_are_listed_with_the_most_recently_active_first() {
    let home = TestHome::new();
    assert_eq!(home.towpath(&["run", "--demo", "think"]).code, 0);
    assert_eq!(home.towpath(&["run", "--demo", "think twice\nand more"]).code, 0);
    let output = home.towpath(&["sessions"]);
    assert_eq!(output.code, 0, "{output}");
    insta::assert_snapshot!(normalize(&output.stdout), @r"
    id        status     active      title        directory
    ID123456  idle       just now    think twice  ~/work
    ID123456  idle       just now    think        ~/work
    ");
}

#[test]
fn a_session_is_shown_with_its_prompts_and_requests() {
    let home = TestHome::new();
    assert_eq!(home.towpath(&["run", "--demo", "permission please"]).code, 0);
    let output = home.towpath(&["sessions", "show", "last"]);
    assert_eq!(output.code, 0, "{output}");
    let shown = normalize(&output.stdout);
    for part in [
        "permission please\n  id         LONG-ID\n  status     idle, active just now\n  directory  ~/work\n",
        "\nrequests\n  DATE TIME  denied     Write ",
        "by towpath (rule): Denied because no user is present",
        "\nprompts\n  DATE TIME  done       permission please\n",
    ] {
        assert!(shown.contains(part), "{part:?} in\n{shown}");
    }
    let full = home.towpath(&["sessions", "show", "last", "--full"]).stdout;
    assert!(full.contains("Now I will write a file. This needs your permission."), "{full}");
    assert!(full.contains("❯ permission please"), "{full}");
}

#[test]
fn a_session_is_renamed() {
    let home = TestHome::new();
    assert_eq!(home.towpath(&["run", "--demo", "think"]).code, 0);
    assert_eq!(home.towpath(&["sessions", "rename", "last", " the lock "]).code, 0);
    assert_eq!(home.json(&["sessions", "--json"])[0]["title"], "the lock");
    assert_eq!(home.towpath(&["sessions", "rename", "last", " "]).code, 2);
    // Further prompts do not change it.
    assert_eq!(home.towpath(&["run", "--demo", "--resume", "last", "think more"]).code, 0);
    assert_eq!(home.json(&["sessions", "--json"])[0]["title"], "the lock");
}

#[test]
fn a_session_is_deleted_only_with_confirmation() {
    let home = TestHome::new();
    assert_eq!(home.towpath(&["run", "--demo", "think"]).code, 0);
    assert_eq!(home.towpath(&["run", "--demo", "think again"]).code, 0);
    let id = home.json(&["sessions", "--json"])[0]["id"].as_str().expect("an id").to_owned();
    let output = home.towpath(&["sessions", "delete", &id]);
    assert_eq!(output.code, 2, "{output}");
    assert!(output.stderr.contains("--yes"), "{output}");
    let output = home.towpath(&["sessions", "delete", &id[..8], "--yes"]);
    assert_eq!(output.code, 0, "{output}");
    let left = home.json(&["sessions", "--json"]);
    assert_eq!(left.as_array().map(Vec::len), Some(1));
    assert_ne!(left[0]["id"], *id);
    assert!(!home.data().join("live").join(&id).exists());
}

#[test]
fn an_unknown_session_is_exit_code_2() {
    let home = TestHome::new();
    assert_eq!(home.towpath(&["run", "--demo", "think"]).code, 0);
    for action in ["show", "export"] {
        let output = home.towpath(&["sessions", action, "nothing-like-it"]);
        assert_eq!(output.code, 2, "{output}");
        assert!(output.stderr.contains("`towpath sessions` lists all sessions"), "{output}");
    }
    // The empty string is a prefix of every id.
    assert_eq!(home.towpath(&["sessions", "show", ""]).code, 2);
}
