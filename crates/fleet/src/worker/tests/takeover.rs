//! Sessions that change their workers.

use std::sync::Arc;
use std::time::Duration;

use journal::{Batch, Journal, NewEntry, Origin, Seq, SessionId};
use session::Sessions;
use wire::note::Note;

use super::{TestGateway, TestWorker, connect, copy_files, prompt, sessions_config, spec};
use crate::bus::memory::MemoryServers;
use crate::bus::{Bus as _, Expected, KeyTable};
use crate::mirror::tests::{TIMEOUT, spawn, worker_id};
use crate::pack::{NewPack, Pack, PackKind};
use crate::question::{WorkerFailure, WorkerQuestion, decode_answer};
use crate::worker::takeover::RELEASE_TIMEOUT;

async fn notes(journal: &Journal, session: SessionId) -> Vec<Note> {
    let entries = journal.read(session, Seq(0), 10_000).await.unwrap();
    let ours = entries.iter().filter(|it| it.origin == Origin::Towpath);
    ours.filter_map(|it| Note::read(&it.bytes)).collect()
}

/// Waits until the gateway has a note.
async fn until_note(gateway: &TestGateway, session: SessionId, is_it: impl Fn(&Note) -> bool) {
    let journal = gateway.sessions.journal();
    let mut follower = journal.follow(session, Seq(0));
    let wait = async {
        while !notes(journal, session).await.iter().any(&is_it) {
            follower.next().await.unwrap();
        }
    };
    tokio::time::timeout(TIMEOUT, wait).await.expect("the note comes");
}

#[tokio::test]
async fn a_session_of_a_worker_that_is_gone_goes_on_with_everything_that_was_confirmed() {
    let servers = MemoryServers::default();
    let first = TestWorker::start(&servers, "w1", 2).await;
    let second = TestWorker::start(&servers, "w2", 2).await;
    let gateway = TestGateway::start(&servers, 2).await;
    let session = gateway.sessions.create(spec(first.directory.path(), None)).await.unwrap();
    let id = session.id();
    session.prompt(prompt(7)).await.unwrap();
    first.stop().await;
    let refused = gateway.sessions.move_to(id, "w3".to_owned()).await.unwrap_err().to_string();
    assert!(refused.contains("`w3` is not connected"), "{refused}");
    for _ in 0..2 {
        // The same again changes nothing.
        gateway.sessions.move_to(id, "w2".to_owned()).await.unwrap();
    }
    assert_eq!(gateway.fleet.owner(id).as_deref(), Some("w2"));
    let prompts = second.sessions.journal().prompts(id).await.unwrap();
    assert_eq!(prompts.len(), 1);
    session.prompt(prompt(8)).await.unwrap();
    assert_eq!(second.sessions.journal().prompts(id).await.unwrap().len(), 2);
    let taken = notes(gateway.sessions.journal(), id).await.into_iter();
    let taken: Vec<Note> = taken.filter(|it| matches!(it, Note::TakenOver { .. })).collect();
    let expected = Note::TakenOver { from: "w1".to_owned(), to: "w2".to_owned(), released: false };
    assert_eq!(taken, [expected]);
}

#[tokio::test]
async fn a_session_of_a_connected_worker_is_given_away_whole() {
    let servers = MemoryServers::default();
    let first = TestWorker::start(&servers, "w1", 2).await;
    let second = TestWorker::start(&servers, "w2", 2).await;
    let gateway = TestGateway::start(&servers, 2).await;
    let session = gateway.sessions.create(spec(first.directory.path(), None)).await.unwrap();
    let id = session.id();
    session.prompt(prompt(7)).await.unwrap();
    for (to, from) in [("w2", "w1"), ("w1", "w2"), ("w2", "w1")] {
        gateway.sessions.move_to(id, to.to_owned()).await.unwrap();
        assert_eq!(gateway.fleet.owner(id).as_deref(), Some(to));
        until_note(&gateway, id, |it| {
            matches!(it, Note::TakenOver { from: was, to: is, released: true } if was == from && is == to)
        })
        .await;
    }
    assert_eq!(first.sessions.journal().session(id).await.unwrap(), None);
    assert_eq!(second.sessions.journal().prompts(id).await.unwrap().len(), 1);
    assert_eq!(gateway.sessions.problem(id), None);
    gateway.sessions.delete(id).await.unwrap();
}

