//! What of the environment Towpath goes by, read once.
//!
//! | Variable | What it says | Where nothing is said |
//! |---|---|---|
//! | `TOWPATH_DATA` | where the journal and live sessions are | `$XDG_DATA_HOME/towpath`, `~/.local/share/towpath` |
//! | `TOWPATH_CLAUDE` | the agent: a path, or a name to look for in `PATH` | `claude` |
//! | `TOWPATH_TELEGRAM_TOKEN` | what the Telegram bot signs in with; no agent inherits it | no bot |
//! | `XDG_RUNTIME_DIR` | where sockets go whose path would be too long | the directory for temporary files |
//! | `USER` | who answers and prompts, for the ledger | `you` |
//! | `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` | colours, as everywhere | as the terminal can |
//!
//! `docs/environment.md` says the same to people, together with what `play` reads. Agents inherit
//! the whole environment except what would make one believe it runs inside another.

mod agent;
mod record;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use session::machine::Limits;
use session::{AgentProgram, Alone, Home};
use wire::note::Actor;

pub(crate) use agent::{AgentChoice, NoAgent};
pub(crate) use record::what_was_mended;

/// What an agent must not inherit: the CLI refuses to start inside itself, and a secret is none of
/// its business.
const NOT_INHERITED: &[&str] = &["CLAUDECODE", TELEGRAM_TOKEN];

/// Whoever has it is the bot, which is nothing an agent should be.
const TELEGRAM_TOKEN: &str = "TOWPATH_TELEGRAM_TOKEN";

/// What of the environment Towpath goes by.
#[derive(Clone)]
pub(crate) struct Settings {
    /// Where the journal and the live sessions are.
    pub(crate) data: PathBuf,
    /// A place with a short path, for sockets.
    pub(crate) runtime: PathBuf,
    /// Where programs are looked for.
    search_path: OsString,
    /// The agent, where the environment names one.
    claude: Option<OsString>,
    home: Option<PathBuf>,
    user: String,
    telegram_token: Option<String>,
    environment: Vec<(OsString, OsString)>,
}

/// Why Towpath has nowhere to be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoHome {
    #[error("there is no place for the journal")]
    NoData,
    #[error("could not make the data directory `{}`", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("this program could not be found again")]
    NoSelf(#[source] io::Error),
}

impl NoHome {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NoData => Some("set `TOWPATH_DATA` or `HOME`".to_owned()),
            Self::Make { .. } => Some("set `TOWPATH_DATA` to a directory of yours".to_owned()),
            Self::NoSelf(_) => None,
        }
    }
}

impl Settings {
    /// Reads the environment.
    #[expect(clippy::disallowed_methods, reason = "the one place where it is read")]
    pub(crate) fn read() -> Result<Self, NoHome> {
        Self::from(&|name| std::env::var_os(name), std::env::vars_os().collect())
    }

    fn from(
        variable: &dyn Fn(&str) -> Option<OsString>,
        environment: Vec<(OsString, OsString)>,
    ) -> Result<Self, NoHome> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let home = set("HOME").map(PathBuf::from);
        let shared = || {
            // The specification has relative paths ignored.
            let given = set("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
            given.or_else(|| Some(home.as_deref()?.join(".local/share")))
        };
        let data = set("TOWPATH_DATA").map(PathBuf::from);
        let data = data.or_else(|| Some(shared()?.join("towpath"))).ok_or(NoHome::NoData)?;
        let own = rustix::process::geteuid().as_raw();
        let runtime = match set("XDG_RUNTIME_DIR") {
            Some(runtime) => PathBuf::from(runtime).join("towpath"),
            None => std::env::temp_dir().join(format!("towpath-{own}")),
        };
        let user = set("USER").or_else(|| set("LOGNAME"));
        let inherited = |(name, _): &(OsString, OsString)| {
            !NOT_INHERITED.iter().any(|it| name.as_os_str() == OsStr::new(it))
        };
        Ok(Self {
            data: std::path::absolute(&data).unwrap_or(data),
            runtime,
            search_path: set("PATH").unwrap_or_default(),
            claude: set("TOWPATH_CLAUDE"),
            home,
            user: user.map_or_else(|| "you".to_owned(), |it| it.to_string_lossy().into_owned()),
            telegram_token: set(TELEGRAM_TOKEN).map(|it| it.to_string_lossy().into_owned()),
            environment: environment.into_iter().filter(inherited).collect(),
        })
    }

    /// Makes the data directory, for this user alone, where there is none.
    pub(crate) fn make_data(&self) -> Result<(), NoHome> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.data);
        made.map_err(|source| NoHome::Make { path: self.data.clone(), source })
    }

    /// Where sessions live that a command drives itself: who ends before its agent is not expected
    /// back, so the agent finishes its turn and ends.
    pub(crate) fn home(&self, agent: AgentProgram, limits: Limits) -> Result<Home, NoHome> {
        Ok(Home {
            data: self.data.clone(),
            runtime: self.runtime.clone(),
            towpath: std::env::current_exe().map_err(NoHome::NoSelf)?,
            agent,
            environment: self.environment.clone(),
            limits,
            alone: Alone::BRIEF,
        })
    }

    /// What the Telegram bot signs in with.
    pub(crate) fn telegram_token(&self) -> Option<&str> {
        self.telegram_token.as_deref()
    }

    /// The person at the terminal.
    pub(crate) fn person(&self) -> Actor {
        Actor { name: self.user.clone(), via: "terminal".to_owned() }
    }

    /// A path with the home directory as `~`.
    pub(crate) fn short(&self, path: &Path) -> String {
        let home = self.home.as_deref().filter(|home| *home != Path::new("/"));
        match home.and_then(|home| path.strip_prefix(home).ok()) {
            Some(rest) if rest == Path::new("") => "~".to_owned(),
            Some(rest) => format!("~/{}", rest.display()),
            None => path.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use super::Settings;

    fn data(variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        Settings::from(&variable, Vec::new()).ok().map(|it| it.data.display().to_string())
    }

    #[test]
    fn the_data_directory_is_the_one_said_or_the_customary_one() {
        let home = ("HOME", "/home/ann");
        assert_eq!(data(&[home]).as_deref(), Some("/home/ann/.local/share/towpath"));
        assert_eq!(data(&[home, ("XDG_DATA_HOME", "/d")]).as_deref(), Some("/d/towpath"));
        let relative = [home, ("XDG_DATA_HOME", "d")];
        assert_eq!(data(&relative).as_deref(), Some("/home/ann/.local/share/towpath"));
        assert_eq!(data(&[home, ("TOWPATH_DATA", "/t")]).as_deref(), Some("/t"));
        assert_eq!(data(&[("TOWPATH_DATA", "")]), None);
    }

    #[test]
    fn an_agent_does_not_believe_it_runs_inside_another() {
        let environment = vec![("CLAUDECODE".into(), "1".into()), ("LANG".into(), "C".into())];
        let variable = |name: &str| (name == "HOME").then(|| "/home/ann".into());
        let settings = Settings::from(&variable, environment).unwrap();
        assert_eq!(settings.environment, [("LANG".into(), "C".into())]);
        assert_eq!(settings.short(Path::new("/home/ann/x")), "~/x");
        assert_eq!(settings.short(Path::new("/home/anna")), "/home/anna");
    }
}
