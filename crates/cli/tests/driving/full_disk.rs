//! The disk becomes full during a turn: nothing is lost, no new prompt is accepted, and the session
//! continues when there is space.

#![expect(clippy::disallowed_methods, reason = "the test mounts a small disk")]

use std::path::{Path, PathBuf};
use std::process::Command;

use journal::Seq;
use wire::note::{Note, TurnEnding};

use crate::fixture::{DrivingFixture, JournalReader, agent_line, is_turn_over, notes, prompt};

/// A small disk in memory, unmounted on drop.
struct Disk {
    place: PathBuf,
}

impl Disk {
    fn mount(place: &Path, size: &str) -> Option<Self> {
        let size = format!("size={size},mode=0700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(place);
        let mounted = mount.status().is_ok_and(|status| status.success());
        mounted.then(|| Self { place: place.to_owned() })
    }

    fn grow(&self, size: &str) {
        let size = format!("remount,size={size}");
        let status = Command::new("mount").args(["-o", &size]).arg(&self.place).status();
        assert!(status.is_ok_and(|status| status.success()), "a larger disk");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.place).status();
    }
}

pub(crate) async fn check() {
    // More than fits on the disk, so that it becomes full during the turn.
    let fixture = DrivingFixture::with_player(
        "api repeat \"words that fill the disk one after the other \" 3000 hold gate after 100\n\
         api text \"There is room again.\"",
    )
    .await;
    let Some(disk) = Disk::mount(&fixture.setup.data(), "1m") else {
        println!("skipped: no small disk can be mounted here");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "no test may be skipped in CI");
        return;
    };
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
            Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
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
