//! The settings that Towpath takes from the environment, read once.
//!
//! | Variable | Meaning | Default |
//! |---|---|---|
//! | `TOWPATH_DATA` | directory of the journal and of live sessions | `$XDG_DATA_HOME/towpath`, `~/.local/share/towpath` |
//! | `TOWPATH_CLAUDE` | the agent: a path, or a name to look up in `PATH` | `claude` |
//! | `TOWPATH_NATS_SERVER` | the NATS server of `fleet dev`: a path, or a name to look up in `PATH` | `nats-server` |
//! | `TOWPATH_TELEGRAM_TOKEN` | token of the Telegram bot; agents do not inherit it | no bot |
//! | `XDG_CONFIG_HOME` | directory with `towpath/config.toml` | `~/.config` |
//! | `XDG_RUNTIME_DIR` | directory for sockets whose path would be too long | the directory for temporary files |
//! | `USER` | name of the user in the record of prompts and answers | `you` |
//! | `JOURNAL_STREAM` | whether stderr is systemd's journal; read by `log` | |
//! | `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` | colours | what the terminal supports |
//!
//! `docs/environment.md` documents these for users, together with the variables of `play`. Agents
//! inherit the whole environment except the variables in [`NOT_INHERITED`] and [`SECRETS`].

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstream::eprintln;
use clap::Args;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use gateway::ShellConfig;
use journal::{DirectoryWarning, Journal, Repair};
use session::profiles::{Profiles, UserConfig};
use session::{
    AgentCatalog, AgentProgram, AgentSpec, SessionLimits, SessionsConfig, UnattendedLimits,
    UnknownAgent,
};
use wire::note::Actor;

/// Variables that agents do not inherit besides [`SECRETS`]: the CLI refuses to start inside itself.
const NOT_INHERITED: &[&str] = &["CLAUDECODE"];

/// Secrets of Towpath. No other program inherits them: an agent must not be able to act as the bot.
const SECRETS: &[&str] = watch::SECRET_VARIABLES;

/// How long a command waits for a server that is being restarted before it drives the server's
/// session itself.
const TAKEOVER_DELAY: Duration = Duration::from_secs(5);

const TELEGRAM_TOKEN: &str = "TOWPATH_TELEGRAM_TOKEN";

/// Removes the secrets from the environment of a program that inherits the rest.
pub(crate) fn remove_secrets(command: &mut std::process::Command) {
    for name in SECRETS {
        command.env_remove(name);
    }
}

/// The agents whose commands depend on this program.
const CLAUDE: &str = "claude";
const DEMO: &str = "demo";

/// The settings that Towpath takes from the environment.
#[derive(Clone)]
pub(crate) struct CliSettings {
    pub(crate) data_directory: PathBuf,
    /// A directory with a short path, for sockets.
    pub(crate) runtime_directory: PathBuf,
    /// The user's configuration, whether or not the file exists.
    pub(crate) config_file: Option<PathBuf>,
    search_path: OsString,
    /// The agent that `TOWPATH_CLAUDE` names.
    claude: Option<OsString>,
    /// The NATS server that `TOWPATH_NATS_SERVER` names.
    nats_server: Option<OsString>,
    home: Option<PathBuf>,
    user: String,
    telegram_token: Option<String>,
    /// What agents inherit.
    environment: Vec<(OsString, OsString)>,
}

/// Arguments that choose the agent.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AgentArgs {
    /// The agent: a path, or a name to look up in `PATH` [default: `TOWPATH_CLAUDE`, then `claude`]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "demo")]
    pub(crate) claude: Option<OsString>,
    /// Use the built-in agent: no CLI, no key, no network
    #[arg(long)]
    pub(crate) demo: bool,
}

/// Takes the name of any agent, and tells shells those that need no configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgentNameParser;

impl TypedValueParser for AgentNameParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(AgentCatalog::built_in_names().map(PossibleValue::new)))
    }
}

