//! Requests, rate limits and faults.

use std::time::Duration;

use serde_json::{Value, json};
use towpath_test_support::bot_api::{
    BotApiFault, BotApiFaultSpan, BotApiLimit, BotApiNetwork, BotApiOptions, BotApiOutcome,
    BotApiRates, BotApiUserId,
};

use crate::fixture::{ANN, TIMEOUT, TestBot};

#[tokio::test]
async fn a_method_accepts_its_parameters_in_four_formats() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let url = |method: &str| bot.api.method_url(method);
    let get = bot.client.get(format!("{}?chat_id={chat}&text=a+b%26", url("sendMessage")));
    let form = bot.client.post(url("SENDMESSAGE"));
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    let form = form.body(format!("chat_id={chat}&text=a+b%26"));
    let json = bot.client.post(url("sendmessage")).json(&json!({"chat_id": 7, "text": "a b&"}));
    for request in [get, form, json] {
        let response: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(response["result"]["text"], "a b&", "{response}");
    }
    let fields = [("chat_id", "7"), ("text", "a b&")];
    let response = bot.form("sendMessage", &fields, &[]).await;
    assert_eq!(response["result"]["text"], "a b&", "{response}");
    assert_eq!(bot.api.messages(chat).len(), 4);
}

#[tokio::test]
async fn wrong_tokens_and_unknown_methods_are_rejected() {
    let bot = TestBot::new().await;
    let url = format!("{}/bot700001:wrong/getMe", bot.api.url);
    let response = bot.client.get(url).send().await.unwrap();
    assert_eq!(response.status(), 401);
    let body: Value = response.json().await.unwrap();
    assert_eq!(body, json!({"ok": false, "error_code": 401, "description": "Unauthorized"}));
    assert_eq!(bot.error("getMoney", json!({})).await, "Not Found");
    assert_eq!(bot.call("GETME", json!({})).await["username"], "towpath_bot");
}

#[tokio::test]
async fn commands_are_stored_per_scope() {
    let bot = TestBot::new().await;
    let commands = |name: &str, text: &str| json!([{"command": name, "description": text}]);
    let cases = [
        (commands("New", "x"), "Bad Request: BOT_COMMAND_INVALID"),
        (commands(&"x".repeat(33), "x"), "Bad Request: BOT_COMMAND_INVALID"),
        (commands("new", ""), "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID"),
        (commands("new", &"x".repeat(257)), "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID"),
    ];
    for (commands, error) in cases {
        let params = json!({"commands": commands});
        assert_eq!(bot.error("setMyCommands", params).await, error);
    }
    let scope = json!({"type": "all_group_chats"});
    let new = commands("new", "a new session");
    bot.call("setMyCommands", json!({"commands": new})).await;
    let stop = json!({"commands": commands("stop", "stop it"), "scope": scope});
    bot.call("setMyCommands", stop).await;
    assert_eq!(bot.call("getMyCommands", json!({})).await, new);
    bot.call("deleteMyCommands", json!({})).await;
    assert_eq!(bot.call("getMyCommands", json!({})).await, json!([]));
    let left = bot.call("getMyCommands", json!({"scope": scope})).await;
    assert_eq!(left[0]["command"], "stop");
}

#[tokio::test]
async fn a_dropped_server_accepts_no_connections() {
    let bot = TestBot::new().await;
    let url = bot.api.method_url("getMe");
    bot.client.get(&url).send().await.unwrap();
    drop(bot.api);
    tokio::task::yield_now().await;
    assert!(bot.client.get(&url).timeout(TIMEOUT).send().await.is_err());
}

#[tokio::test]
async fn a_call_over_the_rate_of_a_chat_is_rejected_with_the_time_to_wait() {
    // The clock is slow, so that the limits do not pass by themselves on a busy machine.
    let bot = TestBot::with(BotApiOptions { speed: 0.25, ..BotApiOptions::default() }).await;
    let chat = bot.api.private_chat(ANN);
    let params = json!({"chat_id": chat.0, "text": "x"});
    let mut rejected = None;
    for _ in 0..5 {
        let response = bot.response("sendMessage", params.clone()).await;
        if response["ok"] == false {
            rejected = Some(response);
            break;
        }
    }
    let expected = json!({
        "ok": false,
        "error_code": 429,
        "description": "Too Many Requests: retry after 1",
        "parameters": {"retry_after": 1},
    });
    assert_eq!(rejected, Some(expected));
    let violations = bot.api.violations();
    assert_eq!(violations.len(), 1);
    assert_eq!((violations[0].chat, violations[0].limit), (chat, BotApiLimit::Chat));
    // An edit counts like a message, and not waiting is another violation.
    let edit = json!({"chat_id": chat.0, "message_id": 1, "text": "y"});
    let again = bot.response("editMessageText", edit).await;
    assert_eq!(again["error_code"], 429);
    assert_eq!(bot.api.violations()[1].limit, BotApiLimit::RetryAfter);
    tokio::time::sleep(Duration::from_secs(4)).await;
    bot.call("sendMessage", params).await;
}

