//! Calling methods at all.

use serde_json::{Value, json};

use crate::stand::{ANN, SOON, Stand};

#[tokio::test]
async fn a_method_is_called_in_any_of_the_four_ways() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let url = |method: &str| stand.api.method(method);
    let get = stand.client.get(format!("{}?chat_id={chat}&text=a+b%26", url("sendMessage")));
    let form = stand.client.post(url("SENDMESSAGE"));
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    let form = form.body(format!("chat_id={chat}&text=a+b%26"));
    let json = stand.client.post(url("sendmessage")).json(&json!({"chat_id": 7, "text": "a b&"}));
    for request in [get, form, json] {
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["result"]["text"], "a b&", "{answer}");
    }
    let fields = [("chat_id", "7"), ("text", "a b&")];
    let answer = stand.form("sendMessage", &fields, &[]).await;
    assert_eq!(answer["result"]["text"], "a b&", "{answer}");
    assert_eq!(stand.api.messages(chat).len(), 4);
}

#[tokio::test]
async fn strangers_and_unknown_methods_are_turned_away() {
    let stand = Stand::new().await;
    let url = format!("{}/bot700001:wrong/getMe", stand.api.url);
    let response = stand.client.get(url).send().await.unwrap();
    assert_eq!(response.status(), 401);
    let body: Value = response.json().await.unwrap();
    assert_eq!(body, json!({"ok": false, "error_code": 401, "description": "Unauthorized"}));
    assert_eq!(stand.refused("getMoney", json!({})).await, "Not Found");
    assert_eq!(stand.call("GETME", json!({})).await["username"], "towpath_bot");
}

#[tokio::test]
async fn commands_are_kept_for_each_scope() {
    let stand = Stand::new().await;
    let commands = |name: &str, text: &str| json!([{"command": name, "description": text}]);
    let cases = [
        (commands("New", "x"), "Bad Request: BOT_COMMAND_INVALID"),
        (commands(&"x".repeat(33), "x"), "Bad Request: BOT_COMMAND_INVALID"),
        (commands("new", ""), "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID"),
        (commands("new", &"x".repeat(257)), "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID"),
    ];
    for (commands, refusal) in cases {
        let params = json!({"commands": commands});
        assert_eq!(stand.refused("setMyCommands", params).await, refusal);
    }
    let scope = json!({"type": "all_group_chats"});
    let new = commands("new", "a new session");
    stand.call("setMyCommands", json!({"commands": new})).await;
    let stop = json!({"commands": commands("stop", "stop it"), "scope": scope});
    stand.call("setMyCommands", stop).await;
    assert_eq!(stand.call("getMyCommands", json!({})).await, new);
    stand.call("deleteMyCommands", json!({})).await;
    assert_eq!(stand.call("getMyCommands", json!({})).await, json!([]));
    let left = stand.call("getMyCommands", json!({"scope": scope})).await;
    assert_eq!(left[0]["command"], "stop");
}

#[tokio::test]
async fn a_server_that_is_dropped_is_gone() {
    let stand = Stand::new().await;
    let url = stand.api.method("getMe");
    stand.client.get(&url).send().await.unwrap();
    drop(stand.api);
    tokio::task::yield_now().await;
    assert!(stand.client.get(&url).timeout(SOON).send().await.is_err());
}
