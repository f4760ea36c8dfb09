//! The pages in a real browser: `towpath serve` with the built-in agent, and Chromium.
//!
//! Each test runs one script of `tests/web` in node.

#![expect(clippy::print_stdout, reason = "the output of a script is worth reading")]
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

mod browser;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use browser::{pages, prepare, scripts};
use test_support::packages::or_skip;
use testbed::verify::{cached_release, fetch_release};

/// The release of the real CLI that is tried.
const VERSION: &str = "2.1.325";

#[test]
fn messages_appear_while_they_are_written() {
    run_script("messages.mjs");
}

#[test]
fn requests_are_answered_by_click_and_by_key_and_once_for_all_browsers() {
    run_script("requests.mjs");
}

#[test]
fn prompts_are_queued_steered_and_interrupted() {
    run_script("queue.mjs");
}

#[test]
fn reloads_tabs_network_failures_and_crashes_lose_and_repeat_nothing() {
    run_script("reconnect.mjs");
}

#[test]
fn markup_in_texts_is_never_executed() {
    run_script("injection.mjs");
}

#[test]
fn the_page_is_accessible_on_every_screen() {
    run_script("accessibility.mjs");
}

#[test]
fn every_card_and_dialog_fits_every_screen_whatever_it_shows() {
    run_script("layout.mjs");
}

#[test]
fn unusual_browsers_and_contents_are_coped_with() {
    run_script("edge-cases.mjs");
}

#[test]
fn an_agent_that_failed_is_started_again_from_the_page() {
    run_script("agent-failure.mjs");
}

#[test]
fn file_changes_are_shown_commented_on_and_rewound() {
    run_script("file-changes.mjs");
}

#[test]
fn every_text_colour_has_enough_contrast() {
    run_script("contrast.mjs");
}

#[test]
fn repeated_and_late_patches_change_nothing() {
    run_script("patches.mjs");
}

/// Its script says how it is run.
#[test]
#[ignore = "it writes the pictures of the documentation"]
fn pictures_of_the_page() {
    let Some(scripts) = scripts() else { return };
    let pictures = pages().join("../docs/images");
    run(Command::new("node").arg(scripts.join("pictures.mjs")).env("PICTURES", pictures));
}

/// The same with the real CLI, in its own network namespace.
#[tokio::test]
async fn the_real_cli_is_followed_answered_and_survives_a_crash() {
    let Some(scripts) = scripts() else { return };
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
        println!("no network namespaces here: the CLI could reach the network");
        Command::new("node")
    };
    run(command.arg(scripts.join("release.mjs")).env("CLAUDE", claude));
}

#[test]
fn the_pages_pass_the_type_checker() {
    let Some(scripts) = scripts() else { return };
    let compiler = scripts.join("node_modules/typescript/bin/tsc");
    let output =
        Command::new("node").arg(compiler).arg("-p").arg(pages().join("tsconfig.json")).output();
    let output = output.expect("node starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_pages_are_formatted() {
    let Some(scripts) = scripts() else { return };
    let prettier = scripts.join("node_modules/prettier/bin/prettier.cjs");
    let mut command = Command::new("node");
    command.arg(prettier).args(["--check", "js", "sw.js"]).current_dir(pages());
    let output = command.output().expect("node starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a script, which reports failure in its exit code.
fn run_script(script: &str) {
    let Some(scripts) = scripts() else { return };
    run(Command::new("node").arg(scripts.join(script)));
}

/// Runs a command with the environment of a script.
fn run(command: &mut Command) {
    let _scratch = prepare(command);
    let output = command.output().expect("node starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}", text(&output.stdout));
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// The program of the real CLI, in the cache of `towpath verify`.
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
