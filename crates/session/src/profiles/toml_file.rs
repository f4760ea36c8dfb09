//! The profiles in a TOML file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use toml::Spanned;

use super::config_error::ConfigError;
use super::visible::is_invisible;
use super::{NO_PROFILE, Profile};
use crate::options::{OptionChanges, OptionKind, OptionSpec};

/// Options of profiles by name, with the places in the file.
pub(super) type ProfileTables =
    BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Spanned<toml::Value>>>;

/// A file being read.
pub(super) struct TomlFile<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
    /// What `~` stands for.
    pub(super) home: Option<&'a Path>,
}

/// Reads a file of at most `max_bytes`, which must not be a symbolic link if `follow` is false. `None`
/// if there is none.
pub(super) fn read_file(
    path: &Path,
    max_bytes: u64,
    follow: bool,
) -> Result<Option<String>, ConfigError> {
    let read = |source: io::Error| ConfigError::Read { path: path.to_owned(), source };
    let unusable = |reason| ConfigError::Unusable { path: path.to_owned(), reason };
    let mut flags = rustix::fs::OFlags::NONBLOCK;
    if !follow {
        flags |= rustix::fs::OFlags::NOFOLLOW;
    }
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) if !follow && path.is_symlink() => return Err(unusable("it is a symbolic link")),
        Err(error) => return Err(read(error)),
    };
    if !file.metadata().map_err(read)?.is_file() {
        return Err(unusable("it is no regular file"));
    }
    let mut bytes = Vec::new();
    // A file can grow while it is read.
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() as u64 > max_bytes {
        return Err(unusable("it is too large"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| unusable("it is not UTF-8"))
}

impl TomlFile<'_> {
    pub(super) fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, ConfigError> {
        toml::from_str(self.text)
            .map_err(|error| ConfigError::at(self.path, self.text, error.span(), error.message()))
    }

    /// Checks the options of profiles.
    pub(super) fn profiles(&self, tables: ProfileTables) -> Result<Vec<Profile>, ConfigError> {
        let mut profiles = Vec::new();
        for (name, table) in tables {
            let place = name.span();
            let name = name.into_inner();
            let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
            if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) {
                let message = "the name of a profile has letters, digits, `-`, `_` and `.`";
                return Err(ConfigError::at(self.path, self.text, Some(place), message));
            }
            if name == NO_PROFILE {
                let message = "`none` stands for no profile; choose another name";
                return Err(ConfigError::at(self.path, self.text, Some(place), message));
            }
            profiles.push(self.profile(name, table)?);
        }
        Ok(profiles)
    }

    fn profile(
        &self,
        name: String,
        table: BTreeMap<Spanned<String>, Spanned<toml::Value>>,
    ) -> Result<Profile, ConfigError> {
        let (mut description, mut options) = (None, OptionChanges::default());
        for (key, value) in table {
            let place = key.span();
            let fail = |message: String| {
                ConfigError::at(self.path, self.text, Some(place.clone()), message)
            };
            let (key, value) = (key.into_inner(), value.into_inner());
            if key == "description" {
                let text = value.as_str().filter(|it| it.len() <= 400);
                let hides = |it: char| it.is_control() || is_invisible(it);
                let text = text.filter(|it| !it.contains(hides));
                let text = text.ok_or_else(|| fail("expected a line of text".to_owned()))?;
                description = Some(text.to_owned());
                continue;
            }
            let value = serde_json::to_value(value).map_err(|it| fail(it.to_string()))?;
            let Some(spec) = OptionSpec::find(&key) else {
                let one = serde_json::Map::from_iter([(key, value)]);
                let error = OptionChanges::new(&one).err().map(|it| it.to_string());
                return Err(fail(error.unwrap_or_default()));
            };
            options
                .set(spec, self.resolve_paths(spec, value))
                .map_err(|it| fail(it.to_string()))?;
        }
        Ok(Profile { name, description, options })
    }

    /// Makes paths absolute: `~` is the home directory, others are relative to the file.
    fn resolve_paths(&self, spec: &OptionSpec, value: Value) -> Value {
        let absolute = |text: &str| self.absolute(text);
        match (spec.kind, value) {
            (OptionKind::Directories, Value::Array(paths)) => {
                let resolved = paths.into_iter().map(|path| match path {
                    Value::String(path) => json!(absolute(&path)),
                    other => other,
                });
                Value::Array(resolved.collect())
            }
            (OptionKind::Mcp, Value::String(text)) if !text.trim_start().starts_with('{') => {
                json!(absolute(&text))
            }
            (_, value) => value,
        }
    }

    pub(super) fn absolute(&self, text: &str) -> String {
        let path = match (text.strip_prefix('~'), self.home) {
            (Some(""), Some(home)) => home.to_owned(),
            (Some(rest), Some(home)) if rest.starts_with('/') => home.join(&rest[1..]),
            _ => self.path.parent().unwrap_or(Path::new("/")).join(text),
        };
        path.to_string_lossy().into_owned()
    }
}
