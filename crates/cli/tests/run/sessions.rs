//! `towpath sessions`: what is listed, shown, renamed and deleted.

use crate::house::House;

/// A text with ids and times as they might be.
fn normal(text: &str) -> String {
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
fn without_any_there_is_a_word_on_how_to_begin_one() {
    let house = House::new();
    let output = house.towpath(&["sessions"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output}");
    assert!(output.stderr.contains("`towpath run` begins one"), "{output}");
    assert_eq!(house.json(&["sessions", "--json"]), serde_json::json!([]));
    assert_eq!(house.json(&["sessions", "list", "--json"]), serde_json::json!([]));
}

#[test]
fn sessions_are_listed_the_last_active_first() {
    let house = House::new();
    assert_eq!(house.towpath(&["run", "--demo", "think"]).code, 0);
    assert_eq!(house.towpath(&["run", "--demo", "think twice\nand more"]).code, 0);
    let output = house.towpath(&["sessions"]);
    assert_eq!(output.code, 0, "{output}");
    insta::assert_snapshot!(normal(&output.stdout), @r"
    id        status     active      title        directory
    ID123456  idle       just now    think twice  ~/work
    ID123456  idle       just now    think        ~/work
    ");
}

#[test]
fn a_session_is_shown_with_its_prompts_and_requests() {
    let house = House::new();
    assert_eq!(house.towpath(&["run", "--demo", "permission please"]).code, 0);
    let output = house.towpath(&["sessions", "show", "last"]);
    assert_eq!(output.code, 0, "{output}");
    let shown = normal(&output.stdout);
    for part in [
        "permission please\n  id         LONG-ID\n  status     idle, active just now\n  directory  ~/work\n",
        "\nrequests\n  DATE TIME  denied     Write ",
        "by towpath (rule): Nobody can be asked",
        "\nprompts\n  DATE TIME  done       permission please\n",
    ] {
        assert!(shown.contains(part), "{part:?} in\n{shown}");
    }
    let full = house.towpath(&["sessions", "show", "last", "--full"]).stdout;
    assert!(full.contains("This writes a file, and asks first."), "{full}");
    assert!(full.contains("❯ permission please"), "{full}");
}

#[test]
fn a_session_gets_another_name() {
    let house = House::new();
    assert_eq!(house.towpath(&["run", "--demo", "think"]).code, 0);
    assert_eq!(house.towpath(&["sessions", "rename", "last", " the lock "]).code, 0);
    assert_eq!(house.json(&["sessions", "--json"])[0]["title"], "the lock");
    assert_eq!(house.towpath(&["sessions", "rename", "last", " "]).code, 2);
    // What comes later does not take it away.
    assert_eq!(house.towpath(&["run", "--demo", "--resume", "last", "think more"]).code, 0);
    assert_eq!(house.json(&["sessions", "--json"])[0]["title"], "the lock");
}

#[test]
fn a_session_is_deleted_only_by_somebodys_word() {
    let house = House::new();
    assert_eq!(house.towpath(&["run", "--demo", "think"]).code, 0);
    assert_eq!(house.towpath(&["run", "--demo", "think again"]).code, 0);
    let id = house.json(&["sessions", "--json"])[0]["id"].as_str().expect("an id").to_owned();
    let output = house.towpath(&["sessions", "delete", &id]);
    assert_eq!(output.code, 2, "{output}");
    assert!(output.stderr.contains("--yes"), "{output}");
    let output = house.towpath(&["sessions", "delete", &id[..8], "--yes"]);
    assert_eq!(output.code, 0, "{output}");
    let left = house.json(&["sessions", "--json"]);
    assert_eq!(left.as_array().map(Vec::len), Some(1));
    assert_ne!(left[0]["id"], *id);
    assert!(!house.data().join("live").join(&id).exists());
}

#[test]
fn a_session_nobody_knows_is_exit_code_2() {
    let house = House::new();
    assert_eq!(house.towpath(&["run", "--demo", "think"]).code, 0);
    for deed in ["show", "export"] {
        let output = house.towpath(&["sessions", deed, "nothing-like-it"]);
        assert_eq!(output.code, 2, "{output}");
        assert!(output.stderr.contains("`towpath sessions` lists them"), "{output}");
    }
    // Every id begins with nothing.
    assert_eq!(house.towpath(&["sessions", "show", ""]).code, 2);
}
