//! Hearing a record that stays, for somebody who acts on it and may be gone at any moment.
//!
//! ActionTrigger line has a place. What was under way at a place is not written down: it follows from a few
//! lines before it, and the listener knows which. Whoever comes next has these lines
//! [recalled](RecordWatcher::recall), and then [hears](RecordWatcher::hear) what follows the place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::Reading;

use crate::event_queue::EventQueue;
use crate::observer::{Observer, ObserverOptions};
use crate::stream_event::StreamEvent;

/// Hears lines, and tells a queue what they say.
#[derive(Debug)]
pub struct RecordWatcher {
    observer: Observer,
    queue: Arc<EventQueue>,
    /// Where the agent said last where it works, what it was asked, what it said.
    last: LastPosition,
    /// ToolCalls without a result, and where they were made.
    open: BTreeMap<String, u64>,
    /// Results of calls that were made in one line with another that is still without.
    beside: BTreeMap<u64, BTreeSet<u64>>,
    /// ToolCalls of the turn and their results, where something is left for its end.
    of_turn: BTreeSet<u64>,
    waits_for_turn: bool,
    /// Where the agent itself said that the turn is over.
    ended: Option<u64>,
}

#[derive(Debug, Default)]
struct LastPosition {
    place: Option<u64>,
    prompt: Option<u64>,
    words: Option<u64>,
}

impl RecordWatcher {
    /// One that has heard nothing. Whether something `waits_for_turn` is up to the settings.
    pub fn new(wants: ObserverOptions, waits_for_turn: bool, queue: Arc<EventQueue>) -> Self {
        Self {
            observer: Observer::new(wants),
            queue,
            last: LastPosition::default(),
            open: BTreeMap::new(),
            beside: BTreeMap::new(),
            of_turn: BTreeSet::new(),
            // What the shell left running is looked for at the end of the turn.
            waits_for_turn: waits_for_turn || wants.shell,
            ended: None,
        }
    }

    /// Hears a line that somebody acted on before. After the last of them comes
    /// [`recalled`](Self::recalled).
    pub fn recall(&mut self, place: u64, line: &[u8]) {
        self.take(place, line);
    }

    /// What is heard from here on is new.
    pub fn recalled(&mut self) {
        self.queue.push(StreamEvent::Replayed);
    }

    /// Hears a line. Where something is to be done about it, a milestone is set behind it, which is
    /// what is answered.
    pub fn hear(&mut self, place: u64, line: &[u8]) -> bool {
        let told = self.take(place, line);
        if told {
            self.queue.push(StreamEvent::Checkpoint(place));
        }
        told
    }

    /// A turn is over, also one whose agent could not say so. CompletionTracker are as in
    /// [`hear`](Self::hear).
    pub fn turn_over(&mut self, place: u64) -> bool {
        if self.ended.take().is_some() {
            return false;
        }
        self.of_turn.clear();
        self.queue.push(StreamEvent::TurnEnded);
        self.queue.push(StreamEvent::Checkpoint(place));
        true
    }

    /// The agent is gone, and its calls with it.
    pub fn agent_gone(&mut self) {
        self.open.clear();
        self.beside.clear();
        let unfinished = self.observer.give_up();
        if !unfinished.is_empty() {
            self.queue.push(StreamEvent::Unfinished(unfinished));
        }
    }

    /// The places of the lines that somebody who comes next must recall, in order.
    pub fn to_recall(&self) -> Vec<u64> {
        let last = [self.last.place, self.last.prompt, self.last.words, self.ended];
        let places = last.into_iter().flatten().chain(self.open.values().copied());
        let places = places.chain(self.beside.values().flatten().copied());
        let places: BTreeSet<u64> = places.chain(self.of_turn.iter().copied()).collect();
        places.into_iter().collect()
    }

    fn take(&mut self, place: u64, line: &[u8]) -> bool {
        let Self { observer, queue, last, of_turn, ended, .. } = self;
        let mut told = false;
        for line in wire::read(line) {
            let Reading::Event(event) = &line.reading else { continue };
            observer.observe(event, |news| {
                match &news {
                    StreamEvent::Directory { .. } | StreamEvent::Session(_) => {
                        last.place = Some(place)
                    }
                    StreamEvent::Prompt(_) => last.prompt = Some(place),
                    StreamEvent::Text(_) => last.words = Some(place),
                    StreamEvent::TurnEnded => {
                        *ended = Some(place);
                        of_turn.clear();
                        told = true;
                    }
                    _ => told = true,
                }
                queue.push(news);
            });
        }
        self.note_calls(place);
        if self.ended == Some(place) {
            self.observer.forget();
        }
        told
    }

