//! The agents selected with `--claude`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use anstream::eprintln;
use testbed::scenario::ClaudeVersion;
use testbed::verify::{
    VerifyAgent, VerifyAgentError, agent_command, cached_release, fetch_release,
};

use crate::exit::report_error;

/// A value of `--claude`.
pub(super) enum VerifyAgentChoice {
    /// `play`: the built-in agent.
    Play,
    /// `npm:VERSION`: a release of Claude Code.
    Release(ClaudeVersion),
    /// The name or path of a program.
    Program(String),
}

/// The parts of our environment that the agents depend on.
pub(super) struct VerifyEnvironment {
    search_path: OsString,
    cache: Option<PathBuf>,
}

/// An agent is not available.
#[derive(Debug, thiserror::Error)]
pub(super) enum VerifyAgentChoiceError {
    #[error("`{0}` is not a release of Claude Code")]
    InvalidVersion(String),
    #[error("there is no program `{0}`")]
    NoProgram(String),
    #[error("there is no cache directory for Claude Code")]
    NoCache,
    #[error("Claude Code {0} was not fetched")]
    NotFetched(ClaudeVersion),
    #[error("the path of this program is unknown")]
    NoExecutable(#[source] io::Error),
    #[error("could not start the built-in agent")]
    NoPlay(#[source] VerifyAgentError),
    #[error(transparent)]
    Agent(#[from] VerifyAgentError),
}

impl VerifyAgentChoiceError {
    pub(super) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::InvalidVersion(_) => "give a version, as in `--claude npm:2.1.325`",
            Self::NoProgram(_) => {
                "give a path, `npm:VERSION` for a release, or `play` for the built-in agent"
            }
            Self::NoCache => "set `XDG_CACHE_HOME` or `HOME`",
            Self::NoPlay(_) => "use another agent: `--claude PATH` or `--claude npm:VERSION`",
            Self::Agent(VerifyAgentError::Fetch { .. }) => {
                "npm must be installed and able to reach its registry; a fetched version is cached"
            }
            Self::Agent(VerifyAgentError::Start { .. }) => {
                "check that it is an executable for this system"
            }
            Self::Agent(VerifyAgentError::NoVersion { .. }) => {
                "an agent must print a version such as `2.1.325 (Claude Code)` for `--version`"
            }
            Self::Agent(VerifyAgentError::WrongVersion { .. }) => {
                "delete it from the cache to fetch it again"
            }
            Self::NoExecutable(_) | Self::NotFetched(_) => return None,
        };
        Some(hint.to_owned())
    }
}

impl VerifyEnvironment {
    #[expect(clippy::disallowed_methods, reason = "only the binary reads the environment")]
    pub(super) fn read() -> Self {
        let variable = |name: &str| env::var_os(name).filter(|it| !it.is_empty());
        let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(Path::new(&variable("HOME")?).join(".cache")));
        Self {
            search_path: variable("PATH").unwrap_or_default(),
            cache: cache.map(|it| it.join("towpath/claude")),
        }
    }

    /// The `PATH` of the agents: the system directories, and that of Node if it is elsewhere.
    pub(super) fn agent_search_path(&self) -> OsString {
        let mut directories: Vec<PathBuf> =
            ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from).into();
        let node = self.find("node");
        if let Some(directory) = node.as_deref().and_then(Path::parent)
            && !directories.iter().any(|it| it.join("node").exists())
        {
            directories.push(directory.to_owned());
        }
        env::join_paths(directories).unwrap_or_default()
    }

    fn node(&self) -> OsString {
        self.find("node").map_or_else(|| "node".into(), Into::into)
    }

    fn find(&self, program: &str) -> Option<PathBuf> {
        let directories = env::split_paths(&self.search_path);
        directories.map(|directory| directory.join(program)).find(|path| path.is_file())
    }

    fn cache(&self) -> Result<&Path, VerifyAgentChoiceError> {
        self.cache.as_deref().ok_or(VerifyAgentChoiceError::NoCache)
    }
}

