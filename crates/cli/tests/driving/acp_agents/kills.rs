//! Processes that are killed, and what the session makes of it.

use std::time::Duration;

use session::RequestAnswer;
use wire::note::{Note, PromptState, TurnEnding};

use super::fixture::{create, methods, reader, request, said, sent, turn_ending, with_player};
use crate::fixture::{JournalReader, agent_line, ann, notes, prompt};
use crate::kills::{KilledProcess, kill};

#[tokio::test(flavor = "multi_thread")]
async fn after_the_agent_or_its_shim_was_killed_the_session_goes_on() {
    for killed in [KilledProcess::Agent, KilledProcess::Shim] {
        for asking in [false, true] {
            let fixture = with_player("").await;
            let towpath = fixture.towpath();
            let session = create(&towpath, &fixture).await;
            let mut reader = reader(&session);
            session.prompt(prompt("hello first")).await.expect("a queued prompt");
            turn_ending(&mut reader).await;
            let cut = prompt(if asking { "run" } else { "wait" });
            session.prompt(cut.clone()).await.expect("a queued prompt");
            if asking {
                request(&mut reader).await;
            } else {
                reader.until(agent_line("agent_message_chunk")).await;
            }
            kill(&fixture.setup, session.id(), killed);
            let (ending, _) = turn_ending(&mut reader).await;
            assert!(matches!(ending, TurnEnding::Aborted { .. }), "{killed:?}: {ending:?}");
            let open = session.journal().open_requests(Some(session.id())).await.expect("requests");
            assert!(open.is_empty(), "{killed:?}");
            session.prompt(prompt("recall")).await.expect("a queued prompt");
            let (ending, seen) = turn_ending(&mut reader).await;
            assert_eq!(ending, TurnEnding::Completed, "{killed:?}");
            assert!(methods(&seen).contains(&"session/resume".to_owned()), "{:?}", methods(&seen));
            assert!(said(&seen).contains("hello first"), "{}", said(&seen));
            let prompts = session.journal().prompts(session.id()).await.expect("prompts");
            let state = prompts.iter().find(|it| it.id == cut.id).expect("the prompt").state;
            assert!(matches!(state, PromptState::Done | PromptState::Indeterminate));
            session.release().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_go_on_starts_again_and_the_conversation_says_so() {
    for (misbehavior, method) in [
        ("dies-mid-turn,load-fails", Some("session/load")),
        ("half-line,no-load,no-resume", None),
        ("dies-mid-turn,no-resume", Some("session/load")),
    ] {
        let fixture = with_player(misbehavior).await;
        let towpath = fixture.towpath();
        let session = create(&towpath, &fixture).await;
        let mut reader = reader(&session);
        session.prompt(prompt("hello first")).await.expect("a queued prompt");
        let (ending, _) = turn_ending(&mut reader).await;
        assert!(matches!(ending, TurnEnding::Aborted { .. }), "{misbehavior}: {ending:?}");
        session.prompt(prompt("hello second")).await.expect("a queued prompt");
        let (_, seen) = turn_ending(&mut reader).await;
        let methods = methods(&seen);
        if let Some(method) = method {
            assert!(methods.contains(&method.to_owned()), "{misbehavior}: {methods:?}");
        }
        let lost = |note: &Note| matches!(note, Note::Problem { text } if text.contains("new one"));
        let said_so = notes(&seen).iter().any(lost);
        let again = methods.contains(&"session/new".to_owned());
        assert_eq!(said_so, again, "{misbehavior}: {methods:?}");
        assert_eq!(again, misbehavior != "dies-mid-turn,no-resume", "{methods:?}");
        session.release().await;
    }
}

/// Towpath dies while a request is open. The next one answers it, and the same process goes on.
#[test]
fn another_towpath_answers_the_request_of_a_running_agent() {
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    let around = runtime();
    let mut fixture = around.block_on(with_player(""));
    fixture.setup.idle = Duration::from_mins(1);
    let first = runtime();
    let (id, last) = first.block_on(async {
        let towpath = fixture.towpath();
        let session = create(&towpath, &fixture).await;
        let mut reader = reader(&session);
        session.prompt(prompt("$ touch made")).await.expect("a queued prompt");
        let seen = reader
            .until(|entry| matches!(crate::fixture::note(entry), Some(Note::RequestOpened { .. })))
            .await;
        (session.id(), seen.last().expect("something").seq)
    });
    first.shutdown_background();
    let second = runtime();
    second.block_on(async {
        let towpath = fixture.towpath();
        let session = towpath.sessions.open(id).await.expect("a session to take over");
        let open = session.journal().open_requests(Some(id)).await.expect("requests");
        let (_, request) = &open[0];
        let allow = request.choices.iter().find(|it| it.kind.allows()).expect("a way to allow");
        let answer = RequestAnswer::Choose { choice: allow.id.clone() };
        session.answer(&request.id, answer, ann()).await.expect("an answer");
        let mut reader = JournalReader::new(&session, last);
        let (ending, _) = turn_ending(&mut reader).await;
        assert_eq!(ending, TurnEnding::Completed);
        assert!(fixture.project().join("made").exists());
        session.prompt(prompt("hello second")).await.expect("a queued prompt");
        assert_eq!(turn_ending(&mut reader).await.0, TurnEnding::Completed);
        let all = towpath.journal_of(id).await;
        let count = |method: &str| methods(&all).iter().filter(|it| *it == method).count();
        assert_eq!((count("initialize"), count("session/prompt")), (1, 2), "{:?}", sent(&all));
        session.release().await;
    });
}
