//! What is done with files that an agent changes: the configuration, who may set it, and the state.
//!
//! The role `drive` may have files copied below the roots and committed. What runs a command of the
//! client or leaves the machine needs the role `admin`: it acts with the server's rights long after
//! the client has left.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use journal::SessionId;
use serde::{Deserialize, Deserializer, Serialize};
use session::SessionOptions;
use utoipa::ToSchema;
use uuid::Uuid;
use wire::note::{
    CommitConfig, HookConfig, Setting, Trigger, WatchChoice, WatchConfig, WatchTarget,
};

use super::extract::PathParams;
use super::sessions::find_record;
use super::tag;
use crate::access::{AuthenticatedClient, Role};
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};
use crate::watch_state::{WatchLogKind, WatchLogLine, WatchState};

/// A watch configuration in a request. `null` and a missing field mean different things.
#[derive(Debug, Default)]
pub(super) enum WatchSetting {
    #[default]
    Unchanged,
    Set(Option<WatchSettingBody>),
}

/// A watch configuration, or `"inherit"` for the default of the server.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = WatchSetting)]
pub(super) enum WatchSettingBody {
    Named(WatchSettingName),
    Own(Box<WatchConfigBody>),
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WatchSettingName {
    /// The default of the server.
    Inherit,
}

/// What is done with files that the agent changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WatchConfig)]
pub(crate) struct WatchConfigBody {
    /// Where changed files are copied.
    #[serde(default)]
    targets: Vec<WatchTargetBody>,
    /// When they are copied.
    #[serde(default)]
    every: PaceBody,
    /// Whether to scan for files that shell commands changed.
    #[serde(default)]
    scan: bool,
    /// Only these files: names or paths, with `*` as a wildcard.
    #[serde(default)]
    include: Vec<String>,
    /// Not these files.
    #[serde(default)]
    exclude: Vec<String>,
    #[serde(default)]
    commit: Option<CommitConfigBody>,
    /// Programs to run on changes; needs the role `admin`.
    #[serde(default)]
    hooks: HooksConfigBody,
}

/// Where changed files are copied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[schema(as = WatchTarget)]
pub(crate) enum WatchTargetBody {
    /// A directory below a root of the server.
    Directory {
        /// An absolute path.
        path: String,
    },
    /// A web server or an object store; needs the role `admin`.
    Address {
        /// `https://…`, `s3://…`, …, without a secret.
        url: String,
        /// The environment variable of the server that holds a bearer token for it.
        #[serde(default)]
        token_variable: Option<String>,
    },
    /// A command for each file; needs the role `admin`.
    Command {
        /// A shell command line, with the path as `$1`.
        line: String,
    },
}

/// How many changes are handled together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Trigger)]
pub(crate) enum PaceBody {
    /// Each one.
    #[default]
    Change,
    /// Those of a turn, at its end.
    Turn,
}

/// How changes are committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CommitConfig)]
pub(crate) struct CommitConfigBody {
    #[serde(default = "per_turn")]
    every: PaceBody,
    /// With the placeholders `{summary}`, `{prompt}`, `{session}`, `{files}`, `{tool}` and
    /// `{count}`.
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    trailers: Option<Vec<String>>,
    /// As `Name <address>`.
    #[serde(default)]
    author: Option<String>,
    /// A branch for the session, with the placeholder `{session}`.
    #[serde(default)]
    branch: Option<String>,
    /// A directory below which the session gets its own working tree.
    #[serde(default)]
    worktree: Option<String>,
}

/// Programs to run on changes, each a shell command line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = HooksConfig)]
pub(crate) struct HooksConfigBody {
    /// Runs before a file changes.
    pre: Option<String>,
    /// Runs after a file has changed.
    post: Option<String>,
    /// Runs at the end of a turn.
    stop: Option<String>,
    /// Whether to run GitButler's hooks.
    gitbutler: bool,
}

fn per_turn() -> PaceBody {
    PaceBody::Turn
}

impl<'de> Deserialize<'de> for WatchSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(value) = Option::<serde_json::Value>::deserialize(deserializer)? else {
            return Ok(Self::Set(None));
        };
        // Read by hand, so that the error names the field that is wrong.
        let body = if value.is_string() {
            serde_json::from_value(value).map(WatchSettingBody::Named)
        } else {
            serde_json::from_value(value).map(WatchSettingBody::Own)
        };
        body.map(|body| Self::Set(Some(body))).map_err(serde::de::Error::custom)
    }
}

