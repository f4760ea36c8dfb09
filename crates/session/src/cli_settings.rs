//! The permission mode that Claude Code's own settings choose.
//!
//! A session without a chosen mode must ask. The CLI cannot be relied on for that: 2.1.285 to 2.1.301
//! start in `auto`, in which a classifier decides in place of a person, unless something chooses a mode
//! (`scenarios/mode-unset.scenario`). So Towpath always names one: the user's own setting, and `default` without it.
//!
//! The files of a project may come from a stranger. They can make a session ask more, and never less.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wire::outgoing::PermissionMode;

/// The settings of all users of this machine, which its administrator writes.
const MANAGED: [&str; 2] = [
    "/etc/claude-code/managed-settings.json",
    "/Library/Application Support/ClaudeCode/managed-settings.json",
];

/// The settings of a project, the strongest first.
const PROJECT: [&str; 2] = [".claude/settings.local.json", ".claude/settings.json"];

/// The largest settings file that is read.
const MAX_BYTES: u64 = 4 << 20;

/// What is read of a settings file.
#[derive(Debug, Deserialize)]
struct SettingsFile {
    permissions: Option<CliPermissions>,
}

#[derive(Debug, Deserialize)]
struct CliPermissions {
    #[serde(rename = "defaultMode")]
    default_mode: Option<String>,
}

/// The mode of a CLI that is started with this environment and in this directory, if the session has none. Reads
/// files.
pub(crate) fn default_mode(
    environment: &[(OsString, OsString)],
    directory: &Path,
    allow_bypass: bool,
) -> PermissionMode {
    let variable = |name: &str| {
        let set = environment.iter().rev().find(|(it, _)| it == OsStr::new(name));
        set.map(|(_, value)| PathBuf::from(value)).filter(|it| !it.as_os_str().is_empty())
    };
    let config = variable("CLAUDE_CONFIG_DIR").or_else(|| Some(variable("HOME")?.join(".claude")));
    let user = config.map(|it| it.join("settings.json"));
    let own = MANAGED.map(PathBuf::from).into_iter().chain(user);
    let project = PROJECT.map(|name| directory.join(name));
    choose(
        own.filter_map(|it| mode_of(&it)),
        project.iter().filter_map(|it| mode_of(it)),
        allow_bypass,
    )
}

/// Chooses among the modes of the user's and of the project's files, each with the strongest first.
fn choose(
    mut own: impl Iterator<Item = PermissionMode>,
    mut project: impl Iterator<Item = PermissionMode>,
    allow_bypass: bool,
) -> PermissionMode {
    let asks = |it: &PermissionMode| matches!(it, PermissionMode::Default | PermissionMode::Plan);
    let own = match own.next() {
        Some(PermissionMode::BypassPermissions) if !allow_bypass => PermissionMode::Default,
        mode => mode.unwrap_or(PermissionMode::Default),
    };
    // Plan mode is the strictest, so a project does not end it.
    project.find(|it| asks(it) && own != PermissionMode::Plan).unwrap_or(own)
}

/// The mode that a file chooses. A file that cannot be read chooses none: the CLI reports what is wrong with it.
fn mode_of(path: &Path) -> Option<PermissionMode> {
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    let settings: SettingsFile = serde_json::from_slice(&text).ok()?;
    PermissionMode::named(&settings.permissions?.default_mode?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mode with these settings of the user and of the project.
    fn mode_with(user: Option<&str>, project: Option<&str>, allow_bypass: bool) -> &'static str {
        let home = tempfile::tempdir().unwrap();
        let settings =
            |mode: &str| format!(r#"{{"model":"opus","permissions":{{"defaultMode":"{mode}"}}}}"#);
        for (part, mode) in [("home", user), ("project", project)] {
            let folder = home.path().join(part).join(".claude");
            fs::create_dir_all(&folder).unwrap();
            if let Some(mode) = mode {
                fs::write(folder.join("settings.json"), settings(mode)).unwrap();
            }
        }
        let environment = [("HOME".into(), home.path().join("home").into())];
        default_mode(&environment, &home.path().join("project"), allow_bypass).name()
    }

    #[test]
    fn a_session_without_a_mode_asks_unless_the_user_has_chosen_otherwise() {
        assert_eq!(mode_with(None, None, true), "default");
        assert_eq!(mode_with(Some("acceptEdits"), None, false), "acceptEdits");
        assert_eq!(mode_with(Some("auto"), None, false), "auto");
        assert_eq!(mode_with(Some("bypassPermissions"), None, true), "bypassPermissions");
        assert_eq!(mode_with(Some("bypassPermissions"), None, false), "default");
        assert_eq!(mode_with(Some("a mode of tomorrow"), None, true), "default");
    }

    #[test]
    fn a_project_can_make_a_session_ask_and_not_keep_it_from_asking() {
        for mode in ["auto", "bypassPermissions", "acceptEdits", "dontAsk"] {
            assert_eq!(mode_with(None, Some(mode), true), "default", "{mode}");
        }
        assert_eq!(mode_with(Some("plan"), Some("bypassPermissions"), true), "plan");
        assert_eq!(mode_with(Some("plan"), Some("default"), true), "plan");
        assert_eq!(mode_with(Some("auto"), Some("plan"), true), "plan");
        assert_eq!(mode_with(Some("bypassPermissions"), Some("default"), true), "default");
    }

    #[test]
    fn the_directory_of_the_environment_counts_and_damaged_files_do_not() {
        let home = tempfile::tempdir().unwrap();
        let environment = |name: &str| vec![(OsString::from(name), home.path().into())];
        let file = home.path().join("settings.json");
        for (text, mode) in [
            (r#"{"permissions":{"defaultMode":"plan"}}"#, "plan"),
            (r#"{"permissions":{"defaultMode":5}}"#, "default"),
            ("{", "default"),
            ("[]", "default"),
        ] {
            fs::write(&file, text).unwrap();
            let found =
                default_mode(&environment("CLAUDE_CONFIG_DIR"), Path::new("/nowhere"), true);
            assert_eq!(found.name(), mode, "{text}");
        }
        assert_eq!(default_mode(&[], Path::new("/nowhere"), true), PermissionMode::Default);
    }
}
