//! Replies of one line.

use super::Said;

/// Nothing runs.
pub fn nothing_to_stop() -> Said {
    "Nothing is running.".into()
}

/// The running turn was asked to stop; some messages may wait behind it.
pub fn stopping(waiting: usize) -> Said {
    match waiting {
        0 => "Stopping…".into(),
        1 => "Stopping… 1 message still waits and is next. /queue takes it back.".into(),
        waiting => {
            format!("Stopping… {waiting} messages still wait and are next. /queue takes them back.")
                .into()
        }
    }
}

/// The agent was asked to summarise the conversation.
pub fn compacting() -> Said {
    "The agent will summarise the conversation.".into()
}

/// The conversation is empty, so there is nothing to summarise.
pub fn already_empty() -> Said {
    "There is nothing to summarise yet.".into()
}

/// The last turn changed no file.
pub fn no_changes() -> Said {
    "The last turn changed no files.".into()
}
