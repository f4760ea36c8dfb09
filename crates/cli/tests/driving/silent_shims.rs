//! Sessions whose shim does not answer or whose files are damaged, beside others.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use journal::{Seq, SessionId};
use rustix::process::{Pid, Signal, kill_process};
use session::shim::ShimConnection;
use session::{OpenError, Session};
use tokio::sync::watch;
use wire::note::{Note, TurnEnding};

use crate::fixture::{
    DrivingFixture, JournalReader, TIMEOUT, TestSetup, TowpathInstance, agent_line, format_entries,
    is_turn_over, note, notes, prompt, suspend, wait_until,
};

/// Well below the time that a shim may take to answer.
const AT_ONCE: Duration = Duration::from_secs(8);

/// The process id in a session's `shim.json`.
pub(crate) fn recorded_process(setup: &TestSetup, session: SessionId, name: &str) -> Option<Pid> {
    let record = std::fs::read(setup.config().live_directory(session).join("shim.json")).ok()?;
    let record: serde_json::Value = serde_json::from_slice(&record).ok()?;
    Pid::from_raw(i32::try_from(record[name].as_i64()?).ok()?)
}

fn signal_shim(fixture: &DrivingFixture, session: SessionId, signal: Signal) {
    kill_process(shim_of(fixture, session), signal).expect("a signal");
}

async fn suspend_shim(fixture: &DrivingFixture, session: SessionId) {
    suspend(shim_of(fixture, session)).await;
}

fn shim_of(fixture: &DrivingFixture, session: SessionId) -> Pid {
    recorded_process(&fixture.setup, session, "shim").expect("a shim")
}

/// Sessions in the middle of their first turn, which no Towpath drives.
async fn begun_sessions(fixture: &DrivingFixture, count: usize) -> Vec<(SessionId, Seq)> {
    let towpath = fixture.towpath();
    let mut begun = Vec::new();
    for _ in 0..count {
        let session = towpath.create(fixture).await;
        session.prompt(prompt("go")).await.expect("a queued prompt");
        begun.push(session);
    }
    let mut sessions = Vec::new();
    for session in begun {
        let mut reader = JournalReader::new(&session, Seq::default());
        let seen = reader.until(agent_line("text_delta")).await;
        sessions.push((session.id(), seen.last().expect("an entry").seq));
    }
    assert_eq!(towpath.sessions.release().await, []);
    sessions
}

