//! `towpath sessions`: list, show, rename and delete.

use std::process::Stdio;

use journal::{Batch, Journal, NewEntry, NewSession, Origin, SessionId};
use uuid::Uuid;

use crate::home::TestHome;

/// Writes a session into the journal of a home, as an earlier run would have.
fn write_session(home: &TestHome, number: u128, options: &str, batch: Batch) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        std::fs::create_dir_all(home.data()).expect("a directory");
        let journal = Journal::open(&home.data().join("journal.db")).expect("a journal").journal;
        let id = SessionId(Uuid::from_u128(number));
        let directory = home.work();
        let title = Some(format!("session {number}"));
        let new = NewSession { id, directory, title, options: options.to_owned(), at: 1 };
        journal.create(new).await.expect("a session");
        journal.write(id, batch).await.expect("entries");
        journal.close().await.expect("a closed journal");
    });
}

fn agent_lines(lines: Vec<Vec<u8>>) -> Batch {
    let entry =
        |line: Vec<u8>| NewEntry { origin: Origin::Agent, bytes: line.into(), transient: false };
    Batch { at: 1, entries: lines.into_iter().map(entry).collect(), ..Batch::default() }
}

#[test]
fn a_damaged_session_says_so_and_all_others_are_listed_shown_and_resumed() {
    let home = TestHome::new();
    assert_eq!(home.towpath(&["run", "--demo", "think"]).code, 0);
    let line = br#"{"type":"system","subtype":"init"}"#.to_vec();
    write_session(&home, 7 << 96, r#"{"disallowed_tools":["Bash"#, agent_lines(vec![line.clone()]));
    let damaged = Uuid::from_u128(7 << 96).to_string();

    let output = home.towpath(&["sessions"]);
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stdout.contains("damaged") && output.stdout.contains("think"), "{output}");
    assert!(output.stderr.contains("the options cannot be read"), "{output}");
    assert!(output.stderr.contains(&format!("sessions export {damaged}")), "{output}");
    let list = home.json(&["sessions", "--json"]);
    let (other, itself) = (&list[0], &list[1]);
    assert_eq!((&other["damage"], &other["status"]), (&serde_json::Value::Null, &"idle".into()));
    assert!(itself["damage"].is_string(), "{itself}");

    let other = other["id"].as_str().expect("an id");
    assert_eq!(home.towpath(&["sessions", "show", other]).code, 0);
    assert_eq!(home.towpath(&["run", "--demo", "--resume", other, "think more"]).code, 0);
    let exported = home.towpath(&["sessions", "export", &damaged]);
    assert_eq!(exported.stdout.trim_end().as_bytes(), line, "{exported}");
    assert_eq!(home.towpath(&["sessions", "delete", "--yes", &damaged]).code, 0);
    assert_eq!(home.json(&["sessions", "--json"]).as_array().map(Vec::len), Some(1));
}

#[test]
fn a_session_whose_options_cannot_be_read_is_not_copied() {
    let home = TestHome::new();
    assert_eq!(home.towpath(&["run", "--demo", "think"]).code, 0);
    // It is JSON, but the list of forbidden tools would be lost.
    let line = br#"{"type":"system","subtype":"init"}"#.to_vec();
    write_session(&home, 7 << 96, r#"{"disallowed_tools":"Bash"}"#, agent_lines(vec![line]));
    let id = Uuid::from_u128(7 << 96).to_string();
    let output = home.towpath(&["run", "--demo", "--resume", &id, "--fork", "think"]);
    assert_eq!(output.code, 2, "{output}");
    assert!(output.stderr.contains("options"), "{output}");
    assert!(
        output.stderr.contains("start a new session") || output.stderr.contains("export"),
        "{output}"
    );
    let list = home.json(&["sessions", "--json"]);
    assert_eq!(list.as_array().map(Vec::len), Some(2), "no copy was made: {list}");
}

#[test]
fn what_the_built_in_agent_writes_is_private() {
    let home = TestHome::new();
    for prompt in ["think", "plan"] {
        let output = home.towpath(&["run", "--demo", "--mode", "plan", prompt]);
        assert_ne!(output.code, 2, "{output}");
        let output = home.towpath(&["sessions"]);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output}");
    }
    assert!(home.data().join("demo-home/.claude/plans").is_dir(), "a plan was written");
}

