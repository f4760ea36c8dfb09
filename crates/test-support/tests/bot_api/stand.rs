//! A server whose rates are out of the way, and a bot.

use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use towpath_test_support::bot_api::{BotApi, BotApiOptions, ChatId, MessageId, Rates, UserId};

pub(crate) const ANN: UserId = UserId(7);
pub(crate) const BOB: UserId = UserId(8);
pub(crate) const SOON: Duration = Duration::from_secs(10);
pub(crate) const SAME: &str = "Bad Request: message is not modified: specified new message content and reply \
                    markup are exactly the same as a current content and reply markup of the \
                    message";

/// A server whose rates are out of the way, and a bot.
pub(crate) struct Stand {
    pub(crate) api: BotApi,
    pub(crate) client: Client,
}

impl Stand {
    pub(crate) async fn new() -> Self {
        Self::with(BotApiOptions { rates: Rates::unlimited(), ..BotApiOptions::default() }).await
    }

    pub(crate) async fn with(options: BotApiOptions) -> Self {
        let api = BotApi::start(options).await.expect("a free port");
        Self { api, client: client() }
    }

    /// The whole answer to a call.
    pub(crate) async fn answer(&self, method: &str, params: Value) -> Value {
        let request = self.client.post(self.api.method(method)).json(&params);
        let response = request.send().await.expect("an answer");
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
        let body = self.answer(method, params).await;
        assert_eq!(body["ok"], true, "{method}: {body}");
        body["result"].clone()
    }

    /// Why a call that must fail was refused.
    pub(crate) async fn refused(&self, method: &str, params: Value) -> String {
        let body = self.answer(method, params).await;
        assert_eq!(body["ok"], false, "{method}: {body}");
        body["description"].as_str().expect("a description").to_owned()
    }

    pub(crate) async fn send(&self, chat: ChatId, text: &str) -> MessageId {
        let sent = self.call("sendMessage", json!({"chat_id": chat.0, "text": text})).await;
        MessageId(sent["message_id"].as_i64().expect("a number"))
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
        let request = self.client.post(self.api.method(method));
        let request = request.header("content-type", "multipart/form-data; boundary=xyz");
        let response = request.body(body).send().await.expect("an answer");
        response.json().await.expect("JSON")
    }
}

pub(crate) fn client() -> Client {
    towpath_test_support::http_client()
}

/// A PNG of this size, as far as anyone here looks, and as many bytes as are wanted.
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
