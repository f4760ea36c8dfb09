//! The scripted API over HTTP.

use std::io::ErrorKind;
use std::time::Duration;

use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;
use towpath_testbed::api::{ApiModel, ApiOptions, ApiRequestKind, ApiScript, ApiServer};
use towpath_testbed::scenario::{
    ScenarioBlock, ScenarioFault, ScenarioHold, ScenarioReply, ScenarioStreamFault,
};

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

fn client() -> Client {
    test_support::http_client()
}

fn request(prompt: &str, stream: bool) -> Value {
    let message = json!({"role": "user", "content": prompt});
    json!({"model": "claude-opus-5-5", "max_tokens": 100, "stream": stream, "messages": [message]})
}

async fn post(server: &ApiServer, body: &Value) -> Response {
    let url = format!("{}/v1/messages?beta=true", server.url);
    let request = client().post(url).header("x-api-key", "sk-secret").json(body);
    request.send().await.expect("a response")
}

/// The events of a stream. Everything else is skipped.
fn events(stream: &str) -> Vec<Value> {
    let data = |event: &str| {
        let (name, data) = event.strip_prefix("event: ")?.split_once("\ndata: ")?;
        let data: Value = serde_json::from_str(data).ok()?;
        assert_eq!(data["type"], name);
        Some(data)
    };
    stream.split_terminator("\n\n").filter_map(data).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().expect("every event has a type")).collect()
}

fn delta_text(events: &[Value]) -> String {
    events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect()
}

#[tokio::test]
async fn a_stream_has_the_events_of_the_real_api_in_order() {
    let tool =
        ScenarioBlock::Tool { name: "Read".to_owned(), input: json!({"path": "/a"}), id: None };
    let reply = ScenarioReply {
        blocks: vec![ScenarioBlock::Text("Reading it.".to_owned()), tool],
        ..ScenarioReply::default()
    };
    let server = server([reply]).await;
    let response = post(&server, &request("read", true)).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.headers()["request-id"].to_str().unwrap().starts_with("req_"));
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    let events = events(&response.text().await.unwrap());
    let expected = [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    let seen = kinds(&events);
    assert_eq!(seen[..8], expected[..8]);
    assert_eq!(seen[seen.len() - 3..], expected[expected.len() - 3..]);
    let message = &events[0]["message"];
    assert!(message["id"].as_str().unwrap().starts_with("msg_01"));
    assert_eq!(message["model"], "claude-opus-5-5");
    assert_eq!(message["usage"]["cache_read_input_tokens"], 0);
    let call = &events[6]["content_block"];
    assert!(call["id"].as_str().unwrap().starts_with("toolu_01") && call["input"] == json!({}));
    let pieces = events.iter().filter_map(|event| event["delta"]["partial_json"].as_str());
    let pieces: Vec<&str> = pieces.collect();
    assert_eq!(pieces[0], "");
    assert_eq!(pieces.concat(), r#"{"path":"/a"}"#);
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");
}

#[tokio::test]
async fn without_streaming_the_response_is_the_whole_message() {
    let usage = json!({"cache_read_input_tokens": 7}).as_object().cloned();
    let stop = Some("stop_sequence".to_owned());
    let blocks =
        vec![ScenarioBlock::Thinking("hm".to_owned()), ScenarioBlock::Text("yes".to_owned())];
    let server = server([ScenarioReply { blocks, usage, stop, ..ScenarioReply::default() }]).await;
    let mut body = request("well?", false);
    body["stop_sequences"] = json!(["END"]);
    let message: Value = post(&server, &body).await.json().await.unwrap();
    assert_eq!(message["type"], "message");
    assert_eq!(message["content"][0]["thinking"], "hm");
    assert!(!message["content"][0]["signature"].as_str().unwrap().is_empty());
    assert_eq!(message["content"][1], json!({"type": "text", "text": "yes"}));
    assert_eq!(message["stop_reason"], "stop_sequence");
    assert_eq!(message["stop_sequence"], "END");
    assert_eq!(message["usage"]["cache_read_input_tokens"], 7);
}

#[tokio::test]
async fn a_repeated_tool_call_gets_a_new_id() {
    let tool = ScenarioBlock::Tool { name: "Read".to_owned(), input: json!({}), id: None };
    let server = server([ScenarioReply { blocks: vec![tool], ..ScenarioReply::default() }]).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let message: Value = post(&server, &request("go", false)).await.json().await.unwrap();
        ids.push((message["id"].clone(), message["content"][0]["id"].clone()));
    }
    assert!(ids[0].0 != ids[1].0 && ids[0].1 != ids[1].1, "{ids:?}");
}

