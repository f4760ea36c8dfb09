//! Tells workers which of their sessions someone looks at, so that they ship streamed text at once.
//!
//! Someone looks at a session while the mirror of a gateway has a follower of it: a page, a program, an editor
//! or a chat. What a worker was told expires, so a gateway that dies needs no goodbye.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use journal::SessionId;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;

use crate::bus::Bus;
use crate::mirror::Mirror;
use crate::question::{WorkerQuestion, decode_answer};

/// How long a worker takes a session as looked at, and how often it is told again.
pub(crate) const LIFETIME: Duration = Duration::from_secs(15);
const RENEWAL: Duration = Duration::from_secs(5);

/// How long a worker may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How many sessions a question names.
const QUESTION_SESSIONS: usize = 1000;

/// Tells workers until it is dropped. Without followers it waits for the first one.
pub(crate) async fn announce(bus: Arc<dyn Bus>, mirror: Mirror) {
    let journal = mirror.journal().clone();
    let mut changes = journal.followed_changes();
    let mut told = HashMap::new();
    let mut questions = JoinSet::new();
    loop {
        changes.borrow_and_update();
        let followed = journal.followed_sessions();
        let owner = |id: &SessionId| Some((*id, mirror.cursor(*id)?.owner()?.0.name.clone()));
        let looked_at = followed.iter().filter_map(owner).collect();
        for (worker, sessions) in due(&mut told, looked_at, Instant::now()) {
            for part in sessions.chunks(QUESTION_SESSIONS) {
                let question = WorkerQuestion::Watched { sessions: part.to_vec() };
                questions.spawn(tell(Arc::clone(&bus), worker.clone(), question));
            }
        }
        while questions.try_join_next().is_some() {}
        tokio::select! {
            change = changes.changed() => if change.is_err() { return },
            () = tokio::time::sleep(RENEWAL), if !followed.is_empty() => {}
        }
    }
}

/// The sessions that must be named again, by worker. `told` is what each session's worker was told last.
fn due(
    told: &mut HashMap<SessionId, (String, Instant)>,
    owned: HashMap<SessionId, String>,
    now: Instant,
) -> BTreeMap<String, Vec<SessionId>> {
    told.retain(|session, _| owned.contains_key(session));
    let mut due: BTreeMap<String, Vec<SessionId>> = BTreeMap::new();
    for (session, worker) in owned {
        let known = told.get(&session);
        if known.is_some_and(|(to, at)| *to == worker && now < *at + RENEWAL) {
            continue;
        }
        told.insert(session, (worker.clone(), now));
        due.entry(worker).or_default().push(session);
    }
    due
}

/// A worker that cannot be told ships at its own pace, and is told again soon.
async fn tell(bus: Arc<dyn Bus>, worker: String, question: WorkerQuestion) {
    let answer = bus.ask(&worker, question.encode(), ANSWER_TIMEOUT).await;
    match answer.map(|answer| decode_answer(&answer)) {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => debug!(worker, %error, "a worker does not know who looks"),
        Err(error) => debug!(worker, %error, "a worker could not be told who looks"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tokio::time::Instant;

    use super::{RENEWAL, due};
    use crate::mirror::tests::id;

    #[test]
    fn a_worker_is_told_at_once_and_again_and_so_is_the_next_owner() {
        let mut told = HashMap::new();
        let start = Instant::now();
        let owned = |owners: &[(u128, &str)]| {
            owners.iter().map(|(it, name)| (id(*it), (*name).to_owned())).collect()
        };
        let first = due(&mut told, owned(&[(1, "a"), (2, "b")]), start);
        assert_eq!(
            first.into_iter().collect::<Vec<_>>(),
            [("a".to_owned(), vec![id(1)]), ("b".to_owned(), vec![id(2)])]
        );
        let soon = start + RENEWAL / 2;
        assert!(due(&mut told, owned(&[(1, "a"), (2, "b")]), soon).is_empty());
        let moved = due(&mut told, owned(&[(1, "b")]), soon);
        assert_eq!(moved.into_iter().collect::<Vec<_>>(), [("b".to_owned(), vec![id(1)])]);
        // The follower of the second session was away for a moment.
        let back = due(&mut told, owned(&[(1, "b"), (2, "b")]), soon);
        assert_eq!(back.into_iter().collect::<Vec<_>>(), [("b".to_owned(), vec![id(2)])]);
        assert_eq!(due(&mut told, owned(&[(1, "b"), (2, "b")]), soon + RENEWAL).len(), 1);
    }
}
