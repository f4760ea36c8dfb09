//! The user's configuration file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::Profile;
use super::agent_tables::AgentTables;
use super::config_error::ConfigError;
use super::toml_file::{ProfileTables, TomlFile, read_file};
use crate::catalog::{AgentCatalog, AgentSpec};
use crate::options::check_dollars;

/// The largest file.
const MAX_BYTES: u64 = 1 << 20;

/// The user's configuration.
#[derive(Clone, Debug, Default)]
pub struct UserConfig {
    pub profiles: Vec<Profile>,
    /// The user's own agents, and built-in ones that are started in another way.
    pub agents: Vec<AgentSpec>,
    /// The agent of new sessions for which none is chosen.
    pub default_agent: Option<String>,
    /// The default profile of directories and what is below them.
    pub directories: Vec<(PathBuf, String)>,
    /// How many dollars all sessions may cost on a day before queued prompts wait for a person.
    pub budget_per_day: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigTables {
    agent: Option<Spanned<String>>,
    budget_per_day: Option<Spanned<f64>>,
    #[serde(default)]
    agents: AgentTables,
    #[serde(default)]
    profiles: ProfileTables,
    #[serde(default)]
    directories: BTreeMap<Spanned<String>, DirectoryTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DirectoryTable {
    profile: Spanned<String>,
}

impl UserConfig {
    pub(super) fn read(path: &Path, home: Option<&Path>) -> Result<Self, ConfigError> {
        let Some(text) = read_file(path, MAX_BYTES, true)? else { return Ok(Self::default()) };
        Self::parse(&TomlFile { path, text: &text, home })
    }

    fn parse(file: &TomlFile<'_>) -> Result<Self, ConfigError> {
        let tables: ConfigTables = file.parse()?;
        let profiles = file.profiles(tables.profiles)?;
        let agents = file.agents(tables.agents)?;
        let default_agent = match tables.agent {
            Some(name) => {
                let known = AgentCatalog::with(agents.clone());
                known.get(name.get_ref()).map_err(|error| {
                    ConfigError::at(file.path, file.text, Some(name.span()), error.to_string())
                })?;
                Some(name.into_inner())
            }
            None => None,
        };
        let budget_per_day = match tables.budget_per_day {
            Some(amount) => Some(check_dollars(*amount.get_ref()).map_err(|reason| {
                ConfigError::at(file.path, file.text, Some(amount.span()), reason)
            })?),
            None => None,
        };
        let mut directories = Vec::new();
        for (directory, DirectoryTable { profile }) in tables.directories {
            let fail =
                |place, message| Err(ConfigError::at(file.path, file.text, Some(place), message));
            let written = directory.get_ref();
            if !written.starts_with(['/', '~']) {
                let message = "a directory is an absolute path, or starts with `~/`".to_owned();
                return fail(directory.span(), message);
            }
            if !profiles.iter().any(|it| it.name == *profile.get_ref()) {
                return fail(
                    profile.span(),
                    format!("there is no profile `{}`", profile.get_ref()),
                );
            }
            let path = PathBuf::from(file.absolute(written));
            // Sessions work in directories with all links resolved.
            let path = path.canonicalize().unwrap_or(path);
            directories.push((path, profile.into_inner()));
        }
        Ok(Self { profiles, agents, default_agent, directories, budget_per_day })
    }

    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|it| it.name == name)
    }

