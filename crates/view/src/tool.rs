//! Tools: the kind of action each one performs, and the inputs of common tools in typed form.
//!
//! A [`ToolInput`] is parsed on demand from the JSON that the call stores, so nothing is stored twice.
//! An unknown tool, or an unexpected input, is [`ToolInput::Other`] and shown as JSON.

use serde::{Deserialize, Serialize};
use wire::consent::visible;
use wire::json::{Raw, Text};

use crate::call::Call;
use crate::conversation::{Todo, TodoState};

/// The kind of action a tool performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolAction {
    Read,
    /// Writes a whole file.
    Write,
    /// Changes part of a file.
    Edit,
    /// Runs a command.
    Run,
    /// Searches files.
    Search,
    /// Fetches a web page.
    Fetch,
    SearchWeb,
    /// Starts a sub-agent, or sends it a message.
    Delegate,
    /// Maintains the to-do list.
    Track,
    /// Asks the user.
    Ask,
    Plan,
    Skill,
    /// Anything else.
    Use,
}

impl ToolAction {
    pub fn of(tool: &str) -> Self {
        match tool {
            "Read" | "NotebookRead" => Self::Read,
            "Write" => Self::Write,
            "Edit" | "MultiEdit" | "NotebookEdit" => Self::Edit,
            "Bash" | "BashOutput" | "KillShell" | "KillBash" | "PowerShell" | "REPL" => Self::Run,
            "Grep" | "Glob" | "LS" | "ToolSearch" => Self::Search,
            "WebFetch" | "web_fetch" => Self::Fetch,
            "WebSearch" | "web_search" => Self::SearchWeb,
            "Task" | "Agent" | "SendMessage" => Self::Delegate,
            "TodoWrite" | "TodoRead" | "TaskCreate" | "TaskUpdate" | "TaskList" | "TaskGet" => {
                Self::Track
            }
            "AskUserQuestion" => Self::Ask,
            "EnterPlanMode" | "ExitPlanMode" | "exit_plan_mode" => Self::Plan,
            "Skill" | "SlashCommand" => Self::Skill,
            _ => Self::Use,
        }
    }

    /// The word at the start of a card.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Write => "Write",
            Self::Edit => "Edit",
            Self::Run => "Run",
            Self::Search => "Search",
            Self::Fetch => "Fetch",
            Self::SearchWeb => "Search the web",
            Self::Delegate => "Delegate",
            Self::Track => "Track",
            Self::Ask => "Ask",
            Self::Plan => "Plan",
            Self::Skill => "Skill",
            Self::Use => "Use",
        }
    }
}

/// The input of a call in typed form.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolInput<'a> {
    Read {
        path: String,
        /// The first line, and how many.
        lines: Option<(u64, Option<u64>)>,
    },
    Write {
        path: String,
        content: String,
    },
    Edit {
        path: String,
        replacements: Vec<Replacement>,
    },
    Shell {
        command: String,
        /// What it is for, in the model's words.
        description: Option<String>,
        background: bool,
    },
    Search {
        pattern: String,
        path: Option<String>,
    },
    /// A page is fetched, or the web searched.
    Web {
        /// The URL or the search terms.
        query: String,
    },
    Agent {
        /// The type of sub-agent.
        agent: Option<String>,
        /// The task in a few words.
        description: String,
        prompt: String,
    },
    /// The whole to-do list.
    Todos(Vec<Todo>),
    Questions(Vec<Question>),
    /// A plan for approval, in Markdown.
    Plan(String),
    /// Any other input, as JSON.
    Other(&'a str),
}

/// A replacement of text in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    pub before: String,
    pub after: String,
    /// Whether every occurrence is replaced.
    pub all: bool,
}

/// A question to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Answers are keyed by it.
    pub text: String,
    /// A short label.
    pub header: String,
    pub options: Vec<QuestionOption>,
    /// Whether more than one option may be chosen.
    pub multiple: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionOption {
    pub label: String,
    pub description: String,
}

/// Input keys that say what a call works on, the most specific first.
const TARGET_KEYS: &[&str] = &[
    "file_path",
    "filePath",
    "filepath",
    "absolute_path",
    "notebook_path",
    "command",
    "cmd",
    "pattern",
    "url",
    "query",
    "description",
    "subject",
    "skill",
    "path",
    "name",
    "taskId",
    "bash_id",
    "shell_id",
    "task_id",
    "prompt",
];

