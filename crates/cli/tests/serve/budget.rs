//! Budgets of sessions and of the day: prompts wait until someone allows more.

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fixture::{Fixture, TestServer};

/// Less than any turn of the built-in agent costs.
const LITTLE: &str = "0.000001";

async fn kill(server: &mut TestServer) {
    let pid = server.child.id().and_then(|it| Pid::from_raw(it.cast_signed())).expect("it runs");
    kill_process(pid, Signal::KILL).expect("it can be killed");
    server.child.wait().await.expect("an end");
}

async fn listed(server: &TestServer, session: &str) -> Value {
    server.get(&format!("/sessions/{session}")).await
}

#[tokio::test]
async fn a_spent_budget_asks_and_a_killed_server_does_not_forget_it() {
    let fixture =
        Fixture::new("api text \"the first answer\"\napi text \"the second answer\"").await;
    let mut server = fixture.serve().await;
    for budget in [json!(0), json!(-5), json!("5"), json!(1e300), json!([5])] {
        let body = json!({ "cwd": fixture.project(), "budget_usd": budget });
        assert_eq!(server.post("/sessions", body).await.0, 400, "{budget}");
    }
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}");
    let mut client = server.follow(&format!("{path}/follow")).await;
    server.prompt(&session, "the first").await;
    client
        .until(|page| page.snapshots > 0 && page.is_idle() && page.contains("the first answer"))
        .await;
    // It counts what was spent before there was a budget.
    let options = json!({ "options": { "budget_usd": 0.000_001 } });
    let changed = server.ask(Method::PATCH, &path, Some(options)).await;
    assert!(changed.status().is_success(), "{changed:?}");
    server.prompt(&session, "the second").await;
    client.until(|page| page.parts["status"]["queue_held"] == true).await;
    let budget = client.page.parts["status"]["budget"].clone();
    let question = budget["question"].as_str().expect("a question");
    assert!(question.starts_with('$') && question.ends_with(" spent. Go on?"), "{question}");
    assert!(budget["spent"].as_f64() > budget["limit"].as_f64(), "{budget}");
    let row = listed(&server, &session).await;
    assert_eq!((&row["budget_question"], &row["tier"]), (&budget["question"], &json!("needs_you")));

    kill(&mut server).await;
    let server = fixture.serve().await;
    let mut client = server.follow(&format!("{path}/follow")).await;
    client.until(|page| page.snapshots > 0).await;
    assert_eq!(client.page.parts["status"]["budget"], budget);
    assert_eq!(client.page.parts["queue"][0]["text"], "the second");
    // Neither another prompt nor an answer to another question allows more.
    server.prompt(&session, "the third").await;
    for limit in ["7", "NaN", "inf", "-1"] {
        let resume = format!("{path}/queue/resume?limit={limit}");
        assert_eq!(server.post(&resume, json!({})).await.0, 204, "{limit}");
    }
    assert_eq!(server.post(&format!("{path}/queue/resume?limit=x"), json!({})).await.0, 400);
    assert_eq!(listed(&server, &session).await["budget_question"], budget["question"]);
    let resume = format!("{path}/queue/resume?limit={}", budget["limit"]);
    for _ in 0..2 {
        assert_eq!(server.post(&resume, json!({})).await.0, 204);
    }
    let asks_again = |limit: &Value| limit.as_f64() > budget["limit"].as_f64();
    client
        .until(|page| {
            page.contains("the second answer")
                && asks_again(&page.parts["status"]["budget"]["limit"])
        })
        .await;
    assert_eq!(client.page.parts["queue"][0]["text"], "the third");
    assert!(client.page.contains("more"), "it says who allowed how much");
}

#[tokio::test]
async fn the_budget_of_a_day_counts_all_sessions_even_deleted_ones() {
    let fixture =
        Fixture::new("api text \"the first answer\"\napi text \"the second answer\"").await;
    let mut server = fixture.serve_with(&["--budget-per-day", LITTLE]).await;
    let first = server.session(&fixture).await;
    let mut client = server.follow(&format!("/sessions/{first}/follow")).await;
    server.prompt(&first, "the first").await;
    client
        .until(|page| page.snapshots > 0 && page.is_idle() && page.contains("the first answer"))
        .await;
    let usage = server.get("/usage").await;
    assert!(usage["today"].as_f64() > usage["budget_per_day"].as_f64(), "{usage}");
    let deleted = server.ask(Method::DELETE, &format!("/sessions/{first}"), None).await;
    assert!(deleted.status().is_success(), "{deleted:?}");
    kill(&mut server).await;
    let server = fixture.serve_with(&["--budget-per-day", LITTLE]).await;
    let second = server.session(&fixture).await;
    let mut client = server.follow(&format!("/sessions/{second}/follow")).await;
    server.prompt(&second, "the second").await;
    client
        .until(|page| page.snapshots > 0 && page.parts["status"]["budget"]["of_day"] == true)
        .await;
    let question = client.page.parts["status"]["budget"]["question"].clone();
    assert!(question.as_str().is_some_and(|it| it.contains("of the day's $")), "{question}");
    assert_eq!(server.post(&format!("/sessions/{second}/queue/resume"), json!({})).await.0, 204);
    client.until(|page| page.is_idle() && page.contains("the second answer")).await;
}

#[tokio::test]
async fn a_day_budget_that_is_no_amount_is_refused() {
    let fixture = Fixture::new("").await;
    for amount in ["0", "-1", "NaN", "inf", "1e300", "much", ""] {
        let flag = format!("--budget-per-day={amount}");
        let output = fixture.command(&[&flag, "--listen", "127.0.0.1:0"]).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{amount}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("expected an amount above 0"), "{text}");
    }
}
