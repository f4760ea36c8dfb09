//! What is said in reply to people, whatever session their place shows.

use std::collections::VecDeque;

use view::telegram::LIMIT;

use crate::call::{Call, Failure, Reply, SendMessage};
use crate::place::{MessageId, Place};
use crate::replies::Said;

/// How many may wait. Whoever asks for more than that does not read the answers.
const MOST: usize = 20;

/// Replies that wait to be sent, in order.
#[derive(Debug, Default)]
pub(super) struct Asides(VecDeque<Call>);

impl Asides {
    /// Adds a reply, in as many messages as it takes.
    pub(super) fn say(&mut self, place: Place, said: &Said, to: Option<MessageId>) {
        let mut messages = said.text.messages(LIMIT).into_iter().peekable();
        let mut reply_to = to;
        while let Some(words) = messages.next() {
            let last = messages.peek().is_none();
            self.add(Call::Send(SendMessage {
                place,
                words,
                buttons: if last { said.buttons.clone() } else { Vec::new() },
                loud: false,
                reply_to: reply_to.take(),
                force_reply: false,
            }));
        }
    }

    /// Adds something to be sent.
    pub(super) fn add(&mut self, call: Call) {
        if self.0.len() < MOST {
            self.0.push_back(call);
        }
    }

    /// What goes next.
    pub(super) fn next(&self) -> Option<&Call> {
        self.0.front()
    }

    /// What came of it.
    pub(super) fn came(&mut self, outcome: &Result<Reply, Failure>) {
        match outcome {
            Err(Failure::Tags(_)) => match self.0.front_mut() {
                Some(Call::Send(message))
                    if message.words.html != escaped(&message.words.plain) =>
                {
                    message.words.html = escaped(&message.words.plain);
                }
                _ => drop(self.0.pop_front()),
            },
            Err(Failure::TooFast(_) | Failure::NotReached(_) | Failure::Unknown(_)) => {}
            Err(Failure::NotWanted(_) | Failure::NoSuchThread) => self.0.clear(),
            Ok(_) | Err(Failure::NotModified | Failure::NoSuchMessage | Failure::Refused(_)) => {
                self.0.pop_front();
            }
        }
    }

    /// The same for a place under another number.
    pub(super) fn moved(&mut self, to: Place) {
        for call in &mut self.0 {
            match call {
                Call::Send(message) => message.place = to,
                Call::SendText { place, .. } => *place = to,
                _ => {}
            }
        }
    }
}

/// Words as HTML without any tag.
fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::Asides;
    use crate::call::{Call, Failure, Reply};
    use crate::place::{ChatId, MessageId, Place};
    use crate::replies::Said;

    const HERE: Place = Place { chat: ChatId(1), thread: None };

    fn next(asides: &Asides) -> (String, Option<MessageId>) {
        match asides.next() {
            Some(Call::Send(message)) => (message.words.html.clone(), message.reply_to),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reply_is_said_again_only_where_it_was_not_heard_and_plainly_where_its_tags_were_refused() {
        let mut asides = Asides::default();
        let mut text = view::telegram::Text::default();
        text.push_marked(view::telegram::Mark::Bold, "a < b");
        asides.say(HERE, &Said::from(text), Some(MessageId(7)));
        asides.say(HERE, &Said::from("second"), None);
        assert_eq!(next(&asides), ("<b>a &lt; b</b>".to_owned(), Some(MessageId(7))));
        asides.came(&Err(Failure::Unknown("?".to_owned())));
        asides.came(&Err(Failure::Tags("no".to_owned())));
        assert_eq!(next(&asides).0, "a &lt; b");
        asides.came(&Err(Failure::Tags("still no".to_owned())));
        assert_eq!(next(&asides).0, "second", "it is given up");
        asides.came(&Ok(Reply::Sent(MessageId(8))));
        assert_eq!(asides.next(), None);
    }

    #[test]
    fn a_long_reply_is_several_messages_and_only_the_first_replies() {
        let mut asides = Asides::default();
        asides.say(HERE, &Said::from("word ".repeat(1_000)), Some(MessageId(7)));
        assert_eq!(next(&asides).1, Some(MessageId(7)));
        asides.came(&Ok(Reply::Sent(MessageId(8))));
        assert_eq!(next(&asides).1, None);
    }
}
