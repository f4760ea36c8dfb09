//! Watches a persistent record, for a process that may be restarted at any time.
//!
//! Every line has a position. The state at a position (open calls, files that wait for the end of the
//! turn) is not stored: it follows from a few earlier lines, and [`replay_positions`] lists them. After a
//! restart these lines are [replayed](RecordWatcher::replay) without acting on them, and then the lines
//! after the stored position are [observed](RecordWatcher::observe).
//!
//! [`replay_positions`]: RecordWatcher::replay_positions

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::observer::{Observer, ObserverOptions};
use crate::stream_event::{EventQueue, StreamEvent};

/// Reads the lines of a record and queues their events.
#[derive(Debug)]
pub struct RecordWatcher {
    observer: Observer,
    queue: Arc<EventQueue>,
    last: LastPositions,
    /// Calls without a result, and the positions of their lines.
    open: BTreeMap<String, u64>,
    /// Positions of results whose calls are in one line with a call that is still open, by the position
    /// of that line.
    siblings: BTreeMap<u64, BTreeSet<u64>>,
    /// Positions of the turn's calls and results, if some actions run at its end.
    turn: BTreeSet<u64>,
    acts_per_turn: bool,
    /// The position at which the agent ended the turn.
    turn_end: Option<u64>,
}

/// The positions of the last lines of some kinds.
#[derive(Debug, Default)]
struct LastPositions {
    /// The session id or the working directory.
    session: Option<u64>,
    prompt: Option<u64>,
    text: Option<u64>,
}

impl RecordWatcher {
    /// `acts_per_turn` tells whether some actions run at the end of a turn.
    pub fn new(options: ObserverOptions, acts_per_turn: bool, queue: Arc<EventQueue>) -> Self {
        Self {
            observer: Observer::new(options),
            queue,
            last: LastPositions::default(),
            open: BTreeMap::new(),
            siblings: BTreeMap::new(),
            turn: BTreeSet::new(),
            // At the end of the turn there is a scan for changes by background processes of the shell.
            acts_per_turn: acts_per_turn || options.shell,
            turn_end: None,
        }
    }

    /// Reads a line that an earlier process acted on. After the last one call
    /// [`finish_replay`](Self::finish_replay).
    pub fn replay(&mut self, position: u64, line: &[u8]) {
        self.read(position, line);
    }

    pub fn finish_replay(&mut self) {
        self.queue.push(StreamEvent::Replayed);
    }

    /// Reads a new line. Returns whether it needs action; then a checkpoint was added after it.
    pub fn observe(&mut self, position: u64, line: &[u8]) -> bool {
        let needs_action = self.read(position, line);
        if needs_action {
            self.queue.push(StreamEvent::Checkpoint(position));
        }
        needs_action
    }

    /// Towpath ended the turn, perhaps because the agent died. Returns the same as
    /// [`observe`](Self::observe).
    pub fn end_turn(&mut self, position: u64) -> bool {
        if self.turn_end.take().is_some() {
            return false;
        }
        self.turn.clear();
        self.queue.push(StreamEvent::TurnEnded);
        self.queue.push(StreamEvent::Checkpoint(position));
        true
    }

    /// The agent has exited, so its open calls get no result.
    pub fn agent_exited(&mut self) {
        self.open.clear();
        self.siblings.clear();
        let unfinished = self.observer.abandon_calls();
        if !unfinished.is_empty() {
            self.queue.push(StreamEvent::Unfinished(unfinished));
        }
    }

    /// The positions of the lines to replay after a restart, in order.
    pub fn replay_positions(&self) -> Vec<u64> {
        let last = [self.last.session, self.last.prompt, self.last.text, self.turn_end];
        let positions = last.into_iter().flatten().chain(self.open.values().copied());
        let positions = positions.chain(self.siblings.values().flatten().copied());
        let positions: BTreeSet<u64> = positions.chain(self.turn.iter().copied()).collect();
        positions.into_iter().collect()
    }

    fn read(&mut self, position: u64, line: &[u8]) -> bool {
        let Self { observer, queue, last, turn, turn_end, .. } = self;
        let mut needs_action = false;
        for line in wire::read(line) {
            observer.observe(&line, |event| {
                match &event {
                    StreamEvent::Directory { .. } | StreamEvent::Session(_) => {
                        last.session = Some(position);
                    }
                    StreamEvent::Prompt(_) => last.prompt = Some(position),
                    StreamEvent::Text(_) => last.text = Some(position),
                    StreamEvent::TurnEnded => {
                        *turn_end = Some(position);
                        turn.clear();
                        needs_action = true;
                    }
                    _ => needs_action = true,
                }
                queue.push(event);
            });
        }
        self.update_calls(position);
        if self.turn_end == Some(position) {
            self.observer.forget_finished();
        }
        needs_action
    }

