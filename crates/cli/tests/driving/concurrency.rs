//! Many sessions at once in one process.

use futures_util::future::join_all;
use journal::Seq;
use wire::note::{Note, TurnEnding};

use crate::fixture::{
    DrivingFixture, JournalReader, agent_line, is_turn_over, note, notes, prompt,
};

/// Two hundred agents stream at once, and each session gets its complete answer.
pub(crate) async fn check() {
    let fixture = DrivingFixture::with_player(
        "api repeat \"all the words of an answer that takes a while to come \" 20 slow 1",
    )
    .await;
    let towpath = fixture.towpath();
    let mut sessions = Vec::new();
    for _ in 0..200 {
        sessions.push(towpath.create(&fixture).await);
    }
    let turns = sessions.iter().map(|session| async {
        let mut reader = JournalReader::new(session, Seq::default());
        session.prompt(prompt("say a lot")).await.expect("a queued prompt");
        let seen = reader.until(is_turn_over).await;
        assert!(seen.is_sorted_by(|one, two| one.seq.0 + 1 == two.seq.0), "nothing is left out");
        let over = Note::TurnEnded { turn: 1, ending: TurnEnding::Completed };
        assert!(notes(&seen).contains(&over), "{:?}", notes(&seen));
        let deltas = seen.iter().filter(|entry| agent_line("text_delta")(entry)).count();
        assert!(deltas > 100, "{deltas} deltas");
    });
    join_all(turns).await;
    assert_eq!(fixture.model_requests().len(), 200);
    let ends = sessions.iter().map(|session| async {
        session.close().await.expect("a stopped agent");
        let mut reader = JournalReader::new(session, Seq::default());
        reader.until(|entry| matches!(note(entry), Some(Note::AgentExited { .. }))).await;
    });
    join_all(ends).await;
    assert_eq!(towpath.sessions.release().await, []);
    assert_eq!(fixture.setup.processes(), [] as [i32; 0], "nothing is left running");
}

/// A process that opens a session of another process sends its commands there, and drives the session
/// once the other has released it.
pub(crate) async fn one_owner() {
    let fixture = DrivingFixture::with_player("api text \"hello\"").await;
    let (first, second) = (fixture.towpath(), fixture.towpath());
    let session = first.create(&fixture).await;
    let remote = second.sessions.open(session.id()).await.expect("its owner takes commands");
    assert!(second.sessions.is_remote(session.id()) && !first.sessions.is_remote(session.id()));
    remote.wake().await.expect("an agent");
    session.release().await;
    remote.close().await.expect("the second process has taken it over");
    assert!(!second.sessions.is_remote(session.id()));
    remote.release().await;
}
