//! The agents selected with `--claude` and `--agent`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use anstream::eprintln;
use testbed::play::{PlayerRelease, PlayerReleaseError};
use testbed::scenario::AgentVersion;
use testbed::verify::{
    ACP_RELEASES, AcpRelease, PublishedVersions, VerifyAgent, VerifyAgentError, VerifyResultStore,
    agent_command, cached_release, fetch_release,
};

use crate::exit::report_error;

/// A value of `--claude` or `--agent`.
pub(super) enum VerifyAgentChoice {
    /// `play`: the built-in agent, which speaks both protocols.
    Play,
    /// `play@VERSION`: the built-in agent as another release of Claude Code.
    PlayAs(PlayerRelease),
    /// `npm:VERSION`: a release of Claude Code.
    Release(AgentVersion),
    /// The name or path of a program.
    Program(String),
    /// `NAME@VERSION`: a release of another agent.
    Other(AcpRelease, AgentVersion),
}

/// The parts of our environment that the agents depend on.
pub(super) struct VerifyEnvironment {
    search_path: OsString,
    /// The directory for releases of all agents.
    cache: Option<PathBuf>,
}

/// An agent is not available.
#[derive(Debug, thiserror::Error)]
pub(super) enum VerifyAgentChoiceError {
    #[error("`{0}` is not a release of Claude Code")]
    InvalidVersion(String),
    #[error("`{0}` is not an agent with a version")]
    InvalidAgent(String),
    #[error("there is no program `{0}`")]
    NoProgram(String),
    #[error("there is no cache directory for agents")]
    NoCache,
    #[error("there is no list of the published versions of Claude Code: {0}")]
    NoList(String),
    #[error("`{0}` was not fetched")]
    NotFetched(String),
    #[error(transparent)]
    Release(#[from] PlayerReleaseError),
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
            Self::InvalidAgent(_) => {
                let names: Vec<&str> = ACP_RELEASES.iter().map(|it| it.name).collect();
                return Some(format!(
                    "give a version, as in `--agent codex@2.6.0`, or `play`; the agents are {}",
                    names.join(", ")
                ));
            }
            Self::NoProgram(_) => {
                "give a path, `npm:VERSION` for a release, or `play` for the built-in agent"
            }
            Self::NoList(_) => {
                "npm must be installed and able to reach its registry; the list is cached"
            }
            Self::NoCache => "set `XDG_CACHE_HOME` or `HOME`",
            Self::NoPlay(_) => "use another agent: `--claude PATH` or `--claude npm:VERSION`",
            Self::Agent(VerifyAgentError::Fetch { .. } | VerifyAgentError::FetchPackage { .. }) => {
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
            Self::NoExecutable(_) | Self::NotFetched(_) | Self::Release(_) => return None,
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
            cache: cache.map(|it| it.join("towpath")),
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

    /// The cache for Claude Code.
    fn cache(&self) -> Result<PathBuf, VerifyAgentChoiceError> {
        self.cache_of("claude")
    }

    /// The cache for other agents.
    fn other_cache(&self) -> Result<PathBuf, VerifyAgentChoiceError> {
        self.cache_of("agents")
    }

    /// Where results of releases are kept.
    pub(super) fn result_store(&self) -> Option<VerifyResultStore> {
        self.cache_of("verify").ok().map(VerifyResultStore::new)
    }

    /// The published versions of Claude Code: npm's list, or the copy of it if npm cannot be asked.
    pub(super) async fn published_versions(
        &self,
        is_isolated: bool,
    ) -> Result<PublishedVersions, VerifyAgentChoiceError> {
        let cache = self.cache()?;
        if is_isolated {
            let kept = PublishedVersions::kept(&cache);
            return kept.ok_or_else(|| VerifyAgentChoiceError::NoList("there is no copy".into()));
        }
        match PublishedVersions::fetch(&cache).await {
            Ok(published) => Ok(published),
            Err(problem) => match PublishedVersions::kept(&cache) {
                Some(kept) => {
                    eprintln!("note: the list of versions is that of an earlier run: {problem}");
                    Ok(kept)
                }
                None => Err(VerifyAgentChoiceError::NoList(problem)),
            },
        }
    }

    fn cache_of(&self, name: &str) -> Result<PathBuf, VerifyAgentChoiceError> {
        let cache = self.cache.as_ref().map(|it| it.join(name));
        cache.ok_or(VerifyAgentChoiceError::NoCache)
    }
}

impl VerifyAgentChoice {
    /// Parses all values of `--claude` and `--agent`.
    pub(super) fn parse_all(
        words: &[String],
        others: &[String],
    ) -> Result<Vec<Self>, VerifyAgentChoiceError> {
        let choice = |word: &String| -> Result<Vec<Self>, VerifyAgentChoiceError> {
            match word.strip_prefix("npm:") {
                Some(versions) => {
                    let releases = versions.split(',').map(|it| it.parse().map(Self::Release));
                    let releases: Result<_, _> = releases.collect();
                    releases.map_err(|_| VerifyAgentChoiceError::InvalidVersion(word.clone()))
                }
                None if word == "play" => Ok(vec![Self::Play]),
                None if word.starts_with("play@") => {
                    let versions = word.trim_start_matches("play@").split(',');
                    Ok(versions.map(|it| it.parse().map(Self::PlayAs)).collect::<Result<_, _>>()?)
                }
                None => Ok(vec![Self::Program(word.clone())]),
            }
        };
        let other = |word: &String| {
            let release = || {
                let (name, version) = word.split_once('@')?;
                Some(Self::Other(AcpRelease::find(name)?, version.parse().ok()?))
            };
            if word == "play" {
                return Ok(Self::Play);
            }
            release().ok_or_else(|| VerifyAgentChoiceError::InvalidAgent(word.clone()))
        };
        let claude: Vec<Vec<Self>> = words.iter().map(choice).collect::<Result<_, _>>()?;
        let others: Vec<Self> = others.iter().map(other).collect::<Result<_, _>>()?;
        Ok(claude.into_iter().flatten().chain(others).collect())
    }

    /// Adds published releases that are not chosen already.
    pub(super) fn with_releases(mut chosen: Vec<Self>, versions: &[AgentVersion]) -> Vec<Self> {
        for version in versions {
            if !chosen.iter().any(|it| matches!(it, Self::Release(chosen) if chosen == version)) {
                chosen.push(Self::Release(*version));
            }
        }
        chosen
    }

    async fn detect(
        &self,
        environment: &VerifyEnvironment,
    ) -> Result<VerifyAgent, VerifyAgentChoiceError> {
        let search_path = environment.agent_search_path();
        let node = environment.node();
        match self {
            Self::Play => {
                let mut agent = detect_play("play", &[], &search_path).await?;
                let command = agent.command.iter().flatten().cloned();
                agent.acp_command = Some(command.chain(["--acp".into()]).collect());
                Ok(agent)
            }
            Self::PlayAs(release) => {
                let options = ["--as".into(), release.to_string().into()];
                detect_play(&format!("play@{release}"), &options, &search_path).await
            }
            Self::Other(release, version) => {
                let agent = release.cached(&environment.other_cache()?, *version);
                let name = || format!("{}@{version}", release.name);
                agent.ok_or_else(|| VerifyAgentChoiceError::NotFetched(name()))
            }
            Self::Release(version) => {
                let command = cached_release(&environment.cache()?, *version, &node);
                let name = || format!("Claude Code {version}");
                let command = command.ok_or_else(|| VerifyAgentChoiceError::NotFetched(name()))?;
                let program = command.last().map(|it| it.to_string_lossy().into_owned());
                let mut agent = VerifyAgent::detect(None, command, &search_path).await?;
                if agent.version != *version {
                    let program = program.unwrap_or_default();
                    let error = VerifyAgentError::WrongVersion {
                        requested: *version,
                        actual: agent.version,
                        program,
                    };
                    return Err(error.into());
                }
                agent.is_release = true;
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

/// Detects the built-in agent, started with options.
async fn detect_play(
    label: &str,
    options: &[OsString],
    search_path: &OsStr,
) -> Result<VerifyAgent, VerifyAgentChoiceError> {
    let program = env::current_exe().map_err(VerifyAgentChoiceError::NoExecutable)?;
    let command = [&[program.into(), OsStr::new("play").to_owned()], options].concat();
    let detected = VerifyAgent::detect(Some(label), command, search_path).await;
    let mut agent = detected.map_err(VerifyAgentChoiceError::NoPlay)?;
    "play".clone_into(&mut agent.name);
    Ok(agent)
}

/// Fetches the releases that are not in the cache, while there is still network access. Errors are
/// printed.
pub(super) async fn fetch_missing(
    choices: impl Iterator<Item = &VerifyAgentChoice>,
    environment: &VerifyEnvironment,
) {
    for choice in choices {
        let fetched = match choice {
            VerifyAgentChoice::Release(version) => fetch_one(*version, environment).await,
            VerifyAgentChoice::Other(release, version) => {
                fetch_other(*release, *version, environment).await
            }
            VerifyAgentChoice::Play
            | VerifyAgentChoice::PlayAs(_)
            | VerifyAgentChoice::Program(_) => Ok(()),
        };
        if let Err(error) = fetched {
            report_error(&error, error.hint().as_deref());
        }
    }
}

pub(super) async fn fetch_one(
    version: AgentVersion,
    environment: &VerifyEnvironment,
) -> Result<(), VerifyAgentChoiceError> {
    let (cache, node) = (environment.cache()?, environment.node());
    if cached_release(&cache, version, &node).is_none() {
        eprintln!("fetching Claude Code {version} into {}", cache.display());
        fetch_release(&cache, version, &node).await?;
    }
    Ok(())
}

async fn fetch_other(
    release: AcpRelease,
    version: AgentVersion,
    environment: &VerifyEnvironment,
) -> Result<(), VerifyAgentChoiceError> {
    let cache = environment.other_cache()?;
    if release.cached(&cache, version).is_none() {
        eprintln!("fetching {}@{version} into {}", release.name, cache.display());
        release.fetch(&cache, version, &environment.search_path).await?;
    }
    Ok(())
}

/// Detects the version of every agent. Agents that are not available are skipped with an error
/// message. Agents with the same version get numbered labels. The program of a release about which
/// everything is known is not looked for.
pub(super) async fn detect_all(
    choices: &[VerifyAgentChoice],
    environment: &VerifyEnvironment,
    is_known: impl Fn(&VerifyAgentChoice) -> bool,
) -> Vec<VerifyAgent> {
    let mut agents: Vec<VerifyAgent> = Vec::new();
    for choice in choices {
        let detected = match choice {
            VerifyAgentChoice::Release(version) if is_known(choice) => {
                Ok(VerifyAgent::known_release(*version))
            }
            _ => choice.detect(environment).await,
        };
        let mut agent = match detected {
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
