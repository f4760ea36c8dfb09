//! Sessions with real processes: the built binary as shim, a real agent process, a real journal.

#![expect(clippy::print_stdout, reason = "processes that are killed say how far they got")]

mod acp_agents;
mod concurrency;
mod conversations;
mod fixture;
mod full_disk;
mod hosting;
mod kills;
mod options;
mod random_kills;
mod real_cli;
mod repeated_kills;
mod server_kills;
mod silent_shims;

use std::time::Duration;

use fixture::{DrivingFixture, JournalReader, agent_line, ann, is_turn_over, note, notes, prompt};
use wire::note::{Note, Outcome, PromptState, QueuePolicy, TurnEnding};

use session::RequestAnswer;

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_answered_and_the_journal_is_complete() {
    let fixture = DrivingFixture::with_player(r#"api text "Hello there""#).await;
    let towpath = fixture.towpath();
    let session = towpath.create(&fixture).await;
    let mut reader = JournalReader::new(&session, journal::Seq::default());
    let hello = prompt("hello");
    session.prompt(hello.clone()).await.expect("a queued prompt");
    let seen = reader.until(is_turn_over).await;
    let notes = notes(&seen);
    assert!(
        notes.contains(&Note::PromptStateChanged { prompt: hello.id, state: PromptState::Done })
    );
    assert!(notes.contains(&Note::TurnEnded { turn: 1, ending: TurnEnding::Completed }));
    assert!(seen.iter().any(|entry| agent_line("Hello there")(entry)));
    assert_eq!(fixture.model_requests().len(), 1);
    session.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_have_the_mark_by_which_the_run_of_the_tests_finds_what_they_leave() {
    let Some((name, value)) = test_support::test_run::mark() else {
        println!("skipped: only `cargo xtask test` marks what it starts");
        return;
    };
    let fixture = DrivingFixture::with_player(
        "api tool Bash {\"command\":\"env > environment\",\"description\":\"x\"}\napi text \"done\"",
    )
    .await;
    let towpath = fixture.towpath();
    let session = towpath.create(&fixture).await;
    let mut reader = JournalReader::new(&session, journal::Seq::default());
    session.prompt(prompt("look")).await.expect("a queued prompt");
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
    let allow = RequestAnswer::Allow { input: None, remember: None, mode: None };
    session.answer(&request, allow, ann()).await.expect("an answer");
    reader.until(is_turn_over).await;
    let environment = std::fs::read_to_string(fixture.project().join("environment"));
    let mark = format!("{}={}", name.display(), value.display());
    assert!(environment.expect("a file").lines().any(|line| line == mark), "{mark}");
    session.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_request_is_answered_and_resolved() {
    let fixture = DrivingFixture::with_player(
        "api tool Bash {\"command\":\"touch made\",\"description\":\"x\"}\napi text \"done\"",
    )
    .await;
    let towpath = fixture.towpath();
    let session = towpath.create(&fixture).await;
    let mut reader = JournalReader::new(&session, journal::Seq::default());
    session.prompt(prompt("make it")).await.expect("a queued prompt");
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
    let allow = RequestAnswer::Allow { input: None, remember: None, mode: None };
    session.answer(&request, allow.clone(), ann()).await.expect("an answer");
    let again = session.answer(&request, allow, ann()).await.expect_err("too late");
    assert_eq!(again.to_string(), "the request is already resolved");
    let seen = reader.until(is_turn_over).await;
    let resolved =
        |note: &Note| matches!(note, Note::RequestResolved { outcome: Outcome::Allowed, .. });
    assert!(notes(&seen).iter().any(resolved));
    assert!(fixture.project().join("made").exists());
    session.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_stops_the_turn_and_the_session_continues() {
    let fixture = DrivingFixture::with_player(
        "api text \"one two three\" hold gate after 1\napi text \"afterwards\"",
    )
    .await;
    let towpath = fixture.towpath();
    let session = towpath.create(&fixture).await;
    let mut reader = JournalReader::new(&session, journal::Seq::default());
    session.prompt(prompt("go")).await.expect("a queued prompt");
    reader.until(agent_line("text_delta")).await;
    let asked = std::time::Instant::now();
    session.interrupt(QueuePolicy::Keep, ann()).await.expect("an interrupt");
    assert!(asked.elapsed() < Duration::from_secs(30));
    let seen = reader.until(is_turn_over).await;
    assert!(notes(&seen).contains(&Note::TurnEnded { turn: 1, ending: TurnEnding::Interrupted }));
    session.prompt(prompt("go on")).await.expect("a queued prompt");
    let seen = reader.until(is_turn_over).await;
    assert!(notes(&seen).contains(&Note::TurnEnded { turn: 2, ending: TurnEnding::Completed }));
    session.release().await;
}

/// Towpath dies during a turn. The next one takes over, and the turn is complete.
#[test]
fn a_turn_during_which_only_towpath_died_is_complete() {
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    let around = runtime();
    let fixture = around.block_on(DrivingFixture::with_player(
        "api text \"one two three four\" hold gate after 2\napi text \"next\"",
    ));
    let first = runtime();
    let (id, last) = first.block_on(async {
        let towpath = fixture.towpath();
        let session = towpath.create(&fixture).await;
        let mut reader = JournalReader::new(&session, journal::Seq::default());
        session.prompt(prompt("go")).await.expect("a queued prompt");
        let seen = reader.until(agent_line("text_delta")).await;
        (session.id(), seen.last().expect("something").seq)
    });
    first.shutdown_background();
    fixture.api.open("gate");
    let second = runtime();
    second.block_on(async {
        let towpath = fixture.towpath();
        let session = towpath.sessions.open(id).await.expect("a session to take over");
        let mut reader = JournalReader::new(&session, last);
        let seen = reader.until(is_turn_over).await;
        assert!(notes(&seen).contains(&Note::TurnEnded { turn: 1, ending: TurnEnding::Completed }));
        assert!(seen.iter().any(|entry| agent_line("one two three four")(entry)));
        session.prompt(prompt("more")).await.expect("a queued prompt");
        let seen = reader.until(is_turn_over).await;
        assert!(notes(&seen).contains(&Note::TurnEnded { turn: 2, ending: TurnEnding::Completed }));
        let journal = towpath.journal_of(id).await;
        let results =
            journal.iter().filter(|entry| agent_line(r#""type":"result""#)(entry)).count();
        assert_eq!(results, 2, "{}", fixture::format_entries(&journal));
        session.release().await;
    });
    assert_eq!(fixture.model_requests().len(), 2);
}

use kills::{KillPoint, KilledProcess};

const KILL_POINTS: [KillPoint; 4] =
    [KillPoint::Streaming, KillPoint::InTool, KillPoint::Asking, KillPoint::Idle];

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_cuts_the_turn_and_the_session_continues() {
    for point in KILL_POINTS {
        kills::check(fixture::player_command(), KilledProcess::Agent, point).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shim_cuts_the_turn_and_the_session_continues() {
    for point in KILL_POINTS {
        kills::check(fixture::player_command(), KilledProcess::Shim, point).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_towpath_cuts_nothing() {
    for point in KILL_POINTS {
        kills::check(fixture::player_command(), KilledProcess::Towpath, point).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "this is the process that other tests kill"]
async fn the_towpath_that_is_killed() {
    kills::run_until_killed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_happens_once_whenever_towpath_is_killed() {
    repeated_kills::check().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "this is the process that another test kills"]
async fn the_towpath_that_is_killed_at_any_time() {
    repeated_kills::run_until_killed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_steer_queue_answer_rewind_and_resume() {
    conversations::check(&fixture::player_command()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_exits_at_once_is_reported_and_not_restarted_for_ever() {
    conversations::an_agent_that_exits_at_once().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_waits_for_space_on_a_full_disk_and_continues() {
    full_disk::check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_sessions_stream_at_once() {
    concurrency::check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_one_owner() {
    concurrency::one_owner().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_whose_shims_are_stopped_say_so_and_come_back_while_others_work() {
    silent_shims::check_stopped_shims().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_last_owner_goes_away_slowly_is_opened() {
    silent_shims::check_owned_shim().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_says_that_its_shim_has_stopped_answering() {
    silent_shims::check_shim_stopped_later().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_shim_is_stopped_can_be_deleted() {
    silent_shims::check_deletion_of_a_silent_session().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_affects_only_its_session() {
    silent_shims::check_damaged_files().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "this is the process that another test kills"]
async fn the_towpath_that_is_killed_at_random() {
    random_kills::run_until_killed().await;
}

#[tokio::test]
async fn nothing_is_lost_or_doubled_when_the_real_cli_and_its_processes_are_killed_200_times() {
    match real_cli::command().await {
        Ok(_) => real_cli::without_network("random_kills_with_the_real_cli"),
        Err(why) => real_cli::skip(&why),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it runs inside the test above, without a network"]
async fn random_kills_with_the_real_cli() {
    let command = real_cli::command().await.expect("it was there just now");
    let begun = std::time::Instant::now();
    random_kills::check(&command).await;
    println!("the kills took {:.0} s", begun.elapsed().as_secs_f64());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_when_a_server_and_its_processes_are_killed_at_random() {
    server_kills::check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_options_have_their_effect() {
    options::check(&fixture::player_command()).await;
}

#[tokio::test]
async fn session_options_have_their_effect_on_the_real_cli() {
    match real_cli::command().await {
        Ok(_) => real_cli::without_network("options_of_the_real_cli"),
        Err(why) => real_cli::skip(&why),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it runs inside the test above, without a network"]
async fn options_of_the_real_cli() {
    let command = real_cli::command().await.expect("it was there just now");
    options::check(&command).await;
}

use hosting::HostedVictim;

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_goes_on_when_its_host_or_its_client_is_killed() {
    for victim in [HostedVictim::Host, HostedVictim::Client, HostedVictim::HostAndClient] {
        hosting::check(victim, KillPoint::Streaming).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_waits_when_its_host_or_its_client_is_killed() {
    for victim in [HostedVictim::Host, HostedVictim::Client, HostedVictim::HostAndClient] {
        hosting::check(victim, KillPoint::Asking).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shim_cuts_a_hosted_turn_and_the_session_continues() {
    hosting::check(HostedVictim::Shim, KillPoint::Streaming).await;
    hosting::check(HostedVictim::Shim, KillPoint::Asking).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_run_once_whenever_their_host_is_killed() {
    hosting::check_random_kills().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "this is the process that other tests kill"]
async fn the_client_that_is_killed() {
    hosting::run_client().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_get_one_host() {
    hosting::check_one_host().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_exits_when_nothing_is_left_to_do() {
    hosting::check_exit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_has_nothing_of_the_process_that_started_it() {
    hosting::check_detachment().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_is_refused_by_a_host_and_by_an_owner() {
    hosting::check_other_user().await;
}

#[test]
#[ignore = "another test starts it as another user"]
fn the_client_of_another_user() {
    hosting::run_other_user();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_takes_a_turn_over_from_a_background_host() {
    for point in [KillPoint::Streaming, KillPoint::Asking] {
        hosting::check_server_in_mid_turn(point).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_move_between_servers_and_background_hosts() {
    hosting::check_server().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_shows_a_background_host_and_stop_ends_it() {
    hosting::check_commands().await;
}

/// The same with the real CLI, in its own network namespace.
#[tokio::test]
async fn the_real_cli_is_driven_and_survives_every_kill() {
    match real_cli::command().await {
        Ok(_) => real_cli::without_network("everything_with_the_real_cli"),
        Err(why) => real_cli::skip(&why),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it runs inside the test above, without a network"]
async fn everything_with_the_real_cli() {
    let command = real_cli::command().await.expect("it was there just now");
    conversations::check(&command).await;
    for killed in [KilledProcess::Agent, KilledProcess::Shim, KilledProcess::Towpath] {
        for point in KILL_POINTS {
            let begun = std::time::Instant::now();
            kills::check(command.clone(), killed, point).await;
            println!("{killed:?} killed, {point:?}: {:.1} s", begun.elapsed().as_secs_f64());
        }
    }
}
