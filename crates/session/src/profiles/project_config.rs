//! The `towpath.toml` of a project. Anyone may have written it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use toml::Spanned;

use super::Profile;
use super::config_error::ConfigError;
use super::toml_file::{ProfileTables, TomlFile, read_file};
use super::visible::{visible_line, visible_text};

const FILE_NAME: &str = "towpath.toml";

/// The largest file. A person must be able to read it before trusting it.
const MAX_BYTES: u64 = 16 << 10;

/// The most lines, for the same reason.
const MAX_LINES: usize = 400;

/// The file of a project, read once: what is shown, what is trusted and what is used are the same
/// bytes.
#[derive(Clone, Debug)]
pub struct ProjectConfig {
    pub path: PathBuf,
    pub text: String,
    /// SHA-256 of the text, in hexadecimal digits.
    pub digest: String,
    pub profiles: Vec<Profile>,
    /// The profile that sessions of the project get by default.
    default: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectTables {
    #[serde(default)]
    profile: Option<Spanned<String>>,
    #[serde(default)]
    profiles: ProfileTables,
}

impl ProjectConfig {
    /// Looks for the file in a directory and above, up to the root of the repository.
    pub(super) fn find(directory: &Path, home: Option<&Path>) -> Result<Option<Self>, ConfigError> {
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let mut levels: Vec<&Path> = Vec::new();
        for level in directory.ancestors() {
            levels.push(level);
            if level.join(".git").symlink_metadata().is_ok() {
                break;
            }
        }
        let in_repository = levels.last().is_some_and(|it| it.join(".git").exists());
        if !in_repository {
            // A file in `/tmp` or in the home directory is of no project.
            levels.truncate(1);
        }
        for level in levels {
            let path = level.join(FILE_NAME);
            if let Some(text) = read_file(&path, MAX_BYTES, false)? {
                return Self::parse(&path, text, home).map(Some);
            }
        }
        Ok(None)
    }

    fn parse(path: &Path, text: String, home: Option<&Path>) -> Result<Self, ConfigError> {
        if text.lines().count() > MAX_LINES {
            let reason = "it has more than 400 lines";
            return Err(ConfigError::Unusable { path: path.to_owned(), reason });
        }
        let file = TomlFile { path, text: &text, home };
        let tables: ProjectTables = file.parse()?;
        let profiles = file.profiles(tables.profiles)?;
        if let Some(profile) = profiles.iter().find(|it| it.options.wants_bypass()) {
            let message = format!(
                "the profile `{}` of a project must not set the mode `bypassPermissions`; only your \
                 own configuration can",
                profile.name
            );
            return Err(ConfigError::at(path, &text, None, message));
        }
        if let Some(default) = &tables.profile
            && !profiles.iter().any(|it| it.name == *default.get_ref())
        {
            let message = format!("there is no profile `{}` in this file", default.get_ref());
            return Err(ConfigError::at(path, &text, Some(default.span()), message));
        }
        let digest =
            Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
        let default = tables.profile.map(Spanned::into_inner);
        Ok(Self { path: path.to_owned(), digest, profiles, default, text })
    }

    /// The profile that sessions of the project get by default, once the file is trusted.
    pub fn default_profile(&self) -> Option<&Profile> {
        let default = self.default.as_deref()?;
        self.profiles.iter().find(|it| it.name == default)
    }

    /// The path with everything visible: the name of a directory can contain escape codes.
    pub fn visible_path(&self) -> String {
        visible_line(&self.path.to_string_lossy())
    }

    /// The text with everything visible that could hide a part of it.
    pub fn visible_text(&self) -> String {
        visible_text(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::ProjectConfig;

    fn project(text: &str) -> (tempfile::TempDir, Result<Option<ProjectConfig>, String>) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join(".git")).unwrap();
        std::fs::create_dir_all(directory.path().join("a/b")).unwrap();
        std::fs::write(directory.path().join("towpath.toml"), text).unwrap();
        let found = ProjectConfig::find(&directory.path().join("a/b"), None);
        (directory, found.map_err(|it| it.to_string()))
    }

    #[test]
    fn the_file_is_found_up_to_the_root_of_the_repository_and_not_above() {
        let (directory, found) = project("profile = \"ci\"\n[profiles.ci]\nmode = \"plan\"\n");
        assert_eq!(found.unwrap().unwrap().default_profile().unwrap().name, "ci");
        std::fs::create_dir(directory.path().join("a/.git")).unwrap();
        let above = ProjectConfig::find(&directory.path().join("a/b"), None).unwrap();
        assert!(above.is_none(), "it belongs to another repository");
        std::fs::remove_dir(directory.path().join("a/.git")).unwrap();
        std::fs::remove_dir(directory.path().join(".git")).unwrap();
        let above = ProjectConfig::find(&directory.path().join("a/b"), None).unwrap();
        assert!(above.is_none(), "there is no repository");
    }

    #[test]
    fn a_file_that_cannot_be_judged_is_not_used() {
        let (_directory, huge) = project(&"# x\n".repeat(10_000));
        assert!(huge.unwrap_err().contains("too large"));
        let (_directory, long) = project(&"\n".repeat(10_000));
        assert!(long.unwrap_err().contains("400 lines"));
        let (_directory, bypass) = project("[profiles.a]\nmode = \"bypassPermissions\"\n");
        assert!(bypass.unwrap_err().contains("must not set"));
        let (directory, _) = project("");
        let path = directory.path().join("towpath.toml");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(directory.path().join("other"), "").unwrap();
        symlink("other", &path).unwrap();
        let linked = ProjectConfig::find(directory.path(), None).unwrap_err().to_string();
        assert!(linked.contains("symbolic link"), "{linked}");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(ProjectConfig::find(directory.path(), None).is_err());
        std::fs::remove_dir(&path).unwrap();
        #[expect(clippy::disallowed_methods, reason = "no portable function makes a FIFO")]
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        if made.is_ok_and(|it| it.success()) {
            assert!(ProjectConfig::find(directory.path(), None).is_err(), "it must not wait");
        }
    }

    #[test]
    fn nothing_in_the_text_can_hide_another_part_of_it() {
        let hidden = "environment = { EVIL = \"1\" }";
        let text = format!(
            "[profiles.a]\n# safe \u{202e}txet\u{200b}{}{hidden}\n{}\n# end",
            " ".repeat(3000),
            "\n".repeat(300)
        );
        let (_directory, found) = project(&text);
        let shown = found.unwrap().unwrap().visible_text();
        assert!(shown.contains("\\u{202e}txet\\u{200b} (3000 spaces) "), "{shown}");
        assert!(shown.contains(hidden) && shown.contains("(301 blank lines)"), "{shown}");
        assert!(shown.lines().count() < 10, "{shown}");
    }

    #[test]
    fn escape_codes_are_no_valid_file_and_are_shown_as_text() {
        let (_directory, found) = project("# a\u{1b}[2K\u{1b}[1Ab\n");
        let error = found.unwrap_err();
        assert!(!error.contains('\u{1b}'), "{error:?}");
    }
}