#[tokio::test]
async fn errors_have_the_format_of_the_api() {
    let fault = ScenarioFault::Status {
        status: 529,
        kind: "overloaded_error".to_owned(),
        message: "Overloaded".to_owned(),
        headers: vec![("retry-after".to_owned(), "3".to_owned())],
    };
    let server = server([ScenarioReply { fault: Some(fault), ..ScenarioReply::default() }]).await;
    let response = post(&server, &request("hi", true)).await;
    assert_eq!(response.status().as_u16(), 529);
    assert_eq!(response.headers()["retry-after"], "3");
    let id = response.headers()["request-id"].to_str().unwrap().to_owned();
    let body: Value = response.json().await.unwrap();
    let error = json!({"type": "overloaded_error", "message": "Overloaded"});
    assert_eq!(body, json!({"type": "error", "error": error, "request_id": id}));

    let invalid = [
        (json!("not an object"), ""),
        (json!({"max_tokens": 1, "messages": []}), "model: Field required"),
        (
            json!({"model": "m", "messages": [{"role": "user", "content": "x"}]}),
            "max_tokens: Field required",
        ),
        (json!({"model": "m", "max_tokens": 1}), "messages: Field required"),
        (
            json!({"model": "m", "max_tokens": 1, "messages": []}),
            "messages: at least one message is required",
        ),
        (
            json!({"model": "m", "max_tokens": 1, "messages": [{"role": "x", "content": "x"}]}),
            "messages.0.role: Input should be 'user' or 'assistant'",
        ),
        (json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": 5}]}), ""),
    ];
    for (request, message) in invalid {
        let response = post(&server, &request).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{request}");
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["error"]["type"], "invalid_request_error");
        assert!(body["error"]["message"].as_str().unwrap().starts_with(message), "{body}");
    }
}

