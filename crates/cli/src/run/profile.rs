//! The profile of a run: selected, and asked about where a person must decide.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use anstream::eprintln;
use session::profiles::{
    NO_PROFILE, Profile, ProfileError, Profiles, ProjectConfig, TrustDecision,
};

use super::arguments::SessionOptionArgs;

/// Why a run has no profile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileSelectionError {
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error("the profile `{0}` lets the agent do everything without asking")]
    Bypass(String),
    #[error("could not read the answer")]
    Answer(#[source] io::Error),
    #[error("`{}` was not trusted", .0.display())]
    Declined(PathBuf),
}

impl ProfileSelectionError {
    pub(super) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Profile(ProfileError::NotTrusted { .. }) => {
                "start `towpath run` in a terminal to read and trust it, or use `--profile none`"
            }
            Self::Profile(_) => "`towpath config` shows your profiles",
            Self::Bypass(_) => "if you mean it, add `--mode bypassPermissions`",
            Self::Answer(_) => return None,
            Self::Declined(_) => "use `--profile none` to start without it",
        };
        Some(hint.to_owned())
    }
}

/// Selects the profile for a directory. A project's file that the user has not judged is shown in full, and
/// the user decides; without a terminal it is not used.
pub(super) fn select_profile(
    profiles: &Profiles,
    directory: &Path,
    given: &SessionOptionArgs,
) -> Result<Option<Profile>, ProfileSelectionError> {
    let name = given.profile.as_deref();
    if name == Some(NO_PROFILE) {
        return Ok(None);
    }
    let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
    if can_ask {
        offer_project_file(profiles, directory, name)?;
    }
    let profile = profiles.select(directory, name)?;
    if let Some(profile) = &profile
        && profile.options.wants_bypass()
        && !given.wants_bypass()
    {
        let question = format!(
            "The profile `{}` has the mode `bypassPermissions`: the agent runs every command and \
             changes every file without asking.\nStart it like this? [y/N] ",
            profile.name
        );
        if !can_ask || !ask(&question)?.eq_ignore_ascii_case("y") {
            return Err(ProfileSelectionError::Bypass(profile.name.clone()));
        }
    }
    Ok(profile)
}

/// Shows the file of a project that would be used if it were trusted, and asks about it.
fn offer_project_file(
    profiles: &Profiles,
    directory: &Path,
    name: Option<&str>,
) -> Result<(), ProfileSelectionError> {
    let config = profiles.user_config().map_err(ProfileError::Config)?;
    let own = name.or_else(|| config.default_profile(directory));
    if own.is_some_and(|it| config.profile(it).is_some()) {
        return Ok(());
    }
    let file = match profiles.project_file(directory) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(()),
        Err(error) if name.is_some() => return Err(ProfileError::Config(error).into()),
        Err(error) => {
            eprintln!("note: {error}");
            return Ok(());
        }
    };
    let offered = match name {
        Some(name) => file.profiles.iter().find(|it| it.name == name),
        None => file.default_profile(),
    };
    let Some(offered) = offered else { return Ok(()) };
    match profiles.trust(&file).map_err(ProfileError::Trust)? {
        Some(TrustDecision::Trusted) => return Ok(()),
        // Naming the profile is a reason to ask again.
        Some(TrustDecision::Declined) if name.is_none() => return Ok(()),
        Some(TrustDecision::Declined) | None => {}
    }
    let decision = match ask(&trust_question(&file, offered))?.as_str() {
        "y" | "Y" | "yes" => TrustDecision::Trusted,
        "n" | "N" | "no" => TrustDecision::Declined,
        _ if name.is_some() => return Err(ProfileSelectionError::Declined(file.path)),
        _ => return Ok(()),
    };
    profiles.decide(&file, decision).map_err(ProfileError::Trust)?;
    if decision == TrustDecision::Declined && name.is_some() {
        return Err(ProfileSelectionError::Declined(file.path));
    }
    Ok(())
}

/// The whole file, and what is asked about it. The user's answer is about what is on the screen, so
/// nothing of the file is left out or can hide a part of it.
fn trust_question(file: &ProjectConfig, offered: &Profile) -> String {
    let mut question =
        format!("This project offers options for its sessions, in `{}`:\n\n", file.visible_path());
    for line in file.visible_text().lines() {
        question.push_str("    ");
        question.push_str(line);
        question.push('\n');
    }
    let _ = write!(
        question,
        "\nTrust exactly this content and use the profile `{}`? It may decide what the agent does \
         without asking.\n[y] yes  [n] no, and do not ask until it changes  [Enter] not now: ",
        offered.name
    );
    question
}

fn ask(question: &str) -> Result<String, ProfileSelectionError> {
    anstream::eprint!("{question}");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(ProfileSelectionError::Answer)?;
    Ok(answer.trim().to_owned())
}
