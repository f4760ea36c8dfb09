//! The host is killed at any time, again and again, while a client sends prompts.

use std::time::Duration;

use journal::Seq;
use rustix::process::{Signal, kill_process};
use session::NewPrompt;
use uuid::Uuid;
use wire::note::PromptState;

use super::HostedFixture;
use crate::fixture::{JournalReader, TIMEOUT, format_entries, is_turn_over, prompt};

const PROMPTS: u128 = 25;

/// The longest time between sending a prompt and killing the host.
const LONGEST_PAUSE: u64 = 400;

/// Every prompt that the client sends is run once, in order, whichever host takes it.
pub(crate) async fn check_random_kills() {
    let mut fixture = HostedFixture::new("api text \"an answer of some words\" slow 5").await;
    fixture.driving.setup.idle = Duration::from_mins(1);
    let client = fixture.client();
    let session = client.create(&fixture.driving).await;
    let mut hosts = Vec::new();
    for number in 0..PROMPTS {
        let new = NewPrompt {
            id: Uuid::from_u128(number + 1),
            ..prompt(&format!("prompt number {number}."))
        };
        let sending = tokio::spawn({
            let session = session.clone();
            async move { session.prompt(new).await }
        });
        // Spread over the time that a prompt takes, and the same in every run.
        let pause = (u64::try_from(number).expect("a small number") * 7919) % LONGEST_PAUSE;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        if let Some(host) = fixture.host() {
            hosts.push(host);
            let _ = kill_process(host, Signal::KILL);
        }
        let sent = tokio::time::timeout(TIMEOUT, sending).await.expect("in time");
        sent.expect("no panic").unwrap_or_else(|error| panic!("prompt {number}: {error}"));
    }
    let journal = session.journal();
    let settled = async {
        let mut reader = JournalReader::new(&session, Seq::default());
        while !journal.open_prompts(session.id()).await.expect("prompts").is_empty() {
            reader.until(is_turn_over).await;
        }
    };
    let came = tokio::time::timeout(TIMEOUT, settled).await.is_ok();
    let entries = client.journal_of(session.id()).await;
    assert!(came, "it does not settle:\n{}", format_entries(&entries));
    assert!(client.sessions.is_remote(session.id()), "a host drives the session in the end");
    let asked = fixture.driving.model_requests();
    let history = asked.last().expect("a request");
    let mut at = 0;
    for number in 0..PROMPTS {
        let id = Uuid::from_u128(number + 1);
        let stored = journal.prompt(session.id(), id).await.expect("a journal").expect("a prompt");
        assert_eq!(stored.state, PromptState::Done, "{number}\n{}", format_entries(&entries));
        assert_eq!(history.matches(&stored.text).count(), 1, "{number}: {history}");
        let place = history.find(&stored.text).expect("it is there");
        assert!(place >= at, "prompt {number} came too early");
        at = place;
    }
    assert_eq!(asked.len(), usize::try_from(PROMPTS).expect("a small number"));
    hosts.dedup();
    println!("{} hosts were killed; {PROMPTS} prompts, 0 lost, 0 doubled", hosts.len());
    assert!(hosts.len() > 5, "{hosts:?}");
    session.close().await.expect("a stopped agent");
    assert_eq!(client.sessions.release().await, []);
}
