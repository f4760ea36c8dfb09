//! The client against sockets that misbehave.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{Bot, NotFetched, Trouble};
use crate::call::{Call, Failure, Reply, SendMessage, Words};
use crate::place::{ChatId, MessageId, Place};
use crate::settings::{Api, Plain, Token};

const SECRET: &str = "123:sEcReT";

fn bot(address: &str) -> Bot {
    let api = Api::at(address, Plain::Refused).unwrap();
    Bot::new(api, Token::new(SECRET).unwrap()).unwrap()
}

/// A server that answers each connection with these bytes and closes it.
async fn answering(answer: &'static str) -> Bot {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = socket.read(&mut head).await;
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    bot(&address)
}

fn hello() -> Call {
    Call::Send(SendMessage {
        place: Place { chat: ChatId(7), thread: None },
        words: Words { html: "hi".to_owned(), plain: "hi".to_owned() },
        buttons: Vec::new(),
        loud: true,
        reply_to: None,
        force_reply: false,
    })
}

#[tokio::test]
async fn a_refused_connection_is_known_not_to_have_been_heard_and_tells_no_token() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let bot = bot(&format!("http://{address}"));
    let trouble = bot.call(&hello()).await.unwrap_err();
    assert!(matches!(trouble, Trouble::Failure(Failure::NotReached(_))), "{trouble}");
    let Err(NotFetched::Failed(fetching)) = bot.fetch("x", 10).await else { panic!("fetched") };
    for text in [format!("{trouble} {trouble:?}"), format!("{bot:?}"), format!("{fetching:?}")] {
        assert!(!text.contains("sEcReT"), "{text}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_everybody_guessing_and_tells_no_token() {
    for broken in ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", "nonsense\r\n\r\n"] {
        let trouble = answering(broken).await.call(&hello()).await.unwrap_err();
        assert!(matches!(trouble, Trouble::Failure(Failure::Unknown(_))), "{broken}: {trouble}");
        assert!(!format!("{trouble} {trouble:?}").contains("sEcReT"), "{trouble:?}");
    }
}

#[tokio::test]
async fn nobody_is_sent_elsewhere_with_the_token() {
    let moved = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    let trouble = answering(moved).await.call(&hello()).await.unwrap_err();
    assert!(matches!(trouble, Trouble::Failure(Failure::Unknown(_))), "{trouble}");
}

#[tokio::test]
async fn what_was_sent_has_a_number() {
    let body = r#"{"ok":true,"result":{"message_id":42}}"#;
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let reply = answering(Box::leak(answer.into_boxed_str())).await.call(&hello()).await;
    assert_eq!(reply, Ok(Reply::Sent(MessageId(42))));
}

#[tokio::test]
async fn a_link_is_not_followed_to_a_file() {
    let place = tempfile::tempdir().unwrap();
    let link = place.path().join("innocent.txt");
    std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
    let call = Call::SendFile {
        place: Place { chat: ChatId(7), thread: None },
        path: link,
        picture: false,
        caption: None,
        loud: false,
    };
    let bot = bot("http://127.0.0.1:1");
    let sent = tokio::time::timeout(Duration::from_secs(5), bot.call(&call)).await.unwrap();
    assert!(matches!(sent, Err(Trouble::Failure(Failure::Refused(_)))), "{sent:?}");
}
