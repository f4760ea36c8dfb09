//! The CLI's arguments, read the way its parser reads them.
//!
//! `--flag value` and `--flag=value` both occur, an empty argument is no prompt, and what 2.1.325
//! does not know is refused in its words.

use std::path::PathBuf;

/// What the player was started with.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "they are the CLI's switches, each on its own")]
pub struct Arguments {
    pub(crate) prompt: Option<String>,
    pub(crate) print: bool,
    pub(crate) version: bool,
    pub(crate) help: bool,
    pub(crate) input: InputFormat,
    pub(crate) output: OutputFormat,
    pub(crate) verbose: bool,
    pub(crate) partial: bool,
    pub(crate) replay: bool,
    pub(crate) stdio_prompts: bool,
    pub(crate) permission_mode: Option<String>,
    pub(crate) skip_permissions: bool,
    pub(crate) allow_skip: bool,
    pub(crate) session_id: Option<String>,
    pub(crate) resume: Option<String>,
    pub(crate) resume_at: Option<String>,
    pub(crate) fork: bool,
    pub(crate) continue_latest: bool,
    pub(crate) model: Option<String>,
    pub(crate) system_prompt: Option<String>,
    pub(crate) append_system_prompt: Option<String>,
    pub(crate) allowed: Vec<String>,
    pub(crate) disallowed: Vec<String>,
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) directories: Vec<String>,
    pub(crate) mcp: Vec<String>,
    pub(crate) max_turns: Option<u32>,
    pub(crate) max_budget: Option<f64>,
    pub(crate) settings: Option<String>,
    pub(crate) setting_sources: Option<String>,
    pub(crate) forget: bool,
    pub(crate) forward_subagent_text: bool,
    pub(crate) hook_events: bool,
    pub(crate) file: bool,
    pub(crate) scenario: Option<PathBuf>,
}

/// How prompts come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InputFormat {
    #[default]
    Text,
    StreamJson,
}

/// How answers go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    #[default]
    Text,
    Json,
    StreamJson,
}

/// Why the player did not start, as the CLI says it on stderr; it then exits with 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Flags that 2.1.325 takes with a value and that change nothing here.
const VALUES_WITHOUT_EFFECT: &[&str] = &[
    "--agent",
    "--agents",
    "--append-system-prompt-file",
    "--append-subagent-system-prompt",
    "--autocompact",
    "--debug-file",
    "--debug-to-stderr",
    "--effort",
    "--fallback-model",
    "--json-schema",
    "--max-thinking-tokens",
    "--mcp-debug",
    "--name",
    "--permission-prompts",
    "--plugin-dir",
    "--plugin-url",
    "--sdk-url",
    "--session-mirror",
    "--system-prompt-file",
    "--system-prompt-snapshot",
    "--task-budget",
    "--thinking",
    "--thinking-display",
];

/// Switches of 2.1.325 that change nothing here.
const SWITCHES_WITHOUT_EFFECT: &[&str] = &[
    "--ax-screen-reader",
    "--bare",
    "--brief",
    "--chrome",
    "--debug",
    "-d",
    "--debug-to-stderr",
    "--disable-slash-commands",
    "--exclude-dynamic-system-prompt-sections",
    "--ide",
    "--no-chrome",
    "--safe-mode",
    "--strict-mcp-config",
    "--enable-auth-status",
    "--session-mirror",
];

/// Modes that `--permission-mode` takes; `default` and `manual` are one.
const MODES: &[&str] =
    &["acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan"];

struct Reader {
    arguments: std::vec::IntoIter<String>,
    next: Option<String>,
}

impl Reader {
    fn pull(&mut self) -> Option<String> {
        self.next.take().or_else(|| self.arguments.next())
    }

    fn value(&mut self, flag: &str, inline: Option<String>) -> Result<String, Refusal> {
        inline
            .or_else(|| self.pull())
            .ok_or_else(|| Refusal(format!("error: option '{flag}' argument missing")))
    }

    fn optional(&mut self, inline: Option<String>) -> Option<String> {
        if inline.is_some() {
            return inline;
        }
        match self.pull() {
            Some(value) if !value.starts_with('-') && !value.is_empty() => Some(value),
            other => {
                self.next = other;
                None
            }
        }
    }

    /// Values up to the next flag.
    fn values(&mut self, flag: &str, inline: Option<String>) -> Result<Vec<String>, Refusal> {
        let mut values = vec![self.value(flag, inline)?];
        while let Some(value) = self.pull() {
            if value.starts_with('-') {
                self.next = Some(value);
                break;
            }
            values.push(value);
        }
        Ok(values)
    }
}

