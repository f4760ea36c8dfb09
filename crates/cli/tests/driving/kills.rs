//! Who is killed, when, and what must hold afterwards.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use journal::{Entry, Seq, SessionId};
use serde::{Deserialize, Serialize};
use session::machine::Answer;
use session::{Options, Session};
use wire::note::{Cause, Note, PromptState, TurnEnding};
use wire::say::PermissionMode;

use crate::stage::{
    PATIENCE, Reader, Scene, Stage, ann, is_turn_over, note, notes, prompt, says, shown,
};

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Victim {
    Agent,
    Shim,
    Towpath,
}

/// In the middle of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Moment {
    /// While the model's words come in.
    Streaming,
    /// While a command runs.
    InTool,
    /// While a person is asked.
    Asking,
    /// Between two turns.
    Idle,
}

impl Moment {
    /// What the model answers up to the moment and after it.
    fn replies(self) -> &'static str {
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

    /// What the command may do unasked.
    fn mode(self) -> PermissionMode {
        match self {
            Self::InTool => PermissionMode::BypassPermissions,
            Self::Streaming | Self::Asking | Self::Idle => PermissionMode::Default,
        }
    }

    /// Waits until the moment has come.
    async fn comes(self, scene: &Scene, session: &Session) {
        let mut reader = Reader::new(session, Seq::default());
        match self {
            Self::Streaming => drop(reader.until(says("text_delta")).await),
            Self::InTool => {
                wait_until("the command begins", || scene.project().join("begun").exists()).await;
            }
            Self::Asking => drop(reader.until(is_request).await),
            Self::Idle => drop(reader.until(is_turn_over).await),
        }
    }

    /// Lets the turn go on, where it still can.
    async fn passes(self, stage: &Stage, session: &Session) {
        match self {
            Self::Streaming => stage.api.open("gate"),
            Self::InTool => std::fs::write(stage.project().join("gate"), "").expect("a gate"),
            Self::Asking => {
                let journal = &session.journal();
                let open = journal.open_requests(Some(session.id())).await.expect("a journal");
                for (_, request) in open {
                    let allow = Answer::Allow { input: None, remember: None, mode: None };
                    session.answer(&request.id, allow, ann()).await.expect("an answer");
                }
            }
            Self::Idle => {}
        }
    }
}

/// What another process has to know to be the Towpath that is killed.
#[derive(Serialize, Deserialize)]
struct Part {
    scene: Scene,
    moment: Moment,
    session: SessionId,
}

/// Where the part is told.
const PART: &str = "TOWPATH_TEST_PART";

/// A conversation in which somebody is killed at some moment, and what must hold afterwards.
pub(crate) async fn check(agent: Vec<OsString>, victim: Victim, moment: Moment) {
    let case = format!("{victim:?} killed, {moment:?}");
    let mut stage = Stage::new(agent, moment.replies()).await;
    if victim == Victim::Towpath {
        // Long enough for the next Towpath to come, whatever the moment.
        stage.scene.idle = Duration::from_mins(1);
    }
    let (id, before) = match victim {
        Victim::Towpath => towpath_killed(&stage, moment).await,
        Victim::Agent | Victim::Shim => {
            let towpath = stage.towpath();
            let session = begin(&stage.scene, &towpath.sessions, moment, None).await;
            moment.comes(&stage.scene, &session).await;
            let mut reader = Reader::new(&session, Seq::default());
            kill(&stage.scene, session.id(), victim);
            let before =
                reader.until(|entry| matches!(note(entry), Some(Note::AgentGone { .. }))).await;
            let id = session.id();
            session.leave().await;
            (id, before)
        }
    };
    let towpath = stage.towpath();
    let session = towpath.sessions.open(id).await.unwrap_or_else(|error| panic!("{case}: {error}"));
    let last = before.last().map(|entry| entry.seq).unwrap_or_default();
    let mut reader = Reader::new(&session, last);
    let mut after = Vec::new();
    if victim == Victim::Towpath && moment != Moment::Idle {
        moment.passes(&stage, &session).await;
        after.extend(reader.until(is_turn_over).await);
    }
    let more = prompt("And now?");
    session.prompt(more.clone()).await.expect("a prompt is taken");
    let done = Note::PromptBecame { prompt: more.id, state: PromptState::Done };
    after.extend(reader.until(|entry| note(entry).as_ref() == Some(&done)).await);
    after.extend(reader.until(is_turn_over).await);

    // What a follower saw, before and after, is the journal: nothing lost, nothing doubled.
    let journal = towpath.journal_of(id).await;
    let seen: Vec<Seq> = before.iter().chain(&after).map(|entry| entry.seq).collect();
    // Once a turn is over its deltas go, whoever is killed meanwhile.
    let settled = moment == Moment::Idle;
    let follows = |one: &Seq, two: &Seq| one.0 + 1 == two.0 || settled && one < two;
    assert!(seen.is_sorted_by(follows), "{case}: {seen:?}");
    let all = notes(&[before, after].concat());
    let endings: Vec<_> = all.iter().filter_map(ending).collect();
    let cut = matches!(endings[..], [(1, TurnEnding::Cut { .. }), (2, TurnEnding::Completed)]);
    let whole = matches!(endings[..], [(1, TurnEnding::Completed), (2, TurnEnding::Completed)]);
    let as_expected = if victim == Victim::Towpath || moment == Moment::Idle { whole } else { cut };
    assert!(as_expected, "{case}: {endings:?}\n{}", shown(&journal));
    for (sort, id) in all.iter().filter_map(final_state) {
        let times = all.iter().filter_map(final_state).filter(|(_, other)| *other == id).count();
        assert_eq!(times, 1, "{case}: {sort} {id}");
    }
    // The model was asked each prompt once.
    let asked = stage.asked();
    let last = asked.last().expect("a request");
    for words in ["Are you there?", "And now?"] {
        assert!(last.matches(words).count() <= 1, "{case}: {last}");
    }
    assert_eq!(last.matches("And now?").count(), 1, "{case}: {last}");
    if victim == Victim::Towpath {
        let expected = if matches!(moment, Moment::InTool | Moment::Asking) { 3 } else { 2 };
        assert_eq!(asked.len(), expected, "{case}");
        assert_eq!(last.matches("Are you there?").count(), 1, "{case}: {last}");
    }
    session.close().await.expect("an end");
    let gone =
        |entry: &Entry| matches!(note(entry), Some(Note::AgentGone { cause: Cause::Closed }));
    reader.until(gone).await;
    session.leave().await;
    wait_until(&format!("{case}: nothing is left"), || stage.scene.processes().is_empty()).await;
}

