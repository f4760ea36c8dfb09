//! Which process is killed, when, and what must hold afterwards.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use journal::{Entry, Seq, SessionId};
use serde::{Deserialize, Serialize};
use session::{RequestAnswer, Session, SessionOptions};
use wire::note::{ExitCause, Note, PromptState, TurnEnding};
use wire::outgoing::PermissionMode;

use crate::fixture::{
    DrivingFixture, JournalReader, TIMEOUT, TestSetup, agent_line, ann, format_entries,
    is_turn_over, note, notes, prompt, wait_until,
};
use crate::silent_shims::recorded_process;

/// The process that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KilledProcess {
    Agent,
    Shim,
    Towpath,
}

/// When it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KillPoint {
    /// While the answer of the model streams in.
    Streaming,
    /// While a command runs.
    InTool,
    /// While a request waits for an answer.
    Asking,
    /// Between two turns.
    Idle,
}

impl KillPoint {
    /// The answers of the model before and after the kill.
    pub(crate) fn replies(self) -> &'static str {
        match self {
            Self::Streaming => {
                "api text \"one two three four\" hold gate after 2\napi text \"Afterwards.\""
            }
            Self::InTool => {
                "api tool Bash {\"command\":\"touch begun; until test -e gate; do true; done\",\"description\":\"wait\"}\n\
                 api text \"Afterwards.\""
            }
            Self::Asking => {
                "api tool Bash {\"command\":\"touch begun\",\"description\":\"touch\"}\n\
                 api text \"Afterwards.\""
            }
            Self::Idle => "api text \"Afterwards.\"",
        }
    }

    /// The permission mode of the session.
    fn mode(self) -> PermissionMode {
        match self {
            Self::InTool => PermissionMode::BypassPermissions,
            Self::Streaming | Self::Asking | Self::Idle => PermissionMode::Default,
        }
    }

    /// Waits until the point is reached.
    pub(crate) async fn comes(self, setup: &TestSetup, session: &Session) {
        let mut reader = JournalReader::new(session, Seq::default());
        match self {
            Self::Streaming => drop(reader.until(agent_line("text_delta")).await),
            Self::InTool => {
                wait_until("the command begins", || setup.project().join("begun").exists()).await;
            }
            Self::Asking => drop(reader.until(is_request).await),
            Self::Idle => drop(reader.until(is_turn_over).await),
        }
    }

    /// Lets the turn continue, if it still can.
    pub(crate) async fn passes(self, fixture: &DrivingFixture, session: &Session) {
        match self {
            Self::Streaming => fixture.api.open("gate"),
            Self::InTool => std::fs::write(fixture.project().join("gate"), "").expect("a gate"),
            Self::Asking => {
                let journal = &session.journal();
                let open = journal.open_requests(Some(session.id())).await.expect("a journal");
                for (_, request) in open {
                    let allow = RequestAnswer::Allow { input: None, remember: None, mode: None };
                    session.answer(&request.id, allow, ann()).await.expect("an answer");
                }
            }
            Self::Idle => {}
        }
    }
}

/// What the other process needs, which is the Towpath that is killed.
#[derive(Serialize, Deserialize)]
struct KillPlan {
    setup: TestSetup,
    point: KillPoint,
    session: SessionId,
}

const PLAN_VARIABLE: &str = "TOWPATH_TEST_KILL";

