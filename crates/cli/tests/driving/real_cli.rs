//! The real CLI, from the cache of `towpath verify`, without a network.

#![expect(clippy::disallowed_methods, reason = "tests start programs and look at where they run")]

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use testbed::verify::{cached_release, fetch_release};

/// The version that these tests drive.
const VERSION: &str = "2.1.325";

/// The command of the real CLI, fetched if necessary, or why it is not available.
pub(crate) async fn command() -> Result<Vec<OsString>, String> {
    let variable = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty());
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")));
    let cache = cache.ok_or("there is no cache directory")?.join("towpath/claude");
    let (version, node) = (VERSION.parse().expect("a version"), OsStr::new("node"));
    if let Some(command) = cached_release(&cache, version, node) {
        return Ok(command);
    }
    println!("fetching Claude Code {VERSION} into {}", cache.display());
    fetch_release(&cache, version, node).await.map_err(|error| error.to_string())
}

/// Runs an ignored test of this program without a network except loopback.
pub(crate) fn without_network(test: &str) {
    let itself = std::env::current_exe().expect("this program");
    let words = ["--exact", test, "--ignored", "--nocapture"];
    let alone = ["-n", "--", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""];
    let possible = Command::new("unshare").args(["-n", "true"]).status();
    let mut command = if possible.is_ok_and(|status| status.success()) {
        let mut command = Command::new("unshare");
        command.args(alone).arg(itself);
        command
    } else {
        println!("no network namespaces here: the CLI could reach the network, if it tried");
        Command::new(itself)
    };
    let status = command.args(words).status().expect("this program once more");
    assert!(status.success(), "`{test}` failed");
}

/// Reports a skipped test. In CI that is a failure.
pub(crate) fn skip(why: &str) {
    println!("skipped: Claude Code {VERSION} is not available: {why}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "no test may be skipped in CI");
}
