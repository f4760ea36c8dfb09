//! A little Telegram: it takes calls, holds them to the limits, and shows what the chat looks like.

use std::collections::BTreeMap;
use std::time::Duration;

use towpath_telegram::{
    Button, Buttons, Call, ChatId, Failure, MessageId, Reply, SendMessage, Words,
};

/// A message in the chat.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) plain: String,
    pub(crate) buttons: Buttons,
    pub(crate) loud: bool,
    /// Whether it was ever edited: what must be told never is.
    pub(crate) edited: bool,
}

/// The chat as its people see it, and everything that was asked of it.
#[derive(Debug, Default)]
pub(crate) struct Telegram {
    pub(crate) messages: BTreeMap<MessageId, Shown>,
    /// Every call, in a line.
    pub(crate) log: Vec<String>,
    last: i64,
    /// When each message was last edited, and the draft changed.
    edits: BTreeMap<MessageId, Duration>,
    drafted: Option<Duration>,
}

/// Holds a call to the limits.
fn check(call: &Call) {
    let fits = |words: &Words, most| {
        assert!(!words.plain.trim().is_empty(), "an empty message");
        assert!(units(&words.plain) <= most, "{} units", units(&words.plain));
    };
    let taps = |buttons: &Buttons| {
        for Button { label, data } in buttons.iter().flatten() {
            assert!(!label.is_empty() && label.chars().count() <= 64, "{label}");
            assert!((1..=64).contains(&data.len()), "{data}");
            assert!(data.as_bytes().get(1) != Some(&b':'), "{data}");
        }
        assert!(buttons.iter().all(|row| !row.is_empty() && row.len() <= 8));
        assert!(buttons.iter().flatten().count() <= 100);
    };
    match call {
        Call::Send(message) => {
            fits(&message.words, 4096);
            taps(&message.buttons);
            assert!(!message.force_reply || message.buttons.is_empty());
        }
        Call::Edit { words, buttons, .. } => {
            fits(words, 4096);
            taps(buttons);
        }
        Call::Draft { draft, text, .. } => {
            assert!(*draft != 0 && !text.is_empty() && units(text) <= 4096);
        }
        Call::SendFile { caption, .. } => {
            if let Some(caption) = caption {
                fits(caption, 1024);
            }
        }
        Call::Delete { .. } | Call::SendText { .. } | Call::Typing(_) | Call::Answer { .. } => {}
    }
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

impl Telegram {
    /// Does what is asked, as the real one would.
    pub(crate) fn take(
        &mut self,
        call: &Call,
        now: Duration,
        least: Duration,
    ) -> Result<Reply, Failure> {
        check(call);
        self.log.push(line(call, self.last + 1));
        Ok(match call {
            Call::Send(SendMessage { words, buttons, loud, .. }) => {
                self.last += 1;
                let shown = Shown {
                    plain: words.plain.clone(),
                    buttons: buttons.clone(),
                    loud: *loud,
                    edited: false,
                };
                self.messages.insert(MessageId(self.last), shown);
                self.edits.insert(MessageId(self.last), now);
                Reply::Sent(MessageId(self.last))
            }
            Call::SendFile { .. } | Call::SendText { .. } => {
                self.last += 1;
                Reply::Sent(MessageId(self.last))
            }
            Call::Edit { message, words, buttons, .. } => {
                let shown = self.messages.get_mut(message).ok_or(Failure::NoSuchMessage)?;
                if shown.plain == words.plain && shown.buttons == *buttons {
                    return Err(Failure::NotModified);
                }
                // A card is edited for a person who tapped; what is going on has its pace.
                if buttons.iter().flatten().any(|button| button.label.contains("Stop")) {
                    let before = self.edits.insert(*message, now).expect("it was sent");
                    assert!(now >= before + least, "edited at {before:?} and at {now:?}");
                }
                shown.plain.clone_from(&words.plain);
                shown.buttons.clone_from(buttons);
                shown.edited = true;
                Reply::Done
            }
            Call::Delete { message, .. } => {
                self.messages.remove(message).ok_or(Failure::NoSuchMessage)?;
                Reply::Done
            }
            Call::Draft { .. } => {
                if let Some(before) = self.drafted.replace(now) {
                    assert!(now >= before + Duration::from_millis(700));
                }
                Reply::Done
            }
            Call::Typing(_) | Call::Answer { .. } => Reply::Done,
        })
    }

    /// All that stands in the chat, without the message that shows what is going on.
    pub(crate) fn transcript(&self) -> String {
        let lasting = self.messages.values().filter(|shown| !is_progress(shown));
        lasting.map(|shown| shown.plain.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// What a button of that label carries, and the message it is under.
    pub(crate) fn button(&self, label: &str) -> (MessageId, String) {
        let under = self.messages.iter().rev().find_map(|(id, shown)| {
            let mut buttons = shown.buttons.iter().flatten();
            buttons.find(|it| it.label.contains(label)).map(|it| (*id, it.data.clone()))
        });
        under.unwrap_or_else(|| panic!("no button {label}"))
    }

    pub(crate) fn newest(&self) -> MessageId {
        MessageId(self.last)
    }
}

pub(crate) fn is_progress(shown: &Shown) -> bool {
    shown.buttons.iter().flatten().any(|button| button.label.contains("Stop"))
}

/// A call in a line.
fn line(call: &Call, next: i64) -> String {
    let labels = |buttons: &Buttons| {
        let rows = buttons.iter().map(|row| {
            row.iter().map(|button| button.label.clone()).collect::<Vec<_>>().join(" | ")
        });
        let rows = rows.collect::<Vec<_>>().join(" / ");
        if rows.is_empty() { String::new() } else { format!(" [{rows}]") }
    };
    match call {
        Call::Send(message) => {
            let loud = if message.loud { "loud " } else { "" };
            let to = message.reply_to.map(|to| format!("re {} ", to.0)).unwrap_or_default();
            let force = if message.force_reply { "asking " } else { "" };
            let text = message.words.plain.replace('\n', "⏎");
            format!("{next}: {to}{loud}{force}{text}{}", labels(&message.buttons))
        }
        Call::Edit { message, words, buttons, .. } => {
            let text = words.plain.replace('\n', "⏎");
            format!("{} = {text}{}", message.0, labels(buttons))
        }
        Call::Draft { text, .. } => format!("draft {text}"),
        Call::Delete { message, .. } => format!("{} gone", message.0),
        Call::SendFile { path, .. } => format!("{next}: file {}", path.display()),
        Call::SendText { name, .. } => format!("{next}: text {name}"),
        Call::Typing(_) => "typing".to_owned(),
        Call::Answer { .. } => "answer".to_owned(),
    }
}

pub(crate) const CHAT: ChatId = ChatId(7);
