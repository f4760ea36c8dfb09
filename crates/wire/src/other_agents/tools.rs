//! What the tools of other agents do, from their names and inputs.

use std::borrow::Cow;

use super::fields::ObjectFields;
use super::patch::patched_files;
use super::step::{AgentTodo, CallAction, ChangedFile, FileContent};
use crate::json::{Raw, Shape, Text};

const PATH_KEYS: &[&str] =
    &["file_path", "filePath", "path", "absolute_path", "target_file", "notebook_path", "filename"];
const CONTENT_KEYS: &[&str] = &["content", "file_text", "fileText", "contents", "streamContent"];
const BEFORE_KEYS: &[&str] = &["old_string", "oldString", "old_str", "oldText"];
const AFTER_KEYS: &[&str] = &["new_string", "newString", "new_str", "newText"];

/// What a call of `tool` does. An unknown tool, or a known one with an unexpected input, does
/// something else.
pub(super) fn action<'a>(tool: &str, input: Raw<'a>) -> CallAction<'a> {
    known_action(tool, input).unwrap_or(CallAction::Other)
}

fn known_action<'a>(tool: &str, input: Raw<'a>) -> Option<CallAction<'a>> {
    let text = |keys: &[&str]| first_text(input, keys);
    Some(match tool {
        "run_shell_command" | "bash" | "shell" | "exec_command" | "shell_command" | "Execute"
        | "local_shell" | "container.exec" | "Shell" | "terminal" | "powershell" => {
            let command = command(input)?;
            match patch_of_command(&command) {
                Some(files) => CallAction::Change(files),
                None => CallAction::Run { command },
            }
        }
        "apply_patch" | "ApplyPatch" | "applyPatch" | "patch" => {
            let patch = match input.text() {
                Some(patch) => patch.decode(),
                None => text(&["input", "patch", "patchText", "patch_text"])?,
            };
            CallAction::Change(patched_files(&patch))
        }
        "write" | "write_file" | "create" | "Create" | "Write" | "create_file" => {
            changed(text(PATH_KEYS)?, FileContent::Written(text(CONTENT_KEYS)))
        }
        "edit" | "replace" | "Edit" | "str_replace" | "str_replace_editor" | "edit_file"
        | "MultiEdit" | "multiedit" | "insert" => {
            // One tool of Copilot has its operation in the input.
            match text(&["command"]).as_deref() {
                Some("create") => {
                    changed(text(PATH_KEYS)?, FileContent::Written(text(CONTENT_KEYS)))
                }
                Some("view") => CallAction::Read { path: text(PATH_KEYS)? },
                _ => changed(text(PATH_KEYS)?, FileContent::Replaced(replacements(input))),
            }
        }
        "delete" | "Delete" | "delete_file" => changed(text(PATH_KEYS)?, FileContent::Deleted),
        "read" | "read_file" | "Read" | "view" | "View" => {
            CallAction::Read { path: text(PATH_KEYS)? }
        }
        "grep"
        | "Grep"
        | "glob"
        | "Glob"
        | "search_file_content"
        | "grep_search"
        | "find"
        | "rg"
        | "semSearch" => CallAction::Search {
            pattern: text(&["pattern", "query", "globPattern", "glob_pattern"])?,
            path: text(PATH_KEYS).or_else(|| text(&["dir_path", "targetDirectory"])),
        },
        "ls" | "LS" | "list" | "list_directory" => CallAction::Search {
            pattern: text(&["path", "dir_path", "directory_path"])?,
            path: None,
        },
        "webfetch" | "web_fetch" | "WebFetch" | "FetchUrl" | "fetch" => {
            CallAction::Fetch { url: text(&["url", "prompt"])? }
        }
        "websearch" | "web_search" | "WebSearch" | "google_web_search" => {
            CallAction::SearchWeb { query: text(&["query", "search_term", "searchTerm"])? }
        }
        "todowrite" | "TodoWrite" | "update_plan" | "write_todos" | "updateTodos" | "todo" => {
            CallAction::Track(todos(input)?)
        }
        _ => return None,
    })
}

pub(super) fn changed<'a>(path: Cow<'a, str>, change: FileContent<'a>) -> CallAction<'a> {
    CallAction::Change(vec![ChangedFile { path, change }])
}

fn first_text<'a>(input: Raw<'a>, keys: &[&str]) -> Option<Cow<'a, str>> {
    keys.iter().find_map(|key| input.get(key).and_then(Raw::text)).map(Text::decode)
}

/// The command of a shell: a string, or its words.
fn command(input: Raw<'_>) -> Option<Cow<'_, str>> {
    let command = ["command", "cmd"].iter().find_map(|key| input.get(key))?;
    if command.shape() != Shape::Array {
        return command.text().map(Text::decode);
    }
    let words: Vec<_> = command.items().filter_map(Raw::text).map(Text::decode).collect();
    match words.as_slice() {
        // What a shell is asked to run is the command.
        [shell, option, script]
            if option.starts_with('-') && option.ends_with('c') && is_shell(shell) =>
        {
            Some(script.clone())
        }
        words => Some(Cow::Owned(words.join(" "))),
    }
}

pub(super) fn is_shell(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    matches!(name, "sh" | "bash" | "zsh" | "dash" | "fish")
}

/// The files of a patch that Codex applies itself instead of running a command.
fn patch_of_command<'a>(command: &str) -> Option<Vec<ChangedFile<'a>>> {
    let is_patch = command.trim_start().starts_with("apply_patch")
        || command.contains("&& apply_patch <<")
        || command.contains("\napply_patch <<");
    is_patch.then(|| patched_files(command)).filter(|files| !files.is_empty())
}

fn replacements<'a>(input: Raw<'a>) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
    let one = |edit: Raw<'a>| Some((first_text(edit, BEFORE_KEYS)?, first_text(edit, AFTER_KEYS)?));
    let many = ["edits", "changes"].iter().find_map(|key| input.get(key));
    match many {
        Some(edits) => edits.items().filter_map(one).collect(),
        None => one(input).into_iter().collect(),
    }
}

pub(super) fn todos(input: Raw<'_>) -> Option<Vec<AgentTodo<'_>>> {
    let list = ["todos", "plan", "items"].iter().find_map(|key| input.get(key))?;
    if list.shape() != Shape::Array {
        return None;
    }
    list.items().map(|todo| todo_of(ObjectFields::new(todo))).collect()
}

fn todo_of(todo: ObjectFields<'_>) -> Option<AgentTodo<'_>> {
    let keys = ["content", "step", "text", "description", "title"];
    let text = keys.iter().find_map(|key| todo.text_if_string(key))?;
    let completed = todo.any("completed").and_then(Raw::boolean) == Some(true);
    let state = match todo.text_if_string("status").as_deref() {
        Some("in_progress" | "inProgress" | "TODO_STATUS_IN_PROGRESS") => "in_progress",
        Some("completed" | "done" | "TODO_STATUS_COMPLETED") => "completed",
        None if completed => "completed",
        _ => "pending",
    };
    Some(AgentTodo { text, state })
}
