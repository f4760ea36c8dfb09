//! Tests of the whole: a journal, session files of the CLI, and their index.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use journal::{Batch, Journal, NewEntry, NewSession, Origin, SessionId};
use proptest::prelude::*;
use serde_json::{Value, json};
use session::{
    AgentProgram, Roots, SessionLimits, Sessions, SessionsConfig, UnattendedLimits, WatchPolicy,
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::search::FoundSession;
use crate::{Search, SearchPage, SearchRequest, SearchRole, SearchScope};

struct SearchFixture {
    directory: TempDir,
    search: Search,
    journal: Journal,
}

impl SearchFixture {
    fn new() -> Self {
        Self::with_directory(tempfile::tempdir().unwrap())
    }

    fn with_directory(directory: TempDir) -> Self {
        let data = directory.path().join("data");
        fs::create_dir_all(directory.path().join("work")).unwrap();
        fs::create_dir_all(&data).unwrap();
        let journal = Journal::open(&data.join("journal.db")).unwrap().journal;
        let config = SessionsConfig {
            data: data.clone(),
            allow_bypass: false,
            config_file: None,
            runtime: data,
            towpath: "towpath".into(),
            agent: AgentProgram { program: "claude".into(), arguments: Vec::new() },
            agents: session::AgentCatalog::default(),
            environment: vec![("HOME".into(), directory.path().into())],
            limits: SessionLimits::default(),
            unattended: UnattendedLimits::LONG,
            takeover_delay: Duration::ZERO,
            prompt_gate: session::PromptGate::default(),
            watch: WatchPolicy::default(),
        };
        let search = Search::new(Sessions::new(config, journal.clone()));
        Self { directory, search, journal }
    }

    fn work(&self) -> PathBuf {
        self.directory.path().join("work").canonicalize().unwrap()
    }

    fn index(&self) -> PathBuf {
        self.directory.path().join("data/search.db")
    }

    async fn session(&self, number: u128, lines: &[Value]) -> SessionId {
        let id = SessionId(Uuid::from_u128(number));
        let title = Some(format!("session {number}"));
        let new = NewSession { id, directory: self.work(), title, options: "{}".to_owned(), at: 1 };
        self.journal.create(new).await.unwrap();
        self.write(id, lines).await;
        id
    }

    async fn write(&self, id: SessionId, lines: &[Value]) {
        let entries = lines.iter().map(|line| NewEntry {
            origin: Origin::Agent,
            bytes: Bytes::from(line.to_string()),
            transient: false,
        });
        let at = 1_800_000_000_000;
        let batch = Batch { at, entries: entries.collect(), ..Batch::default() };
        self.journal.write(id, batch).await.unwrap();
    }

    fn transcript(&self, number: u128, directory: &Path, lines: &[Value]) -> PathBuf {
        let folder = self.directory.path().join(".claude/projects/-work");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{}.jsonl", Uuid::from_u128(number)));
        let mut text = String::new();
        for line in lines {
            let mut line = line.clone();
            line["cwd"] = json!(directory);
            text += &line.to_string();
            text.push('\n');
        }
        fs::write(&path, text).unwrap();
        path
    }

    async fn find(&self, text: &str) -> SearchPage {
        self.find_in(text, SearchScope::default()).await
    }

    async fn find_in(&self, text: &str, scope: SearchScope) -> SearchPage {
        let request = SearchRequest { text: text.to_owned(), scope, limit: 30, after: None };
        self.search.find(request).await.unwrap()
    }

    /// When the results of all pages were said.
    async fn find_all(&self, text: &str) -> Vec<u64> {
        let (mut times, mut after) = (Vec::new(), None);
        loop {
            let (text, scope) = (text.to_owned(), SearchScope::default());
            let request = SearchRequest { text, scope, limit: 100, after };
            let page = self.search.find(request).await.unwrap();
            times.extend(page.results.iter().map(|it| it.at));
            after = page.more;
            if after.is_none() {
                return times;
            }
        }
    }

    /// Whether the words of deleted text are in a file of the index.
    fn is_in_file(&self, word: &str) -> bool {
        ["", "-wal"].iter().any(|ending| {
            let file = format!("{}{ending}", self.index().display());
            let bytes = fs::read(file).unwrap_or_default();
            bytes.windows(word.len()).any(|part| part == word.as_bytes())
        })
    }
}

fn prompt(text: &str) -> Value {
    json!({"type": "user", "uuid": Uuid::from_u128(7), "message": {"role": "user", "content": text}})
}

fn answer(text: &str) -> Value {
    json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}})
}

fn output(text: &str) -> Value {
    json!({"type": "user", "message": {"content": [{"type": "tool_result", "content": text}]}})
}

