//! Files of sessions, with a working tree that is a text.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use journal::{Batch, SessionChange, SessionId, SessionRecord};

use super::{TestGateway, TestOptions, TestWorker, spec};
use crate::bus::Bus as _;
use crate::bus::memory::MemoryServers;
use crate::files::{self, FileParts, FilesFuture, RestoredFiles, SavedFiles, SessionFiles};
use crate::mirror::tests::TIMEOUT;

/// A working tree that is its content and its version. Clones are the same tree.
#[derive(Clone, Debug, Default)]
struct TestTree {
    content: Arc<Mutex<String>>,
}

impl TestTree {
    fn set(&self, content: &str) {
        content.clone_into(&mut self.content.lock().unwrap());
    }

    fn content(&self) -> String {
        self.content.lock().unwrap().clone()
    }
}

impl SessionFiles for TestTree {
    fn save(
        &self,
        _session: SessionRecord,
        stored_tree: Option<String>,
    ) -> FilesFuture<'_, SavedFiles> {
        let content = self.content();
        let is_stored = stored_tree.as_ref() == Some(&content);
        let tree = (!is_stored).then(|| content.clone().into());
        let parts = FileParts { transcript: None, tree };
        let saved = SavedFiles { parts, tree_version: Some(content), problems: Vec::new() };
        Box::pin(std::future::ready(saved))
    }

    fn restore(&self, session: SessionRecord, saved: FileParts) -> FilesFuture<'_, RestoredFiles> {
        self.set(std::str::from_utf8(&saved.tree.unwrap_or_default()).unwrap());
        let directory = session.directory;
        Box::pin(std::future::ready(RestoredFiles { directory, problems: Vec::new() }))
    }
}

async fn start(servers: &MemoryServers, name: &str, tree: &TestTree) -> TestWorker {
    let files = Some(Arc::new(tree.clone()) as _);
    TestWorker::start_as(servers, name, TestOptions { slots: 2, takeover: None, files }).await
}

/// Ends a turn, as an agent does.
async fn end_turn(worker: &TestWorker, session: SessionId, turn: u64) {
    let change = SessionChange { turn: Some(turn), turn_ended: Some(turn), ..Default::default() };
    let batch = Batch { at: 2000, change, ..Batch::default() };
    worker.sessions.journal().write(session, batch).await.unwrap();
}

/// Waits until the servers have a tree.
async fn until_stored(servers: &MemoryServers, session: SessionId, turn: u64, tree: &str) {
    let bus = servers.connect();
    let wait = async {
        loop {
            let (parts, _) = files::load(&bus, session, 0).await;
            let stored = bus.get_object(&format!("files/{session}/turn")).await.unwrap();
            let is_turn = stored.is_some_and(|it| it == turn.to_string());
            if is_turn && parts.tree.is_some_and(|it| it == tree) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, wait).await.expect("the tree is stored");
}

#[tokio::test]
async fn a_tree_whose_turn_ended_while_the_servers_were_away_is_there_after_a_take_over() {
    let servers = MemoryServers::default();
    let (tree, other) = (TestTree::default(), TestTree::default());
    let first = start(&servers, "w1", &tree).await;
    let _second = start(&servers, "w2", &other).await;
    let gateway = TestGateway::start(&servers, 2).await;
    let id = gateway.sessions.create(spec(first.directory.path(), None)).await.unwrap().id();
    tree.set("one");
    end_turn(&first, id, 1).await;
    until_stored(&servers, id, 1, "one").await;

    let mut refused = first.bus.refused_objects();
    first.bus.set_cut(true);
    tree.set("two");
    end_turn(&first, id, 2).await;
    tokio::time::timeout(TIMEOUT, refused.changed()).await.unwrap().unwrap();
    first.bus.set_cut(false);
    until_stored(&servers, id, 2, "two").await;
    first.task.abort();
    gateway.sessions.move_to(id, "w2".to_owned()).await.unwrap();
    assert_eq!(other.content(), "two");
}

#[tokio::test]
async fn what_was_saved_before_the_last_turn_is_said_to_be_older() {
    let servers = MemoryServers::default();
    let bus = servers.connect();
    let session = SessionId(uuid::Uuid::from_u128(1));
    let parts = || FileParts { transcript: None, tree: Some("tree".into()) };
    let outcome = files::store(&bus, session, 3, parts()).await;
    assert_eq!((outcome.problems.len(), outcome.unreachable.len()), (0, 0));
    assert_eq!(files::load(&bus, session, 3).await, (parts(), Vec::new()));
    let (_, problems) = files::load(&bus, session, 5).await;
    assert!(problems.len() == 1 && problems[0].contains("after turn 3"), "{problems:?}");
    bus.set_cut(true);
    let outcome = files::store(&bus, session, 4, parts()).await;
    assert_eq!((outcome.problems.len(), outcome.unreachable.len()), (0, 1));
}
