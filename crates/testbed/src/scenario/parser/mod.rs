//! The parser for scenario files. `docs/scenarios.md` describes the grammar.
//!
//! Every line is parsed on its own. A line that starts with white space continues the previous one.

mod keywords;
mod line;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    Scenario, ScenarioCondition, ScenarioItem, ScenarioProtocol, ScenarioRun, ScenarioSetup,
};
use line::{ScenarioLineReader, ScenarioSyntaxError, split_arguments};

/// A scenario file could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("could not read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{file}:{line}: {problem}")]
    Line {
        file: String,
        /// Counted from 1.
        line: usize,
        problem: String,
        /// A correct line with the same keyword.
        example: Option<&'static str>,
    },
}

impl ScenarioError {
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { .. } => None,
            Self::Line { example: Some(example), .. } => {
                Some(format!("a valid line is, for example, `{example}`"))
            }
            Self::Line { example: None, .. } => {
                Some("see `docs/scenarios.md` for all kinds of lines".to_owned())
            }
        }
    }
}

/// An example for each keyword.
const EXAMPLES: &[(&str, &str)] = &[
    ("versions", "versions >=2.1.37"),
    ("acp", "acp"),
    ("args", "args --model claude-opus-5-5"),
    ("only-args", "only-args -p --output-format json \"hello\""),
    ("partial", "partial"),
    ("replay", "replay"),
    ("stdio", "stdio"),
    ("session", "session"),
    ("env", "env NAME=VALUE"),
    ("file", "file notes.txt \"remember the milk\\n\""),
    ("home-file", "home-file .claude/settings.json \"{}\""),
    ("no-stdin", "no-stdin"),
    ("api", "api text \"Hello\" tool Read {\"file_path\":\"$cwd/a\"} hold NAME after 2"),
    (">", "> user \"hello\""),
    ("> user", "> user \"hello\" uuid NAME priority now"),
    ("> request", "> request {\"subtype\":\"interrupt\"} as NAME"),
    ("> allow", "> allow {\"command\":\"ls\"} to NAME permissions [{…}]"),
    ("> deny", "> deny \"not that\" interrupt to NAME"),
    ("> answer", "> answer {\"mcp_response\":{…}} to NAME"),
    ("> fail", "> fail \"the host is broken\" to NAME"),
    ("> line", "> line {\"type\":\"keep_alive\"}"),
    ("> raw", "> raw \"{}\\n\""),
    ("<", "< system/init {\"cwd\":\"$cwd\"}"),
    ("<~", "<~ system/init {\"cwd\":\"$cwd\"}"),
    ("<!", "<! assistant {\"error\":\"$any\"}"),
    ("says", "says \"Hello\""),
    ("count", "count result 2"),
    ("open", "open NAME"),
    ("request", "request 1 {\"model\":\"claude-opus-5-5\"}"),
    ("requests", "requests 2"),
    ("signal", "signal INT"),
    ("eof", "eof"),
    ("exit", "exit 0` or `exit signal KILL"),
    ("alive", "alive"),
    ("stderr", "stderr \"not found\""),
    ("is", "is notes.txt \"…milk…\""),
    ("is-not", "is-not notes.txt"),
    ("wait-file", "wait-file started"),
    ("gone", "gone \"tail -f\""),
    ("left", "left \"tail -f\""),
    ("at", "at 1"),
    ("run", "run --resume $session"),
    ("run-only", "run-only --version"),
    ("beside", "beside --resume $session"),
];

impl Scenario {
    /// Reads a scenario file. The recordings it names are in the same directory.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScenarioError::Read { path: path.to_owned(), source })?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut scenario = ScenarioParser::parse(&path.display().to_string(), &name, &text)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        for recording in scenario.replies.iter_mut().filter_map(|it| it.value.replay.as_mut()) {
            *recording = directory.join(&*recording);
        }
        Ok(scenario)
    }

    /// Parses the text of a scenario.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScenarioError> {
        ScenarioParser::parse(&format!("{name}.scenario"), name, text)
    }
}

struct ScenarioParser {
    scenario: Scenario,
    /// The run that the next step belongs to.
    run: ScenarioItem<ScenarioRun>,
    /// The arguments that later runs share.
    shared_args: Vec<ScenarioItem<String>>,
}

