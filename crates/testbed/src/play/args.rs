//! The CLI's arguments, parsed as its own parser does.
//!
//! Both `--flag value` and `--flag=value` are accepted, an empty argument is not a prompt, and an
//! unknown option is rejected with the CLI's error message.

use std::path::PathBuf;

use crate::play::json_schema::JsonSchema;
use crate::play::release::PlayerRelease;
use crate::play::subcommand::is_subcommand;

/// Options with a value that 2.1.325 accepts and the player ignores.
const IGNORED_OPTIONS: &[&str] = &[
    "--agent",
    "--agents",
    "--append-subagent-system-prompt",
    "--autocompact",
    "--debug-file",
    "--debug-to-stderr",
    "--effort",
    "--fallback-model",
    "--max-thinking-tokens",
    "--mcp-debug",
    "--name",
    "--permission-prompts",
    "--plugin-dir",
    "--plugin-url",
    "--sdk-url",
    "--session-mirror",
    "--system-prompt-snapshot",
    "--task-budget",
    "--thinking",
    "--thinking-display",
];

/// Switches that 2.1.325 accepts and the player ignores.
const IGNORED_SWITCHES: &[&str] = &[
    "--ax-screen-reader",
    "--bare",
    "--brief",
    "--chrome",
    "--debug",
    "-d",
    "--debug-to-stderr",
    "--disable-slash-commands",
    "--exclude-dynamic-system-prompt-sections",
    "--forward-subagent-text",
    "--ide",
    "--no-chrome",
    "--safe-mode",
    "--enable-auth-status",
    "--session-mirror",
];

/// Options with their placeholders, which the CLI's errors quote.
const OPTIONS: &[&str] = &[
    "--add-dir <directories...>",
    "--allowedTools, --allowed-tools <tools...>",
    "--disallowedTools, --disallowed-tools <tools...>",
    "--append-system-prompt <prompt>",
    "--input-format <format>",
    "--json-schema <schema>",
    "--max-budget-usd <amount>",
    "--max-turns <turns>",
    "--mcp-config <configs...>",
    "--model <model>",
    "--output-format <format>",
    "--permission-mode <mode>",
    "--session-id <uuid>",
    "--settings <file-or-json>",
    "--system-prompt <prompt>",
];

/// The values of `--permission-mode`. `manual` is another name for `default`.
const MODES: &[&str] =
    &["acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan"];

