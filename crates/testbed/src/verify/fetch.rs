//! Released versions of the CLI, fetched with npm into a cache.
//!
//! The CLI is proprietary: it stays in the cache of whoever asked for it and is never part of
//! anything of ours.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::agent::{AgentError, command_for, start};
use crate::scenario::Version;

/// The command for a version that was fetched before.
pub fn fetched(cache: &Path, version: Version, node: &OsStr) -> Option<Vec<OsString>> {
    let package = cache.join(version.to_string()).join("package");
    let program = ["claude", "cli.js"].map(|name| package.join(name));
    program.into_iter().find(|program| program.exists()).map(|it| command_for(it, node))
}

/// Fetches a version: the program for this platform, or the script for Node where there is none.
pub async fn fetch(
    cache: &Path,
    version: Version,
    node: &OsStr,
) -> Result<Vec<OsString>, AgentError> {
    let failed = |problem: String| AgentError::Fetch { version, problem };
    std::fs::create_dir_all(cache)
        .map_err(|error| failed(format!("no directory `{}`: {error}", cache.display())))?;
    // It is unpacked aside and moved in whole, so that a cache never holds half a version.
    let aside = tempfile::Builder::new().prefix(".fetching-").tempdir_in(cache);
    let aside = aside.map_err(|error| failed(error.to_string()))?;
    let packages = [platform_package(), "@anthropic-ai/claude-code".to_owned()];
    let mut problem = String::new();
    for package in packages {
        match unpack(&package, version, aside.path()).await {
            Ok(()) => {
                let place = cache.join(version.to_string());
                // Somebody else may have fetched the same meanwhile; theirs is as good.
                let _ = std::fs::rename(aside.path(), &place);
                if let Some(command) = fetched(cache, version, node) {
                    return Ok(command);
                }
                problem = format!("`{package}` holds neither `claude` nor `cli.js`");
            }
            Err(error) => problem = error,
        }
    }
    Err(failed(problem))
}

async fn unpack(package: &str, version: Version, into: &Path) -> Result<(), String> {
    let name = format!("{package}@{version}");
    let into_text = into.as_os_str();
    let pack = ["npm", "pack", "--silent", "--pack-destination"].map(OsStr::new);
    said(&[&pack[..], &[into_text, OsStr::new(&name)]].concat()).await?;
    let archive = archive(into).ok_or_else(|| format!("npm packed nothing for `{name}`"))?;
    let tar = ["tar", "xzf"].map(OsStr::new);
    said(&[&tar[..], &[archive.as_os_str(), OsStr::new("-C"), into_text]].concat()).await?;
    std::fs::remove_file(archive).map_err(|error| error.to_string())
}

fn archive(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|it| it == "tgz"))
}

/// Runs a command of ours; what it says on stderr if it fails.
async fn said(command: &[&OsStr]) -> Result<(), String> {
    let words: Vec<OsString> = command.iter().map(|&word| word.to_owned()).collect();
    let program = words[0].to_string_lossy().into_owned();
    let output = start(&words).stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| format!("could not start `{program}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let telling = errors.lines().find(|line| !line.trim().is_empty());
    Err(format!("`{program}` failed: {}", telling.unwrap_or("it does not say why")))
}

fn platform_package() -> String {
    let system = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let musl = if cfg!(target_os = "linux") && has_musl_only() { "-musl" } else { "" };
    format!("@anthropic-ai/claude-code-{system}-{machine}{musl}")
}

/// Whether the system's own programs need musl's loader.
fn has_musl_only() -> bool {
    let loaders = std::fs::read_dir("/lib").into_iter().flatten().flatten();
    let mut names = loaders.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.any(|name| name.starts_with("ld-musl-")) && !Path::new("/lib64").exists()
}
