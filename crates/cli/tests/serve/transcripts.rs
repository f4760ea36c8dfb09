//! Sessions that the CLI ran without Towpath, over HTTP.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use reqwest::Method;
use reqwest::header::{ETAG, IF_NONE_MATCH};
use serde_json::json;

use crate::fixture::Fixture;

pub(crate) const ID: &str = "0f0c5d2e-58d1-4d1c-9f6c-00000000000a";
pub(crate) const OUTSIDE: &str = "0f0c5d2e-58d1-4d1c-9f6c-00000000000b";

/// Writes the session file of a conversation with so many turns.
pub(crate) fn write_transcript(fixture: &Fixture, directory: &Path, id: &str, turns: usize) {
    let directory = directory.canonicalize().expect("a directory");
    let letter = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
    let folder: String = directory.display().to_string().chars().map(letter).collect();
    let folder = fixture.path("home").join(".claude/projects").join(folder);
    fs::create_dir_all(&folder).expect("a folder");
    let (mut text, mut parent) = (String::new(), None);
    for number in 0..2 * turns {
        let uuid = format!("0f0c5d2e-58d1-4d1c-9f6c-{number:012}");
        let (kind, said) =
            if number % 2 == 0 { ("user", "question") } else { ("assistant", "answer") };
        let line = json!({"type": kind, "uuid": uuid, "parentUuid": parent, "isSidechain": false,
            "sessionId": id, "cwd": directory, "gitBranch": "main",
            "timestamp": "2026-11-15T09:36:40.000Z", "message": {"id": format!("m{number}"),
                "role": kind, "content": [{"type": "text", "text": format!("{said} {number} of {id}")}]}});
        writeln!(text, "{line}").expect("text");
        parent = Some(uuid);
    }
    fs::write(folder.join(format!("{id}.jsonl")), text).expect("a file");
}

#[tokio::test]
async fn sessions_of_the_cli_below_the_roots_are_listed_shown_and_continued() {
    let fixture = Fixture::new("api text \"and more\"").await;
    let outside = tempfile::tempdir().expect("a directory");
    write_transcript(&fixture, Path::new(&fixture.project()), ID, 300);
    write_transcript(&fixture, outside.path(), OUTSIDE, 1);
    let server = fixture.serve().await;

    let list = server.get("/transcripts").await;
    let transcripts = list["transcripts"].as_array().expect("a list");
    assert_eq!(transcripts.len(), 1, "{list}");
    let one = &transcripts[0];
    assert_eq!((one["id"].as_str(), one["branch"].as_str()), (Some(ID), Some("main")));
    assert_eq!(one["title"], format!("question 0 of {ID}"));
    assert_eq!((&one["in_terminal"], &one["session"]), (&false.into(), &json!(null)));
    assert_eq!(server.get("/transcripts?cwd=/nowhere").await["transcripts"], json!([]));
    let after = format!("/transcripts?after={}.{ID}", one["modified"]);
    assert_eq!(server.get(&after).await["transcripts"], json!([]));

    let path = format!("/transcripts/{ID}");
    let shown = server.get(&path).await;
    let page = &shown["page"];
    assert_eq!(page["items"].as_array().map(Vec::len), Some(50));
    assert_eq!(page["more"], true);
    assert!(page["items"][49]["html"].as_str().is_some_and(|it| it.contains("answer 599")));
    // All pages together are the whole conversation.
    let (mut count, mut before) = (50, page["items"][0]["position"].clone());
    loop {
        let query = format!("{path}?limit=200&before={}.{}", before[0], before[1]);
        let older = server.get(&query).await;
        let items = older["page"]["items"].as_array().expect("items").clone();
        count += items.len();
        if older["page"]["more"] == false {
            break;
        }
        before = items[0]["position"].clone();
    }
    assert_eq!(count, 600);
    // It is not sent again as long as nothing was added.
    let response = server.ask(Method::GET, &path, None).await;
    let tag = response.headers().get(ETAG).expect("a tag").clone();
    let url = format!("{}/api/v1{path}", server.url);
    let again = server.http.get(url).bearer_auth(&server.token).header(IF_NONE_MATCH, tag.clone());
    assert_eq!(again.send().await.expect("a response").status(), 304);

    // What is outside the roots is neither shown nor resumed.
    let hidden = server.ask(Method::GET, &format!("/transcripts/{OUTSIDE}"), None).await;
    assert_eq!(hidden.status(), 404);
    let body = json!({ "cwd": fixture.project(), "resume": OUTSIDE });
    assert_eq!(server.post("/sessions", body).await.0, 404);

    let body = json!({ "cwd": fixture.project(), "resume": ID });
    let (status, made) = server.post("/sessions", body).await;
    assert_eq!(status, 201, "{made}");
    let session = made["id"].as_str().expect("an id");
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0 && page.contains("answer 599")).await;
    assert!(client.page.is_idle());
    let list = server.get("/transcripts").await;
    assert_eq!(list["transcripts"][0]["session"], session);
    let response = server.ask(Method::GET, &path, None).await;
    assert_ne!(response.headers().get(ETAG), Some(&tag), "it belongs to a session now");
    assert_eq!(server.get("/transcripts?outside=true").await["transcripts"], json!([]));
    let usage = server.get("/usage").await;
    assert_eq!(usage["days"], json!([]), "nothing of it was spent here");
}