/// How many entries of a plan are kept.
const MAX_TODOS: usize = 1000;

/// A target is shown in one line of a card; the input has the rest.
const TARGET_CHARS: usize = 200;

/// What a call with that input works on, in one line.
pub(crate) fn target(input: Raw<'_>) -> String {
    let mut best: Option<(usize, Text<'_>)> = None;
    for (key, value) in input.fields() {
        let Some(rank) = TARGET_KEYS.iter().position(|known| key == **known) else { continue };
        if let Some(text) = value.text()
            && best.is_none_or(|(other, _)| rank < other)
        {
            best = Some((rank, text));
        }
    }
    let Some((_, text)) = best else { return first_question(input) };
    one_line(&text.decode())
}

/// The command in the input of a shell: a text, or a list of arguments.
pub(crate) fn shell_command(input: Raw<'_>) -> Option<String> {
    let command = input.get("command").or_else(|| input.get("cmd"))?;
    if let Some(text) = command.text() {
        return Some(text.decode().into_owned());
    }
    let words: Vec<_> = command.items().filter_map(|it| Some(it.text()?.decode())).collect();
    match words.as_slice() {
        [] => None,
        // What a shell is given to run.
        [_, flag, script] if matches!(&**flag, "-c" | "-lc") => Some(script.clone().into_owned()),
        words => Some(words.join(" ")),
    }
}

fn first_question(input: Raw<'_>) -> String {
    let first = input.get("questions").and_then(|it| it.items().next());
    let text = first.and_then(|it| it.get("question")).and_then(Raw::text);
    text.map(|text| one_line(&text.decode())).unwrap_or_default()
}

fn one_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    visible(line.char_indices().nth(TARGET_CHARS).map_or(line, |(end, _)| &line[..end]))
}

impl Call {
    /// Its input in a form of its own.
    pub fn tool_input(&self) -> ToolInput<'_> {
        Raw::parse(&self.input)
            .and_then(|input| {
                tool_input(&self.tool, input).or_else(|| action_input(self.action, input))
            })
            .unwrap_or(ToolInput::Other(&self.input))
    }
}

/// The input of a tool of which only the action is known, by the names that are usual for its fields.
fn action_input<'a>(action: ToolAction, input: Raw<'_>) -> Option<ToolInput<'a>> {
    let text = |keys: &[&str]| keys.iter().find_map(|key| string(input, key));
    let path = || text(&["file_path", "filePath", "filepath", "absolute_path", "path"]);
    Some(match action {
        ToolAction::Run => ToolInput::Shell {
            command: shell_command(input)?,
            description: text(&["description"]),
            background: false,
        },
        ToolAction::Read => ToolInput::Read { path: path()?, lines: lines(input) },
        ToolAction::Edit => ToolInput::Edit {
            path: path()?,
            replacements: vec![Replacement {
                before: text(&["oldString", "old_string", "old_str"])?,
                after: text(&["newString", "new_string", "new_str"])?,
                all: false,
            }],
        },
        ToolAction::Search => ToolInput::Search { pattern: text(&["pattern"])?, path: path() },
        ToolAction::Fetch => ToolInput::Web { query: text(&["url"])? },
        ToolAction::Track => ToolInput::Todos(todos(input)?),
        _ => return None,
    })
}

fn tool_input<'a>(tool: &str, input: Raw<'_>) -> Option<ToolInput<'a>> {
    let text = |key: &str| Some(input.get(key)?.text()?.decode().into_owned());
    Some(match tool {
        "Read" => ToolInput::Read { path: text("file_path")?, lines: lines(input) },
        "Write" => ToolInput::Write { path: text("file_path")?, content: text("content")? },
        "Edit" => {
            ToolInput::Edit { path: text("file_path")?, replacements: vec![replacement(input)?] }
        }
        "MultiEdit" => ToolInput::Edit {
            path: text("file_path")?,
            replacements: input.get("edits")?.items().map(replacement).collect::<Option<_>>()?,
        },
        "Bash" | "PowerShell" => ToolInput::Shell {
            command: text("command")?,
            description: text("description"),
            background: input.get("run_in_background").and_then(Raw::boolean) == Some(true),
        },
        "Grep" | "Glob" => ToolInput::Search { pattern: text("pattern")?, path: text("path") },
        "WebFetch" | "web_fetch" => ToolInput::Web { query: text("url")? },
        "WebSearch" | "web_search" => ToolInput::Web { query: text("query")? },
        "Task" | "Agent" => ToolInput::Agent {
            agent: text("subagent_type"),
            description: text("description").unwrap_or_default(),
            prompt: text("prompt")?,
        },
        "TodoWrite" => ToolInput::Todos(todos(input)?),
        "AskUserQuestion" => ToolInput::Questions(
            input.get("questions")?.items().map(question).collect::<Option<_>>()?,
        ),
        "ExitPlanMode" | "exit_plan_mode" => ToolInput::Plan(text("plan")?),
        _ => return None,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "line numbers are small, and a negative one is none"
)]
fn lines(input: Raw<'_>) -> Option<(u64, Option<u64>)> {
    let number = |key: &str| input.get(key).and_then(Raw::number).map(|it| it as u64);
    let limit = number("limit");
    number("offset").or(limit.map(|_| 1)).map(|offset| (offset, limit))
}