impl From<PaceBody> for Trigger {
    fn from(pace: PaceBody) -> Self {
        match pace {
            PaceBody::Change => Self::Change,
            PaceBody::Turn => Self::Turn,
        }
    }
}

impl From<Trigger> for PaceBody {
    fn from(pace: Trigger) -> Self {
        match pace {
            Trigger::Change => Self::Change,
            Trigger::Turn => Self::Turn,
        }
    }
}

impl From<WatchConfig> for WatchConfigBody {
    fn from(config: WatchConfig) -> Self {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let target = |target| match target {
            WatchTarget::Directory { path } => WatchTargetBody::Directory { path: text(path) },
            WatchTarget::Address { url, token_variable } => {
                WatchTargetBody::Address { url, token_variable }
            }
            WatchTarget::Command { line } => WatchTargetBody::Command { line },
        };
        let commit = |it: CommitConfig| CommitConfigBody {
            every: it.every.into(),
            message: it.message,
            trailers: it.trailers,
            author: it.author,
            branch: it.branch,
            worktree: it.worktree.map(text),
        };
        let HookConfig { pre, post, stop, gitbutler } = config.hooks;
        Self {
            targets: config.targets.into_iter().map(target).collect(),
            every: config.every.into(),
            scan: config.scan,
            include: config.include,
            exclude: config.exclude,
            commit: config.commit.map(commit),
            hooks: HooksConfigBody { pre, post, stop, gitbutler },
        }
    }
}

/// What is done with files that a session's agent changes, and how far that has come.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WatchResponse {
    /// The configuration that applies; none if nothing is done.
    config: Option<WatchConfigBody>,
    /// Whether it is the default of the server. A session without a configuration of its own
    /// inherits, even if there is no default.
    inherited: bool,
    /// The last entry that was processed.
    processed: u64,
    /// The last entry of the session.
    last: u64,
    /// The last log lines, oldest first.
    log: Vec<WatchLogLineResponse>,
}

/// Something that was done, or that failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WatchLogLine)]
pub(super) struct WatchLogLineResponse {
    /// In milliseconds since 1970.
    at: u64,
    kind: WatchLogKindName,
    /// Whether it is an error.
    error: bool,
    text: String,
    /// The file it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The id of a commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = WatchLogKind)]
pub(super) enum WatchLogKindName {
    /// A commit was made.
    Commit,
    /// A file was copied, or left out.
    Sync,
    /// A hook ran, or denied a call.
    Hook,
    Error,
}

impl From<WatchLogLine> for WatchLogLineResponse {
    fn from(line: WatchLogLine) -> Self {
        let WatchLogLine { at, error, kind, text, path, commit } = line;
        let kind = match kind {
            _ if error => WatchLogKindName::Error,
            WatchLogKind::Commit => WatchLogKindName::Commit,
            WatchLogKind::Sync => WatchLogKindName::Sync,
            WatchLogKind::Hook => WatchLogKindName::Hook,
        };
        Self { at, kind, error, text, path, commit }
    }
}

/// What is done with changed files unless a session has a configuration of its own.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DefaultWatchResponse {
    /// None if nothing is done.
    default: Option<WatchConfigBody>,
}

#[utoipa::path(get, path = "/watch", tag = tag::SESSIONS,
    responses((status = 200, body = DefaultWatchResponse)))]
