//! A worker whose disk becomes full while its agent streams to a gateway.

use std::time::Duration;

use serde_json::json;
use test_support::packages;
use test_support::small_disk::SmallDisk;
use tokio::time::timeout;
use uuid::Uuid;

use crate::fixture::{Fixture, TIMEOUT};
use crate::fleet_moves::{TestWorker, data_directory, gateway, init, servers};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_a_full_disk_refuses_prompts_and_goes_on_when_there_is_space() {
    let Some(servers) = servers() else { return };
    let nats = servers.addresses()[0].clone();
    // More than fits on the disk, so that it becomes full during the turn.
    let replies = "api repeat \"words that fill the disk one after the other \" 6000 hold gate after 100\n\
                   api text \"There is room again.\"";
    let fixture = Fixture::new(replies).await;
    init(&fixture, &nats);
    let data = data_directory(&fixture, "w1");
    std::fs::create_dir_all(&data).expect("a directory");
    let Some(disk) = packages::or_skip(SmallDisk::mount(&data, "2m")) else { return };
    let worker = TestWorker::start(&fixture, &nats, "w1", &fixture.path("project")).await;
    let server = gateway(&fixture, &nats).await;
    let session = server.session(&fixture).await;
    let mut page = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(&session, "fill it").await;
    page.until(|it| it.snapshots > 0 && it.contains("one after the other")).await;
    fixture.api.open("gate");

    // What the worker cannot store is refused at the gateway.
    let prompts = format!("/sessions/{session}/prompts");
    let until_status = async |wanted: u16| {
        let post = async {
            loop {
                let prompt = json!({ "id": Uuid::new_v4(), "text": "is there room" });
                let (status, answer) = server.post(&prompts, prompt).await;
                if status == wanted {
                    return answer;
                }
                // Opening the session again fails with 409 and the same words.
                let says_full = answer.to_string().contains("the disk is full");
                assert!(status == 202 || says_full, "{status}: {answer}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(TIMEOUT, post).await.expect("in time")
    };
    let problem = until_status(507).await;
    assert_eq!(problem["title"], "the disk is full", "{problem}");

    // With space, prompts are accepted, the same turn goes on to its end, and the next one is answered.
    disk.grow("256m");
    until_status(202).await;
    page.until(|it| it.contains("There is room again.")).await;
    drop(worker);
    drop(disk);
}
