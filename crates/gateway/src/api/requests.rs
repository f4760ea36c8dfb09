//! Requests of agents, the ledger of how they were resolved, and grants.
//!
//! A session looks up its grants for every call, so a revoked grant is asked for again from the
//! next call on.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use journal::{Grant, RequestRecord, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use session::{GrantScope, RequestAnswer, RuleChoice};
use utoipa::ToSchema;
use uuid::Uuid;
use wire::consent::{self, describe_rule};
use wire::note::Outcome;
use wire::outgoing::JsonObject;

use super::consent::{ChoiceResponse, ConsentResponse, RequestKindName, RuleIdName};
use super::extract::{JsonBody, PathParams};
use super::large_body::large_json;
use super::options::authorize_mode;
use super::sessions::{find_record, parse_mode};
use super::tag;
use crate::access::AuthenticatedClient;
use crate::gateway::{Gateway, now};
use crate::limits::MAX_REQUESTS_BYTES;
use crate::problem::{ActorResponse, ApiResult, OutcomeName, Problem, ResolutionResponse};

/// How many entries of the ledger are returned.
const MAX_LEDGER_ENTRIES: usize = 500;

/// Requests that wait for an answer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RequestsResponse {
    requests: Vec<RequestResponse>,
}

/// Resolved requests, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LedgerResponse {
    entries: Vec<RequestResponse>,
}

/// A request of an agent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RequestEntry)]
pub(super) struct RequestResponse {
    /// The agent's id of it.
    id: String,
    session: Uuid,
    kind: RequestKindName,
    tool: String,
    /// The input of the call, as JSON. In the ledger it is empty if there is too much before it.
    input: String,
    /// The agent's own choices; without any, the answer is *Allow* or *Deny*.
    choices: Vec<ChoiceResponse>,
    /// Rules that the CLI suggests, as JSON.
    suggestions: Option<String>,
    /// When it was made, in milliseconds since 1970.
    opened: u64,
    /// When it will be denied if no answer comes in time.
    expires: Option<u64>,
    resolution: Option<ResolutionResponse>,
    #[serde(flatten)]
    consent: ConsentResponse,
}

/// An answer to a request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerRequest {
    /// Not needed if one of the agent's choices is the answer.
    #[serde(default)]
    decision: Option<AnswerDecision>,
    /// The id of one of the choices that the agent offered. Nothing else is given then.
    #[serde(default)]
    choice: Option<String>,
    /// The reason for a denial, which the agent is told.
    #[serde(default)]
    message: Option<String>,
    /// The input the tool gets instead.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    updated_input: Option<Box<RawValue>>,
    /// Answers by the text of the question.
    #[serde(default)]
    answers: Option<BTreeMap<String, String>>,
    /// Allows similar calls without asking.
    #[serde(default)]
    remember: Option<RememberRequest>,
    /// The permission mode to continue in when a plan is approved.
    #[serde(default)]
    mode: Option<String>,
    /// Whether a denial also ends the turn.
    #[serde(default)]
    interrupt: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Decision)]
pub(super) enum AnswerDecision {
    Allow,
    Deny,
}

/// A grant to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RememberRequest {
    /// The id of a rule that was offered with the request.
    rule: RuleIdName,
    /// When the grant expires, in milliseconds since 1970; never by default.
    #[serde(default)]
    until: Option<u64>,
    #[serde(default)]
    scope: GrantScopeName,
}

/// The sessions in which a grant applies.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = GrantScope)]
pub(super) enum GrantScopeName {
    /// This session.
    #[default]
    Session,
    /// Every session in this directory.
    Directory,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AnswerResponse {
    outcome: OutcomeName,
}

/// What is allowed without asking.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GrantsResponse {
    grants: Vec<GrantResponse>,
}

/// A permission for more than one call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Grant)]
pub(super) struct GrantResponse {
    id: Uuid,
    /// The session it applies in.
    session: Option<Uuid>,
    /// The directory it applies in, for every session there.
    directory: Option<String>,
    tool: String,
    /// What it allows, for a person. The pattern is shown behind it.
    label: String,
    /// The command, file, directory, address, host or input that it is about; none if it covers all calls
    /// of the tool. It is a text and never a pattern with wildcards.
    pattern: Option<String>,
    /// When it expires, in milliseconds since 1970; never if there is none.
    until: Option<u64>,
    by: ActorResponse,
    created: u64,
}

