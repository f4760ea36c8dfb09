//! Files, up and down.

use serde_json::{Value, json};
use towpath_test_support::bot_api::{MediaKind, MessageId, Said};

use crate::stand::{ANN, SAME, Stand, png};

#[tokio::test]
async fn files_go_up_to_fifty_megabytes_and_photos_to_ten() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let cases = [
        ("sendDocument", "document", vec![0; 51 << 20], (413, "Request Entity Too Large")),
        ("sendDocument", "document", Vec::new(), (400, "Bad Request: file must be non-empty")),
        (
            "sendPhoto",
            "photo",
            png(100, 100, (10 << 20) + 1),
            (
                400,
                "Bad Request: file of size 10485761 bytes is too big for a photo; the maximum size \
                 is 10485760 bytes",
            ),
        ),
        (
            "sendPhoto",
            "photo",
            png(9_000, 1_001, 99),
            (400, "Bad Request: PHOTO_INVALID_DIMENSIONS"),
        ),
        ("sendPhoto", "photo", png(2_100, 100, 99), (400, "Bad Request: PHOTO_INVALID_DIMENSIONS")),
        ("sendPhoto", "photo", b"text".to_vec(), (400, "Bad Request: IMAGE_PROCESS_FAILED")),
    ];
    for (method, field, bytes, (code, refusal)) in cases {
        let answer = stand.form(method, &[("chat_id", "7")], &[(field, "a.png", &bytes)]).await;
        assert_eq!(answer["error_code"], code, "{answer}");
        assert_eq!(answer["description"], refusal);
    }
    assert!(stand.api.messages(chat).is_empty());

    let photo = png(300, 200, 10 << 20);
    let fields = [("chat_id", "7"), ("caption", "<b>c</b>"), ("parse_mode", "HTML")];
    let sent = stand.form("sendPhoto", &fields, &[("photo", "a.png", &photo)]).await;
    let largest = &sent["result"]["photo"][1];
    assert_eq!((&largest["width"], &largest["height"]), (&json!(300), &json!(200)));
    let document = stand.form("sendDocument", &[("chat_id", "7")], &[("document", "a.txt", b"hi")]);
    assert_eq!(document.await["result"]["document"]["file_name"], "a.txt");
    let seen = stand.api.messages(chat);
    let media = seen[0].media.as_ref().unwrap();
    assert_eq!((media.kind, media.bytes.len()), (MediaKind::Photo, photo.len()));
    assert_eq!(seen[0].html, "<b>c</b>");
    let media = seen[1].media.as_ref().unwrap();
    assert_eq!((media.kind, &media.bytes[..]), (MediaKind::Document, &b"hi"[..]));

    // What is there already is sent again by its name.
    let again = json!({"chat_id": 7, "photo": largest["file_id"]});
    stand.call("sendPhoto", again).await;
    let wrong = json!({"chat_id": 7, "photo": "https://a.example/b.png"});
    let refusal = stand.refused("sendPhoto", wrong).await;
    assert_eq!(refusal, "Bad Request: wrong file identifier/HTTP URL specified");
    let long = json!({"chat_id": 7, "photo": largest["file_id"], "caption": "x".repeat(1_025)});
    assert_eq!(stand.refused("sendPhoto", long).await, "Bad Request: message caption is too long");
    let edit = |caption: &str| json!({"chat_id": 7, "message_id": 1, "caption": caption});
    stand.call("editMessageCaption", edit("d")).await;
    assert_eq!(stand.refused("editMessageCaption", edit("d")).await, SAME);
    let text = json!({"chat_id": 7, "message_id": 1, "text": "t"});
    let refusal = stand.refused("editMessageText", text).await;
    assert_eq!(refusal, "Bad Request: there is no text in the message to edit");
}

#[tokio::test]
async fn an_album_holds_two_to_ten_of_one_kind() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let photo = png(10, 10, 99);
    let item = |kind: &str| json!({"type": kind, "media": "attach://p", "caption": "c"});
    let cases = [
        (vec![item("photo")], "Bad Request: media group must include 2-10 items"),
        (vec![item("photo"); 11], "Bad Request: too many messages to send as an album"),
        (
            vec![item("photo"), item("document")],
            "Bad Request: document can't be mixed with other media types",
        ),
    ];
    for (items, refusal) in cases {
        let media = Value::from(items).to_string();
        let fields = [("chat_id", "7"), ("media", media.as_str())];
        let answer = stand.form("sendMediaGroup", &fields, &[("p", "p.png", &photo)]).await;
        assert_eq!(answer["description"], refusal);
    }
    let media = Value::from(vec![item("photo"), item("photo")]).to_string();
    let fields = [("chat_id", "7"), ("media", media.as_str())];
    let sent = stand.form("sendMediaGroup", &fields, &[("p", "p.png", &photo)]).await;
    assert_eq!(sent["result"].as_array().unwrap().len(), 2, "{sent}");
    assert_eq!(sent["result"][0]["media_group_id"], sent["result"][1]["media_group_id"]);
    assert_eq!(stand.api.notifications(chat), [MessageId(1)]);
}

#[tokio::test]
async fn what_people_send_can_be_fetched_up_to_twenty_megabytes() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let small = Said::document("notes.md", "text/markdown", "# Hi").caption("read this");
    stand.api.user_says(chat, ANN, small);
    stand.api.user_says(chat, ANN, Said::document("big.bin", "x/y", vec![0; (20 << 20) + 1]));
    stand.api.user_says(chat, ANN, Said::photo(png(640, 480, 99)).album("a"));
    stand.api.user_says(chat, ANN, Said::voice("ogg"));
    let updates = stand.updates(0).await;
    let message = |at: usize| &updates[at]["message"];
    assert_eq!(message(0)["caption"], "read this");
    assert_eq!(message(0)["document"]["mime_type"], "text/markdown");
    let id = json!({"file_id": message(0)["document"]["file_id"]});
    let file = stand.call("getFile", id).await;
    let path = file["file_path"].as_str().unwrap();
    assert!(path.starts_with("documents/"), "{path}");
    let url = format!("{}/file/bot{}/{path}", stand.api.url, stand.api.token);
    assert_eq!(stand.client.get(&url).send().await.unwrap().text().await.unwrap(), "# Hi");
    let nowhere = stand.client.get(format!("{url}x")).send().await.unwrap();
    assert_eq!(nowhere.status(), 404);

    let id = json!({"file_id": message(1)["document"]["file_id"]});
    assert_eq!(stand.refused("getFile", id).await, "Bad Request: file is too big");
    let refusal = stand.refused("getFile", json!({"file_id": "nonsense"})).await;
    assert_eq!(refusal, "Bad Request: wrong file_id or the file is temporarily unavailable");
    assert_eq!(message(2)["photo"][1]["width"], 640);
    assert_eq!(message(2)["media_group_id"], "a");
    assert_eq!(message(3)["voice"]["mime_type"], "audio/ogg");
}
