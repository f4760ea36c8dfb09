//! The arguments of `towpath play --acp`.

use std::path::PathBuf;

use crate::play::acp::misbehavior::{AcpMisbehavior, MISBEHAVIORS};
use crate::play::acp::script::WORDS;

/// The arguments of the player as an agent of the Agent Client Protocol.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AcpPlayerArgs {
    pub(crate) help: bool,
    /// Signs in and exits.
    pub(crate) sign_in: bool,
    /// The directory of the sessions, if not the one in the home directory.
    pub(crate) sessions: Option<PathBuf>,
    pub(crate) misbehaviors: Vec<AcpMisbehavior>,
}

/// Why the player did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcpPlayerArgsError {
    #[error("unknown option `{0}`; `towpath play --acp --help` lists all")]
    UnknownOption(String),
    #[error("`{0}` needs a value")]
    MissingValue(&'static str),
    #[error("unknown misbehavior `{0}`; `towpath play --acp --help` lists all")]
    UnknownMisbehavior(String),
}

impl AcpPlayerArgs {
    /// Whether these are arguments of this player, and not of the stand-in for the CLI.
    pub fn are_meant(arguments: &[String]) -> bool {
        arguments.iter().any(|it| it == "--acp")
    }

    /// Parses the arguments after `towpath play`.
    pub fn parse(arguments: &[String]) -> Result<Self, AcpPlayerArgsError> {
        let mut args = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let (name, inline) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let mut value = |name| {
                let value = inline.clone().or_else(|| arguments.next().cloned());
                value.ok_or(AcpPlayerArgsError::MissingValue(name))
            };
            match name {
                "--acp" => {}
                "--help" | "-h" => args.help = true,
                "--sign-in" => args.sign_in = true,
                "--sessions" => args.sessions = Some(value("--sessions")?.into()),
                "--misbehave" => {
                    for name in value("--misbehave")?.split(',').filter(|it| !it.is_empty()) {
                        let found = AcpMisbehavior::from_name(name.trim());
                        args.misbehaviors.push(found.ok_or_else(|| {
                            AcpPlayerArgsError::UnknownMisbehavior(name.to_owned())
                        })?);
                    }
                }
                _ => return Err(AcpPlayerArgsError::UnknownOption(argument.clone())),
            }
        }
        Ok(args)
    }

    /// The help text.
    pub fn help() -> String {
        let rows = |rows: Vec<String>| rows.join("\n");
        let words = rows(WORDS.iter().map(|(word, what)| format!("  {word:<12} {what}")).collect());
        let table = rows(MISBEHAVIORS.iter().map(ToString::to_string).collect());
        format!(
            "\
Usage: towpath play --acp [OPTIONS]

An agent of the Agent Client Protocol (version 1) over stdin and stdout, without a model or a
network. Its sessions are kept on disk.

Options:
  --misbehave NAME[,NAME…]  do wrong what real agents do wrong
  --sessions DIR            keep sessions here [default: ~/.towpath-player]
  --sign-in                 sign in, for `--misbehave sign-in`, and exit

A word in the prompt chooses the reply:
{words}
  $ COMMAND    a line that starts like this is run, with permission
Any other prompt is repeated.

Misbehaviors:
{table}

Examples:
  towpath play --acp
  towpath play --acp --misbehave permission-first,no-message-id,no-usage
"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{AcpPlayerArgs, AcpPlayerArgsError};
    use crate::play::acp::misbehavior::{AcpMisbehavior, MISBEHAVIORS};

    fn parse(arguments: &[&str]) -> Result<AcpPlayerArgs, AcpPlayerArgsError> {
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        AcpPlayerArgs::parse(&arguments)
    }

    #[test]
    fn misbehaviors_are_given_as_a_list_or_one_by_one() {
        let both = [AcpMisbehavior::NoUsage, AcpMisbehavior::SlowExit];
        for arguments in [
            &["--acp", "--misbehave", "no-usage,slow-exit"][..],
            &["--acp", "--misbehave=no-usage", "--misbehave", "slow-exit"],
        ] {
            assert_eq!(parse(arguments).expect("arguments").misbehaviors, both, "{arguments:?}");
        }
        let unknown = parse(&["--acp", "--misbehave", "wibble"]);
        assert_eq!(unknown, Err(AcpPlayerArgsError::UnknownMisbehavior("wibble".to_owned())));
        let missing = parse(&["--acp", "--misbehave"]);
        assert_eq!(missing, Err(AcpPlayerArgsError::MissingValue("--misbehave")));
        assert!(parse(&["--acp", "--wibble"]).is_err());
    }

    #[test]
    fn the_help_text_describes_every_misbehavior() {
        let help = AcpPlayerArgs::help();
        assert!(MISBEHAVIORS.iter().all(|it| help.contains(it.name)));
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}
