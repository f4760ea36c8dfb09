//! `towpath watch --to s3://…` with an S3 server.
//!
//! The server is installed under `target/` on first use. Without Python or a way to install it, the test
//! prints that it was skipped; with `CI=true` it fails.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use test_support::packages;

use crate::process::Project;

const PACKAGE: &str = "moto[server]==5.2.5";

/// Prints its address and serves until its stdin ends.
const SERVER: &str = "
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
print('%s:%s' % server.get_host_and_port(), flush=True)
sys.stdin.read()
server.stop()
";

struct S3Server {
    server: Child,
    address: String,
}

impl Drop for S3Server {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

impl S3Server {
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

    /// Sends a request and returns the status and the body. The server does not check the signature.
    fn request(&self, method: &str, path: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).expect("the server");
        let host = &self.address;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: AWS key:none\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("a request");
        let mut response = Vec::new();
        stream.read_to_end(&mut response).expect("a response");
        let end = response.windows(4).position(|it| it == b"\r\n\r\n").expect("a head") + 4;
        let status = String::from_utf8_lossy(&response[9..12]).parse().expect("a status");
        (status, response[end..].to_vec())
    }
}

#[test]
fn files_are_uploaded_whole_and_in_parts_and_deleted() {
    let Some(store) = packages::or_skip(S3Server::start()) else { return };
    assert_eq!(store.request("PUT", "/bucket").0, 200);
    let project = Project::new();
    project.write("a b/ü.txt", "small");
    // Large enough for a multipart upload.
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
    watch.wait_for("ü.txt → s3://bucket/some/prefix");
    assert_eq!(
        store.request("GET", "/bucket/some/prefix/a%20b/%C3%BC.txt"),
        (200, b"small".to_vec())
    );
    watch.change("t2", "Write", "large.bin");
    watch.wait_for("large.bin → s3://bucket/some/prefix");
    let (status, body) = store.request("GET", "/bucket/some/prefix/large.bin");
    assert!(status == 200 && body == large.as_bytes(), "{status}, {} bytes", body.len());
    fs::remove_file(project.root().join("large.bin")).unwrap();
    watch.change("t3", "Write", "large.bin");
    watch.wait_for("large.bin → s3://bucket/some/prefix (deleted)");
    assert_eq!(store.request("GET", "/bucket/some/prefix/large.bin").0, 404);
    let result = watch.finish();
    assert_eq!(result.code, 1, "the other bucket does not exist");
    for line in result.changes() {
        let exists = line.contains("s3://bucket/");
        let deleted = line.contains("deleted");
        assert!(line.contains(if exists || deleted { "pushed" } else { "failed" }), "{line}");
    }
    let output = format!("{:?} {}", result.log, result.report);
    assert!(!output.contains("s3cret"), "{output}");
}

/// A Python that has the server installed.
fn python() -> Result<PathBuf, String> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moto");
    Ok(packages::python(&directory, &[PACKAGE])?.join("python"))
}