/// The agent of new sessions for which none is chosen.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct DefaultAgentArgs {
    /// Agent of new sessions for which none is chosen, by name (see `towpath agents`) [default: Claude
    /// Code]
    #[arg(long = "agent", value_name = "NAME", value_parser = AgentNameParser, hide_possible_values = true)]
    pub(crate) name: Option<String>,
}

impl DefaultAgentArgs {
    /// Makes the agent the default of the catalog.
    pub(crate) fn apply(&self, agents: &mut AgentCatalog) -> Result<(), UnknownAgent> {
        self.name.as_deref().map_or(Ok(()), |name| agents.set_default(name))
    }
}

/// The data directory or this program could not be determined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("no directory for the journal is known")]
    NoDataDirectory,
    #[error("could not use the data directory")]
    DataDirectory(#[from] journal::Error),
    #[error("could not create the directory `{}`", path.display())]
    CreateDirectory { path: PathBuf, source: io::Error },
    #[error("could not find the path of this program")]
    OwnPath(#[source] io::Error),
}

impl SettingsError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NoDataDirectory => Some("set `TOWPATH_DATA` or `HOME`".to_owned()),
            Self::DataDirectory(_) | Self::CreateDirectory { .. } => {
                Some("set `TOWPATH_DATA` to a directory that only you can write to".to_owned())
            }
            Self::OwnPath(_) => None,
        }
    }
}

/// The agent could not be found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentLookupError {
    #[error("agent `{}` not found", .0.display())]
    NotFound(OsString),
    #[error(transparent)]
    Unknown(#[from] UnknownAgent),
    #[error("agent `{}` is not executable", .0.display())]
    NotExecutable(PathBuf),
    #[error("could not find the path of this program")]
    OwnPath(#[source] io::Error),
}

impl AgentLookupError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound(_) => Some(
                "install it, set `TOWPATH_CLAUDE`, or try the built-in one with `--demo`"
                    .to_owned(),
            ),
            Self::NotExecutable(path) => Some(format!("run `chmod +x {}`", path.display())),
            Self::OwnPath(_) | Self::Unknown(_) => None,
        }
    }
}

impl CliSettings {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub(crate) fn from_environment() -> Result<Self, SettingsError> {
        Self::new(&|name| env::var_os(name), env::vars_os().collect())
    }

    /// The settings of a background host. It has no environment, and starts agents as its clients
    /// say.
    pub(crate) fn for_host(data_directory: PathBuf, runtime_directory: PathBuf) -> Self {
        Self {
            data_directory,
            runtime_directory,
            config_file: None,
            search_path: OsString::new(),
            claude: None,
            nats_server: None,
            home: None,
            user: String::new(),
            telegram_token: None,
            environment: Vec::new(),
        }
    }

