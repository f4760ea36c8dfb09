//! What browsers and programs see. Nothing else in the crate decides that.
//!
//! Each file has the types of one subject and the operations on it. The OpenAPI document is made
//! from the same attributes as the routes, so both always have the same operations.

mod access;
mod acp;
mod agent;
mod agent_info;
mod agents;
mod consent;
mod conversation;
mod extract;
mod folded_transcripts;
mod frame_sender;
mod git;
mod handover;
mod large_body;
mod metrics;
mod move_session;
mod openapi;
mod options;
mod project_files;
mod projects;
mod prompts;
mod push;
mod qr_code;
mod requests;
mod schedule;
mod search;
mod session_list;
mod session_marks;
mod sessions;
mod terminals;
mod transcripts;
#[cfg(test)]
mod typescript;
mod usage;
mod watch;
mod workers;
mod worktrees;

use axum::Router;
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use agents::AgentVersions;
pub(crate) use conversation::{
    CACHE_MEMORY, FrameCache, PromptStateName, prerender, while_authorized,
};
pub(crate) use folded_transcripts::FoldedTranscripts;
pub(crate) use project_files::{FILE_POLICY, PDF_POLICY};
pub(crate) use projects::ProjectCache;
pub(crate) use session_list::SessionList;
pub(crate) use sessions::SessionResponse;
pub(crate) use terminals::{relay_terminal, with_terminal_limits};
pub(crate) use usage::UsageCache;
pub(crate) use worktrees::{NewWorktree, RemovableWorktree};

use crate::config::{ACP_PATH, API_PREFIX, METRICS_PATH};
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
    pub(super) const GIT: &str = "git";
    pub(super) const FILES: &str = "files";
    pub(super) const TRANSCRIPTS: &str = "transcripts";
    pub(super) const TERMINALS: &str = "terminals";
}

/// The routes of the API, including its OpenAPI document.
pub(crate) fn router() -> Router<Gateway> {
    let (router, openapi) = operations().split_for_parts();
    // Another protocol, which has a schema of its own.
    let router = router.route(ACP_PATH, get(acp::connect));
    let router = router.route(METRICS_PATH, get(metrics::show));
    openapi::add_document(router, &openapi)
}

/// The routes about the project of a session, for requests that other machines pass on.
pub(crate) fn project_router() -> Router<Gateway> {
    let operations = OpenApiRouter::new()
        .merge(git::operations())
        .merge(project_files::operations())
        .merge(terminals::relayed_operations())
        .merge(conversation::project_operations())
        .routes(routes!(worktrees::show));
    let (router, _) = OpenApiRouter::new().nest(API_PREFIX, operations).split_for_parts();
    router
}

fn operations() -> OpenApiRouter<Gateway> {
    let operations = OpenApiRouter::new()
        .routes(routes!(access::health))
        .routes(routes!(access::sign_in))
        .routes(routes!(access::sign_out))
        .routes(routes!(access::me))
        .routes(routes!(access::list_tokens, access::create_token))
        .routes(routes!(access::revoke_token))
        .routes(routes!(push::subscribe, push::unsubscribe))
        .routes(routes!(push::test))
        .routes(routes!(sessions::list, sessions::create))
        .routes(routes!(sessions::show, sessions::change, sessions::delete))
        .routes(routes!(sessions::fork))
        .routes(routes!(handover::hand_over))
        .routes(routes!(move_session::move_session))
        .routes(routes!(options::list))
        .routes(routes!(options::trust, options::distrust))
        .routes(routes!(prompts::list, prompts::send))
        .routes(routes!(prompts::edit, prompts::remove))
        .routes(routes!(prompts::reorder))
        .routes(routes!(schedule::list, schedule::add))
        .routes(routes!(schedule::remove))
        .routes(routes!(requests::list_all))
        .routes(routes!(requests::list))
        .routes(routes!(requests::answer))
        .routes(routes!(requests::ledger_of_all))
        .routes(routes!(requests::ledger))
        .routes(routes!(requests::list_all_grants))
        .routes(routes!(requests::list_grants))
        .routes(routes!(requests::revoke_grant))
        .routes(routes!(agent::interrupt))
        .routes(routes!(agent::resume_queue))
        .routes(routes!(agent::change_settings))
        .routes(routes!(agent::rewind, agent::preview_rewind))
        .routes(routes!(agent::context))
        .routes(routes!(agent::changes))
        .routes(routes!(agent::wake))
        .routes(routes!(agent::close))
        .routes(routes!(agent_info::show))
        .routes(routes!(agent_info::files))
        .routes(routes!(agents::list))
        .routes(routes!(workers::list))
        .routes(routes!(watch::show))
        .routes(routes!(watch::show_default))
        .routes(routes!(usage::usage))
        .routes(routes!(search::find))
        .routes(routes!(transcripts::list))
        .routes(routes!(transcripts::show))
        .routes(routes!(projects::list))
        .routes(routes!(projects::repository))
        .routes(routes!(worktrees::show))
        .merge(git::operations())
        .merge(project_files::operations())
        .merge(terminals::operations())
        .merge(conversation::operations());
    OpenApiRouter::with_openapi(openapi::empty()).nest(API_PREFIX, operations)
}
