//! `towpath watch --to http://…` with a server that stores what it gets, but whose replies may be lost.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use crate::process::Project;

/// Files with their version, which is their `ETag`.
#[derive(Default)]
struct StoredFiles {
    files: HashMap<String, (u32, Vec<u8>)>,
    versions: u32,
    /// What to do instead of replying to the next request that changes something.
    lose_reply: Option<Box<dyn FnOnce() + Send>>,
    refused: u32,
}

/// A server with `PUT`, `GET` and `DELETE` that checks `If-Match`.
#[derive(Clone, Default)]
struct LossyServer(Arc<Mutex<StoredFiles>>);

impl LossyServer {
    fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let server = self.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let _ = server.serve(connection);
            }
        });
        url
    }

    fn state(&self) -> MutexGuard<'_, StoredFiles> {
        self.0.lock().expect("no thread panicked")
    }

    fn lose_next_reply(&self, instead: impl FnOnce() + Send + 'static) {
        self.state().lose_reply = Some(Box::new(instead));
    }

    fn content(&self, path: &str) -> Option<Vec<u8>> {
        self.state().files.get(path).map(|(_, content)| content.clone())
    }

    fn serve(&self, connection: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(connection);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let header = |name: &str| {
            let line = head.iter().find(|it| it.to_ascii_lowercase().starts_with(name));
            line.map(|it| it[name.len()..].trim().to_owned())
        };
        let length = header("content-length:").and_then(|it| it.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let mut state = self.state();
        let mut parts = head[0].split(' ');
        let (method, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let tag = state.files.get(path).map(|(version, _)| format!("\"v{version}\""));
        let mut content = Vec::new();
        let status = match method {
            _ if header("if-match:").is_some() && header("if-match:") != tag => {
                state.refused += 1;
                "412 Precondition Failed".to_owned()
            }
            "PUT" => {
                state.versions += 1;
                let version = state.versions;
                state.files.insert(path.to_owned(), (version, body));
                format!("200 OK\r\nETag: \"v{version}\"")
            }
            "DELETE" if state.files.remove(path).is_some() => "204 No Content".to_owned(),
            "GET" if tag.is_some() => {
                content.clone_from(&state.files[path].1);
                format!("200 OK\r\nETag: {}", tag.unwrap_or_default())
            }
            _ => "404 Not Found".to_owned(),
        };
        let changed = method != "GET" && status.starts_with('2');
        if changed && let Some(instead) = state.lose_reply.take() {
            instead();
            return Ok(());
        }
        let connection = reader.get_mut();
        let length = content.len();
        write!(
            connection,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )?;
        connection.write_all(&content)
    }
}

#[test]
fn a_file_whose_reply_was_lost_is_not_a_conflict() {
    let project = Project::new();
    let server = LossyServer::default();
    let url = server.start();
    let mut watch = project.watch(&["--to", &url]);
    let huge = "0123456789abcdef".repeat(1 << 20);
    let arrived = format!("a → {url}");
    project.write("a", "one");
    watch.change("t1", "Write", "a");
    watch.wait_for_line(&arrived);
    // It is sent again and has arrived.
    for (number, content) in ["two", &*huge].into_iter().enumerate() {
        project.write("a", content);
        server.lose_next_reply(|| ());
        watch.change(&format!("t2-{number}"), "Write", "a");
        watch.wait_for("retrying");
        watch.wait_for_line(&arrived);
        assert!(server.content("/a") == Some(content.as_bytes().to_vec()));
        assert_eq!(server.state().refused, 1 + u32::try_from(number).unwrap());
    }
    // It has changed before it is sent again.
    project.write("a", "three");
    let file = project.root().join("a");
    server.lose_next_reply(move || fs::write(file, "three and more").unwrap());
    watch.change("t3", "Write", "a");
    watch.wait_for_line(&arrived);
    assert_eq!(server.content("/a").unwrap(), b"three and more");
    // It is deleted before it is sent again.
    project.write("a", "four");
    let file = project.root().join("a");
    server.lose_next_reply(move || fs::remove_file(file).unwrap());
    watch.change("t4", "Write", "a");
    watch.wait_for("(deleted)");
    assert_eq!(server.content("/a"), None);
    assert_eq!(watch.finish().code, 0);
}

#[test]
fn a_deletion_whose_reply_was_lost_succeeds_and_a_change_by_others_is_a_conflict() {
    let project = Project::new();
    let server = LossyServer::default();
    let url = server.start();
    let mut watch = project.watch(&["--to", &url]);
    for name in ["a", "b"] {
        project.write(name, "one");
        watch.change(&format!("t1-{name}"), "Write", name);
        watch.wait_for_line(&format!("{name} → {url}"));
    }
    fs::remove_file(project.root().join("a")).unwrap();
    server.lose_next_reply(|| ());
    watch.change("t2", "Write", "a");
    watch.wait_for("(deleted)");
    // The reply is lost, and then another client writes the file.
    project.write("b", "two");
    let others = server.clone();
    server.lose_next_reply(move || {
        thread::spawn(move || {
            others.state().files.insert("/b".to_owned(), (1000, b"others".to_vec()))
        });
    });
    watch.change("t3", "Write", "b");
    watch.wait_for("the file was changed on the server");
    assert_eq!(server.content("/b").unwrap(), b"others");
    assert_eq!(watch.finish().code, 1);
}
