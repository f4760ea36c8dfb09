//! Lines that are wrong, sessions that do not exist, lists and directories.

use serde_json::json;

use crate::client::AcpClient;
use crate::home::TestHome;

#[test]
fn wrong_lines_are_answered_and_the_connection_stays() {
    let home = TestHome::new();
    let mut client = AcpClient::start(&home, &[]);
    assert_eq!(client.error_of("session/new", &json!({ "cwd": "/" })), -32600);
    let initialize = json!({ "protocolVersion": 1 });
    let result = client.call("initialize", &initialize);
    assert_eq!(result["_meta"]["steering"]["supported"], true);
    assert_eq!(client.error_of("initialize", &initialize), -32600);
    for (line, code) in [
        ("this is no json", -32700),
        ("{\"not\":\"json-rpc\"}", -32600),
        ("[1]", -32600),
        ("\"\u{1f980}\"", -32600),
    ] {
        client.send_line(line);
        client.wait_until(line, |it| !it.errors.is_empty());
        assert_eq!(client.errors.remove(0)["error"]["code"], code, "{line}");
    }
    client.send_line("");
    client.notify("towpath/nonsense", &json!({}));
    assert_eq!(client.error_of("towpath/nonsense", &json!({})), -32601);
    assert_eq!(client.error_of("session/new", &json!({})), -32602);
    assert_eq!(client.error_of("session/new", &json!({ "cwd": "rel" })), -32602);
    let unknown = "00000000-0000-0000-0000-000000000001";
    let prompt = json!([{ "type": "text", "text": "hi" }]);
    for session in ["nonsense", unknown] {
        let params = json!({ "sessionId": session, "prompt": prompt });
        assert_eq!(client.error_of("session/prompt", &params), -32002);
        let params = json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] });
        assert_eq!(client.error_of("session/load", &params), -32002);
        assert_eq!(client.error_of("session/delete", &json!({ "sessionId": session })), -32002);
    }
    let session = client.new_session(&home);
    let audio = json!({ "sessionId": session, "prompt": [{ "type": "audio", "data": "" }] });
    assert_eq!(client.error_of("session/prompt", &audio), -32602);
    let empty = json!({ "sessionId": session, "prompt": [] });
    assert_eq!(client.error_of("session/prompt", &empty), -32602);
    client.close();
}

#[test]
fn sessions_are_listed_by_directory_renamed_copied_closed_and_deleted() {
    let home = TestHome::new();
    let mut client = AcpClient::v1(&home, &[]);
    let session = client.new_session(&home);
    let prompt = client.prompt(&session, "think about it");
    assert_eq!(client.stop_reason(prompt), "end_turn");
    let other = home.work().join("other");
    std::fs::create_dir(&other).expect("a directory");
    let new = client.call("session/new", &json!({ "cwd": other, "mcpServers": [] }));
    let list = |client: &mut AcpClient, params| {
        let result = client.call("session/list", &params);
        result["sessions"].as_array().expect("a list").clone()
    };
    assert_eq!(list(&mut client, json!({})).len(), 2);
    let here = list(&mut client, json!({ "cwd": home.work() }));
    assert_eq!(here.len(), 1);
    assert_eq!(here[0]["sessionId"], json!(session));
    assert!(here[0]["title"].is_string() && here[0]["updatedAt"].is_string(), "{here:?}");
    let title = json!({ "sessionId": session, "title": "A better title" });
    assert_eq!(client.call("session/set_title", &title)["title"], "A better title");
    let place = json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] });
    let copy = client.call("session/fork", &place)["sessionId"].clone();
    assert!(copy.is_string() && copy != json!(session));
    assert_eq!(list(&mut client, json!({})).len(), 3);
    for id in [&new["sessionId"], &copy] {
        let params = json!({ "sessionId": id });
        client.call("session/close", &params);
        let prompt = json!({ "sessionId": id, "prompt": [{ "type": "text", "text": "hi" }] });
        assert_eq!(client.error_of("session/prompt", &prompt), -32002, "it is closed");
        client.call("session/delete", &params);
    }
    let rest: Vec<_> =
        list(&mut client, json!({})).iter().map(|it| it["sessionId"].clone()).collect();
    assert!(rest.contains(&json!(session)), "{rest:?}");
    assert!(!rest.contains(&new["sessionId"]) && !rest.contains(&copy), "{rest:?}");
    client.close();

    let mut restricted = AcpClient::v1(&home, &["--root", &other.display().to_string()]);
    assert_eq!(restricted.error_of("session/new", &json!({ "cwd": home.work() })), -32602);
    assert!(list(&mut restricted, json!({})).is_empty());
    assert_eq!(restricted.error_of("session/load", &place), -32002);
}
