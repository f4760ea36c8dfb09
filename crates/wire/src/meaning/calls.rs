//! Which result belongs to which call.
//!
//! By id, never by order: from 2.1.197 on tools run while the message still streams, and results of
//! parallel calls come as they finish.

use std::collections::HashMap;

use super::change::{FileChange, file_changed_by};
use crate::event::{Block, Event, ToolResult, ToolUse};

/// Calls of tools, from the request to the result.
#[derive(Debug, Default)]
pub struct Calls {
    open: HashMap<String, Call>,
    begun: u64,
}

/// A call whose result is awaited or just came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The file it changes, where its input names one.
    pub change: Option<FileChange>,
    /// Its place among all calls, from 0 on.
    pub number: u64,
}

/// What an event says about a call.
#[derive(Debug)]
pub enum CallNews<'a> {
    /// The model asks for it. Nothing has happened yet.
    Begun(&'a Call),
    /// Its result is here.
    Ended {
        /// The call.
        call: Call,
        /// Whether the tool failed or was not allowed to run.
        failed: bool,
    },
}

impl Calls {
    /// Tells `news` what the event says about calls.
    ///
    /// A call that is repeated (a session file may hold a message twice) is news once, and so is
    /// its result.
    pub fn observe(&mut self, event: &Event<'_>, mut news: impl FnMut(CallNews<'_>)) {
        let Some(message) = event.message() else { return };
        for block in message.content.blocks() {
            match block {
                Block::ToolUse(call) => self.begin(&call, &mut news),
                Block::ToolResult(result) => self.end(&result, &mut news),
                _ => {}
            }
        }
    }

    fn begin(&mut self, call: &ToolUse<'_>, news: &mut impl FnMut(CallNews<'_>)) {
        let Some(id) = call.id else { return };
        let id = id.decode();
        if self.open.contains_key(&*id) {
            return;
        }
        let tool = call.name.decode().into_owned();
        let change = file_changed_by(call)
            .map(|path| FileChange { tool: tool.clone(), path: path.decode().into_owned() });
        let call = Call { id: id.clone().into_owned(), tool, change, number: self.begun };
        self.begun += 1;
        news(CallNews::Begun(self.open.entry(id.into_owned()).or_insert(call)));
    }

    fn end(&mut self, result: &ToolResult<'_>, news: &mut impl FnMut(CallNews<'_>)) {
        let Some(id) = result.tool_use_id else { return };
        if let Some(call) = self.open.remove(&*id.decode()) {
            news(CallNews::Ended { call, failed: result.failed() });
        }
    }

    /// Calls whose result has not come, in the order they were made.
    pub fn unanswered(&self) -> Vec<&Call> {
        let mut calls: Vec<_> = self.open.values().collect();
        calls.sort_by_key(|call| call.number);
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::{CallNews, Calls};
    use crate::{Reading, read};

    fn observe(calls: &mut Calls, line: &str) -> Vec<String> {
        let mut said = Vec::new();
        for line in read(line.as_bytes()) {
            let Reading::Event(event) = line.reading else { panic!("{line:?}") };
            calls.observe(&event, |news| {
                said.push(match news {
                    CallNews::Begun(call) => format!("{} begun", call.id),
                    CallNews::Ended { call, failed } => format!("{} failed={failed}", call.id),
                });
            });
        }
        said
    }

    fn call(id: &str) -> String {
        format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"{id}","name":"Write","input":{{"file_path":"{id}.txt"}}}}]}}}}"#
        )
    }

    fn result(id: &str, rest: &str) -> String {
        format!(
            r#"{{"type":"user","message":{{"content":[{{"tool_use_id":"{id}","type":"tool_result","content":"x"{rest}}}]}}}}"#
        )
    }

    #[test]
    fn results_find_their_calls_in_any_order_and_once() {
        let mut calls = Calls::default();
        assert_eq!(observe(&mut calls, &call("a")), ["a begun"]);
        assert_eq!(observe(&mut calls, &call("b")), ["b begun"]);
        assert_eq!(observe(&mut calls, &call("a")), [""; 0]);
        assert_eq!(observe(&mut calls, &result("b", r#","is_error":true"#)), ["b failed=true"]);
        assert_eq!(observe(&mut calls, &result("b", "")), [""; 0]);
        assert_eq!(observe(&mut calls, &result("stranger", "")), [""; 0]);
        assert_eq!(calls.unanswered()[0].change.as_ref().unwrap().path, "a.txt");
        assert_eq!(observe(&mut calls, &result("a", r#","is_error":null"#)), ["a failed=false"]);
        assert!(calls.unanswered().is_empty());
    }

    #[test]
    fn the_flat_dialect_pairs_with_the_same_rules() {
        let mut calls = Calls::default();
        let line =
            r#"{"type":"tool_use","id":"f","toolName":"Edit","toolInput":{"file_path":"x"}}"#;
        assert_eq!(observe(&mut calls, line), ["f begun"]);
        let line = r#"{"type":"tool_result","toolUseId":"f","isError":false,"content":"ok"}"#;
        assert_eq!(observe(&mut calls, line), ["f failed=false"]);
    }
}
