//! Where a session begins: afresh, where another ended, or as its fork.

use serde_json::Value;

use super::ids::Ids;
use super::session::{Past, restore};
use super::store::{self, Store};
use super::surroundings::Surroundings;
use super::{Arguments, Refusal};

/// The id to play under, and what to go on from.
pub(super) fn beginning(
    arguments: &Arguments,
    around: &Surroundings,
) -> Result<(String, Past, Option<String>), Refusal> {
    let (home, cwd) = (&around.home, &around.cwd);
    let fresh = || arguments.session_id.clone().unwrap_or_else(|| Ids::random().uuid());
    let found = match &arguments.resume {
        Some(id) => {
            let Some(path) = store::find(home, cwd, id) else {
                let error = format!("No conversation found with session ID: {id}");
                return Ok((Ids::random().uuid(), Past::default(), Some(error)));
            };
            Some(path)
        }
        None if arguments.continue_latest => store::latest(home, cwd),
        None => None,
    };
    let Some(path) = found else {
        if let Some(id) = &arguments.session_id
            && store::find(home, cwd, id).is_some()
        {
            return Err(Refusal(format!("Error: Session ID {id} is already in use.")));
        }
        return Ok((fresh(), Past::default(), None));
    };
    let lines = store::read(&path).unwrap_or_default();
    let past = restore(&lines, arguments.resume_at.as_deref());
    let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    if !arguments.fork {
        return Ok((id.unwrap_or_else(fresh), past, None));
    }
    let id = fresh();
    if !arguments.forget {
        copy(&lines, arguments.resume_at.as_deref(), around, &id);
    }
    Ok((id, past, None))
}

/// A fork begins with what it was forked from.
fn copy(lines: &[Value], until: Option<&str>, around: &Surroundings, id: &str) {
    let mut store = Store::new(&around.home, &around.cwd);
    for line in lines {
        let mut line = line.clone();
        line["sessionId"] = id.into();
        drop(store.append(id, &line));
        if until.is_some_and(|until| line["uuid"] == until) {
            break;
        }
    }
}