#[tokio::test]
async fn models_token_counts_and_connection_checks_are_answered() {
    let server = ApiServer::start(ApiModel::Generated, ApiOptions::default()).await.unwrap();
    let url = |path: &str| format!("{}{path}", server.url);
    let client = client();
    let get = async |path: &str| client.get(url(path)).send().await.unwrap();
    assert_eq!(client.head(url("/")).send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(client.head(url("/api/hello")).send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(get("/api/hello").await.status(), StatusCode::OK);
    let models: Value = get("/v1/models?limit=1000").await.json().await.unwrap();
    let first = models["data"][0]["id"].as_str().unwrap();
    let model: Value = get(&format!("/v1/models/{first}")).await.json().await.unwrap();
    assert_eq!(model, models["data"][0]);
    for (path, status) in [("/v1/models/gpt", 404), ("/v1/nothing", 404), ("/v1/messages", 405)] {
        let response = get(path).await;
        assert_eq!(response.status().as_u16(), status, "{path}");
        assert!(response.headers().contains_key("request-id"));
        assert_eq!(response.json::<Value>().await.unwrap()["type"], "error");
    }
    let count = async |words: usize| {
        let mut body = request(&"word ".repeat(words), false);
        body.as_object_mut().unwrap().remove("max_tokens");
        let response = client.post(url("/v1/messages/count_tokens")).json(&body).send().await;
        let count: Value = response.unwrap().json().await.unwrap();
        count["input_tokens"].as_u64().unwrap()
    };
    let (few, many) = (count(1).await, count(1000).await);
    assert!(few > 0 && (1000..2000).contains(&many), "{few} {many}");
}

#[tokio::test]
async fn a_held_reply_waits_for_its_gate() {
    let held = |name: &str, after| {
        let hold = Some(ScenarioHold { name: name.to_owned(), after });
        ScenarioReply { hold, ..text("one two three") }
    };
    let server = server([held("a", Some(1)), held("b", None), held("b", Some(2))]).await;

    let mut response = post(&server, &request("go", true)).await;
    let mut seen = String::new();
    while !seen.contains("one") {
        seen.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    let waits = Duration::from_millis(50);
    assert!(timeout(waits, response.chunk()).await.is_err());
    server.open("a");
    seen.push_str(&response.text().await.unwrap());
    assert_eq!(delta_text(&events(&seen)), "one two three");

    let body = request("again", true);
    let response = post(&server, &body);
    tokio::pin!(response);
    assert!(timeout(waits, response.as_mut()).await.is_err());
    server.open("b");
    assert!(response.await.text().await.unwrap().contains("message_stop"));
    // An open gate stays open.
    assert!(
        post(&server, &request("more", true)).await.text().await.unwrap().contains("message_stop")
    );
}

#[tokio::test]
async fn faults_follow_the_given_number_of_deltas() {
    let error = ScenarioStreamFault::SseError {
        kind: "overloaded_error".to_owned(),
        message: "no".to_owned(),
    };
    let server = server([
        after(2, error),
        after(2, ScenarioStreamFault::Truncate),
        after(2, ScenarioStreamFault::Garbage),
        after(2, ScenarioStreamFault::Disconnect),
        after(2, ScenarioStreamFault::Stall),
    ])
    .await;

    let stream = post(&server, &request("a", true)).await.text().await.unwrap();
    let seen = events(&stream);
    assert_eq!(delta_text(&seen), "one two");
    assert_eq!(seen.last().unwrap()["error"]["type"], "overloaded_error");

    let stream = post(&server, &request("b", true)).await.text().await.unwrap();
    let seen = events(&stream);
    assert_eq!(
        (delta_text(&seen).as_str(), *kinds(&seen).last().unwrap()),
        ("one two", "content_block_delta")
    );

    let stream = post(&server, &request("c", true)).await.text().await.unwrap();
    assert!(stream.contains("not an event") && stream.ends_with("{\"type\":\"message_stop\"}\n\n"));

    let mut response = post(&server, &request("d", true)).await;
    let mut seen = String::new();
    let error = loop {
        match response.chunk().await {
            Ok(Some(bytes)) => seen.push_str(std::str::from_utf8(&bytes).unwrap()),
            Ok(None) => panic!("the connection was closed properly"),
            Err(error) => break error,
        }
    };
    assert_eq!(delta_text(&events(&seen)), "one two");
    assert!(is_reset(&error), "{error:?}");

    let mut response = post(&server, &request("e", true)).await;
    let first = response.chunk().await.unwrap().unwrap();
    assert_eq!(delta_text(&events(std::str::from_utf8(&first).unwrap())), "one two");
    assert!(timeout(Duration::from_millis(50), response.chunk()).await.is_err());
    // Stopping the server does not wait for a stalled reply.
    timeout(Duration::from_mins(1), server.stop()).await.unwrap();
    assert!(response.chunk().await.is_err());
}

fn is_reset(error: &reqwest::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|it| it.kind() == ErrorKind::ConnectionReset) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[tokio::test]
async fn a_second_attempt_without_streaming_gets_the_whole_reply() {
    let server = server([after(1, ScenarioStreamFault::Truncate), text("next")]).await;
    post(&server, &request("a", true)).await.text().await.unwrap();
    let message: Value = post(&server, &request("a", false)).await.json().await.unwrap();
    assert_eq!(message["content"][0]["text"], "one two three");
    let message: Value = post(&server, &request("b", false)).await.json().await.unwrap();
    assert_eq!(message["content"][0]["text"], "next");
}

#[tokio::test]
async fn faults_also_affect_messages_without_streaming() {
    let error = ScenarioStreamFault::SseError {
        kind: "rate_limit_error".to_owned(),
        message: "no".to_owned(),
    };
    let faults = [
        error,
        ScenarioStreamFault::Disconnect,
        ScenarioStreamFault::Garbage,
        ScenarioStreamFault::Truncate,
    ];
    let server = server(faults.map(|fault| after(1, fault))).await;
    assert_eq!(post(&server, &request("a", false)).await.status().as_u16(), 429);
    assert!(is_reset(&post(&server, &request("b", false)).await.bytes().await.unwrap_err()));
    assert!(post(&server, &request("c", false)).await.json::<Value>().await.is_err());
    assert!(post(&server, &request("d", false)).await.json::<Value>().await.is_err());
}

#[tokio::test]
async fn requests_are_logged_without_keys_and_can_be_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("requests.jsonl");
    let options = ApiOptions { request_log: Some(file.clone()), ..ApiOptions::default() };
    let script = ApiScript::new([text("main"), text("second")]).unwrap();
    let server = ApiServer::start(script, options).await.unwrap();

    let side = client()
        .post(format!("{}/v1/messages", server.url))
        .header("user-agent", "claude-cli/2.1.325 (external, cli)")
        .header("authorization", "Bearer sk-secret")
        .json(&request("make a title", false));
    let title: Value = side.send().await.unwrap().json().await.unwrap();
    assert_eq!(title["content"][0]["text"], "Understood.");

    let waiting = server.main_request(2);
    tokio::pin!(waiting);
    assert!(timeout(Duration::from_millis(20), waiting.as_mut()).await.is_err());
    for (prompt, answer) in [("first", "main"), ("newest", "second")] {
        let message: Value = post(&server, &request(prompt, false)).await.json().await.unwrap();
        assert_eq!(message["content"][0]["text"], answer);
    }
    assert_eq!(waiting.await.unwrap().body["messages"][0]["content"], "newest");

    let requests = server.requests();
    let kinds: Vec<_> = requests.iter().map(|request| (request.number, request.kind)).collect();
    assert_eq!(
        kinds,
        [(1, ApiRequestKind::Side), (2, ApiRequestKind::Main), (3, ApiRequestKind::Main)]
    );
    assert_eq!(
        (requests[1].method.as_str(), requests[1].path.as_str()),
        ("POST", "/v1/messages?beta=true")
    );
    let lines = std::fs::read_to_string(&file).unwrap();
    assert_eq!(lines.lines().count(), 3);
    let line: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    assert_eq!(line["body"], requests[1].body);
    assert_eq!(line["headers"]["x-api-key"], "(redacted)");
    assert!(!lines.contains("sk-secret") && !format!("{requests:?}").contains("sk-secret"));
}

#[tokio::test]
async fn only_loopback_addresses_are_accepted() {
    let options = ApiOptions { listen: ([0, 0, 0, 0], 0).into(), ..ApiOptions::default() };
    let error = ApiServer::start(ApiModel::Generated, options).await.unwrap_err();
    assert_eq!(error.to_string(), "`0.0.0.0:0` is not a loopback address");
}

#[tokio::test]
async fn a_tool_call_without_its_result_is_refused() {
    let server = ApiServer::start(ApiModel::Generated, ApiOptions::default()).await.unwrap();
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}});
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"});
    let conversation = |last: Value| {
        json!({"model": "claude-opus-5-5", "max_tokens": 100, "messages": [
            {"role": "user", "content": "add"}, {"role": "assistant", "content": [call]},
            {"role": "user", "content": [last]},
        ]})
    };
    let answered = post(&server, &conversation(result)).await;
    assert_eq!(answered.status(), 200);
    let refused = post(&server, &conversation(json!({"type": "text", "text": "well?"}))).await;
    assert_eq!(refused.status(), 400);
    let body: Value = refused.json().await.unwrap();
    assert_eq!(body["error"]["type"], "invalid_request_error");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("messages.1: `tool_use` ids were found without"), "{message}");
}

