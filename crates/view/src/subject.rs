//! What a call is about: the input of the tools a person meets often, given a form of its own.
//!
//! Made on demand from the JSON that the call keeps, so that nothing is held twice. A tool that is
//! not known here, or whose input is not as expected, is [`Subject::Other`] and shown as JSON.

use wire::json::{Raw, Text};

use crate::call::Call;
use crate::todo::{Todo, TodoState};
pub(crate) use crate::verb::Verb;

/// What a call is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject<'a> {
    /// A file is read.
    Read {
        /// Which.
        path: String,
        /// From which line on, and how many.
        lines: Option<(u64, Option<u64>)>,
    },
    /// A file is written whole.
    Write {
        /// Which.
        path: String,
        /// What it holds afterwards.
        content: String,
    },
    /// Parts of a file are changed.
    Edit {
        /// Which.
        path: String,
        /// The changes in their order.
        changes: Vec<Change>,
    },
    /// A command is run.
    Shell {
        /// The command.
        command: String,
        /// What for, in the model's words.
        description: Option<String>,
        /// Whether it runs in the background.
        background: bool,
    },
    /// Something is looked for in files.
    Search {
        /// What.
        pattern: String,
        /// Where.
        path: Option<String>,
    },
    /// A page is fetched, or the web searched.
    Web {
        /// The address or the words.
        query: String,
    },
    /// A sub-agent is given work.
    Agent {
        /// What sort of agent.
        agent: Option<String>,
        /// The work in a few words.
        description: String,
        /// The work in all words.
        prompt: String,
    },
    /// The list of what is to be done, whole.
    Todos(Vec<Todo>),
    /// The user is asked.
    Questions(Vec<Question>),
    /// A plan is submitted, in Markdown.
    Plan(String),
    /// Anything else: the JSON of its input.
    Other(&'a str),
}

/// A change of part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What stood there.
    pub before: String,
    /// What stands there afterwards.
    pub after: String,
    /// Whether every place is meant, not just one.
    pub everywhere: bool,
}

/// A question to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The question, by which its answer is found.
    pub text: String,
    /// The same in a word or two.
    pub header: String,
    /// Answers to choose from.
    pub choices: Vec<Choice>,
    /// Whether more than one may be chosen.
    pub several: bool,
}

/// An answer to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What is answered.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// Keys whose value says best what a call works on, the telling ones first.
const TELLING: &[&str] = &[
    "file_path",
    "notebook_path",
    "command",
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

/// A target is for one line of a card; what is longer is in the input.
const TARGET_CHARS: usize = 200;

/// What a call with that input works on, in one line.
pub(crate) fn target(input: Raw<'_>) -> String {
    let mut best: Option<(usize, Text<'_>)> = None;
    for (key, value) in input.fields() {
        let Some(rank) = TELLING.iter().position(|telling| key == **telling) else { continue };
        if let Some(text) = value.text()
            && best.is_none_or(|(other, _)| rank < other)
        {
            best = Some((rank, text));
        }
    }
    let Some((_, text)) = best else { return first_question(input) };
    one_line(&text.decode())
}

/// What is asked, for the tool that asks.
fn first_question(input: Raw<'_>) -> String {
    let first = input.get("questions").and_then(|it| it.items().next());
    let text = first.and_then(|it| it.get("question")).and_then(Raw::text);
    text.map(|text| one_line(&text.decode())).unwrap_or_default()
}

fn one_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    line.char_indices().nth(TARGET_CHARS).map_or(line, |(end, _)| &line[..end]).to_owned()
}

impl Call {
    /// What it is about.
    pub fn subject(&self) -> Subject<'_> {
        Raw::parse(&self.input)
            .and_then(|input| subject(&self.tool, input))
            .unwrap_or(Subject::Other(&self.input))
    }
}

fn subject<'a>(tool: &str, input: Raw<'_>) -> Option<Subject<'a>> {
    let text = |key: &str| Some(input.get(key)?.text()?.decode().into_owned());
    Some(match tool {
        "Read" => Subject::Read { path: text("file_path")?, lines: lines(input) },
        "Write" => Subject::Write { path: text("file_path")?, content: text("content")? },
        "Edit" => Subject::Edit { path: text("file_path")?, changes: vec![change(input)?] },
        "MultiEdit" => Subject::Edit {
            path: text("file_path")?,
            changes: input.get("edits")?.items().map(change).collect::<Option<_>>()?,
        },
        "Bash" | "PowerShell" => Subject::Shell {
            command: text("command")?,
            description: text("description"),
            background: input.get("run_in_background").and_then(Raw::boolean) == Some(true),
        },
        "Grep" | "Glob" => Subject::Search { pattern: text("pattern")?, path: text("path") },
        "WebFetch" | "web_fetch" => Subject::Web { query: text("url")? },
        "WebSearch" | "web_search" => Subject::Web { query: text("query")? },
        "Task" | "Agent" => Subject::Agent {
            agent: text("subagent_type"),
            description: text("description").unwrap_or_default(),
            prompt: text("prompt")?,
        },
        "TodoWrite" => Subject::Todos(todos(input)?),
        "AskUserQuestion" => Subject::Questions(
            input.get("questions")?.items().map(question).collect::<Option<_>>()?,
        ),
        "ExitPlanMode" | "exit_plan_mode" => Subject::Plan(text("plan")?),
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

fn change(edit: Raw<'_>) -> Option<Change> {
    Some(Change {
        before: string(edit, "old_string")?,
        after: string(edit, "new_string")?,
        everywhere: edit.get("replace_all").and_then(Raw::boolean) == Some(true),
    })
}

fn question(question: Raw<'_>) -> Option<Question> {
    let choices = question.get("options").into_iter().flat_map(Raw::items);
    Some(Question {
        text: string(question, "question")?,
        header: string(question, "header").unwrap_or_default(),
        choices: choices
            .map(|choice| {
                Some(Choice {
                    label: string(choice, "label")?,
                    description: string(choice, "description").unwrap_or_default(),
                })
            })
            .collect::<Option<_>>()?,
        several: question.get("multiSelect").and_then(Raw::boolean) == Some(true),
    })
}

/// The whole list, from the input of `TodoWrite`.
pub(crate) fn todos(input: Raw<'_>) -> Option<Vec<Todo>> {
    input
        .get("todos")?
        .items()
        .map(|todo| {
            Some(Todo {
                id: string(todo, "id"),
                text: string(todo, "content")?,
                doing: string(todo, "activeForm"),
                state: todo_state(todo).unwrap_or(TodoState::Pending),
            })
        })
        .collect()
}

/// Where an entry of the list stands, as its `status` says.
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
    use super::{Raw, Subject, subject, target};

    #[test]
    fn a_target_is_the_most_telling_part_of_the_input_in_one_line() {
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
    fn an_input_that_is_not_as_expected_is_no_subject() {
        assert_eq!(subject("Edit", Raw::parse(r#"{"file_path":"x"}"#).unwrap()), None);
        assert_eq!(subject("Bash", Raw::parse(r#"{"command":1}"#).unwrap()), None);
        let edit = r#"{"file_path":"x","old_string":"a","new_string":"b","replace_all":true}"#;
        let Some(Subject::Edit { changes, .. }) = subject("Edit", Raw::parse(edit).unwrap()) else {
            panic!("{edit}")
        };
        assert!(changes[0].everywhere);
    }
}
