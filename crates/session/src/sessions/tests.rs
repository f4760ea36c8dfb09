//! Opening, releasing and deleting sessions without an agent.

use std::path::Path;
use std::time::Duration;

use journal::Journal;
use wire::note::{Actor, Setting};

use super::{OpenError, SessionSpec, Sessions};
use crate::config::{AgentProgram, SessionLimits, SessionsConfig, UnattendedLimits};
use crate::options::SessionOptions;
use crate::owner::OwnerCommand;
use crate::session::Error;
use crate::shim::Ownership;

fn sessions(directory: &Path) -> Sessions {
    let config = SessionsConfig {
        data: directory.to_owned(),
        runtime: directory.to_owned(),
        towpath: "no-such-program".into(),
        agent: AgentProgram { program: "no-such-agent".into(), arguments: Vec::new() },
        environment: Vec::new(),
        limits: SessionLimits::default(),
        unattended: UnattendedLimits::SHORT,
    };
    let journal = Journal::open(&directory.join("journal.db")).unwrap().journal;
    Sessions::new(config, journal)
}

fn spec(directory: &Path) -> SessionSpec {
    let options = SessionOptions { directory: directory.to_owned(), ..SessionOptions::default() };
    SessionSpec { options, ..SessionSpec::default() }
}

#[tokio::test]
async fn a_session_that_panics_ends_alone_and_can_be_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let sessions = sessions(directory.path());
    let one = sessions.create(spec(directory.path())).await.unwrap();
    let other = sessions.create(spec(directory.path())).await.unwrap();
    let ann = || Actor { name: "ann".to_owned(), via: "terminal".to_owned() };
    let setting = || Setting::Model(Some("opus".to_owned()));
    for _ in 0..20 {
        let failing = sessions.open(one.id()).await.unwrap();
        failing.set(setting(), ann()).await.unwrap();
        failing.commands.send(OwnerCommand::Panic).await.unwrap();
        failing.closed().await;
        assert!(matches!(failing.set(setting(), ann()).await, Err(Error::Closed)));
        other.set(setting(), ann()).await.unwrap();
        let again = sessions.open(one.id()).await.unwrap();
        // The task that watched the failed owner must not remove the new one.
        tokio::task::yield_now().await;
        assert_eq!(sessions.open_sessions().len(), 2);
        again.set(setting(), ann()).await.unwrap();
    }
}

#[tokio::test]
async fn a_session_whose_owner_is_going_away_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let sessions = sessions(directory.path());
    let session = sessions.create(spec(directory.path())).await.unwrap();
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
