//! The disk becomes full during a turn: nothing is lost, no new prompt is accepted, and the session
//! continues when there is space.

use journal::Seq;
use test_support::packages;
use test_support::small_disk::SmallDisk;
use wire::note::{Note, TurnEnding};

use crate::fixture::{DrivingFixture, JournalReader, agent_line, is_turn_over, notes, prompt};

pub(crate) async fn check() {
    // More than fits on the disk, so that it becomes full during the turn.
    let fixture = DrivingFixture::with_player(
        "api repeat \"words that fill the disk one after the other \" 3000 hold gate after 100\n\
         api text \"There is room again.\"",
    )
    .await;
    let disk = SmallDisk::mount(&fixture.setup.data(), "1m");
    let Some(disk) = packages::or_skip(disk) else { return };
    let towpath = fixture.towpath();
    let session = towpath.create(&fixture).await;
    let mut reader = JournalReader::new(&session, Seq::default());
    session.prompt(prompt("fill it")).await.expect("a queued prompt");
    let mut seen = reader.until(agent_line("text_delta")).await;
    fixture.api.open("gate");
    // A prompt that cannot be stored is not accepted.
    let refused = loop {
        let more = session.prompt(prompt("more")).await;
        match more {
            // This one met the full disk itself. It is stored when there is space.
            Ok(_) | Err(session::Error::Journal(journal::Error::Full)) => {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            Err(error) => break error,
        }
    };
    assert_eq!(refused.to_string(), "the disk is full: the command was not carried out");
    disk.grow("256m");
    seen.extend(reader.until(is_turn_over).await);
    assert!(notes(&seen).contains(&Note::TurnEnded { turn: 1, ending: TurnEnding::Completed }));
    assert!(seen.is_sorted_by(|one, two| one.seq < two.seq), "in order");
    let answers = seen.iter().filter(|entry| agent_line(r#""type":"result""#)(entry)).count();
    assert_eq!(answers, 1, "the answer came once");
    session.interrupt(wire::note::QueuePolicy::Clear, crate::fixture::ann()).await.expect("a stop");
    session.close().await.expect("a stopped agent");
    session.release().await;
    drop(towpath);
    drop(disk);
}