#[tokio::test]
async fn a_generated_reply_has_the_shape_that_the_request_asks_for() {
    let server = ApiServer::start(ApiModel::Generated, ApiOptions::default()).await.unwrap();
    let ask = async |fields: Value| {
        let mut body = request("hello there", false);
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        post(&server, &body).await.json::<Value>().await.unwrap()
    };
    let cut = ask(json!({"max_tokens": 2})).await;
    assert_eq!(
        (&cut["content"][0]["text"], &cut["stop_reason"]),
        (&json!("You wrote:"), &json!("max_tokens"))
    );
    let stopped = ask(json!({"stop_sequences": ["zebra", " there"]})).await;
    assert_eq!(stopped["content"][0]["text"], "You wrote: “hello");
    assert_eq!(
        (&stopped["stop_reason"], &stopped["stop_sequence"]),
        (&json!("stop_sequence"), &json!(" there"))
    );
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let tools = json!([{"name": "weather", "input_schema": schema}]);
    let choice = json!({"type": "tool", "name": "weather"});
    let forced = ask(json!({"tools": tools, "tool_choice": choice})).await;
    assert_eq!(forced["content"][0]["input"], json!({"city": "text"}));
    assert_eq!(forced["stop_reason"], "tool_use");
    let format = json!({"format": {"type": "json_schema", "schema": schema}});
    let structured = ask(json!({"output_config": format})).await;
    assert_eq!(structured["content"][0]["text"], "{\"city\":\"text\"}");
    let thinking = ask(json!({"thinking": {"type": "enabled", "budget_tokens": 1024}})).await;
    assert_eq!(thinking["content"][0]["type"], "thinking");
}