async fn begin(
    scene: &Scene,
    sessions: &session::Sessions,
    moment: Moment,
    id: Option<SessionId>,
) -> Session {
    let options = Options {
        directory: scene.project(),
        permission_mode: Some(moment.mode()),
        ..Options::default()
    };
    let creation = session::Creation { id, options, ..session::Creation::default() };
    let session = sessions.create(creation).await.expect("a session");
    session.prompt(prompt("Are you there?")).await.expect("a prompt is taken");
    session
}

/// Has another process drive the session up to the moment, and kills it there.
#[expect(clippy::disallowed_methods, reason = "the test starts itself once more")]
async fn towpath_killed(stage: &Stage, moment: Moment) -> (SessionId, Vec<Entry>) {
    let session = SessionId(uuid::Uuid::new_v4());
    let part = Part { scene: stage.scene.clone(), moment, session };
    let part = serde_json::to_string(&part).expect("a part");
    let itself = std::env::current_exe().expect("this program");
    let mut child = Command::new(itself)
        .args(["--exact", "the_towpath_that_is_killed", "--ignored", "--nocapture"])
        .env(PART, part)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program once more");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let reached = tokio::task::spawn_blocking(move || {
        lines.any(|line| line.is_ok_and(|line| line.contains("REACHED")))
    });
    let reached = tokio::time::timeout(PATIENCE, reached).await;
    assert!(reached.is_ok_and(|it| it.unwrap_or(false)), "the moment did not come");
    child.kill().expect("a kill");
    child.wait().expect("an end");
    let opening = stage.towpath();
    (session, opening.journal_of(session).await)
}

/// The other process: drives the session up to the moment and waits there to be killed.
pub(crate) async fn be_killed() {
    #[expect(clippy::disallowed_methods, reason = "told by the test that starts this")]
    let part = std::env::var(PART).expect("only another test starts this one");
    let Part { scene, moment, session } = serde_json::from_str(&part).expect("a part");
    let towpath = scene.towpath();
    let session = begin(&scene, &towpath.sessions, moment, Some(session)).await;
    moment.comes(&scene, &session).await;
    println!("REACHED");
    std::future::pending::<()>().await;
}

fn kill(scene: &Scene, session: SessionId, victim: Victim) {
    let register = scene.home().live_directory(session).join("shim.json");
    let register = std::fs::read(register).expect("a shim");
    let register: serde_json::Value = serde_json::from_slice(&register).expect("JSON");
    let name = if victim == Victim::Agent { "agent" } else { "shim" };
    let pid = register[name].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.and_then(rustix::process::Pid::from_raw).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("a kill");
}

fn is_request(entry: &Entry) -> bool {
    matches!(note(entry), Some(Note::RequestOpened { .. }))
}

fn ending(note: &Note) -> Option<(u64, TurnEnding)> {
    match note {
        Note::TurnOver { turn, ending } => Some((*turn, ending.clone())),
        _ => None,
    }
}

fn final_state(note: &Note) -> Option<(&'static str, String)> {
    match note {
        Note::PromptBecame { prompt, state } if state.is_final() => {
            Some(("prompt", prompt.to_string()))
        }
        Note::RequestResolved { request, .. } => Some(("request", request.clone())),
        _ => None,
    }
}

async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "it did not come: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
