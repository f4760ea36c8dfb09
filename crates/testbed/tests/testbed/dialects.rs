//! The APIs beside Messages over HTTP.

use std::time::Duration;

use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;
use towpath_testbed::api::{ApiModel, ApiOptions, ApiRequestKind, ApiScript, ApiServer};
use towpath_testbed::scenario::{ScenarioBlock, ScenarioFault, ScenarioReply, ScenarioStreamFault};

/// An API: where a stream and a whole reply are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    Responses,
    Chat,
    Gemini,
}

const ALL: [Api; 3] = [Api::Responses, Api::Chat, Api::Gemini];

impl Api {
    async fn post(self, server: &ApiServer, prompt: &str, stream: bool) -> Response {
        let path = match (self, stream) {
            (Self::Responses, _) => "/v1/responses",
            (Self::Chat, _) => "/v1/chat/completions",
            (Self::Gemini, true) => "/v1beta/models/m:streamGenerateContent?alt=sse",
            (Self::Gemini, false) => "/v1beta/models/m:generateContent",
        };
        let parameters = json!({ "type": "object", "properties": { "cmd": { "type": "string" } } });
        let tool = json!({ "name": "run_command", "parameters": parameters });
        let body = match self {
            Self::Responses => {
                let mut tool = tool;
                tool["type"] = json!("function");
                json!({ "model": "m", "stream": stream, "input": prompt, "tools": [tool] })
            }
            Self::Chat => json!({
                "model": "m", "stream": stream, "tools": [{ "type": "function", "function": tool }],
                "messages": [{ "role": "user", "content": prompt }],
            }),
            Self::Gemini => json!({
                "contents": [{ "role": "user", "parts": [{ "text": prompt }] }],
                "tools": [{ "functionDeclarations": [tool] }],
            }),
        };
        let request = test_support::http_client().post(format!("{}{path}", server.url)).json(&body);
        request.bearer_auth("sk-secret").send().await.expect("a response")
    }

    /// What the end of a complete stream contains.
    fn end(self) -> &'static str {
        match self {
            Self::Responses => "\"response.completed\"",
            Self::Chat => "data: [DONE]",
            Self::Gemini => "\"finishReason\":\"STOP\"",
        }
    }

    fn text(self, whole: &Value) -> &Value {
        match self {
            Self::Responses => &whole["output"][0]["content"][0]["text"],
            Self::Chat => &whole["choices"][0]["message"]["content"],
            Self::Gemini => &whole["candidates"][0]["content"]["parts"][0]["text"],
        }
    }

    fn error_message(self, body: &Value) -> String {
        let error = &body["error"];
        match self {
            Self::Gemini => format!("{} {}", error["status"], error["message"]),
            _ => format!("{} {}", error["type"], error["message"]),
        }
    }
}

fn text(text: &str) -> ScenarioReply {
    ScenarioReply { blocks: vec![ScenarioBlock::Text(text.to_owned())], ..ScenarioReply::default() }
}

fn after(after: usize, fault: ScenarioStreamFault) -> ScenarioReply {
    ScenarioReply { fault: Some(ScenarioFault::Stream { after, fault }), ..text("one two three") }
}

async fn server(replies: impl IntoIterator<Item = ScenarioReply>) -> ApiServer {
    let script = ApiScript::new(replies).expect("no recordings");
    ApiServer::start(script, ApiOptions::default()).await.expect("a free port")
}

#[tokio::test]
async fn replies_of_a_script_are_used_in_order_in_every_api() {
    for api in ALL {
        let server = server([text("first"), text("second")]).await;
        let streamed = api.post(&server, "hi", true).await.text().await.unwrap();
        assert!(streamed.contains("first") && streamed.contains(api.end()), "{streamed}");
        let whole: Value = api.post(&server, "hi", false).await.json().await.unwrap();
        assert_eq!(api.text(&whole), "second", "{whole}");
        assert!(server.requests().iter().all(|it| it.kind == ApiRequestKind::Main));
    }
}

