//! The disk runs full under a session: nothing is lost, nothing is claimed, and it goes on when there
//! is room.

#![expect(clippy::disallowed_methods, reason = "the test mounts a small disk")]

use std::path::{Path, PathBuf};
use std::process::Command;

use journal::Seq;
use wire::note::{Note, TurnEnding};

use crate::stage::{Reader, Stage, is_turn_over, notes, prompt, says};

/// A small disk in memory, as long as it is held.
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
    // More than the disk holds: it must run full in the middle.
    let stage = Stage::playing(
        "api repeat \"words that fill the disk one after the other \" 3000 hold gate after 100\n\
         api text \"There is room again.\"",
    )
    .await;
    let Some(disk) = Disk::mount(&stage.scene.data(), "1m") else {
        println!("skipped: no small disk can be mounted here");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "nothing may be skipped here");
        return;
    };
    let towpath = stage.towpath();
    let session = towpath.create(&stage).await;
    let mut reader = Reader::new(&session, Seq::default());
    session.prompt(prompt("fill it")).await.expect("a prompt is taken");
    let mut seen = reader.until(says("text_delta")).await;
    stage.api.open("gate");
    // What cannot be written down is not taken.
    let refused = loop {
        let more = session.prompt(prompt("more")).await;
        match more {
            Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.to_string(), "the disk is full: nothing new can be taken");
    disk.grow("256m");
    seen.extend(reader.until(is_turn_over).await);
    assert!(notes(&seen).contains(&Note::TurnOver { turn: 1, ending: TurnEnding::Completed }));
    assert!(seen.is_sorted_by(|one, two| one.seq < two.seq), "in order");
    let answers = seen.iter().filter(|entry| says(r#""type":"result""#)(entry)).count();
    assert_eq!(answers, 1, "the answer came once");
    session.interrupt(wire::note::QueueFate::Clear, crate::stage::ann()).await.expect("a stop");
    session.close().await.expect("an end");
    session.leave().await;
    drop(towpath);
    drop(disk);
}
