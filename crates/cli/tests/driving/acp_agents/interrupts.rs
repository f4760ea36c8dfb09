//! Turns that a person stops.

use session::RequestAnswer;
use wire::note::{ExitCause, Note, Outcome, QueuePolicy, TurnEnding};

use super::fixture::{create, methods, reader, request, said, sent, turn_ending, with_player};
use crate::fixture::{agent_line, ann, notes, prompt};

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_stopped_and_the_queue_goes_on_with_the_same_process() {
    let fixture = with_player("updates-after-cancel").await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    let mut reader = reader(&session);
    session.prompt(prompt("wait")).await.expect("a queued prompt");
    session.prompt(prompt("hello next")).await.expect("a queued prompt");
    reader.until(agent_line("agent_message_chunk")).await;
    session.interrupt(QueuePolicy::Keep, ann()).await.expect("an interrupt");
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Interrupted);
    assert!(methods(&seen).contains(&"session/cancel".to_owned()));
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed);
    assert!(said(&seen).contains("hello next"), "{}", said(&seen));
    let exits = |note: &Note| matches!(note, Note::AgentExited { .. });
    assert!(!notes(&towpath.journal_of(session.id()).await).iter().any(exits));
    session.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_waits_for_a_person_is_stopped_and_the_request_withdrawn_once() {
    for misbehavior in ["", "cancel-before-answer", "withdraws-permission"] {
        let mut fixture = with_player(misbehavior).await;
        if let Some(agent) = &mut fixture.setup.acp_agent {
            // It withdraws a request by itself after 20 times this long, which is not what is tested.
            agent.environment.insert("TOWPATH_PLAY_PACE".to_owned(), "1000".to_owned());
        }
        let towpath = fixture.towpath();
        let session = create(&towpath, &fixture).await;
        let mut reader = reader(&session);
        session.prompt(prompt("run")).await.expect("a queued prompt");
        let (id, choices) = request(&mut reader).await;
        session.interrupt(QueuePolicy::Keep, ann()).await.expect("an interrupt");
        let late = RequestAnswer::Choose { choice: choices[0].id.clone() };
        session.answer(&id, late, ann()).await.expect_err("it is too late");
        let (ending, _) = turn_ending(&mut reader).await;
        assert_eq!(ending, TurnEnding::Interrupted, "{misbehavior}");
        let all = towpath.journal_of(session.id()).await;
        let resolutions: Vec<_> = notes(&all)
            .into_iter()
            .filter_map(|note| match note {
                Note::RequestResolved { outcome, .. } => Some(outcome),
                _ => None,
            })
            .collect();
        assert_eq!(resolutions, [Outcome::Withdrawn], "{misbehavior}");
        let answers = sent(&all).iter().filter(|line| line["method"].is_null()).count();
        assert_eq!(answers, 1, "{misbehavior}: {:?}", sent(&all));
        session.prompt(prompt("hello")).await.expect("a queued prompt");
        assert_eq!(turn_ending(&mut reader).await.0, TurnEnding::Completed);
        session.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_ends_the_turn_is_no_failure() {
    let fixture = with_player("deny-cancels").await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    let mut reader = reader(&session);
    session.prompt(prompt("run")).await.expect("a queued prompt");
    let (id, _) = request(&mut reader).await;
    let deny = RequestAnswer::Deny { message: String::new(), interrupt: false };
    session.answer(&id, deny, ann()).await.expect("an answer");
    assert_eq!(turn_ending(&mut reader).await.0, TurnEnding::Interrupted);
    session.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_does_not_stop_is_killed_and_its_session_resumed() {
    let fixture = with_player("ignores-cancel").await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    let mut reader = reader(&session);
    session.prompt(prompt("hello first")).await.expect("a queued prompt");
    turn_ending(&mut reader).await;
    session.prompt(prompt("wait")).await.expect("a queued prompt");
    reader.until(agent_line("agent_message_chunk")).await;
    session.interrupt(QueuePolicy::Keep, ann()).await.expect("an interrupt");
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Interrupted);
    let exited = Note::AgentExited { cause: ExitCause::Unresponsive };
    assert!(notes(&seen).contains(&exited), "{:?}", notes(&seen));
    session.prompt(prompt("recall")).await.expect("a queued prompt");
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed);
    assert!(methods(&seen).contains(&"session/resume".to_owned()), "{:?}", methods(&seen));
    assert!(said(&seen).contains("hello first"), "{}", said(&seen));
    session.release().await;
}
