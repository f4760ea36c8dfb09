//! The bridge of a fleet: several gateways have the same bot, and one of them runs it at a time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use test_support::bot_api::BotApiUserMessage;
use tokio::time::{sleep, timeout};

use crate::fixture::{ANN, BridgeProcess, Fixture, TIMEOUT};
use crate::fleet_environment::FleetEnvironment;
use crate::texts::{ALLOW, ALLOWED};

const REPLIES: &str = "api tool Bash {\"command\":\"touch made\",\"description\":\"d\"}\n\
                       api text \"Made it.\"\napi text \"And again.\"";

/// A gateway with the bot.
async fn gateway(fixture: &Fixture, fleet: &FleetEnvironment<'_>, name: &str) -> BridgeProcess {
    let own = fleet.gateway_arguments(name);
    let mut arguments = vec!["serve", "--listen", "127.0.0.1:0", "--telegram"];
    arguments.extend(own.iter().map(String::as_str));
    fixture.start_elsewhere(&arguments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_of_a_killed_gateway_is_answered_once_through_another_one() {
    let fixture = Fixture::new(REPLIES).await;
    let root = fixture.path("project");
    let Some(fleet) = FleetEnvironment::start(&fixture, &[("w1", Path::new(&root))]).await else {
        return;
    };
    // The first one is elected, because there is no other yet.
    let first = gateway(&fixture, &fleet, "g1").await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "make it");
    let card = fixture.wait_for_button(chat, ALLOW).await;
    let second = gateway(&fixture, &fleet, "g2").await;
    assert!(!fixture.path("project/made").exists());

    first.kill().await;
    // No gateway polls now: Telegram keeps the tap, and the next gateway gets it.
    let answer = fixture.tap(chat, ANN, ALLOW).await;
    assert!(answer.contains(ALLOWED), "{answer}");
    fixture.wait_for_text(chat, "Made it.").await;
    fixture.wait_for_no_button(chat, ALLOW).await;
    assert!(fixture.path("project/made").exists());
    let shown = fixture.telegram.messages(chat);
    // The progress message names the command too, but not at first.
    let is_card = |text: &str| text.starts_with("Run touch made");
    let cards: Vec<_> = shown.iter().filter(|it| is_card(&it.text)).collect();
    assert_eq!(cards.len(), 1, "the card is not sent again: {cards:?}");
    assert_eq!(cards[0].message_id, card);
    assert_eq!(fixture.count_prompts("make it"), 1);

    // The chat still shows its session, and what was said before is not said again.
    fixture.telegram.user_sends(chat, ANN, "once more");
    fixture.wait_for_text(chat, "And again.").await;
    assert_eq!(fixture.count_texts(chat, "Made it."), 1);
    assert_eq!(fixture.count_prompts("once more"), 1);
    let listed = fixture.wait_for_reply(chat, ANN, "/sessions").await;
    assert!(listed.text.contains("make it"), "{}", listed.text);

    // A gateway that is stopped gives the bot up, and the next one has it at once.
    let third = gateway(&fixture, &fleet, "g3").await;
    second.terminate().await;
    let status = fixture.wait_for_reply(chat, ANN, "/status").await;
    assert!(status.text.contains("project"), "{}", status.text);
    third.terminate().await;
    fixture.assert_correct();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_for_the_agent_are_stored_where_it_works_and_directories_are_the_workers() {
    let fixture = Fixture::new("api text \"Read it.\"\napi text \"New one.\"").await;
    let root = fixture.path("project");
    std::fs::create_dir(root.join("inner")).expect("a directory");
    let Some(fleet) = FleetEnvironment::start(&fixture, &[("w1", Path::new(&root))]).await else {
        return;
    };
    let gateway = gateway(&fixture, &fleet, "g1").await;
    let chat = fixture.telegram.private_chat(ANN);
    let refused = fixture.wait_for_reply(chat, ANN, "/new /etc").await;
    assert!(refused.text.contains("no connected worker"), "{}", refused.text);
    fixture.wait_for_reply(chat, ANN, "/new inner").await;
    let notes = BotApiUserMessage::document("../notes.txt", "text/plain", "remember this");
    fixture.telegram.user_sends(chat, ANN, notes.caption("read it"));
    fixture.wait_for_text(chat, "Read it.").await;
    let stored = root.join("inner/.towpath/files/notes.txt");
    assert_eq!(std::fs::read(&stored).expect("the file"), b"remember this");
    let requests = fixture.model_requests();
    assert!(requests[0].contains(".towpath/files/notes.txt"), "{requests:?}");
    gateway.terminate().await;
    fixture.assert_correct();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_the_outbox_of_a_workers_session_are_sent_once_and_moved_there() {
    let write = |content: &str| {
        let path = "$cwd/.towpath/outbox/report.txt";
        format!("api tool Write {{\"file_path\":\"{path}\",\"content\":\"{content}\"}}\n")
    };
    let fixture = Fixture::new(&format!(
        "{}api text \"Sent.\"\n{}api text \"Sent again.\"\napi text \"Nothing new.\"",
        write("first"),
        write("second")
    ))
    .await;
    let root = fixture.path("project");
    let Some(fleet) = FleetEnvironment::start(&fixture, &[("w1", Path::new(&root))]).await else {
        return;
    };
    let gateway = gateway(&fixture, &fleet, "g1").await;
    let chat = fixture.telegram.private_chat(ANN);
    let sent = root.join(".towpath/outbox/sent");
    let archived = async |name: &str, content: &str| {
        let path = sent.join(name);
        let wait = async {
            while !path.exists() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(TIMEOUT, wait).await.unwrap_or_else(|_| panic!("{name} is not archived"));
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), content);
    };
    fixture.telegram.user_sends(chat, ANN, "send me the report");
    fixture.tap(chat, ANN, ALLOW).await;
    fixture.wait_for_text(chat, "Sent.").await;
    archived("report.txt", "first").await;
    fixture.telegram.user_sends(chat, ANN, "and the next one");
    fixture.tap(chat, ANN, ALLOW).await;
    fixture.wait_for_text(chat, "Sent again.").await;
    archived("2-report.txt", "second").await;
    fixture.telegram.user_sends(chat, ANN, "anything else?");
    fixture.wait_for_text(chat, "Nothing new.").await;
    gateway.terminate().await;
    let files = fixture.telegram.messages(chat);
    let files: Vec<_> = files.iter().filter_map(|it| it.media.as_ref()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files.iter().all(|it| it.name == "report.txt"), "{files:?}");
    // Nothing of it stays on the gateway, and git does not show it.
    let copies = fixture.path("g1/telegram-outbox");
    let left = walk(&copies);
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(std::fs::read(root.join(".towpath/.gitignore")).expect("a file"), b"*\n");
    fixture.assert_correct();
}

/// All files below a directory.
fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|it| it.path());
    paths.flat_map(|it| if it.is_dir() { walk(&it) } else { vec![it] }).collect()
}
