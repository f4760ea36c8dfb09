//! Session options: what there is, who may set what, profiles, and trust in the files of projects.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use session::profiles::{
    ConfigError, Profile, ProfileError, Profiles, ProjectConfig, TrustDecision, TrustError,
};
use session::{
    AgentCatalog, OPTIONS, OptionChanges, OptionError, OptionKind, OptionRole, OptionSpec,
    SessionOptions,
};
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::{RefOr, schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};
use wire::outgoing::PermissionMode;

use super::extract::{JsonBody, QueryParams};
use super::sessions::resolve_directory;
use super::tag;
use crate::access::{AuthenticatedClient, Role};
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

/// Values of options by name; `null` is the default.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct OptionValues(pub(super) Map<String, Value>);

impl ToSchema for OptionValues {
    fn name() -> std::borrow::Cow<'static, str> {
        "OptionValues".into()
    }
}

impl PartialSchema for OptionValues {
    /// Made from the table of options.
    fn schema() -> RefOr<Schema> {
        let described = |types: Vec<Type>, spec: &OptionSpec| {
            ObjectBuilder::new().schema_type(SchemaType::Array(types)).description(Some(spec.help))
        };
        let mut object = ObjectBuilder::new()
            .description(Some("Values of options by name; `null` is the default."));
        for spec in OPTIONS {
            let text = ObjectBuilder::new().schema_type(Type::String);
            let property: RefOr<Schema> = match spec.kind {
                OptionKind::Text { .. }
                | OptionKind::Choice(_)
                | OptionKind::Agent
                | OptionKind::Duration => described(vec![Type::String, Type::Null], spec).into(),
                OptionKind::Integer { .. } => {
                    described(vec![Type::Integer, Type::Null], spec).into()
                }
                OptionKind::Dollars => described(vec![Type::Number, Type::Null], spec).into(),
                OptionKind::Switch { .. } => {
                    described(vec![Type::Boolean, Type::Null], spec).into()
                }
                OptionKind::List | OptionKind::Directories => ArrayBuilder::new()
                    .schema_type(SchemaType::Array(vec![Type::Array, Type::Null]))
                    .items(text)
                    .description(Some(spec.help))
                    .into(),
                OptionKind::Variables => described(vec![Type::Object, Type::Null], spec)
                    .additional_properties(Some(AdditionalProperties::RefOr(text.into())))
                    .into(),
                OptionKind::Mcp => {
                    described(vec![Type::Object, Type::String, Type::Null], spec).into()
                }
            };
            object = object.property(spec.name, property);
        }
        schema::Schema::Object(object.build()).into()
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct OptionsQuery {
    /// The directory of the session to be created: its default profile and the file of its project.
    #[serde(default)]
    cwd: Option<String>,
}

/// What a session can be given.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OptionsResponse {
    options: Vec<OptionResponse>,
    /// The profiles of the server's owner.
    profiles: Vec<ProfileResponse>,
    /// Why the profiles could not be read.
    profiles_error: Option<String>,
    /// Whether sessions may be given the mode `bypassPermissions`.
    bypass_allowed: bool,
    /// The `towpath.toml` of the project that the directory belongs to.
    project: Option<ProjectResponse>,
    /// Why that file is not used, even if it is trusted.
    project_error: Option<String>,
}

/// The description of an option.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OptionResponse {
    name: &'static str,
    /// The argument of `towpath run`, without dashes.
    flag: &'static str,
    /// `text`, `multiline`, `choice`, `agent`, `integer`, `dollars`, `duration`, `switch`, `list`,
    /// `directories`, `variables` or `mcp`.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u32>,
    /// What a switch is if it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<bool>,
    help: &'static str,
    /// The role that may set it: `drive` or `admin`.
    role: &'static str,
    /// When a change takes effect: `live`, `restart` (before the next turn) or `creation` (only for
    /// new sessions).
    effect: &'static str,
    /// Whether this client may set it.
    settable: bool,
}

/// A named set of options.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ProfileResponse {
    name: String,
    description: Option<String>,
    /// Secrets are masked unless the client is an admin.
    options: OptionValues,
    /// Whether sessions in the directory get it if they ask for no other.
    default: bool,
}

