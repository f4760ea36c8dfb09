//! The owner's task with a real journal and no agent.

use bytes::Bytes;
use journal::{Batch, NewEntry, Origin};
use uuid::Uuid;
use wire::note::{Delivery, PromptState};

use super::read_unfinished_line;
use crate::command::{CommandError, NewPrompt};
use crate::session::{Error, LeaveOutcome};
use crate::sessions::test_setup::{AgentlessSessions, ann};

fn prompt(length: usize) -> NewPrompt {
    NewPrompt {
        id: Uuid::new_v4(),
        text: "x".repeat(length),
        images: Vec::new(),
        delivery: Delivery::Queue,
        by: ann(),
    }
}

#[tokio::test]
async fn a_prompt_over_the_limit_is_refused_and_one_just_below_it_is_stored() {
    let setup = AgentlessSessions::new();
    let session = setup.sessions.create(setup.spec()).await.unwrap();
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

#[tokio::test]
async fn the_beginning_of_an_unfinished_line_is_found_behind_later_notes() {
    let setup = AgentlessSessions::new();
    let id = setup.sessions.store(setup.spec()).await.unwrap();
    let journal = setup.sessions.journal();
    let find = async || {
        let record = journal.session(id).await.unwrap().unwrap();
        read_unfinished_line(journal, &record).await.unwrap()
    };
    let write = async |origin, line: &str, unfinished: bool| {
        let bytes = Bytes::from(line.to_owned());
        let entries = vec![NewEntry { origin, bytes, transient: false }];
        let unfinished = if unfinished { vec![0] } else { Vec::new() };
        let batch = Batch { at: 1, entries, unfinished, ..Batch::default() };
        journal.write(id, batch).await.unwrap();
    };
    assert_eq!(find().await, None);
    write(Origin::Agent, "a whole line", false).await;
    assert_eq!(find().await, None);
    write(Origin::Agent, "the beginning", true).await;
    for _ in 0..20 {
        write(Origin::Agent, "more", true).await;
        write(Origin::Towpath, r#"{"type":"towpath"}"#, false).await;
    }
    assert_eq!(find().await.as_deref(), Some(b"the beginning".as_slice()));
    write(Origin::Agent, "the end", false).await;
    assert_eq!(find().await, None);
}
