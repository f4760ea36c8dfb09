//! The programs that the tests need beyond a Rust toolchain.
//!
//! On Debian and as root, missing programs are installed. Tests that need a program that cannot be
//! installed are skipped, and the check counts them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::cargo;

/// A program that tests need, and the Debian packages that have it.
struct RequiredProgram {
    name: &'static str,
    /// Arguments with which the program only shows that it works.
    probe: &'static [&'static str],
    packages: &'static [&'static str],
    purpose: &'static str,
}

const REQUIRED: &[RequiredProgram] = &[
    RequiredProgram {
        name: "npm",
        probe: &["--version"],
        packages: &["nodejs", "npm"],
        purpose: "the real CLI, the TypeScript SDKs and the format of the web UI",
    },
    RequiredProgram {
        name: "python3",
        probe: &["-m", "venv", "--help"],
        packages: &["python3", "python3-venv"],
        purpose: "the Python SDKs",
    },
    RequiredProgram {
        name: "ip",
        probe: &["-V"],
        packages: &["iproute2"],
        purpose: "running agents without a network, and cutting cables of a fleet",
    },
    RequiredProgram {
        name: "unshare",
        probe: &["--version"],
        packages: &["util-linux", "mount"],
        purpose: "networks and disks of tests",
    },
    RequiredProgram {
        name: "mkfs.ext4",
        probe: &["-V"],
        packages: &["e2fsprogs"],
        purpose: "cutting the power of a fleet's servers",
    },
    RequiredProgram {
        name: "faketime",
        probe: &["--version"],
        packages: &["faketime"],
        purpose: "workers with wrong clocks",
    },
    RequiredProgram {
        name: "git",
        probe: &["--version"],
        packages: &["git"],
        purpose: "commits of changed files",
    },
    RequiredProgram {
        name: "chromium",
        probe: &["--version"],
        packages: &["chromium"],
        purpose: "the web UI in a real browser",
    },
    RequiredProgram {
        name: "chromium-headless-shell",
        probe: &["--version"],
        packages: &["chromium-headless-shell"],
        purpose: "the same in half of the CPU time; without it, the tests use `chromium`",
    },
];

impl RequiredProgram {
    fn works(&self) -> bool {
        succeeds(self.name, self.probe)
    }
}

/// Installs missing programs where that is possible, and says which are still missing.
pub(crate) fn install_required_programs() {
    let missing: Vec<&RequiredProgram> = REQUIRED.iter().filter(|it| !it.works()).collect();
    if missing.is_empty() {
        return;
    }
    install_packages(&missing.iter().flat_map(|it| it.packages).copied().collect::<Vec<_>>());
    for program in missing.iter().filter(|it| !it.works()) {
        eprintln!("xtask: `{}` is missing; it is needed for {}", program.name, program.purpose);
    }
}

fn install_packages(packages: &[&str]) {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|it| it.stdout == b"0\n");
    if !is_root || !succeeds("apt-get", &["--version"]) {
        eprintln!(
            "xtask: installing {} needs apt-get and root; tests that need them are skipped",
            packages.join(" ")
        );
        return;
    }
    eprintln!("xtask: apt-get install {}", packages.join(" "));
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        // The programs are probed again afterwards.
        let _ = command.status();
    };
    apt_get(&["update", "-q"]);
    apt_get(&[&["install", "-y", "-q", "--no-install-recommends"], packages].concat());
}

/// Installs an npm package into the target directory, once, and returns the path of its program.
/// The error says why it could not be installed.
pub(crate) fn npm_tool(name: &str, version: &str) -> Result<PathBuf, String> {
    let directory = cargo::target_directory().join(format!("tools/{name}-{version}"));
    // Linking the program is the last thing npm does.
    let program = directory.join("node_modules/.bin").join(name);
    if program.exists() {
        return Ok(program);
    }
    if !succeeds("npm", &["--version"]) {
        return Err("`npm` is not installed".to_owned());
    }
    let package = format!("{name}@{version}");
    eprintln!("xtask: npm install {package}");
    std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let output = Command::new("npm")
        .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"])
        .args([directory.as_os_str(), package.as_ref()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() && program.exists() {
        return Ok(program);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
    Err(format!("npm could not install `{package}`: {last}"))
}

/// Whether this run decides if a change is accepted, so that nothing may be skipped.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// Whether `npm` works.
pub(crate) fn has_npm() -> bool {
    succeeds("npm", &["--version"])
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
