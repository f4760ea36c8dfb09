//! A Bot API double with a client that acts as the bot.

use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use towpath_test_support::bot_api::{
    BotApi, BotApiChatId, BotApiMessageId, BotApiOptions, BotApiRates, BotApiUserId,
};

pub(crate) const ANN: BotApiUserId = BotApiUserId(7);
pub(crate) const BOB: BotApiUserId = BotApiUserId(8);
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);
pub(crate) const NOT_MODIFIED: &str = "Bad Request: message is not modified: specified new message content and reply markup are \
     exactly the same as a current content and reply markup of the message";

/// A double, and the client of its bot.
pub(crate) struct TestBot {
    pub(crate) api: BotApi,
    pub(crate) client: Client,
}

impl TestBot {
    /// A bot without rate limits.
    pub(crate) async fn new() -> Self {
        Self::with(BotApiOptions { rates: BotApiRates::unlimited(), ..BotApiOptions::default() })
            .await
    }

    pub(crate) async fn with(options: BotApiOptions) -> Self {
        let api = BotApi::start(options).await.expect("a free port");
        Self { api, client: towpath_test_support::http_client() }
    }

    /// The whole response to a call.
    pub(crate) async fn response(&self, method: &str, params: Value) -> Value {
        let request = self.client.post(self.api.method_url(method)).json(&params);
        let response = request.send().await.expect("a response");
        let status = response.status().as_u16();
        let body: Value = response.json().await.expect("JSON");
        assert_eq!(body["ok"] == true, status == 200, "{body}");
        if body["ok"] != true {
            assert_eq!(body["error_code"], status, "{body}");
        }
        body
    }

    /// The result of a call that must succeed.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        let body = self.response(method, params).await;
        assert_eq!(body["ok"], true, "{method}: {body}");
        body["result"].clone()
    }

    /// The description of the error of a call that must fail.
    pub(crate) async fn error(&self, method: &str, params: Value) -> String {
        let body = self.response(method, params).await;
        assert_eq!(body["ok"], false, "{method}: {body}");
        body["description"].as_str().expect("a description").to_owned()
    }

    pub(crate) async fn send(&self, chat: BotApiChatId, text: &str) -> BotApiMessageId {
        let sent = self.call("sendMessage", json!({"chat_id": chat.0, "text": text})).await;
        BotApiMessageId(sent["message_id"].as_i64().expect("a number"))
    }

    pub(crate) async fn updates(&self, offset: i64) -> Vec<Value> {
        let updates = self.call("getUpdates", json!({"offset": offset})).await;
        updates.as_array().expect("a list").clone()
    }

    pub(crate) async fn form(
        &self,
        method: &str,
        fields: &[(&str, &str)],
        files: &[(&str, &str, &[u8])],
    ) -> Value {
        let mut body = Vec::new();
        for (name, value) in fields {
            let head = format!("--xyz\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(value.as_bytes());
            body.extend_from_slice(b"\r\n");
        }
        for (name, file, bytes) in files {
            let head = format!(
                "--xyz\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\
                 Content-Type: application/octet-stream\r\n\r\n"
            );
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--xyz--\r\n");
        let request = self.client.post(self.api.method_url(method));
        let request = request.header("content-type", "multipart/form-data; boundary=xyz");
        let response = request.body(body).send().await.expect("a response");
        response.json().await.expect("JSON")
    }
}

/// The header of a PNG with these dimensions, padded to a length.
pub(crate) fn png(width: u32, height: u32, length: usize) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    png.extend_from_slice(&width.to_be_bytes());
    png.extend_from_slice(&height.to_be_bytes());
    png.resize(length.max(png.len()), 0);
    png
}

pub(crate) fn keyboard(rows: &Value) -> Value {
    json!({"inline_keyboard": rows})
}
