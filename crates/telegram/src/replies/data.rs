//! What buttons under replies carry.
//!
//! A letter, a colon and what is chosen. None of it is secret, and none of it does anything that
//! its sender could not write as a command; who taps is on the list like who writes. Buttons of
//! cards carry something else, which never has a colon in its second place.

use journal::SessionId;
use uuid::Uuid;

use crate::call::Button;
use crate::chat::Meaning;
use crate::front::Command;

/// Bytes a button can carry.
const MOST: usize = 64;

/// What a tap on a button under a reply means; nothing where it is under something else.
pub fn meaning(data: &str) -> Option<Meaning> {
    let (letter, what) = data.split_once(':')?;
    let name = || (!what.is_empty()).then(|| what.to_owned());
    match letter {
        "r" => what.parse().ok().map(|id| Meaning::Resume(SessionId(id))),
        "q" => what.parse().ok().map(Meaning::Unqueue),
        "m" => name().map(|it| Meaning::Command(Command::Model(Some(it)))),
        "p" => name().map(|it| Meaning::Command(Command::Mode(Some(it)))),
        "v" => what
            .parse()
            .ok()
            .filter(|level| *level <= 2)
            .map(|level| Meaning::Command(Command::Verbose(Some(level)))),
        _ => None,
    }
}

/// A button that has the place show a session.
pub(super) fn resume(label: String, session: SessionId) -> Button {
    Button { label, data: format!("r:{}", session.0.simple()) }
}

/// A button that takes a prompt back.
pub(super) fn unqueue(label: String, prompt: Uuid) -> Button {
    Button { label, data: format!("q:{}", prompt.simple()) }
}

/// A button that chooses a model; none where the name is too long for one.
pub(super) fn model(label: String, name: &str) -> Option<Button> {
    fitting(label, format!("m:{name}"))
}

/// A button that chooses a permission mode.
pub(super) fn mode(label: String, name: &str) -> Option<Button> {
    fitting(label, format!("p:{name}"))
}

/// A button that chooses how much is told.
pub(super) fn verbosity(label: String, level: u8) -> Button {
    Button { label, data: format!("v:{level}") }
}

fn fitting(label: String, data: String) -> Option<Button> {
    (data.len() <= MOST).then_some(Button { label, data })
}