impl AnswerRequest {
    fn into_answer(self) -> ApiResult<(RequestAnswer, Option<Outcome>)> {
        let gives_others = self.message.is_some()
            || self.updated_input.is_some()
            || self.answers.is_some()
            || self.remember.is_some()
            || self.mode.is_some()
            || self.interrupt;
        let decision = match (self.decision, self.choice) {
            // The agent is told nothing but the choice, so anything else would be lost.
            (None, Some(_)) if gives_others => {
                return Err(Problem::invalid("a `choice` is the whole answer; leave out the rest"));
            }
            (None, Some(choice)) => return Ok((RequestAnswer::Choose { choice }, None)),
            (Some(decision), None) => decision,
            _ => return Err(Problem::invalid("give either a `decision` or a `choice`")),
        };
        if matches!(decision, AnswerDecision::Deny) {
            let message = consent::denial(self.message.as_deref().unwrap_or("")).to_owned();
            return Ok((
                RequestAnswer::Deny { message, interrupt: self.interrupt },
                Some(Outcome::Denied),
            ));
        }
        if let Some(answers) = self.answers {
            let answers = RequestAnswer::Answers(answers.into_iter().collect());
            return Ok((answers, Some(Outcome::Allowed)));
        }
        let input = self.updated_input.map(|it| JsonObject::parse(it.get()));
        let input = input.transpose().map_err(|it| Problem::invalid(it.to_string()))?;
        let outcome = match self.remember {
            Some(_) => Outcome::AllowedAndRemembered,
            None => Outcome::Allowed,
        };
        let remember = self.remember.map(|it| RuleChoice {
            rule: it.rule.into(),
            until: it.until,
            scope: match it.scope {
                GrantScopeName::Session => GrantScope::Session,
                GrantScopeName::Directory => GrantScope::Directory,
            },
        });
        let mode = self.mode.as_deref().map(parse_mode).transpose()?;
        Ok((RequestAnswer::Allow { input, remember, mode }, Some(outcome)))
    }
}

impl RequestResponse {
    fn new(session: SessionId, it: RequestRecord, consent: ConsentResponse) -> Self {
        Self {
            id: it.id,
            session: session.0,
            kind: it.kind.into(),
            tool: it.tool_name,
            input: it.input,
            choices: it.choices.into_iter().map(ChoiceResponse::from).collect(),
            suggestions: it.suggestions,
            opened: it.opened,
            expires: it.expires,
            resolution: it.resolution.as_ref().map(ResolutionResponse::from),
            consent,
        }
    }
}

impl From<Grant> for GrantResponse {
    fn from(it: Grant) -> Self {
        Self {
            id: it.id,
            session: it.session.map(|it| it.0),
            directory: it.directory.map(|it| it.to_string_lossy().into_owned()),
            label: describe_rule(&it.tool, it.kind),
            tool: it.tool,
            pattern: it.pattern,
            until: it.until,
            by: it.by.into(),
            created: it.created,
        }
    }
}

async fn open_requests(gateway: &Gateway, session: Option<SessionId>) -> ApiResult<Response> {
    let journal = gateway.sessions.journal();
    let mut directories: HashMap<SessionId, String> = HashMap::new();
    let mut requests = Vec::new();
    for (session, record) in journal.open_requests(session).await? {
        let directory = match directories.entry(session) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let Some(found) = journal.session(session).await? else { continue };
                unknown.insert(found.directory.to_string_lossy().into_owned())
            }
        };
        let consent = ConsentResponse::of_call(
            record.kind.into(),
            &record.tool_name,
            &record.input,
            directory,
        );
        requests.push(RequestResponse::new(session, record, consent));
    }
    large_json(gateway, &RequestsResponse { requests }).await
}

async fn read_ledger(gateway: &Gateway, session: Option<SessionId>) -> ApiResult<Response> {
    let entries = gateway.sessions.journal().ledger(session, MAX_LEDGER_ENTRIES).await?;
    let response =
        |(session, record)| RequestResponse::new(session, record, ConsentResponse::default());
    let mut bytes = 0;
    let mut entries: Vec<_> = entries.into_iter().map(response).collect();
    for entry in &mut entries {
        bytes += entry.input.len();
        if bytes > MAX_REQUESTS_BYTES {
            entry.input = String::new();
        }
    }
    large_json(gateway, &LedgerResponse { entries }).await
}

#[utoipa::path(get, path = "/requests", tag = tag::REQUESTS, responses((status = 200, body = RequestsResponse)))]
/// Open requests of all sessions.
pub(super) async fn list_all(State(gateway): State<Gateway>) -> ApiResult<Response> {
    open_requests(&gateway, None).await
}