fn shown(page: &SearchPage) -> Vec<String> {
    let snippet = |result: &crate::SearchResult| {
        let parts = result.snippet.iter();
        parts
            .map(|it| if it.is_match { format!("[{}]", it.text) } else { it.text.clone() })
            .collect()
    };
    page.results.iter().map(snippet).collect()
}

#[tokio::test]
async fn sessions_and_session_files_are_found_by_what_was_said() {
    let fixture = SearchFixture::new();
    let lines = [prompt("Fix the Größe"), answer("The rabbit hole"), output("rabbit.rs:1: ok")];
    let own = fixture.session(1, &lines).await;
    fixture.transcript(2, &fixture.work(), &[prompt("a white RABBIT, 日本語の全文検索")]);
    let page = fixture.find("rabbit").await;
    assert_eq!(shown(&page), [""; 0], "nothing is indexed");
    let progress = page.progress.expect("it says so");
    assert_eq!((progress.done, progress.total), (0, 2));
    fixture.search.update().await.unwrap();
    assert_eq!(fixture.find("rabbit").await.progress, None);

    let page = fixture.find("rabb").await;
    let expected = ["The [rabbit] hole", "a white [RABBIT], 日本語の全文検索", "[rabbit].rs:1: ok"];
    let mut found = shown(&page);
    assert_eq!(found[2], expected[2], "what a tool printed comes last");
    found.sort();
    let mut sorted = expected;
    sorted.sort_unstable();
    assert_eq!(found, sorted);
    let in_own = page.results.iter().find(|it| it.role == SearchRole::Assistant).unwrap();
    assert_eq!(in_own.session, FoundSession::Own(own));
    assert_eq!(in_own.position.0, 2);
    assert_eq!(in_own.title.as_deref(), Some("session 1"));
    let of_cli = page.results.iter().find(|it| it.snippet.len() == 3 && it.at > 0).unwrap();
    assert_eq!(of_cli.directory, fixture.work());

    assert_eq!(shown(&fixture.find("GROSSE fix").await), [""; 0]);
    assert_eq!(shown(&fixture.find("GRÖßE fix").await), ["[Fix] the [Größe]"]);
    assert_eq!(shown(&fixture.find("全文検索").await), ["a white RABBIT, 日本語の[全文検索]"]);
    assert_eq!(shown(&fixture.find("索").await).len(), 1);
    assert_eq!(shown(&fixture.find("\"white rabbit\"").await).len(), 1);
    assert_eq!(shown(&fixture.find("\"rabbit white\"").await).len(), 0);
}

#[tokio::test]
async fn what_grows_is_indexed_from_where_it_ended() {
    let fixture = SearchFixture::new();
    let own = fixture.session(1, &[prompt("first words")]).await;
    let path = fixture.transcript(2, &fixture.work(), &[prompt("first lines")]);
    fixture.search.update().await.unwrap();
    fixture.write(own, &[answer("second words")]).await;
    let mut text = fs::read_to_string(&path).unwrap();
    text += &answer("second lines").to_string();
    text += "\n{\"type\":\"user\",\"mess";
    fs::write(&path, &text).unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    fixture.search.update().await.unwrap();
    assert_eq!(fixture.find("second").await.results.len(), 2);
    assert_eq!(fixture.find("first").await.results.len(), 2);
    // The half line is complete now.
    text += "age\":{\"content\":\"third lines\"}}\n";
    fs::write(&path, &text).unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    fixture.search.update().await.unwrap();
    assert_eq!(shown(&fixture.find("third").await), ["[third] lines"]);
    assert_eq!(fixture.find("lines").await.results.len(), 3);
}

#[tokio::test]
async fn deleted_text_is_gone_from_the_file() {
    let fixture = SearchFixture::new();
    let kept: Vec<Value> = (0..3000).map(|it| answer(&format!("kept word{it}"))).collect();
    fixture.session(1, &kept).await;
    let own = fixture.session(2, &[prompt("my zyxwvsecret password")]).await;
    let path = fixture.transcript(3, &fixture.work(), &[prompt("another qponmsecret")]);
    fixture.search.update().await.unwrap();
    assert!(fixture.is_in_file("zyxwvsecret") && fixture.is_in_file("qponmsecret"));
    fixture.journal.delete(own).await.unwrap();
    assert_eq!(fixture.find("zyxwvsecret").await.results, [], "at once");
    fs::remove_file(path).unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    fixture.search.update().await.unwrap();
    assert!(!fixture.is_in_file("zyxwvsecret") && !fixture.is_in_file("qponmsecret"));
    assert_eq!(fixture.find("word2999").await.results.len(), 1);
}

