//! Towpath is killed at any time, again and again, with the same session.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use journal::{Seq, SessionId};
use serde::{Deserialize, Serialize};
use session::{SessionOptions, SessionSpec};
use uuid::Uuid;
use wire::note::PromptState;

use crate::fixture::{
    DrivingFixture, JournalReader, TIMEOUT, TestSetup, format_entries, is_turn_over, prompt,
};

/// How often Towpath is killed.
const ROUNDS: u128 = 12;
/// How many prompts each round sends if Towpath is not killed before.
const PROMPTS: u128 = 6;

const PLAN_VARIABLE: &str = "TOWPATH_TEST_ROUND";

#[derive(Serialize, Deserialize)]
struct Round {
    setup: TestSetup,
    session: SessionId,
    number: u128,
}

impl Round {
    /// The prompts of the round, with unique ids and texts.
    fn prompts(&self) -> impl Iterator<Item = session::NewPrompt> {
        let first = self.number * PROMPTS;
        (first..first + PROMPTS).map(|number| session::NewPrompt {
            id: Uuid::from_u128(number + 1),
            ..prompt(&format!("prompt number {number}."))
        })
    }
}

/// Kills Towpath a little later each round, then checks that everything it acknowledged happened
/// exactly once, in order.
#[expect(clippy::disallowed_methods, reason = "the test starts itself once more")]
pub(crate) async fn check() {
    let mut fixture =
        DrivingFixture::with_player("api text \"an answer of some words\" slow 2").await;
    fixture.setup.idle = Duration::from_mins(1);
    let session = SessionId(Uuid::new_v4());
    let spec = SessionSpec {
        id: Some(session),
        options: SessionOptions { directory: fixture.project(), ..SessionOptions::default() },
        ..SessionSpec::default()
    };
    let towpath = fixture.towpath();
    towpath.sessions.create(spec).await.expect("a session").release().await;
    let mut acknowledged = Vec::new();
    for number in 0..ROUNDS {
        let round = Round { setup: fixture.setup.clone(), session, number };
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "the_towpath_that_is_killed_at_any_time", "--ignored", "--nocapture"])
            .env(PLAN_VARIABLE, serde_json::to_string(&round).expect("a round"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program once more");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let reading = std::thread::spawn(move || {
            let taken = |line: String| line.strip_prefix("QUEUED ")?.parse::<Uuid>().ok();
            lines.map_while(Result::ok).filter_map(taken).collect::<Vec<_>>()
        });
        tokio::time::sleep(Duration::from_millis(40 + 31 * u64::try_from(number).unwrap_or(0)))
            .await;
        child.kill().expect("a kill");
        child.wait().expect("a stopped agent");
        acknowledged.extend(reading.join().expect("what was acknowledged"));
    }
    assert!(!acknowledged.is_empty(), "it was always killed before it did anything");

    let session = towpath.sessions.open(session).await.expect("a session");
    let last = prompt("the last prompt.");
    session.prompt(last.clone()).await.expect("a queued prompt");
    let journal = towpath.sessions.journal();
    let settled = async {
        let mut reader = JournalReader::new(&session, Seq::default());
        while !journal.open_prompts(session.id()).await.expect("prompts").is_empty() {
            reader.until(is_turn_over).await;
        }
    };
    let came = tokio::time::timeout(TIMEOUT, settled).await.is_ok();
    let entries = towpath.journal_of(session.id()).await;
    assert!(came, "it does not settle:\n{}", format_entries(&entries));
    let prompts = journal.prompts(session.id()).await.expect("prompts");
    for id in acknowledged {
        assert!(prompts.iter().any(|it| it.id == id), "{id} was acknowledged and forgotten");
    }
    for prompt in &prompts {
        assert_eq!(
            prompt.state,
            PromptState::Done,
            "{}\n{}",
            prompt.text,
            format_entries(&entries)
        );
    }
    // The model received each prompt once, in the order of the queue.
    let asked = fixture.model_requests();
    assert_eq!(asked.len(), prompts.len());
    let history = asked.last().expect("a request");
    let mut at = 0;
    for prompt in &prompts {
        assert_eq!(history.matches(&prompt.text).count(), 1, "{}", prompt.text);
        let place = history.find(&prompt.text).expect("it is there");
        assert!(place >= at, "{} came too early", prompt.text);
        at = place;
    }
    session.close().await.expect("a stopped agent");
    session.release().await;
}

/// The other process: queues prompts until it is killed.
pub(crate) async fn run_until_killed() {
    #[expect(clippy::disallowed_methods, reason = "set by the test that starts this process")]
    let round = std::env::var(PLAN_VARIABLE).expect("only another test starts this one");
    let round: Round = serde_json::from_str(&round).expect("a round");
    let towpath = round.setup.towpath();
    let session = towpath.sessions.open(round.session).await.expect("a session to take over");
    for prompt in round.prompts() {
        let id = prompt.id;
        session.prompt(prompt).await.expect("a queued prompt");
        println!("QUEUED {id}");
    }
    std::future::pending::<()>().await;
}