#[tokio::test]
async fn a_large_body_is_read() {
    let server = ApiServer::start(ApiModel::Generated, ApiOptions::default()).await.unwrap();
    // Built as text, because serialising it in a debug build would take longer than all other tests.
    let image = r#"{"type":"image","source":{"type":"base64","data":"DATA"}}"#;
    let body = r#"{"model":"claude-opus-5-5","max_tokens":100,"messages":[{"role":"user","content":[IMAGE]}]}"#;
    let body = body.replace("IMAGE", &image.replace("DATA", &"A".repeat(70 << 20)));
    let response = client().post(format!("{}/v1/messages", server.url)).body(body).send().await;
    let message: Value = response.unwrap().json().await.unwrap();
    assert_eq!(message["content"][0]["text"], "Your message contains no text.");
}

#[tokio::test]
async fn a_dropped_server_stops_listening() {
    let server = server([text("hi")]).await;
    let url = server.url.clone();
    drop(server);
    let gone = async {
        while client().head(&url).send().await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_mins(1), gone).await.unwrap();
}

#[tokio::test]
async fn a_recorded_conversation_is_replayed_byte_for_byte_without_keys() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("conversation.scenario");
    let slow = ScenarioReply { pace: Duration::from_millis(20), ..text("one two three") };
    let upstream = server([slow, after(1, ScenarioStreamFault::Disconnect)]).await;
    let proxy = ApiServer::record(&upstream.url, out.clone(), ApiOptions::default()).await.unwrap();

    let recorded = post(&proxy, &request("say \"it\"", true)).await;
    let id = recorded.headers()["request-id"].clone();
    let recorded = recorded.text().await.unwrap();
    let more = |first: &str| {
        let (first, answer) = (json!({"role": "user", "content": first}), json!("one two three"));
        let answer = json!({"role": "assistant", "content": answer});
        let mut body = request("", true);
        body["messages"] = json!([first, answer, {"role": "user", "content": "more"}]);
        body
    };
    assert!(post(&proxy, &more("say \"it\"")).await.text().await.is_err());
    // A second attempt and a sub-agent make requests too, but no user has typed these prompts.
    assert!(post(&proxy, &more("say \"it\"")).await.text().await.is_err());
    assert!(post(&proxy, &more("search")).await.text().await.is_err());
    let keys: Vec<_> =
        upstream.requests().into_iter().flat_map(|request| request.headers).collect();
    assert!(keys.iter().any(|(name, _)| name == "x-api-key"), "the key is forwarded");

    let scenario = std::fs::read_to_string(&out).unwrap();
    let lines = [
        "# A conversation with 127.0.0.1",
        "",
        r#"> user "say \"it\"""#,
        r#"api replay "conversation.1.jsonl""#,
        r#"> user "more""#,
        r#"api replay "conversation.2.jsonl""#,
        r#"api replay "conversation.3.jsonl""#,
        r#"api replay "conversation.4.jsonl""#,
    ];
    let expected = lines.join("\n") + "\n";
    assert_eq!(scenario, expected);
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!text.contains("sk-secret"));
    }

    let replay = |number: usize| ScenarioReply {
        replay: Some(directory.path().join(format!("conversation.{number}.jsonl"))),
        ..ScenarioReply::default()
    };
    let server = server([replay(1), replay(2)]).await;
    let began = std::time::Instant::now();
    let replayed = post(&server, &request("say \"it\"", true)).await;
    assert_eq!(replayed.headers()["request-id"], id);
    assert_eq!(replayed.text().await.unwrap(), recorded);
    assert!(began.elapsed() >= Duration::from_millis(40), "{:?}", began.elapsed());
    assert!(post(&server, &request("more", true)).await.text().await.is_err());
}

