//! The routes of all APIs.

use axum::http::Method;

use super::batches::ApiBatchRoute;
use super::dialect::ApiDialect;

/// What a method and a path request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiRoute<'a> {
    /// `POST /v1/messages`
    Messages,
    /// A message in another API.
    Dialect(ApiDialect),
    /// Something about message batches.
    Batch(ApiBatchRoute<'a>),
    /// `POST /v1/messages/count_tokens`
    CountTokens,
    /// `POST /v1beta/models/{id}:countTokens`
    GeminiCount,
    /// `GET /v1/models`
    Models,
    /// `GET /v1/models/{id}`
    Model(&'a str),
    /// `GET /models`, where the base URL of `OpenAI` has no version.
    OpenAiModels,
    /// `GET /v1beta/models`
    GeminiModels,
    /// `GET /v1beta/models/{id}`
    GeminiModel(&'a str),
    /// `GET /api/hello`, with which the CLI tests its connection. 2.1.325 sends `HEAD`.
    Hello,
    /// `HEAD /`, which 2.1.197 sends to open a connection early.
    Root,
    /// A path of the API with another method.
    WrongMethod,
    Unknown,
}

impl<'a> ApiRoute<'a> {
    pub(super) fn new(method: &Method, path: &'a str) -> Self {
        Self::find(method, path).unwrap_or(Self::Unknown)
    }

    fn find(method: &Method, path: &'a str) -> Option<Self> {
        if let Some(route) = ApiBatchRoute::find(method, path) {
            return Some(route.map_or(Self::WrongMethod, Self::Batch));
        }
        let (expected, route) = match path {
            "/v1/messages" => (Method::POST, Self::Messages),
            "/v1/messages/count_tokens" => (Method::POST, Self::CountTokens),
            "/v1/models" => (Method::GET, Self::Models),
            "/api/hello" => (Method::GET, Self::Hello),
            "/models" => (Method::GET, Self::OpenAiModels),
            "/v1beta/models" => (Method::GET, Self::GeminiModels),
            "/" => (Method::HEAD, Self::Root),
            _ => Self::in_another_api(path)?,
        };
        // Every path with `GET` also accepts `HEAD`.
        let is_head = *method == Method::HEAD && expected == Method::GET;
        match route {
            _ if *method == expected || is_head => Some(route),
            Self::Root => None,
            _ => Some(Self::WrongMethod),
        }
    }

    /// Paths that contain a model or that start in more than one way.
    fn in_another_api(path: &'a str) -> Option<(Method, Self)> {
        if let Some(dialect) = ApiDialect::from_path(path) {
            return Some((Method::POST, Self::Dialect(dialect)));
        }
        if path.ends_with(":countTokens") {
            return Some((Method::POST, Self::GeminiCount));
        }
        let model = |prefix| path.strip_prefix(prefix).filter(|it: &&str| !it.is_empty());
        let route = match model("/v1beta/models/") {
            Some(id) => Self::GeminiModel(id),
            None => Self::Model(model("/v1/models/")?),
        };
        Some((Method::GET, route))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::ApiRoute;
    use crate::api::dialect::ApiDialect;

    #[test]
    fn methods_and_paths_select_the_routes_of_the_api() {
        let cases = [
            (Method::POST, "/v1/messages", ApiRoute::Messages),
            (Method::GET, "/v1/messages", ApiRoute::WrongMethod),
            (Method::POST, "/v1/messages/count_tokens", ApiRoute::CountTokens),
            (Method::GET, "/v1/models", ApiRoute::Models),
            (Method::GET, "/v1/models/claude-x", ApiRoute::Model("claude-x")),
            (Method::GET, "/v1/models/", ApiRoute::Unknown),
            (Method::GET, "/api/hello", ApiRoute::Hello),
            (Method::HEAD, "/api/hello", ApiRoute::Hello),
            (Method::POST, "/api/hello", ApiRoute::WrongMethod),
            (Method::HEAD, "/", ApiRoute::Root),
            (Method::GET, "/", ApiRoute::Unknown),
            (Method::POST, "/v1/complete", ApiRoute::Unknown),
            (Method::POST, "/v1/responses", ApiRoute::Dialect(ApiDialect::Responses)),
            (Method::POST, "/chat/completions", ApiRoute::Dialect(ApiDialect::Chat)),
            (
                Method::POST,
                "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
                ApiRoute::Dialect(ApiDialect::Gemini),
            ),
            (Method::POST, "/v1beta/models/x:countTokens", ApiRoute::GeminiCount),
            (Method::GET, "/v1beta/models/x", ApiRoute::GeminiModel("x")),
            (Method::GET, "/v1/responses", ApiRoute::WrongMethod),
            (Method::POST, "/v1beta/models/x:embedContent", ApiRoute::WrongMethod),
        ];
        for (method, path, route) in cases {
            assert_eq!(ApiRoute::new(&method, path), route, "{method} {path}");
        }
    }
}
