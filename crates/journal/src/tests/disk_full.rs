//! A full disk.

use super::{TestJournal, all, id, lines, new_session};
use crate::connection::PageLimit;
use crate::{Error, Journal, Seq, StateChange};

/// Fills the journal until it is full, and checks that it has nothing of the rejected batch and goes
/// on once there is space.
async fn fill_and_continue(journal: &Journal, free_space: impl AsyncFnOnce(&Journal)) {
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

    // Even now a small change of the same transaction is stored.
    let too_big = journal.write(id(2), lines(vec!["y".repeat(60_000); 9]));
    let change = StateChange { key: "k".to_owned(), value: Some(b"small".to_vec()) };
    let small = journal.write_state("follower", vec![change]);
    let (too_big, small) = tokio::join!(too_big, small);
    assert!(matches!(too_big, Err(Error::Full)), "{too_big:?}");
    small.unwrap();
    let stored = journal.read_state("follower").await.unwrap();
    assert_eq!(stored, [("k".to_owned(), b"small".to_vec())]);
    assert_eq!(all(journal, id(2)).await, before);

    free_space(journal).await;
    assert_eq!(journal.write(id(2), lines([big])).await.unwrap(), last.next());
    let after = all(journal, id(2)).await;
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), before.len() + 1);
    assert_eq!(journal.check().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn a_file_at_its_limit_rejects_whole_batches_and_continues_when_there_is_space() {
    let files = TestJournal::new();
    let opened = Journal::open_with(&files.path(), PageLimit(Some(200))).unwrap();
    fill_and_continue(&opened.journal, async |journal| {
        journal.delete(id(1)).await.unwrap();
        journal.finish_maintenance().await.unwrap();
    })
    .await;
}

/// A real file system that is full. Only Linux can mount one of any size in memory.
#[cfg(target_os = "linux")]
mod small_disk {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::fill_and_continue;
    use crate::Journal;
    use crate::tests::TestJournal;

    #[tokio::test]
    async fn a_full_disk_rejects_whole_batches_and_continues_when_there_is_space() {
        let files = TestJournal::new();
        let Some(disk) = SmallDisk::mounted_at(files.folder.path()) else {
            eprintln!("skipped: only root may mount a small disk");
            return;
        };
        let filler = files.folder.path().join("filler");
        fs::write(&filler, vec![0; 1 << 20]).unwrap();
        let journal = Journal::open(&files.path()).unwrap().journal;
        fill_and_continue(&journal, async |_| fs::remove_file(&filler).unwrap()).await;
        journal.close().await.unwrap();
        drop(disk);
    }

    /// A small file system in memory, unmounted when dropped.
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
