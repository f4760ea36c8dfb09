//! Which worker a new session is placed on. Pure.
//!
//! A worker that is named is taken if it is connected and has the directory, also if all its slots are in use: a
//! person has decided that. Otherwise only workers with a free slot count. Among them the one with the most free
//! slots is taken, then the one with the fewest sessions, then the first by name. A worker says only its roots, so
//! the directory may be missing there, and then the next one is asked.

use std::path::Path;

use session::{Placement, WorkerPresence, WorkerSummary};
use thiserror::Error;

/// Why a session cannot be placed, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    #[error("there is no worker `{0}`")]
    NoSuchWorker(String),
    #[error("worker `{0}` is away")]
    Away(String),
    #[error("worker `{worker}` is not in pool `{pool}`")]
    OtherPool { worker: String, pool: String },
    #[error("worker `{worker}` has no root directory with `{directory}`")]
    NoDirectory { worker: String, directory: String },
    #[error("no worker is connected")]
    NoWorker,
    #[error("no connected worker is in pool `{0}`")]
    NoPool(String),
    #[error("no connected worker has the directory `{0}`")]
    NoWorkerWithDirectory(String),
    #[error(
        "all slots of the workers with the directory `{0}` are in use; wait until a session has finished its \
         turn, or name a worker"
    )]
    NoFreeSlot(String),
}

/// The workers for a new session, the best one first. There is at least one.
pub fn place<'a>(
    workers: &'a [WorkerSummary],
    placement: &Placement,
    directory: &Path,
) -> Result<Vec<&'a WorkerSummary>, PlacementError> {
    if let Some(name) = &placement.worker {
        return Ok(vec![named(workers, name, placement.pool.as_deref(), directory)?]);
    }
    let is_connected = |it: &&WorkerSummary| it.presence == WorkerPresence::Connected;
    let mut fitting: Vec<_> = workers.iter().filter(is_connected).collect();
    if fitting.is_empty() {
        return Err(PlacementError::NoWorker);
    }
    if let Some(pool) = &placement.pool {
        fitting.retain(|it| it.pool.as_ref() == Some(pool));
        if fitting.is_empty() {
            return Err(PlacementError::NoPool(pool.clone()));
        }
    }
    fitting.retain(|it| has(it, directory));
    let shown = directory.display().to_string();
    if fitting.is_empty() {
        return Err(PlacementError::NoWorkerWithDirectory(shown));
    }
    let free = |it: &WorkerSummary| it.slots.saturating_sub(it.used);
    fitting.retain(|it| free(it) > 0);
    if fitting.is_empty() {
        return Err(PlacementError::NoFreeSlot(shown));
    }
    fitting.sort_by_key(|it| (u32::MAX - free(it), it.sessions, it.name.clone()));
    Ok(fitting)
}

fn named<'a>(
    workers: &'a [WorkerSummary],
    name: &str,
    pool: Option<&str>,
    directory: &Path,
) -> Result<&'a WorkerSummary, PlacementError> {
    let found = workers.iter().find(|it| it.name == name);
    let worker = found.ok_or_else(|| PlacementError::NoSuchWorker(name.to_owned()))?;
    if worker.presence != WorkerPresence::Connected {
        return Err(PlacementError::Away(name.to_owned()));
    }
    if let Some(pool) = pool.filter(|pool| worker.pool.as_deref() != Some(pool)) {
        let (worker, pool) = (name.to_owned(), pool.to_owned());
        return Err(PlacementError::OtherPool { worker, pool });
    }
    if !has(worker, directory) {
        let directory = directory.display().to_string();
        return Err(PlacementError::NoDirectory { worker: name.to_owned(), directory });
    }
    Ok(worker)
}

/// Whether sessions of a worker may work in a directory, as far as its name says.
fn has(worker: &WorkerSummary, directory: &Path) -> bool {
    worker.roots.iter().any(|root| directory.starts_with(root))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use session::{Placement, WorkerPresence, WorkerSummary};

    use super::{PlacementError, place};

    /// `name/pool used/slots sessions`, connected, with the root `/src`.
    fn worker(text: &str) -> WorkerSummary {
        let words: Vec<&str> = text.split([' ', '/']).collect();
        WorkerSummary {
            name: words[0].to_owned(),
            pool: Some(words[1].to_owned()).filter(|it| it != "-"),
            used: words[2].parse().unwrap(),
            slots: words[3].parse().unwrap(),
            sessions: words[4].parse().unwrap(),
            roots: vec!["/src".into()],
            version: None,
            presence: WorkerPresence::Connected,
        }
    }

    fn wish(worker: Option<&str>, pool: Option<&str>) -> Placement {
        let [worker, pool] = [worker, pool].map(|it| it.map(str::to_owned));
        Placement { worker, pool, new_worktree: None }
    }

    #[test]
    fn the_least_loaded_workers_with_the_directory_come_first() {
        let check = |workers: &[&str], expected: &[&str]| {
            let workers: Vec<_> = workers.iter().map(|it| worker(it)).collect();
            let placed = place(&workers, &Placement::default(), Path::new("/src/a")).unwrap();
            let names: Vec<_> = placed.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(names, expected);
        };
        check(&["a/- 2/4 0", "b/- 1/4 9", "c/- 3/4 0"], &["b", "a", "c"]);
        check(&["a/- 0/4 2", "b/- 0/4 1", "c/- 0/4 1"], &["b", "c", "a"]);
        check(&["a/- 4/4 0", "b/- 9/4 0", "c/- 3/4 7"], &["c"]);
    }

    #[test]
    fn a_wish_is_met_or_refused_in_words() {
        let mut workers =
            vec![worker("a/linux 4/4 9"), worker("b/mac 0/4 0"), worker("c/mac 1/4 0")];
        workers[2].presence = WorkerPresence::Away { since: Some(7) };
        let directory = Path::new("/src");
        let placed = |wish: &Placement, directory: &Path| {
            place(&workers, wish, directory)
                .map(|it| it[0].name.as_str())
                .map_err(|it| it.to_string())
        };
        // A named worker is taken although it has no free slot.
        assert_eq!(placed(&wish(Some("a"), None), directory), Ok("a"));
        assert_eq!(placed(&wish(None, Some("mac")), directory), Ok("b"));
        let refused = [
            (wish(None, Some("linux")), "/src", "all slots"),
            (wish(None, None), "/etc", "no connected worker has the directory `/etc`"),
            (wish(None, Some("arm")), "/src", "no connected worker is in pool `arm`"),
            (wish(Some("b"), Some("linux")), "/src", "worker `b` is not in pool `linux`"),
            (wish(Some("b"), None), "/srcs", "worker `b` has no root directory with `/srcs`"),
            (wish(Some("c"), None), "/src", "worker `c` is away"),
            (wish(Some("d"), None), "/src", "there is no worker `d`"),
        ];
        for (wish, directory, words) in refused {
            let error = placed(&wish, Path::new(directory)).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let none = place(&[], &Placement::default(), directory);
        assert_eq!(none, Err(PlacementError::NoWorker));
    }
}
