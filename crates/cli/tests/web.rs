//! The pages in a real browser: `towpath serve` with the player behind it, Chromium in front.
//!
//! Each test runs one script of `tests/web` in node, with packages installed under `target/` on first
//! use. Without node, npm or Chromium the tests say that they were skipped; where `CI` is `true` that
//! is a failure.

#![expect(clippy::print_stdout, reason = "what is installed or skipped is said")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and look whether CI runs them"
)]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use testbed::verify::{fetch, fetched};

/// The release of the real CLI that is tried.
const VERSION: &str = "2.1.325";

const PACKAGES: [&str; 4] =
    ["playwright-core@1.56.1", "axe-core@4.11.0", "typescript@5.9.3", "@types/node@20"];
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

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
fn patches_that_come_twice_or_late_do_no_harm() {
    drive("patches.mjs");
}

/// The same with the real CLI, in a network of its own.
#[tokio::test]
async fn the_real_cli_is_followed_answered_and_survives_a_crash() {
    let Some(stand) = stand() else { return };
    match claude().await {
        Ok(claude) => {
            let alone = "ip link set lo up && exec \"$0\" \"$@\"";
            let possible = Command::new("unshare").args(["-n", "true"]).output();
            let mut command = if possible.is_ok_and(|it| it.status.success()) {
                let mut command = Command::new("unshare");
                command.args(["-n", "--", "sh", "-c", alone, "node"]);
                command
            } else {
                println!(
                    "no network namespaces here: the CLI could reach the network, if it tried"
                );
                Command::new("node")
            };
            watch(command.arg(stand.join("release.mjs")).env("CLAUDE", claude));
        }
        Err(why) => skip(&format!("Claude Code {VERSION} cannot be had: {why}")),
    }
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
    let scratch = tempfile::tempdir().expect("a temporary directory");
    for variable in ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"] {
        command.env_remove(variable);
    }
    command.current_dir(scratch.path()).stdin(Stdio::null());
    command.env("TOWPATH", env!("CARGO_BIN_EXE_towpath")).env("SCRATCH", scratch.path());
    command.env("BROWSER", browser().expect("a browser")).env("PAGES", pages());
    let output = command.output().expect("node starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}", text(&output.stdout));
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// The directory with the scripts and their packages, or nothing where the tests are skipped.
fn stand() -> Option<&'static Path> {
    static STAND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match STAND.get_or_init(install) {
        Ok(stand) => Some(stand),
        Err(why) => {
            skip(why);
            None
        }
    }
}

/// Says that something was not tried; where nothing may be skipped, that is a failure.
fn skip(why: &str) {
    println!("skipped: {why}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "nothing may be skipped here");
}

/// The program of the real CLI, fetched to where `towpath verify` keeps it if need be.
async fn claude() -> Result<OsString, String> {
    let variable = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty());
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")));
    let cache = cache.ok_or("there is no place to keep it in")?.join("towpath/claude");
    let (version, node) = (VERSION.parse().expect("a version"), OsStr::new("node"));
    let command = match fetched(&cache, version, node) {
        Some(command) => command,
        None => fetch(&cache, version, node).await.map_err(|error| error.to_string())?,
    };
    match command.as_slice() {
        [program] => Ok(program.clone()),
        _ => Err("it is no program by itself here".to_owned()),
    }
}

fn install() -> Result<PathBuf, String> {
    for program in ["node", "npm"] {
        run(Command::new(program).arg("--version"))
            .map_err(|_| format!("`{program}` is not installed"))?;
    }
    browser().ok_or("no Chromium is installed")?;
    let stand = Path::new(env!("CARGO_TARGET_TMPDIR")).join("web");
    std::fs::create_dir_all(&stand).map_err(|error| error.to_string())?;
    let done = stand.join("installed");
    let wanted = PACKAGES.join(" ");
    if std::fs::read_to_string(&done).ok().as_deref() != Some(&wanted) {
        println!("installing {wanted} into {}", stand.display());
        let options = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"];
        run(Command::new("npm").args(options).arg(&stand).args(PACKAGES))?;
        std::fs::write(done, wanted).map_err(|error| error.to_string())?;
    }
    // A module finds its packages beside itself.
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web");
    for script in std::fs::read_dir(scripts).map_err(|error| error.to_string())? {
        let script = script.map_err(|error| error.to_string())?;
        std::fs::copy(script.path(), stand.join(script.file_name()))
            .map_err(|error| error.to_string())?;
    }
    Ok(stand)
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places: Vec<_> = std::env::split_paths(&path).collect();
    let mac = PathBuf::from("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome");
    let named = BROWSERS.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
    named.chain([mac]).find(|program| program.is_file())
}

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr)))
}
