//! Finding the program of an agent on this machine.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::AgentSpec;

/// Directories below the home directory that installers use even if they are not in `PATH`: those of
/// Python tools, npm with a prefix of its own, Bun, Volta, Cargo, and of single agents.
const HOME_PLACES: &[&str] = &[
    ".local/bin",
    ".npm-global/bin",
    ".npm-packages/bin",
    ".local/share/npm/bin",
    ".bun/bin",
    ".volta/bin",
    ".cargo/bin",
    ".opencode/bin",
    ".claude/local",
    "bin",
];

/// Directories of the whole machine.
const PLACES: &[&str] = &["/usr/local/bin", "/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin"];

/// How many versions of Node in the home directory are looked through.
const MAX_NODE_VERSIONS: usize = 50;

/// The program of an agent, with which it can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedAgent {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Variables to add to the environment. A program that was found outside `PATH` gets its own
    /// directory added to it, because the interpreter of a script is usually installed there too.
    pub environment: Vec<(OsString, OsString)>,
}

/// The program of an agent was not found.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the agent {title} is not installed: there is no program `{program}`{}", how_to(.install.as_deref()))]
pub struct AgentNotInstalled {
    pub title: String,
    pub program: String,
    pub install: Option<String>,
}

fn how_to(install: Option<&str>) -> String {
    install.map_or_else(String::new, |it| format!("; install it with `{it}`"))
}

impl AgentSpec {
    /// Finds the program, in `PATH` of this environment or where installers put it. Blocks.
    pub fn locate(
        &self,
        environment: &[(OsString, OsString)],
    ) -> Result<LocatedAgent, AgentNotInstalled> {
        let variable = |name: &str| {
            let own = self.environment.get(name).map(OsString::from);
            let inherited = || environment.iter().rev().find(|(known, _)| known == name);
            own.or_else(|| inherited().map(|(_, value)| value.clone()))
        };
        let name = self.command.first().map(String::as_str).unwrap_or_default();
        let path = variable("PATH").unwrap_or_default();
        let home = variable("HOME").map(PathBuf::from).filter(|it| it.is_absolute());
        let found = if Path::new(name).components().count() > 1 {
            Some(PathBuf::from(name)).filter(|it| it.is_absolute() && is_executable(it))
        } else {
            let npm = variable("npm_config_prefix").map(|it| PathBuf::from(it).join("bin"));
            let places = env::split_paths(&path).filter(|it| it.is_absolute());
            let places = places.chain(npm).chain(usual_places(home.as_deref()));
            let mut files = places.map(|place| place.join(name));
            files.find(|file| !name.is_empty() && is_executable(file))
        };
        let program = found.ok_or_else(|| AgentNotInstalled {
            title: self.title.clone(),
            program: name.to_owned(),
            install: self.install.clone(),
        })?;
        let own = self.environment.iter().map(|(name, value)| (name.into(), value.into()));
        let mut additions: Vec<(OsString, OsString)> = own.collect();
        additions.extend(extended_path(&path, &program).map(|it| ("PATH".into(), it)));
        let arguments = self.command.iter().skip(1).map(OsString::from).collect();
        Ok(LocatedAgent { program, arguments, environment: additions })
    }
}

/// The search path with the program's directory, if that is not in it.
fn extended_path(path: &OsStr, program: &Path) -> Option<OsString> {
    let directory = program.parent()?;
    if env::split_paths(path).any(|it| it == directory) {
        return None;
    }
    let all = env::split_paths(path).chain([directory.to_owned()]);
    env::join_paths(all.filter(|it| !it.as_os_str().is_empty())).ok()
}

fn usual_places(home: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    let below_home = home.into_iter().flat_map(|home| HOME_PLACES.iter().map(|it| home.join(it)));
    let node = home.into_iter().flat_map(|home| node_versions(&home.join(".nvm/versions/node")));
    let all: Vec<PathBuf> =
        below_home.chain(node).chain(PLACES.iter().map(PathBuf::from)).collect();
    all.into_iter()
}

/// The programs of the versions of Node that `nvm` has installed, the newest first.
fn node_versions(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut versions: Vec<_> = entries
        .take(MAX_NODE_VERSIONS)
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let numbers: Vec<u32> =
                name.trim_start_matches('v').split('.').map_while(|it| it.parse().ok()).collect();
            (numbers, entry.path().join("bin"))
        })
        .collect();
    versions.sort_unstable_by(|left, right| right.cmp(left));
    versions.into_iter().map(|(_, path)| path).collect()
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use crate::catalog::AgentCatalog;

    fn install(directory: &Path, name: &str) {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join(name), "#!/bin/sh\n").unwrap();
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_program_is_found_in_the_search_path_and_where_installers_put_it() {
        let home = tempfile::tempdir().unwrap();
        let (first, node) = (home.path().join("first"), home.path().join(".nvm/versions/node"));
        let environment: Vec<(OsString, OsString)> =
            vec![("HOME".into(), home.path().into()), ("PATH".into(), first.clone().into())];
        let catalog = AgentCatalog::default();
        let locate = |name: &str| catalog.find(name).unwrap().locate(&environment);

        let error = locate("vibe").unwrap_err().to_string();
        assert_eq!(
            error,
            "the agent Mistral Vibe is not installed: there is no program `vibe-acp`; install it \
             with `uv tool install mistral-vibe`"
        );
        install(&home.path().join(".local/bin"), "vibe-acp");
        let found = locate("vibe").unwrap();
        assert_eq!(found.program, home.path().join(".local/bin/vibe-acp"));
        let path = format!("{}:{}", first.display(), home.path().join(".local/bin").display());
        assert_eq!(found.environment, [("PATH".into(), path.into())]);

        install(&node.join("v9.11.0/bin"), "gemini");
        install(&node.join("v22.1.0/bin"), "gemini");
        let found = locate("gemini").unwrap();
        assert_eq!(found.program, node.join("v22.1.0/bin/gemini"));
        assert_eq!(found.arguments, ["--acp"]);

        install(&first, "gemini");
        let found = locate("gemini").unwrap();
        assert_eq!((found.program, found.environment.len()), (first.join("gemini"), 0));
        fs::set_permissions(first.join("gemini"), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(locate("gemini").unwrap().program, node.join("v22.1.0/bin/gemini"));
    }
}
