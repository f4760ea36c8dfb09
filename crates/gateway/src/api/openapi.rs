//! The OpenAPI document, including the frames of its streams.

use axum::Router;
use axum::http::header;
use axum::routing::get;
use serde_json::{Value, json};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;

use super::conversation::{ClientFrame, ConversationFrame, SessionListFrame};
use super::tag;
use super::terminals::{TerminalClientFrame, TerminalFrame};
use crate::config::API_PREFIX;
use crate::gateway::Gateway;
use crate::problem::Problem;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Towpath", description = "Your coding agents, over HTTP."),
    components(schemas(
        Problem,
        ConversationFrame,
        SessionListFrame,
        ClientFrame,
        TerminalFrame,
        TerminalClientFrame
    ))
)]
struct EmptyDocument;

/// The document without operations.
pub(super) fn empty() -> OpenApi {
    EmptyDocument::openapi()
}

/// Adds the document to the routes it describes.
pub(super) fn add_document(router: Router<Gateway>, openapi: &OpenApi) -> Router<Gateway> {
    let text = complete(openapi).to_string();
    let document = move || async move { ([(header::CONTENT_TYPE, "application/json")], text) };
    router.route(&format!("{API_PREFIX}/openapi.json"), get(document))
}

/// Adds what applies to every operation: how to sign in, and the errors.
pub(super) fn complete(openapi: &OpenApi) -> Value {
    let mut document = serde_json::to_value(openapi).unwrap_or_default();
    document["openapi"] = json!("3.1.0");
    document["security"] = json!([{ "token": [] }, { "cookie": [] }]);
    document["components"]["securitySchemes"] = json!({
        "token": { "type": "http", "scheme": "bearer" },
        "cookie": { "type": "apiKey", "in": "cookie", "name": "towpath" },
    });
    for (path, operations) in document["paths"].as_object_mut().into_iter().flatten() {
        for (method, operation) in operations.as_object_mut().into_iter().flatten() {
            let statuses = error_statuses(method, path, operation);
            if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
                for status in statuses {
                    responses.insert(status.to_string(), error_response(status));
                }
            }
        }
    }
    document
}

/// The error statuses of an operation. Those of the access check and the extractors are the same
/// everywhere, so they are derived from an operation's shape and not written at each.
fn error_statuses(method: &str, path: &str, operation: &Value) -> Vec<u16> {
    let mut all = vec![400, 401, 403, 421, 429];
    if path.contains('{') {
        all.push(404);
    }
    if operation["requestBody"].is_object() {
        all.extend([408, 413, 415]);
    }
    // What goes through a session, or creates something, may conflict with its state.
    let asks_agent = operation["tags"][0] == tag::AGENT;
    // A directory may have no repository, and a path may be of another kind.
    let reads_project = [tag::GIT, tag::FILES].iter().any(|tag| operation["tags"][0] == *tag);
    let changes = method != "get" && !path.contains("/sign-") && !path.contains("/grants/");
    if asks_agent || changes {
        all.extend([409, 507]);
    } else if reads_project {
        all.push(409);
    }
    all
}

fn error_response(status: u16) -> Value {
    let description = match status {
        400 => "the request is invalid",
        401 => "the client is not signed in, or the token is unknown",
        403 => {
            "the role does not allow it, the request comes from another origin, or the directory is outside the roots"
        }
        404 => "not found",
        408 => "the body did not arrive in time",
        409 => "not possible now; see `type`",
        413 => "the body is too large",
        415 => "the body has another type than this operation takes",
        421 => "the server does not answer to that host name",
        429 => "too many failed sign-ins from that address",
        _ => "the disk is full",
    };
    json!({
        "description": description,
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    })
}

#[cfg(test)]
mod tests {
    use super::complete;
    use crate::api::operations;

    #[test]
    fn every_operation_has_a_summary_a_tag_and_its_errors() {
        let document = complete(operations().get_openapi());
        let paths = document["paths"].as_object().unwrap();
        assert!(paths.len() > 30, "{}", paths.len());
        for (path, operations) in paths {
            assert!(path.starts_with("/api/v1/"), "{path}");
            for (method, operation) in operations.as_object().unwrap() {
                let responses = &operation["responses"];
                assert!(responses["403"].is_object(), "{method} {path}");
                let names = path.contains('{');
                assert_eq!(responses["404"].is_object(), names, "{method} {path}");
                let sends = operation["requestBody"].is_object();
                assert_eq!(responses["415"].is_object(), sends, "{method} {path}");
                let summary = operation["summary"].as_str().unwrap_or_default();
                assert!(!summary.is_empty(), "{method} {path} has no summary");
                assert!(operation["tags"][0].is_string(), "{method} {path} has no tag");
            }
        }
    }
}
