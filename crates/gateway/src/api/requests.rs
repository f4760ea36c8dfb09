//! Requests to a person, and the ledger of what came of them.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use journal::{RequestRecord, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use session::machine::{Answer as Given, GrantScope, RuleChoice};
use utoipa::ToSchema;
use uuid::Uuid;
use wire::consent::RuleId;
use wire::note::{Outcome, Wants};
use wire::say::JsonObject;

use super::problem::{Answer, ShownResolution};
use super::sent::{Named, Sent};
use super::sessions::mode;
use super::{Problem, tag};
use crate::gateway::Gateway;
use crate::visitor::Visitor;

/// How many entries of the ledger are told at a time.
const LEDGER: usize = 500;

/// Requests that wait for a person.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RequestList {
    requests: Vec<ShownRequest>,
}

/// What was asked and what came of it, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ledger {
    entries: Vec<ShownRequest>,
}

/// A request to a person.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShownRequest {
    /// The agent's id of it.
    id: String,
    /// The session.
    session: Uuid,
    /// What sort of answer it wants: `permission`, `answers`, `plan_approval`.
    #[schema(value_type = String)]
    wants: Wants,
    /// The tool it is about.
    tool: String,
    /// What the tool would be given, as JSON.
    input: String,
    /// Rules the agent would have remembered, as JSON.
    suggestions: Option<String>,
    /// When it was asked, in milliseconds since 1970.
    opened: u64,
    /// When it will be refused for want of an answer.
    expires: Option<u64>,
    /// What came of it.
    resolution: Option<ShownResolution>,
}

/// An answer to a request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Decided {
    /// Yes or no.
    decision: Decision,
    /// Why not; the agent is told so.
    #[serde(default)]
    message: Option<String>,
    /// What the tool is given instead.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    updated_input: Option<Box<RawValue>>,
    /// Answers by the text of the question.
    #[serde(default)]
    answers: Option<BTreeMap<String, String>>,
    /// What is allowed beyond this call.
    #[serde(default)]
    remember: Option<Remembered>,
    /// The permission mode from here on, where a plan is approved.
    #[serde(default)]
    mode: Option<String>,
    /// Whether a refusal ends the turn.
    #[serde(default)]
    interrupt: bool,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Decision {
    /// Yes.
    Allow,
    /// No.
    Deny,
}

/// What is allowed beyond a call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Remembered {
    /// The id of a rule offered with the request: `exact`, `directory`, `host` or `tool`.
    #[schema(value_type = String)]
    rule: RuleId,
    /// When the grant expires, in milliseconds since 1970; never by default.
    #[serde(default)]
    until: Option<u64>,
    #[serde(default)]
    scope: ScopeName,
}

/// The sessions in which a grant applies.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ScopeName {
    /// In this session.
    #[default]
    Session,
    /// In every session of this directory.
    Directory,
}

/// What came of an answer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Answered {
    #[schema(value_type = String)]
    outcome: Outcome,
}

impl Decided {
    fn into_answer(self) -> Answer<(Given, Outcome)> {
        if matches!(self.decision, Decision::Deny) {
            let message = self.message.filter(|it| !it.trim().is_empty());
            let message = message.unwrap_or_else(|| "The user said no.".to_owned());
            return Ok((Given::Deny { message, interrupt: self.interrupt }, Outcome::Denied));
        }
        if let Some(answers) = self.answers {
            return Ok((Given::Answers(answers.into_iter().collect()), Outcome::Allowed));
        }
        let input = self.updated_input.map(|it| JsonObject::parse(it.get()));
        let input = input.transpose().map_err(|it| Problem::invalid(it.to_string()))?;
        let outcome = match self.remember {
            Some(_) => Outcome::AllowedAndRemembered,
            None => Outcome::Allowed,
        };
        let remember = self.remember.map(|it| RuleChoice {
            rule: it.rule,
            until: it.until,
            scope: match it.scope {
                ScopeName::Session => GrantScope::Session,
                ScopeName::Directory => GrantScope::Directory,
            },
        });
        let mode = self.mode.as_deref().map(mode).transpose()?;
        Ok((Given::Allow { input, remember, mode }, outcome))
    }
}

fn shown((session, it): (SessionId, RequestRecord)) -> ShownRequest {
    ShownRequest {
        id: it.id,
        session: session.0,
        wants: it.wants,
        tool: it.tool_name,
        input: it.input,
        suggestions: it.suggestions,
        opened: it.opened,
        expires: it.expires,
        resolution: it.resolution.as_ref().map(ShownResolution::from),
    }
}

async fn waiting(gateway: &Gateway, session: Option<SessionId>) -> Answer<Json<RequestList>> {
    let requests = gateway.sessions.journal().open_requests(session).await?;
    Ok(Json(RequestList { requests: requests.into_iter().map(shown).collect() }))
}

async fn told(gateway: &Gateway, session: Option<SessionId>) -> Answer<Json<Ledger>> {
    let entries = gateway.sessions.journal().ledger(session, LEDGER).await?;
    Ok(Json(Ledger { entries: entries.into_iter().map(shown).collect() }))
}

#[utoipa::path(get, path = "/requests", tag = tag::REQUESTS, responses((status = 200, body = RequestList)))]
/// Requests of all sessions that wait for a person.
pub(super) async fn list_all(State(gateway): State<Gateway>) -> Answer<Json<RequestList>> {
    waiting(&gateway, None).await
}

#[utoipa::path(get, path = "/sessions/{id}/requests", tag = tag::REQUESTS, params(("id" = Uuid, Path)),
    responses((status = 200, body = RequestList)))]
/// Requests of a session that wait for a person.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
) -> Answer<Json<RequestList>> {
    waiting(&gateway, Some(SessionId(id))).await
}

#[utoipa::path(post, path = "/sessions/{id}/requests/{request}", tag = tag::REQUESTS,
    params(("id" = Uuid, Path), ("request" = String, Path)), request_body = Decided,
    responses((status = 200, body = Answered)))]
/// Answers a request. The first answer counts; later ones are told of it with 409.
pub(super) async fn answer(
    State(gateway): State<Gateway>,
    visitor: Visitor,
    Named((id, request)): Named<(Uuid, String)>,
    Sent(decided): Sent<Decided>,
) -> Answer<Json<Answered>> {
    let (answer, outcome) = decided.into_answer()?;
    let session = gateway.sessions.open(SessionId(id)).await?;
    session.answer(&request, answer, visitor.actor()).await?;
    Ok(Json(Answered { outcome }))
}

#[utoipa::path(get, path = "/ledger", tag = tag::REQUESTS, responses((status = 200, body = Ledger)))]
/// Who allowed what, in all sessions.
pub(super) async fn ledger_of_all(State(gateway): State<Gateway>) -> Answer<Json<Ledger>> {
    told(&gateway, None).await
}

#[utoipa::path(get, path = "/sessions/{id}/ledger", tag = tag::REQUESTS, params(("id" = Uuid, Path)),
    responses((status = 200, body = Ledger)))]
/// Who allowed what, in a session.
pub(super) async fn ledger(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
) -> Answer<Json<Ledger>> {
    told(&gateway, Some(SessionId(id))).await
}