fn replacement(edit: Raw<'_>) -> Option<Replacement> {
    Some(Replacement {
        before: string(edit, "old_string")?,
        after: string(edit, "new_string")?,
        all: edit.get("replace_all").and_then(Raw::boolean) == Some(true),
    })
}

fn question(question: Raw<'_>) -> Option<Question> {
    let options = question.get("options").into_iter().flat_map(Raw::items);
    Some(Question {
        text: string(question, "question")?,
        header: string(question, "header").unwrap_or_default(),
        options: options
            .map(|option| {
                Some(QuestionOption {
                    label: string(option, "label")?,
                    description: string(option, "description").unwrap_or_default(),
                })
            })
            .collect::<Option<_>>()?,
        multiple: question.get("multiSelect").and_then(Raw::boolean) == Some(true),
    })
}

/// The whole to-do list, from the input of `TodoWrite` or a tool like it.
pub(crate) fn todos(input: Raw<'_>) -> Option<Vec<Todo>> {
    let list = ["todos", "plan", "todoList"].into_iter().find_map(|key| input.get(key))?;
    list.items().map(todo).collect()
}

/// The entries of a plan. Those in another shape are left out.
pub(crate) fn todo_entries(entries: Raw<'_>) -> Vec<Todo> {
    entries.items().filter_map(todo).take(MAX_TODOS).collect()
}

fn todo(todo: Raw<'_>) -> Option<Todo> {
    let text = ["content", "step", "description", "title"];
    Some(Todo {
        id: string(todo, "id"),
        text: text.into_iter().find_map(|key| string(todo, key))?,
        doing: string(todo, "activeForm"),
        state: todo_state(todo).unwrap_or(TodoState::Pending),
    })
}

/// The state of a to-do, from its `status`.
pub(crate) fn todo_state(todo: Raw<'_>) -> Option<TodoState> {
    Some(match &*todo.get("status")?.text()?.decode() {
        "in_progress" => TodoState::Doing,
        "completed" => TodoState::Done,
        _ => TodoState::Pending,
    })
}

fn string(object: Raw<'_>, key: &str) -> Option<String> {
    Some(object.get(key)?.text()?.decode().into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Raw, ToolInput, target, tool_input};

    #[test]
    fn a_target_is_the_most_specific_part_of_the_input_in_one_line() {
        let check = |input: &str, expected: &str| {
            assert_eq!(target(Raw::parse(input).unwrap()), expected, "{input}");
        };
        check(r#"{"description":"list","command":"ls -l\nwc"}"#, "ls -l");
        check(r#"{"limit":3,"file_path":"src/main.rs"}"#, "src/main.rs");
        check(r#"{"questions":[{"question":"Which?"}]}"#, "Which?");
        check(r#"{"n":1}"#, "");
        check("[]", "");
        let long = format!(r#"{{"command":"{}"}}"#, "é".repeat(500));
        assert_eq!(target(Raw::parse(&long).unwrap()).chars().count(), 200);
    }

    #[test]
    fn an_unexpected_input_has_no_form_of_its_own() {
        assert_eq!(tool_input("Edit", Raw::parse(r#"{"file_path":"x"}"#).unwrap()), None);
        assert_eq!(tool_input("Bash", Raw::parse(r#"{"command":1}"#).unwrap()), None);
        let edit = r#"{"file_path":"x","old_string":"a","new_string":"b","replace_all":true}"#;
        let Some(ToolInput::Edit { replacements, .. }) =
            tool_input("Edit", Raw::parse(edit).unwrap())
        else {
            panic!("{edit}")
        };
        assert!(replacements[0].all);
    }
}
