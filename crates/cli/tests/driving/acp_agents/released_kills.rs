//! Released agents whose session loses its Towpath, its shim or both, in the middle of a text and while
//! the agent asks.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use journal::{Entry, Origin, SessionId};
use serde::{Deserialize, Serialize};
use session::{RequestAnswer, Session, SessionOptions, SessionSpec};
use test_support::other_agents::OtherAgent;
use wire::acp::{PermissionChoice, PermissionChoiceKind};
use wire::note::{Note, PromptState, TurnEnding};

use super::fixture::{AGENT, methods, request, said, turn_ending};
use super::released::{fixture_with, run};
use crate::fixture::{
    DrivingFixture, JournalReader, TIMEOUT, TestSetup, TowpathInstance, agent_line, ann, notes,
    prompt, wait_until,
};
use crate::kills::{KilledProcess, final_state, kill};

/// What the model replies. Each gate is for one of the texts. The first line that fits counts: some agents send
/// a prompt whose turn was cut off again, in one message with the next one.
const REPLIES: &str = r#"
api for "say hello" always text "Hello from the model"
api for "count for towpath" always text "one two three four five six seven eight" hold towpath after 4
api for "count for shim" always text "one two three four five six seven eight" hold shim after 4
api for "count for both" always text "one two three four five six seven eight" hold both after 4
api for "make towpath" always tool shell {"command":"echo made >> towpath.txt"}
api for "make shim" always tool shell {"command":"echo made >> shim.txt"}
api for "make both" always tool shell {"command":"echo made >> both.txt"}
api text "That is all."
"#;

/// The processes that are killed at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ReleasedVictim {
    Towpath,
    Shim,
    Both,
}

impl ReleasedVictim {
    const ALL: [Self; 3] = [Self::Towpath, Self::Shim, Self::Both];

    fn name(self) -> &'static str {
        match self {
            Self::Towpath => "towpath",
            Self::Shim => "shim",
            Self::Both => "both",
        }
    }
}

/// What the process does that is the Towpath to be killed.
#[derive(Serialize, Deserialize)]
struct ReleasedKillPlan {
    setup: TestSetup,
    session: SessionId,
    victim: ReleasedVictim,
    asks: bool,
}

const PLAN_VARIABLE: &str = "TOWPATH_TEST_RELEASED_KILL";

impl ReleasedKillPlan {
    /// Opens or creates the session, sends a prompt, and waits for the moment of the kill.
    async fn begin(&self, towpath: &TowpathInstance) -> Session {
        let sessions = &towpath.sessions;
        let known = sessions.journal().session(self.session).await.expect("a journal").is_some();
        let session = if known {
            sessions.open(self.session).await.expect("a session to go on with")
        } else {
            let options = SessionOptions {
                directory: self.setup.project(),
                agent: Some(AGENT.to_owned()),
                ..SessionOptions::default()
            };
            let spec = SessionSpec { id: Some(self.session), options, ..SessionSpec::default() };
            sessions.create(spec).await.expect("a session")
        };
        let mut reader = JournalReader::new(&session, towpath.last_seq(self.session).await);
        let what = if self.asks { "make" } else { "count for" };
        let prompt = prompt(&format!("{what} {}", self.victim.name()));
        session.prompt(prompt).await.expect("a queued prompt");
        if self.asks {
            request(&mut reader).await;
        } else {
            reader.until(agent_line("two")).await;
        }
        session
    }

