//! Sessions: which there are, which is here.

use std::path::{Path, PathBuf};

use journal::{SessionId, SessionRecord, Status};
use session::Roots;
use view::telegram::{Mark, Text};

use super::{Said, cut, data};

/// How many are listed.
const MOST: usize = 10;

/// Characters of a title.
const TITLE: usize = 48;

/// The newest sessions, each with a button to have it here. `now` is in milliseconds since 1970.
pub fn sessions(
    records: &[SessionRecord],
    here: Option<SessionId>,
    roots: &Roots,
    now: u64,
) -> Said {
    if records.is_empty() {
        return "There are no sessions yet. Write something, and one begins.".into();
    }
    let mut newest: Vec<_> = records.iter().collect();
    newest.sort_by_key(|record| std::cmp::Reverse((record.active, record.id)));
    let mut said = Said::default();
    said.text.push_marked(Mark::Bold, "Sessions");
    for (record, number) in newest.iter().zip(1..).take(MOST) {
        let title = title(record);
        said.text.push(&format!("\n\n{number}. "));
        said.text.push_marked(Mark::Bold, &title);
        let mut parts = vec![
            short(&record.directory, roots),
            status(record.status).to_owned(),
            age(now.saturating_sub(record.active)),
        ];
        if here == Some(record.id) {
            parts.push("this one".to_owned());
        } else {
            said.buttons.push(vec![data::resume(format!("{number}. {title}"), record.id)]);
        }
        said.text.push(&format!("\n{} · ", parts.join(" · ")));
        said.text.push_marked(Mark::Code, &short_id(record.id));
    }
    if newest.len() > MOST {
        let more = newest.len() - MOST;
        said.text.push(&format!("\n\n… and {more} older: /resume with the beginning of an id."));
    }
    said
}

/// A new session is here.
pub fn begun(directory: &Path, roots: &Roots) -> Said {
    let mut text = Text::plain("New session in ");
    text.push_marked(Mark::Code, &short(directory, roots));
    text.push(". What shall be done?");
    text.into()
}

/// Another session is here.
pub fn resumed(record: &SessionRecord, roots: &Roots) -> Said {
    let mut text = Text::plain("This chat now shows ");
    text.push_marked(Mark::Bold, &title(record));
    text.push(&format!(", in {} ({}).", short(&record.directory, roots), status(record.status)));
    text.into()
}

/// No session begins so.
pub fn no_such_session(beginning: &str) -> Said {
    let mut text = Text::plain("No session’s id begins with ");
    text.push_marked(Mark::Code, &cut(beginning, 40));
    text.push(". /sessions shows them.");
    text.into()
}

/// Several sessions begin so.
pub fn ambiguous(beginning: &str) -> Said {
    let mut text = Text::plain("More than one session’s id begins with ");
    text.push_marked(Mark::Code, &cut(beginning, 40));
    text.push(". Give a letter or two more, or pick one from /sessions.");
    text.into()
}

/// Sessions may not work in that directory, or it is not there. Which of the two is not said.
pub fn not_a_root(directory: &str, roots: &Roots) -> Said {
    let mut text = Text::plain("I can’t work in ");
    text.push_marked(Mark::Code, &cut(directory, 200));
    text.push(". It has to be a directory that exists, in ");
    text.push(if roots.directories().len() == 1 { "this one:" } else { "one of these:" });
    for root in roots.directories() {
        text.push("\n• ");
        text.push_marked(Mark::Code, &root.display().to_string());
    }
    text.into()
}

fn title(record: &SessionRecord) -> String {
    let title = record.title.as_deref().map(|it| cut(it, TITLE)).filter(|it| !it.is_empty());
    title.unwrap_or_else(|| format!("Session {}", short_id(record.id)))
}

/// The beginning of an id, as `/resume` takes it.
fn short_id(id: SessionId) -> String {
    id.0.simple().to_string().chars().take(8).collect()
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Idle => "idle",
        Status::Running => "running",
        Status::Waiting => "waiting for you",
        Status::Dead => "resting",
        Status::Failed => "failed",
    }
}

/// A directory from the name of its root on.
pub(super) fn short(directory: &Path, roots: &Roots) -> String {
    let root = roots.directories().iter().find(|root| directory.starts_with(root));
    let base = root.and_then(|root| root.parent()).map(PathBuf::from);
    let rest = base.and_then(|base| directory.strip_prefix(base).ok().map(PathBuf::from));
    match rest {
        Some(rest) if rest != Path::new("") => rest.display().to_string(),
        _ => directory.display().to_string(),
    }
}

fn age(milliseconds: u64) -> String {
    let minutes = milliseconds / 60_000;
    match minutes {
        0 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..1440 => format!("{} h ago", minutes / 60),
        1440..2880 => "yesterday".to_owned(),
        _ => format!("{} days ago", minutes / 1440),
    }
}