/// The `towpath.toml` of a project.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ProjectResponse {
    path: String,
    /// Its whole text. Control characters and others that could hide a part of it are written as
    /// `\u{…}`, and long runs of blank lines and spaces are counted.
    text: String,
    /// The SHA-256 of its content, to be sent back to trust it.
    digest: String,
    /// Whether someone has trusted this content.
    trusted: bool,
    profiles: Vec<ProfileResponse>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TrustRequest {
    /// A directory of the project.
    cwd: String,
    /// The digest of the content that was shown.
    digest: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DistrustRequest {
    /// A directory of the project.
    cwd: String,
}

#[utoipa::path(get, path = "/options", tag = tag::SESSIONS, params(OptionsQuery),
    responses((status = 200, body = OptionsResponse)))]
/// The options of sessions, and the profiles.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    QueryParams(query): QueryParams<OptionsQuery>,
) -> ApiResult<Json<OptionsResponse>> {
    let directory = match &query.cwd {
        Some(cwd) => Some(resolve_directory(&gateway, cwd).await?),
        None => None,
    };
    let bypass_allowed = gateway.sessions.config().allow_bypass;
    let profiles = gateway.sessions.profiles();
    let is_admin = client.role >= Role::Admin;
    let listed = blocking(move || ListedProfiles::load(&profiles, directory, is_admin)).await?;
    let role = client.role;
    let agents = &gateway.sessions.config().agents;
    let options = OPTIONS.iter().map(|spec| OptionResponse::new(spec, agents, role)).collect();
    Ok(Json(OptionsResponse {
        options,
        profiles: listed.profiles,
        profiles_error: listed.profiles_error,
        bypass_allowed,
        project: listed.project,
        project_error: listed.project_error,
    }))
}

#[utoipa::path(post, path = "/projects/trust", tag = tag::SESSIONS, request_body = TrustRequest,
    responses((status = 204, description = "trusted")))]
/// Trusts the present content of a project's `towpath.toml`. Needs the role `admin`.
pub(super) async fn trust(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    JsonBody(TrustRequest { cwd, digest }): JsonBody<TrustRequest>,
) -> ApiResult<StatusCode> {
    require_admin(&client, "trusting the file of a project")?;
    let directory = resolve_directory(&gateway, &cwd).await?;
    let profiles = gateway.sessions.profiles();
    blocking(move || {
        let file = profiles.project_file(&directory)?.ok_or_else(no_project_file)?;
        if file.digest != digest {
            let detail = "the file has changed since it was shown; look at it again";
            return Err(Problem::conflict("changed", detail));
        }
        profiles.decide(&file, TrustDecision::Trusted)?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await?
}

#[utoipa::path(delete, path = "/projects/trust", tag = tag::SESSIONS, request_body = DistrustRequest,
    responses((status = 204, description = "not trusted any more")))]
