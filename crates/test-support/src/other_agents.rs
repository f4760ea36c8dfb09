//! Agents that other people make, as tests run them: installed once, and pointed at a scripted model.
//!
//! Each agent speaks the Agent Client Protocol over its stdin and stdout. It gets a home directory of
//! its own, so that it finds no account and no settings but those that are written here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use crate::packages::{self, NodeRelease, OptionalPackages};
use crate::test_run::{VARIABLE, clear_environment, mark};

/// The release of Node.js that all of them run with. With an older one, npm silently installs old
/// releases of some agents.
const NODE: &str = "22.23.3";

/// The model that the agents are told to use.
const MODEL: &str = "stub-model";

/// An agent of the Agent Client Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OtherAgent {
    /// Claude Code behind the adapter that editors use.
    Claude,
    Codex,
    Opencode,
    Gemini,
    Copilot,
}

impl OtherAgent {
    pub const ALL: [Self; 5] =
        [Self::Claude, Self::Codex, Self::Opencode, Self::Gemini, Self::Copilot];

    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude-agent-acp",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Gemini => "gemini",
            Self::Copilot => "copilot",
        }
    }

    /// The npm package with its version.
    pub fn package(self) -> &'static str {
        match self {
            Self::Claude => "@agentclientprotocol/claude-agent-acp@0.99.1",
            Self::Codex => "@agentclientprotocol/codex-acp@2.6.0",
            Self::Opencode => "opencode-ai@1.18.33",
            Self::Gemini => "@google/gemini-cli@0.61.0",
            Self::Copilot => "@github/copilot@1.0.102",
        }
    }

    /// Installs the agent below a directory, which all tests share. The error is the reason why that
    /// is not possible.
    pub fn install(self, directory: &Path) -> Result<ReleasedAgent, String> {
        // Tests run side by side, and two installations in one directory would break each other.
        static INSTALLING: Mutex<()> = Mutex::new(());
        let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        let node = NodeRelease::install(&directory.join("acp/node-release"), NODE)?;
        let packages = directory.join("agents").join(self.name());
        // The programs themselves are optional packages, one for each platform.
        packages::npm_with(&node, &packages, &[self.package()], OptionalPackages::Install)?;
        let modules = packages.join("node_modules");
        let program = match self {
            Self::Claude => modules.join(".bin/claude-agent-acp"),
            Self::Codex => modules.join(".bin/codex-acp"),
            Self::Gemini => modules.join(".bin/gemini"),
            Self::Copilot => modules.join(".bin/copilot"),
            // The program in `.bin` is put there by a script, and no scripts are run.
            Self::Opencode => modules.join(opencode_package()).join("bin/opencode"),
        };
        match program.try_exists() {
            Ok(true) => Ok(ReleasedAgent { agent: self, program, node }),
            _ => Err(format!("{} has no `{}`", self.package(), program.display())),
        }
    }
}

/// The package with the program for this machine.
fn opencode_package() -> String {
    let system = std::env::consts::OS.replace("macos", "darwin");
    let machine = std::env::consts::ARCH.replace("x86_64", "x64").replace("aarch64", "arm64");
    #[cfg(target_arch = "x86_64")]
    if !std::arch::is_x86_feature_detected!("avx2") {
        return format!("opencode-{system}-{machine}-baseline");
    }
    format!("opencode-{system}-{machine}")
}

/// An agent that can be started.
#[derive(Clone, Debug)]
pub struct ReleasedAgent {
    pub agent: OtherAgent,
    program: PathBuf,
    node: NodeRelease,
}

/// How an agent is started. The environment is complete: nothing else may be inherited.
#[derive(Clone, Debug)]
pub struct OtherAgentCommand {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: BTreeMap<String, String>,
}

impl OtherAgentCommand {
    /// The command, which starts the agent with no other variables.
    #[expect(clippy::disallowed_methods, reason = "tests start the agents they test")]
    pub fn to_command(&self) -> Command {
        let mut command = Command::new(&self.program);
        clear_environment(command.args(&self.arguments)).envs(&self.environment);
        command
    }

    /// A shell script that starts the agent, for a program that wants one path.
    pub fn to_script(&self) -> String {
        let quote = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let mark = mark().and_then(|(_, value)| Some((VARIABLE, value.into_string().ok()?)));
        let mark = mark.map(|(name, value)| (name.to_owned(), value));
        let variables = self.environment.clone().into_iter().chain(mark);
        let variables = variables.map(|(name, value)| format!("{name}={}", quote(&value)));
        let variables: Vec<String> = variables.collect();
        let words: Vec<String> = self.arguments.iter().map(|it| quote(it)).collect();
        let program = quote(&self.program.display().to_string());
        format!(
            "#!/bin/sh\nexec env -i {} {program} {} \"$@\"\n",
            variables.join(" "),
            words.join(" ")
        )
    }
}