impl VerifyAgentChoice {
    /// Parses all values. Without any, the built-in agent is chosen.
    pub(super) fn parse_all(words: &[String]) -> Result<Vec<Self>, VerifyAgentChoiceError> {
        if words.is_empty() {
            return Ok(vec![Self::Play]);
        }
        let choice = |word: &String| match word.strip_prefix("npm:") {
            Some(version) => version
                .parse()
                .map(Self::Release)
                .map_err(|_| VerifyAgentChoiceError::InvalidVersion(word.clone())),
            None if word == "play" => Ok(Self::Play),
            None => Ok(Self::Program(word.clone())),
        };
        words.iter().map(choice).collect()
    }

    async fn detect(
        &self,
        environment: &VerifyEnvironment,
    ) -> Result<VerifyAgent, VerifyAgentChoiceError> {
        let search_path = environment.agent_search_path();
        let node = environment.node();
        match self {
            Self::Play => {
                let program = env::current_exe().map_err(VerifyAgentChoiceError::NoExecutable)?;
                let command = vec![program.into(), OsStr::new("play").to_owned()];
                VerifyAgent::detect(Some("play"), command, &search_path)
                    .await
                    .map_err(VerifyAgentChoiceError::NoPlay)
            }
            Self::Release(version) => {
                let command = cached_release(environment.cache()?, *version, &node);
                let command = command.ok_or(VerifyAgentChoiceError::NotFetched(*version))?;
                let program = command.last().map(|it| it.to_string_lossy().into_owned());
                let agent = VerifyAgent::detect(None, command, &search_path).await?;
                if agent.version != *version {
                    let program = program.unwrap_or_default();
                    let error = VerifyAgentError::WrongVersion {
                        requested: *version,
                        actual: agent.version,
                        program,
                    };
                    return Err(error.into());
                }
                Ok(agent)
            }
            Self::Program(word) => {
                let path = if word.contains('/') {
                    // Agents start in the directory of their sandbox, so the path must be absolute.
                    std::path::absolute(word).ok().filter(|it| it.is_file())
                } else {
                    environment.find(word)
                };
                let path = path.ok_or_else(|| VerifyAgentChoiceError::NoProgram(word.clone()))?;
                Ok(VerifyAgent::detect(None, agent_command(path, &node), &search_path).await?)
            }
        }
    }
}

/// Fetches the releases that are not in the cache, while there is still network access. Errors are
/// printed.
pub(super) async fn fetch_missing(choices: &[VerifyAgentChoice], environment: &VerifyEnvironment) {
    for choice in choices {
        if let VerifyAgentChoice::Release(version) = choice
            && let Err(error) = fetch_one(*version, environment).await
        {
            report_error(&error, error.hint().as_deref());
        }
    }
}

async fn fetch_one(
    version: ClaudeVersion,
    environment: &VerifyEnvironment,
) -> Result<(), VerifyAgentChoiceError> {
    let (cache, node) = (environment.cache()?, environment.node());
    if cached_release(cache, version, &node).is_none() {
        eprintln!("fetching Claude Code {version} into {}", cache.display());
        fetch_release(cache, version, &node).await?;
    }
    Ok(())
}

/// Detects the version of every agent. Agents that are not available are skipped with an error
/// message. Agents with the same version get numbered labels.
pub(super) async fn detect_all(
    choices: &[VerifyAgentChoice],
    environment: &VerifyEnvironment,
) -> Vec<VerifyAgent> {
    let mut agents: Vec<VerifyAgent> = Vec::new();
    for choice in choices {
        let mut agent = match choice.detect(environment).await {
            Ok(agent) => agent,
            // The reason was already printed when the release could not be fetched.
            Err(VerifyAgentChoiceError::NotFetched(_)) => continue,
            Err(error) => {
                report_error(&error, error.hint().as_deref());
                continue;
            }
        };
        let label = agent.label.clone();
        let mut number = 1;
        while agents.iter().any(|other| other.label == agent.label) {
            number += 1;
            agent.label = format!("{label} ({number})");
        }
        agents.push(agent);
    }
    agents
}
