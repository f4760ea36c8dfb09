//! Settings from files and flags: rules, the mode to start in, hooks, directories.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::permission::{Behavior, Mode, Rule, Rules, Source};
use super::surroundings::Surroundings;

/// What the session starts with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) rules: Rules,
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) hooks: Vec<CommandHook>,
    pub(crate) model: Option<String>,
    /// What `CLAUDE.md` files say, each with its path.
    pub(crate) memory: Vec<(PathBuf, String)>,
    /// Everything the files say, one over the other.
    pub(crate) effective: Value,
}

/// A hook that is a shell command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandHook {
    pub(crate) event: String,
    pub(crate) matcher: Option<String>,
    pub(crate) command: String,
    pub(crate) limit: Duration,
}

impl Settings {
    /// Reads the files that the arguments leave in force, then the flags.
    pub(crate) fn load(arguments: &Arguments, around: &Surroundings) -> Self {
        let mut settings =
            Self { effective: Value::Object(serde_json::Map::new()), ..Self::default() };
        let sources = arguments.setting_sources.as_deref();
        let wanted = |name: &str| sources.is_none_or(|list| list.split(',').any(|it| it == name));
        let files = [
            ("user", around.home.join(".claude/settings.json")),
            ("project", around.cwd.join(".claude/settings.json")),
            ("local", around.cwd.join(".claude/settings.local.json")),
        ];
        for (name, path) in files {
            if wanted(name)
                && let Some(value) = read(&path)
            {
                settings.take(&value);
            }
        }
        if let Some(given) = &arguments.settings {
            let value = serde_json::from_str(given).ok().or_else(|| read(&around.cwd.join(given)));
            if let Some(value) = value {
                settings.take(&value);
            }
        }
        settings.take_flags(arguments, around);
        let memory = [
            ("user", around.home.join(".claude/CLAUDE.md")),
            ("project", around.cwd.join("CLAUDE.md")),
            ("local", around.cwd.join("CLAUDE.local.md")),
        ];
        for (name, path) in memory {
            if wanted(name)
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                settings.memory.push((path, text));
            }
        }
        settings
    }

    fn take(&mut self, value: &Value) {
        let permissions = &value["permissions"];
        let behaviors =
            [("allow", Behavior::Allow), ("deny", Behavior::Deny), ("ask", Behavior::Ask)];
        for (key, behavior) in behaviors {
            let rules = permissions[key].as_array().into_iter().flatten();
            for rule in rules.filter_map(Value::as_str) {
                self.rules.add(behavior, Rule::read(rule), Source::Settings);
            }
        }
        if let Some(mode) = permissions["defaultMode"].as_str().and_then(Mode::named) {
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

    fn take_flags(&mut self, arguments: &Arguments, around: &Surroundings) {
        for rule in &arguments.allowed {
            self.rules.add(Behavior::Allow, Rule::read(rule), Source::Flag);
        }
        for rule in &arguments.disallowed {
            self.rules.add(Behavior::Deny, Rule::read(rule), Source::Flag);
        }
        let directories = arguments.directories.iter();
        self.directories.extend(directories.map(|directory| around.cwd.join(directory)));
        if let Some(mode) = arguments.permission_mode.as_deref().and_then(Mode::named) {
            self.mode = mode;
        } else if arguments.skip_permissions {
            self.mode = Mode::Bypass;
        }
        let model = arguments.model.clone().or(around.model.clone());
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
                limit: Duration::from_secs(hook["timeout"].as_u64().unwrap_or(60)),
            })
        };
        hooks.filter_map(hook).collect()
    }
}

/// Adds rules to the project's local settings.
pub(crate) fn save_rules(around: &Surroundings, rules: &Value) {
    let path: PathBuf = around.cwd.join(".claude/settings.local.json");
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

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// The model an alias stands for.
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