#[tokio::test]
async fn of_several_workers_one_takes_a_session_over() {
    let servers = MemoryServers::default();
    let gone = TestWorker::start(&servers, "gone", 2).await;
    let mut takers = Vec::new();
    for name in ["a", "b", "c"] {
        takers.push(TestWorker::start(&servers, name, 2).await);
    }
    let gateway = TestGateway::start(&servers, 4).await;
    for round in 0..5 {
        let session = gateway.sessions.create(spec(gone.directory.path(), None)).await.unwrap();
        let id = session.id();
        if round == 4 {
            gone.task.abort();
        }
        let bus = servers.connect();
        let ask = |name: &'static str| {
            let question = WorkerQuestion::TakeOver { session: id }.encode();
            bus.ask(name, question, TIMEOUT)
        };
        let (a, b, c) = tokio::join!(ask("a"), ask("b"), ask("c"));
        let answers = [a, b, c].map(|it| decode_answer(&it.unwrap()));
        // A loser may have found the winner and taken the session from it: that is a move.
        let has_it = |it: &&TestWorker| it.sessions.open_sessions().iter().any(|it| it.id() == id);
        assert!(answers.iter().any(Result::is_ok), "{answers:?}");
        for answer in &answers {
            let is_expected = matches!(
                answer,
                Ok(_) | Err(WorkerFailure::NotOwner { .. } | WorkerFailure::Moving)
            );
            assert!(is_expected, "{answers:?}");
        }
        assert_eq!(takers.iter().filter(has_it).count(), 1, "{answers:?}");
    }
}

#[tokio::test]
async fn what_a_worker_recorded_without_knowing_is_shown_once_as_its_tail() {
    let servers = MemoryServers::default();
    let first = TestWorker::start(&servers, "w1", 2).await;
    let second = TestWorker::start(&servers, "w2", 2).await;
    let gateway = TestGateway::start(&servers, 2).await;
    let session = gateway.sessions.create(spec(first.directory.path(), None)).await.unwrap();
    let id = session.id();
    first.bus.set_cut(true);
    let direct = first.sessions.open(id).await.unwrap();
    direct.prompt(prompt(5)).await.unwrap();
    gateway.sessions.move_to(id, "w2".to_owned()).await.unwrap();
    assert_eq!(second.sessions.journal().prompts(id).await.unwrap(), []);
    session.prompt(prompt(6)).await.unwrap();

    first.bus.set_cut(false);
    let is_tail = |it: &Note| matches!(it, Note::Tail { worker, text, .. } if worker == "w1" && text.contains("ann: do it"));
    until_note(&gateway, id, is_tail).await;
    assert_eq!(first.sessions.journal().session(id).await.unwrap(), None);
    let prompts = gateway.sessions.journal().prompts(id).await.unwrap();
    assert_eq!(prompts.iter().map(|it| it.id.as_u128()).collect::<Vec<_>>(), [6]);
    let tails = notes(gateway.sessions.journal(), id).await;
    assert_eq!(tails.iter().filter(|it| is_tail(it)).count(), 1);
}

