// What the stub of the API says about options, profiles, the project's file and the agent.

const option = (name, kind, help, more = {}) => ({ name, flag: name.replaceAll("_", "-"), kind, help, role: "drive", effect: "restart", settable: true, ...more });
const ADMIN = { role: "admin" };
const LIVE = { effect: "live" };

/** The options of the server, as it describes them. */
export const OPTIONS = [
  option("agent", "agent", "Agent that works in the session, by name: `towpath agents` lists them", { effect: "creation", choices: ["claude", "codex", "gemini", "demo"] }),
  option("model", "text", "Model to use, by name or alias", LIVE),
  option("effort", "choice", "Reasoning effort; which levels there are depends on the model", { ...LIVE, choices: ["low", "medium", "high", "xhigh", "max"] }),
  option("mode", "choice", "Permission mode: what the agent may do without asking", { ...LIVE, choices: ["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"] }),
  option("fallback_model", "text", "Model to use while the first one is overloaded"),
  option("max_turns", "integer", "Maximum number of requests to the model per turn", { min: 1, max: 100_000 }),
  option("max_budget_usd", "dollars", "Maximum cost of an agent process, in dollars"),
  option("budget_usd", "dollars", "Cost of the session, in dollars, from which on queued prompts wait until someone allows the same amount again", LIVE),
  option("append_system_prompt", "multiline", "Text to append to the system prompt"),
  option("allowed_tools", "list", "Tools to allow without asking: `Read`, `Bash(git:*)`"),
  option("disallowed_tools", "list", "Tools to forbid"),
  option("extra_directories", "directories", "Additional directories the agent may work in"),
  option("mcp_config", "mcp", "MCP servers, as JSON or a JSON file", ADMIN),
  option("environment", "variables", "Environment variables for the agent, as NAME=VALUE", ADMIN),
  option("idle_timeout", "duration", "Time after which an idle agent is stopped, as `30m` or `never`; the next prompt starts it again", LIVE),
  option("continue_after_cut", "switch", "Continue a turn that was cut short because the agent died", { ...LIVE, default: false }),
  option("session_persistence", "switch", "Whether the CLI saves the conversation; without that, an agent that was stopped starts again without what was said before", { effect: "creation", default: true }),
  option("delete_when_ended", "switch", "Delete the session from Towpath when it is closed or its agent was stopped because it was idle", { ...LIVE, default: false }),
];

export function optionsReply(more = {}) {
  return { options: OPTIONS, profiles: [], bypass_allowed: true, project: null, profiles_error: null, project_error: null, ...more };
}

/** For a client that may not set what only an admin may. */
export const asDriver = (reply) => ({ ...reply, options: reply.options.map((it) => ({ ...it, settable: it.role !== "admin" })) });

export const profiles = (count, name = "careful", description = "Asks for everything, spends little") =>
  Array.from({ length: count }, (_, n) => ({ name: n ? `${name}-${n}` : name, description, default: n === 0, options: { model: "opus", effort: "high", max_turns: 20 + n, allowed_tools: ["Read", "Grep"], delete_when_ended: true } }));

export const project = (text, trusted = false) => ({ path: "/home/me/shop/towpath.toml", text, digest: "d1", trusted, profiles: [] });

/** Values for every option: few of them, or as many and as long as the server accepts. */
export function values(size, word) {
  if (size === "tiny") return {};
  const huge = size === "huge";
  const texts = (count, text) => Array.from({ length: huge ? count : 3 }, (_, n) => (huge ? `${text}-${n}-${word}` : `${text}${n}`));
  return {
    model: huge ? word : "opus", effort: "xhigh", mode: huge ? "bypassPermissions" : "plan", fallback_model: huge ? word : "sonnet", max_turns: huge ? 100_000 : 40, max_budget_usd: huge ? 999_999.99 : 2.5,
    append_system_prompt: huge ? `${"Write tests first.\n".repeat(400)}${word}` : "Write tests first.", allowed_tools: texts(256, "Bash(git:*)"), disallowed_tools: texts(256, "WebFetch"), extra_directories: texts(64, "/home/me/lib"),
    mcp_config: { mcpServers: Object.fromEntries(texts(60, "issues").map((name) => [name, { command: "issues-mcp", args: ["--port", "1"] }])) },
    environment: Object.fromEntries(texts(60, "API_KEY").map((name, n) => [huge ? `NAME_${n}_${word.slice(0, 80)}` : name, "secret"])), idle_timeout: "2h", continue_after_cut: true, session_persistence: false, delete_when_ended: true,
  };
}

