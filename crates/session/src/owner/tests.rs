//! The owner's task with a real journal and no agent.

use uuid::Uuid;
use wire::note::{Delivery, PromptState};

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