    fn new(
        variable: &dyn Fn(&str) -> Option<OsString>,
        environment: Vec<(OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let home = set("HOME").map(PathBuf::from);
        let shared = || {
            // The XDG specification requires relative paths to be ignored.
            let given = set("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
            given.or_else(|| Some(home.as_deref()?.join(".local/share")))
        };
        let data = set("TOWPATH_DATA").map(PathBuf::from);
        let data = data
            .or_else(|| Some(shared()?.join("towpath")))
            .ok_or(SettingsError::NoDataDirectory)?;
        let given = set("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let config = given.or_else(|| Some(home.as_deref()?.join(".config")));
        let user_id = rustix::process::geteuid().as_raw();
        let runtime_directory = match set("XDG_RUNTIME_DIR") {
            Some(runtime) => PathBuf::from(runtime).join("towpath"),
            None => env::temp_dir().join(format!("towpath-{user_id}")),
        };
        let user = set("USER").or_else(|| set("LOGNAME"));
        let is_inherited = |(name, _): &(OsString, OsString)| {
            let mut kept_back = NOT_INHERITED.iter().chain(SECRETS);
            !kept_back.any(|it| name.as_os_str() == OsStr::new(it))
        };
        Ok(Self {
            data_directory: std::path::absolute(&data).unwrap_or(data),
            runtime_directory,
            config_file: config.map(|it| it.join("towpath/config.toml")),
            search_path: set("PATH").unwrap_or_default(),
            claude: set("TOWPATH_CLAUDE"),
            nats_server: set("TOWPATH_NATS_SERVER"),
            home,
            user: user.map_or_else(|| "you".to_owned(), |it| it.to_string_lossy().into_owned()),
            telegram_token: set(TELEGRAM_TOKEN).map(|it| it.to_string_lossy().into_owned()),
            environment: environment.into_iter().filter(is_inherited).collect(),
        })
    }

    /// Creates the data directory, or closes it to other users. Notes on stderr say what was wrong.
    pub(crate) fn create_data_directory(&self) -> Result<(), SettingsError> {
        for warning in self.secure_data_directory()? {
            eprintln!("note: {warning}");
        }
        Ok(())
    }

    /// Creates the data directory, or closes it to other users. Returns what was wrong.
    pub(crate) fn secure_data_directory(&self) -> Result<Vec<DirectoryWarning>, SettingsError> {
        Ok(journal::secure_directory(&self.data_directory)?)
    }

    /// The log file of a command.
    pub(crate) fn log_file(&self, command: &str) -> PathBuf {
        self.data_directory.join("logs").join(format!("{command}.log"))
    }

    /// Opens the journal. If it had to be repaired, a note on stderr says what was done.
    pub(crate) fn open_journal(&self) -> Result<Journal, journal::Error> {
        let opened = Journal::open(&SessionsConfig::journal_path(&self.data_directory))?;
        if let Some(repair) = &opened.repair {
            eprintln!("note: {}", describe_repair(repair));
        }
        Ok(opened.journal)
    }

    /// The configuration of sessions that a command drives itself. Such a command is not expected to
    /// come back, so an agent that outlives it finishes its turn and stops.
    pub(crate) fn session_config(
        &self,
        agent: AgentProgram,
        limits: SessionLimits,
    ) -> Result<SessionsConfig, SettingsError> {
        let towpath = env::current_exe().map_err(SettingsError::OwnPath)?;
        // The built-in agent writes transcripts and plans like the CLI, but not among the user's.
        let environment = if agent.program == *towpath && agent.arguments == ["play"] {
            self.demo_environment()?
        } else {
            self.environment.clone()
        };
        let mut agents = self.agents(&agent, &towpath);
        let mut limits = limits;
        if let Ok(config) = self.profiles().user_config() {
            limits.budget_per_day = limits.budget_per_day.or(config.budget_per_day);
        }
        // Without a home of its own the player would write among the user's transcripts.
        if let Some(demo) = agents.find(DEMO) {
            let home = self.data_directory.join("demo-home").to_string_lossy().into_owned();
            let config = format!("{home}/.claude");
            let environment = [("HOME", home), ("CLAUDE_CONFIG_DIR", config)];
            let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
            agents.set(AgentSpec { environment, ..demo.clone() });
        }
        Ok(SessionsConfig {
            agents,
            data: self.data_directory.clone(),
            // The user at the terminal may; a server must be started for it.
            allow_bypass: true,
            config_file: self.config_file.clone(),
            runtime: self.runtime_directory.clone(),
            towpath,
            agent,
            environment,
            limits,
            unattended: UnattendedLimits::SHORT,
            takeover_delay: TAKEOVER_DELAY,
            prompt_gate: session::PromptGate::default(),
            watch: session::WatchPolicy::default(),
        })
    }

    /// The agents that can be chosen: the built-in ones and those in the user's configuration.
    pub(crate) fn agents(&self, program: &AgentProgram, towpath: &Path) -> AgentCatalog {
        let config = self.profiles().user_config().unwrap_or_else(|error| {
            eprintln!("note: your agents are not used: {error}");
            UserConfig::default()
        });
        let mut agents = AgentCatalog::with(config.agents);
        let text = |word: &OsStr| word.to_string_lossy().into_owned();
        let play = vec![text(towpath.as_os_str()), "play".to_owned()];
        // The program that was found for Claude Code may not be in the search path.
        let found = program.arguments.is_empty() && Path::new(&program.program).is_absolute();
        let claude = found.then(|| vec![text(&program.program)]);
        for (name, command) in [(CLAUDE, claude), (DEMO, Some(play))] {
            if let (Some(agent), Some(command)) = (agents.find(name), command) {
                agents.set(AgentSpec { command, ..agent.clone() });
            }
        }
        if let Some(name) = &config.default_agent {
            // It was checked when the file was read.
            let _ = agents.set_default(name);
        }
        agents
    }

    /// An environment with a home directory of its own, below the data directory.
    fn demo_environment(&self) -> Result<Vec<(OsString, OsString)>, SettingsError> {
        let home = self.data_directory.join("demo-home");
        let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&home);
        created.map_err(|source| SettingsError::CreateDirectory { path: home.clone(), source })?;
        let is_kept = |name: &OsStr| name != "HOME" && name != "CLAUDE_CONFIG_DIR";
        let mut environment = self.environment.clone();
        environment.retain(|(name, _)| is_kept(name));
        environment.push(("HOME".into(), home.into()));
        Ok(environment)
    }

    /// Shells get what agents inherit, which is without Towpath's secrets.
    pub(crate) fn shell_config(&self) -> ShellConfig {
        ShellConfig { environment: self.environment.clone() }
    }

    /// What agents inherit.
    pub(crate) fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }

    /// The profiles of the user and of projects.
    pub(crate) fn profiles(&self) -> Profiles {
        Profiles::new(self.config_file.clone(), self.home.clone(), self.data_directory.clone())
    }

    pub(crate) fn telegram_token(&self) -> Option<&str> {
        self.telegram_token.as_deref()
    }

    /// The user at the terminal.
    pub(crate) fn terminal_user(&self) -> Actor {
        Actor { name: self.user.clone(), via: "terminal".to_owned() }
    }

    /// A path with `~` for the home directory.
    pub(crate) fn abbreviate_path(&self, path: &Path) -> String {
        let home = self.home.as_deref().filter(|home| *home != Path::new("/"));
        match home.and_then(|home| path.strip_prefix(home).ok()) {
            Some(rest) if rest == Path::new("") => "~".to_owned(),
            Some(rest) => format!("~/{}", rest.display()),
            None => path.display().to_string(),
        }
    }

    /// Finds the agent that the arguments or the environment choose. Its file exists and is
    /// executable.
    pub(crate) fn find_agent(&self, choice: &AgentArgs) -> Result<AgentProgram, AgentLookupError> {
        if choice.demo {
            let program = env::current_exe().map_err(AgentLookupError::OwnPath)?.into_os_string();
            return Ok(AgentProgram { program, arguments: vec!["play".into()] });
        }
        let name = choice.claude.as_deref().or(self.claude.as_deref());
        let program = self.find_program(name)?;
        Ok(AgentProgram { program: program.into_os_string(), arguments: Vec::new() })
    }

    /// Finds the program of sessions for which no agent is chosen. It may be missing if all sessions
    /// have another one.
    pub(crate) fn find_default_program(
        &self,
        choice: &AgentArgs,
        chosen: Option<&str>,
    ) -> Result<AgentProgram, AgentLookupError> {
        let is_other = |name: &str| name != CLAUDE;
        let found = self.find_agent(choice);
        if matches!(found, Err(AgentLookupError::NotFound(_))) && choice.claude.is_none() {
            let config = self.profiles().user_config().unwrap_or_default();
            if chosen.or(config.default_agent.as_deref()).is_some_and(is_other) {
                return Ok(AgentProgram { program: CLAUDE.into(), arguments: Vec::new() });
            }
        }
        found
    }

    /// Finds the program of a NATS server: the given one, that of the environment, or the one in `PATH`. The
    /// error is the name that was looked for.
    pub(crate) fn find_nats_server(&self, given: Option<&OsStr>) -> Result<PathBuf, OsString> {
        let name = given.or(self.nats_server.as_deref()).unwrap_or(OsStr::new("nats-server"));
        if Path::new(name).components().count() > 1 {
            let path = std::path::absolute(name).ok().filter(|path| is_executable(path));
            return path.ok_or_else(|| name.to_owned());
        }
        let mut places = env::split_paths(&self.search_path).map(|directory| directory.join(name));
        places.find(|path| is_executable(path)).ok_or_else(|| name.to_owned())
    }

    fn find_program(&self, given: Option<&OsStr>) -> Result<PathBuf, AgentLookupError> {
        let name = given.unwrap_or(OsStr::new(CLAUDE));
        let not_found = || AgentLookupError::NotFound(name.to_owned());
        if Path::new(name).components().count() > 1 {
            let path = std::path::absolute(name).map_err(|_| not_found())?;
            return match path.is_file() {
                true if is_executable(&path) => Ok(path),
                true => Err(AgentLookupError::NotExecutable(path)),
                false => Err(not_found()),
            };
        }
        let in_path = env::split_paths(&self.search_path).map(|directory| directory.join(name));
        // The CLI's own installers use these places even if they are not in `PATH`.
        let installed = self.home.iter().filter(|_| given.is_none()).flat_map(|home| {
            [".local/bin/claude", ".claude/local/claude"].map(|place| home.join(place))
        });
        in_path.chain(installed).find(|path| is_executable(path)).ok_or_else(not_found)
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// What was done to a damaged journal.
pub(crate) fn describe_repair(repair: &Repair) -> String {
    let Repair { fault, backup, sessions, entries, .. } = repair;
    let backup = backup.display();
    format!(
        "the journal was damaged ({fault}); recovered {sessions} sessions with {entries} entries; \
         the damaged file was saved as `{backup}`"
    )
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use super::{CliSettings, SECRETS, TELEGRAM_TOKEN};

    fn data_directory(variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let settings = CliSettings::new(&variable, Vec::new()).ok();
        settings.map(|it| it.data_directory.display().to_string())
    }

    #[test]
    fn the_data_directory_is_the_given_one_or_the_xdg_default() {
        let home = ("HOME", "/home/ann");
        assert_eq!(data_directory(&[home]).as_deref(), Some("/home/ann/.local/share/towpath"));
        assert_eq!(data_directory(&[home, ("XDG_DATA_HOME", "/d")]).as_deref(), Some("/d/towpath"));
        let relative = [home, ("XDG_DATA_HOME", "d")];
        assert_eq!(data_directory(&relative).as_deref(), Some("/home/ann/.local/share/towpath"));
        assert_eq!(data_directory(&[home, ("TOWPATH_DATA", "/t")]).as_deref(), Some("/t"));
        assert_eq!(data_directory(&[("TOWPATH_DATA", "")]), None);
    }

    #[test]
    fn all_crates_that_start_programs_keep_the_same_secrets_back() {
        assert!(SECRETS.contains(&TELEGRAM_TOKEN));
        assert_eq!(SECRETS, project::git::SECRET_VARIABLES);
        assert_eq!(SECRETS, watch::SECRET_VARIABLES);
    }

    #[test]
    fn agents_do_not_inherit_the_marker_of_a_running_agent() {
        let environment = vec![
            ("CLAUDECODE".into(), "1".into()),
            (TELEGRAM_TOKEN.into(), "4711:secret".into()),
            ("LANG".into(), "C".into()),
        ];
        let variable = |name: &str| (name == "HOME").then(|| "/home/ann".into());
        let settings = CliSettings::new(&variable, environment).unwrap();
        assert_eq!(settings.environment, [("LANG".into(), "C".into())]);
        assert_eq!(settings.abbreviate_path(Path::new("/home/ann/x")), "~/x");
        assert_eq!(settings.abbreviate_path(Path::new("/home/anna")), "/home/anna");
    }
}