#[tokio::test]
async fn a_session_that_was_imported_is_found_once() {
    let fixture = SearchFixture::new();
    fixture.transcript(5, &fixture.work(), &[prompt("only once")]);
    fixture.search.update().await.unwrap();
    assert_eq!(fixture.find("once").await.results.len(), 1);
    let own = fixture.session(1, &[prompt("only once")]).await;
    let mut batch = Batch { at: 1, ..Batch::default() };
    batch.change.agent_id = Some(Uuid::from_u128(5).to_string());
    fixture.journal.write(own, batch).await.unwrap();
    assert_eq!(fixture.find("once").await.results.len(), 0, "not indexed yet");
    fixture.search.update().await.unwrap();
    let page = fixture.find("once").await;
    assert_eq!(page.results.len(), 1);
    assert_eq!(page.results[0].session, FoundSession::Own(own));
}

#[tokio::test]
async fn only_sessions_below_the_roots_are_found() {
    let fixture = SearchFixture::new();
    let other = tempfile::tempdir().unwrap();
    fixture.session(1, &[prompt("needle own")]).await;
    fixture.transcript(2, &fixture.work(), &[prompt("needle inside")]);
    fixture.transcript(3, other.path(), &[prompt("needle outside")]);
    fixture.search.update().await.unwrap();
    assert_eq!(fixture.find("needle").await.results.len(), 3);
    let roots = Some(Roots::new(&[fixture.work()]).unwrap());
    let inside = fixture.find_in("needle", SearchScope { roots, directory: None }).await;
    assert_eq!(inside.results.len(), 2);
    let directory = Some(other.path().to_owned());
    let there = fixture.find_in("needle", SearchScope { roots: None, directory }).await;
    assert_eq!(shown(&there), ["[needle] outside"]);
}

