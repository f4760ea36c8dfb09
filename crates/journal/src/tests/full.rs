//! A disk without room.

use super::{Place, all, id, lines, new_session};
use crate::connection::Room;
use crate::{Error, Journal, Seq};

/// Fills the journal until it says so, and checks that nothing of what was refused is in it and
/// that it goes on once there is room.
async fn fill_and_go_on(journal: &Journal, make_room: impl AsyncFnOnce(&Journal)) {
    for session in 1..=2 {
        journal.create(new_session(session)).await.unwrap();
    }
    let big = "x".repeat(30_000);
    let mut written = Seq(0);
    let refused = loop {
        let session = if written.0 < 8 { id(1) } else { id(2) };
        match journal.write(session, lines([&*big, &*big].map(str::to_owned))).await {
            Ok(last) if session == id(1) => written = last,
            Ok(_) => {}
            Err(error) => break error,
        }
        assert!(all(journal, id(2)).await.len() < 10_000, "it never filled");
    };
    assert!(matches!(refused, Error::Full), "{refused:?}");
    let before = all(journal, id(2)).await;
    assert_eq!(before.len() % 2, 0, "half a batch");
    let last = journal.session(id(2)).await.unwrap().unwrap().last;
    assert_eq!(last, Seq(before.len() as u64));

    // Even now a batch that fits is not harmed by one that does not.
    let too_big = journal.write(id(2), lines(vec!["y".repeat(60_000); 9]));
    let read = journal.session(id(1));
    let (too_big, read) = tokio::join!(too_big, read);
    assert!(matches!(too_big, Err(Error::Full)), "{too_big:?}");
    assert!(read.unwrap().is_some());

    make_room(journal).await;
    assert_eq!(journal.write(id(2), lines([big])).await.unwrap(), last.next());
    let after = all(journal, id(2)).await;
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), before.len() + 1);
    assert_eq!(journal.check().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn a_file_that_may_not_grow_refuses_whole_batches_and_goes_on_when_there_is_room() {
    let place = Place::new();
    let opening = Journal::open_with(&place.path(), Room(Some(200))).unwrap();
    fill_and_go_on(&opening.journal, async |journal| {
        journal.delete(id(1)).await.unwrap();
        journal.tidy().await.unwrap();
    })
    .await;
}

/// A real disk that is really full. Only Linux has file systems of any size at hand.
#[cfg(target_os = "linux")]
mod small_disk {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::fill_and_go_on;
    use crate::Journal;
    use crate::tests::Place;

    #[tokio::test]
    async fn a_full_disk_refuses_whole_batches_and_goes_on_when_there_is_room() {
        let place = Place::new();
        let Some(disk) = SmallDisk::mounted_at(place.folder.path()) else {
            eprintln!("skipped: only root may mount a small disk");
            return;
        };
        let ballast = place.folder.path().join("ballast");
        fs::write(&ballast, vec![0; 1 << 20]).unwrap();
        let journal = Journal::open(&place.path()).unwrap().journal;
        fill_and_go_on(&journal, async |_| fs::remove_file(&ballast).unwrap()).await;
        journal.close().await.unwrap();
        drop(disk);
    }

    /// A file system in memory, unmounted when dropped.
    struct SmallDisk<'a>(&'a Path);

    #[expect(clippy::disallowed_methods, reason = "mounting takes a program")]
    impl<'a> SmallDisk<'a> {
        fn mounted_at(path: &'a Path) -> Option<Self> {
            let mounted = Command::new("mount")
                .args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"])
                .arg(path)
                .stderr(std::process::Stdio::null())
                .status();
            mounted.is_ok_and(|status| status.success()).then_some(Self(path))
        }
    }

    impl Drop for SmallDisk<'_> {
        fn drop(&mut self) {
            #[expect(clippy::disallowed_methods, reason = "unmounting takes a program")]
            let unmounted = Command::new("umount").arg("-l").arg(self.0).status();
            assert!(unmounted.is_ok_and(|status| status.success()));
        }
    }
}
