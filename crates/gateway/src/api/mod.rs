//! What browsers and programs see. Nothing else in the crate decides that.
//!
//! Each file has the types of one subject and the operations on it. The OpenAPI document is made
//! from the same attributes as the routes, so both always have the same operations.

mod access;
mod agent;
mod consent;
mod conversation;
mod extract;
mod large_body;
mod openapi;
mod prompts;
mod requests;
mod session_list;
mod sessions;
#[cfg(test)]
mod typescript;
mod usage;
mod watch;

use axum::Router;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use conversation::{FrameCache, PromptStateName, prerender};
pub(crate) use session_list::SessionList;
pub(crate) use usage::UsageCache;

use crate::config::API_PREFIX;
use crate::gateway::Gateway;

/// Groups of operations.
mod tag {
    pub(super) const ACCESS: &str = "access";
    pub(super) const SESSIONS: &str = "sessions";
    pub(super) const PROMPTS: &str = "prompts";
    pub(super) const REQUESTS: &str = "requests";
    pub(super) const AGENT: &str = "agent";
    pub(super) const CONVERSATION: &str = "conversation";
    pub(super) const JOURNAL: &str = "journal";
    pub(super) const USAGE: &str = "usage";
}

/// The routes of the API, including its OpenAPI document.
pub(crate) fn router() -> Router<Gateway> {
    let (router, openapi) = operations().split_for_parts();
    openapi::add_document(router, &openapi)
}

fn operations() -> OpenApiRouter<Gateway> {
    let operations = OpenApiRouter::new()
        .routes(routes!(access::health))
        .routes(routes!(access::sign_in))
        .routes(routes!(access::sign_out))
        .routes(routes!(access::me))
        .routes(routes!(access::list_tokens, access::create_token))
        .routes(routes!(access::revoke_token))
        .routes(routes!(sessions::list, sessions::create))
        .routes(routes!(sessions::show, sessions::rename, sessions::delete))
        .routes(routes!(sessions::fork))
        .routes(routes!(prompts::list, prompts::send))
        .routes(routes!(prompts::edit, prompts::remove))
        .routes(routes!(prompts::reorder))
        .routes(routes!(requests::list_all))
        .routes(routes!(requests::list))
        .routes(routes!(requests::answer))
        .routes(routes!(requests::ledger_of_all))
        .routes(routes!(requests::ledger))
        .routes(routes!(requests::list_all_grants))
        .routes(routes!(requests::list_grants))
        .routes(routes!(requests::revoke_grant))
        .routes(routes!(agent::interrupt))
        .routes(routes!(agent::change_settings))
        .routes(routes!(agent::rewind, agent::preview_rewind))
        .routes(routes!(agent::context))
        .routes(routes!(agent::changes))
        .routes(routes!(agent::wake))
        .routes(routes!(agent::close))
        .routes(routes!(watch::show))
        .routes(routes!(usage::usage))
        .merge(conversation::operations());
    OpenApiRouter::with_openapi(openapi::empty()).nest(API_PREFIX, operations)
}