/// What is done with changed files unless a session has a configuration of its own.
pub(super) async fn show_default(State(gateway): State<Gateway>) -> Json<DefaultWatchResponse> {
    let default = gateway.sessions.config().watch.default.as_deref().cloned();
    Json(DefaultWatchResponse { default: default.map(WatchConfigBody::from) })
}

#[utoipa::path(get, path = "/sessions/{id}/watch", tag = tag::SESSIONS, params(("id" = Uuid, Path)),
    responses((status = 200, body = WatchResponse)))]
/// What is done with files that a session's agent changes, and how far that has come.
pub(super) async fn show(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<WatchResponse>> {
    let record = find_record(&gateway, id).await?;
    let options: SessionOptions = serde_json::from_str(&record.options).unwrap_or_default();
    let default = gateway.sessions.config().watch.default.as_deref();
    let (state, log) = WatchState::load(gateway.sessions.journal(), SessionId(id)).await?;
    Ok(Json(WatchResponse {
        config: options.watch.resolve(default).cloned().map(WatchConfigBody::from),
        inherited: options.watch.is_inherit(),
        processed: state.unwrap_or_default().after,
        last: record.last.0,
        log: log.into_iter().map(WatchLogLineResponse::from).collect(),
    }))
}

/// How many targets, patterns and trailers there may be, each.
const MAX_ENTRIES: usize = 32;

/// The longest text.
const MAX_TEXT_BYTES: usize = 4000;

impl WatchSetting {
    /// The requested setting, if the client may set it.
    pub(super) async fn authorize(
        self,
        gateway: &Gateway,
        client: &AuthenticatedClient,
    ) -> ApiResult<Option<Setting>> {
        match self {
            Self::Unchanged => Ok(None),
            Self::Set(None) => Ok(Some(Setting::Watch(WatchChoice::Off))),
            // The person who started the server chose the default, so every client may use it.
            Self::Set(Some(WatchSettingBody::Named(WatchSettingName::Inherit))) => {
                Ok(Some(Setting::Watch(WatchChoice::Inherit)))
            }
            Self::Set(Some(WatchSettingBody::Own(config))) => {
                let config = config.authorize(gateway, client).await?;
                Ok(Some(Setting::Watch(WatchChoice::Own(Box::new(config)))))
            }
        }
    }
}

impl WatchConfigBody {
    async fn authorize(
        self,
        gateway: &Gateway,
        client: &AuthenticatedClient,
    ) -> ApiResult<WatchConfig> {
        self.check_sizes()?;
        let needs_admin =
            self.targets.iter().any(|it| !matches!(it, WatchTargetBody::Directory { .. }))
                || self.hooks != HooksConfigBody::default();
        if needs_admin {
            require_admin(client)?;
        }
        let mut targets = Vec::new();
        for target in self.targets {
            targets.push(match target {
                WatchTargetBody::Directory { path } => {
                    let path = below_roots(gateway, path).await?.ok_or_else(outside_roots)?;
                    WatchTarget::Directory { path }
                }
                WatchTargetBody::Address { url, token_variable } => {
                    let token_variable = token_variable.map(check_variable).transpose()?;
                    WatchTarget::Address { url: check_address(url)?, token_variable }
                }
                WatchTargetBody::Command { line } => WatchTarget::Command { line },
            });
        }
        let commit = match self.commit {
            Some(commit) => Some(commit.authorize(gateway, client).await?),
            None => None,
        };
        let HooksConfigBody { pre, post, stop, gitbutler } = self.hooks;
        Ok(WatchConfig {
            targets,
            every: self.every.into(),
            scan: self.scan,
            include: self.include,
            exclude: self.exclude,
            commit,
            hooks: HookConfig { pre, post, stop, gitbutler },
        })
    }

    fn check_sizes(&self) -> ApiResult<()> {
        let commit = self.commit.iter();
        let trailers = commit.clone().flat_map(|it| it.trailers.iter().flatten());
        let lists = [self.targets.len(), self.include.len(), self.exclude.len()];
        let too_many =
            lists.into_iter().chain([trailers.clone().count()]).any(|it| it > MAX_ENTRIES);
        let hooks = [&self.hooks.pre, &self.hooks.post, &self.hooks.stop];
        let targets = self.targets.iter().map(|target| match target {
            WatchTargetBody::Directory { path: text }
            | WatchTargetBody::Address { url: text, .. }
            | WatchTargetBody::Command { line: text } => text,
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
        if too_many
            || texts.any(|it| it.is_empty() || it.len() > MAX_TEXT_BYTES || it.contains('\0'))
        {
            let detail = format!(
                "at most {MAX_ENTRIES} of each are allowed, and none may be empty or longer than \
                 {MAX_TEXT_BYTES} bytes"
            );
            return Err(Problem::invalid(detail));
        }
        Ok(())
    }
}

impl CommitConfigBody {
    async fn authorize(
        self,
        gateway: &Gateway,
        client: &AuthenticatedClient,
    ) -> ApiResult<CommitConfig> {
        let worktree = match self.worktree {
            Some(path) => Some(authorize_worktree(gateway, client, path).await?),
            None => None,
        };
        if self.branch.as_deref().is_some_and(|it| it.starts_with('-')) {
            return Err(Problem::invalid("a branch name must not start with a dash"));
        }
        Ok(CommitConfig {
            every: self.every.into(),
            message: self.message,
            trailers: self.trailers,
            author: self.author,
            branch: self.branch,
            worktree,
        })
    }
}

async fn authorize_worktree(
    gateway: &Gateway,
    client: &AuthenticatedClient,
    path: String,
) -> ApiResult<PathBuf> {
    if let Some(path) = below_roots(gateway, path.clone()).await? {
        return Ok(path);
    }
    require_admin(client)?;
    Some(PathBuf::from(path)).filter(|path| path.is_absolute()).ok_or_else(outside_roots)
}

fn require_admin(client: &AuthenticatedClient) -> ApiResult<()> {
    if client.role == Role::Admin {
        return Ok(());
    }
    let detail = "commands, hooks and targets outside this machine need the role `admin`";
    Err(Problem::forbidden(detail))
}

fn outside_roots() -> Problem {
    let detail = "the directory is not below a root of this server; add a root with `--root`";
    Problem::new(StatusCode::FORBIDDEN, "outside-roots", "directory not allowed", detail)
}

/// Resolves a directory that may not exist yet; `None` if it is outside the roots.
async fn below_roots(gateway: &Gateway, path: String) -> ApiResult<Option<PathBuf>> {
    let (roots, data) = (gateway.config.roots.clone(), gateway.config.data.clone());
    let resolve = move || {
        let data = data.canonicalize().unwrap_or(data);
        roots.resolve_new(path.as_ref()).filter(|real| !real.starts_with(data))
    };
    tokio::task::spawn_blocking(resolve).await.map_err(|it| Problem::failed(&it))
}

/// Checks an address, which is stored and so must not contain a secret.
fn check_address(url: String) -> ApiResult<String> {
    let rest = url.split_once("://").map(|(_, rest)| rest);
    let plain = rest.is_some_and(|it| !it.is_empty() && !it.contains(['@', '?', '#']));
    if plain && !url.chars().any(|it| it.is_control() || it == ' ') {
        return Ok(url);
    }
    let detail = "an address has the form `https://host/path` or `s3://bucket/path`, without a user, \
                  a password or a query; use `token_variable` for a token";
    Err(Problem::invalid(detail))
}

fn check_variable(name: String) -> ApiResult<String> {
    let fits = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
    if (1..=100).contains(&name.len()) && name.chars().all(fits) {
        return Ok(name);
    }
    Err(Problem::invalid("a variable name has capital letters, digits and `_`"))
}