/** The agents of the server, one of which is not installed. */
export function agentsReply(more = []) {
  const agent = (name, title, more = {}) => ({ name, title, protocol: "acp", installed: true, version: null, install: `npm install -g ${name}`, sign_in: `run \`${name} login\``, color: "#10a37f", default: false, ...more });
  return { agents: [agent("claude", "Claude Code", { protocol: "stream-json", default: true }), agent("codex", "Codex"), agent("gemini", "Gemini CLI", { installed: false }), agent("demo", "Built-in demo", { protocol: "stream-json", install: null, sign_in: null }), ...more] };
}

/** What an agent over the Agent Client Protocol says about itself: its menus. */
export function acpAgentReply(count = 4, name = "Mode") {
  const menu = (id, title) => ({ id, name: title, description: null, current: `${id}-1`, values: Array.from({ length: count }, (_, n) => ({ id: `${id}-${n}`, name: `${name} ${n}`, description: "Asks before it changes files" })) });
  return { ...agentReply(4, "command", ["connected"]), name: "codex-acp", title: "Codex", modes: menu("mode", "Mode"), models: menu("model", "Model"), efforts: menu("effort", "Effort"), options: [menu("fast", "Fast mode")], can_steer: false };
}

const names = (count, name) => ({ items: Array.from({ length: Math.min(count, 500) }, (_, n) => `${name}${n}`), total: count });
const STATES = ["connected", "failed", "needs-auth", "pending", "disabled", "connected", "unreachable"];

export function agentReply(count = 12, name = "Tool", states = STATES) {
  return {
    name: null, title: null, modes: null, models: null, efforts: null, options: [], can_steer: true, version: "2.1.325", model: "claude-opus-5-5", mode: "acceptEdits", cwd: `/home/me/${count > 100 ? name : "shop"}`, output_style: "default", api_key_source: "ANTHROPIC_API_KEY",
    tools: names(count, name), agents: names(Math.ceil(count / 4), `agent-${name}`), skills: names(Math.ceil(count / 6), `skill-${name}`), plugins: names(Math.ceil(count / 12), `plugin-${name}`), commands: names(count, `command-${name}`),
    mcp_servers: { items: names(Math.min(count, 300), `server-${name}`).items.map((name, n) => ({ name, status: states[n % states.length] })), total: count },
  };
}

export const watchLog = (count, text = "README.md and 2 others") =>
  Array.from({ length: count }, (_, n) => ({ at: Date.UTC(2026, 0, 31, 12, n % 60), kind: ["commit", "sync", "hook", "error"][n % 4], text: `${["Committed", "Copied", "Ran", "Refused"][n % 4]} ${text}`, path: n % 2 ? "/home/me/shop/README.md" : undefined, commit: n % 4 ? undefined : "6a1f0b8c3de94f55a1f06a1f0b8c3de94f55a1f0" }));

/** What files of the project and of the user add to the agent. */
export function agentFilesReply(count = 0, name = "check") {
  const named = (kind) => Array.from({ length: Math.min(200, count) }, (_, n) => ({ name: `${kind}-${name}-${n}`, description: n % 3 ? `What the ${kind} ${name} is for` : null, file: `.claude/${kind}/${n}.md` }));
  const hooks = Array.from({ length: Math.min(200, count) }, (_, n) => ({ event: ["PreToolUse", "Stop"][n % 2], matcher: n % 2 ? null : "Bash|Edit", command: `./hooks/${name}.sh --number ${n}`, file: n % 2 ? "~/.claude/settings.json" : ".claude/settings.json" }));
  return { hooks, agents: named("agents"), skills: named("skills"), mcp_servers: named("servers"), problems: [] };
}
