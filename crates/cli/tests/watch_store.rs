//! `towpath watch --to s3://…`, against a server that speaks as S3 does.
//!
//! It is installed under `target/` on first use. Without Python or a way to install it the test says
//! that it was skipped; where `CI` is `true` that is a failure.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

#[expect(dead_code, reason = "commits are shown elsewhere")]
mod pipeline;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pipeline::Project;
use test_support::packages;

const PACKAGE: &str = "moto[server]==5.2.5";

/// Serves until its stdin ends, and says where.
const SERVER: &str = "
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
print('%s:%s' % server.get_host_and_port(), flush=True)
sys.stdin.read()
server.stop()
";

struct Store {
    server: Child,
    address: String,
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

impl Store {
    fn start() -> Result<Self, String> {
        let mut server = Command::new(python()?)
            .args(["-c", SERVER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut address = String::new();
        let mut stdout = BufReader::new(server.stdout.take().expect("a pipe"));
        stdout.read_line(&mut address).map_err(|error| error.to_string())?;
        if address.is_empty() {
            return Err("moto did not start".to_owned());
        }
        Ok(Self { server, address: address.trim().to_owned() })
    }

    /// Asks over plain HTTP; the status and the body. That there is a signature is enough for it.
    fn ask(&self, method: &str, path: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).expect("the server");
        let host = &self.address;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: AWS key:none\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("a head") + 4;
        let status = String::from_utf8_lossy(&answer[9..12]).parse().expect("a status");
        (status, answer[end..].to_vec())
    }
}

#[test]
fn files_go_to_a_bucket_whole_in_parts_and_away_again() {
    let Some(store) = packages::or_skip(Store::start()) else { return };
    assert_eq!(store.ask("PUT", "/bucket").0, 200);
    let project = Project::new();
    project.write("a b/ü.txt", "small");
    // Large enough for parts.
    let lines: Vec<String> = (0..1_200_000).map(|n| format!("{n:07}")).collect();
    let large = lines.join("\n");
    project.write("large.bin", &large);
    let endpoint = format!("http://{}", store.address);
    let environment = [
        ("AWS_ENDPOINT_URL", &*endpoint),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "s3cret"),
        ("AWS_REGION", "us-east-1"),
    ];
    let mut watch = project.watch_with(
        &["--to", "s3://bucket/some/prefix", "--to", "s3://nowhere/x", "--attempts", "2"],
        &environment,
    );
    watch.change("t1", "Write", "a b/ü.txt");
    watch.hear("ü.txt → s3://bucket/some/prefix");
    assert_eq!(store.ask("GET", "/bucket/some/prefix/a%20b/%C3%BC.txt"), (200, b"small".to_vec()));
    watch.change("t2", "Write", "large.bin");
    watch.hear("large.bin → s3://bucket/some/prefix");
    let (status, body) = store.ask("GET", "/bucket/some/prefix/large.bin");
    assert!(status == 200 && body == large.as_bytes(), "{status}, {} bytes", body.len());
    fs::remove_file(project.root().join("large.bin")).unwrap();
    watch.change("t3", "Write", "large.bin");
    watch.hear("large.bin → s3://bucket/some/prefix (deleted)");
    assert_eq!(store.ask("GET", "/bucket/some/prefix/large.bin").0, 404);
    let finished = watch.finish();
    assert_eq!(finished.code, 1, "the other bucket is not there");
    for line in finished.changes() {
        let there = line.contains("s3://bucket/");
        let deleted = line.contains("deleted");
        assert!(line.contains(if there || deleted { "pushed" } else { "failed" }), "{line}");
    }
    let said = format!("{:?} {}", finished.remarks, finished.report);
    assert!(!said.contains("s3cret"), "{said}");
}

/// A Python with the server.
fn python() -> Result<PathBuf, String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moto");
    Ok(packages::python(&place, &[PACKAGE])?.join("python"))
}