#[test]
fn a_line_of_70_mb_is_exported_whole_and_can_be_inspected() {
    const SIZE: usize = 70 << 20;
    let home = TestHome::new();
    let mut line = br#"{"type":"user","message":{"role":"user","content":""#.to_vec();
    line.resize(SIZE - 3, b'x');
    line.extend_from_slice(br#""}}"#);
    // The owner of a session stores a line over 64 MiB in several entries.
    let rest = line.split_off(64 << 20);
    let mut batch = agent_lines(vec![b"{}".to_vec(), line.clone(), rest.clone(), b"[]".to_vec()]);
    batch.unfinished = vec![1];
    write_session(&home, 1 << 96, "{}", batch);

    let exported = home.towpath(&["sessions", "export", "last"]);
    assert_eq!(exported.code, 0, "{}", exported.stderr);
    line.extend(rest);
    let lines: Vec<&str> = exported.stdout.lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((lines[0], lines[2]), ("{}", "[]"));
    assert!(lines[1].as_bytes() == line, "{} of {SIZE} bytes", lines[1].len());

    let file = home.file("exported.jsonl", exported.stdout.as_bytes());
    let inspected = home.towpath(&["inspect", file.to_str().expect("a path")]);
    assert_eq!(inspected.code, 0, "{inspected}");
    let status = home
        .command(&["sessions", "show", "last", "--full"])
        .stdout(Stdio::null())
        .status()
        .expect("the binary starts");
    assert!(status.success());
}

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

/// Writes a session file of the CLI with one prompt. Returns its id.
fn write_transcript(home: &TestHome, number: u128, text: &str) -> String {
    let directory = home.work().canonicalize().expect("a directory");
    let folder = home.data().parent().expect("a home").join(".claude/projects/-work");
    std::fs::create_dir_all(&folder).expect("a folder");
    let id = Uuid::from_u128(number << 96 | 5).to_string();
    let line = serde_json::json!({"type": "user", "uuid": Uuid::from_u128(number), "parentUuid": null,
        "sessionId": id, "cwd": directory, "timestamp": "2026-11-15T09:36:40.000Z",
        "message": {"role": "user", "content": text}});
    std::fs::write(folder.join(format!("{id}.jsonl")), format!("{line}\n")).expect("a file");
    id
}

#[test]
fn what_was_said_in_any_session_is_found_until_it_is_deleted() {
    let home = TestHome::new();
    let line = br#"{"type":"user","message":{"content":"why is the marmalade \u001b[31mblue"}}"#;
    write_session(&home, 1 << 96, "{}", agent_lines(vec![line.to_vec()]));
    let other = write_transcript(&home, 2, "marmalade, 果酱");

    let output = home.towpath(&["sessions", "search", "MARMA"]);
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stdout.contains("why is the marmalade") && !output.stdout.contains('\u{1b}'));
    assert!(output.stdout.contains(&other[..8]) && output.stdout.contains("user"), "{output}");
    let found = home.json(&["sessions", "search", "--json", "\"果酱\""]);
    assert_eq!((&found[0]["id"], &found[0]["origin"]), (&other.clone().into(), &"cli".into()));
    assert_eq!(found[0]["snippet"][1], serde_json::json!({"text": "果酱", "match": true}));
    let one = home.json(&["sessions", "search", "marmalade", "--json", "--limit", "1"]);
    assert_eq!(one.as_array().map(Vec::len), Some(1));
    let nowhere = home.towpath(&["sessions", "search", "marmalade", "--cwd", "/nowhere"]);
    assert_eq!((nowhere.code, nowhere.stderr.trim_end()), (1, "nothing was found"));

    assert_eq!(home.towpath(&["sessions", "import", &other[..12]]).code, 0);
    let again = home.towpath(&["sessions", "import", "--all-in", "."]);
    assert!(again.code == 0 && again.stderr.contains("is already session"), "{again}");
    let found = home.json(&["sessions", "search", "--json", "果酱"]);
    assert_eq!(found.as_array().map(Vec::len), Some(1), "once: {found}");
    assert_eq!(found[0]["origin"], "towpath");
    assert_eq!(home.towpath(&["sessions", "import", "ffffffff"]).code, 2);

    let id = Uuid::from_u128(1 << 96).to_string();
    assert_eq!(home.towpath(&["sessions", "delete", "--yes", &id]).code, 0);
    let bytes = std::fs::read(home.data().join("search.db")).expect("an index");
    assert!(!bytes.windows(4).any(|it| it == b"blue"), "its words are gone with it");
    assert!(bytes.windows(9).any(|it| it == b"marmalade"), "of the other session");
}
