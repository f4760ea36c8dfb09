//! The environment that a player runs in, and the settings of files and flags.
//!
//! The binary reads the environment and passes it in, so that two players with different
//! environments can run in one test.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::play::args::PlayerArgs;
use crate::play::definitions::PlayerDefinitions;
use crate::play::permission::{PlayerMode, PlayerRule, PlayerRules, RuleBehavior, RuleSource};
use crate::play::release::PlayerBehavior;
use crate::play::subcommand::mcp_config::{McpConfigFiles, McpScope};

/// The environment of one player.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate variable")]
pub struct PlayerEnvironment {
    pub cwd: PathBuf,
    /// The home directory, which holds the transcripts.
    pub home: PathBuf,
    pub temporary: PathBuf,
    pub pid: u32,
    /// Whether the player runs as root.
    pub root: bool,
    /// `IS_SANDBOX`
    pub sandbox: bool,
    /// `ANTHROPIC_BASE_URL`
    pub base_url: Option<String>,
    /// `ANTHROPIC_API_KEY`
    pub api_key: Option<String>,
    /// `ANTHROPIC_AUTH_TOKEN`
    pub auth_token: Option<String>,
    /// `ANTHROPIC_MODEL`
    pub model: Option<String>,
    /// `CLAUDE_CODE_EFFORT_LEVEL`
    pub effort: Option<String>,
    /// `MAX_THINKING_TOKENS`
    pub thinking_budget: Option<u64>,
    /// `CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS`
    pub teams: bool,
    /// `CLAUDE_CODE_MAX_RETRIES`
    pub max_retries: Option<u32>,
    /// `CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS`
    pub state_events: bool,
    /// `DISABLE_TELEMETRY` or `CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC`
    pub analytics_disabled: bool,
    /// `CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING`
    pub checkpoints: bool,
    /// `TOWPATH_PLAY_SCENARIO`
    pub scenario: Option<PathBuf>,
    /// `TOWPATH_PLAY_PACE`: time between the deltas of the demo.
    pub pace: Option<Duration>,
    /// `TOWPATH_PLAY_FAULT`
    pub fault: Option<String>,
}

/// What the settings files and the flags say.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlayerSettings {
    pub(crate) mode: PlayerMode,
    pub(crate) rules: PlayerRules,
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) hooks: Vec<CommandHook>,
    pub(crate) model: Option<String>,
    pub(crate) definitions: PlayerDefinitions,
    /// The MCP servers of the configuration files.
    pub(crate) mcp_servers: Vec<(McpScope, String, Value)>,
    /// The contents of the `CLAUDE.md` files, each with its path.
    pub(crate) memory: Vec<(PathBuf, String)>,
    /// The merged contents of the settings files.
    pub(crate) effective: Value,
    /// Which settings are from where, as `get_settings` lists them.
    pub(crate) sources: Vec<Value>,
    /// Whether the model may call `TodoWrite`, which 2.1.325 no longer has and the demo shows.
    pub(crate) todo_list: bool,
}

/// A hook of a settings file: a shell command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandHook {
    pub(crate) event: String,
    pub(crate) matcher: Option<String>,
    pub(crate) command: String,
    pub(crate) timeout: Duration,
}