/// Waits for the end of the first turn, which must be complete.
async fn check_first_turn(towpath: &TowpathInstance, session: &Session, after: Seq) {
    let seen = JournalReader::new(session, after).until(is_turn_over).await;
    let over = Note::TurnEnded { turn: 1, ending: TurnEnding::Completed };
    assert!(notes(&seen).contains(&over), "{}", format_entries(&seen));
    let journal = towpath.journal_of(session.id()).await;
    let results = journal.iter().filter(|entry| agent_line(r#""type":"result""#)(entry)).count();
    assert_eq!(results, 1, "{}", format_entries(&journal));
    assert!(journal.iter().any(|entry| agent_line("one two three four")(entry)));
}

/// Three of five shims are stopped while Towpath is restarted.
pub(crate) async fn check_stopped_shims() {
    let mut fixture =
        DrivingFixture::with_player("api text \"one two three four\" hold gate after 2").await;
    fixture.setup.idle = Duration::from_mins(5);
    let sessions = begun_sessions(&fixture, 5).await;
    let (silent, answering) = sessions.split_at(3);
    for (id, _) in silent {
        suspend_shim(&fixture, *id).await;
    }

    let towpath = fixture.towpath();
    let start = Instant::now();
    let failed = towpath.sessions.recover().await.expect("a journal");
    for (id, _) in answering {
        towpath.sessions.open(*id).await.expect("a session");
        assert_eq!(towpath.sessions.problem(*id), None);
    }
    let new = towpath.create(&fixture).await;
    new.prompt(prompt("go")).await.expect("a queued prompt");
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    assert!(failed.is_empty(), "{failed:?}");
    for (id, _) in silent {
        let problem = || towpath.sessions.problem(*id);
        wait_until("the problem is shown", || problem().is_some()).await;
        assert!(problem().is_some_and(|text| text.contains("does not answer")), "{:?}", problem());
        let start = Instant::now();
        // Either the session is refused, or it is open and says what is wrong with it.
        match towpath.sessions.open(*id).await {
            Err(OpenError::NotResponding) => {}
            opened => assert!(opened.is_ok() && problem().is_some(), "{opened:?}"),
        }
        assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    }
    fixture.api.open("gate");
    for (id, after) in answering {
        let session = towpath.sessions.open(*id).await.expect("a session");
        check_first_turn(&towpath, &session, *after).await;
    }

    for (id, after) in silent {
        let mut changes = towpath.sessions.problem_changes();
        changes.mark_unchanged();
        signal_shim(&fixture, *id, Signal::CONT);
        let problem = || towpath.sessions.problem(*id);
        while problem().is_some() {
            let woken = tokio::time::timeout(TIMEOUT, changes.changed()).await;
            assert!(woken.is_ok(), "{:?}", problem());
        }
        let session = towpath.sessions.open(*id).await.expect("it answers again");
        check_first_turn(&towpath, &session, *after).await;
    }
    let stopped = towpath.sessions.stop().await.expect("a journal");
    assert_eq!(stopped.iter().filter(|it| it.failure.is_none()).count(), 6, "{stopped:?}");
    assert_eq!(fixture.setup.processes(), [] as [i32; 0], "nothing is left running");
}

/// A shim that still has its last owner answers, so the session is opened when that owner is gone,
/// however long it takes.
pub(crate) async fn check_owned_shim() {
    let mut fixture =
        DrivingFixture::with_player("api text \"one two three four\" hold gate after 2").await;
    fixture.setup.idle = Duration::from_mins(5);
    let sessions = begun_sessions(&fixture, 1).await;
    let (id, after) = sessions[0];
    let live = fixture.setup.config().live_directory(id);
    let attached = ShimConnection::attach(&live, 0).await.expect("a shim without an owner");
    let leaving = tokio::spawn(async move {
        // Longer than a shim may be silent.
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(attached);
    });
    let towpath = fixture.towpath();
    let session = towpath.sessions.open(id).await.expect("a session whose last owner has gone");
    assert_eq!(towpath.sessions.problem(id), None);
    leaving.await.expect("no panic");
    fixture.api.open("gate");
    check_first_turn(&towpath, &session, after).await;
    towpath.sessions.stop().await.expect("a journal");
}

/// A session whose shim is stopped is deleted, and its agent with it.
pub(crate) async fn check_deletion_of_a_silent_session() {
    let mut fixture =
        DrivingFixture::with_player("api text \"one two three four\" hold gate after 2").await;
    fixture.setup.idle = Duration::from_mins(5);
    let sessions = begun_sessions(&fixture, 2).await;
    let towpath = fixture.towpath();
    // One is driven when its shim stops, the other is not.
    towpath.sessions.open(sessions[0].0).await.expect("a session");
    for (id, _) in sessions {
        suspend_shim(&fixture, id).await;
        towpath.sessions.delete(id).await.expect("a deletion");
        assert!(!fixture.setup.config().live_directory(id).exists());
    }
    wait_until("the agents are gone", || fixture.setup.processes().is_empty()).await;
    assert!(towpath.sessions.journal().sessions().await.expect("a journal").is_empty());
}

/// A damaged file or directory is the problem of its session alone.
pub(crate) async fn check_damaged_files() {
    let mut fixture =
        DrivingFixture::with_player("api text \"one two three four\" hold gate after 2").await;
    fixture.setup.idle = Duration::from_mins(5);
    let sessions = begun_sessions(&fixture, 4).await;
    let live = |at: usize| fixture.setup.config().live_directory(sessions[at].0);
    // The shim of the first runs, that of the second is dead.
    for at in [0, 1] {
        if at == 1 {
            signal_shim(&fixture, sessions[at].0, Signal::KILL);
        }
        std::fs::write(live(at).join("shim.json"), "{\"run\":").expect("a damaged record");
    }
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(live(2), open).expect("a directory open to others");

    let towpath = fixture.towpath();
    let failed = towpath.sessions.recover().await.expect("a journal");
    assert_eq!(failed.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [sessions[2].0], "{failed:?}");
    let problem = towpath.sessions.problem(sessions[2].0).expect("a problem");
    assert!(problem.contains("its mode must be 0700"), "{problem}");
    fixture.api.open("gate");
    for (id, after) in [&sessions[0], &sessions[3]] {
        let session = towpath.sessions.open(*id).await.expect("a session");
        check_first_turn(&towpath, &session, *after).await;
    }
    let cut = towpath.sessions.open(sessions[1].0).await.expect("a session without its agent");
    JournalReader::new(&cut, sessions[1].1).until(is_turn_over).await;

    std::fs::set_permissions(live(2), std::fs::Permissions::from_mode(0o700)).expect("private");
    let session = towpath.sessions.open(sessions[2].0).await.expect("it is tried again");
    assert_eq!(towpath.sessions.problem(sessions[2].0), None);
    check_first_turn(&towpath, &session, sessions[2].1).await;
    towpath.sessions.stop().await.expect("a journal");
    // Only the record of the second would have shown which agent its dead shim left.
    for pid in fixture.setup.processes().into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The shim of a session that is driven is stopped and continues.
pub(crate) async fn check_shim_stopped_later() {
    let fixture = DrivingFixture::with_player("api text \"done\"").await;
    let towpath = fixture.towpath();
    let session = towpath.create(&fixture).await;
    let mut changes = towpath.sessions.problem_changes();
    let mut reader = JournalReader::new(&session, Seq::default());
    session.prompt(prompt("go")).await.expect("a queued prompt");
    reader.until(is_turn_over).await;
    assert_eq!(session.problem(), None);

    suspend_shim(&fixture, session.id()).await;
    session.prompt(prompt("go on")).await.expect("a queued prompt");
    wait_for_problem(&session, &mut changes, true).await;
    let problem = towpath.sessions.problem(session.id()).expect("a problem");
    assert!(problem.contains("does not answer"), "{problem}");
    let reported = |entry: &journal::Entry| matches!(note(entry), Some(Note::Problem { .. }));
    reader.until(reported).await;

    signal_shim(&fixture, session.id(), Signal::CONT);
    wait_for_problem(&session, &mut changes, false).await;
    assert_eq!(towpath.sessions.problem(session.id()), None);
    let seen = reader.until(is_turn_over).await;
    let over = Note::TurnEnded { turn: 2, ending: TurnEnding::Completed };
    assert!(notes(&seen).contains(&over), "{}", format_entries(&seen));
    session.close().await.expect("a stopped agent");
    assert_eq!(towpath.sessions.release().await, []);
}

/// Waits until a session has a problem or has none.
async fn wait_for_problem(session: &Session, changes: &mut watch::Receiver<u64>, expected: bool) {
    while session.problem().is_some() != expected {
        let woken = tokio::time::timeout(TIMEOUT, changes.changed()).await;
        assert!(woken.is_ok(), "{:?}", session.problem());
    }
}