/// The arguments of the player.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the CLI")]
pub struct PlayerArgs {
    pub(crate) prompt: Option<String>,
    /// A subcommand and everything after it, if the arguments are not those of a session.
    pub(crate) subcommand: Vec<String>,
    pub(crate) print: bool,
    pub(crate) version: bool,
    pub(crate) help: bool,
    pub(crate) input: PlayerInputFormat,
    pub(crate) output: PlayerOutputFormat,
    pub(crate) verbose: bool,
    pub(crate) partial: bool,
    pub(crate) replay: bool,
    pub(crate) permission_prompts_on_stdio: bool,
    pub(crate) permission_mode: Option<String>,
    pub(crate) skip_permissions: bool,
    pub(crate) allow_skip_permissions: bool,
    pub(crate) session_id: Option<String>,
    pub(crate) resume: Option<String>,
    pub(crate) resume_at: Option<String>,
    pub(crate) fork: bool,
    pub(crate) continue_latest: bool,
    pub(crate) model: Option<String>,
    pub(crate) system_prompt: Option<String>,
    pub(crate) append_system_prompt: Option<String>,
    pub(crate) system_prompt_file: Option<String>,
    pub(crate) append_system_prompt_file: Option<String>,
    pub(crate) allowed: Vec<String>,
    pub(crate) disallowed: Vec<String>,
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) directories: Vec<String>,
    pub(crate) mcp: Vec<String>,
    /// Whether only the servers of `--mcp-config` are used.
    pub(crate) strict_mcp: bool,
    pub(crate) max_turns: Option<u32>,
    pub(crate) max_budget: Option<f64>,
    pub(crate) settings: Option<String>,
    pub(crate) setting_sources: Option<String>,
    pub(crate) no_persistence: bool,
    pub(crate) hook_events: bool,
    pub(crate) json_schema: Option<JsonSchema>,
    pub(crate) scenario: Option<PathBuf>,
    /// The release to stand in for.
    pub(crate) release: PlayerRelease,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PlayerInputFormat {
    #[default]
    Text,
    StreamJson,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PlayerOutputFormat {
    #[default]
    Text,
    Json,
    StreamJson,
}

/// Why the player did not start, in the CLI's words for stderr. The exit code is 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlayerStartError(pub String);

struct ArgReader {
    arguments: std::vec::IntoIter<String>,
    next: Option<String>,
}

impl ArgReader {
    fn pull(&mut self) -> Option<String> {
        self.next.take().or_else(|| self.arguments.next())
    }

    fn value(&mut self, flag: &str, inline: Option<String>) -> Result<String, PlayerStartError> {
        inline.or_else(|| self.pull()).ok_or_else(|| {
            let option = with_placeholder(flag);
            PlayerStartError(format!("error: option '{option}' argument missing"))
        })
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

    /// All values up to the next option.
    fn values(
        &mut self,
        flag: &str,
        inline: Option<String>,
    ) -> Result<Vec<String>, PlayerStartError> {
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

impl PlayerArgs {
    /// Parses the arguments after `towpath play`.
    pub fn parse(arguments: Vec<String>) -> Result<Self, PlayerStartError> {
        let mut options = arguments.iter().take_while(|it| *it != "--");
        let prints = options.any(|it| it == "-p" || it == "--print");
        let mut reader = ArgReader { arguments: arguments.into_iter(), next: None };
        let mut args = Self::default();
        while let Some(argument) = reader.pull() {
            if argument == "--" {
                let rest: Vec<String> = std::iter::from_fn(|| reader.pull()).collect();
                args.prompt.get_or_insert(rest.join(" "));
            } else if argument.starts_with('-') && argument.len() > 1 {
                args.parse_option(&argument, &mut reader)?;
            } else if args.prompt.is_none() && !prints && is_subcommand(&argument) {
                args.subcommand = std::iter::once(argument).collect();
                args.subcommand.extend(std::iter::from_fn(|| reader.pull()));
                return Ok(args);
            } else if !argument.is_empty() {
                args.prompt.get_or_insert(argument);
            }
        }
        args.check()?;
        Ok(args)
    }

    fn parse_option(
        &mut self,
        argument: &str,
        reader: &mut ArgReader,
    ) -> Result<(), PlayerStartError> {
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
                self.permission_prompts_on_stdio = reader.value(flag, inline)? == "stdio";
            }
            "--permission-mode" => self.permission_mode = Some(mode(reader.value(flag, inline)?)?),
            "--session-id" => self.session_id = Some(reader.value(flag, inline)?),
            "--resume" | "-r" => self.resume = reader.optional(inline),
            "--resume-session-at" => self.resume_at = Some(reader.value(flag, inline)?),
            "--model" => self.model = Some(reader.value(flag, inline)?),
            "--system-prompt" => self.system_prompt = Some(reader.value(flag, inline)?),
            "--system-prompt-file" => self.system_prompt_file = Some(reader.value(flag, inline)?),
            "--append-system-prompt-file" => {
                self.append_system_prompt_file = Some(reader.value(flag, inline)?);
            }
            "--append-system-prompt" => {
                self.append_system_prompt = Some(reader.value(flag, inline)?);
            }
            "--allowedTools" | "--allowed-tools" => {
                self.allowed.extend(split_names(&reader.values(flag, inline)?));
            }
            "--disallowedTools" | "--disallowed-tools" => {
                self.disallowed.extend(split_names(&reader.values(flag, inline)?));
            }
            "--tools" => {
                let tools = split_names(&reader.values(flag, inline)?);
                self.tools = (tools != ["default"]).then_some(tools);
            }
            "--add-dir" => self.directories.extend(reader.values(flag, inline)?),
            "--mcp-config" => self.mcp.extend(reader.values(flag, inline)?),
            "--max-turns" => {
                let text = reader.value(flag, inline)?;
                self.max_turns = Some(number(flag, &text, "must be a number")?);
            }
            "--max-budget-usd" => {
                let rule = "--max-budget-usd must be a positive number greater than 0";
                let text = reader.value(flag, inline)?;
                let budget: f64 = number(flag, &text, rule)?;
                if budget <= 0.0 || !budget.is_finite() {
                    return Err(invalid(flag, &text, rule));
                }
                self.max_budget = Some(budget);
            }
            "--json-schema" => self.json_schema = Some(json_schema(&reader.value(flag, inline)?)?),
            "--settings" => self.settings = Some(reader.value(flag, inline)?),
            "--setting-sources" => {
                self.setting_sources = Some(setting_sources(reader.value(flag, inline)?)?);
            }
            "--scenario" => self.scenario = Some(reader.value(flag, inline)?.into()),
            "--as" => self.release = release(&reader.value(flag, inline)?)?,
            "--betas" => drop(reader.values(flag, inline)?),
            "--prompt-suggestions" => drop(reader.optional(inline)),
            _ if IGNORED_SWITCHES.contains(&flag) => {}
            _ if IGNORED_OPTIONS.contains(&flag) => drop(reader.value(flag, inline)?),
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
            "--strict-mcp-config" => &mut self.strict_mcp,
            "--dangerously-skip-permissions" => &mut self.skip_permissions,
            "--allow-dangerously-skip-permissions" => &mut self.allow_skip_permissions,
            "--fork-session" => &mut self.fork,
            "--no-session-persistence" => &mut self.no_persistence,
            _ => return None,
        })
    }

    fn check(&self) -> Result<(), PlayerStartError> {
        if self.version || self.help {
            return Ok(());
        }
        let reject = |text: &str| Err(PlayerStartError(text.to_owned()));
        if self.output == PlayerOutputFormat::StreamJson && self.print && !self.verbose {
            return reject(
                "Error: When using --print, --output-format=stream-json requires --verbose",
            );
        }
        if self.input == PlayerInputFormat::StreamJson
            && self.output != PlayerOutputFormat::StreamJson
        {
            return reject("Error: --input-format=stream-json requires output-format=stream-json.");
        }
        let is_stream = self.output == PlayerOutputFormat::StreamJson;
        if self.partial && !is_stream {
            return reject(
                "Error: --include-partial-messages requires --print and \
                 --output-format=stream-json.",
            );
        }
        if self.replay && !(is_stream && self.input == PlayerInputFormat::StreamJson) {
            return reject(
                "Error: --replay-user-messages requires both --input-format=stream-json and \
                 --output-format=stream-json.",
            );
        }
        if self.resume_at.is_some() && self.resume.is_none() {
            return reject("Error: --resume-session-at requires --resume");
        }
        match &self.session_id {
            Some(id) if uuid::Uuid::parse_str(id).is_err() => {
                reject("Error: Invalid session ID. Must be a valid UUID.")
            }
            Some(_) if (self.resume.is_some() || self.continue_latest) && !self.fork => reject(
                "Error: --session-id can only be used with --continue or --resume if \
                 --fork-session is also specified.",
            ),
            _ => Ok(()),
        }
    }
}

fn unknown(argument: &str) -> PlayerStartError {
    PlayerStartError(format!("error: unknown option '{argument}'"))
}

fn release(text: &str) -> Result<PlayerRelease, PlayerStartError> {
    text.parse().map_err(|error| PlayerStartError(format!("error: {error}")))
}

fn mode(text: String) -> Result<String, PlayerStartError> {
    if MODES.contains(&text.as_str()) {
        return Ok(text);
    }
    Err(PlayerStartError(format!(
        "error: option '--permission-mode <mode>' argument '{text}' is invalid. Allowed choices are \
         acceptEdits, auto, bypassPermissions, manual, dontAsk, plan."
    )))
}

fn input_format(text: &str) -> Result<PlayerInputFormat, PlayerStartError> {
    match text {
        "text" => Ok(PlayerInputFormat::Text),
        "stream-json" => Ok(PlayerInputFormat::StreamJson),
        _ => Err(PlayerStartError(format!(
            "error: option '--input-format <format>' argument '{text}' is invalid. Allowed choices \
             are text, stream-json."
        ))),
    }
}

fn output_format(text: &str) -> Result<PlayerOutputFormat, PlayerStartError> {
    match text {
        "text" => Ok(PlayerOutputFormat::Text),
        "json" => Ok(PlayerOutputFormat::Json),
        "stream-json" => Ok(PlayerOutputFormat::StreamJson),
        _ => Err(PlayerStartError(format!(
            "error: option '--output-format <format>' argument '{text}' is invalid. Allowed choices \
             are text, json, stream-json."
        ))),
    }
}

fn number<T: std::str::FromStr>(flag: &str, text: &str, rule: &str) -> Result<T, PlayerStartError> {
    text.parse().map_err(|_| invalid(flag, text, rule))
}

fn invalid(flag: &str, text: &str, rule: &str) -> PlayerStartError {
    let option = with_placeholder(flag);
    PlayerStartError(format!("error: option '{option}' argument '{text}' is invalid. {rule}"))
}

fn setting_sources(text: String) -> Result<String, PlayerStartError> {
    let known = ["", "user", "project", "local"];
    match text.split(',').map(str::trim).find(|name| !known.contains(name)) {
        None => Ok(text),
        Some(name) => Err(PlayerStartError(format!(
            "Error processing --setting-sources: Invalid setting source: {name}. Valid options \
             are: user, project, local"
        ))),
    }
}

/// An option as the CLI's errors name it, such as `--model <model>`.
fn with_placeholder(flag: &str) -> String {
    let known = OPTIONS.iter().find(|option| option.split([' ', ',']).any(|word| word == flag));
    known.map_or_else(|| flag.to_owned(), |option| (*option).to_owned())
}

fn json_schema(text: &str) -> Result<JsonSchema, PlayerStartError> {
    let value = serde_json::from_str(text).map_err(|error| {
        let problem = format!("JSON Parse error: {error}");
        PlayerStartError(format!("Error: --json-schema is not valid JSON: {problem}"))
    })?;
    JsonSchema::new(value).map_err(|problem| {
        PlayerStartError(format!("Error: --json-schema is not a valid JSON Schema: {problem}"))
    })
}

/// Splits names at commas and spaces outside parentheses.
fn split_names(values: &[String]) -> Vec<String> {
    let mut names = Vec::new();
    for value in values {
        let (mut name, mut depth) = (String::new(), 0usize);
        for character in value.chars() {
            match character {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                ',' | ' ' if depth == 0 => {
                    names.push(std::mem::take(&mut name));
                    continue;
                }
                _ => {}
            }
            name.push(character);
        }
        names.push(name);
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::{PlayerArgs, PlayerInputFormat, PlayerOutputFormat};

    fn parse(line: &str) -> Result<PlayerArgs, String> {
        let arguments = line.split(' ').map(|word| word.replace('_', " ")).collect();
        PlayerArgs::parse(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn both_forms_of_a_value_are_parsed_and_an_empty_argument_is_not_a_prompt() {
        let line = "--output-format=stream-json --verbose --input-format stream-json \
                    --allowedTools Read,Bash(git_log,*) --resume --model=opus ";
        let args = parse(line).unwrap();
        assert_eq!(args.output, PlayerOutputFormat::StreamJson);
        assert_eq!(args.input, PlayerInputFormat::StreamJson);
        assert_eq!(args.allowed, ["Read", "Bash(git log,*)"]);
        assert_eq!(args.model.as_deref(), Some("opus"));
        assert_eq!((args.resume, args.prompt), (None, None));
    }

    #[test]
    fn what_the_cli_rejects_is_rejected_in_its_words() {
        let errors = [
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
        for (line, error) in errors {
            assert_eq!(parse(line).unwrap_err(), error, "{line}");
        }
    }
}