impl Arguments {
    /// Reads the arguments behind the program's name.
    pub fn read(arguments: Vec<String>) -> Result<Self, Refusal> {
        let mut reader = Reader { arguments: arguments.into_iter(), next: None };
        let mut read = Self::default();
        while let Some(argument) = reader.pull() {
            if argument == "--" {
                let words: Vec<String> = std::iter::from_fn(|| reader.pull()).collect();
                read.prompt.get_or_insert(words.join(" "));
            } else if argument.starts_with('-') && argument.len() > 1 {
                read.flag(&argument, &mut reader)?;
            } else if !argument.is_empty() {
                read.prompt.get_or_insert(argument);
            }
        }
        read.check()?;
        Ok(read)
    }

    fn flag(&mut self, argument: &str, reader: &mut Reader) -> Result<(), Refusal> {
        let (flag, inline) = match argument.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
            _ => (argument, None),
        };
        if let Some(switch) = self.switch(flag) {
            if inline.is_some() {
                return Err(unknown(argument));
            }
            *switch = true;
            return Ok(());
        }
        match flag {
            "--input-format" => self.input = input_format(&reader.value(flag, inline)?)?,
            "--output-format" => self.output = output_format(&reader.value(flag, inline)?)?,
            "--permission-prompt-tool" => {
                self.stdio_prompts = reader.value(flag, inline)? == "stdio";
            }
            "--permission-mode" => self.permission_mode = Some(mode(reader.value(flag, inline)?)?),
            "--session-id" => self.session_id = Some(reader.value(flag, inline)?),
            "--resume" | "-r" => self.resume = reader.optional(inline),
            "--resume-session-at" => self.resume_at = Some(reader.value(flag, inline)?),
            "--model" => self.model = Some(reader.value(flag, inline)?),
            "--system-prompt" => self.system_prompt = Some(reader.value(flag, inline)?),
            "--append-system-prompt" => {
                self.append_system_prompt = Some(reader.value(flag, inline)?);
            }
            "--allowedTools" | "--allowed-tools" => {
                self.allowed.extend(list(&reader.values(flag, inline)?));
            }
            "--disallowedTools" | "--disallowed-tools" => {
                self.disallowed.extend(list(&reader.values(flag, inline)?));
            }
            "--tools" => {
                let tools = list(&reader.values(flag, inline)?);
                self.tools = (tools != ["default"]).then_some(tools);
            }
            "--add-dir" => self.directories.extend(reader.values(flag, inline)?),
            "--mcp-config" => self.mcp.extend(reader.values(flag, inline)?),
            "--max-turns" => self.max_turns = number(flag, &reader.value(flag, inline)?)?,
            "--max-budget-usd" => self.max_budget = number(flag, &reader.value(flag, inline)?)?,
            "--settings" => self.settings = Some(reader.value(flag, inline)?),
            "--setting-sources" => self.setting_sources = Some(reader.value(flag, inline)?),
            "--scenario" => self.scenario = Some(reader.value(flag, inline)?.into()),
            "--betas" => drop(reader.values(flag, inline)?),
            "--file" => {
                self.file = true;
                drop(reader.values(flag, inline)?);
            }
            "--prompt-suggestions" => drop(reader.optional(inline)),
            _ if SWITCHES_WITHOUT_EFFECT.contains(&flag) => {}
            _ if VALUES_WITHOUT_EFFECT.contains(&flag) => drop(reader.value(flag, inline)?),
            "-n" => drop(reader.value(flag, inline)?),
            _ => return Err(unknown(argument)),
        }
        Ok(())
    }

    fn switch(&mut self, flag: &str) -> Option<&mut bool> {
        Some(match flag {
            "-p" | "--print" => &mut self.print,
            "-v" | "--version" => &mut self.version,
            "-h" | "--help" => &mut self.help,
            "-c" | "--continue" => &mut self.continue_latest,
            "--verbose" => &mut self.verbose,
            "--include-partial-messages" => &mut self.partial,
            "--include-hook-events" => &mut self.hook_events,
            "--replay-user-messages" => &mut self.replay,
            "--dangerously-skip-permissions" => &mut self.skip_permissions,
            "--allow-dangerously-skip-permissions" => &mut self.allow_skip,
            "--fork-session" => &mut self.fork,
            "--no-session-persistence" => &mut self.forget,
            "--forward-subagent-text" => &mut self.forward_subagent_text,
            _ => return None,
        })
    }

    fn check(&self) -> Result<(), Refusal> {
        if self.version || self.help {
            return Ok(());
        }
        let refuse = |text: &str| Err(Refusal(text.to_owned()));
        if self.output == OutputFormat::StreamJson && self.print && !self.verbose {
            return refuse(
                "Error: When using --print, --output-format=stream-json requires --verbose",
            );
        }
        if self.input == InputFormat::StreamJson && self.output != OutputFormat::StreamJson {
            return refuse("Error: --input-format=stream-json requires output-format=stream-json.");
        }
        if self.file {
            return refuse(
                "Error: Session token required for file downloads. \
                 CLAUDE_CODE_SESSION_ACCESS_TOKEN must be set.",
            );
        }
        match &self.session_id {
            Some(id) if uuid::Uuid::parse_str(id).is_err() => {
                refuse("Error: Invalid session ID. Must be a valid UUID.")
            }
            Some(_) if (self.resume.is_some() || self.continue_latest) && !self.fork => refuse(
                "Error: --session-id can only be used with --continue or --resume if \
                 --fork-session is also specified.",
            ),
            _ => Ok(()),
        }
    }
}