    /// Lets another process come to the moment, which is then killed.
    #[expect(clippy::disallowed_methods, reason = "the test starts itself once more")]
    async fn begin_elsewhere(&self) -> std::process::Child {
        let plan = serde_json::to_string(self).expect("a plan");
        let test = "acp_agents::released_kills::the_towpath_that_is_killed";
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(PLAN_VARIABLE, plan)
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program once more");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let reached = tokio::task::spawn_blocking(move || {
            lines.any(|line| line.is_ok_and(|line| line.contains("REACHED")))
        });
        let reached = tokio::time::timeout(TIMEOUT, reached).await;
        assert!(reached.is_ok_and(|it| it.unwrap_or(false)), "the moment did not come");
        child
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "another test starts it and kills it"]
async fn the_towpath_that_is_killed() {
    #[expect(clippy::disallowed_methods, reason = "set by the test that starts this process")]
    let Ok(plan) = std::env::var(PLAN_VARIABLE) else { return };
    let plan: ReleasedKillPlan = serde_json::from_str(&plan).expect("a plan");
    let towpath = plan.setup.towpath();
    let _session = plan.begin(&towpath).await;
    println!("REACHED");
    std::future::pending::<()>().await;
}

/// What came after the prompt was sent. Before it, an agent that loads its session repeats what was said.
fn since_prompt(entries: &[Entry]) -> &[Entry] {
    let is_prompt = |entry: &Entry| {
        let text = String::from_utf8_lossy(&entry.bytes);
        entry.origin == Origin::Sent && text.contains(r#""method":"session/prompt""#)
    };
    let sent = entries.iter().rposition(is_prompt).expect("a prompt that was sent");
    &entries[sent..]
}

/// Allows the only open request.
async fn allow(session: &Session, case: &str) {
    let open = session.journal().open_requests(Some(session.id())).await.expect("requests");
    assert_eq!(open.len(), 1, "{case}: one request waits");
    let (_, request) = &open[0];
    // A call that is allowed for ever is not asked about again.
    let once = |it: &&PermissionChoice| it.kind == PermissionChoiceKind::AllowOnce;
    let allow = request.choices.iter().find(once).expect("a way to allow it once");
    let answer = RequestAnswer::Choose { choice: allow.id.clone() };
    session.answer(&request.id, answer, ann()).await.expect("an answer");
}

/// Kills processes in the middle of a turn, and checks what the next Towpath makes of it.
async fn check_kill(fixture: &DrivingFixture, id: SessionId, victim: ReleasedVictim, asks: bool) {
    let case = format!("{victim:?} killed, asking: {asks}");
    let plan = ReleasedKillPlan { setup: fixture.setup.clone(), session: id, victim, asks };
    let before = fixture.towpath().last_seq(id).await;
    if victim == ReleasedVictim::Shim {
        let towpath = fixture.towpath();
        let session = plan.begin(&towpath).await;
        kill(&fixture.setup, id, KilledProcess::Shim);
        let mut reader = JournalReader::new(&session, before);
        turn_ending(&mut reader).await;
        session.release().await;
    } else {
        let mut child = plan.begin_elsewhere().await;
        child.kill().expect("a kill");
        if victim == ReleasedVictim::Both {
            kill(&fixture.setup, id, KilledProcess::Shim);
        }
        child.wait().expect("an end");
    }
    let towpath = fixture.towpath();
    let session = towpath.sessions.open(id).await.unwrap_or_else(|error| panic!("{case}: {error}"));
    let file = fixture.project().join(format!("{}.txt", victim.name()));
    let mut reader = JournalReader::new(&session, before);
    if victim == ReleasedVictim::Towpath {
        // The same agent goes on.
        if asks {
            allow(&session, &case).await;
        } else {
            fixture.api.open(victim.name());
        }
        let (ending, seen) = turn_ending(&mut reader).await;
        assert_eq!(ending, TurnEnding::Completed, "{case}");
        if !asks {
            assert_eq!(said(&seen).matches("eight").count(), 1, "{case}: {}", said(&seen));
        }
    } else {
        let (ending, _) = turn_ending(&mut reader).await;
        assert!(matches!(ending, TurnEnding::Aborted { .. }), "{case}: {ending:?}");
        let open = session.journal().open_requests(Some(id)).await.expect("requests");
        assert!(open.is_empty(), "{case}: no one could answer these");
        assert!(!file.exists(), "{case}: nothing was allowed");
        if asks {
            // Who sends the prompt again is asked again, once.
            session.prompt(prompt(&format!("make {}", victim.name()))).await.expect("a prompt");
            request(&mut reader).await;
            allow(&session, &case).await;
            assert_eq!(turn_ending(&mut reader).await.0, TurnEnding::Completed, "{case}");
        }
    }
    if asks {
        let made = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(made, "made\n", "{case}: the command was run once");
    }
    session.prompt(prompt("say hello")).await.expect("a queued prompt");
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed, "{case}");
    let answer = said(since_prompt(&seen));
    assert_eq!(answer.matches("Hello from the model").count(), 1, "{case}: {answer}");
    assert_eq!(towpath.sessions.release().await, []);
}

