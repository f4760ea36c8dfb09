//! The output equals the input byte for byte, whatever the bytes are and whatever actions fail.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use towpath_watch::{
    CommandTarget, CommitSettings, CopyMethod, DirectoryTarget, HookSettings, HttpTarget, PipeEnd,
    RetryPolicy, StreamEnds, Target, WatchOutcome, WatchSettings,
};

/// How many mutated captures are copied.
const MUTATIONS: u32 = 10_000;

/// Settings whose target fails: the directory cannot exist.
fn failing(project: &Path) -> WatchSettings {
    let directory = DirectoryTarget::new(Path::new("/dev/null/nowhere")).expect("a path");
    WatchSettings {
        project: Some(project.to_owned()),
        current_directory: project.to_owned(),
        targets: vec![Target::Directory(directory)],
        retry: RetryPolicy { attempts: 1, delay: Duration::ZERO, ..RetryPolicy::default() },
        ..settings(project)
    }
}

/// The same, with a server, commands, hooks and commits that fail as well.
fn failing_with_programs(project: &Path) -> WatchSettings {
    let timeout = Duration::from_secs(20);
    let mut settings = failing(project);
    let command = CommandTarget::new("exit 1".to_owned(), timeout);
    settings.targets.push(Target::Command(command));
    let server =
        HttpTarget::new("http://127.0.0.1:1/", Some("token".to_owned())).expect("an address");
    settings.targets.push(Target::Http(server));
    settings.scan = true;
    settings.commit = Some(CommitSettings::default());
    settings.hooks = HookSettings {
        pre: Some("exit 1".to_owned()),
        stop: Some("/nowhere/program".to_owned()),
        ..HookSettings::default()
    };
    settings
}

fn settings(project: &Path) -> WatchSettings {
    WatchSettings {
        project: None,
        current_directory: project.to_owned(),
        selection: towpath_watch::Selection::default(),
        rejoin: false,
        scan: false,
        scan_since: None,
        targets: Vec::new(),
        trigger: towpath_watch::ActionTrigger::Change,
        retry: RetryPolicy::default(),
        commit: None,
        hooks: HookSettings::default(),
    }
}

/// A project with the relative files that captures mention.
fn project() -> tempfile::TempDir {
    let project = tempfile::tempdir().expect("a directory");
    fs::write(project.path().join("a.txt"), "content").expect("a file");
    project
}

/// A pipe that no other process inherits: one that a test beside this one starts would keep it open.
fn pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    (reader.into(), writer.into())
}

/// The output for an input that is written in chunks of `size`.
fn copy(
    bytes: &[u8],
    size: usize,
    method: CopyMethod,
    settings: WatchSettings,
) -> (Vec<u8>, WatchOutcome) {
    let (input, writer) = pipe();
    let (reader, output) = pipe();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut writer = File::from(writer);
            for chunk in bytes.chunks(size.max(1)) {
                writer.write_all(chunk).expect("the pipe is read");
            }
        });
        let output_thread = scope.spawn(move || {
            let mut out = Vec::new();
            File::from(reader).read_to_end(&mut out).expect("bytes");
            out
        });
        let outcome = run(input, output, method, settings);
        (output_thread.join().expect("the reader ends"), outcome)
    })
}

fn run(
    input: OwnedFd,
    output: OwnedFd,
    method: CopyMethod,
    settings: WatchSettings,
) -> WatchOutcome {
    let stream = StreamEnds { input, output, method };
    towpath_watch::run(stream, settings, |_| {}, std::future::pending)
        .expect("a thread and a runtime")
}

#[track_caller]
fn check(bytes: &[u8], size: usize, method: CopyMethod, settings: WatchSettings) -> WatchOutcome {
    let (out, outcome) = copy(bytes, size, method, settings);
    assert!(out == bytes, "{} bytes in, {} out", bytes.len(), out.len());
    assert!(matches!(outcome.end, Some(PipeEnd::EndOfInput)), "{outcome:?}");
    assert_eq!(outcome.report.bytes, bytes.len() as u64);
    outcome
}

