//! Sessions driven for real: the built binary as shim, a real agent process, a real journal.

#![expect(clippy::print_stdout, reason = "processes that are killed say how far they got")]

mod any_time;
mod conversations;
mod full_disk;
mod kills;
mod many;
mod release;
mod stage;

use std::time::Duration;

use stage::{Reader, Stage, ann, is_turn_over, note, notes, prompt, says};
use wire::note::{Note, Outcome, PromptState, QueueFate, TurnEnding};

use session::machine::Answer;

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_answered_and_everything_is_in_the_journal() {
    let stage = Stage::playing(r#"api text "Hello there""#).await;
    let towpath = stage.towpath();
    let session = towpath.create(&stage).await;
    let mut reader = Reader::new(&session, journal::Seq::default());
    let hello = prompt("hello");
    session.prompt(hello.clone()).await.expect("a prompt is taken");
    let seen = reader.until(is_turn_over).await;
    let notes = notes(&seen);
    assert!(notes.contains(&Note::PromptBecame { prompt: hello.id, state: PromptState::Done }));
    assert!(notes.contains(&Note::TurnOver { turn: 1, ending: TurnEnding::Completed }));
    assert!(seen.iter().any(|entry| says("Hello there")(entry)));
    assert_eq!(stage.asked().len(), 1);
    session.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_is_asked_answered_and_settled() {
    let stage = Stage::playing(
        "api tool Bash {\"command\":\"touch made\",\"description\":\"x\"}\napi text \"done\"",
    )
    .await;
    let towpath = stage.towpath();
    let session = towpath.create(&stage).await;
    let mut reader = Reader::new(&session, journal::Seq::default());
    session.prompt(prompt("make it")).await.expect("a prompt is taken");
    let mut request = String::new();
    reader
        .until(|entry| match note(entry) {
            Some(Note::RequestOpened { request: id, .. }) => {
                request = id;
                true
            }
            _ => false,
        })
        .await;
    let allow = Answer::Allow { input: None, remember: None, mode: None };
    session.answer(&request, allow.clone(), ann()).await.expect("an answer");
    let again = session.answer(&request, allow, ann()).await.expect_err("too late");
    assert_eq!(again.to_string(), "the request is already resolved");
    let seen = reader.until(is_turn_over).await;
    let resolved =
        |note: &Note| matches!(note, Note::RequestResolved { outcome: Outcome::Allowed, .. });
    assert!(notes(&seen).iter().any(resolved));
    assert!(stage.project().join("made").exists());
    session.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_stops_the_turn_and_the_session_goes_on() {
    let stage =
        Stage::playing("api text \"one two three\" hold gate after 1\napi text \"afterwards\"")
            .await;
    let towpath = stage.towpath();
    let session = towpath.create(&stage).await;
    let mut reader = Reader::new(&session, journal::Seq::default());
    session.prompt(prompt("go")).await.expect("a prompt is taken");
    reader.until(says("text_delta")).await;
    let asked = std::time::Instant::now();
    session.interrupt(QueueFate::Keep, ann()).await.expect("an interrupt");
    assert!(asked.elapsed() < Duration::from_secs(5));
    let seen = reader.until(is_turn_over).await;
    assert!(notes(&seen).contains(&Note::TurnOver { turn: 1, ending: TurnEnding::Interrupted }));
    session.prompt(prompt("go on")).await.expect("a prompt is taken");
    let seen = reader.until(is_turn_over).await;
    assert!(notes(&seen).contains(&Note::TurnOver { turn: 2, ending: TurnEnding::Completed }));
    session.leave().await;
}

/// Towpath goes down in mid-turn: the next one takes over and nothing was cut.
#[test]
fn a_turn_in_which_only_towpath_died_is_whole() {
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    let around = runtime();
    let stage = around.block_on(Stage::playing(
        "api text \"one two three four\" hold gate after 2\napi text \"next\"",
    ));
    let first = runtime();
    let (id, last) = first.block_on(async {
        let towpath = stage.towpath();
        let session = towpath.create(&stage).await;
        let mut reader = Reader::new(&session, journal::Seq::default());
        session.prompt(prompt("go")).await.expect("a prompt is taken");
        let seen = reader.until(says("text_delta")).await;
        (session.id(), seen.last().expect("something").seq)
    });
    first.shutdown_background();
    stage.api.open("gate");
    let second = runtime();
    second.block_on(async {
        let towpath = stage.towpath();
        let session = towpath.sessions.open(id).await.expect("a session to take over");
        let mut reader = Reader::new(&session, last);
        let seen = reader.until(is_turn_over).await;
        assert!(notes(&seen).contains(&Note::TurnOver { turn: 1, ending: TurnEnding::Completed }));
        assert!(seen.iter().any(|entry| says("one two three four")(entry)));
        session.prompt(prompt("more")).await.expect("a prompt is taken");
        let seen = reader.until(is_turn_over).await;
        assert!(notes(&seen).contains(&Note::TurnOver { turn: 2, ending: TurnEnding::Completed }));
        let journal = towpath.journal_of(id).await;
        let results = journal.iter().filter(|entry| says(r#""type":"result""#)(entry)).count();
        assert_eq!(results, 2, "{}", stage::shown(&journal));
        session.leave().await;
    });
    assert_eq!(stage.asked().len(), 2);
}

use kills::{Moment, Victim};

const MOMENTS: [Moment; 4] = [Moment::Streaming, Moment::InTool, Moment::Asking, Moment::Idle];

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_cuts_the_turn_and_the_session_goes_on() {
    for moment in MOMENTS {
        kills::check(stage::player(), Victim::Agent, moment).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shim_cuts_the_turn_leaves_nothing_behind_and_the_session_goes_on() {
    for moment in MOMENTS {
        kills::check(stage::player(), Victim::Shim, moment).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_towpath_cuts_nothing() {
    for moment in MOMENTS {
        kills::check(stage::player(), Victim::Towpath, moment).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it is the process that other tests kill"]
async fn the_towpath_that_is_killed() {
    kills::be_killed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_happens_once_whenever_towpath_is_killed() {
    any_time::check().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it is the process that another test kills"]
async fn the_towpath_that_is_killed_at_any_time() {
    any_time::be_killed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_steer_queue_answer_rewind_and_come_back() {
    conversations::check(&stage::player()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ends_at_once_is_explained_and_not_started_for_ever() {
    conversations::an_agent_that_ends_at_once().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_waits_for_room_on_a_full_disk_and_goes_on() {
    full_disk::check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_sessions_stream_at_once() {
    many::check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_one_owner() {
    many::one_owner().await;
}

/// The same with the real CLI, in a network of its own.
#[tokio::test]
async fn the_real_cli_is_driven_and_survives_every_kill() {
    match release::command().await {
        Ok(_) => release::without_network("everything_with_the_real_cli"),
        Err(why) => release::skip(&why),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it runs inside the test above, without a network"]
async fn everything_with_the_real_cli() {
    let command = release::command().await.expect("it was there just now");
    conversations::check(&command).await;
    for victim in [Victim::Agent, Victim::Shim, Victim::Towpath] {
        for moment in MOMENTS {
            let begun = std::time::Instant::now();
            kills::check(command.clone(), victim, moment).await;
            println!("{victim:?} killed, {moment:?}: {:.1} s", begun.elapsed().as_secs_f64());
        }
    }
}
