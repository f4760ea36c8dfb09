//! `towpath config`: the configuration file, its profiles, and the file of the project here.

use std::io;
use std::path::Path;

use anstream::println;
use clap::Args;
use session::profiles::{
    ConfigError, Profile, Profiles, ProjectConfig, TrustDecision, TrustError, UserConfig,
    visible_line,
};
use session::{OPTIONS, OptionKind, SessionOptions};

use crate::exit::{CommandStatus, report_error};
use crate::settings::{CliSettings, SettingsError};

/// Show and check the configuration and its profiles
///
/// A profile is a set of session options with a name. `towpath run --profile NAME`, the web page and
/// the chat start sessions with it. A directory can have a default profile. The `towpath.toml` of a
/// project can offer profiles too: it is shown in full, and used only after you have trusted exactly
/// that content.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 everything is valid; 1 a file is not; 2 it could not run.

Example of a configuration:
  [profiles.careful]
  description = \"Plans first and spends little\"
  mode = \"plan\"
  max_budget_usd = 2.5
  disallowed_tools = [\"WebFetch\"]
  idle_timeout = \"10m\"

  [profiles.tests]
  allowed_tools = [\"Bash(cargo test:*)\"]
  environment = { RUST_BACKTRACE = \"1\" }

  [directories.\"~/src/app\"]
  profile = \"tests\"")]
pub(crate) struct ConfigArgs {
    /// List all options with their names, values and meaning
    #[arg(long)]
    options: bool,
    /// Take back what you decided about the `towpath.toml` of the project here
    #[arg(long, conflicts_with = "options")]
    forget: bool,
}

#[derive(Debug, thiserror::Error)]
enum ConfigCommandError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("the current directory cannot be determined")]
    CurrentDirectory(#[source] io::Error),
}

pub(crate) fn run(args: &ConfigArgs) -> CommandStatus {
    if args.options {
        print_options();
        return CommandStatus::Success;
    }
    match show(args) {
        Ok(status) => status,
        Err(error) => {
            let hint = match &error {
                ConfigCommandError::Settings(error) => error.hint(),
                _ => None,
            };
            report_error(&error, hint.as_deref());
            CommandStatus::Error
        }
    }
}

fn show(args: &ConfigArgs) -> Result<CommandStatus, ConfigCommandError> {
    let settings = CliSettings::from_environment()?;
    let profiles = settings.profiles();
    let here = std::env::current_dir().map_err(ConfigCommandError::CurrentDirectory)?;
    if args.forget {
        return forget(&profiles, &here);
    }
    let mut status = CommandStatus::Success;
    match profiles.config_file() {
        Some(path) if path.exists() => println!("configuration: {}", path.display()),
        Some(path) => println!("configuration: {} (does not exist)", path.display()),
        None => println!("configuration: none, because `HOME` is not set"),
    }
    match profiles.user_config() {
        Ok(config) => print_profiles(&config, &here),
        Err(error) => {
            report_error(&error, Some("`towpath config --help` shows an example"));
            status = CommandStatus::Negative;
        }
    }
    match profiles.project_file(&here) {
        Ok(Some(file)) => print_project(&profiles, &file)?,
        Ok(None) => {}
        Err(error) => {
            report_error(&error, None);
            status = CommandStatus::Negative;
        }
    }
    Ok(status)
}

fn print_profiles(config: &UserConfig, here: &Path) {
    let default = config.default_profile(here);
    for profile in &config.profiles {
        let mark = if default == Some(profile.name.as_str()) { " (default here)" } else { "" };
        print_profile(profile, mark);
    }
    for (directory, profile) in &config.directories {
        println!("\n{}: profile {profile}", directory.display());
    }
}

fn print_profile(profile: &Profile, mark: &str) {
    println!("\nprofile {}{mark}", profile.name);
    if let Some(description) = &profile.description {
        println!("  {description}");
    }
    let mut options = SessionOptions::default();
    // They were checked when the file was read.
    let _ = profile.options.apply(&mut options);
    for (name, value) in options.masked_values() {
        println!("  {name} = {}", visible_line(&value.to_string()));
    }
}

fn print_project(profiles: &Profiles, file: &ProjectConfig) -> Result<(), ConfigCommandError> {
    let decision = match profiles.trust(file)? {
        Some(TrustDecision::Trusted) => "trusted",
        Some(TrustDecision::Declined) => "declined",
        None => "not trusted; `towpath run` asks",
    };
    println!("\nproject: {} ({decision})", file.visible_path());
    let default = file.default_profile().map(|it| it.name.as_str());
    for profile in &file.profiles {
        let mark =
            if default == Some(profile.name.as_str()) { " (default of the project)" } else { "" };
        print_profile(profile, mark);
    }
    Ok(())
}

fn forget(profiles: &Profiles, here: &Path) -> Result<CommandStatus, ConfigCommandError> {
    let Some(file) = profiles.project_file(here)? else {
        println!("there is no `towpath.toml` in this project");
        return Ok(CommandStatus::Negative);
    };
    if profiles.forget(&file.path)? {
        println!("{} is no longer trusted", file.visible_path());
    } else {
        println!("nothing was decided about {}", file.visible_path());
    }
    Ok(CommandStatus::Success)
}

fn print_options() {
    for spec in OPTIONS {
        let values = match spec.kind {
            OptionKind::Choice(words) => words.join(", "),
            OptionKind::Integer { min, max } => format!("{min} to {max}"),
            kind => kind.name().to_owned(),
        };
        println!("{} (--{}): {values}\n  {}", spec.name, spec.flag, spec.help);
    }
}