/// What holds for the journal of a session, whatever was killed.
async fn check_journal(fixture: &DrivingFixture, id: SessionId, name: &str) {
    let towpath = fixture.towpath();
    let all: Vec<Entry> = towpath.journal_of(id).await;
    let notes = notes(&all);
    let count = |fits: fn(&Note) -> bool| notes.iter().filter(|it| fits(it)).count();
    let started = count(|it| matches!(it, Note::TurnStarted { .. }));
    assert_eq!(started, count(|it| matches!(it, Note::TurnEnded { .. })), "{name}: turns");
    let opened = count(|it| matches!(it, Note::RequestOpened { .. }));
    assert_eq!(opened, count(|it| matches!(it, Note::RequestResolved { .. })), "{name}: requests");
    let finals: Vec<_> = notes.iter().filter_map(final_state).collect();
    for state in &finals {
        assert_eq!(finals.iter().filter(|it| *it == state).count(), 1, "{name}: {state:?}");
    }
    let prompts = towpath.sessions.journal().prompts(id).await.expect("prompts");
    let sent = methods(&all).iter().filter(|it| *it == "session/prompt").count();
    assert_eq!(sent, prompts.len(), "{name}: each prompt was sent once");
    let is_over = |it: PromptState| matches!(it, PromptState::Done | PromptState::Indeterminate);
    assert!(prompts.iter().all(|it| is_over(it.state)), "{name}: {prompts:?}");
    let session = towpath.sessions.open(id).await.expect("a session");
    session.close().await.expect("a stopped agent");
    assert_eq!(towpath.sessions.release().await, []);
    wait_until("nothing is left", || fixture.setup.processes().is_empty()).await;
}

async fn survives_kills(agent: OtherAgent) {
    let mut fixture = fixture_with(agent, REPLIES).await;
    // Long enough for the next Towpath to attach.
    fixture.setup.idle = Duration::from_mins(3);
    let id = SessionId(uuid::Uuid::new_v4());
    for asks in [false, true] {
        for victim in ReleasedVictim::ALL {
            check_kill(&fixture, id, victim, asks).await;
        }
    }
    check_journal(&fixture, id, agent.name()).await;
}

#[test]
fn claude_agent_acp_goes_on_after_its_towpath_or_shim_was_killed() {
    run(OtherAgent::Claude, "released_kills::claude_agent_acp");
}

#[test]
fn codex_goes_on_after_its_towpath_or_shim_was_killed() {
    run(OtherAgent::Codex, "released_kills::codex");
}

#[test]
fn opencode_goes_on_after_its_towpath_or_shim_was_killed() {
    run(OtherAgent::Opencode, "released_kills::opencode");
}

#[test]
fn gemini_goes_on_after_its_towpath_or_shim_was_killed() {
    run(OtherAgent::Gemini, "released_kills::gemini");
}

#[test]
fn copilot_goes_on_after_its_towpath_or_shim_was_killed() {
    run(OtherAgent::Copilot, "released_kills::copilot");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it without a network"]
async fn claude_agent_acp() {
    survives_kills(OtherAgent::Claude).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it without a network"]
async fn codex() {
    survives_kills(OtherAgent::Codex).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it without a network"]
async fn opencode() {
    survives_kills(OtherAgent::Opencode).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it without a network"]
async fn gemini() {
    survives_kills(OtherAgent::Gemini).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it without a network"]
async fn copilot() {
    survives_kills(OtherAgent::Copilot).await;
}