impl ScenarioParser {
    fn parse(file: &str, name: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let error = |line, problem, example| ScenarioError::Line {
            file: file.to_owned(),
            line,
            problem,
            example,
        };
        let mut lines = text.lines();
        let Some(title) = lines.next().and_then(|line| line.strip_prefix("# ")) else {
            let problem = "expected a title".to_owned();
            return Err(error(1, problem, Some("# A tool runs, and the model gets its result")));
        };
        let description: Vec<&str> =
            lines.map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
        let mut parser = Self {
            scenario: Scenario {
                name: name.to_owned(),
                title: title.trim().to_owned(),
                description: description.join("\n").trim().to_owned(),
                condition: ScenarioCondition::default(),
                protocol: ScenarioProtocol::default(),
                setup: ScenarioSetup::default(),
                replies: Vec::new(),
                runs: Vec::new(),
            },
            run: ScenarioItem::unconditional(1, ScenarioRun::default()),
            shared_args: Vec::new(),
        };
        for (number, text) in logical_lines(text) {
            parser.line(number, &text).map_err(|(example, ScenarioSyntaxError(problem))| {
                error(number, problem, example)
            })?;
        }
        parser.end_run();
        if parser.scenario.runs.iter().all(|run| run.value.steps.is_empty()) {
            let problem = "the scenario has no steps".to_owned();
            return Err(error(text.lines().count(), problem, Some("> user \"hello\"")));
        }
        Ok(parser.scenario)
    }

    /// Parses one line. An error comes with an example of a correct line.
    fn line(
        &mut self,
        number: usize,
        text: &str,
    ) -> Result<(), (Option<&'static str>, ScenarioSyntaxError)> {
        let (condition, text) = condition(text).map_err(|error| (None, error))?;
        let mut line = ScenarioLineReader::new(text);
        let keyword = line.word("a keyword").map_err(|error| (None, error))?;
        let item = ScenarioItem { condition, line: number, value: () };
        self.keyword(keyword, item, &mut line)
            .and_then(|()| line.end())
            .map_err(|error| (example(text), error))
    }

    fn keyword(
        &mut self,
        keyword: &str,
        item: ScenarioItem<()>,
        line: &mut ScenarioLineReader<'_>,
    ) -> Result<(), ScenarioSyntaxError> {
        match keyword {
            "api" => self.scenario.replies.push(item.with(keywords::reply(line)?)),
            "run" | "run-only" | "beside" => self.start_run(keyword, item, line)?,
            _ => match keywords::step(keyword, line)? {
                Some(step) => self.run.value.steps.push(item.with(step)),
                None => self.setup(keyword, item, line)?,
            },
        }
        Ok(())
    }

    fn start_run(
        &mut self,
        keyword: &str,
        item: ScenarioItem<()>,
        line: &mut ScenarioLineReader<'_>,
    ) -> Result<(), ScenarioSyntaxError> {
        if self.scenario.runs.is_empty() && self.run.value.steps.is_empty() {
            return Err(ScenarioSyntaxError(format!(
                "`{keyword}` must follow the steps of another run"
            )));
        }
        self.end_run();
        let only_args = keyword == "run-only";
        let mut args = if only_args { Vec::new() } else { self.shared_args.clone() };
        let own = split_arguments(line.take_rest())?;
        args.extend(own.into_iter().map(|arg| ScenarioItem::unconditional(item.line, arg)));
        let run =
            ScenarioRun { args, only_args, concurrent: keyword == "beside", steps: Vec::new() };
        self.run = item.with(run);
        Ok(())
    }

    fn end_run(&mut self) {
        let next = ScenarioItem::unconditional(0, ScenarioRun::default());
        self.scenario.runs.push(std::mem::replace(&mut self.run, next));
    }

