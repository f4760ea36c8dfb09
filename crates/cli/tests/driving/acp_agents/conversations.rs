//! Conversations in which nothing dies.

use session::{NewPrompt, RequestAnswer};
use wire::note::{Note, Outcome, PromptState, RequestKind, TurnEnding};
use wire::outgoing::Image;

use super::fixture::{create, methods, reader, request, said, sent, turn_ending, with_player};
use crate::fixture::{ann, is_turn_over, note, notes, prompt};

#[tokio::test(flavor = "multi_thread")]
async fn two_prompts_are_two_turns_and_all_lines_are_in_the_journal() {
    let fixture = with_player("").await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    let mut reader = reader(&session);
    let (first, second) = (prompt("hello there"), prompt("recall"));
    session.prompt(first.clone()).await.expect("a queued prompt");
    session.prompt(second.clone()).await.expect("a queued prompt");
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed);
    assert!(said(&seen).contains("hello there"), "{}", said(&seen));
    assert!(notes(&seen).iter().any(|it| matches!(it, Note::AgentReady { version: Some(_) })));
    assert_eq!(methods(&seen)[..3], ["initialize", "session/new", "session/prompt"]);
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed);
    assert!(said(&seen).contains("hello there"), "it has the history: {}", said(&seen));
    for id in [first.id, second.id] {
        let state = session.journal().prompts(session.id()).await.expect("prompts");
        let state = state.iter().find(|it| it.id == id).expect("the prompt").state;
        assert_eq!(state, PromptState::Done);
    }
    let all = towpath.journal_of(session.id()).await;
    let prompts = methods(&all).iter().filter(|it| *it == "session/prompt").count();
    assert_eq!(prompts, 2, "each prompt was sent once");
    session.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_choice_of_the_agent_answers_a_request_and_a_plain_answer_takes_the_nearest() {
    let fixture = with_player("").await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    let mut reader = reader(&session);
    let made = fixture.project().join("made");
    session.prompt(prompt("$ touch made")).await.expect("a queued prompt");
    let (id, choices) = request(&mut reader).await;
    assert!(choices.len() >= 2, "{choices:?}");
    let invalid = RequestAnswer::Choose { choice: "made up".to_owned() };
    session.answer(&id, invalid, ann()).await.expect_err("a choice that was not offered");
    let allow = choices.iter().find(|it| it.kind.allows()).expect("a way to allow");
    let answer = RequestAnswer::Choose { choice: allow.id.clone() };
    session.answer(&id, answer.clone(), ann()).await.expect("an answer");
    session.answer(&id, answer, ann()).await.expect_err("the first answer counts");
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed);
    assert!(made.exists());
    let resolved = notes(&seen).into_iter().find_map(|note| match note {
        Note::RequestResolved { outcome, choice, .. } => Some((outcome, choice)),
        _ => None,
    });
    let (outcome, choice) = resolved.expect("a resolution");
    assert!(matches!(outcome, Outcome::Allowed | Outcome::AllowedAndRemembered));
    assert_eq!(choice.as_ref(), Some(&allow.name));
    std::fs::remove_file(&made).expect("the file");

    session.prompt(prompt("$ touch made again")).await.expect("a queued prompt");
    let (id, choices) = request(&mut reader).await;
    let deny = RequestAnswer::Deny { message: "not now".to_owned(), interrupt: false };
    session.answer(&id, deny, ann()).await.expect("an answer");
    let (_, seen) = turn_ending(&mut reader).await;
    assert!(!made.exists());
    let refusal = choices.iter().find(|it| !it.kind.allows()).expect("a way to refuse");
    let chosen = |line: &serde_json::Value| line["result"]["outcome"]["optionId"] == *refusal.id;
    assert!(sent(&seen).iter().any(chosen), "{:?}", sent(&seen));
    session.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_answered_like_any_question() {
    let fixture = with_player("").await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    let mut reader = reader(&session);
    session.prompt(prompt("question")).await.expect("a queued prompt");
    let (id, choices) = request(&mut reader).await;
    assert!(choices.is_empty());
    let open = session.journal().open_requests(Some(session.id())).await.expect("requests");
    let (_, record) = &open[0];
    assert_eq!(record.kind, RequestKind::Question);
    let input: serde_json::Value = record.input.parse().expect("JSON");
    let questions = input["questions"].as_array().expect("questions");
    let answer = |question: &serde_json::Value| {
        let label = question["options"][0]["label"].as_str().unwrap_or("words");
        (question["question"].as_str().expect("a text").to_owned(), label.to_owned())
    };
    let answers: Vec<_> = questions.iter().map(answer).collect();
    session.answer(&id, RequestAnswer::Answers(answers), ann()).await.expect("an answer");
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed);
    let accepted = |line: &serde_json::Value| line["result"]["action"] == "accept";
    assert!(sent(&seen).iter().any(accepted), "{:?}", sent(&seen));
    session.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_reaches_the_agent_and_a_huge_reply_the_journal() {
    let fixture = with_player("").await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    let mut reader = reader(&session);
    let mut bytes = b"GIF89a\x01\x00\x01\x00".to_vec();
    bytes.resize(300_000, 7);
    let image = Image::new(&bytes).expect("an image");
    let looked = NewPrompt { images: vec![image], ..prompt("look at this") };
    session.prompt(looked).await.expect("a queued prompt");
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed);
    assert!(said(&seen).contains("image/gif, 300000 bytes"), "{}", said(&seen));
    session.prompt(prompt("huge")).await.expect("a queued prompt");
    let (id, choices) = request(&mut reader).await;
    let allow = choices.iter().find(|it| it.kind.allows()).expect("a way to allow");
    let answer = RequestAnswer::Choose { choice: allow.id.clone() };
    session.answer(&id, answer, ann()).await.expect("an answer");
    reader.until(is_turn_over).await;
    let all = towpath.journal_of(session.id()).await;
    let bytes: usize = all.iter().map(|entry| entry.bytes.len()).sum();
    assert!(bytes > 5_000_000, "{bytes}");
    session.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_after_the_answer_is_a_turn_of_the_agent() {
    let fixture = with_player("late-updates,no-message-id,no-usage").await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    let mut reader = reader(&session);
    session.prompt(prompt("hello")).await.expect("a queued prompt");
    assert_eq!(turn_ending(&mut reader).await.0, TurnEnding::Completed);
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed);
    let started = notes(&seen).into_iter().find_map(|note| match note {
        Note::TurnStarted { prompts, .. } => Some(prompts),
        _ => None,
    });
    assert_eq!(started, Some(Vec::new()), "no prompt asked for it");
    session.prompt(prompt("hello again")).await.expect("a queued prompt");
    let (_, seen) = turn_ending(&mut reader).await;
    assert!(said(&seen).contains("hello again"), "{}", said(&seen));
    session.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_failures_also_when_they_look_like_a_success() {
    for misbehavior in ["", "system-error"] {
        let fixture = with_player(misbehavior).await;
        let towpath = fixture.towpath();
        let session = create(&towpath, &fixture).await;
        let mut reader = reader(&session);
        session.prompt(prompt("error")).await.expect("a queued prompt");
        let (ending, _) = turn_ending(&mut reader).await;
        assert!(matches!(ending, TurnEnding::Failed { .. }), "{misbehavior}: {ending:?}");
        session.prompt(prompt("hello")).await.expect("a queued prompt");
        assert_eq!(turn_ending(&mut reader).await.0, TurnEnding::Completed);
        session.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_and_uninvited_requests_do_no_harm() {
    let fixture = with_player("stdout-noise,unknown-messages,uninvited-fs,permission-first").await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    let mut reader = reader(&session);
    session.prompt(prompt("write")).await.expect("a queued prompt");
    let (id, choices) = request(&mut reader).await;
    let allow = choices.iter().find(|it| it.kind.allows()).expect("a way to allow");
    let answer = RequestAnswer::Choose { choice: allow.id.clone() };
    session.answer(&id, answer, ann()).await.expect("an answer");
    let (ending, _) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed);
    let all = towpath.journal_of(session.id()).await;
    let refused = |line: &serde_json::Value| line["error"]["code"] == -32601;
    assert!(sent(&all).iter().any(refused), "{:?}", sent(&all));
    session.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawn_request_is_resolved_by_the_agent() {
    let fixture = with_player("withdraws-permission").await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    let mut reader = reader(&session);
    session.prompt(prompt("run")).await.expect("a queued prompt");
    let (id, _) = request(&mut reader).await;
    let withdrawn = |entry: &journal::Entry| matches!(note(entry), Some(Note::RequestResolved { request, outcome: Outcome::Withdrawn, .. }) if request == id);
    reader.until(withdrawn).await;
    reader.until(is_turn_over).await;
    session.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_needs_a_sign_in_says_so_and_works_afterwards() {
    let fixture = with_player("sign-in").await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    let mut reader = reader(&session);
    session.prompt(prompt("hello")).await.expect("a queued prompt");
    let mut text = String::new();
    reader
        .until(|entry| match note(entry) {
            Some(Note::SignInNeeded { text: said, .. }) => {
                text = said;
                true
            }
            _ => false,
        })
        .await;
    assert!(text.contains("--sign-in"), "{text}");
    reader.until(|entry| matches!(note(entry), Some(Note::AgentExited { .. }))).await;
    // Signing in is what the agent keeps in its directory.
    let home = fixture.setup.data().with_file_name("home");
    #[expect(clippy::disallowed_methods, reason = "the test owns it")]
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_towpath"))
        .args(["play", "--acp", "--sign-in"])
        .env("HOME", &home)
        .status()
        .expect("the player");
    assert!(status.success());
    session.prompt(prompt("hello again")).await.expect("a queued prompt");
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed);
    assert!(said(&seen).contains("hello"), "the first prompt was kept: {}", said(&seen));
    assert_eq!(turn_ending(&mut reader).await.0, TurnEnding::Completed);
    session.release().await;
}
