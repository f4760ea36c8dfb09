//! The official API SDKs, and libraries that others make, as clients of the scripted API.
//!
//! They are installed under `target/` on first use. Without Python, Node or network access the
//! tests report that they were skipped. If `CI` is `true`, that is a failure.

#![expect(clippy::print_stdout, reason = "the output of the SDK scripts explains a failure")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::json;
use test_support::packages::{self, OptionalPackages};
use towpath_testbed::api::{ApiOptions, ApiScript, ApiServer};
use towpath_testbed::scenario::{ScenarioBlock, ScenarioFault, ScenarioReply, ScenarioStreamFault};

const PYTHON: &str = "anthropic==2.8.0";
const NODE: &str = "@anthropic-ai/sdk@1.8.0";
const AI_SDK: [&str; 2] = ["ai@7.0.170", "@ai-sdk/anthropic@4.0.102"];
const PYDANTIC_AI: [&str; 2] = ["pydantic-ai-slim==2.66.0", "anthropic==2.8.0"];
const LITELLM: [&str; 1] = ["litellm==1.105.0"];
const LLM: [&str; 3] = ["llm==0.36", "llm-anthropic==0.30", "anthropic==1.17.0"];

#[test]
fn the_python_sdk_accepts_all_replies() {
    if let Some(python) = packages::or_skip(python()) {
        run_client(python, &scripts().join("drive.py"));
    }
}

#[test]
fn the_typescript_sdk_accepts_all_replies() {
    // Node looks for packages in the directory of the script.
    if let Some(script) = packages::or_skip(node()) {
        run_client("node", &script);
    }
}

#[test]
fn the_ai_sdk_accepts_the_replies() {
    if let Some(script) = packages::or_skip(node_script("ai-sdk", &AI_SDK, "ai_sdk.mjs")) {
        run_client("node", &script);
    }
}

#[test]
fn pydantic_ai_accepts_the_replies() {
    run_python("pydantic-ai", &PYDANTIC_AI, "pydantic_ai_client.py");
}

#[test]
fn litellm_accepts_the_replies() {
    run_python("litellm", &LITELLM, "litellm_client.py");
}

#[test]
fn llm_with_its_plugin_accepts_the_replies() {
    run_python("llm", &LLM, "llm_client.py");
}

fn run_python(name: &str, requirements: &[&str], script: &str) {
    let programs = packages::python(&directory(name), requirements);
    if let Some(programs) = packages::or_skip(programs) {
        run_client(programs.join("python"), &scripts().join(script));
    }
}

fn run_client(program: impl AsRef<OsStr>, file: &Path) {
    let mut command = tokio::process::Command::new(program);
    command.arg(file);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = ApiOptions { refuse_unknown_models: true, ..ApiOptions::default() };
    let server = ApiServer::start(script(), options);
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

/// A reply for each prompt of the SDK scripts.
fn script() -> ApiScript {
    let on = |text: &str, reply: ScenarioReply| ScenarioReply {
        only_for: Some(text.to_owned()),
        always: true,
        ..reply
    };
    let reply = |blocks: Vec<ScenarioBlock>| ScenarioReply { blocks, ..ScenarioReply::default() };
    let text = |text: &str| ScenarioBlock::Text(text.to_owned());
    let status = |status, kind: &str, headers: &[(&str, &str)]| {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let headers = headers.iter().map(pair).collect();
        let (kind, message) = (kind.to_owned(), "no".to_owned());
        let fault = Some(ScenarioFault::Status { status, kind, message, headers });
        ScenarioReply { fault, ..ScenarioReply::default() }
    };
    let after = |after, fault| ScenarioReply {
        fault: Some(ScenarioFault::Stream { after, fault }),
        ..reply(vec![text("one two three")])
    };
    let (kind, message) = ("overloaded_error".to_owned(), "Overloaded".to_owned());
    let call = ScenarioBlock::Tool {
        name: "get_weather".to_owned(),
        input: json!({"city": "São Paulo"}),
        id: None,
    };
    let thinking = ScenarioBlock::Thinking("First this, then that.".to_owned());
    let stops = |reason: &str| {
        let stopped =
            ScenarioReply { stop: Some(reason.to_owned()), ..reply(vec![text("So far.")]) };
        on(&format!("stop with {reason}"), stopped)
    };
    let once =
        ScenarioReply { always: false, ..on("fail once", status(529, "overloaded_error", &[])) };
    let replies = vec![
        on("say hello", reply(vec![text("Hello there, friend.")])),
        on("think about it", reply(vec![thinking, text("Done.")])),
        on("weather", reply(vec![text("Checking."), call])),
        on("sunny", reply(vec![text("It is sunny.")])),
        on("overload", status(529, "overloaded_error", &[])),
        on("limit", status(429, "rate_limit_error", &[("retry-after", "7")])),
        on("midway", after(2, ScenarioStreamFault::SseError { kind, message })),
        on("broken", after(1, ScenarioStreamFault::Disconnect)),
        stops("max_tokens"),
        stops("refusal"),
        stops("pause_turn"),
        stops("model_context_window_exceeded"),
        stops("stop_sequence"),
        once,
        on("fail once", reply(vec![text("Now it works.")])),
    ];
    ApiScript::new(replies).expect("no recordings")
}

/// A Python environment with the SDK.
fn python() -> Result<PathBuf, String> {
    Ok(packages::python(&directory("python"), &[PYTHON])?.join("python"))
}

/// The script in a directory with the SDK.
fn node() -> Result<PathBuf, String> {
    node_script("node", &[NODE], "drive.mjs")
}

/// A script in a directory with the packages that it needs.
fn node_script(name: &str, packages: &[&str], script: &str) -> Result<PathBuf, String> {
    let directory = directory(name);
    packages::npm(&directory, packages, OptionalPackages::Omit)?;
    let copy = directory.join(script);
    std::fs::copy(scripts().join(script), &copy).map_err(|error| error.to_string())?;
    Ok(copy)
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testbed/sdk")
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("api-sdk").join(name)
}