    /// The profile that sessions in a directory get by default: that of the deepest directory which
    /// contains it.
    pub fn default_profile(&self, directory: &Path) -> Option<&str> {
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let above = self.directories.iter().filter(|(path, _)| directory.starts_with(path));
        let deepest = above.max_by_key(|(path, _)| path.components().count());
        deepest.map(|(_, profile)| profile.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::{TomlFile, UserConfig};

    fn parse(text: &str) -> Result<UserConfig, String> {
        let (path, home) =
            (Path::new("/home/ann/.config/towpath/config.toml"), Path::new("/home/ann"));
        let file = TomlFile { path, text, home: Some(home) };
        UserConfig::parse(&file).map_err(|it| it.to_string())
    }

    #[test]
    fn profiles_are_options_by_name_and_the_deepest_directory_counts() {
        let config = parse(
            "[profiles.careful]\ndescription = \"Asks\"\nmode = \"plan\"\nmax_budget_usd = 2\n\
             extra_directories = [\"~/data\"]\n\n[profiles.fast]\nenvironment = { A = \"1\" }\n\n\
             [directories.\"~/src\"]\nprofile = \"careful\"\n\
             [directories.\"/home/ann/src/app\"]\nprofile = \"fast\"\n",
        )
        .unwrap();
        let careful = config.profile("careful").unwrap();
        assert_eq!(careful.description.as_deref(), Some("Asks"));
        let options: Vec<_> =
            careful.options.iter().map(|(it, value)| (it.name, value.clone())).collect();
        assert!(options.contains(&("extra_directories", json!(["/home/ann/data"]))), "{options:?}");
        let default = |path: &str| config.default_profile(Path::new(path));
        assert_eq!(default("/home/ann/src/other"), Some("careful"));
        assert_eq!(default("/home/ann/src/app/web"), Some("fast"));
        assert_eq!(default("/home/ann/src-not"), None);
    }

    #[test]
    fn the_budget_of_a_day_is_an_amount() {
        assert_eq!(parse("budget_per_day = 20").unwrap().budget_per_day, Some(20.0));
        assert_eq!(parse("budget_per_day = 0.5").unwrap().budget_per_day, Some(0.5));
        for amount in ["0", "-1", "nan", "inf", "1e300", "\"5\""] {
            let error = parse(&format!("budget_per_day = {amount}")).unwrap_err();
            assert!(error.contains("config.toml"), "{error}");
        }
    }

    #[test]
    fn an_agent_is_a_command_and_takes_the_rest_from_the_built_in_one_of_that_name() {
        let config = parse(
            "agent = \"mine\"\n[agents.mine]\ncommand = \"~/bin/agent --acp\"\nmode = \"ask\"\n\
             color = \"#AABBCC\"\nenv = { KEY = \"1\" }\n\n[agents.codex]\nenv = { CODEX_HOME = \"/c\" }\n\
             [agents.gemini]\ncommand = [\"npx\", \"gemini cli\", \"--acp\"]\n",
        )
        .unwrap();
        assert_eq!(config.default_agent.as_deref(), Some("mine"));
        let [codex, gemini, mine] = &config.agents[..] else { panic!("{:?}", config.agents) };
        assert_eq!(mine.command, ["/home/ann/bin/agent", "--acp"]);
        assert_eq!((mine.mode.as_deref(), mine.title.as_str()), (Some("ask"), "mine"));
        assert_eq!(mine.color.as_deref(), Some("#aabbcc"));
        assert_eq!(codex.command, ["codex-acp"]);
        assert_eq!(codex.mode.as_deref(), Some("workspace-write"));
        assert_eq!(codex.environment["CODEX_HOME"], "/c");
        assert_eq!(gemini.command, ["npx", "gemini cli", "--acp"]);
    }

    #[test]
    fn an_error_names_the_line_and_what_was_meant() {
        for (text, line, part) in [
            ("[profiles.a]\nmodel = \"x\"\nmax_turn = 3\n", 3, "did you mean `max_turns`?"),
            ("[profiles.a]\n\n\nmax_turns = 0\n", 4, "from 1 to"),
            ("[profile.a]\nmodel = \"x\"\n", 1, "profiles"),
            ("\n[directories.\"/x\"]\nprofile = \"none-such\"\n", 3, "no profile `none-such`"),
            ("[directories.\"/x\"]\ncolour = 1\n", 2, "profile"),
            ("[directories.\"src\"]\nprofile = \"a\"\n", 1, "absolute"),
            ("[profiles.none]\n", 1, "another name"),
            ("[profiles.\"a b\"]\n", 1, "letters"),
            ("[profiles.a]\ndescription = 7\n", 2, "text"),
            ("[profiles.a\n", 1, ""),
            ("agent = \"gemni\"\n", 1, "did you mean `gemini`?"),
            ("[agents.mine]\ntitle = \"Mine\"\n", 1, "no command"),
            ("[agents.Mine]\ncommand = \"x\"\n", 1, "small letters"),
            ("[agents.a]\n\ncommand = \"sh -c 'x'\"\n", 3, "as a list"),
            ("[agents.a]\ncommand = []\n", 2, "a program"),
            ("[agents.a]\ncommand = \"x\"\ncolor = \"red\"\n", 3, "six hexadecimal digits"),
            ("[agents.a]\ncommand = \"x\"\nmode = \"\"\n", 3, "line of text"),
            ("[agents.a]\ncommand = \"x\"\nenv = { CLAUDECODE = \"1\" }\n", 3, "CLAUDECODE"),
            ("[agents.a]\ncommand = \"x\"\nprotocol = \"http\"\n", 3, "acp"),
            ("[agents.a]\ncommand = \"x\"\nmodes = \"ask\"\n", 3, "mode"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(&format!("line {line}: ")), "{text:?}: {error}");
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
