//! Who may wish for what to be done with changed files.
//!
//! Whoever drives may have files copied below the roots and committed. What runs a command of the
//! sender's or leaves the machine takes an administrator: it would act with the server's rights long
//! after its sender was gone.

use std::path::PathBuf;

use axum::http::StatusCode;
use wire::note::{CommitWish, HookWish, Setting, WatchTarget, WatchWish};

use super::Problem;
use super::problem::Answer;
use super::wish::{ShownCommit, ShownHooks, ShownTarget, ShownWish, WatchSaid};
use crate::access::Role;
use crate::gateway::Gateway;
use crate::visitor::Visitor;

/// How many targets, patterns and trailers there may be of each.
const MANY: usize = 32;

/// How long each text may be.
const LONG: usize = 4000;

impl WatchSaid {
    /// The setting that was asked for, if this visitor may have it.
    pub(super) async fn setting(
        self,
        gateway: &Gateway,
        visitor: &Visitor,
    ) -> Answer<Option<Setting>> {
        match self {
            Self::Unsaid => Ok(None),
            Self::Said(None) => Ok(Some(Setting::Watch(None))),
            Self::Said(Some(wish)) => {
                let wish = wish.granted(gateway, visitor).await?;
                Ok(Some(Setting::Watch(Some(Box::new(wish)))))
            }
        }
    }
}

impl ShownWish {
    /// The wish, if this visitor may have it.
    async fn granted(self, gateway: &Gateway, visitor: &Visitor) -> Answer<WatchWish> {
        self.check_sizes()?;
        let needs_admin =
            self.targets.iter().any(|it| !matches!(it, ShownTarget::Directory { .. }))
                || self.hooks != ShownHooks::default();
        if needs_admin {
            only_admin(visitor)?;
        }
        let mut targets = Vec::new();
        for target in self.targets {
            targets.push(match target {
                ShownTarget::Directory { path } => {
                    let path = below_roots(gateway, path).await?.ok_or_else(outside)?;
                    WatchTarget::Directory { path }
                }
                ShownTarget::Address { url, token_variable } => {
                    let token_variable = token_variable.map(variable).transpose()?;
                    WatchTarget::Address { url: address(url)?, token_variable }
                }
                ShownTarget::Command { line } => WatchTarget::Command { line },
            });
        }
        let commit = match self.commit {
            Some(commit) => Some(commit.granted(gateway, visitor).await?),
            None => None,
        };
        let ShownHooks { pre, post, stop, gitbutler } = self.hooks;
        Ok(WatchWish {
            targets,
            every: self.every.into(),
            scan: self.scan,
            include: self.include,
            exclude: self.exclude,
            commit,
            hooks: HookWish { pre, post, stop, gitbutler },
        })
    }

    fn check_sizes(&self) -> Answer<()> {
        let commit = self.commit.iter();
        let trailers = commit.clone().flat_map(|it| it.trailers.iter().flatten());
        let lists = [self.targets.len(), self.include.len(), self.exclude.len()];
        let many = lists.into_iter().chain([trailers.clone().count()]).any(|it| it > MANY);
        let hooks = [&self.hooks.pre, &self.hooks.post, &self.hooks.stop];
        let targets = self.targets.iter().map(|target| match target {
            ShownTarget::Directory { path: text }
            | ShownTarget::Address { url: text, .. }
            | ShownTarget::Command { line: text } => text,
        });
        let of_commit = commit.flat_map(|it| {
            [&it.message, &it.author, &it.branch, &it.worktree].into_iter().flatten()
        });
        let mut texts = targets
            .chain(&self.include)
            .chain(&self.exclude)
            .chain(trailers)
            .chain(of_commit)
            .chain(hooks.into_iter().flatten());
        if many || texts.any(|it| it.is_empty() || it.len() > LONG || it.contains('\0')) {
            let detail = format!("of each at most {MANY}, none empty or longer than {LONG} bytes");
            return Err(Problem::invalid(detail));
        }
        Ok(())
    }
}

impl ShownCommit {
    async fn granted(self, gateway: &Gateway, visitor: &Visitor) -> Answer<CommitWish> {
        let worktree = match self.worktree {
            Some(path) => Some(worktree(gateway, visitor, path).await?),
            None => None,
        };
        if self.branch.as_deref().is_some_and(|it| it.starts_with('-')) {
            return Err(Problem::invalid("the name of a branch does not begin with a dash"));
        }
        Ok(CommitWish {
            every: self.every.into(),
            message: self.message,
            trailers: self.trailers,
            author: self.author,
            branch: self.branch,
            worktree,
        })
    }
}

async fn worktree(gateway: &Gateway, visitor: &Visitor, path: String) -> Answer<PathBuf> {
    if let Some(path) = below_roots(gateway, path.clone()).await? {
        return Ok(path);
    }
    only_admin(visitor)?;
    Some(PathBuf::from(path)).filter(|path| path.is_absolute()).ok_or_else(outside)
}

fn only_admin(visitor: &Visitor) -> Answer<()> {
    if visitor.role == Role::Admin {
        return Ok(());
    }
    let detail = "commands, hooks and what leaves this machine are for administrators";
    Err(Problem::forbidden(detail))
}

fn outside() -> Problem {
    let detail = "there can be no such directory below a root of this server; `--root` adds one";
    Problem::new(StatusCode::FORBIDDEN, "outside-roots", "not a directory to write to", detail)
}

/// Where a directory is that may yet have to be made.
async fn below_roots(gateway: &Gateway, path: String) -> Answer<Option<PathBuf>> {
    let (roots, data) = (gateway.config.roots.clone(), gateway.config.data.clone());
    let resolve = move || {
        let data = data.canonicalize().unwrap_or(data);
        roots.resolve_new(path.as_ref()).filter(|real| !real.starts_with(data))
    };
    tokio::task::spawn_blocking(resolve).await.map_err(|it| Problem::failed(&it))
}

/// An address that can be written down: whatever could be a key has no place in it.
fn address(url: String) -> Answer<String> {
    let rest = url.split_once("://").map(|(_, rest)| rest);
    let plain = rest.is_some_and(|it| !it.is_empty() && !it.contains(['@', '?', '#']));
    if plain && !url.chars().any(|it| it.is_control() || it == ' ') {
        return Ok(url);
    }
    let detail = "an address is like `https://host/path` or `s3://bucket/path`, without a name, a \
                  password or a query in it; `token_variable` names where a token is";
    Err(Problem::invalid(detail))
}

fn variable(name: String) -> Answer<String> {
    let fits = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
    if (1..=100).contains(&name.len()) && name.chars().all(fits) {
        return Ok(name);
    }
    Err(Problem::invalid("a variable has capital letters, digits and `_`"))
}
