//! Opening, releasing and deleting sessions without an agent.

use std::time::Duration;

use journal::{Batch, NewSession, PromptRecord, SessionId};
use uuid::Uuid;
use wire::note::{Delivery, PromptState, Setting};

use super::test_setup::{AgentlessSessions, ann, set_panicking};
use super::{OpenError, Sessions};
use crate::owner::OwnerCommand;
use crate::session::Error;
use crate::shim::Ownership;

#[tokio::test]
async fn a_session_that_panics_ends_alone_and_can_be_opened_again() {
    let setup = AgentlessSessions::new();
    let sessions = &setup.sessions;
    let one = sessions.create(setup.spec()).await.unwrap();
    let other = sessions.create(setup.spec()).await.unwrap();
    let setting = || Setting::Model(Some("opus".to_owned()));
    for round in 0..20 {
        let failing = sessions.open(one.id()).await.unwrap();
        failing.set(setting(), ann()).await.unwrap();
        failing.commands.send(OwnerCommand::Panic).await.unwrap();
        failing.closed().await;
        assert!(matches!(failing.set(setting(), ann()).await, Err(Error::Closed)));
        other.set(setting(), ann()).await.unwrap();
        if round % 2 == 0 {
            let problem = problem_of(sessions, one.id()).await;
            assert!(problem.contains("internal error"), "{problem}");
        }
        assert_eq!(sessions.problem(other.id()), None);
        let again = sessions.open(one.id()).await.unwrap();
        // The task that watched the failed owner must not remove the new one.
        tokio::task::yield_now().await;
        assert_eq!(sessions.open_sessions().len(), 2);
        again.set(setting(), ann()).await.unwrap();
        assert_eq!(sessions.problem(one.id()), None);
    }
}

/// Waits until a session has a problem.
async fn problem_of(sessions: &Sessions, id: SessionId) -> String {
    let mut changes = sessions.problem_changes();
    loop {
        changes.mark_unchanged();
        if let Some(problem) = sessions.problem(id) {
            return problem;
        }
        changes.changed().await.unwrap();
    }
}

#[tokio::test]
async fn a_session_whose_journal_cannot_be_read_says_so_and_can_be_opened_again() {
    let setup = AgentlessSessions::new();
    let sessions = &setup.sessions;
    let one = sessions.create(setup.spec()).await.unwrap();
    let other = sessions.create(setup.spec()).await.unwrap();
    one.commands.send(OwnerCommand::Fail).await.unwrap();
    let problem = problem_of(sessions, one.id()).await;
    assert!(problem.contains("too large for the journal"), "{problem}");
    assert_eq!(sessions.problem(other.id()), None);
    let again = sessions.open(one.id()).await.unwrap();
    again.set(Setting::Model(None), ann()).await.unwrap();
    assert_eq!(sessions.problem(one.id()), None);
}

#[tokio::test]
async fn an_opening_that_panics_says_so_and_can_be_tried_again() {
    let setup = AgentlessSessions::new();
    let sessions = &setup.sessions;
    let id = sessions.store(setup.spec()).await.unwrap();
    let other = sessions.create(setup.spec()).await.unwrap();
    set_panicking(id, true);
    let refused = sessions.open(id).await;
    assert!(matches!(refused, Err(OpenError::Takeover(_))), "{refused:?}");
    let problem = sessions.problem(id);
    assert!(problem.as_ref().is_some_and(|it| it.contains("internal error")), "{problem:?}");
    other.set(Setting::Model(None), ann()).await.unwrap();
    set_panicking(id, false);
    sessions.open(id).await.unwrap();
    assert_eq!(sessions.problem(id), None);
}

#[tokio::test]
async fn a_session_whose_owner_is_going_away_is_waited_for() {
    let setup = AgentlessSessions::new();
    let sessions = &setup.sessions;
    let session = sessions.create(setup.spec()).await.unwrap();
    session.release().await;
    let live = sessions.config().live_directory(session.id());
    let ownership = Ownership::take(&live).unwrap();
    let releasing = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(ownership);
    });
    sessions.open(session.id()).await.unwrap().release().await;
    releasing.await.unwrap();
    let _ownership = Ownership::take(&live).unwrap();
    let refused = sessions.open(session.id()).await;
    assert!(matches!(refused, Err(OpenError::Owned(_))), "{refused:?}");
}

