//! What a method and a path ask for.

use axum::http::Method;

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/messages/count_tokens`
    CountTokens,
    /// `GET /v1/models`
    Models,
    /// `GET /v1/models/{id}`
    Model(&'a str),
    /// `GET /api/hello`, by which the CLI sees whether it is connected; 2.1.325 sends `HEAD`.
    Hello,
    /// `HEAD /`, which 2.1.197 sends to warm up a connection.
    Root,
    /// A path of the API with another method.
    WrongMethod,
    /// No path of the API.
    Unknown,
}

impl<'a> Route<'a> {
    pub(super) fn of(method: &Method, path: &'a str) -> Self {
        let (right, route) = match path {
            "/v1/messages" => (Method::POST, Self::Messages),
            "/v1/messages/count_tokens" => (Method::POST, Self::CountTokens),
            "/v1/models" => (Method::GET, Self::Models),
            "/api/hello" => (Method::GET, Self::Hello),
            "/" => (Method::HEAD, Self::Root),
            _ => match path.strip_prefix("/v1/models/") {
                Some(id) if !id.is_empty() => (Method::GET, Self::Model(id)),
                _ => return Self::Unknown,
            },
        };
        // Whatever can be fetched can be asked after.
        let asked_after = *method == Method::HEAD && right == Method::GET;
        match route {
            _ if *method == right || asked_after => route,
            Self::Root => Self::Unknown,
            _ => Self::WrongMethod,
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::Route;

    #[test]
    fn paths_lead_where_the_api_has_them() {
        let cases = [
            (Method::POST, "/v1/messages", Route::Messages),
            (Method::GET, "/v1/messages", Route::WrongMethod),
            (Method::POST, "/v1/messages/count_tokens", Route::CountTokens),
            (Method::GET, "/v1/models", Route::Models),
            (Method::GET, "/v1/models/claude-x", Route::Model("claude-x")),
            (Method::GET, "/v1/models/", Route::Unknown),
            (Method::GET, "/api/hello", Route::Hello),
            (Method::HEAD, "/api/hello", Route::Hello),
            (Method::POST, "/api/hello", Route::WrongMethod),
            (Method::HEAD, "/", Route::Root),
            (Method::GET, "/", Route::Unknown),
            (Method::POST, "/v1/complete", Route::Unknown),
        ];
        for (method, path, route) in cases {
            assert_eq!(Route::of(&method, path), route, "{method} {path}");
        }
    }
}
