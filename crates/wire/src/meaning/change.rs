//! Which tools change which files.

use crate::event::ToolUse;
use crate::json::{Raw, Text};

/// A file that a call is going to change. It is not changed before the call's result says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The tool.
    pub tool: String,
    /// The path as the model wrote it: absolute, or relative to the working directory.
    pub path: String,
}

/// The path that a call changes, for the tools whose input names it.
///
/// ```
/// use towpath_wire::event::{Block, Body};
/// use towpath_wire::meaning::file_changed_by;
/// use towpath_wire::{Reading, read};
///
/// let line = br#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1",
///     "name":"NotebookEdit","input":{"notebook_path":"a.ipynb"}}]}}"#;
/// let line: Vec<u8> = line.iter().copied().filter(|&byte| byte != b'\n').collect();
/// let Some(Reading::Event(event)) = read(&line).next().map(|line| line.reading) else { panic!() };
/// let Some(Block::ToolUse(call)) = event.message().unwrap().content.blocks().next() else { panic!() };
/// assert_eq!(file_changed_by(&call).unwrap(), "a.ipynb");
/// ```
pub fn file_changed_by<'a>(call: &ToolUse<'a>) -> Option<Text<'a>> {
    let key = match &*call.name.decode() {
        "Edit" | "Write" | "MultiEdit" => "file_path",
        "NotebookEdit" => "notebook_path",
        _ => return None,
    };
    call.input?.get(key).and_then(Raw::text)
}