#[tokio::test]
async fn a_damaged_or_old_index_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut fixture = SearchFixture::with_directory(directory);
    fixture.session(1, &[prompt("still here")]).await;
    fixture.search.update().await.unwrap();
    let connection = rusqlite::Connection::open(fixture.index()).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(connection);
    let good = fs::read(fixture.index()).unwrap();
    let mut torn = good.clone();
    let middle = good.len() / 2;
    torn[middle..].fill(0x5a);
    let text = "not a database, but longer than the header of one. ".repeat(99).into_bytes();
    let mut old = good.clone();
    // The version in the header.
    old[60..64].copy_from_slice(&999_u32.to_be_bytes());
    let parts = [good[..5000].to_vec(), good[..good.len() - 4096].to_vec()];
    for damage in [torn, text, Vec::new(), old].into_iter().chain(parts) {
        // Another process finds it.
        fixture.search = Search::new(fixture.search.sessions().clone());
        for ending in ["-wal", "-shm"] {
            let _ = fs::remove_file(format!("{}{ending}", fixture.index().display()));
        }
        fs::write(fixture.index(), damage).unwrap();
        fixture.search.update().await.unwrap();
        // A pass that finds nothing to do does not read everything.
        let own = fixture.session(rand_number(), &[prompt("and more")]).await;
        fixture.search.update().await.unwrap();
        if fixture.find("here").await.results.is_empty() {
            fixture.search.update().await.unwrap();
        }
        assert_eq!(fixture.find("here").await.results.len(), 1);
        fixture.journal.delete(own).await.unwrap();
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(fixture.index()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

fn rand_number() -> u128 {
    Uuid::new_v4().as_u128()
}

#[tokio::test]
async fn all_pages_together_are_all_results() {
    let fixture = SearchFixture::new();
    for number in 1..=5 {
        let lines: Vec<Value> = (0..150)
            .map(|it| match it % 3 {
                0 => prompt(&format!("common {it}")),
                1 => answer(&format!("common {it}")),
                _ => output(&format!("common {it}")),
            })
            .collect();
        fixture.session(number, &lines).await;
    }
    fixture.search.update().await.unwrap();
    let (mut seen, mut after) = (std::collections::HashSet::new(), None);
    loop {
        let text = "common".to_owned();
        let request = SearchRequest { text, scope: SearchScope::default(), limit: 40, after };
        let page = fixture.search.find(request).await.unwrap();
        for result in &page.results {
            let FoundSession::Own(id) = result.session else { panic!("a session") };
            assert!(seen.insert((id, result.position)), "found twice");
        }
        let Some(more) = page.more else { break };
        assert_eq!(more.to_string().parse(), Ok(more));
        after = Some(more);
    }
    assert_eq!(seen.len(), 750);
}

#[test]
fn no_query_is_an_error() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fixture = SearchFixture::new();
    runtime.block_on(async {
        fixture.session(1, &[prompt("alpha beta 日本 x"), answer("near OR not")]).await;
        fixture.search.update().await.unwrap();
    });
    let special = "[\"*^:(){}+\\-'~a-zA-Z0-9 日本\u{0}-\u{20}“é\u{301}]{0,30}";
    proptest!(ProptestConfig::with_cases(300), |(query in prop_oneof![special, ".{0,30}"])| {
        runtime.block_on(fixture.find(&query));
    });
    for query in ["NEAR(a b)", "a AND", "\"", "*", "a*b", "terms:a", "{a}:b", "^a", "-a", "a\0b"] {
        runtime.block_on(fixture.find(query));
    }
}

#[tokio::test]
async fn two_processes_index_everything_once() {
    let fixture = SearchFixture::new();
    for number in 1..=30 {
        fixture.session(number, &[prompt(&format!("shared {number}"))]).await;
    }
    let other = Search::new(fixture.search.sessions().clone());
    let (one, two) = tokio::join!(fixture.search.update(), other.update());
    one.unwrap();
    two.unwrap();
    assert_eq!(fixture.find("shared").await.results.len(), 30);
}

#[tokio::test]
async fn lines_of_all_years_are_found_the_newest_first() {
    let fixture = SearchFixture::new();
    let months = (2003..2040).flat_map(|year| (1..=12).map(move |month| (year, month)));
    let lines: Vec<Value> = months
        .map(|(year, month)| {
            let mut line = prompt(&format!("monthly report{year}"));
            line["timestamp"] = json!(format!("{year}-{month:02}-03T10:00:00.000Z"));
            line
        })
        .collect();
    fixture.transcript(1, &fixture.work(), &lines);
    fixture.search.update().await.unwrap();
    let times = fixture.find_all("monthly report").await;
    assert_eq!(times.len(), lines.len());
    assert!(times.is_sorted_by(|one, other| one > other));
    for (text, count) in [("report2003", 12), ("monthly report2039", 12), ("month report2003", 0)] {
        assert_eq!(fixture.find_all(text).await.len(), count, "{text}");
        let (text, scope) = (text.to_owned(), SearchScope::default());
        let request = SearchRequest { text, scope, limit: 10, after: None };
        let page = fixture.search.find_enough(request).await.unwrap();
        assert_eq!(page.results.len(), count.min(10));
    }
}

/// A piece of a message of an agent of the Agent Client Protocol.
fn piece(kind: &str, text: &str) -> Value {
    let update = json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
}

#[tokio::test]
async fn a_message_in_pieces_is_found_as_a_whole_when_it_is_over() {
    let fixture = SearchFixture::new();
    let message = |text: &str| piece("agent_message_chunk", text);
    let lines =
        [prompt("go"), message("Down the rab"), message("bit"), message(" "), message("ho")];
    let own = fixture.session(1, &lines).await;
    fixture.search.update().await.unwrap();
    assert_eq!(fixture.find("rabbit").await.results, [], "it may go on");
    let end = json!({"jsonrpc": "2.0", "id": "p", "result": {"stopReason": "end_turn"}});
    let thought = piece("agent_thought_chunk", "le in a thought");
    fixture.write(own, &[message("le, deep"), thought, end]).await;
    fixture.search.update().await.unwrap();
    let page = fixture.find("\"rabbit hole\" dee").await;
    assert_eq!(shown(&page), ["Down the [rabbit hole], [deep]"]);
    assert_eq!((page.results[0].position.0, page.results[0].role), (2, SearchRole::Assistant));
    assert_eq!(shown(&fixture.find("thought").await), ["le in a [thought]"]);
    assert_eq!(fixture.find("hole").await.results.len(), 1);
}

#[tokio::test]
async fn a_huge_message_in_pieces_is_found_in_all_its_parts() {
    let fixture = SearchFixture::new();
    let pieces = (0..5000).map(|it| piece("agent_message_chunk", &format!("number{it} of many ")));
    let mut lines: Vec<Value> = pieces.collect();
    lines.push(prompt("go on"));
    fixture.session(1, &lines).await;
    fixture.search.update().await.unwrap();
    for number in [0, 1, 1023, 1024, 2500, 4999] {
        assert_eq!(fixture.find_all(&format!("\"number{number}\"")).await.len(), 1, "{number}");
        let phrase = format!("\"number{number} of many\"");
        assert_eq!(fixture.find_all(&phrase).await.len(), 1, "{number}");
    }
    assert!(fixture.find_all("many").await.len() < 20, "it has few parts");
}
