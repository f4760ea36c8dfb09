//! A CLI that is newer than Towpath has been proven with.

use crate::fixture::Fixture;

#[tokio::test]
async fn a_session_says_that_its_cli_is_newer_than_towpath_has_been_proven_with() {
    let fixture = Fixture::new("api text \"hi\"").await;
    // The player prints lines of unknown kinds, and pretends to be a version of the far future.
    fixture.set_agent(&format!(
        "#!/bin/sh\nTOWPATH_PLAY_FAULT=unknown-event '{}' play \"$@\" | \
         sed -u 's/\"claude_code_version\":\"2.1.325\"/\"claude_code_version\":\"999.1.0\"/'\n",
        env!("CARGO_BIN_EXE_towpath")
    ));
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    server.prompt(&session, "hello").await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.contains("newer than Towpath has been proven with")).await;
    client.until(|page| page.contains("system/wobbled") && page.contains("wibble")).await;
    let log = std::fs::read_to_string(fixture.path("data/logs/serve.log")).expect("a log");
    assert_eq!(log.matches("Claude Code 999.1.0: this CLI is newer").count(), 1, "{log}");
    assert!(log.contains("not known are `system/wobbled`, `wibble`"), "{log}");
}
