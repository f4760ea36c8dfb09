//! `towpath stub` on the command line.

#![expect(clippy::disallowed_methods, reason = "tests start the program they test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

fn stub(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command.arg("stub").args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A running stub and its address.
struct RunningStub {
    child: Child,
    address: String,
}

impl RunningStub {
    fn start(arguments: &[&str]) -> Self {
        let mut child = stub(&[&["--json"], arguments].concat()).spawn().expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let ready: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(ready["pid"], child.id());
        let url = ready["url"].as_str().expect("an address");
        let address = url.strip_prefix("http://").expect("an address").to_owned();
        Self { child, address }
    }

    fn post(&self, prompt: &str) -> String {
        let message = json!({"role": "user", "content": prompt});
        let body = json!({"model": "claude-opus-5-5", "max_tokens": 1000, "messages": [message]})
            .to_string();
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let length = body.len();
        write!(
            stream,
            "POST /v1/messages HTTP/1.1\r\nhost: stub\r\nconnection: close\r\n\
             x-api-key: sk-secret\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    fn stop(self, signal: &str) -> Output {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().expect("`kill` is there");
        assert!(sent.success());
        self.child.wait_with_output().expect("it ends")
    }
}

#[test]
fn it_prints_its_address_answers_and_stops_on_a_signal() {
    for signal in ["-INT", "-TERM"] {
        let stub = RunningStub::start(&[]);
        let answer = stub.post("what is up?");
        assert!(
            answer.starts_with("HTTP/1.1 200 OK") && answer.contains("what is up?"),
            "{answer}"
        );
        let address = stub.address.clone();
        let output = stub.stop(signal);
        assert_eq!(output.status.code(), Some(0));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(stderr, format!("listening on http://{address}\n"));
    }
}

#[test]
fn requests_are_logged_without_the_key() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("requests.jsonl");
    let stub = RunningStub::start(&["--requests", file.to_str().unwrap()]);
    stub.post("remember me");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("remember me") && !text.contains("sk-secret"), "{text}");
    stub.stop("-TERM");
}

#[test]
fn a_conversation_is_recorded_through_the_stub() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("conversation.scenario");
    let upstream = RunningStub::start(&[]);
    let url = format!("http://{}", upstream.address);
    let stub = RunningStub::start(&["--record", &url, "--out", out.to_str().unwrap()]);
    assert!(stub.post("hello there").contains("hello there"));
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(
        text.contains("> user \"hello there\"\napi replay \"conversation.1.jsonl\"\n"),
        "{text}"
    );
    stub.stop("-TERM");
    upstream.stop("-TERM");
}

#[test]
fn a_scenario_is_served_in_order_and_a_directory_by_first_prompt() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let held = write(
        "held.scenario",
        "# Held\n\napi text \"first\" hold gate\napi tool Read {\"file_path\":\"$cwd/a\"}\n\n> user \"go\"\nopen gate\n",
    );
    write("other.scenario", "# Other\n\napi text \"another\"\n\n> user \"begin\"\n");

    let stub = RunningStub::start(&[&held]);
    assert!(stub.post("anything").contains("first"));
    let here = std::env::current_dir().unwrap();
    let path = format!("{}/a", here.display());
    assert!(stub.post("anything").contains(&path));
    stub.stop("-TERM");

    let stub = RunningStub::start(&[directory.path().to_str().unwrap()]);
    for (prompt, answer) in
        [("begin", "another"), ("go", "first"), ("other", "another"), ("what?", "what?")]
    {
        assert!(stub.post(prompt).contains(answer), "{prompt}");
    }
    stub.stop("-TERM");
}

#[test]
fn a_recorded_conversation_can_be_served() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("conversation.scenario");
    let out = out.to_str().unwrap();
    let upstream = RunningStub::start(&[]);
    let url = format!("http://{}", upstream.address);
    let recording = RunningStub::start(&["--record", &url, "--out", out]);
    let message = |answer: &str| answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    let first = message(&recording.post("hello there"));
    recording.stop("-TERM");
    upstream.stop("-TERM");
    let stub = RunningStub::start(&[out]);
    // The replayed body has chunked encoding, so only a part of it is compared.
    let id = first.split_once("\"id\":\"").unwrap().1.split('"').next().unwrap();
    assert!(message(&stub.post("hello there")).contains(id));
    stub.stop("-TERM");
}

#[test]
fn errors_come_with_a_hint() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["missing.scenario"], "error: could not read `missing.scenario`\n  caused by: "),
        (&[empty], "error: there are no scenarios in `/"),
        (
            &["--listen", "0.0.0.0:4010"],
            "error: `0.0.0.0:4010` is not a loopback address\n\nhint: ",
        ),
        (&["--listen", &address], "error: could not listen on `127.0.0.1:"),
        (
            &["--requests", "/nowhere/x.jsonl"],
            "error: could not write `/nowhere/x.jsonl`\n  caused by: ",
        ),
        (&["--record", "api.anthropic.com", "--out", "x"], "error: invalid value"),
    ];
    for (arguments, expected) in cases {
        let output = stub(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with(expected), "{stderr}");
    }
}
