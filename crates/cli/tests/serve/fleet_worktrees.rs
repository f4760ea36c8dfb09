//! New working trees for sessions of workers: made where the session is, removed with it, never with anything
//! that is only there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fixture::{Fixture, TestServer};
use crate::fleet_environment::FleetEnvironment;

/// The branches that were made for sessions, and the number of working trees.
fn worktrees(top: &Path) -> (Vec<String>, usize) {
    let branches = git(top, &["for-each-ref", "--format=%(refname:short)", "refs/heads/towpath"]);
    let list = git(top, &["worktree", "list", "--porcelain"]);
    let count = list.lines().filter(|it| it.starts_with("worktree ")).count();
    (branches.lines().map(str::to_owned).collect(), count)
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").args(arguments).current_dir(directory).output();
    let output = output.expect("git runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl TestServer {
    async fn delete_with(&self, session: &str, worktree: &str) -> (u16, Value) {
        let url = format!("{}/api/v1/sessions/{session}?worktree={worktree}", self.url);
        let request = self.http.request(Method::DELETE, url).bearer_auth(&self.token);
        let response = request.send().await.expect("an answer");
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_worker_gets_a_working_tree_that_goes_with_it_unless_something_would_be_lost()
 {
    let fixture = Fixture::new("api text \"hi\"").await;
    let top = fixture.path("project").canonicalize().expect("a project");
    git(&top, &["init", "-q", "-b", "main"]);
    git(&top, &["config", "user.name", "Ada"]);
    git(&top, &["config", "user.email", "ada@example.org"]);
    fs::create_dir(top.join("shop")).expect("a directory");
    fs::write(top.join("shop/cart.ts"), "one\n").expect("written");
    git(&top, &["add", "."]);
    git(&top, &["commit", "-qm", "First"]);
    let plain = fixture.path("plain");
    fs::create_dir(&plain).expect("a directory");
    let plain = plain.canonicalize().expect("a directory");
    let workers = [("w1", top.as_path()), ("w2", plain.as_path())];
    let Some(fleet) = FleetEnvironment::start(&fixture, &workers).await else { return };
    let arguments = fleet.gateway_arguments("g1");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let server = fixture.start(fixture.command(&arguments)).await;

    // A repeated request makes neither a second session nor a second working tree.
    let id = Uuid::new_v4().to_string();
    let new =
        json!({ "id": id, "cwd": top.join("shop"), "title": "Fix the cart", "worktree": true });
    let (status, made) = server.post("/sessions", new.clone()).await;
    assert_eq!(status, 201, "{made}");
    let (status, again) = server.post("/sessions", new).await;
    assert_eq!((status, &again["id"]), (200, &json!(id)), "{again}");
    assert_eq!(worktrees(&top), (vec!["towpath/fix-the-cart".to_owned()], 2));
    let session = server.get(&format!("/sessions/{id}")).await;
    let directory = PathBuf::from(session["cwd"].as_str().expect("a directory"));
    assert!(directory.ends_with("fix-the-cart/shop"), "{session}");
    assert_eq!(fs::read_to_string(directory.join("cart.ts")).expect("a file"), "one\n");
    let mut page = server.follow(&format!("/sessions/{id}/follow")).await;
    server.prompt(&id, "hello").await;
    page.until(|it| it.snapshots > 0 && it.contains("hi") && it.is_idle()).await;

    // What is only there is counted, and not removed by accident.
    fs::write(directory.join("new.ts"), "two\n").expect("written");
    let shown = server.get(&format!("/sessions/{id}/worktree")).await;
    let shown = &shown["worktree"];
    assert_eq!(
        (&shown["branch"], &shown["files"], &shown["commits"]),
        (&json!("towpath/fix-the-cart"), &json!(1), &json!(0)),
        "{shown}"
    );
    let (status, refused) = server.delete_with(&id, "remove").await;
    assert_eq!(status, 409, "{refused}");
    assert!(refused["detail"].as_str().is_some_and(|it| it.contains("1 files")), "{refused}");
    assert_eq!(server.get(&format!("/sessions/{id}")).await["title"], "Fix the cart");
    let (status, deleted) = server.delete_with(&id, "discard").await;
    assert_eq!(status, 204, "{deleted}");
    assert_eq!(worktrees(&top), (Vec::new(), 1));
    assert!(!directory.exists());

    // Where no working tree can be made, there is no session either.
    let new = json!({ "cwd": plain, "worktree": true });
    let (status, refused) = server.post("/sessions", new).await;
    assert_eq!(status, 409, "{refused}");
    assert!(refused["detail"].as_str().is_some_and(|it| it.contains("git")), "{refused}");
    let listed = server.get("/sessions").await;
    assert_eq!(listed["sessions"], json!([]), "{listed}");
    let ordinary = server.session(&fixture).await;
    let (status, refused) = server.delete_with(&ordinary, "remove").await;
    assert_eq!(status, 409, "{refused}");
    assert_eq!(server.delete_with(&ordinary, "keep").await.0, 204);
}
