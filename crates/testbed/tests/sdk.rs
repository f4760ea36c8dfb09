//! The official API SDKs, driving the scripted API: what they accept, the real one would send.
//!
//! The SDKs are installed under `target/` on first use. Without Python, node or a way to install,
//! the test says that it was skipped; where `CI` is `true` that is a failure.

#![expect(clippy::print_stdout, reason = "what the SDKs say is worth reading")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::json;
use test_support::packages::{self, OptionalPackages};
use towpath_testbed::api::{Options, Script, Server};
use towpath_testbed::scenario::{Block, Fault, Reply, Trouble};

const PYTHON: &str = "anthropic==2.8.0";
const NODE: &str = "@anthropic-ai/sdk@1.8.0";

#[test]
fn the_python_sdk_is_content() {
    if let Some(python) = packages::or_skip(python()) {
        drive(python, &scripts().join("drive.py"));
    }
}

#[test]
fn the_typescript_sdk_is_content() {
    // A module finds its packages beside itself.
    if let Some(script) = packages::or_skip(node()) {
        drive("node", &script);
    }
}

fn drive(program: impl AsRef<OsStr>, file: &Path) {
    let mut command = tokio::process::Command::new(program);
    command.arg(file);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let server = Server::start(script(), Options::default());
    let server = runtime.block_on(server).expect("a free port");
    for variable in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"] {
        command.env_remove(variable);
    }
    command.env_remove("ANTHROPIC_AUTH_TOKEN");
    command.env("ANTHROPIC_BASE_URL", &server.url).env("ANTHROPIC_API_KEY", "sk-test");
    let output = runtime.block_on(async { command.output().await }).expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}", text(&output.stdout));
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    runtime.block_on(server.stop());
}

/// What the SDKs are told: a reply for each of their questions.
fn script() -> Script {
    let on = |words: &str, reply: Reply| Reply {
        only_for: Some(words.to_owned()),
        always: true,
        ..reply
    };
    let say = |blocks: Vec<Block>| Reply { blocks, ..Reply::default() };
    let text = |text: &str| Block::Text(text.to_owned());
    let status = |status, kind: &str, headers: &[(&str, &str)]| {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let headers = headers.iter().map(pair).collect();
        let (kind, message) = (kind.to_owned(), "no".to_owned());
        let fault = Some(Fault::Status { status, kind, message, headers });
        Reply { fault, ..Reply::default() }
    };
    let after = |deltas, trouble| Reply {
        fault: Some(Fault::After { deltas, trouble }),
        ..say(vec![text("one two three")])
    };
    let (kind, message) = ("overloaded_error".to_owned(), "Overloaded".to_owned());
    let call = Block::Tool {
        name: "get_weather".to_owned(),
        input: json!({"city": "São Paulo"}),
        id: None,
    };
    let thought = Block::Thinking("First this, then that.".to_owned());
    let stops = |reason: &str| {
        let reply = Reply { stop: Some(reason.to_owned()), ..say(vec![text("So far.")]) };
        on(&format!("stop with {reason}"), reply)
    };
    let once = Reply { always: false, ..on("fail once", status(529, "overloaded_error", &[])) };
    let replies = vec![
        on("say hello", say(vec![text("Hello there, friend.")])),
        on("think about it", say(vec![thought, text("Done.")])),
        on("weather", say(vec![text("I look."), call])),
        on("sunny", say(vec![text("It is sunny.")])),
        on("overload", status(529, "overloaded_error", &[])),
        on("limit", status(429, "rate_limit_error", &[("retry-after", "7")])),
        on("midway", after(2, Trouble::SseError { kind, message })),
        on("broken", after(1, Trouble::Disconnect)),
        stops("max_tokens"),
        stops("refusal"),
        stops("pause_turn"),
        stops("model_context_window_exceeded"),
        stops("stop_sequence"),
        once,
        on("fail once", say(vec![text("Now it works.")])),
    ];
    Script::new(replies).expect("no recording among them")
}

/// A Python with the SDK.
fn python() -> Result<PathBuf, String> {
    Ok(packages::python(&place("python"), &[PYTHON])?.join("python"))
}

/// The script, in a directory with the SDK.
fn node() -> Result<PathBuf, String> {
    let place = place("node");
    packages::npm(&place, &[NODE], OptionalPackages::Omit)?;
    let script = place.join("drive.mjs");
    std::fs::copy(scripts().join("drive.mjs"), &script).map_err(|error| error.to_string())?;
    Ok(script)
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk")
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("api-sdk").join(name)
}