/// Takes back the trust in a project's `towpath.toml`. Needs the role `admin`.
pub(super) async fn distrust(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    JsonBody(DistrustRequest { cwd }): JsonBody<DistrustRequest>,
) -> ApiResult<StatusCode> {
    require_admin(&client, "taking back trust")?;
    let directory = resolve_directory(&gateway, &cwd).await?;
    let profiles = gateway.sessions.profiles();
    blocking(move || {
        let file = profiles.project_file(&directory)?.ok_or_else(no_project_file)?;
        profiles.forget(&file.path)?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await?
}

/// The options of a new session: those of a profile, then the given ones, if the client may set them.
pub(super) async fn new_options(
    gateway: &Gateway,
    client: &AuthenticatedClient,
    directory: PathBuf,
    profile: Option<String>,
    values: OptionValues,
) -> ApiResult<SessionOptions> {
    let given = authorize(gateway, client, values).await?;
    let (profiles, roots) = (gateway.sessions.profiles(), gateway.config.roots.clone());
    let (mut options, changes) = blocking(move || {
        let profile = profiles.select(&directory, profile.as_deref())?;
        let mut changes = profile.map(|it| it.options).unwrap_or_default();
        changes.extend(given);
        changes.resolve_directories(&roots).map_err(|it| outside_roots(&it))?;
        let options = SessionOptions { directory, ..SessionOptions::default() };
        Ok::<_, Problem>((options, changes))
    })
    .await??;
    if changes.wants_bypass() {
        authorize_bypass(gateway, client)?;
    }
    changes.apply(&mut options)?;
    Ok(options)
}

/// The options of a new session in a directory for which the client gives none. Blocks.
pub(super) fn default_options(
    gateway: &Gateway,
    client: &AuthenticatedClient,
    directory: PathBuf,
) -> ApiResult<SessionOptions> {
    let profile = gateway.sessions.profiles().select(&directory, None)?;
    let mut changes = profile.map(|it| it.options).unwrap_or_default();
    changes.resolve_directories(&gateway.config.roots).map_err(|it| outside_roots(&it))?;
    if changes.wants_bypass() {
        authorize_bypass(gateway, client)?;
    }
    let mut options = SessionOptions { directory, ..SessionOptions::default() };
    changes.apply(&mut options)?;
    Ok(options)
}

/// Checks values and whether the client may set them. Directories are resolved.
pub(super) async fn authorize(
    gateway: &Gateway,
    client: &AuthenticatedClient,
    OptionValues(values): OptionValues,
) -> ApiResult<OptionChanges> {
    let mut changes = OptionChanges::new(&values)?;
    if changes.wants_bypass() {
        authorize_bypass(gateway, client)?;
    }
    if let Some(name) = changes.admin_options().next() {
        require_admin(client, &format!("setting `{name}`"))?;
    }
    let roots = gateway.config.roots.clone();
    let resolve = move || changes.resolve_directories(&roots).map(|()| changes);
    blocking(resolve).await?.map_err(|it| outside_roots(&it))
}

/// Refuses a permission mode that the client may not choose.
pub(super) fn authorize_mode(
    gateway: &Gateway,
    client: &AuthenticatedClient,
    mode: PermissionMode,
) -> ApiResult<()> {
    match mode {
        PermissionMode::BypassPermissions => authorize_bypass(gateway, client),
        _ => Ok(()),
    }
}

/// Refuses the mode in which the agent asks for nothing, unless the server was started for it.
pub(super) fn authorize_bypass(gateway: &Gateway, client: &AuthenticatedClient) -> ApiResult<()> {
    if !gateway.sessions.config().allow_bypass {
        let detail = "this server does not allow the mode `bypassPermissions`; start it with \
                      `towpath serve --allow-bypass`";
        return Err(Problem::forbidden(detail));
    }
    require_admin(client, "the mode `bypassPermissions`")
}

/// What is shown before a session is switched to the mode in which the agent asks for nothing.
pub(super) fn confirm_bypass() -> Problem {
    let detail = "In the mode `bypassPermissions` the agent runs every command and changes every file \
                  without asking. It is restarted for that. Only do this in a place that may be \
                  damaged, such as a container.";
    Problem::new(StatusCode::CONFLICT, "needs-confirmation", "confirmation needed", detail)
}

pub(super) fn require_admin(client: &AuthenticatedClient, what: &str) -> ApiResult<()> {
    if client.role >= Role::Admin {
        return Ok(());
    }
    Err(Problem::forbidden(&format!("{what} needs the role `admin`")))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> ApiResult<T> {
    tokio::task::spawn_blocking(work).await.map_err(|it| Problem::failed(&it))
}

fn outside_roots(error: &OptionError) -> Problem {
    let detail = error.to_string();
    Problem::new(StatusCode::FORBIDDEN, "outside-roots", "directory not allowed", detail)
}

fn no_project_file() -> Problem {
    Problem::conflict("changed", "there is no `towpath.toml` in this project")
}

/// What is read from the disk for a response.
#[derive(Default)]
struct ListedProfiles {
    profiles: Vec<ProfileResponse>,
    profiles_error: Option<String>,
    project: Option<ProjectResponse>,
    project_error: Option<String>,
}

impl ListedProfiles {
    fn load(profiles: &Profiles, directory: Option<PathBuf>, is_admin: bool) -> Self {
        let mut listed = Self::default();
        match profiles.user_config() {
            Ok(config) => {
                let default = directory.as_deref().and_then(|it| config.default_profile(it));
                let respond = |it: &Profile| {
                    ProfileResponse::new(it, Some(it.name.as_str()) == default, is_admin)
                };
                listed.profiles = config.profiles.iter().map(respond).collect();
            }
            Err(error) => listed.profiles_error = Some(error.to_string()),
        }
        match directory.map(|it| profiles.project_file(&it)).transpose() {
            Ok(Some(Some(file))) => match ProjectResponse::new(profiles, &file, is_admin) {
                Ok(project) => listed.project = Some(project),
                Err(error) => listed.project_error = Some(error.to_string()),
            },
            Ok(_) => {}
            Err(error) => listed.project_error = Some(error.to_string()),
        }
        listed
    }
}

impl ProjectResponse {
    fn new(profiles: &Profiles, file: &ProjectConfig, is_admin: bool) -> Result<Self, TrustError> {
        let default = file.default_profile().map(|it| it.name.as_str());
        let respond =
            |it: &Profile| ProfileResponse::new(it, Some(it.name.as_str()) == default, is_admin);
        Ok(Self {
            path: file.path.to_string_lossy().into_owned(),
            text: file.visible_text(),
            digest: file.digest.clone(),
            trusted: profiles.trust(file)? == Some(TrustDecision::Trusted),
            profiles: file.profiles.iter().map(respond).collect(),
        })
    }
}

impl ProfileResponse {
    fn new(profile: &Profile, default: bool, is_admin: bool) -> Self {
        let mut options = SessionOptions::default();
        // They were checked when the file was read.
        let _ = profile.options.apply(&mut options);
        let values = if is_admin { options.values() } else { options.masked_values() };
        Self {
            name: profile.name.clone(),
            description: profile.description.clone(),
            options: OptionValues(values),
            default,
        }
    }
}

impl OptionResponse {
    fn new(spec: &'static OptionSpec, agents: &AgentCatalog, role: Role) -> Self {
        let (mut choices, mut min, mut max, mut default) = (None, None, None, None);
        match spec.kind {
            OptionKind::Choice(words) => {
                choices = Some(words.iter().map(|it| (*it).to_owned()).collect());
            }
            OptionKind::Agent => choices = Some(agents.iter().map(|it| it.name.clone()).collect()),
            OptionKind::Integer { min: least, max: most } => (min, max) = (Some(least), Some(most)),
            OptionKind::Switch { default: value } => default = Some(value),
            _ => {}
        }
        let needed = match spec.role {
            OptionRole::Drive => Role::Drive,
            OptionRole::Admin => Role::Admin,
        };
        Self {
            name: spec.name,
            flag: spec.flag,
            kind: spec.kind.name(),
            choices,
            min,
            max,
            default,
            help: spec.help,
            role: spec.role.name(),
            effect: spec.effect.name(),
            settable: role >= needed,
        }
    }
}

impl From<OptionError> for Problem {
    fn from(error: OptionError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<ConfigError> for Problem {
    fn from(error: ConfigError) -> Self {
        Self::conflict("invalid-config", error.to_string())
    }
}

impl From<TrustError> for Problem {
    fn from(error: TrustError) -> Self {
        Self::failed(&error)
    }
}

impl From<ProfileError> for Problem {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Config(error) => error.into(),
            ProfileError::Trust(error) => error.into(),
            ProfileError::NoSuchProfile { .. } => Self::invalid(error.to_string()),
            ProfileError::NotTrusted { .. } => {
                let detail = format!("{error}; an admin can trust it");
                Self::conflict("not-trusted", detail)
            }
        }
    }
}

/// The options of a stored session that are set, for a client.
pub(super) fn stored_values(options: &str, is_admin: bool) -> OptionValues {
    // A session with unreadable options says so when it is used.
    let options: SessionOptions = serde_json::from_str(options).unwrap_or_default();
    OptionValues(if is_admin { options.values() } else { options.masked_values() })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use session::OPTIONS;
    use utoipa::PartialSchema as _;

    use super::OptionValues;

    #[test]
    fn the_schema_has_every_option_with_its_help() {
        let schema = serde_json::to_value(OptionValues::schema()).unwrap();
        for spec in OPTIONS {
            let property = &schema["properties"][spec.name];
            assert_eq!(property["description"], spec.help, "{}", spec.name);
            assert!(property["type"].is_array(), "{property}");
        }
        assert_eq!(schema["properties"]["environment"]["additionalProperties"]["type"], "string");
        assert!(schema["required"] == Value::Null);
    }
}
