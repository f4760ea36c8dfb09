//! The word that whoever taps gets.

use session::machine::Answer;

use super::Said;

/// An answer was taken.
pub fn answered(answer: &Answer) -> Said {
    match answer {
        Answer::Allow { remember: Some(_), .. } => "Allowed, from here on",
        Answer::Allow { .. } => "Allowed",
        Answer::Deny { .. } => "Denied",
        Answer::Answers(_) => "Thanks, the agent has your answer",
    }
    .into()
}

/// Something went wrong that nobody foresaw.
pub fn fell_over() -> Said {
    "Something went wrong; the log on the machine says what. Please try again.".into()
}

/// The session that was shown here is deleted.
pub fn deleted() -> Said {
    "This session was deleted. The next message begins a new one; /sessions shows the others."
        .into()
}

/// A button under something that is not shown here any more.
pub fn too_old() -> String {
    "This button is too old.".to_owned()
}