    /// Compares the observer's open calls with those before this line.
    fn update_calls(&mut self, position: u64) {
        let Self { observer, open, siblings, turn, acts_per_turn, .. } = self;
        open.retain(|call, started| {
            let is_open = observer.is_open(call);
            if !is_open {
                siblings.entry(*started).or_default().insert(position);
                if *acts_per_turn {
                    turn.extend([*started, position]);
                }
            }
            is_open
        });
        siblings.retain(|line, _| open.values().any(|started| started == line));
        for call in observer.open_calls() {
            if !open.contains_key(call) {
                open.insert(call.to_owned(), position);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::RecordWatcher;
    use crate::observer::ObserverOptions;
    use crate::stream_event::{EventQueue, StreamEvent};

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

    fn watcher(acts_per_turn: bool) -> (RecordWatcher, Arc<EventQueue>) {
        let queue = Arc::new(EventQueue::default());
        let options = ObserverOptions { bodies: false, texts: true, shell: false };
        (RecordWatcher::new(options, acts_per_turn, Arc::clone(&queue)), queue)
    }

    fn events(queue: &EventQueue) -> Vec<String> {
        std::iter::from_fn(|| queue.take())
            .map(|event| match event {
                StreamEvent::Announced { change, .. } => format!("{} announced", change.call.0),
                StreamEvent::Finished { change, .. } => format!("{} finished", change.call.0),
                StreamEvent::Checkpoint(position) => format!("#{position}"),
                StreamEvent::Directory { cwd, .. } => cwd,
                StreamEvent::Session(id) => id.to_string(),
                StreamEvent::TurnEnded => "turn".to_owned(),
                StreamEvent::Replayed => "replayed".to_owned(),
                StreamEvent::Unfinished(changes) => format!("{} unfinished", changes.len()),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn an_open_call_is_known_after_a_replay() {
        let (mut first, queue) = watcher(false);
        assert!(!first.observe(1, INIT.as_bytes()));
        assert!(first.observe(2, call("a").as_bytes()));
        assert!(first.observe(3, call("b").as_bytes()));
        assert!(first.observe(4, result("b").as_bytes()));
        assert_eq!(
            events(&queue),
            ["s", "/p", "a announced", "#2", "b announced", "#3", "b finished", "#4"]
        );
        assert_eq!(first.replay_positions(), [1, 2]);
        let (mut second, queue) = watcher(false);
        second.replay(1, INIT.as_bytes());
        second.replay(2, call("a").as_bytes());
        second.finish_replay();
        second.observe(5, result("a").as_bytes());
        assert_eq!(events(&queue), ["s", "/p", "a announced", "replayed", "a finished", "#5"]);
        assert_eq!(second.replay_positions(), [1]);
    }

    #[test]
    fn of_two_calls_in_one_line_the_finished_one_stays_finished() {
        let both = r#"{"type":"assistant","session_id":"s","message":{"content":[{"type":"tool_use","id":"a","name":"Write","input":{"file_path":"a"}},{"type":"tool_use","id":"b","name":"Write","input":{"file_path":"b"}}]}}"#;
        let (mut first, _) = watcher(false);
        first.observe(1, INIT.as_bytes());
        first.observe(2, both.as_bytes());
        first.observe(3, result("a").as_bytes());
        assert_eq!(first.replay_positions(), [1, 2, 3]);
        let (mut second, queue) = watcher(false);
        for (position, line) in [(1, INIT.to_owned()), (2, both.to_owned()), (3, result("a"))] {
            second.replay(position, line.as_bytes());
        }
        assert_eq!(second.replay_positions(), [1, 2, 3]);
        while queue.take().is_some() {}
        second.observe(4, result("b").as_bytes());
        assert_eq!(second.replay_positions(), [1]);
        second.agent_exited();
        assert_eq!(events(&queue), ["b finished", "#4"]);
    }

    #[test]
    fn calls_of_the_turn_are_replayed_until_it_ends() {
        let (mut first, _) = watcher(true);
        for (position, line) in [(1, INIT.to_owned()), (4, call("a")), (6, result("a"))] {
            first.observe(position, line.as_bytes());
        }
        assert_eq!(first.replay_positions(), [1, 4, 6]);
        assert!(first.observe(9, RESULT.as_bytes()));
        assert_eq!(first.replay_positions(), [1, 9]);
        assert!(!first.end_turn(10), "the agent has ended it");
        assert_eq!(first.replay_positions(), [1]);
    }

    #[test]
    fn a_turn_whose_agent_died_ends_once_and_its_calls_are_unfinished() {
        let (mut first, queue) = watcher(true);
        first.observe(1, call("a").as_bytes());
        first.agent_exited();
        assert_eq!(first.replay_positions(), [1], "only the line with the session id");
        assert!(first.end_turn(3));
        assert_eq!(events(&queue), ["s", "a announced", "#1", "1 unfinished", "turn", "#3"]);
    }

    #[test]
    fn deeply_nested_and_very_long_lines_are_read() {
        let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        let long = format!("\"{}\"", "x".repeat(70 << 20));
        let (mut watcher, queue) = watcher(true);
        watcher.observe(1, INIT.as_bytes());
        for (number, value) in [deep, long].into_iter().enumerate() {
            let (call, result) = (call("a"), result("a"));
            let id = format!("\"c{number}\"");
            let call = call
                .replace("\"a\"", &id)
                .replace("\"a.txt\"", &format!("\"x\",\"content\":{value}"));
            let result = result.replace("\"a\"", &id).replace("\"x\"", &value);
            let position = 10 * number as u64;
            watcher.observe(position + 2, value.as_bytes());
            assert!(watcher.observe(position + 3, call.as_bytes()));
            assert!(watcher.observe(position + 4, result.as_bytes()));
        }
        let events = events(&queue);
        assert!(events.contains(&"c0 finished".to_owned()), "{events:?}");
        assert!(events.contains(&"c1 finished".to_owned()), "{events:?}");
    }
}