#[tokio::test]
async fn the_limits_of_groups_and_of_all_chats_hold_at_any_speed() {
    let rates = BotApiRates { chat_burst: 100, ..BotApiRates::default() };
    let options = BotApiOptions { rates: rates.clone(), speed: 10.0, ..BotApiOptions::default() };
    let bot = TestBot::with(options).await;
    let group = bot.api.create_group(&[ANN]);
    for _ in 0..20 {
        bot.send(group, "x").await;
    }
    let response = bot.response("sendMessage", json!({"chat_id": group.0, "text": "x"})).await;
    assert_eq!(response["error_code"], 429);
    let wait = response["parameters"]["retry_after"].as_u64().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(bot.api.violations()[0].limit, BotApiLimit::Group);
    tokio::time::sleep(Duration::from_millis(wait * 100)).await;
    bot.send(group, "y").await;

    // The clock is slow, so that thirty calls fit into one of its seconds on any machine.
    let slow = BotApiOptions { rates, speed: 0.05, ..BotApiOptions::default() };
    let bot = TestBot::with(slow).await;
    for user in 1..=30 {
        let chat = bot.api.private_chat(BotApiUserId(user));
        bot.send(chat, "x").await;
    }
    bot.api.private_chat(BotApiUserId(31));
    let error = bot.error("sendMessage", json!({"chat_id": 31, "text": "x"})).await;
    assert_eq!(error, "Too Many Requests: retry after 1");
    assert_eq!(bot.api.violations()[0].limit, BotApiLimit::Overall);
}

#[tokio::test]
async fn calls_fail_with_the_injected_fault() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let send = || {
        let request = bot.client.post(bot.api.method_url("sendMessage"));
        request.json(&json!({"chat_id": 7, "text": "x"})).timeout(TIMEOUT)
    };
    let message_count = || bot.api.messages(chat).len();
    bot.api.fail("sendMessage", BotApiFault::Reset, BotApiFaultSpan::Calls(1));
    assert!(send().send().await.is_err());
    assert_eq!(message_count(), 0);
    bot.api.fail("sendMessage", BotApiFault::Hang, BotApiFaultSpan::Calls(1));
    let hung = send().timeout(Duration::from_millis(300)).send().await;
    assert!(hung.unwrap_err().is_timeout());
    assert_eq!(message_count(), 0);
    bot.api.fail("sendMessage", BotApiFault::LoseResponse, BotApiFaultSpan::Calls(1));
    assert!(!send().send().await.unwrap_err().is_timeout());
    assert_eq!(message_count(), 1);
    let calls = bot.api.calls_of("sendMessage");
    assert_eq!(calls[0].outcome, BotApiOutcome::Dropped);
    assert!(matches!(&calls[2].outcome, BotApiOutcome::Success(_)) && !calls[2].answered);

    bot.api.fail_all(BotApiFault::HtmlPage(502), BotApiFaultSpan::Calls(1));
    let response = send().send().await.unwrap();
    assert_eq!(response.status(), 502);
    assert!(response.text().await.unwrap().starts_with("<html>"));
    bot.api.fail_all(BotApiFault::Error(500), BotApiFaultSpan::Time(TIMEOUT));
    bot.api.fail("getMe", BotApiFault::Hang, BotApiFaultSpan::Time(TIMEOUT));
    assert_eq!(bot.error("sendMessage", json!({})).await, "Internal Server Error");
    bot.api.clear_faults();
    bot.api.fail("sendMessage", BotApiFault::RetryAfter(3), BotApiFaultSpan::Calls(1));
    let response = bot.response("sendMessage", json!({"chat_id": 7, "text": "x"})).await;
    assert_eq!(response["parameters"]["retry_after"], 3);
    assert_eq!(message_count(), 1);
    bot.send(chat, "x").await;
    assert!(bot.api.violations().is_empty());
}

#[tokio::test]
async fn a_broken_network_fails_every_call_and_loses_no_update() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    bot.send(chat, "before").await;
    let call = |timeout: u64| {
        let request = bot.client.post(bot.api.method_url("sendMessage"));
        let request = request.json(&json!({"chat_id": 7, "text": "lost"}));
        request.timeout(Duration::from_millis(timeout)).send()
    };
    bot.api.set_network(BotApiNetwork::Reset);
    assert!(!call(5_000).await.unwrap_err().is_timeout());
    bot.api.set_network(BotApiNetwork::Blackhole);
    assert!(call(200).await.unwrap_err().is_timeout());
    bot.api.wait_for(TIMEOUT, |api| (api.hung_calls() == 0).then_some(())).await.unwrap();
    bot.api.user_sends(chat, ANN, "anyone?");
    let hung = call(10_000);
    let restore = async {
        bot.api.wait_for(TIMEOUT, |api| (api.hung_calls() > 0).then_some(())).await.unwrap();
        bot.api.set_network(BotApiNetwork::Up);
    };
    let (hung, ()) = tokio::join!(hung, restore);
    assert!(!hung.unwrap_err().is_timeout());
    assert_eq!(bot.updates(0).await[0]["message"]["text"], "anyone?");
    let texts: Vec<_> = bot.api.messages(chat).into_iter().map(|it| it.text).collect();
    assert_eq!(texts, ["before", "anyone?"]);
}
