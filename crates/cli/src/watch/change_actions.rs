//! The arguments that say what is done with changed files, for `towpath watch` and `towpath serve`.

use std::path::PathBuf;

use ::watch::{HttpTarget, Selection, StoreTarget};
use clap::Args;
use wire::note::{CommitConfig, HookConfig, WatchConfig, WatchTarget};

use super::arguments::{
    DEFAULT_BRANCH, TOKEN_VARIABLE, WatchArgsError, WatchTrigger, store_options, token_in,
};

/// What is done with changed files.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Changed files")]
pub(crate) struct ChangeActionArgs {
    /// Copy changed files to a directory or an address (repeatable)
    #[arg(long, value_name = "TARGET")]
    pub(crate) to: Vec<String>,
    /// Run a command for each changed file, with the path as `$1` (repeatable)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) exec: Vec<String>,
    /// Only files that match this name or path, with `*` as wildcard (repeatable)
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// No files that match this name or path (repeatable)
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Also find files that shell commands changed, except those in `.gitignore`
    #[arg(long)]
    pub(crate) scan: bool,
    /// Copy files after each change, or at the end of each turn
    #[arg(long, value_name = "WHEN", default_value = "change")]
    pub(crate) every: WatchTrigger,
    /// Commit the agent's changes, one commit per turn or per change
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "turn")]
    pub(crate) commit: Option<WatchTrigger>,
    /// The commit message, with the placeholders `{summary}`, `{prompt}`, `{session}`, `{files}`,
    /// `{tool}` and `{count}`
    #[arg(long, value_name = "TEMPLATE", requires = "commit")]
    pub(crate) message: Option<String>,
    /// A trailer of the commit message, instead of the session and the co-author (repeatable)
    #[arg(long, value_name = "LINE", requires = "commit", conflicts_with = "no_trailers")]
    pub(crate) trailer: Vec<String>,
    /// Add no trailers to the commit message
    #[arg(long, requires = "commit")]
    pub(crate) no_trailers: bool,
    /// The author of commits, as `Name <address>` [default: you]
    #[arg(long, value_name = "AUTHOR", requires = "commit")]
    pub(crate) author: Option<String>,
    /// Commit to a separate branch per session, whatever is checked out
    #[arg(long, value_name = "NAME", requires = "commit", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_BRANCH)]
    pub(crate) branch: Option<String>,
    /// Commit in a separate working tree per session, below this directory
    #[arg(long, value_name = "DIR", requires = "commit")]
    pub(crate) worktree: Option<PathBuf>,
    /// Run a command before a file changes, with the CLI's hook JSON on stdin
    #[arg(long, value_name = "COMMAND")]
    pub(crate) pre: Option<String>,
    /// Run a command after a file has changed
    #[arg(long, value_name = "COMMAND")]
    pub(crate) post: Option<String>,
    /// Run GitButler's hooks, if the installed `but` has them
    #[arg(long)]
    pub(crate) gitbutler: bool,
}

impl ChangeActionArgs {
    /// The default configuration of a server; none if nothing is to be done. `stop` is the command
    /// for the end of a turn.
    pub(crate) fn default_config(
        &self,
        stop: Option<&str>,
    ) -> Result<Option<WatchConfig>, WatchArgsError> {
        Selection::new(&self.include, &self.exclude)?;
        let mut targets = Vec::new();
        for address in &self.to {
            targets.push(watch_target(address)?);
        }
        targets.extend(self.exec.iter().map(|line| WatchTarget::Command { line: line.clone() }));
        let commit = match self.commit {
            Some(every) => Some(self.commit_config(every)?),
            None => None,
        };
        let hooks = HookConfig {
            pre: self.pre.clone(),
            post: self.post.clone(),
            stop: stop.map(str::to_owned),
            gitbutler: self.gitbutler,
        };
        if targets.is_empty() && commit.is_none() && hooks.is_none() {
            return Ok(None);
        }
        Ok(Some(WatchConfig {
            targets,
            every: self.every.into(),
            scan: self.scan,
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            commit,
            hooks,
        }))
    }

    fn commit_config(&self, every: WatchTrigger) -> Result<CommitConfig, WatchArgsError> {
        let absolute = |path: &PathBuf| std::path::absolute(path);
        let worktree = self.worktree.as_ref().map(absolute).transpose();
        Ok(CommitConfig {
            every: every.into(),
            message: self.message.clone(),
            trailers: match (self.no_trailers, &self.trailer[..]) {
                (true, _) => Some(Vec::new()),
                (false, []) => None,
                (false, trailers) => Some(trailers.to_vec()),
            },
            author: self.author.clone(),
            branch: self.branch.clone(),
            worktree: worktree.map_err(WatchArgsError::CurrentDirectory)?,
        })
    }
}

/// A target, checked as far as that is possible before there is a session.
fn watch_target(address: &str) -> Result<WatchTarget, WatchArgsError> {
    let Some((scheme, _)) = address.split_once("://") else {
        let path = std::path::absolute(address).map_err(WatchArgsError::CurrentDirectory)?;
        return Ok(WatchTarget::Directory { path });
    };
    if scheme == "http" || scheme == "https" {
        HttpTarget::new(address, None)?;
    } else {
        StoreTarget::new(address, &store_options())?;
    }
    let token_variable = token_in(TOKEN_VARIABLE).map(|_| TOKEN_VARIABLE.to_owned());
    Ok(WatchTarget::Address { url: address.to_owned(), token_variable })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use wire::note::{Trigger, WatchTarget};

    use super::ChangeActionArgs;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        actions: ChangeActionArgs,
    }

    fn config(line: &[&str]) -> Option<wire::note::WatchConfig> {
        let line = Line::try_parse_from(["serve"].iter().chain(line)).unwrap();
        line.actions.default_config(None).unwrap()
    }

    #[test]
    fn arguments_become_a_default_configuration() {
        assert_eq!(config(&[]), None);
        // These alone do nothing.
        assert_eq!(config(&["--scan", "--include", "*.rs"]), None);
        let given =
            config(&["--commit", "--branch=agents", "--to", "/copies/{project}", "--gitbutler"]);
        let given = given.unwrap();
        let commit = given.commit.unwrap();
        assert_eq!((commit.every, commit.branch.as_deref()), (Trigger::Turn, Some("agents")));
        assert_eq!(given.targets, [WatchTarget::Directory { path: "/copies/{project}".into() }]);
        assert!(given.hooks.gitbutler && given.hooks.pre.is_none());
        let line = Line::try_parse_from(["serve", "--include", "a{", "--commit"]).unwrap();
        assert!(line.actions.default_config(None).is_err());
    }
}
