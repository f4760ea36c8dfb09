//! The agents that `--claude` names.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use anstream::eprintln;
use testbed::scenario::Version;
use testbed::verify::{Agent, AgentError, command_for, fetch, fetched};

use crate::complaint::complain;

/// One agent, as it was named.
pub(super) enum Choice {
    /// `play`: this very program.
    Play,
    /// `npm:VERSION`: a release.
    Release(Version),
    /// A program.
    Program(String),
}

/// What of our own surroundings agents depend on.
pub(super) struct Surroundings {
    search_path: OsString,
    cache: Option<PathBuf>,
}

/// An agent cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAgent {
    #[error("`{0}` names no release of Claude Code")]
    NotARelease(String),
    #[error("there is no program `{0}`")]
    NoProgram(String),
    #[error("there is no place to keep Claude Code in")]
    NoCache,
    #[error("Claude Code {0} was not fetched")]
    NotFetched(Version),
    #[error("this program could not be found again")]
    NoSelf(#[source] io::Error),
    #[error("the built-in agent did not start")]
    NoPlay(#[source] AgentError),
    #[error(transparent)]
    Agent(#[from] AgentError),
}

impl NoAgent {
    pub(super) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotARelease(_) => "as in `--claude npm:2.1.325`",
            Self::NoProgram(_) => {
                "give a path, `npm:VERSION` for a release, or `play` for the built-in agent"
            }
            Self::NoCache => "set `XDG_CACHE_HOME` or `HOME`",
            Self::NoPlay(_) => {
                "this build has no `towpath play`; give `--claude PATH` or `--claude npm:VERSION`"
            }
            Self::Agent(AgentError::Fetch { .. }) => {
                "`npm` must be installed and reach its registry; a version once fetched is kept"
            }
            Self::Agent(AgentError::Start { .. }) => "is it a program for this system?",
            Self::Agent(AgentError::NoVersion { .. }) => {
                "an agent answers `--version` with something like `2.1.325 (Claude Code)`"
            }
            Self::Agent(AgentError::OtherVersion { .. }) => {
                "remove it from the cache, and it is fetched anew"
            }
            Self::NoSelf(_) | Self::NotFetched(_) => return None,
        };
        Some(hint.to_owned())
    }
}

impl Surroundings {
    #[expect(clippy::disallowed_methods, reason = "the binary reads the environment")]
    pub(super) fn read() -> Self {
        let directory = |name: &str| env::var_os(name).filter(|it| !it.is_empty());
        let cache = directory("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(Path::new(&directory("HOME")?).join(".cache")));
        Self {
            search_path: directory("PATH").unwrap_or_default(),
            cache: cache.map(|it| it.join("towpath/claude")),
        }
    }

    /// Where agents look for programs: the system's places, and where Node is if it is elsewhere.
    pub(super) fn for_agents(&self) -> OsString {
        let mut places: Vec<PathBuf> =
            ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from).into();
        let node = self.find("node");
        if let Some(place) = node.as_deref().and_then(Path::parent)
            && !places.iter().any(|it| it.join("node").exists())
        {
            places.push(place.to_owned());
        }
        env::join_paths(places).unwrap_or_default()
    }

    fn node(&self) -> OsString {
        self.find("node").map_or_else(|| "node".into(), Into::into)
    }

    fn find(&self, program: &str) -> Option<PathBuf> {
        let places = env::split_paths(&self.search_path);
        places.map(|place| place.join(program)).find(|path| path.is_file())
    }

    fn cache(&self) -> Result<&Path, NoAgent> {
        self.cache.as_deref().ok_or(NoAgent::NoCache)
    }
}

impl Choice {
    /// What was named; the built-in agent where nothing was.
    pub(super) fn all(words: &[String]) -> Result<Vec<Self>, NoAgent> {
        if words.is_empty() {
            return Ok(vec![Self::Play]);
        }
        let choice = |word: &String| match word.strip_prefix("npm:") {
            Some(version) => {
                version.parse().map(Self::Release).map_err(|_| NoAgent::NotARelease(word.clone()))
            }
            None if word == "play" => Ok(Self::Play),
            None => Ok(Self::Program(word.clone())),
        };
        words.iter().map(choice).collect()
    }

    async fn ask(&self, surroundings: &Surroundings) -> Result<Agent, NoAgent> {
        let search_path = surroundings.for_agents();
        let node = surroundings.node();
        match self {
            Self::Play => {
                let program = env::current_exe().map_err(NoAgent::NoSelf)?;
                let command = vec![program.into(), OsStr::new("play").to_owned()];
                Agent::ask(Some("play"), command, &search_path).await.map_err(NoAgent::NoPlay)
            }
            Self::Release(version) => {
                let command = fetched(surroundings.cache()?, *version, &node);
                let command = command.ok_or(NoAgent::NotFetched(*version))?;
                let program = command.last().map(|it| it.to_string_lossy().into_owned());
                let agent = Agent::ask(None, command, &search_path).await?;
                if agent.version != *version {
                    let program = program.unwrap_or_default();
                    let other =
                        AgentError::OtherVersion { asked: *version, is: agent.version, program };
                    return Err(other.into());
                }
                Ok(agent)
            }
            Self::Program(word) => {
                let path = if word.contains('/') {
                    // Agents start in a directory of their own, so the path must not be relative.
                    std::path::absolute(word).ok().filter(|it| it.is_file())
                } else {
                    surroundings.find(word)
                };
                let path = path.ok_or_else(|| NoAgent::NoProgram(word.clone()))?;
                Ok(Agent::ask(None, command_for(path, &node), &search_path).await?)
            }
        }
    }
}

/// Fetches the releases that are not there yet, while the network can still be reached. What fails
/// is complained of.
pub(super) async fn fetch_missing(choices: &[Choice], surroundings: &Surroundings) {
    for choice in choices {
        if let Choice::Release(version) = choice
            && let Err(error) = fetch_one(*version, surroundings).await
        {
            complain(&error, error.hint().as_deref());
        }
    }
}

async fn fetch_one(version: Version, surroundings: &Surroundings) -> Result<(), NoAgent> {
    let (cache, node) = (surroundings.cache()?, surroundings.node());
    if fetched(cache, version, &node).is_none() {
        eprintln!("fetching Claude Code {version} into {}", cache.display());
        fetch(cache, version, &node).await?;
    }
    Ok(())
}

/// Asks every agent for its version; what cannot be had is complained of and left out. Two of one
/// version are told apart by their numbers.
pub(super) async fn ask_all(choices: &[Choice], surroundings: &Surroundings) -> Vec<Agent> {
    let mut agents: Vec<Agent> = Vec::new();
    for choice in choices {
        let mut agent = match choice.ask(surroundings).await {
            Ok(agent) => agent,
            // Why it could not be fetched was said when it was tried.
            Err(NoAgent::NotFetched(_)) => continue,
            Err(error) => {
                complain(&error, error.hint().as_deref());
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
