//! The owner's task with a real journal and no agent.

use std::path::Path;

use journal::Journal;
use uuid::Uuid;
use wire::note::{Actor, Delivery, PromptState};

use crate::command::{CommandError, NewPrompt};
use crate::config::{AgentProgram, SessionLimits, SessionsConfig, UnattendedLimits};
use crate::options::SessionOptions;
use crate::session::{Error, LeaveOutcome};
use crate::sessions::{SessionSpec, Sessions};

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

fn prompt(length: usize) -> NewPrompt {
    NewPrompt {
        id: Uuid::new_v4(),
        text: "x".repeat(length),
        images: Vec::new(),
        delivery: Delivery::Queue,
        by: Actor { name: "ann".to_owned(), via: "terminal".to_owned() },
    }
}

#[tokio::test]
async fn a_prompt_over_the_limit_is_refused_and_one_just_below_it_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let sessions = sessions(directory.path());
    let options =
        SessionOptions { directory: directory.path().to_owned(), ..SessionOptions::default() };
    let session = sessions.create(SessionSpec { options, ..SessionSpec::default() }).await.unwrap();
    let refused = session.prompt(prompt(65 << 20)).await;
    assert!(
        matches!(refused, Err(Error::Refused(CommandError::TooLarge { .. }))),
        "{:?}",
        refused.map_err(|error| error.to_string())
    );
    assert!(session.journal().prompts(session.id()).await.unwrap().is_empty());
    let below = prompt((64 << 20) - 1000);
    let id = below.id;
    assert_eq!(session.prompt(below).await.unwrap(), PromptState::Queued);
    let stored = session.journal().prompt(session.id(), id).await.unwrap().unwrap();
    assert_eq!(stored.text.len(), (64 << 20) - 1000);
    assert_eq!(session.release().await, LeaveOutcome::Stored);
}
