//! Messages that wait for their turn.

use uuid::Uuid;
use view::telegram::Mark;
use view::{WaitingPrompt, phrase};
use wire::note::PromptState;

use super::{Said, cut, data};

/// How many are listed: more buttons than that is a wall.
const MOST: usize = 12;

/// Characters of each, in the list and on its button.
const WORDS: usize = 120;
const LABEL: usize = 28;

/// The messages that wait, each with a button to take it back while that is possible.
pub fn queue(waiting: &[WaitingPrompt]) -> Said {
    if waiting.is_empty() {
        return "Nothing waits.".into();
    }
    let mut said = Said::default();
    said.text.push_marked(Mark::Bold, &phrase::several(waiting.len(), "message", "messages"));
    said.text.push(if waiting.len() == 1 { " waits:" } else { " wait:" });
    for (prompt, number) in waiting.iter().zip(1..).take(MOST) {
        let mut words = cut(&prompt.text, WORDS);
        if prompt.images > 0 {
            let pictures = phrase::several(prompt.images, "picture", "pictures");
            let space = if words.is_empty() { "" } else { " " };
            words = format!("{words}{space}({pictures})");
        }
        let by = prompt.by.as_ref().map(|by| format!(" – {}", cut(&by.name, 40)));
        said.text.push(&format!("\n{number}. {words}{}", by.unwrap_or_default()));
        if let (PromptState::Queued, Ok(id)) = (prompt.state, prompt.id.parse::<Uuid>()) {
            let label = format!("✕ {number}. {}", cut(&words, LABEL));
            said.buttons.push(vec![data::unqueue(label, id)]);
        }
    }
    if waiting.len() > MOST {
        said.text.push(&format!("\n… and {} more", waiting.len() - MOST));
    }
    said
}

/// A message waits behind others.
pub fn queued(before: usize) -> Said {
    match before {
        0 => "It goes to the agent next. /queue shows what waits.".into(),
        before => {
            let others = phrase::several(before, "other", "others");
            format!("It waits behind {others}. /queue shows what waits.").into()
        }
    }
}

/// A message was taken back.
pub fn unqueued() -> Said {
    "Taken back.".into()
}

/// An edit changed a message that waits.
pub fn reworded() -> Said {
    "Changed: the agent gets the new words.".into()
}

/// An edit came too late, or to a message whose other parts nobody remembers.
pub fn too_late_to_reword() -> Said {
    "The agent has this message as it was. Send a new one with what you want to change.".into()
}
