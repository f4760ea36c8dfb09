//! Releases of other agents, which speak the Agent Client Protocol. They are fetched with npm.
//!
//! What an agent needs to talk to the scripted API is in a file of its own, in the language of
//! scenarios. Nothing here and in the runner depends on which agent it is.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::agent::{VerifyAgent, VerifyAgentError, run_tool_with_path};
use crate::scenario::{AgentVersion, Scenario, ScenarioError};

/// An agent whose releases can be fetched.
#[derive(Clone, Copy, Debug)]
pub struct AcpRelease {
    /// The name in `--agent` and in conditions.
    pub name: &'static str,
    package: &'static str,
    /// The program in `node_modules`. `{platform}` is that of npm packages.
    program: &'static str,
    /// The environment, files and arguments, as a scenario has them.
    setup: &'static str,
}

/// The agents in the order in which they are listed.
pub const ACP_RELEASES: [AcpRelease; 5] = [
    AcpRelease {
        name: "claude-agent-acp",
        package: "@agentclientprotocol/claude-agent-acp",
        program: ".bin/claude-agent-acp",
        setup: include_str!("agents/claude-agent-acp.setup"),
    },
    AcpRelease {
        name: "codex",
        package: "@agentclientprotocol/codex-acp",
        program: ".bin/codex-acp",
        setup: include_str!("agents/codex.setup"),
    },
    AcpRelease {
        name: "copilot",
        package: "@github/copilot",
        program: ".bin/copilot",
        setup: include_str!("agents/copilot.setup"),
    },
    AcpRelease {
        name: "gemini",
        package: "@google/gemini-cli",
        program: ".bin/gemini",
        setup: include_str!("agents/gemini.setup"),
    },
    AcpRelease {
        name: "opencode",
        package: "opencode-ai",
        // The program in `.bin` is put there by a script, and no scripts are run.
        program: "opencode-{platform}/bin/opencode",
        setup: include_str!("agents/opencode.setup"),
    },
];

/// The release of Node.js that they all run with. With an older one, npm silently installs old
/// releases of some packages.
const NODE: &str = "22.23.3";

impl AcpRelease {
    pub fn find(name: &str) -> Option<Self> {
        ACP_RELEASES.into_iter().find(|it| it.name == name)
    }

    /// The agent, if this version of it is in the cache.
    pub fn cached(&self, cache: &Path, version: AgentVersion) -> Option<VerifyAgent> {
        let program = self.directory(cache, version).join(self.program_path());
        let node = node_programs(cache);
        if !program.exists() || !node.join("node").exists() {
            return None;
        }
        // A test parses the setups of all agents.
        let (setup, arguments) = self.setup().ok()?;
        let arguments = arguments.into_iter().map(OsString::from);
        Some(VerifyAgent {
            label: format!("{}@{version}", self.name),
            name: self.name.to_owned(),
            version,
            command: None,
            acp_command: Some(std::iter::once(program.into()).chain(arguments).collect()),
            setup,
            programs: Some(node),
            is_release: true,
            calibration: None,
        })
    }

    /// Fetches a version, and Node.js for it. `search_path` is where npm is looked for.
    pub async fn fetch(
        &self,
        cache: &Path,
        version: AgentVersion,
        search_path: &OsStr,
    ) -> Result<(), VerifyAgentError> {
        let node = node_programs(cache);
        if !node.join("node").exists() {
            let package = format!("{}@{NODE}", node_package());
            let program = Path::new("node_modules").join(node_package()).join("bin/node");
            install(&node_directory(cache), &package, &program, search_path).await?;
        }
        let directories = std::iter::once(node).chain(env::split_paths(search_path));
        let with_node = env::join_paths(directories).unwrap_or_else(|_| search_path.to_owned());
        let package = format!("{}@{version}", self.package);
        let directory = self.directory(cache, version);
        install(&directory, &package, &self.program_path(), &with_node).await
    }

    /// Where the program is in the directory of a version.
    fn program_path(&self) -> PathBuf {
        Path::new("node_modules").join(self.program.replace("{platform}", &platform()))
    }

    fn directory(&self, cache: &Path, version: AgentVersion) -> PathBuf {
        cache.join(format!("{}@{version}", self.name))
    }

    /// What is prepared for the agent, and its arguments.
    fn setup(&self) -> Result<(crate::scenario::ScenarioSetup, Vec<String>), ScenarioError> {
        // A scenario without a step is an error, and what is needed here ends before the first.
        let mut scenario = Scenario::parse(self.name, &format!("{}\neof\n", self.setup))?;
        let arguments = scenario.runs.pop().map(|run| run.value.args).unwrap_or_default();
        Ok((scenario.setup, arguments.into_iter().map(|it| it.value).collect()))
    }
}

/// Installs a package in a temporary directory and renames that, so that the cache never contains
/// an incomplete one. npm leaves out a part for this system that it does not find, without a word.
async fn install(
    directory: &Path,
    package: &str,
    program: &Path,
    search_path: &OsStr,
) -> Result<(), VerifyAgentError> {
    let failed =
        |problem: String| VerifyAgentError::FetchPackage { package: package.to_owned(), problem };
    let cache = directory.parent().unwrap_or(directory);
    fs::create_dir_all(cache)
        .map_err(|error| failed(format!("could not create `{}`: {error}", cache.display())))?;
    let temporary = tempfile::Builder::new().prefix(".fetching-").tempdir_in(cache);
    let temporary = temporary.map_err(|error| failed(error.to_string()))?;
    let words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"];
    let words = words.map(OsStr::new).into_iter();
    let words: Vec<&OsStr> =
        words.chain([temporary.path().as_os_str(), OsStr::new(package)]).collect();
    run_tool_with_path(&words, search_path).await.map_err(failed)?;
    if !temporary.path().join(program).exists() {
        return Err(failed(format!("npm installed no `{}` with it", program.display())));
    }
    if !directory.join(program).exists() {
        // What an earlier attempt may have left.
        let _ = fs::remove_dir_all(directory);
    }
    // The rename fails if another process has fetched the same package meanwhile.
    match fs::rename(temporary.path(), directory) {
        Err(error) if !directory.exists() => Err(failed(error.to_string())),
        _ => Ok(()),
    }
}

fn node_directory(cache: &Path) -> PathBuf {
    cache.join(format!("node@{NODE}"))
}

/// The directory with `node`.
fn node_programs(cache: &Path) -> PathBuf {
    node_directory(cache).join("node_modules").join(node_package()).join("bin")
}

/// The package `node` chooses among such packages in a script, and no scripts are run.
fn node_package() -> String {
    format!("node-{}-{}", system(), machine())
}

fn platform() -> String {
    #[cfg(target_arch = "x86_64")]
    if !std::arch::is_x86_feature_detected!("avx2") {
        return format!("{}-{}-baseline", system(), machine());
    }
    format!("{}-{}", system(), machine())
}

fn system() -> &'static str {
    if cfg!(target_os = "macos") { "darwin" } else { env::consts::OS }
}

fn machine() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::ACP_RELEASES;
    use crate::scenario::AGENT_NAMES;

    #[test]
    fn every_agent_has_a_setup_and_can_be_named_in_conditions() {
        for release in ACP_RELEASES {
            let (setup, _) = release.setup().expect(release.name);
            assert!(!setup.env.is_empty(), "{}", release.name);
            assert!(AGENT_NAMES.contains(&release.name), "{}", release.name);
        }
    }
}