#[tokio::test]
async fn streams_fail_as_the_script_says_in_every_api() {
    for api in ALL {
        let error = ScenarioStreamFault::SseError {
            kind: "overloaded_error".to_owned(),
            message: "too much".to_owned(),
        };
        let replies = [
            after(1, ScenarioStreamFault::Disconnect),
            after(2, ScenarioStreamFault::Truncate),
            after(1, error),
            after(1, ScenarioStreamFault::Garbage),
        ];
        let server = server(replies).await;
        assert!(api.post(&server, "a", true).await.text().await.is_err(), "{api:?}");
        let truncated = api.post(&server, "b", true).await.text().await.unwrap();
        assert!(truncated.contains("two") && !truncated.contains("three"), "{truncated}");
        assert!(!truncated.contains(api.end()), "{truncated}");
        let failed = api.post(&server, "c", true).await.text().await.unwrap();
        assert!(failed.contains("too much") && !failed.contains(api.end()), "{failed}");
        let garbage = api.post(&server, "d", true).await.text().await.unwrap();
        assert!(garbage.contains("not an event") && garbage.contains(api.end()), "{garbage}");
    }
}

#[tokio::test]
async fn errors_and_waits_are_those_of_the_script_in_every_api() {
    for api in ALL {
        let fault = ScenarioFault::Status {
            status: 429,
            kind: "rate_limit_error".to_owned(),
            message: "slow down".to_owned(),
            headers: vec![("retry-after".to_owned(), "1".to_owned())],
        };
        let slow = ScenarioReply { pace: Duration::from_millis(30), ..text("one two three") };
        let limited = ScenarioReply { fault: Some(fault), ..ScenarioReply::default() };
        let server = server([limited, slow]).await;
        let response = api.post(&server, "a", true).await;
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()["retry-after"], "1");
        let kind = if api == Api::Gemini { "RESOURCE_EXHAUSTED" } else { "rate_limit_error" };
        let body: Value = response.json().await.unwrap();
        assert_eq!(api.error_message(&body), format!("\"{kind}\" \"slow down\""));
        let start = Instant::now();
        api.post(&server, "b", true).await.text().await.unwrap();
        assert!(start.elapsed() >= Duration::from_millis(60), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn without_a_script_a_prompt_can_ask_for_a_call_of_an_offered_tool() {
    let server = ApiServer::start(ApiModel::Generated, ApiOptions::default()).await.unwrap();
    for api in ALL {
        let whole = api.post(&server, "$ ls -l", false).await.text().await.unwrap();
        let arguments =
            if api == Api::Gemini { r#"{"cmd":"ls -l"}"# } else { r#"{\"cmd\":\"ls -l\"}"# };
        assert!(whole.contains("run_command") && whole.contains(arguments), "{whole}");
        let failed = api.post(&server, "error", true).await;
        assert_eq!(failed.status(), StatusCode::BAD_REQUEST);
        let huge = format!("{} the end", "word ".repeat(400_000));
        let whole: Value = api.post(&server, &huge, false).await.json().await.unwrap();
        assert!(api.text(&whole).as_str().unwrap().starts_with("You wrote: “word word"), "{whole}");
    }
}

#[tokio::test]
async fn models_are_listed_and_unknown_routes_fail_in_the_format_of_each_api() {
    let server = server([text("hi")]).await;
    let get = async |path: &str, header: (&str, &str)| {
        let request = test_support::http_client().get(format!("{}{path}", server.url));
        let response = request.header(header.0, header.1).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let (bearer, key) = (("authorization", "Bearer x"), ("x-goog-api-key", "sk-secret"));
    let (_, openai) = get("/v1/models", bearer).await;
    assert_eq!(
        (&openai["object"], &openai["data"][0]["object"]),
        (&json!("list"), &json!("model"))
    );
    let (_, anthropic) = get("/v1/models", ("anthropic-version", "2023-06-01")).await;
    assert_eq!(anthropic["data"][0]["type"], "model");
    let (_, gemini) = get("/v1beta/models", key).await;
    assert_eq!(gemini["models"][0]["name"], "models/stub-model");
    let (_, gemini) = get("/v1beta/models/any-model", key).await;
    assert_eq!(gemini["name"], "models/any-model");

    let (status, openai) = get("/v1/threads", bearer).await;
    assert_eq!((status, &openai["error"]["type"]), (404, &json!("not_found_error")));
    let (status, gemini) = get("/v1beta/cachedContents?key=sk-secret&x=1", key).await;
    assert_eq!((status, &gemini["error"]["status"]), (404, &json!("NOT_FOUND")));
    let requests = server.requests();
    assert_eq!(requests.last().unwrap().path, "/v1beta/cachedContents?key=(redacted)&x=1");
    assert!(!format!("{requests:?}").contains("sk-secret"));
}