impl PlayerSettings {
    /// Reads the settings files that `--setting-sources` selects, then the flags.
    pub(crate) fn load(args: &PlayerArgs, environment: &PlayerEnvironment) -> Self {
        let mut settings =
            Self { effective: Value::Object(serde_json::Map::new()), ..Self::default() };
        let sources = args.setting_sources.as_deref();
        let selected = |name: &str| sources.is_none_or(|list| list.split(',').any(|it| it == name));
        let files = [
            ("user", environment.home.join(".claude/settings.json")),
            ("project", environment.cwd.join(".claude/settings.json")),
            ("local", environment.cwd.join(".claude/settings.local.json")),
        ];
        for (name, path) in files {
            if selected(name)
                && let Some(value) = read_json(&path)
            {
                settings.merge(&value);
                let source = format!("{name}Settings");
                settings.sources.push(serde_json::json!({ "source": source, "settings": value }));
            }
        }
        if let Some(given) = &args.settings {
            let value = serde_json::from_str(given)
                .ok()
                .or_else(|| read_json(&environment.cwd.join(given)));
            if let Some(value) = value {
                settings.merge(&value);
            }
        }
        for (name, folder) in [("user", &environment.home), ("project", &environment.cwd)] {
            if selected(name) {
                settings.definitions.load(&folder.join(".claude"));
            }
        }
        settings.merge_flags(args, environment);
        if !args.strict_mcp {
            let mut servers = McpConfigFiles::new(environment).servers();
            servers.retain(|(scope, ..)| selected(scope.name()));
            settings.mcp_servers = servers;
        }
        let memory = [
            ("user", environment.home.join(".claude/CLAUDE.md")),
            ("project", environment.cwd.join("CLAUDE.md")),
            ("local", environment.cwd.join("CLAUDE.local.md")),
        ];
        for (name, path) in memory {
            if selected(name)
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                settings.memory.push((path, text));
            }
        }
        settings
    }

    fn merge(&mut self, value: &Value) {
        let permissions = &value["permissions"];
        let behaviors = [
            ("allow", RuleBehavior::Allow),
            ("deny", RuleBehavior::Deny),
            ("ask", RuleBehavior::Ask),
        ];
        for (key, behavior) in behaviors {
            let rules = permissions[key].as_array().into_iter().flatten();
            for rule in rules.filter_map(Value::as_str) {
                self.rules.add(behavior, PlayerRule::parse(rule), RuleSource::Settings);
            }
        }
        if let Some(mode) = permissions["defaultMode"].as_str().and_then(PlayerMode::from_name) {
            self.mode = mode;
        }
        let directories = permissions["additionalDirectories"].as_array().into_iter().flatten();
        self.directories.extend(directories.filter_map(Value::as_str).map(PathBuf::from));
        for (event, matchers) in value["hooks"].as_object().into_iter().flatten() {
            for matcher in matchers.as_array().into_iter().flatten() {
                self.hooks.extend(CommandHook::read_all(event, matcher));
            }
        }
        if let Some(model) = value["model"].as_str() {
            self.model = Some(model.to_owned());
        }
        if let (Some(all), Some(more)) = (self.effective.as_object_mut(), value.as_object()) {
            all.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
    }

    fn merge_flags(&mut self, args: &PlayerArgs, environment: &PlayerEnvironment) {
        let ignores_patterns = args.release.has(PlayerBehavior::IgnoresAllowedPatterns);
        let allowed = args.allowed.iter();
        for rule in allowed.filter(|it| !(ignores_patterns && it.starts_with("Bash("))) {
            self.rules.add(RuleBehavior::Allow, PlayerRule::parse(rule), RuleSource::Flag);
        }
        for rule in &args.disallowed {
            self.rules.add(RuleBehavior::Deny, PlayerRule::parse(rule), RuleSource::Flag);
        }
        let directories = args.directories.iter();
        self.directories.extend(directories.map(|directory| environment.cwd.join(directory)));
        if let Some(mode) = args.permission_mode.as_deref().and_then(PlayerMode::from_name) {
            self.mode = mode;
        } else if args.skip_permissions {
            self.mode = PlayerMode::Bypass;
        }
        let model = args.model.clone().or(environment.model.clone());
        self.model = model.or(self.model.take());
    }
}

impl CommandHook {
    fn read_all(event: &str, matcher: &Value) -> Vec<Self> {
        let hooks = matcher["hooks"].as_array().into_iter().flatten();
        let hook = |hook: &Value| {
            Some(Self {
                event: event.to_owned(),
                matcher: matcher["matcher"].as_str().map(str::to_owned),
                command: hook["command"].as_str()?.to_owned(),
                timeout: Duration::from_secs(hook["timeout"].as_u64().unwrap_or(60)),
            })
        };
        hooks.filter_map(hook).collect()
    }
}

/// Adds rules to the project's local settings.
pub(crate) fn save_rules(environment: &PlayerEnvironment, rules: &Value) {
    let path: PathBuf = environment.cwd.join(".claude/settings.local.json");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut settings: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!({}));
    let mut allow = settings["permissions"]["allow"].as_array().cloned().unwrap_or_default();
    for rule in rules.as_array().into_iter().flatten() {
        if !allow.contains(rule) {
            allow.push(rule.clone());
        }
    }
    settings["permissions"]["allow"] = allow.into();
    let text = serde_json::to_string_pretty(&settings).unwrap_or_default();
    if let Some(folder) = path.parent() {
        drop(std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text)));
    }
}

fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// The model that an alias stands for.
pub(crate) fn resolve_model(name: &str) -> String {
    match name {
        "default" | "opus" | "best" => "claude-opus-5-5",
        "fable" => "claude-fable-5-2",
        "sonnet" => "claude-sonnet-5-2",
        "haiku" => "claude-haiku-4-5-20251001",
        other => other,
    }
    .to_owned()
}
