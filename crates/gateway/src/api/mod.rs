//! What browsers and programs see: the only place where it is derived.
//!
//! Each file has the types of one thing and the operations on it. The OpenAPI document is made from
//! the same attributes that make the routes, so neither can have what the other lacks.

mod document;
mod driving;
mod files;
mod follow;
mod frame;
mod granting;
mod grants;
mod item;
mod items;
mod lines;
mod person;
mod problem;
mod prompts;
mod requests;
mod sent;
mod session;
mod sessions;
mod sign_in;
mod tokens;
mod turn;
mod usages;
mod watching;
mod wish;

use axum::Router;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use item::{ItemKind, ShownCall, ShownItem, ShownPrompt};
pub use person::Person;
pub use problem::{Problem, ShownResolution};
pub use session::{ShownSession, Tier};
pub use turn::ShownTurn;
pub use wish::{ShownCommit, ShownHooks, ShownPace, ShownTarget, ShownWish};

pub(crate) use frame::{Frame, Piece, ShownAsk, ShownPatch, Snapshot};

use crate::gateway::Gateway;

/// Where the API is.
pub(crate) const PREFIX: &str = "/api/v1";

/// Groups of operations.
mod tag {
    pub(super) const ACCESS: &str = "access";
    pub(super) const SESSIONS: &str = "sessions";
    pub(super) const PROMPTS: &str = "prompts";
    pub(super) const REQUESTS: &str = "requests";
    pub(super) const DRIVING: &str = "driving";
    pub(super) const CONVERSATION: &str = "conversation";
    pub(super) const JOURNAL: &str = "journal";
    pub(super) const USAGE: &str = "usage";
}

/// The routes of the API.
pub(crate) fn router() -> Router<Gateway> {
    let (router, openapi) = operations().split_for_parts();
    document::served(router, &openapi)
}

fn operations() -> OpenApiRouter<Gateway> {
    let operations = OpenApiRouter::new()
        .routes(routes!(sign_in::health))
        .routes(routes!(sign_in::sign_in))
        .routes(routes!(sign_in::sign_out))
        .routes(routes!(sign_in::me))
        .routes(routes!(tokens::list, tokens::add))
        .routes(routes!(tokens::revoke))
        .routes(routes!(sessions::list, sessions::create))
        .routes(routes!(sessions::show, sessions::rename, sessions::delete))
        .routes(routes!(sessions::fork))
        .routes(routes!(prompts::list, prompts::send))
        .routes(routes!(prompts::edit, prompts::remove))
        .routes(routes!(prompts::shift))
        .routes(routes!(requests::list_all))
        .routes(routes!(requests::list))
        .routes(routes!(requests::answer))
        .routes(routes!(requests::ledger_of_all))
        .routes(routes!(requests::ledger))
        .routes(routes!(grants::list_all))
        .routes(routes!(grants::list))
        .routes(routes!(grants::revoke))
        .routes(routes!(driving::interrupt))
        .routes(routes!(driving::set))
        .routes(routes!(driving::rewind, driving::preview))
        .routes(routes!(driving::context))
        .routes(routes!(driving::changes))
        .routes(routes!(driving::wake))
        .routes(routes!(driving::close))
        .routes(routes!(files::touched))
        .routes(routes!(watching::show))
        .routes(routes!(files::changed))
        .routes(routes!(files::find))
        .routes(routes!(files::directories))
        .routes(routes!(items::older))
        .routes(routes!(items::whole))
        .routes(routes!(lines::list))
        .routes(routes!(lines::picture))
        .routes(routes!(lines::events))
        .routes(routes!(follow::session))
        .routes(routes!(follow::all))
        .routes(routes!(usages::usage));
    OpenApiRouter::with_openapi(document::begun()).nest(PREFIX, operations)
}
