//! Scenario files: text in, a [`Scenario`] or the first line that is wrong.
//!
//! The grammar is `docs/scenarios.md`. A line is read on its own: nothing here looks ahead, save
//! that a line beginning with white space belongs to the one before it.

mod line;
mod reply;
mod step;

use std::io;
use std::path::{Path, PathBuf};

use super::{Item, Range, Run, Scenario, Start};
use line::{Line, Wrong};

/// A scenario could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("could not read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not what it should be.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The file, as it was named.
        file: String,
        /// The line, from 1 on.
        line: usize,
        /// What was expected, and what stands there.
        problem: String,
        /// What such a line may look like.
        looks_like: Option<&'static str>,
    },
}

impl LoadError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { .. } => None,
            Self::Line { looks_like: Some(form), .. } => {
                Some(format!("such a line looks like `{form}`"))
            }
            Self::Line { looks_like: None, .. } => {
                Some("`docs/scenarios.md` lists every line there is".to_owned())
            }
        }
    }
}

/// What each line may look like, by its first word.
const FORMS: &[(&str, &str)] = &[
    ("versions", "versions >=2.1.37"),
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
    ("count", "count result 2"),
    ("open", "open NAME"),
    ("request", "request 1 {\"model\":\"claude-opus-5-5\"}"),
    ("requests", "requests 2"),
    ("signal", "signal INT"),
    ("eof", "eof"),
    ("exit", "exit 0` or `exit signal KILL"),
    ("alive", "alive"),
    ("stderr", "stderr \"words\""),
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
    /// Reads a scenario from its file. Recordings it names lie beside it.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut scenario = Parser::parse(&path.display().to_string(), &name, &text)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        for recording in scenario.replies.iter_mut().filter_map(|it| it.what.replay.as_mut()) {
            *recording = directory.join(&*recording);
        }
        Ok(scenario)
    }

    /// Reads a scenario of this name from a text.
    pub fn parse(name: &str, text: &str) -> Result<Self, LoadError> {
        Parser::parse(&format!("{name}.scenario"), name, text)
    }
}

/// What was read so far.
struct Parser {
    scenario: Scenario,
    /// The run the next step belongs to.
    run: Item<Run>,
    /// Arguments that later runs share.
    shared: Vec<Item<String>>,
}

impl Parser {
    fn parse(file: &str, name: &str, text: &str) -> Result<Scenario, LoadError> {
        let refuse = |line, problem, looks_like| LoadError::Line {
            file: file.to_owned(),
            line,
            problem,
            looks_like,
        };
        let mut lines = text.lines();
        let Some(title) = lines.next().and_then(|line| line.strip_prefix("# ")) else {
            let problem = "expected the title of the scenario, a sentence".to_owned();
            return Err(refuse(1, problem, Some("# A tool runs, and the model is told")));
        };
        let about: Vec<&str> =
            lines.map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
        let mut parser = Self {
            scenario: Scenario {
                name: name.to_owned(),
                title: title.trim().to_owned(),
                about: about.join("\n").trim().to_owned(),
                versions: Range::default(),
                start: Start::default(),
                replies: Vec::new(),
                runs: Vec::new(),
            },
            run: Item { versions: Range::default(), line: 1, what: Run::default() },
            shared: Vec::new(),
        };
        for (number, text) in logical_lines(text) {
            parser
                .line(number, &text)
                .map_err(|(form, Wrong(problem))| refuse(number, problem, form))?;
        }
        parser.end_run();
        if parser.scenario.runs.iter().all(|run| run.what.steps.is_empty()) {
            let problem = "expected a step somewhere: nothing is said or awaited".to_owned();
            return Err(refuse(text.lines().count(), problem, Some("> user \"hello\"")));
        }
        Ok(parser.scenario)
    }

    /// Takes one line; what is wrong with it comes back with what it may look like.
    fn line(&mut self, number: usize, text: &str) -> Result<(), (Option<&'static str>, Wrong)> {
        let (versions, text) = condition(text).map_err(|wrong| (None, wrong))?;
        let mut line = Line::new(text);
        let keyword = line.word("a line").map_err(|wrong| (None, wrong))?;
        let item = Item { versions, line: number, what: () };
        self.keyword(keyword, item, &mut line)
            .and_then(|()| line.end())
            .map_err(|wrong| (form(text), wrong))
    }

    fn keyword(&mut self, keyword: &str, item: Item<()>, line: &mut Line<'_>) -> Result<(), Wrong> {
        match keyword {
            "api" => self.scenario.replies.push(item.with(reply::reply(line)?)),
            "run" | "run-only" | "beside" => self.begin_run(keyword, item, line)?,
            _ => match step::step(keyword, line)? {
                Some(step) => self.run.what.steps.push(item.with(step)),
                None => self.preparation(keyword, item, line)?,
            },
        }
        Ok(())
    }

