//! The outbox of the agent: what it may put there without asking, and attempts to get more.

use std::os::unix::fs::symlink;

use crate::fixture::{ANN, Fixture};
use crate::texts::{ALLOW, DENY, REVOKE};

fn write(path: &str) -> String {
    format!("api tool Write {{\"file_path\":\"{path}\",\"content\":\"report\"}}\n")
}

#[tokio::test]
async fn the_agent_puts_files_into_its_outbox_without_asking_until_the_rule_is_revoked() {
    let path = "$cwd/.towpath/outbox";
    let fixture = Fixture::new(&format!(
        "{}{}api text \"Sent.\"\n{}api text \"Sent again.\"",
        write(&format!("{path}/one.txt")),
        write(&format!("{path}/deep/two.txt")),
        write(&format!("{path}/three.txt")),
    ))
    .await;
    let bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "send me the report");
    fixture.wait_for_text(chat, "Sent.").await;
    let has_file = |name: &str| {
        let name = name.to_owned();
        move |it: &test_support::bot_api::MessageSnapshot| {
            it.media.as_ref().is_some_and(|media| media.name == name)
        }
    };
    fixture.wait_for_message(chat, "the report", has_file("one.txt")).await;
    assert_eq!(fixture.count_texts(chat, DENY), 0, "{:?}", fixture.bot_texts(chat));
    fixture.telegram.user_sends(chat, ANN, "/rules");
    let notification = fixture.tap(chat, ANN, REVOKE).await;
    assert_eq!(notification, "");
    fixture.wait_for_text(chat, "Revoked: Edit").await;
    // What a user has revoked is not given again, neither by a restart nor by another chat.
    bridge.terminate().await;
    let _bridge = fixture.start_bridge().await;
    let group = fixture.telegram.create_group(&[ANN]);
    fixture.telegram.user_sends(group, ANN, "/resume");
    fixture.tap(group, ANN, "send me the report").await;
    fixture.wait_for_text(group, "now shows").await;
    let rules = fixture.wait_for_reply(group, ANN, "/rules").await;
    assert!(rules.text.contains("No rules"), "{}", rules.text);
    fixture.telegram.user_sends(chat, ANN, "once more");
    fixture.tap(chat, ANN, ALLOW).await;
    fixture.wait_for_text(chat, "Sent again.").await;
    fixture.assert_correct();
}

#[tokio::test]
async fn the_outbox_rule_covers_nothing_outside_and_no_other_tool() {
    let path = "$cwd/.towpath/outbox";
    let attempts = [
        write(&format!("{path}/../../x")),
        write(&format!("{path}/./../escaped")),
        write(&format!("{path}/link/x")),
        write(&format!("{path}/dangling")),
        write(&format!("{path}/.git/hooks/x")),
        write("$cwd/.towpath/outboxes/x"),
        write(".towpath/outbox/../../x"),
        format!("api tool Bash {{\"command\":\"touch {path}/x\",\"description\":\"d\"}}\n"),
        format!(
            "api tool Write {{\"file_path\":\"{path}/x\",\"content\":\"\",\"mode\":\"0777\"}}\n"
        ),
    ];
    let fixture = Fixture::new(&format!("{}api text \"Given up.\"", attempts.concat())).await;
    let outbox = fixture.path("project/.towpath/outbox");
    std::fs::create_dir_all(&outbox).expect("a directory");
    symlink(fixture.path("home"), outbox.join("link")).expect("a link");
    symlink(fixture.path("home/new"), outbox.join("dangling")).expect("a link");
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "send me everything");
    for attempt in &attempts {
        assert_eq!(fixture.tap(chat, ANN, DENY).await, "Denied", "{attempt}");
        fixture.wait_for_no_button(chat, DENY).await;
    }
    fixture.wait_for_text(chat, "Given up.").await;
    let home = std::fs::read_dir(fixture.path("home")).expect("a directory");
    assert!(
        !home.filter_map(Result::ok).any(|it| it.file_name() == "x" || it.file_name() == "new")
    );
    fixture.assert_correct();
}

#[tokio::test]
async fn an_outbox_that_is_itself_a_link_is_asked_about() {
    let fixture = Fixture::new(&format!(
        "{}api text \"Given up.\"",
        write("$cwd/.towpath/outbox/authorized_keys")
    ))
    .await;
    std::fs::create_dir(fixture.path("project/.towpath")).expect("a directory");
    symlink(fixture.path("home"), fixture.path("project/.towpath/outbox")).expect("a link");
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "send me the report");
    fixture.tap(chat, ANN, DENY).await;
    fixture.wait_for_text(chat, "Given up.").await;
    assert!(!fixture.path("home/authorized_keys").exists());
    fixture.assert_correct();
}
