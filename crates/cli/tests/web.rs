//! The pages in a real browser: `towpath serve` with the player behind it, Chromium in front.
//!
//! Each test runs one script of `tests/web` in node.

#![expect(clippy::print_stdout, reason = "what a script says is worth reading")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and look for them")]

mod browser;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use browser::{pages, prepare, stand};
use test_support::packages::or_skip;
use testbed::verify::{cached_release, fetch_release};

/// The release of the real CLI that is tried.
const VERSION: &str = "2.1.325";

#[test]
fn words_come_onto_the_screen_as_they_are_said() {
    drive("talking.mjs");
}

#[test]
fn requests_are_answered_by_click_and_by_key_and_once_for_all_browsers() {
    drive("answering.mjs");
}

#[test]
fn prompts_wait_steer_and_are_interrupted() {
    drive("queueing.mjs");
}

#[test]
fn no_word_is_lost_or_doubled_by_reloads_tabs_networks_and_crashes() {
    drive("losses.mjs");
}

#[test]
fn nothing_that_anybody_says_is_run() {
    drive("hostile.mjs");
}

#[test]
fn everybody_can_use_it_on_any_screen() {
    drive("reach.mjs");
}

#[test]
fn changes_are_seen_commented_on_and_taken_back() {
    drive("changing.mjs");
}

#[test]
fn every_colour_can_be_read_on_every_ground() {
    drive("colours.mjs");
}

#[test]
fn patches_that_come_twice_or_late_do_no_harm() {
    drive("patches.mjs");
}

/// The same with the real CLI, in a network of its own.
#[tokio::test]
async fn the_real_cli_is_followed_answered_and_survives_a_crash() {
    let Some(stand) = stand() else { return };
    let claude = claude().await;
    let claude = claude.map_err(|why| format!("Claude Code {VERSION} cannot be had: {why}"));
    let Some(claude) = or_skip(claude) else { return };
    let alone = "ip link set lo up && exec \"$0\" \"$@\"";
    let possible = Command::new("unshare").args(["-n", "true"]).output();
    let mut command = if possible.is_ok_and(|it| it.status.success()) {
        let mut command = Command::new("unshare");
        command.args(["-n", "--", "sh", "-c", alone, "node"]);
        command
    } else {
        println!("no network namespaces here: the CLI could reach the network, if it tried");
        Command::new("node")
    };
    watch(command.arg(stand.join("release.mjs")).env("CLAUDE", claude));
}

#[test]
fn the_pages_pass_the_type_checker() {
    let Some(stand) = stand() else { return };
    let compiler = stand.join("node_modules/typescript/bin/tsc");
    let output =
        Command::new("node").arg(compiler).arg("-p").arg(pages().join("tsconfig.json")).output();
    let output = output.expect("node starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Runs a script, which fails by its exit code.
fn drive(script: &str) {
    let Some(stand) = stand() else { return };
    watch(Command::new("node").arg(stand.join(script)));
}

/// Runs a command with all that a script has to know.
fn watch(command: &mut Command) {
    let _scratch = prepare(command);
    let output = command.output().expect("node starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}", text(&output.stdout));
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// The program of the real CLI, fetched to where `towpath verify` keeps it if need be.
async fn claude() -> Result<OsString, String> {
    let variable = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty());
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")));
    let cache = cache.ok_or("there is no place to keep it in")?.join("towpath/claude");
    let (version, node) = (VERSION.parse().expect("a version"), OsStr::new("node"));
    let command = match cached_release(&cache, version, node) {
        Some(command) => command,
        None => fetch_release(&cache, version, node).await.map_err(|error| error.to_string())?,
    };
    match command.as_slice() {
        [program] => Ok(program.clone()),
        _ => Err("it is no program by itself here".to_owned()),
    }
}