    fn begin_run(
        &mut self,
        keyword: &str,
        item: Item<()>,
        line: &mut Line<'_>,
    ) -> Result<(), Wrong> {
        if self.scenario.runs.is_empty() && self.run.what.steps.is_empty() {
            return Err(Wrong(format!("`{keyword}` needs steps of a first run before it")));
        }
        self.end_run();
        let only_args = keyword == "run-only";
        let mut args = if only_args { Vec::new() } else { self.shared.clone() };
        let own = line::arguments(line.rest())?;
        args.extend(own.into_iter().map(|arg| Item::always(item.line, arg)));
        let run = Run { args, only_args, beside: keyword == "beside", steps: Vec::new() };
        self.run = item.with(run);
        Ok(())
    }

    fn end_run(&mut self) {
        let next = Item { versions: Range::default(), line: 0, what: Run::default() };
        self.scenario.runs.push(std::mem::replace(&mut self.run, next));
    }

    /// A line about what must be there before anything runs.
    fn preparation(
        &mut self,
        keyword: &str,
        item: Item<()>,
        line: &mut Line<'_>,
    ) -> Result<(), Wrong> {
        if !FORMS.iter().any(|(known, _)| *known == keyword) {
            return Err(Wrong(format!("`{keyword}` begins no line of a scenario")));
        }
        if !self.scenario.runs.is_empty() || !self.run.what.steps.is_empty() {
            return Err(Wrong(format!("`{keyword}` stands before the first step")));
        }
        if matches!(keyword, "versions" | "session" | "no-stdin") && !item.versions.is_all() {
            return Err(Wrong(format!("`{keyword}` takes no condition")));
        }
        let start = &mut self.scenario.start;
        match keyword {
            "versions" => {
                let range: Range =
                    line.rest().parse().map_err(|error| Wrong(format!("{error}")))?;
                if range.is_all() {
                    return Err(line.wrong("a version or bounds of versions"));
                }
                self.scenario.versions = range;
            }
            "args" | "only-args" => {
                self.run.what.only_args |= keyword == "only-args";
                let own = line::arguments(line.rest())?;
                self.add_arguments(&item, own);
            }
            "partial" => self.add_arguments(&item, ["--include-partial-messages".to_owned()]),
            "replay" => self.add_arguments(&item, ["--replay-user-messages".to_owned()]),
            "stdio" => {
                let own = ["--permission-prompt-tool", "stdio"];
                self.add_arguments(&item, own.map(str::to_owned));
            }
            "session" => start.session = true,
            "no-stdin" => start.no_stdin = true,
            "env" => start.env.push(item.with(variable(line)?)),
            "file" => start.files.push(item.with(file(line)?)),
            _ => start.home_files.push(item.with(file(line)?)),
        }
        Ok(())
    }

    fn add_arguments(&mut self, item: &Item<()>, own: impl IntoIterator<Item = String>) {
        for argument in own {
            let argument = item.clone().with(argument);
            self.run.what.args.push(argument.clone());
            if !self.run.what.only_args {
                self.shared.push(argument);
            }
        }
    }
}

/// What a line that begins like this may look like.
fn form(text: &str) -> Option<&'static str> {
    let mut words = text.split_whitespace();
    let first = words.next()?;
    let both = words.next().map(|second| format!("{first} {second}"));
    let find = |wanted: &str| FORMS.iter().find(|(keyword, _)| *keyword == wanted);
    both.as_deref().and_then(find).or_else(|| find(first)).map(|(_, form)| *form)
}

fn variable(line: &mut Line<'_>) -> Result<(String, Option<String>), Wrong> {
    let text = line.rest();
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let good = |it: char| it.is_ascii_alphanumeric() || it == '_';
    if name.is_empty() || !name.chars().all(good) {
        return Err(Wrong(format!("expected the name of a variable, not `{name}`")));
    }
    Ok((name.to_owned(), value))
}

fn file(line: &mut Line<'_>) -> Result<(String, String), Wrong> {
    Ok((line.path()?, line.string("the content in quotes")?))
}

/// The versions a line counts on, and the rest of it.
fn condition(text: &str) -> Result<(Range, &str), Wrong> {
    let Some(behind) = text.strip_prefix('[') else { return Ok((Range::default(), text)) };
    let Some((range, rest)) = behind.split_once(']') else {
        return Err(Wrong("expected a `]` behind the versions, as in `[>=2.1.197]`".to_owned()));
    };
    let range: Range = range.parse().map_err(|error| Wrong(format!("{error}")))?;
    if range.is_all() {
        return Err(Wrong("expected versions within `[]`, as in `[>=2.1.197]`".to_owned()));
    }
    Ok((range, rest))
}

/// The lines that say something, each with those that continue it, numbered from 1 on.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    // A line that continues a remark, or stands behind a blank one, is no part of a step.
    let mut open = false;
    for (place, line) in text.lines().enumerate() {
        if line.starts_with('#') || line.trim().is_empty() {
            open = false;
        } else if line.starts_with(char::is_whitespace) && open {
            if let Some((_, before)) = lines.last_mut() {
                before.push(' ');
                before.push_str(line.trim());
            }
        } else {
            open = true;
            lines.push((place + 1, line.trim_end().to_owned()));
        }
    }
    lines
}

#[cfg(test)]
mod tests;
