//! The pages in a real browser: `towpath serve` with the built-in agent, and Chromium.
//!
//! Each test runs one script of `tests/web` in node.

#![expect(clippy::print_stdout, reason = "the output of a script is worth reading")]
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

mod browser;
#[path = "driving/real_cli.rs"]
#[expect(dead_code, reason = "only the network namespace is used here")]
mod real_cli;

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use browser::{pages, prepare, scripts};
use test_support::other_agents::{OtherAgent, ReleasedAgent};
use test_support::packages::or_skip;
use testbed::api::{ApiOptions, ApiScript, ApiServer};
use testbed::scenario::Scenario;
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
fn drafts_and_their_images_are_kept_until_the_server_has_them() {
    run_script("drafts.mjs");
}

#[test]
fn the_back_button_closes_what_lies_above_the_page() {
    run_script("back-button.mjs");
}

#[test]
fn cards_say_what_is_missing_and_what_they_stand_for() {
    run_script("cards.mjs");
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
fn a_session_of_a_fleet_is_moved_to_another_worker() {
    run_script("move-session.mjs");
}

#[test]
fn every_card_and_dialog_fits_every_screen_whatever_it_shows() {
    run_script("layout.mjs");
}

#[test]
fn sessions_are_read_searched_shared_and_dictated_to() {
    run_script("reading.mjs");
}

#[test]
fn the_agent_receives_every_option_that_is_entered() {
    run_script("session-options.mjs");
}

#[test]
fn options_are_entered_checked_and_explained() {
    run_script("option-forms.mjs");
}

#[test]
fn unusual_browsers_and_contents_are_coped_with() {
    run_script("edge-cases.mjs");
}

#[test]
fn sessions_of_the_cli_are_listed_read_and_continued() {
    run_script("other-sessions.mjs");
}

#[test]
fn session_files_of_the_cli_are_listed_followed_forked_and_continued() {
    run_script("transcripts.mjs");
}

#[test]
fn prompts_are_sent_later_listed_and_removed() {
    run_script("schedule.mjs");
}

#[test]
fn all_sessions_are_searched_while_someone_types() {
    run_script("session-search.mjs");
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
fn changes_are_staged_and_committed_and_sessions_are_grouped_by_project() {
    run_script("git.mjs");
}

#[test]
fn files_are_browsed_edited_and_uploaded() {
    run_script("files.mjs");
}

#[test]
fn a_shell_is_typed_in_seen_by_all_and_survives_a_reload() {
    run_script("terminal.mjs");
}

#[test]
fn everything_is_done_with_the_keyboard_alone() {
    run_script("keyboard.mjs");
}

#[test]
fn two_roles_see_the_same_and_only_one_of_them_acts() {
    run_script("roles.mjs");
}

#[test]
fn a_working_day_on_a_desk_and_a_phone() {
    run_script("day.mjs");
}

#[test]
fn every_text_colour_has_enough_contrast() {
    run_script("contrast.mjs");
}

#[test]
fn a_closed_page_is_notified_and_answers_from_its_notification() {
    run_script("push.mjs");
}

#[test]
fn repeated_and_late_patches_change_nothing() {
    run_script("patches.mjs");
}

#[test]
fn an_agent_that_wants_a_sign_in_says_how_and_is_tried_again() {
    run_script("other-agents.mjs");
}

#[test]
fn a_released_agent_is_answered_by_click_with_its_own_choice() {
    if scripts().is_some() && or_skip(install_codex()).is_some() {
        real_cli::without_network("a_released_agent");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it without a network"]
async fn a_released_agent() {
    let scripts = scripts().expect("it was prepared just now");
    let replies = "# Replies\n\n\
        api for \"done-with-it\" always text \"It is made.\"\n\
        api for \"make a file\" always tool shell {\"command\":\"echo made > made.txt; echo done-with-it\"}\n\
        api text \"It is made.\"\n\n> user \"a scenario needs a step\"\n";
    let scenario = Scenario::parse("replies", replies).expect("a scenario");
    let script = ApiScript::from_scenario(&scenario).expect("no recording");
    let api = ApiServer::start(script, ApiOptions::default()).await.expect("a port");
    let home = tempfile::tempdir().expect("a directory");
    let agent = install_codex().expect("it was installed just now");
    let path = home.path().join("agent");
    std::fs::write(&path, agent.command(&api.url, home.path()).to_script()).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let script = scripts.join("other-agents.mjs");
    let run_all = move || run(Command::new("node").arg(script).env("AGENT", path));
    tokio::task::spawn_blocking(run_all).await.expect("a result");
}

fn install_codex() -> Result<ReleasedAgent, String> {
    OtherAgent::Codex.install(Path::new(env!("CARGO_TARGET_TMPDIR")))
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
