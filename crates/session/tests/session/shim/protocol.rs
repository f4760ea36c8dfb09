//! The protocol on the socket. A shim outlives the Towpath that started it, so either side may be
//! the older one.
//!
//! These tests use raw bytes, so that they fail if the types change the protocol.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use towpath_session::shim::{AttachError, ExitStatus, ShimCommand, ShimConnection, ShimEvent};

use super::fixture::{ShimFixture, TIMEOUT, next_event};

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![kind];
    frame.extend(u32::try_from(payload.len()).expect("a short frame").to_le_bytes());
    frame.extend(payload);
    frame
}

fn read_frame(socket: &mut UnixStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    socket.read_exact(&mut head).ok()?;
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    let mut payload = vec![0; length as usize];
    socket.read_exact(&mut payload).ok()?;
    Some((head[0], payload))
}

fn connect(fixture: &ShimFixture) -> UnixStream {
    let socket = UnixStream::connect(&fixture.config.socket).expect("a shim");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    socket
}

#[tokio::test]
async fn an_owner_of_a_later_minor_version_is_accepted() {
    let fixture = ShimFixture::new("while read -r line; do echo $line; done");
    fixture.start().await;
    let mut owner = connect(&fixture);
    let hello = br#"{"version":{"major":1,"minor":9,"patch":3},"from":0,"colour":"blue"}"#;
    owner.write_all(&frame(1, hello)).unwrap();
    owner.write_all(&frame(77, b"what is this?")).unwrap();
    owner.write_all(&frame(2, b"\x01\0\0\0\0\0\0\0hi\n")).unwrap();
    owner.write_all(&frame(3, b"with a field that is not known yet")).unwrap();
    let (kind, hello) = read_frame(&mut owner).unwrap();
    let hello: serde_json::Value = serde_json::from_slice(&hello).unwrap();
    assert_eq!((kind, &hello["version"]["major"]), (129, &serde_json::json!(1)));
    let mut kinds = Vec::new();
    while let Some((kind, payload)) = read_frame(&mut owner) {
        kinds.push(kind);
        match kind {
            130 => assert_eq!(payload, b"\0\0\0\0\0\0\0\0hi\n"),
            132 => assert!(String::from_utf8_lossy(&payload).contains(r#""exit":{"code":0}"#)),
            _ => {}
        }
    }
    assert!(kinds.ends_with(&[132]) && kinds.contains(&130), "{kinds:?}");
}

#[tokio::test]
async fn an_owner_of_another_major_version_is_refused() {
    let fixture = ShimFixture::new("read -r line");
    fixture.start().await;
    for major in [0, 2] {
        let mut owner = connect(&fixture);
        let hello = format!(r#"{{"version":{{"major":{major},"minor":0}},"from":1}}"#);
        owner.write_all(&frame(1, hello.as_bytes())).unwrap();
        let (kind, refusal) = read_frame(&mut owner).unwrap();
        let refusal: serde_json::Value = serde_json::from_slice(&refusal).unwrap();
        assert_eq!((kind, &refusal["version"]["major"]), (133, &serde_json::json!(1)));
        assert_eq!(read_frame(&mut owner), None, "it is disconnected");
    }
    // It did not keep an owner with the right version out.
    fixture.attach(0).await;
}

#[tokio::test]
async fn a_client_that_sends_nonsense_is_disconnected_and_keeps_no_other_out() {
    let fixture = ShimFixture::new("read -r line; exit 2");
    fixture.start().await;
    let mut silent: Vec<UnixStream> = (0..4).map(|_| connect(&fixture)).collect();
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &frame(2, b"\x01\0\0\0\0\0\0\0x"), &frame(1, b"{")]
    {
        let mut owner = connect(&fixture);
        owner.write_all(bytes).unwrap();
        assert_eq!(read_frame(&mut owner), None);
    }
    let (_, mut connection) = fixture.attach(0).await;
    assert_eq!(silent[0].read(&mut [0; 8]).unwrap_or(0), 0, "a silent client is disconnected");
    connection.send(ShimCommand::CloseStdin).await.unwrap();
    while let Some(event) = next_event(&mut connection).await {
        if let ShimEvent::Exited { status, .. } = event {
            assert_eq!(status, ExitStatus::Code(2));
        }
    }
}

/// A fake shim in a thread, which sends these frames to the first client and returns what it
/// received.
fn fake_shim(fixture: &ShimFixture, frames: Vec<Vec<u8>>) -> std::thread::JoinHandle<Vec<u8>> {
    std::fs::create_dir_all(fixture.live()).expect("a fake shim");
    let socket = fixture.config.socket.to_str().expect("a fake shim");
    let record = serde_json::json!({
        "run": 1, "socket": {"Unix": socket.as_bytes()}, "shim": 1_999_999_999, "agent": 1_999_999_998,
        "agent_born": null, "marker": "none-of-ours", "colour": "blue",
    });
    std::fs::write(fixture.live().join("shim.json"), record.to_string()).expect("a fake shim");
    let listener = UnixListener::bind(socket).expect("a fake shim");
    std::thread::spawn(move || {
        let (mut owner, _) = listener.accept().expect("a fake shim");
        owner.set_read_timeout(Some(Duration::from_secs(10))).expect("a fake shim");
        let hello = read_frame(&mut owner).expect("a fake shim");
        assert_eq!(hello.0, 1);
        for frame in frames {
            owner.write_all(&frame).expect("a fake shim");
        }
        let mut received = Vec::new();
        let _ = owner.read_to_end(&mut received);
        received
    })
}

#[tokio::test]
async fn a_shim_of_a_later_minor_version_is_accepted() {
    let fixture = ShimFixture::new("");
    let hello =
        br#"{"version":{"major":1,"minor":7},"start":5,"end":9,"last_write":3,"mood":"good"}"#;
    let frames = vec![
        frame(129, hello),
        frame(200, b"?"),
        frame(130, b"\x05\0\0\0\0\0\0\0abcd"),
        frame(132, br#"{"exit":{"signal":15},"end":9,"core":true}"#),
    ];
    let shim = fake_shim(&fixture, frames);
    let (hello, mut connection) = fixture.attach(5).await;
    assert_eq!((hello.last_write, hello.end), (3, 9));
    let output = ShimEvent::Output { offset: 5, bytes: b"abcd".to_vec() };
    assert_eq!(next_event(&mut connection).await, Some(output));
    assert_eq!(
        next_event(&mut connection).await,
        Some(ShimEvent::Exited { status: ExitStatus::Signal(15), end: 9 })
    );
    connection.close().await;
    assert_eq!(shim.join().unwrap(), b"");
}

#[tokio::test]
async fn a_shim_of_another_major_version_is_refused_with_advice() {
    let hello = br#"{"version":{"major":2,"minor":0},"start":0,"end":2}"#;
    let refusal = br#"{"version":{"major":2,"minor":0}}"#;
    for answer in [frame(129, hello), frame(133, refusal)] {
        let fixture = ShimFixture::new("");
        let shim = fake_shim(&fixture, vec![answer]);
        let error = ShimConnection::attach(fixture.live(), 0).await.unwrap_err();
        assert!(matches!(error, AttachError::Incompatible { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("protocol 2.0") && text.contains("stop the agent"), "{text}");
        shim.join().unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_not_a_shim_is_recognized() {
    let fixture = ShimFixture::new("");
    let shim = fake_shim(&fixture, vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()]);
    let error = ShimConnection::attach(fixture.live(), 0).await.unwrap_err();
    assert!(matches!(error, AttachError::NotAShim), "{error:?}");
    shim.join().unwrap();
}