fn unknown(argument: &str) -> Refusal {
    Refusal(format!("error: unknown option '{argument}'"))
}

fn mode(text: String) -> Result<String, Refusal> {
    if MODES.contains(&text.as_str()) {
        return Ok(text);
    }
    Err(Refusal(format!(
        "error: option '--permission-mode <mode>' argument '{text}' is invalid. Allowed choices are \
         acceptEdits, auto, bypassPermissions, manual, dontAsk, plan."
    )))
}

fn input_format(text: &str) -> Result<InputFormat, Refusal> {
    match text {
        "text" => Ok(InputFormat::Text),
        "stream-json" => Ok(InputFormat::StreamJson),
        _ => Err(Refusal(format!(
            "error: option '--input-format <format>' argument '{text}' is invalid. Allowed choices \
             are text, stream-json."
        ))),
    }
}

fn output_format(text: &str) -> Result<OutputFormat, Refusal> {
    match text {
        "text" => Ok(OutputFormat::Text),
        "json" => Ok(OutputFormat::Json),
        "stream-json" => Ok(OutputFormat::StreamJson),
        _ => Err(Refusal(format!(
            "error: option '--output-format <format>' argument '{text}' is invalid. Allowed choices \
             are text, json, stream-json."
        ))),
    }
}

fn number<T: std::str::FromStr>(flag: &str, text: &str) -> Result<Option<T>, Refusal> {
    let refuse = |_| Refusal(format!("error: option '{flag}' argument '{text}' is invalid."));
    text.parse().map(Some).map_err(refuse)
}

/// Names separated by commas or white space, which inside parentheses separate nothing.
pub(crate) fn list(values: &[String]) -> Vec<String> {
    let mut names = Vec::new();
    for value in values {
        let (mut name, mut depth) = (String::new(), 0usize);
        for letter in value.chars() {
            match letter {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                ',' | ' ' if depth == 0 => {
                    names.push(std::mem::take(&mut name));
                    continue;
                }
                _ => {}
            }
            name.push(letter);
        }
        names.push(name);
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::{Arguments, InputFormat, OutputFormat};

    fn read(line: &str) -> Result<Arguments, String> {
        let arguments = line.split(' ').map(|word| word.replace('_', " ")).collect();
        Arguments::read(arguments).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn both_ways_to_give_a_value_are_understood_and_an_empty_argument_is_no_prompt() {
        let line = "--output-format=stream-json --verbose --input-format stream-json \
                    --allowedTools Read,Bash(git_log,*) --resume --model=opus ";
        let read = read(line).unwrap();
        assert_eq!(read.output, OutputFormat::StreamJson);
        assert_eq!(read.input, InputFormat::StreamJson);
        assert_eq!(read.allowed, ["Read", "Bash(git log,*)"]);
        assert_eq!(read.model.as_deref(), Some("opus"));
        assert_eq!((read.resume, read.prompt), (None, None));
    }

    #[test]
    fn what_the_cli_refuses_is_refused_in_its_words() {
        let refusals = [
            (
                "--no-session-persistence=false",
                "error: unknown option '--no-session-persistence=false'",
            ),
            ("--wibble", "error: unknown option '--wibble'"),
            (
                "-p --output-format stream-json",
                "Error: When using --print, --output-format=stream-json requires --verbose",
            ),
            (
                "--input-format stream-json",
                "Error: --input-format=stream-json requires output-format=stream-json.",
            ),
            ("--session-id abc", "Error: Invalid session ID. Must be a valid UUID."),
        ];
        for (line, refusal) in refusals {
            assert_eq!(read(line).unwrap_err(), refusal, "{line}");
        }
    }
}