fn captures() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "jsonl") {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(found.len() > 100, "{} captures", found.len());
    found
}

#[test]
fn every_capture_is_copied_unchanged_while_all_actions_fail() {
    let project = project();
    let mut failed = 0;
    for (n, capture) in captures().iter().enumerate() {
        let bytes = fs::read(capture).unwrap();
        let method = if n % 2 == 0 { CopyMethod::Best } else { CopyMethod::Copy };
        // Starting programs is slow, so only some captures do.
        let settings = if n % 10 == 0 {
            failing_with_programs(project.path())
        } else {
            failing(project.path())
        };
        failed += check(&bytes, 5000, method, settings).report.changes.len();
    }
    assert!(failed > 0, "some captures contain changes");
}

/// Damage to a capture.
#[derive(Clone, Debug)]
enum Mutation {
    Set(usize, u8),
    Insert(usize, Vec<u8>),
    Cut(usize, usize),
    Repeat(usize, usize),
    Crlf,
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let length = bytes.len().max(1);
        match self {
            Self::Set(at, byte) => {
                if let Some(target) = bytes.get_mut(at % length) {
                    *target = *byte;
                }
            }
            Self::Insert(at, piece) => {
                let at = at % length;
                bytes.splice(at..at, piece.iter().copied());
            }
            Self::Cut(at, count) => {
                let at = at % length;
                bytes.drain(at..bytes.len().min(at + count));
            }
            Self::Repeat(at, count) => {
                let at = at % length;
                let piece = bytes[at..bytes.len().min(at + count)].to_vec();
                bytes.splice(at..at, piece);
            }
            Self::Crlf => {
                *bytes = bytes
                    .iter()
                    .flat_map(|&byte| {
                        let carriage = (byte == b'\n').then_some(b'\r');
                        carriage.into_iter().chain([byte])
                    })
                    .collect();
            }
        }
    }
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 1..40),
        Just(b"\n".to_vec()),
        Just(b"\"tool_use\"".to_vec()),
        Just(
            br#"{"type":"tool_use","id":"x","toolName":"Write","toolInput":{"file_path":"a.txt"}}"#
                .to_vec()
        ),
        Just(br#"{"type":"tool_result","toolUseId":"x"}"#.to_vec()),
        Just(br"\u0074".to_vec()),
    ];
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (any::<usize>(), piece).prop_map(|(at, piece)| Mutation::Insert(at, piece)),
        (any::<usize>(), 1_usize..2000).prop_map(|(at, count)| Mutation::Cut(at, count)),
        (any::<usize>(), 1_usize..9000).prop_map(|(at, count)| Mutation::Repeat(at, count)),
        Just(Mutation::Crlf),
    ]
}