/// The files with the lines of tails.
fn tail_files(worker: &TestWorker) -> Vec<String> {
    let found = std::fs::read_dir(worker.directory.path().join("tails"));
    let files = found.into_iter().flatten().map(|it| it.unwrap().path());
    files.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Writes a line of the agent.
async fn say(worker: &TestWorker, session: SessionId, line: String) {
    let entry = NewEntry { origin: Origin::Agent, bytes: line.into(), transient: false };
    let batch = Batch { at: 2000, entries: vec![entry], ..Batch::default() };
    worker.sessions.journal().write(session, batch).await.unwrap();
}

#[tokio::test]
async fn a_tail_has_all_lines_that_were_not_sent_and_none_that_were() {
    let servers = MemoryServers::default();
    let first = TestWorker::start(&servers, "w1", 2).await;
    let _second = TestWorker::start(&servers, "w2", 2).await;
    let gateway = TestGateway::start(&servers, 2).await;
    let session = gateway.sessions.create(spec(first.directory.path(), None)).await.unwrap();
    let id = session.id();
    first.bus.set_cut(true);
    // More than is read at once, and nothing that a person could read.
    let large = "x".repeat(3 << 20);
    for number in 0..4 {
        say(&first, id, format!(r#"{{"number":{number},"large":"{large}"}}"#)).await;
    }
    // The first was stored, and the confirmation was lost.
    let bus = servers.connect();
    let end = bus.last(id).await.unwrap().unwrap();
    let owner = Pack::decode(end.payload).unwrap().header;
    let rows = first.sessions.journal().read_outbox(id, 1).await.unwrap().rows;
    let stored = NewPack::of_changes(id, owner.epoch, owner.worker, &rows).unwrap();
    bus.append(id, end.position, stored.payload).await.unwrap();
    gateway.sessions.move_to(id, "w2".to_owned()).await.unwrap();

    first.bus.set_cut(false);
    let is_tail =
        |it: &Note| matches!(it, Note::Tail { text, .. } if text.contains("3 lines without text"));
    until_note(&gateway, id, is_tail).await;
    let files = tail_files(&first);
    assert_eq!(files.len(), 1);
    let numbers: Vec<&str> = files[0].lines().map(|line| &line[..11]).collect();
    assert_eq!(numbers, [r#"{"number":1"#, r#"{"number":2"#, r#"{"number":3"#]);
    assert!(files[0].lines().all(|line| line.len() > large.len()));
}

#[tokio::test]
async fn what_a_machine_said_beside_its_restored_backup_is_kept_as_a_tail() {
    let servers = MemoryServers::default();
    let first = TestWorker::start(&servers, "w1", 2).await;
    let gateway = TestGateway::start(&servers, 1).await;
    let id = gateway.sessions.create(spec(first.directory.path(), None)).await.unwrap().id();
    let backup = tempfile::tempdir().unwrap();
    copy_files(first.directory.path(), backup.path());
    first.bus.set_cut(true);
    say(&first, id, r#"{"said":"by the old process"}"#.to_owned()).await;

    let journal = Journal::open(&backup.path().join("journal.db")).unwrap().journal;
    let sessions = Sessions::new(sessions_config(backup.path()), journal.clone());
    let bus = Arc::new(servers.connect());
    let second = connect(&bus, &sessions, backup.path(), "w1", 2).await.unwrap();
    second.settle().await.unwrap();
    let running = spawn(second.run(std::future::pending()));
    for number in 0..3 {
        let bytes = format!(r#"{{"restored":{number}}}"#).into();
        let entry = NewEntry { origin: Origin::Agent, bytes, transient: false };
        let batch = Batch { at: 2000, entries: vec![entry], ..Batch::default() };
        journal.write(id, batch).await.unwrap();
    }
    let last = journal.change_number(id).await.unwrap();
    let shipped = async {
        while Pack::decode(bus.last(id).await.unwrap().unwrap().payload).unwrap().header.last < last
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, shipped).await.expect("it is shipped");
    drop(running);

    // Its next number is in the log already, with something else.
    first.bus.set_cut(false);
    until_note(&gateway, id, |it| matches!(it, Note::Tail { worker, .. } if worker == "w1")).await;
    assert_eq!(tail_files(&first), ["{\"said\":\"by the old process\"}\n"]);
    let lines = first.sessions.journal().read(id, Seq(0), 10_000).await.unwrap();
    assert_eq!(lines.iter().filter(|it| it.bytes.starts_with(b"{\"restored\"")).count(), 3);
}

#[tokio::test]
async fn a_copy_whose_tail_cannot_be_kept_stays_until_it_can() {
    let servers = MemoryServers::default();
    let first = TestWorker::start(&servers, "w1", 2).await;
    let _second = TestWorker::start(&servers, "w2", 2).await;
    let gateway = TestGateway::start(&servers, 2).await;
    let session = gateway.sessions.create(spec(first.directory.path(), None)).await.unwrap();
    let id = session.id();
    first.bus.set_cut(true);
    say(&first, id, r#"{"said":1}"#.to_owned()).await;
    gateway.sessions.move_to(id, "w2".to_owned()).await.unwrap();
    // A file where the directory should be.
    let place = first.directory.path().join("tails");
    std::fs::write(&place, "in the way").unwrap();
    first.bus.set_cut(false);
    let fenced = async {
        let question = WorkerQuestion::Rename { session: id, title: "x".to_owned() }.encode();
        while !matches!(
            decode_answer(&servers.connect().ask("w1", question.clone(), TIMEOUT).await.unwrap()),
            Err(WorkerFailure::NotOwner { .. })
        ) {}
    };
    tokio::time::timeout(TIMEOUT, fenced).await.expect("it learns that it was replaced");
    assert!(first.sessions.journal().session(id).await.unwrap().is_some(), "nothing is lost");
    std::fs::remove_file(&place).unwrap();
    until_note(&gateway, id, |it| matches!(it, Note::Tail { .. })).await;
    assert_eq!(tail_files(&first), ["{\"said\":1}\n"]);
    assert_eq!(first.sessions.journal().session(id).await.unwrap(), None);
}

#[tokio::test]
async fn a_worker_that_gives_a_session_away_too_late_gives_its_copy_up() {
    let servers = MemoryServers::default();
    let worker = TestWorker::start(&servers, "w1", 2).await;
    let gateway = TestGateway::start(&servers, 1).await;
    let id = gateway.sessions.create(spec(worker.directory.path(), None)).await.unwrap().id();
    let bus = servers.connect();
    let end = bus.last(id).await.unwrap().unwrap();
    let header = Pack::decode(end.payload).unwrap().header;
    let own = NewPack::without_changes(PackKind::Own, 2, worker_id(2), header.last);
    bus.append(id, end.position, own.payload).await.unwrap();
    let question = WorkerQuestion::Release { session: id }.encode();
    let answer = decode_answer(&bus.ask("w1", question, TIMEOUT).await.unwrap());
    assert_eq!(answer, Err(WorkerFailure::NotOwner { owner: "w2".to_owned() }));
    assert_eq!(worker.sessions.journal().session(id).await.unwrap(), None);
}

#[tokio::test]
async fn a_session_of_a_machine_that_was_installed_again_is_taken_over_by_it_at_once() {
    let servers = MemoryServers::default();
    let old = TestWorker::start(&servers, "w1", 2).await;
    let gateway = TestGateway::start(&servers, 1).await;
    let id = gateway.sessions.create(spec(old.directory.path(), None)).await.unwrap().id();
    old.stop().await;
    let _new = TestWorker::start(&servers, "w1", 2).await;
    let question = WorkerQuestion::TakeOver { session: id }.encode();
    // Asking itself to give the session away would take longer.
    let bus = servers.connect();
    let answer = bus.ask("w1", question, RELEASE_TIMEOUT / 2).await.unwrap();
    assert!(decode_answer(&answer).is_ok());
}

#[tokio::test]
async fn sessions_of_a_worker_that_stays_away_are_taken_over_if_that_is_wanted() {
    let servers = MemoryServers::default();
    let after = Some(Duration::from_secs(1));
    let gone = TestWorker::start_with(&servers, "gone", 2, after).await;
    let _careful = TestWorker::start(&servers, "careful", 9).await;
    let _full = TestWorker::start_with(&servers, "full", 0, after).await;
    let _free = TestWorker::start_with(&servers, "free", 2, after).await;
    let gateway = TestGateway::start(&servers, 4).await;
    let session = gateway.sessions.create(spec(gone.directory.path(), None)).await.unwrap();
    let id = session.id();
    session.prompt(prompt(7)).await.unwrap();
    // In a large fleet, leases are renewed all the time.
    let bus = servers.connect();
    let _renewals = spawn(async move {
        loop {
            let put = bus.put(KeyTable::Workers, "other", "{}".into(), Expected::Anything, None);
            put.await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    gone.stop().await;
    until_note(&gateway, id, |it| matches!(it, Note::TakenOver { to, .. } if to == "free")).await;
    assert_eq!(gateway.fleet.owner(id).as_deref(), Some("free"));
}

#[tokio::test]
async fn a_worker_that_cannot_reach_the_fleet_ends_its_agents_before_others_take_over() {
    let servers = MemoryServers::default();
    let alone = TestWorker::start_with(&servers, "alone", 2, Some(Duration::from_secs(4))).await;
    let other = TestWorker::start(&servers, "other", 2).await;
    let gateway = TestGateway::start(&servers, 2).await;
    for worker in [&alone, &other] {
        let created = gateway.sessions.create(spec(worker.directory.path(), None)).await.unwrap();
        created.prompt(prompt(1)).await.unwrap();
        worker.bus.set_cut(true);
    }
    let wait = async {
        while !alone.sessions.open_sessions().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, wait).await.expect("its agents are ended");
    assert_eq!(other.sessions.open_sessions().len(), 1, "without the policy, they go on");
}