/// Kills a process at some point of a conversation, and checks what must hold afterwards.
pub(crate) async fn check(agent: Vec<OsString>, killed: KilledProcess, point: KillPoint) {
    let case = format!("{killed:?} killed, {point:?}");
    let mut fixture = DrivingFixture::new(agent, point.replies()).await;
    if killed == KilledProcess::Towpath {
        // Long enough for the next Towpath to attach.
        fixture.setup.idle = Duration::from_mins(1);
    }
    let (id, before) = match killed {
        KilledProcess::Towpath => towpath_killed(&fixture, point).await,
        KilledProcess::Agent | KilledProcess::Shim => {
            let towpath = fixture.towpath();
            let session = begin(&fixture.setup, &towpath.sessions, point, None).await;
            point.comes(&fixture.setup, &session).await;
            let mut reader = JournalReader::new(&session, Seq::default());
            kill(&fixture.setup, session.id(), killed);
            let before =
                reader.until(|entry| matches!(note(entry), Some(Note::AgentExited { .. }))).await;
            let id = session.id();
            session.release().await;
            (id, before)
        }
    };
    let towpath = fixture.towpath();
    let session = towpath.sessions.open(id).await.unwrap_or_else(|error| panic!("{case}: {error}"));
    let last = before.last().map(|entry| entry.seq).unwrap_or_default();
    let mut reader = JournalReader::new(&session, last);
    let mut after = Vec::new();
    if killed == KilledProcess::Towpath && point != KillPoint::Idle {
        point.passes(&fixture, &session).await;
        after.extend(reader.until(is_turn_over).await);
    }
    let more = prompt("And now?");
    session.prompt(more.clone()).await.expect("a queued prompt");
    let done = Note::PromptStateChanged { prompt: more.id, state: PromptState::Done };
    after.extend(reader.until(|entry| note(entry).as_ref() == Some(&done)).await);
    after.extend(reader.until(is_turn_over).await);

    // A follower saw exactly the journal: nothing was lost or repeated.
    let journal = towpath.journal_of(id).await;
    let seen: Vec<Seq> = before.iter().chain(&after).map(|entry| entry.seq).collect();
    // The deltas of an ended turn are compacted.
    let settled = point == KillPoint::Idle;
    let follows = |one: &Seq, two: &Seq| one.0 + 1 == two.0 || settled && one < two;
    assert!(seen.is_sorted_by(follows), "{case}: {seen:?}");
    let all = notes(&[before, after].concat());
    let endings: Vec<_> = all.iter().filter_map(ending).collect();
    let cut = matches!(endings[..], [(1, TurnEnding::Aborted { .. }), (2, TurnEnding::Completed)]);
    let whole = matches!(endings[..], [(1, TurnEnding::Completed), (2, TurnEnding::Completed)]);
    let as_expected =
        if killed == KilledProcess::Towpath || point == KillPoint::Idle { whole } else { cut };
    assert!(as_expected, "{case}: {endings:?}\n{}", format_entries(&journal));
    for (sort, id) in all.iter().filter_map(final_state) {
        let times = all.iter().filter_map(final_state).filter(|(_, other)| *other == id).count();
        assert_eq!(times, 1, "{case}: {sort} {id}");
    }
    // The model received each prompt once.
    let asked = fixture.model_requests();
    let last = asked.last().expect("a request");
    for words in ["Are you there?", "And now?"] {
        assert!(last.matches(words).count() <= 1, "{case}: {last}");
    }
    assert_eq!(last.matches("And now?").count(), 1, "{case}: {last}");
    if killed == KilledProcess::Towpath {
        let expected = if matches!(point, KillPoint::InTool | KillPoint::Asking) { 3 } else { 2 };
        assert_eq!(asked.len(), expected, "{case}");
        assert_eq!(last.matches("Are you there?").count(), 1, "{case}: {last}");
    }
    session.close().await.expect("a stopped agent");
    let gone =
        |entry: &Entry| matches!(note(entry), Some(Note::AgentExited { cause: ExitCause::Closed }));
    reader.until(gone).await;
    session.release().await;
    wait_until(&format!("{case}: nothing is left"), || fixture.setup.processes().is_empty()).await;
}

pub(crate) async fn begin(
    setup: &TestSetup,
    sessions: &session::Sessions,
    point: KillPoint,
    id: Option<SessionId>,
) -> Session {
    let options = SessionOptions {
        directory: setup.project(),
        permission_mode: Some(point.mode()),
        ..SessionOptions::default()
    };
    let spec = session::SessionSpec { id, options, ..session::SessionSpec::default() };
    let session = sessions.create(spec).await.expect("a session");
    session.prompt(prompt("Are you there?")).await.expect("a queued prompt");
    session
}

/// Lets another process drive the session up to the point, and kills it there.
#[expect(clippy::disallowed_methods, reason = "the test starts itself once more")]
async fn towpath_killed(fixture: &DrivingFixture, point: KillPoint) -> (SessionId, Vec<Entry>) {
    let session = SessionId(uuid::Uuid::new_v4());
    let part = KillPlan { setup: fixture.setup.clone(), point, session };
    let part = serde_json::to_string(&part).expect("a part");
    let itself = std::env::current_exe().expect("this program");
    let mut child = Command::new(itself)
        .args(["--exact", "the_towpath_that_is_killed", "--ignored", "--nocapture"])
        .env(PLAN_VARIABLE, part)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program once more");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let reached = tokio::task::spawn_blocking(move || {
        lines.any(|line| line.is_ok_and(|line| line.contains("REACHED")))
    });
    let reached = tokio::time::timeout(TIMEOUT, reached).await;
    assert!(reached.is_ok_and(|it| it.unwrap_or(false)), "the point did not come");
    child.kill().expect("a kill");
    child.wait().expect("a stopped agent");
    let opening = fixture.towpath();
    (session, opening.journal_of(session).await)
}

/// The other process: drives the session up to the point and waits to be killed.
pub(crate) async fn run_until_killed() {
    #[expect(clippy::disallowed_methods, reason = "set by the test that starts this process")]
    let part = std::env::var(PLAN_VARIABLE).expect("only another test starts this one");
    let KillPlan { setup, point, session } = serde_json::from_str(&part).expect("a part");
    let towpath = setup.towpath();
    let session = begin(&setup, &towpath.sessions, point, Some(session)).await;
    point.comes(&setup, &session).await;
    println!("REACHED");
    std::future::pending::<()>().await;
}

pub(crate) fn kill(setup: &TestSetup, session: SessionId, killed: KilledProcess) {
    let name = if killed == KilledProcess::Agent { "agent" } else { "shim" };
    let pid = recorded_process(setup, session, name).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("a kill");
}

fn is_request(entry: &Entry) -> bool {
    matches!(note(entry), Some(Note::RequestOpened { .. }))
}

pub(crate) fn ending(note: &Note) -> Option<(u64, TurnEnding)> {
    match note {
        Note::TurnEnded { turn, ending } => Some((*turn, ending.clone())),
        _ => None,
    }
}

pub(crate) fn final_state(note: &Note) -> Option<(&'static str, String)> {
    match note {
        Note::PromptStateChanged { prompt, state } if state.is_final() => {
            Some(("prompt", prompt.to_string()))
        }
        Note::RequestResolved { request, .. } => Some(("request", request.clone())),
        _ => None,
    }
}
