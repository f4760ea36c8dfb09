//! Full-text search over HTTP.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::fixture::{Fixture, TIMEOUT, TestServer};
use crate::transcripts::{ID, OUTSIDE, write_transcript};

/// Searches until there is a result.
async fn find(server: &TestServer, query: &str) -> Value {
    let search = async {
        loop {
            let page = server.get(&format!("/search?{query}")).await;
            if page["results"].as_array().is_some_and(|it| !it.is_empty()) {
                return page;
            }
            // The index is made in the background, and a client is not told when it is done.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, search).await.expect("a result in time")
}

#[tokio::test]
async fn what_was_said_is_found_and_leads_to_its_place() {
    let fixture = Fixture::new("api text \"the answer is <b>zebra</b>\"").await;
    let outside = tempfile::tempdir().expect("a directory");
    write_transcript(&fixture, fixture.project().as_ref(), ID, 300);
    write_transcript(&fixture, outside.path(), OUTSIDE, 1);
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    server.prompt(&session, "what is a zebra crossing?").await;

    let page = find(&server, "q=the+answer+zeb").await;
    let result = &page["results"][0];
    assert_eq!((&result["session"], &result["transcript"]), (&json!(session), &json!(null)));
    assert_eq!((&result["role"], &result["cwd"]), (&json!("assistant"), &json!(fixture.project())));
    let parts = result["snippet"].as_array().expect("parts");
    let text: String = parts.iter().filter_map(|it| it["text"].as_str()).collect();
    assert_eq!(text, "the answer is <b>zebra</b>", "it is text and not HTML");
    let marked: Vec<_> = parts.iter().filter(|it| it["match"] == true).collect();
    assert_eq!(marked.len(), 3, "{result}");
    let before = result["position"].as_str().expect("a position");
    let items = server.get(&format!("/sessions/{session}/items?before={before}&limit=1")).await;
    assert!(items["items"][0]["html"].as_str().expect("HTML").contains("zebra"), "{items}");
    let prompt = find(&server, "q=zebra+crossing").await;
    assert_eq!(prompt["results"].as_array().map(Vec::len), Some(1), "once: {prompt}");
    assert_eq!(prompt["results"][0]["role"], "user");
    let before = prompt["results"][0]["position"].as_str().expect("a position");
    let items = server.get(&format!("/sessions/{session}/items?before={before}&limit=1")).await;
    assert!(items["items"][0]["html"].as_str().expect("HTML").contains("crossing"), "{items}");

    let page = find(&server, "q=%22answer+77+of%22").await;
    let result = &page["results"][0];
    assert_eq!((&result["session"], &result["transcript"]), (&json!(null), &json!(ID)));
    let before = result["position"].as_str().expect("a position");
    let shown = server.get(&format!("/transcripts/{ID}?before={before}&limit=1")).await;
    let html = shown["page"]["items"][0]["html"].as_str().expect("HTML");
    assert!(html.contains("answer 77 of"), "{html}");
    assert_eq!((&page["indexing"], &page["more"]), (&json!(null), &json!(null)));

    let page = server.get(&format!("/search?q={OUTSIDE}")).await;
    assert_eq!(page["results"], json!([]), "it is outside the roots");
    let page = server.get("/search?q=answer&limit=5").await;
    assert_eq!(page["results"].as_array().map(Vec::len), Some(5));
    let next = server
        .get(&format!(
            "/search?q=answer&limit=5&after={}",
            page["more"].as_str().expect("a cursor")
        ))
        .await;
    assert_ne!(next["results"], page["results"]);
    assert_eq!(server.get("/search?q=answer&cwd=/nowhere").await["results"], json!([]));
    for wrong in ["q=a&limit=0", "q=a&limit=101", "q=a&after=x", "limit=3"] {
        let response = server.ask(Method::GET, &format!("/search?{wrong}"), None).await;
        assert_eq!(response.status(), 400, "{wrong}");
    }
    for odd in ["%22", "*", "NEAR(a%20b)", "-a", "a%3Ab", "%00", ""] {
        server.get(&format!("/search?q={odd}")).await;
    }
    assert_eq!(
        server.ask(Method::DELETE, &format!("/sessions/{session}"), None).await.status(),
        204
    );
    assert_eq!(server.get("/search?q=zebra").await["results"], json!([]), "at once");
}
