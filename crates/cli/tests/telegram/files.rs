//! Files in both directions.

use test_support::bot_api::{BotApiMediaKind, BotApiUserMessage, MediaSnapshot, MessageSnapshot};

use crate::fixture::{ANN, Fixture, TIMEOUT};
use crate::texts::{ALLOW, FILE_TOO_LARGE, SHOW_CHANGES};

/// An image of one pixel.
const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0d, b'I', b'D', b'A', b'T',
    0x78, 0x9c, 0x63, 0xf8, 0xcf, 0xc0, 0xf0, 0x1f, 0, 5, 0, 1, 0xff, 0x89, 0x99, 0x3d, 0x1d, 0, 0,
    0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

#[tokio::test]
async fn an_album_with_a_caption_is_one_prompt_with_images() {
    let fixture = Fixture::new("api text \"Two pixels.\"").await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    let photo = || BotApiUserMessage::photo(PNG).album("a");
    fixture.telegram.user_sends(chat, ANN, photo().caption("what is this?"));
    fixture.telegram.user_sends(chat, ANN, photo());
    fixture.wait_for_text(chat, "Two pixels.").await;
    let requests = fixture.model_requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert_eq!(requests[0].matches("\"type\":\"image\"").count(), 2, "{}", &requests[0]);
    assert!(requests[0].contains("what is this?"));
    fixture.assert_correct();
}

#[tokio::test]
async fn a_document_is_stored_for_the_agent_unless_it_is_too_large() {
    let fixture = Fixture::new("api text \"Read it.\"").await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    let notes = BotApiUserMessage::document("../notes.txt", "text/plain", "milk");
    fixture.telegram.user_sends(chat, ANN, notes.caption("read this"));
    fixture.wait_for_text(chat, "Read it.").await;
    let stored = fixture.path("project/.towpath/files/notes.txt");
    assert_eq!(std::fs::read_to_string(&stored).expect("a file"), "milk");
    let prompts = fixture.count_prompts(".towpath/files/notes.txt");
    assert_eq!(prompts, 1, "{:?}", fixture.model_requests());
    let bytes = vec![0; (20 << 20) + 1];
    let film = BotApiUserMessage::document("film.bin", "application/octet-stream", bytes);
    fixture.telegram.user_sends(chat, ANN, film.caption("and this"));
    fixture.wait_for_text(chat, FILE_TOO_LARGE).await;
    let has_caption = |requests: &[String]| requests.iter().any(|it| it.contains("and this"));
    fixture.wait_for_requests("caption", TIMEOUT, has_caption).await;
    assert!(!fixture.path("project/.towpath/files/film.bin").exists());
    fixture.assert_correct();
}

#[tokio::test]
async fn files_in_the_outbox_of_the_agent_are_sent_once_and_links_are_not() {
    let script = "mkdir -p .towpath/outbox && cp chart.png .towpath/outbox/ && \
                  printf report > .towpath/outbox/report.txt && \
                  ln -s /etc/hostname .towpath/outbox/link.txt";
    let fixture = Fixture::new(&format!(
        "api tool Bash {{\"command\":\"{script}\",\"description\":\"d\"}}\napi text \"Sent.\"\n\
         api text \"Nothing more.\""
    ))
    .await;
    std::fs::write(fixture.path("project/chart.png"), PNG).expect("a file");
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "send me the report");
    fixture.tap(chat, ANN, ALLOW).await;
    let answer = fixture.wait_for_text(chat, "Sent.").await;
    let (photo, _) =
        wait_for_file(&fixture, "a photo", |it| it.kind == BotApiMediaKind::Photo).await;
    let (report, media) = wait_for_file(&fixture, "a document", |it| it.name == "report.txt").await;
    assert_eq!(&media.bytes[..], b"report");
    assert!(photo.message_id > answer.message_id && report.message_id > answer.message_id);
    fixture.telegram.user_sends(chat, ANN, "anything else?");
    fixture.wait_for_text(chat, "Nothing more.").await;
    let outbox = fixture.path("project/.towpath/outbox");
    assert!(outbox.join("sent/report.txt").is_file() && outbox.join("sent/chart.png").is_file());
    assert!(outbox.join("link.txt").is_symlink(), "the link stays in the outbox");
    let messages = fixture.telegram.messages(chat);
    let files = messages.iter().filter(|it| it.from_bot && it.media.is_some()).count();
    assert_eq!(files, 2, "each file once, and no link");
    fixture.assert_correct();
}

#[tokio::test]
async fn the_changes_of_a_turn_are_available_by_a_button() {
    let fixture = Fixture::new(
        "api tool Write {\"file_path\":\"$cwd/new.txt\",\"content\":\"one\\ntwo\\n\"}\napi text \"Written.\"",
    )
    .await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "write");
    fixture.tap(chat, ANN, ALLOW).await;
    let answer = fixture.wait_for_text(chat, "Written.").await;
    assert!(answer.text.contains("new.txt"), "{}", answer.text);
    fixture.tap(chat, ANN, SHOW_CHANGES).await;
    let (_, diff) = wait_for_file(&fixture, "a diff", |it| it.name.contains(".diff")).await;
    let diff = String::from_utf8_lossy(&diff.bytes).into_owned();
    assert!(diff.contains("new.txt") && diff.contains("+two"), "{diff}");
    fixture.assert_correct();
}

/// Waits for a file from the bot in Ann's chat.
async fn wait_for_file(
    fixture: &Fixture,
    what: &str,
    condition: impl Fn(&MediaSnapshot) -> bool,
) -> (MessageSnapshot, MediaSnapshot) {
    let chat = fixture.telegram.private_chat(ANN);
    let has_file = |it: &MessageSnapshot| it.media.as_ref().is_some_and(&condition);
    let message = fixture.wait_for_message(chat, what, has_file).await;
    let media = message.media.clone().expect("the file that was just found");
    (message, media)
}