impl ReleasedAgent {
    /// Writes the agent's settings into a home directory, and returns how to start it. It asks before
    /// it runs commands or writes files. `api` is the base URL of `towpath stub`.
    ///
    /// # Panics
    ///
    /// If the settings cannot be written.
    pub fn command(&self, api: &str, home: &Path) -> OtherAgentCommand {
        let home_text = home.display().to_string();
        let path = self.node.search_path().to_string_lossy().into_owned();
        let mut environment: BTreeMap<String, String> = [
            ("HOME", home_text.as_str()),
            ("TMPDIR", &home_text),
            ("XDG_RUNTIME_DIR", &home_text),
            ("PATH", &path),
            ("SHELL", "/bin/bash"),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
            ("NO_COLOR", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let base = format!("{api}/v1");
        let mut set = |variables: &[(&str, &str)]| {
            let owned =
                variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            environment.extend(owned);
        };
        let mut arguments: Vec<&str> = Vec::new();
        match self.agent {
            OtherAgent::Claude => {
                write(home, ".claude.json", &json!({ "hasCompletedOnboarding": true }).to_string());
                set(&[
                    ("ANTHROPIC_BASE_URL", api),
                    ("ANTHROPIC_API_KEY", "sk-ant-stub"),
                    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                    ("CLAUDE_CODE_MAX_RETRIES", "1"),
                    ("IS_SANDBOX", "1"),
                ]);
            }
            OtherAgent::Codex => {
                write(home, ".codex/config.toml", &codex_settings(&base));
                // In its default mode another model decides, and no person is asked.
                set(&[("STUB_KEY", "none"), ("INITIAL_AGENT_MODE", "workspace-write")]);
            }
            OtherAgent::Opencode => {
                write(home, ".config/opencode/opencode.json", &opencode_settings(&base));
                set(&[
                    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                    ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
                ]);
                arguments.push("acp");
            }
            OtherAgent::Gemini => {
                write(home, ".gemini/settings.json", &gemini_settings());
                set(&[
                    ("GEMINI_API_KEY", "none"),
                    ("GOOGLE_GEMINI_BASE_URL", api),
                    ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
                ]);
                arguments.extend(["--acp", "-m", "gemini-2.5-flash"]);
            }
            OtherAgent::Copilot => {
                set(&[
                    ("COPILOT_PROVIDER_BASE_URL", &base),
                    ("COPILOT_PROVIDER_TYPE", "openai"),
                    ("COPILOT_PROVIDER_API_KEY", "none"),
                    ("COPILOT_MODEL", MODEL),
                    ("COPILOT_OFFLINE", "true"),
                    ("COPILOT_AUTO_UPDATE", "false"),
                ]);
                arguments.push("--acp");
            }
        }
        let arguments = arguments.into_iter().map(str::to_owned).collect();
        OtherAgentCommand { program: self.program.clone(), arguments, environment }
    }
}

fn write(home: &Path, name: &str, text: &str) {
    let path = home.join(name);
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, text).expect("settings");
}

fn codex_settings(base: &str) -> String {
    format!(
        r#"model = "{MODEL}"
model_provider = "stub"
approval_policy = "on-request"
approvals_reviewer = "user"
sandbox_mode = "workspace-write"
check_for_update_on_startup = false

[model_providers.stub]
name = "stub"
base_url = "{base}"
wire_api = "responses"
env_key = "STUB_KEY"
request_max_retries = 1
stream_max_retries = 1

[analytics]
enabled = false
"#
    )
}

fn opencode_settings(base: &str) -> String {
    let model = json!({
        "name": "Stub", "limit": { "context": 100_000, "output": 8_000 },
        "cost": { "input": 1, "output": 5 }, "attachment": true,
        "modalities": { "input": ["text", "image"], "output": ["text"] },
    });
    json!({
        "model": format!("stub/{MODEL}"), "small_model": format!("stub/{MODEL}"),
        "autoupdate": false, "share": "disabled",
        "permission": { "bash": "ask", "edit": "ask" },
        "provider": { "stub": {
            "npm": "@ai-sdk/openai-compatible", "name": "Stub",
            "options": { "baseURL": base, "apiKey": "none" },
            "models": { MODEL: model },
        } },
    })
    .to_string()
}

fn gemini_settings() -> String {
    json!({
        "security": {
            "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false },
        },
        "general": { "enableAutoUpdate": false, "disableAutoUpdate": true },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
    })
    .to_string()
}
