//! What the chores need beyond a Rust toolchain.
//!
//! On Debian and as root, what is missing is installed, and said. What cannot be had is skipped out
//! loud by whoever wanted it, with the reason given here; where `CI` is `true`, nothing may be.

#[cfg(feature = "bench")]
use std::path::Path;
use std::process::{Command, Stdio};

/// A program that a chore needs, and the Debian packages it comes with.
struct Need {
    program: &'static str,
    arguments: &'static [&'static str],
    packages: &'static [&'static str],
    wanted_for: &'static str,
}

/// What the tests need: without these, parts of them say that they are skipped.
const TESTS: &[Need] = &[
    Need {
        program: "npm",
        arguments: &["--version"],
        packages: &["nodejs", "npm"],
        wanted_for: "the real CLI and the TypeScript SDKs",
    },
    Need {
        program: "python3",
        arguments: &["-m", "venv", "--help"],
        packages: &["python3", "python3-venv"],
        wanted_for: "the Python SDKs",
    },
    Need {
        program: "ip",
        arguments: &["-V"],
        packages: &["iproute2"],
        wanted_for: "running agents without a network",
    },
    Need {
        program: "git",
        arguments: &["--version"],
        packages: &["git"],
        wanted_for: "commits of what agents change",
    },
    Need {
        program: "chromium",
        arguments: &["--version"],
        packages: &["chromium"],
        wanted_for: "the web UI in a real browser",
    },
];

/// Sees to it that the tests find what they need.
pub(crate) fn tests() -> Result<(), String> {
    let missing: Vec<&Need> = TESTS.iter().filter(|need| !need.is_there()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing);
    let missing: Vec<String> = missing
        .iter()
        .filter(|need| !need.is_there())
        .map(|need| format!("`{}`, for {}", need.program, need.wanted_for))
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("missing: {}", missing.join("; "))) }
}

/// Whether `npm` can fetch a CLI.
pub(crate) fn npm() -> Result<(), String> {
    let there = TESTS.iter().any(|need| need.program == "npm" && need.is_there());
    if there { Ok(()) } else { Err("`npm` is not installed".to_owned()) }
}

/// Installs a package of npm into a folder, for the benchmark to be measured against.
#[cfg(feature = "bench")]
pub(crate) fn install_with_npm(folder: &Path, package: &str) -> Result<(), String> {
    npm()?;
    let failed = |cause: &str| format!("npm could not install `{package}`: {cause}");
    eprintln!("xtask: bench: npm install {package}, into {}", folder.display());
    std::fs::create_dir_all(folder).map_err(|error| failed(&error.to_string()))?;
    let status = Command::new("npm")
        .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"])
        .args([folder.as_os_str(), package.as_ref()])
        .stdout(Stdio::null())
        .status()
        .map_err(|error| failed(&error.to_string()))?;
    if status.success() { Ok(()) } else { Err(failed(&status.to_string())) }
}

/// Looks for `jq`, which the benchmark of `inspect` is measured against.
#[cfg(feature = "bench")]
pub(crate) fn jq() -> Result<(), String> {
    if answers("jq", &["--version"]) { Ok(()) } else { Err("`jq` is not installed".to_owned()) }
}

/// Whether this run decides if a change lands, so that nothing may be skipped.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

impl Need {
    fn is_there(&self) -> bool {
        answers(self.program, self.arguments)
    }
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    let command = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Installs packages where that is possible; whether it worked, is looked at afterwards.
fn install(missing: &[&Need]) {
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages).copied().collect();
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|it| it.stdout == b"0\n");
    if !is_root || !answers("apt-get", &["--version"]) {
        eprintln!(
            "xtask: set-up: not installed, for want of apt-get and root: {}",
            packages.join(" ")
        );
        return;
    }
    eprintln!("xtask: set-up: apt-get install {}", packages.join(" "));
    let run = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        let _ = command.status();
    };
    run(&["update", "-q"]);
    run(&[&["install", "-y", "-q", "--no-install-recommends"], &packages[..]].concat());
}
