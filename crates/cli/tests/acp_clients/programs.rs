//! The clients, installed under `target/` on first use.
//!
//! Without Python, npm or a way to install, a test reports that it was skipped; if `CI` is `true`
//! that is a failure.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use test_support::packages::{self, NodeRelease, OptionalPackages};

/// `acpx` needs at least 22.13.
const NODE: &str = "22.23.3";
const NODE_PACKAGES: [&str; 4] =
    ["acpx@0.19.1", "@agentclientprotocol/sdk@2.4.0", "ajv@8.20.0", "ws@8.18.3"];
const PYTHON_PACKAGES: [&str; 1] = ["agent-client-protocol[http]==0.12.1"];

/// A Node.js with packages, and the scripts of this directory beside them.
pub(crate) struct NodePrograms {
    release: NodeRelease,
    directory: PathBuf,
}

impl NodePrograms {
    /// A command that runs a script of this directory.
    pub(crate) fn script(&self, name: &str) -> Command {
        self.run(&self.directory.join(name))
    }

    pub(crate) fn acpx(&self) -> Command {
        self.run(&self.directory.join("node_modules/acpx/dist/cli.js"))
    }

    fn run(&self, script: &Path) -> Command {
        let mut command = Command::new(self.release.program());
        // `acpx` starts itself once more, by name.
        command.arg(script).env("PATH", self.release.search_path()).env("NO_COLOR", "1");
        command
    }

    /// A script of this directory as the command of an agent.
    pub(crate) fn agent_command(&self, script: &str) -> Vec<String> {
        let path = |it: PathBuf| it.display().to_string();
        vec![path(self.release.program()), path(self.directory.join(script))]
    }
}

/// `None` if the test is skipped.
pub(crate) fn node() -> Option<&'static NodePrograms> {
    static PROGRAMS: OnceLock<Result<NodePrograms, String>> = OnceLock::new();
    packages::or_skip(PROGRAMS.get_or_init(install_node).as_ref().map_err(Clone::clone))
}

/// A command that runs a script of this directory; `None` if the test is skipped.
pub(crate) fn python(script: &str) -> Option<Command> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let install = || packages::python(&install_directory("python"), &PYTHON_PACKAGES);
    let programs = packages::or_skip(PYTHON.get_or_init(install).as_deref().map_err(Clone::clone))?;
    let mut command = Command::new(programs.join("python"));
    command.arg(scripts().join(script));
    Some(command)
}

fn install_node() -> Result<NodePrograms, String> {
    let release = NodeRelease::install(&install_directory("node-release"), NODE)?;
    let directory = install_directory("node");
    packages::npm_with(&release, &directory, &NODE_PACKAGES, OptionalPackages::Omit)?;
    // A module finds its packages in its own directory.
    let failed = |error: std::io::Error| error.to_string();
    for script in std::fs::read_dir(scripts()).map_err(failed)? {
        let script = script.map_err(failed)?.path();
        if let Some(name) =
            script.file_name().filter(|_| script.extension().is_some_and(|it| it == "mjs"))
        {
            std::fs::copy(&script, directory.join(name)).map_err(failed)?;
        }
    }
    Ok(NodePrograms { release, directory })
}

pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acp_clients")
}

fn install_directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("acp").join(name)
}
