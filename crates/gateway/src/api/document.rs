//! The OpenAPI document.

use axum::Router;
use axum::http::header;
use axum::routing::get;
use serde_json::{Value, json};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;

use super::{PREFIX, Problem, ShownItem, ShownResolution, ShownTurn, tag};
use crate::gateway::Gateway;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Towpath", description = "Your coding agents, over HTTP."),
    components(schemas(Problem, ShownResolution, ShownItem, ShownTurn))
)]
struct Begun;

/// The document before there is an operation in it.
pub(super) fn begun() -> OpenApi {
    Begun::openapi()
}

/// Adds the document to the routes it describes.
pub(super) fn served(router: Router<Gateway>, openapi: &OpenApi) -> Router<Gateway> {
    let text = finished(openapi).to_string();
    let document = move || async move { ([(header::CONTENT_TYPE, "application/json")], text) };
    router.route(&format!("{PREFIX}/openapi.json"), get(document))
}

/// The document with what holds for every operation: how to sign in, and how it says no.
fn finished(openapi: &OpenApi) -> Value {
    let mut document = serde_json::to_value(openapi).unwrap_or_default();
    document["openapi"] = json!("3.1.0");
    document["security"] = json!([{ "token": [] }, { "cookie": [] }]);
    document["components"]["securitySchemes"] = json!({
        "token": { "type": "http", "scheme": "bearer" },
        "cookie": { "type": "apiKey", "in": "cookie", "name": "towpath" },
    });
    for (path, operations) in document["paths"].as_object_mut().into_iter().flatten() {
        for (method, operation) in operations.as_object_mut().into_iter().flatten() {
            let refusals = refusals(method, path, operation);
            if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
                for status in refusals {
                    responses.insert(status.to_string(), refusal(status));
                }
            }
        }
    }
    document
}

/// The statuses an operation may say no with. What the guard and the reading of a request say is the
/// same everywhere, so it is told from an operation's shape and not written at each.
fn refusals(method: &str, path: &str, operation: &Value) -> Vec<u16> {
    let mut all = vec![400, 401, 403, 421, 429];
    if path.contains('{') {
        all.push(404);
    }
    if operation["requestBody"].is_object() {
        all.extend([408, 413, 415]);
    }
    // Whatever goes through a session, or takes a name, may come at the wrong moment.
    let asks_agent = operation["tags"][0] == tag::DRIVING;
    let changes = method != "get" && !path.contains("/sign-") && !path.contains("/grants/");
    if asks_agent || changes {
        all.extend([409, 507]);
    }
    all
}

fn refusal(status: u16) -> Value {
    let why = match status {
        400 => "it was not understood",
        401 => "nobody is signed in, or the token is none",
        403 => {
            "the token does not allow it, or the request comes from somebody else's page or is for a directory outside the roots"
        }
        404 => "there is none",
        408 => "the body did not arrive in time",
        409 => "it is not possible now; `type` says why",
        413 => "the body is too large",
        415 => "the body is no JSON",
        421 => "this server has another name",
        429 => "too many wrong tokens came from there",
        _ => "there is no room left to store it",
    };
    json!({
        "description": why,
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    })
}

#[cfg(test)]
mod tests {
    use super::finished;
    use crate::api::operations;

    #[test]
    fn every_operation_says_how_it_says_no_and_what_it_is() {
        let document = finished(operations().get_openapi());
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
                let said = operation["summary"].as_str().unwrap_or_default();
                assert!(said.ends_with('.') || !said.is_empty(), "{method} {path} has no summary");
                assert!(operation["tags"][0].is_string(), "{method} {path} has no tag");
            }
        }
    }
}
