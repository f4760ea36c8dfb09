//! Versions: a shim outlives the Towpath that started it, so either may be the older one.
//!
//! These speak in raw bytes: what they say must stay understood whatever becomes of the types.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use towpath_session::shim::{AttachError, Exit, Link, News, Order, Terms};

use crate::stage::{PATIENCE, Stage, gone, next};

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

fn connect(stage: &Stage) -> UnixStream {
    let socket = UnixStream::connect(&stage.plan.socket).expect("a shim");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

#[tokio::test]
async fn an_owner_of_a_later_minor_version_is_served() {
    let stage = Stage::new("while read -r line; do echo $line; done");
    stage.start().await;
    let mut owner = connect(&stage);
    let hello = br#"{"version":{"major":1,"minor":9,"patch":3},"from":0,"colour":"blue"}"#;
    owner.write_all(&frame(1, hello)).unwrap();
    owner.write_all(&frame(77, b"what is this?")).unwrap();
    owner.write_all(&frame(2, b"\x01\0\0\0\0\0\0\0hi\n")).unwrap();
    owner.write_all(&frame(3, b"with a field nobody knows yet")).unwrap();
    let (kind, hello) = read_frame(&mut owner).unwrap();
    let hello: serde_json::Value = serde_json::from_slice(&hello).unwrap();
    assert_eq!((kind, &hello["version"]["major"]), (129, &serde_json::json!(1)));
    let mut came = Vec::new();
    while let Some((kind, payload)) = read_frame(&mut owner) {
        came.push(kind);
        match kind {
            130 => assert_eq!(payload, b"\0\0\0\0\0\0\0\0hi\n"),
            132 => assert!(String::from_utf8_lossy(&payload).contains(r#""exit":{"code":0}"#)),
            _ => {}
        }
    }
    assert!(came.ends_with(&[132]) && came.contains(&130), "{came:?}");
}

#[tokio::test]
async fn an_owner_of_another_major_version_can_listen_and_end_but_not_write() {
    for major in [0, 2] {
        let stage = Stage::new("echo hi; while read -r line; do echo $line; done; exit 6");
        let started = stage.start().await;
        let mut owner = connect(&stage);
        let hello = format!(r#"{{"version":{{"major":{major},"minor":0}},"from":1}}"#);
        owner.write_all(&frame(1, hello.as_bytes())).unwrap();
        // What number 2 means in another major version nobody knows.
        owner.write_all(&frame(2, b"\x01\0\0\0\0\0\0\0no\n")).unwrap();
        let (kind, hello) = read_frame(&mut owner).unwrap();
        let hello: serde_json::Value = serde_json::from_slice(&hello).unwrap();
        assert_eq!((kind, &hello["version"]["major"]), (129, &serde_json::json!(1)));
        assert!(hello["start"].is_u64() && hello["end"].is_u64());
        let mut output: Vec<u8> = Vec::new();
        while output.len() < 2 {
            let (kind, payload) = read_frame(&mut owner).unwrap();
            assert_eq!(kind, 130);
            output.extend(&payload[8..]);
        }
        assert_eq!(output, b"i\n");
        owner.write_all(&frame(5, &60_000_u32.to_le_bytes())).unwrap();
        let (kind, payload) = read_frame(&mut owner).unwrap();
        let exit: serde_json::Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!((kind, exit), (132, serde_json::json!({"exit": {"code": 6}, "end": 3})));
        drop(owner);
        gone(&[started.shim]).await;
    }
}

#[tokio::test]
async fn whoever_speaks_nonsense_is_shown_out_and_keeps_nobody_else_waiting() {
    let stage = Stage::new("read -r line; exit 2");
    stage.start().await;
    let mut silent: Vec<UnixStream> = (0..4).map(|_| connect(&stage)).collect();
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &frame(2, b"\x01\0\0\0\0\0\0\0x"), &frame(1, b"{")]
    {
        let mut owner = connect(&stage);
        owner.write_all(bytes).unwrap();
        assert_eq!(read_frame(&mut owner), None);
    }
    let (_, mut link) = stage.attach(0).await;
    assert_eq!(silent[0].read(&mut [0; 8]).unwrap_or(0), 0, "who says nothing is shown out");
    link.order(Order::CloseStdin).await.unwrap();
    while let Some(news) = next(&mut link).await {
        if let News::Exited { exit, .. } = news {
            assert_eq!(exit, Exit::Code(2));
        }
    }
}

/// A shim of another version, in a thread: says these frames to whoever comes.
fn pretend(stage: &Stage, frames: Vec<Vec<u8>>) -> std::thread::JoinHandle<Vec<u8>> {
    std::fs::create_dir_all(stage.live()).expect("a stand-in for a shim");
    let socket = stage.plan.socket.to_str().expect("a stand-in for a shim");
    let register = serde_json::json!({
        "run": 1, "socket": {"Unix": socket.as_bytes()}, "shim": 1_999_999_999, "agent": 1_999_999_998,
        "agent_born": null, "marker": "none-of-ours", "colour": "blue",
    });
    std::fs::write(stage.live().join("shim.json"), register.to_string())
        .expect("a stand-in for a shim");
    let listener = UnixListener::bind(socket).expect("a stand-in for a shim");
    std::thread::spawn(move || {
        let (mut owner, _) = listener.accept().expect("a stand-in for a shim");
        owner.set_read_timeout(Some(Duration::from_secs(10))).expect("a stand-in for a shim");
        let hello = read_frame(&mut owner).expect("a stand-in for a shim");
        assert_eq!(hello.0, 1);
        for frame in frames {
            owner.write_all(&frame).expect("a stand-in for a shim");
        }
        let mut said = Vec::new();
        let _ = owner.read_to_end(&mut said);
        said
    })
}

#[tokio::test]
async fn a_shim_of_a_later_minor_version_is_understood() {
    let stage = Stage::new("");
    let hello =
        br#"{"version":{"major":1,"minor":7},"start":5,"end":9,"last_write":3,"mood":"good"}"#;
    let frames = vec![
        frame(129, hello),
        frame(200, b"?"),
        frame(130, b"\x05\0\0\0\0\0\0\0abcd"),
        frame(132, br#"{"exit":{"signal":15},"end":9,"core":true}"#),
    ];
    let shim = pretend(&stage, frames);
    let (greeting, mut link) = stage.attach(5).await;
    assert_eq!((greeting.terms, greeting.last_write, greeting.end), (Terms::Full, 3, 9));
    let output = News::Output { offset: 5, bytes: b"abcd".to_vec() };
    assert_eq!(next(&mut link).await, Some(output));
    assert_eq!(next(&mut link).await, Some(News::Exited { exit: Exit::Signal(15), end: 9 }));
    link.close().await;
    assert_eq!(shim.join().unwrap(), b"");
}

#[tokio::test]
async fn a_shim_of_another_major_version_can_be_listened_to_and_ended() {
    let stage = Stage::new("");
    let hello = br#"{"version":{"major":2,"minor":0},"start":0,"end":2}"#;
    let shim = pretend(&stage, vec![frame(129, hello), frame(130, b"\0\0\0\0\0\0\0\0hi")]);
    let (greeting, mut link) = stage.attach(0).await;
    assert_eq!(greeting.terms, Terms::Core);
    let output = News::Output { offset: 0, bytes: b"hi".to_vec() };
    assert_eq!(next(&mut link).await, Some(output));
    let write = link.order(Order::Write { number: 1, bytes: b"x\n".to_vec() }).await;
    assert_eq!(write.unwrap_err().kind(), std::io::ErrorKind::Unsupported);
    link.order(Order::End { patience: Duration::from_millis(258) }).await.unwrap();
    link.close().await;
    assert_eq!(shim.join().unwrap(), frame(5, &258_u32.to_le_bytes()));
}

#[tokio::test]
async fn what_is_no_shim_is_not_taken_for_one() {
    let stage = Stage::new("");
    let shim = pretend(&stage, vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()]);
    let error = Link::attach(stage.live(), 0).await.unwrap_err();
    assert!(matches!(error, AttachError::Skew), "{error:?}");
    shim.join().unwrap();
}
