//! The OpenAPI document.

use axum::Router;
use axum::http::header;
use axum::routing::get;
use serde_json::{Value, json};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;

use super::{PREFIX, Problem, ShownItem, ShownResolution, ShownTurn};
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
    let problem = json!({
        "description": "it was not done, and why",
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    });
    let paths = document["paths"].as_object_mut();
    for operation in paths.into_iter().flat_map(|it| it.values_mut()) {
        for operation in operation.as_object_mut().into_iter().flat_map(|it| it.values_mut()) {
            if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
                responses.insert("4XX".to_owned(), problem.clone());
            }
        }
    }
    document
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
                assert!(operation["responses"]["4XX"].is_object(), "{method} {path}");
                let said = operation["summary"].as_str().unwrap_or_default();
                assert!(said.ends_with('.') || !said.is_empty(), "{method} {path} has no summary");
                assert!(operation["tags"][0].is_string(), "{method} {path} has no tag");
            }
        }
    }
}