    /// Compares the calls that are open with those that were.
    fn note_calls(&mut self, place: u64) {
        let Self { observer, open, beside, of_turn, waits_for_turn, .. } = self;
        open.retain(|call, made| {
            let still = observer.awaits(call);
            if !still {
                beside.entry(*made).or_default().insert(place);
                if *waits_for_turn {
                    of_turn.extend([*made, place]);
                }
            }
            still
        });
        beside.retain(|line, _| open.values().any(|made| made == line));
        for call in observer.awaited() {
            if !open.contains_key(call) {
                open.insert(call.to_owned(), place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::RecordWatcher;
    use crate::event_queue::EventQueue;
    use crate::observer::ObserverOptions;
    use crate::stream_event::StreamEvent;

    const INIT: &str = r#"{"type":"system","subtype":"init","cwd":"/p","session_id":"s"}"#;
    const RESULT: &str =
        r#"{"type":"result","subtype":"success","is_error":false,"result":"x","session_id":"s"}"#;

    fn call(id: &str) -> String {
        format!(
            r#"{{"type":"assistant","session_id":"s","message":{{"content":[{{"type":"tool_use","id":"{id}","name":"Write","input":{{"file_path":"{id}.txt"}}}}]}}}}"#
        )
    }

    fn result(id: &str) -> String {
        format!(
            r#"{{"type":"user","session_id":"s","message":{{"content":[{{"tool_use_id":"{id}","type":"tool_result","content":"x"}}]}}}}"#
        )
    }

    fn listener(waits_for_turn: bool) -> (RecordWatcher, Arc<EventQueue>) {
        let queue = Arc::new(EventQueue::default());
        let wants = ObserverOptions { bodies: false, words: true, shell: false };
        (RecordWatcher::new(wants, waits_for_turn, Arc::clone(&queue)), queue)
    }

    fn news(queue: &EventQueue) -> Vec<String> {
        std::iter::from_fn(|| queue.take())
            .map(|news| match news {
                StreamEvent::Announced { change, .. } => format!("{} announced", change.call.0),
                StreamEvent::Finished { change, .. } => format!("{} settled", change.call.0),
                StreamEvent::Checkpoint(place) => format!("#{place}"),
                StreamEvent::Directory { cwd, .. } => cwd,
                StreamEvent::Session(id) => id.to_string(),
                StreamEvent::TurnEnded => "turn".to_owned(),
                StreamEvent::Replayed => "recalled".to_owned(),
                StreamEvent::Unfinished(changes) => format!("{} unfinished", changes.len()),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn the_next_knows_an_open_call_from_the_lines_it_recalls() {
        let (mut first, queue) = listener(false);
        assert!(!first.hear(1, INIT.as_bytes()));
        assert!(first.hear(2, call("a").as_bytes()));
        assert!(first.hear(3, call("b").as_bytes()));
        assert!(first.hear(4, result("b").as_bytes()));
        assert_eq!(
            news(&queue),
            ["s", "/p", "a announced", "#2", "b announced", "#3", "b settled", "#4"]
        );
        assert_eq!(first.to_recall(), [1, 2]);
        let (mut second, queue) = listener(false);
        second.recall(1, INIT.as_bytes());
        second.recall(2, call("a").as_bytes());
        second.recalled();
        second.hear(5, result("a").as_bytes());
        assert_eq!(news(&queue), ["s", "/p", "a announced", "recalled", "a settled", "#5"]);
        assert_eq!(second.to_recall(), [1]);
    }

    #[test]
    fn of_two_calls_in_one_line_the_one_that_is_over_stays_over() {
        let both = r#"{"type":"assistant","session_id":"s","message":{"content":[{"type":"tool_use","id":"a","name":"Write","input":{"file_path":"a"}},{"type":"tool_use","id":"b","name":"Write","input":{"file_path":"b"}}]}}"#;
        let (mut first, _) = listener(false);
        first.hear(1, INIT.as_bytes());
        first.hear(2, both.as_bytes());
        first.hear(3, result("a").as_bytes());
        assert_eq!(first.to_recall(), [1, 2, 3]);
        let (mut second, queue) = listener(false);
        for (place, line) in [(1, INIT.to_owned()), (2, both.to_owned()), (3, result("a"))] {
            second.recall(place, line.as_bytes());
        }
        assert_eq!(second.to_recall(), [1, 2, 3]);
        while queue.take().is_some() {}
        second.hear(4, result("b").as_bytes());
        assert_eq!(second.to_recall(), [1]);
        second.agent_gone();
        assert_eq!(news(&queue), ["b settled", "#4"]);
    }

    #[test]
    fn what_waits_for_the_end_of_the_turn_is_recalled_until_then() {
        let (mut first, _) = listener(true);
        for (place, line) in [(1, INIT.to_owned()), (4, call("a")), (6, result("a"))] {
            first.hear(place, line.as_bytes());
        }
        assert_eq!(first.to_recall(), [1, 4, 6]);
        assert!(first.hear(9, RESULT.as_bytes()));
        assert_eq!(first.to_recall(), [1, 9]);
        assert!(!first.turn_over(10), "the agent has said so itself");
        assert_eq!(first.to_recall(), [1]);
    }

    #[test]
    fn a_turn_whose_agent_died_is_over_once_and_its_calls_are_given_up() {
        let (mut first, queue) = listener(true);
        first.hear(1, call("a").as_bytes());
        first.agent_gone();
        assert_eq!(first.to_recall(), [1], "only where it heard the session's name");
        assert!(first.turn_over(3));
        assert_eq!(news(&queue), ["s", "a announced", "#1", "1 unfinished", "turn", "#3"]);
    }
}