#[utoipa::path(get, path = "/sessions/{id}/requests", tag = tag::REQUESTS, params(("id" = Uuid, Path)),
    responses((status = 200, body = RequestsResponse)))]
/// Open requests of a session.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Response> {
    open_requests(&gateway, Some(SessionId(id))).await
}

#[utoipa::path(post, path = "/sessions/{id}/requests/{request}", tag = tag::REQUESTS,
    params(("id" = Uuid, Path), ("request" = String, Path)), request_body = AnswerRequest,
    responses((status = 200, body = AnswerResponse)))]
/// Answers a request. The first answer counts; later ones get 409 with its resolution.
pub(super) async fn answer(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams((id, request)): PathParams<(Uuid, String)>,
    JsonBody(body): JsonBody<AnswerRequest>,
) -> ApiResult<Json<AnswerResponse>> {
    let (answer, outcome) = body.into_answer()?;
    if let RequestAnswer::Allow { mode: Some(mode), .. } = &answer {
        authorize_mode(&gateway, &client, *mode)?;
    }
    let session = gateway.sessions.open(SessionId(id)).await?;
    session.answer(&request, answer, client.actor()).await?;
    let outcome = match outcome {
        Some(outcome) => outcome,
        // What a choice means is known by the session, which has recorded it.
        None => recorded_outcome(&gateway, SessionId(id), &request).await?,
    };
    Ok(Json(AnswerResponse { outcome: outcome.into() }))
}

/// The outcome of a request that was answered.
async fn recorded_outcome(
    gateway: &Gateway,
    session: SessionId,
    request: &str,
) -> ApiResult<Outcome> {
    let entries = gateway.sessions.journal().ledger(Some(session), MAX_LEDGER_ENTRIES).await?;
    let record = entries.into_iter().map(|(_, record)| record).find(|it| it.id == request);
    let resolution = record.and_then(|it| it.resolution);
    Ok(resolution.map_or(Outcome::Allowed, |it| it.outcome))
}

#[utoipa::path(get, path = "/ledger", tag = tag::REQUESTS, responses((status = 200, body = LedgerResponse)))]
/// Resolved requests of all sessions: who allowed what.
pub(super) async fn ledger_of_all(State(gateway): State<Gateway>) -> ApiResult<Response> {
    read_ledger(&gateway, None).await
}

#[utoipa::path(get, path = "/sessions/{id}/ledger", tag = tag::REQUESTS, params(("id" = Uuid, Path)),
    responses((status = 200, body = LedgerResponse)))]
/// Resolved requests of a session: who allowed what.
pub(super) async fn ledger(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Response> {
    read_ledger(&gateway, Some(SessionId(id))).await
}

#[utoipa::path(get, path = "/grants", tag = tag::REQUESTS, responses((status = 200, body = GrantsResponse)))]
/// Grants of all sessions.
pub(super) async fn list_all_grants(
    State(gateway): State<Gateway>,
) -> ApiResult<Json<GrantsResponse>> {
    let grants = gateway.sessions.journal().grants(now()).await?;
    Ok(Json(GrantsResponse { grants: grants.into_iter().map(GrantResponse::from).collect() }))
}

#[utoipa::path(get, path = "/sessions/{id}/grants", tag = tag::REQUESTS, params(("id" = Uuid, Path)),
    responses((status = 200, body = GrantsResponse)))]
/// Grants that apply in a session: its own and those of its directory.
pub(super) async fn list_grants(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<GrantsResponse>> {
    let directory = find_record(&gateway, id).await?.directory;
    let mut grants = gateway.sessions.journal().grants(now()).await?;
    grants.retain(|it| it.applies_in(SessionId(id), &directory));
    Ok(Json(GrantsResponse { grants: grants.into_iter().map(GrantResponse::from).collect() }))
}

#[utoipa::path(delete, path = "/grants/{grant}", tag = tag::REQUESTS, params(("grant" = Uuid, Path)),
    responses((status = 204, description = "the next call is asked for again")))]
/// Revokes a grant.
pub(super) async fn revoke_grant(
    State(gateway): State<Gateway>,
    PathParams(grant): PathParams<Uuid>,
) -> ApiResult<StatusCode> {
    if !gateway.sessions.journal().grants(now()).await?.iter().any(|it| it.id == grant) {
        return Err(Problem::not_found("grant"));
    }
    gateway.sessions.revoke_grant(grant).await?;
    Ok(StatusCode::NO_CONTENT)
}
