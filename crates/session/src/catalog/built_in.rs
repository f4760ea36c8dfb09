//! The agents that Towpath knows without configuration.
//!
//! Commands, modes and packages are those of the versions in `docs/agents.md`. A mode is named only
//! where the agent's own default decides about calls without a person.

use std::collections::BTreeMap;

use super::{AgentProtocol, AgentSpec};

/// The agent of sessions for which none is chosen.
pub(super) const CLAUDE: &str = "claude";

/// A built-in agent, written as text.
struct BuiltInAgent {
    name: &'static str,
    title: &'static str,
    protocol: AgentProtocol,
    command: &'static [&'static str],
    mode: Option<&'static str>,
    install: Option<&'static str>,
    sign_in: Option<&'static str>,
    color: &'static str,
}

const ACP: BuiltInAgent = BuiltInAgent {
    name: "",
    title: "",
    protocol: AgentProtocol::Acp,
    command: &[],
    mode: None,
    install: None,
    sign_in: None,
    color: "",
};

const AGENTS: &[BuiltInAgent] = &[
    BuiltInAgent {
        name: CLAUDE,
        title: "Claude Code",
        protocol: AgentProtocol::StreamJson,
        command: &["claude"],
        install: Some("npm install -g @anthropic-ai/claude-code"),
        sign_in: Some("run `claude` and type `/login`, or set `ANTHROPIC_API_KEY`"),
        color: "#d97757",
        ..ACP
    },
    BuiltInAgent {
        name: "codex",
        title: "Codex",
        command: &["codex-acp"],
        // In its default mode a second model reviews the calls, and no person is asked.
        mode: Some("workspace-write"),
        install: Some("npm install -g @agentclientprotocol/codex-acp"),
        sign_in: Some("run `npx @openai/codex login`, or set `OPENAI_API_KEY`"),
        color: "#10a37f",
        ..ACP
    },
    BuiltInAgent {
        name: "gemini",
        title: "Gemini CLI",
        command: &["gemini", "--acp"],
        install: Some("npm install -g @google/gemini-cli"),
        sign_in: Some("run `gemini` and choose how to sign in, or set `GEMINI_API_KEY`"),
        color: "#4285f4",
        ..ACP
    },
    BuiltInAgent {
        name: "opencode",
        title: "OpenCode",
        command: &["opencode", "acp"],
        install: Some("npm install -g opencode-ai"),
        sign_in: Some("run `opencode auth login`"),
        color: "#c2410c",
        ..ACP
    },
    BuiltInAgent {
        name: "copilot",
        title: "GitHub Copilot",
        command: &["copilot", "--acp"],
        install: Some("npm install -g @github/copilot"),
        sign_in: Some("run `copilot` and type `/login`, or set `GH_TOKEN`"),
        color: "#8957e5",
        ..ACP
    },
    BuiltInAgent {
        name: "qwen",
        title: "Qwen Code",
        command: &["qwen", "--acp"],
        // In its default mode `auto` a classifier decides.
        mode: Some("default"),
        install: Some("npm install -g @qwen-code/qwen-code"),
        sign_in: Some("run `qwen` and type `/auth`, or set `OPENAI_API_KEY`"),
        color: "#615ced",
        ..ACP
    },
    BuiltInAgent {
        name: "vibe",
        title: "Mistral Vibe",
        command: &["vibe-acp"],
        // Its default mode `accept-edits` changes files without asking.
        mode: Some("ask"),
        install: Some("uv tool install mistral-vibe"),
        sign_in: Some("run `vibe --setup`, or set `MISTRAL_API_KEY`"),
        color: "#fa520f",
        ..ACP
    },
    BuiltInAgent {
        name: "goose",
        title: "Goose",
        command: &["goose", "acp"],
        install: Some("brew install block-goose-cli"),
        sign_in: Some("run `goose configure`"),
        color: "#0d9488",
        ..ACP
    },
    BuiltInAgent {
        name: "cursor",
        title: "Cursor",
        command: &["cursor-agent", "acp"],
        install: Some("curl https://cursor.com/install -fsS | bash"),
        sign_in: Some("run `cursor-agent login`, or set `CURSOR_API_KEY`"),
        color: "#64748b",
        ..ACP
    },
    BuiltInAgent {
        name: "claude-agent-acp",
        title: "Claude Agent (ACP)",
        command: &["claude-agent-acp"],
        install: Some("npm install -g @agentclientprotocol/claude-agent-acp"),
        sign_in: Some("run `claude` and type `/login`, or set `ANTHROPIC_API_KEY`"),
        color: "#b45309",
        ..ACP
    },
    BuiltInAgent {
        name: "droid",
        title: "Factory Droid",
        command: &["droid", "exec", "--output-format", "acp"],
        install: Some("npm install -g droid"),
        sign_in: Some("run `droid` and type `/login`, or set `FACTORY_API_KEY`"),
        color: "#ea580c",
        ..ACP
    },
    BuiltInAgent {
        name: "cline",
        title: "Cline",
        command: &["cline", "--acp"],
        install: Some("npm install -g cline"),
        sign_in: Some("run `cline auth`"),
        color: "#0891b2",
        ..ACP
    },
    BuiltInAgent {
        name: "auggie",
        title: "Auggie",
        command: &["auggie", "--acp"],
        install: Some("npm install -g @augmentcode/auggie"),
        sign_in: Some("run `auggie login`"),
        color: "#16a34a",
        ..ACP
    },
    BuiltInAgent {
        name: "kimi",
        title: "Kimi CLI",
        command: &["kimi", "acp"],
        install: Some("uv tool install kimi-cli"),
        sign_in: Some("run `kimi` and type `/login`"),
        color: "#2563eb",
        ..ACP
    },
    BuiltInAgent {
        name: "fast-agent",
        title: "fast-agent",
        command: &["fast-agent-acp"],
        install: Some("uv tool install fast-agent-mcp"),
        sign_in: Some("run `fast-agent auth`, or set the key of your provider"),
        color: "#ca8a04",
        ..ACP
    },
    BuiltInAgent {
        name: "demo",
        title: "Built-in demo",
        protocol: AgentProtocol::StreamJson,
        command: &["towpath", "play"],
        color: "#78716c",
        ..ACP
    },
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    AGENTS.iter().map(|agent| agent.name)
}

pub(super) fn protocol(name: &str) -> Option<AgentProtocol> {
    AGENTS.iter().find(|agent| agent.name == name).map(|agent| agent.protocol)
}

pub(super) fn all() -> Vec<AgentSpec> {
    let owned = |text: &&str| (*text).to_owned();
    let spec = |agent: &BuiltInAgent| AgentSpec {
        name: agent.name.to_owned(),
        title: agent.title.to_owned(),
        protocol: agent.protocol,
        command: agent.command.iter().map(owned).collect(),
        environment: BTreeMap::new(),
        mode: agent.mode.as_ref().map(owned),
        install: agent.install.as_ref().map(owned),
        sign_in: agent.sign_in.as_ref().map(owned),
        color: Some(agent.color.to_owned()),
    };
    AGENTS.iter().map(spec).collect()
}
