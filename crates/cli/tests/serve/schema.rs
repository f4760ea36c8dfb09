//! Tests the server against its OpenAPI document with `schemathesis`: no response may be a server error
//! or one that the document lacks.
//!
//! It is installed under `target/` on first use. Without Python or a way to install, the test says
//! that it was skipped; where `CI` is `true` that is a failure.

use std::path::{Path, PathBuf};

use test_support::packages;

use crate::fixture::Fixture;

const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// Streams do not end, and a session that is deleted leaves nothing to try.
const LEFT_OUT: &str = "/(events|follow|sign-out)$";

#[tokio::test]
async fn every_response_is_documented() {
    let Some(program) = packages::or_skip(schemathesis()) else { return };
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    server.prompt(&session, "say hi").await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0 && page.is_idle() && page.contains("hi")).await;
    // Existing ids are passed in a file, so that not every response is 404.
    let token = &server.token;
    let settings = format!(
        "[parameters]\n\"path.id\" = \"{session}\"\n\n[auth.openapi.token]\nbearer = \"{token}\"\n"
    );
    let file = fixture.path("schemathesis.toml");
    std::fs::write(&file, settings).expect("a file");
    let mut command = tokio::process::Command::new(program);
    command
        .arg("--config-file")
        .arg(file)
        .arg("run")
        .arg(format!("{}/api/v1/openapi.json", server.url));
    command.args(["-H", &format!("Authorization: Bearer {}", server.token)]);
    command.args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"]);
    command.args(["--exclude-path-regex", LEFT_OUT, "--exclude-method", "DELETE"]);
    command.args([
        "--max-examples",
        "20",
        "--seed",
        "7",
        "--phases",
        "examples,coverage,fuzzing",
        "--request-timeout",
        "30",
    ]);
    command.current_dir(fixture.path("tmp"));
    for variable in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"] {
        command.env_remove(variable);
    }
    let output = command.output().await.expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    // Answers that only say no prove nothing.
    let got_in = !text.contains("Rate limited") && !text.contains("Authentication failed");
    assert!(
        output.status.success() && got_in,
        "{text}\n{}\n{}",
        String::from_utf8_lossy(&output.stderr),
        fixture.log()
    );
}

/// The program, installed if need be.
fn schemathesis() -> Result<PathBuf, String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schemathesis");
    Ok(packages::python(&place, &[SCHEMATHESIS])?.join("schemathesis"))
}
