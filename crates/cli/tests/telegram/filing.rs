//! Files, both ways.

use test_support::bot_api::{MediaKind, Said};

use crate::stage::{ANN, Stage};

/// A picture of one point.
const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0d, b'I', b'D', b'A', b'T',
    0x78, 0x9c, 0x63, 0xf8, 0xcf, 0xc0, 0xf0, 0x1f, 0, 5, 0, 1, 0xff, 0x89, 0x99, 0x3d, 0x1d, 0, 0,
    0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

#[tokio::test]
async fn an_album_with_a_caption_is_one_prompt_with_pictures() {
    let stage = Stage::new("api text \"Two points.\"").await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, Said::photo(PNG).caption("what is this?").album("a"));
    stage.telegram.user_says(chat, ANN, Said::photo(PNG).album("a"));
    stage.says(chat, "Two points.").await;
    let asked = stage.asked();
    assert_eq!(asked.len(), 1, "one prompt: {asked:?}");
    assert_eq!(asked[0].matches("\"type\":\"image\"").count(), 2, "{}", &asked[0]);
    assert!(asked[0].contains("what is this?"));
    stage.check();
}

#[tokio::test]
async fn a_document_is_kept_and_named_and_one_that_is_too_large_is_not() {
    let stage = Stage::new("api text \"Read it.\"").await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    let notes = Said::document("../notes.txt", "text/plain", "milk").caption("read this");
    stage.telegram.user_says(chat, ANN, notes);
    stage.says(chat, "Read it.").await;
    let kept = stage.path("project/.towpath/files/notes.txt");
    assert_eq!(std::fs::read_to_string(&kept).expect("a file"), "milk");
    assert_eq!(stage.times_asked(".towpath/files/notes.txt"), 1, "{:?}", stage.asked());
    let huge = Said::document("film.bin", "application/octet-stream", vec![0; (20 << 20) + 1]);
    stage.telegram.user_says(chat, ANN, huge.caption("and this"));
    stage.says(chat, "20 MB").await;
    let asked = async || {
        while stage.times_asked("and this") == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::stage::PATIENCE, asked()).await.expect("its words are sent");
    assert!(!stage.path("project/.towpath/files/film.bin").exists());
    stage.check();
}

#[tokio::test]
async fn what_the_agent_puts_into_its_outbox_is_sent_once_and_links_are_not() {
    let script = "mkdir -p .towpath/outbox && cp chart.png .towpath/outbox/ && \
                  printf report > .towpath/outbox/report.txt && \
                  ln -s /etc/hostname .towpath/outbox/link.txt";
    let stage = Stage::new(&format!(
        "api tool Bash {{\"command\":\"{script}\",\"description\":\"d\"}}\napi text \"Sent.\"\n\
         api text \"Nothing more.\""
    ))
    .await;
    std::fs::write(stage.path("project/chart.png"), PNG).expect("a file");
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "send me the report");
    stage.tap(chat, ANN, "Allow").await;
    let answer = stage.says(chat, "Sent.").await;
    let photo = |it: &test_support::bot_api::Seen| {
        it.media.as_ref().is_some_and(|it| it.kind == MediaKind::Photo)
    };
    let photo = stage.bot_message(chat, "a photo", photo).await;
    let named = |it: &test_support::bot_api::Seen| {
        it.media.as_ref().is_some_and(|it| it.name == "report.txt")
    };
    let report = stage.bot_message(chat, "a document", named).await;
    assert_eq!(report.media.as_ref().map(|it| it.bytes.to_vec()), Some(b"report".to_vec()));
    assert!(photo.message_id > answer.message_id && report.message_id > answer.message_id);
    stage.telegram.user_says(chat, ANN, "anything else?");
    stage.says(chat, "Nothing more.").await;
    let sent = stage.path("project/.towpath/outbox/sent");
    assert!(sent.join("report.txt").is_file() && sent.join("chart.png").is_file());
    assert!(stage.path("project/.towpath/outbox/link.txt").is_symlink(), "it is left where it is");
    let media =
        stage.telegram.messages(chat).iter().filter(|it| it.from_bot && it.media.is_some()).count();
    assert_eq!(media, 2, "each once, and no link");
    stage.check();
}

#[tokio::test]
async fn the_changes_of_a_turn_are_a_tap_away() {
    let stage = Stage::new(
        "api tool Write {\"file_path\":\"$cwd/new.txt\",\"content\":\"one\\ntwo\\n\"}\napi text \"Written.\"",
    )
    .await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "write");
    stage.tap(chat, ANN, "Allow").await;
    let answer = stage.says(chat, "Written.").await;
    assert!(answer.text.contains("new.txt"), "{}", answer.text);
    stage.tap(chat, ANN, "changes").await;
    let diff = |it: &test_support::bot_api::Seen| {
        it.media.as_ref().is_some_and(|it| it.name.contains(".diff"))
    };
    let diff = stage.bot_message(chat, "a diff", diff).await.media.expect("a file");
    let text = String::from_utf8_lossy(&diff.bytes).into_owned();
    assert!(text.contains("new.txt") && text.contains("+two"), "{text}");
    stage.check();
}