    /// A line about what is prepared before the first run.
    fn setup(
        &mut self,
        keyword: &str,
        item: ScenarioItem<()>,
        line: &mut ScenarioLineReader<'_>,
    ) -> Result<(), ScenarioSyntaxError> {
        if !EXAMPLES.iter().any(|(known, _)| *known == keyword) {
            return Err(ScenarioSyntaxError(format!("unknown keyword `{keyword}`")));
        }
        if !self.scenario.runs.is_empty() || !self.run.value.steps.is_empty() {
            return Err(ScenarioSyntaxError(format!(
                "`{keyword}` must come before the first step"
            )));
        }
        let is_general = matches!(keyword, "versions" | "acp" | "session" | "no-stdin");
        if is_general && !item.condition.is_unconditional() {
            return Err(ScenarioSyntaxError(format!("`{keyword}` cannot have a condition")));
        }
        let setup = &mut self.scenario.setup;
        match keyword {
            "versions" => {
                let condition: ScenarioCondition = line
                    .take_rest()
                    .parse()
                    .map_err(|error| ScenarioSyntaxError(format!("{error}")))?;
                if condition.is_unconditional() {
                    return Err(line.error("a version or a range of versions"));
                }
                self.scenario.condition = condition;
            }
            "acp" => self.scenario.protocol = ScenarioProtocol::Acp,
            "args" | "only-args" => {
                self.run.value.only_args |= keyword == "only-args";
                let own = split_arguments(line.take_rest())?;
                self.add_arguments(&item, own);
            }
            "partial" => self.add_arguments(&item, ["--include-partial-messages".to_owned()]),
            "replay" => self.add_arguments(&item, ["--replay-user-messages".to_owned()]),
            "stdio" => {
                let own = ["--permission-prompt-tool", "stdio"];
                self.add_arguments(&item, own.map(str::to_owned));
            }
            "session" => setup.session = true,
            "no-stdin" => setup.no_stdin = true,
            "env" => setup.env.push(item.with(variable(line)?)),
            "file" => setup.files.push(item.with(file(line)?)),
            _ => setup.home_files.push(item.with(file(line)?)),
        }
        Ok(())
    }

    fn add_arguments(&mut self, item: &ScenarioItem<()>, own: impl IntoIterator<Item = String>) {
        for argument in own {
            let argument = item.clone().with(argument);
            self.run.value.args.push(argument.clone());
            if !self.run.value.only_args {
                self.shared_args.push(argument);
            }
        }
    }
}

/// An example of a line with the same keyword.
fn example(text: &str) -> Option<&'static str> {
    let mut words = text.split_whitespace();
    let first = words.next()?;
    let both = words.next().map(|second| format!("{first} {second}"));
    let find = |wanted: &str| EXAMPLES.iter().find(|(keyword, _)| *keyword == wanted);
    both.as_deref().and_then(find).or_else(|| find(first)).map(|(_, example)| *example)
}

fn variable(
    line: &mut ScenarioLineReader<'_>,
) -> Result<(String, Option<String>), ScenarioSyntaxError> {
    let text = line.take_rest();
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let is_valid = |it: char| it.is_ascii_alphanumeric() || it == '_';
    if name.is_empty() || !name.chars().all(is_valid) {
        return Err(ScenarioSyntaxError(format!(
            "`{name}` is not the name of an environment variable"
        )));
    }
    Ok((name.to_owned(), value))
}

fn file(line: &mut ScenarioLineReader<'_>) -> Result<(String, String), ScenarioSyntaxError> {
    let path = line.path()?;
    if line.starts_with('{') {
        return Ok((path, Value::Object(line.object("the content")?).to_string()));
    }
    Ok((path, line.string("the content in quotes")?))
}

/// Splits the condition off a line.
fn condition(text: &str) -> Result<(ScenarioCondition, &str), ScenarioSyntaxError> {
    let Some(condition) = text.strip_prefix('[') else {
        return Ok((ScenarioCondition::default(), text));
    };
    let Some((range, rest)) = condition.split_once(']') else {
        let problem = "expected `]` after the versions, as in `[>=2.1.197]`";
        return Err(ScenarioSyntaxError(problem.to_owned()));
    };
    let condition: ScenarioCondition =
        range.parse().map_err(|error| ScenarioSyntaxError(format!("{error}")))?;
    if condition.is_unconditional() {
        let problem = "expected versions in the brackets, as in `[>=2.1.197]`";
        return Err(ScenarioSyntaxError(problem.to_owned()));
    }
    Ok((condition, rest))
}

/// The lines without comments and blank lines, each joined with its continuation lines.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    // A line that continues a comment or follows a blank line does not belong to a step.
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('#') || line.trim().is_empty() {
            open = false;
        } else if line.starts_with(char::is_whitespace) && open {
            if let Some((_, previous)) = lines.last_mut() {
                previous.push(' ');
                previous.push_str(line.trim());
            }
        } else {
            open = true;
            lines.push((index + 1, line.trim_end().to_owned()));
        }
    }
    lines
}

#[cfg(test)]
mod tests;