#[test]
fn ten_thousand_damaged_captures_are_copied_unchanged() {
    let project = project();
    let captures: Vec<Vec<u8>> = captures().iter().map(|path| fs::read(path).unwrap()).collect();
    let strategy = (
        0..captures.len(),
        proptest::collection::vec(mutation(), 1..6),
        1_usize..100_000,
        any::<bool>(),
    );
    let config = Config { cases: MUTATIONS, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&strategy, |(which, mutations, size, tee)| {
        let mut bytes = captures[which].clone();
        for mutation in &mutations {
            mutation.apply(&mut bytes);
        }
        let method = if tee { CopyMethod::Best } else { CopyMethod::Copy };
        let (out, outcome) = copy(&bytes, size, method, failing(project.path()));
        prop_assert!(out == bytes);
        prop_assert!(outcome.coverage == towpath_watch::Coverage::Complete);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn random_bytes_are_copied_unchanged() {
    let project = project();
    // A generator with a fixed seed, so that a failure is reproducible.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(20 << 20);
    while bytes.len() < 20 << 20 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    for method in [CopyMethod::Best, CopyMethod::Copy] {
        check(&bytes, 1 << 20, method, failing(project.path()));
    }
    check(b"", 1, CopyMethod::Best, failing(project.path()));
    check(b"\n", 1, CopyMethod::Best, failing(project.path()));
    check(b"{\"type\":\"system\"", 3, CopyMethod::Copy, failing(project.path()));
}

#[test]
fn a_write_of_a_hundred_megabytes_is_found_and_copied() {
    let project = project();
    let call = |id: &str, input: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"{id}","name":"Write","input":{input}}}]}}}}"#
        )
    };
    let result = |id: &str| {
        format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"{id}","content":"ok"}}]}}}}"#
        )
    };
    let content = "0123456789abcde\\n".repeat(100 << 16);
    assert!(content.len() > 100 << 20);
    let stream = [
        call("one", &format!(r#"{{"content":"{content}","file_path":"a.txt"}}"#)),
        result("one"),
        call("two", r#"{"file_path":"gone.txt"}"#),
        result("two"),
    ]
    .join("\r\n");
    for method in [CopyMethod::Best, CopyMethod::Copy] {
        let mut settings = settings(project.path());
        let copy = tempfile::tempdir().unwrap();
        settings.project = Some(project.path().to_owned());
        settings.targets = vec![Target::Directory(DirectoryTarget::new(copy.path()).unwrap())];
        let outcome = check(stream.as_bytes(), 1 << 20, method, settings);
        let found: Vec<_> =
            outcome.report.changes.iter().map(|it| (&*it.path, it.status)).collect();
        let pushed = towpath_watch::ReportStatus::Pushed;
        assert_eq!(found, [("a.txt", pushed), ("gone.txt", pushed)]);
        assert_eq!(fs::read_to_string(copy.path().join("a.txt")).unwrap(), "content");
    }
}

#[test]
fn ends_that_are_not_pipes_work() {
    let project = project();
    let folder = tempfile::tempdir().unwrap();
    let capture = fs::read(&captures()[0]).unwrap();
    let (from, to) = (folder.path().join("in"), folder.path().join("out"));
    fs::write(&from, &capture).unwrap();
    let input = File::open(&from).unwrap().into();
    let output = File::create(&to).unwrap().into();
    let outcome = run(input, output, CopyMethod::Best, failing(project.path()));
    assert!(matches!(outcome.end, Some(PipeEnd::EndOfInput)));
    assert!(fs::read(&to).unwrap() == capture);
}

#[test]
fn non_blocking_ends_work() {
    let project = project();
    let bytes = fs::read(&captures()[0]).unwrap().repeat(20);
    for method in [CopyMethod::Best, CopyMethod::Copy] {
        let (input, writer) = pipe();
        let (reader, output) = pipe();
        for end in [&input, &output] {
            rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::NONBLOCK).unwrap();
        }
        let out = thread::scope(|scope| {
            scope.spawn(|| File::from(writer).write_all(&bytes).unwrap());
            let output_thread = scope.spawn(move || {
                let mut out = Vec::new();
                File::from(reader).read_to_end(&mut out).unwrap();
                out
            });
            run(input, output, method, failing(project.path()));
            output_thread.join().unwrap()
        });
        assert!(out == bytes);
    }
}

#[test]
fn a_closed_output_ends_the_stream_without_an_error() {
    let project = project();
    for method in [CopyMethod::Best, CopyMethod::Copy] {
        let (input, writer) = pipe();
        let (reader, output) = pipe();
        let outcome = thread::scope(|scope| {
            let writer_thread = scope.spawn(move || {
                let mut writer = File::from(writer);
                // Writes until the pipe is closed.
                while writer.write_all(&[b'x'; 4096]).is_ok() {}
            });
            scope.spawn(move || {
                let mut reader = File::from(reader);
                reader.read_exact(&mut vec![0; 100_000]).unwrap();
            });
            let outcome = run(input, output, method, failing(project.path()));
            writer_thread.join().unwrap();
            outcome
        });
        assert!(matches!(outcome.end, Some(PipeEnd::OutputClosed)), "{outcome:?}");
    }
}
