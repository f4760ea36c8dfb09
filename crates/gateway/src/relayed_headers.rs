//! The headers of requests about projects that one machine passes on to another, and of their responses. No
//! other header crosses: neither cookies and tokens one way, nor anything that a page would obey the other way.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// What a request may say.
const OF_REQUESTS: [HeaderName; 6] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::RANGE,
];

/// What a response may say.
const OF_RESPONSES: [HeaderName; 7] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_DISPOSITION,
    header::CONTENT_RANGE,
    header::ACCEPT_RANGES,
    header::ETAG,
    header::CACHE_CONTROL,
];

pub(crate) fn of_request(headers: &HeaderMap) -> Vec<(String, String)> {
    select(headers, &OF_REQUESTS)
}

pub(crate) fn of_response(headers: &HeaderMap) -> Vec<(String, String)> {
    select(headers, &OF_RESPONSES)
}

/// Reads the headers of a request from another machine.
pub(crate) fn read_request(headers: &[(String, String)]) -> HeaderMap {
    read(headers, &OF_REQUESTS)
}

/// Reads the headers of a response from another machine.
pub(crate) fn read_response(headers: &[(String, String)]) -> HeaderMap {
    read(headers, &OF_RESPONSES)
}

fn select(headers: &HeaderMap, names: &[HeaderName]) -> Vec<(String, String)> {
    let text = |name: &HeaderName| headers.get(name).and_then(|it| it.to_str().ok());
    let found = |name: &HeaderName| Some((name.to_string(), text(name)?.to_owned()));
    names.iter().filter_map(found).collect()
}

fn read(headers: &[(String, String)], names: &[HeaderName]) -> HeaderMap {
    let mut found = HeaderMap::new();
    for (name, value) in headers {
        let name = names.iter().find(|it| it.as_str() == name);
        if let (Some(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
            found.insert(name, value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header};

    use super::{of_request, read_response};

    #[test]
    fn neither_secrets_nor_orders_to_the_page_cross() {
        let mut headers = HeaderMap::new();
        for name in [header::COOKIE, header::AUTHORIZATION, header::ORIGIN, header::IF_MATCH] {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        assert_eq!(of_request(&headers), [("if-match".to_owned(), "x".to_owned())]);
        let said = ["set-cookie", "content-security-policy", "location", "etag", "x-any"];
        let said = said.map(|name| (name.to_owned(), "x".to_owned()));
        let read = read_response(&said);
        assert_eq!((read.len(), read.get("etag").is_some()), (1, true));
    }
}