#[tokio::test]
async fn a_damaged_session_is_not_opened_and_no_other_is_affected() {
    let setup = AgentlessSessions::new();
    let sessions = &setup.sessions;
    let other = sessions.create(setup.spec()).await.unwrap();
    let id = SessionId(Uuid::new_v4());
    let directory = setup.directory.path().to_owned();
    // What is cut off may be what restricts the agent.
    let options = r#"{"disallowed_tools":["Bash"#.to_owned();
    let new = NewSession { id, directory, title: None, options, at: 1 };
    sessions.journal().create(new).await.unwrap();

    let mut changes = sessions.problem_changes();
    changes.mark_unchanged();
    let refused = sessions.open(id).await;
    let text = match &refused {
        Err(error @ OpenError::Damaged { id: damaged, .. }) if *damaged == id => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(text.contains("the options cannot be read"), "{text}");
    assert!(text.contains("towpath sessions export"), "it says what to do: {text}");
    assert!(changes.has_changed().unwrap());
    assert_eq!(sessions.problem(id), Some(text));
    let record = sessions.journal().session(id).await.unwrap().unwrap();
    let collected = sessions.collect_one(&record).await;
    assert!(matches!(collected, Err(OpenError::Damaged { .. })), "{collected:?}");
    let live = sessions.config().live_directory(id);
    assert!(!live.exists(), "nothing was prepared for an agent");

    other.set(Setting::Model(None), ann()).await.unwrap();
    assert_eq!(sessions.problem(other.id()), None);
    sessions.delete(id).await.unwrap();
    assert_eq!(sessions.problem(id), None);
    assert!(matches!(sessions.open(id).await, Err(OpenError::NoSuchSession(_))));
}

/// Stores a session that was used last at a time, as a process that was killed would leave it.
async fn leave_behind(setup: &AgentlessSessions, options: &str, at: u64) -> SessionId {
    let id = SessionId(Uuid::new_v4());
    let directory = setup.directory.path().to_owned();
    let new = NewSession { id, directory, title: None, options: options.to_owned(), at };
    setup.sessions.journal().create(new).await.unwrap();
    id
}

async fn exists(sessions: &Sessions, id: SessionId) -> bool {
    sessions.journal().session(id).await.unwrap().is_some()
}

#[tokio::test]
async fn a_session_to_be_deleted_when_it_has_ended_is_deleted_once_no_process_uses_it() {
    const DELETED: &str = r#"{"delete_when_ended":true}"#;
    for recovers in [false, true] {
        let setup = AgentlessSessions::new();
        let sessions = &setup.sessions;
        let ended = leave_behind(&setup, DELETED, 1).await;
        let kept = leave_behind(&setup, "{}", 1).await;
        let unreadable = leave_behind(&setup, r#"{"delete_when_ended":1}"#, 1).await;
        let recent = leave_behind(&setup, DELETED, crate::owner::now()).await;
        let waiting = leave_behind(&setup, DELETED, 1).await;
        let prompt = PromptRecord {
            id: Uuid::new_v4(),
            position: 1,
            text: "go".to_owned(),
            content: None,
            delivery: Delivery::Queue,
            state: PromptState::Queued,
            by: ann(),
            turn: None,
            created: 1,
            changed: 1,
        };
        let batch = Batch { at: 1, prompts: vec![prompt], ..Batch::default() };
        sessions.journal().write(waiting, batch).await.unwrap();
        let used = leave_behind(&setup, DELETED, 1).await;
        let ownership = Ownership::take(&sessions.config().live_directory(used)).unwrap();
        let mut many = Vec::new();
        for _ in 0..100 {
            many.push(leave_behind(&setup, DELETED, 1).await);
        }

        let failed = if recovers { sessions.recover().await } else { sessions.collect().await };
        assert!(failed.unwrap().is_empty());
        // A recovery of many sessions goes on in the background.
        while exists(sessions, ended).await || exists(sessions, many[99]).await {
            assert!(recovers, "`collect` returns when it is done");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!sessions.config().live_directory(ended).exists());
        for id in [kept, unreadable, recent, waiting, used] {
            assert!(exists(sessions, id).await);
        }
        drop(ownership);
        while exists(sessions, used).await {
            sessions.collect().await.unwrap();
        }
    }
}