#[tokio::test]
async fn unknown_models_are_refused_if_that_is_wanted() {
    let options = ApiOptions { refuse_unknown_models: true, ..ApiOptions::default() };
    let strict = ApiServer::start(ApiModel::Generated, options).await.expect("a free port");
    let any =
        ApiServer::start(ApiModel::Generated, ApiOptions::default()).await.expect("a free port");
    let mut body = request("hello", false);
    assert_eq!(post(&strict, &body).await.status(), StatusCode::OK);
    body["model"] = "claude-nobody-1".into();
    assert_eq!(post(&any, &body).await.status(), StatusCode::OK);
    let refused = post(&strict, &body).await;
    assert_eq!(refused.status(), StatusCode::NOT_FOUND);
    let refused: Value = refused.json().await.unwrap();
    let error = json!({"type": "not_found_error", "message": "model: claude-nobody-1"});
    assert_eq!(refused["error"], error);
    let requests = strict.requests();
    assert_eq!(requests.len(), 2, "what is refused is logged too");
}

#[tokio::test]
async fn the_title_request_of_opencode_uses_no_reply_of_the_script() {
    let server = server([text("one"), text("two")]).await;
    let title = "Generate a title for this conversation:\n";
    let ask = async |body: &Value| {
        let message: Value = post(&server, body).await.json().await.unwrap();
        message["content"][0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(ask(&request(title, false)).await, "Understood.");
    assert_eq!(ask(&request("hello", false)).await, "one");
    let url = format!("{}/v1/chat/completions", server.url);
    let messages = json!([
        {"role": "system", "content": "You are a title generator."},
        {"role": "user", "content": title}, {"role": "user", "content": "hello"},
    ]);
    let body = json!({"model": "stub-model", "messages": messages});
    let chat: Value = client().post(url).json(&body).send().await.unwrap().json().await.unwrap();
    assert_eq!(chat["choices"][0]["message"]["content"], "Understood.");
    assert_eq!(ask(&request("hello", false)).await, "two");
    let kinds: Vec<ApiRequestKind> = server.requests().iter().map(|it| it.kind).collect();
    let expected =
        [ApiRequestKind::Side, ApiRequestKind::Main, ApiRequestKind::Side, ApiRequestKind::Main];
    assert_eq!(kinds, expected);
}
