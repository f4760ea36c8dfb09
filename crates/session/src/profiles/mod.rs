//! Profiles: named options in the user's configuration file and in the `towpath.toml` of a project.
//!
//! The user's file is trusted: its profiles may set everything. A project's file comes with a
//! repository, so anyone may have written it: it is shown in full and used only after a person has
//! trusted exactly this content.

mod agent_tables;
mod config_error;
mod project_config;
mod toml_file;
mod trust_store;
mod user_config;
mod visible;

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::options::OptionChanges;
pub use config_error::ConfigError;
pub use project_config::ProjectConfig;
use trust_store::TrustStore;
pub use trust_store::{TrustDecision, TrustError};
pub use user_config::UserConfig;
pub use visible::visible_line;

/// The name that stands for no profile, where one is the default.
pub const NO_PROFILE: &str = "none";

/// A named set of options.
#[derive(Clone, Debug)]
pub struct Profile {
    pub name: String,
    pub description: Option<String>,
    pub options: OptionChanges,
}

/// Where profiles are read from. All functions block.
#[derive(Clone, Debug)]
pub struct Profiles {
    config_file: Option<PathBuf>,
    /// What `~` stands for.
    home: Option<PathBuf>,
    data: PathBuf,
}

/// Why a profile cannot be used.
#[derive(Debug, Error)]
pub enum ProfileError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("there is no profile `{name}`{}", known_profiles(.known))]
    NoSuchProfile { name: String, known: Vec<String> },
    /// Only the file of the project has the profile, and its content is not trusted.
    #[error("the profile `{name}` is in `{}`, which is not trusted yet", path.display())]
    NotTrusted { name: String, path: PathBuf },
}

fn known_profiles(known: &[String]) -> String {
    if known.is_empty() {
        return "; none are configured".to_owned();
    }
    format!("; there are `{}`", known.join("`, `"))
}

impl Profiles {
    /// `home` is what `~` stands for, and `data` where trusted files are remembered.
    pub fn new(config_file: Option<PathBuf>, home: Option<PathBuf>, data: PathBuf) -> Self {
        Self { config_file, home, data }
    }

    /// The path of the user's configuration file, whether or not it exists.
    pub fn config_file(&self) -> Option<&Path> {
        self.config_file.as_deref()
    }

    /// Reads the user's configuration. A missing file is an empty one.
    pub fn user_config(&self) -> Result<UserConfig, ConfigError> {
        match &self.config_file {
            Some(path) => UserConfig::read(path, self.home.as_deref()),
            None => Ok(UserConfig::default()),
        }
    }

    /// Reads the file of the project that a directory belongs to.
    pub fn project_file(&self, directory: &Path) -> Result<Option<ProjectConfig>, ConfigError> {
        ProjectConfig::find(directory, self.home.as_deref())
    }

    /// What was decided about the content of a project's file.
    pub fn trust(&self, file: &ProjectConfig) -> Result<Option<TrustDecision>, TrustError> {
        self.trust_store().decision(&file.path, &file.digest)
    }

    /// Stores what is decided about the content of a project's file.
    pub fn decide(&self, file: &ProjectConfig, decision: TrustDecision) -> Result<(), TrustError> {
        self.trust_store().decide(&file.path, &file.digest, decision)
    }

    /// Forgets what was decided about a project's file. Returns whether something was.
    pub fn forget(&self, path: &Path) -> Result<bool, TrustError> {
        self.trust_store().forget(path)
    }

    /// The profile for a session in a directory: the one with this name, or the default of the
    /// directory.
    pub fn select(
        &self,
        directory: &Path,
        name: Option<&str>,
    ) -> Result<Option<Profile>, ProfileError> {
        if name == Some(NO_PROFILE) {
            return Ok(None);
        }
        let config = self.user_config()?;
        let Some(name) = name.or_else(|| config.default_profile(directory)) else {
            return self.project_default(directory);
        };
        if let Some(profile) = config.profile(name) {
            return Ok(Some(profile.clone()));
        }
        let mut known: Vec<String> = config.profiles.iter().map(|it| it.name.clone()).collect();
        if let Some(file) = self.project_file(directory)? {
            if let Some(profile) = file.profiles.iter().find(|it| it.name == name) {
                if self.trust(&file)? == Some(TrustDecision::Trusted) {
                    return Ok(Some(profile.clone()));
                }
                return Err(ProfileError::NotTrusted { name: name.to_owned(), path: file.path });
            }
            known.extend(file.profiles.into_iter().map(|it| it.name));
        }
        Err(ProfileError::NoSuchProfile { name: name.to_owned(), known })
    }

    /// The default profile of a trusted project.
    fn project_default(&self, directory: &Path) -> Result<Option<Profile>, ProfileError> {
        // A file that is not trusted must not be able to keep sessions from starting.
        let Ok(Some(file)) = self.project_file(directory) else { return Ok(None) };
        let Some(profile) = file.default_profile().cloned() else { return Ok(None) };
        let trusted = self.trust(&file)? == Some(TrustDecision::Trusted);
        Ok(trusted.then_some(profile))
    }

    fn trust_store(&self) -> TrustStore {
        TrustStore::new(&self.data)
    }
}
