//! A reply of a real API, kept with its timing: what `api replay FILE` gives back.
//!
//! The file is JSONL. Its first line is the head of the response, every further one a piece of its
//! body, each with the microseconds since the line before. A piece is `text`, or `hex` where it is
//! no UTF-8; `cut` in place of a piece says that the connection broke there. Lines are written as
//! the pieces come, so that a recording is whole whenever someone ends it.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::act::Act;

/// A recorded reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recording {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// How long the head took.
    pub(super) wait: Duration,
    /// The body as it came.
    pub(super) acts: Vec<Act>,
}

/// A recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum BadRecording {
    /// It cannot be read.
    #[error("could not read the recording `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is none.
    #[error("`{}` is no recording of a reply: line {line}", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
    /// There is nothing in it.
    #[error("the recording `{}` is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

#[derive(Debug, Deserialize, Serialize)]
struct Head {
    after_us: u64,
    status: u16,
    headers: Vec<(String, String)>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Line {
    after_us: u64,
    #[serde(flatten)]
    piece: Piece,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Piece {
    Text(String),
    Hex(String),
    Cut(String),
}

impl Recording {
    pub(super) fn load(path: &Path) -> Result<Self, BadRecording> {
        let unreadable = |source| BadRecording::Unreadable { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, BadRecording> {
        let unknown =
            |line| move |source| BadRecording::Unknown { path: path.to_owned(), line, source };
        let mut lines = text.lines().zip(1..);
        let Some((first, _)) = lines.next() else {
            return Err(BadRecording::Empty { path: path.to_owned() });
        };
        let head: Head = serde_json::from_str(first).map_err(unknown(1))?;
        let mut acts = Vec::new();
        for (line, number) in lines {
            let line: Line = serde_json::from_str(line).map_err(unknown(number))?;
            acts.push(Act::Pause(Duration::from_micros(line.after_us)));
            acts.push(match line.piece {
                Piece::Text(text) => Act::Send(text.into()),
                Piece::Hex(hex) => Act::Send(from_hex(&hex).map_err(unknown(number))?),
                Piece::Cut(_) => Act::Break,
            });
        }
        let wait = Duration::from_micros(head.after_us);
        Ok(Self { status: head.status, headers: head.headers, wait, acts })
    }
}

/// A recording being made.
#[derive(Debug)]
pub(super) struct Tape {
    file: File,
    newest: Instant,
}

impl Tape {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, newest: Instant::now() })
    }

    pub(super) fn head(&mut self, status: u16, headers: Vec<(String, String)>) -> io::Result<()> {
        let after_us = self.lap();
        self.line(&Head { after_us, status, headers })
    }

    pub(super) fn piece(&mut self, bytes: &[u8]) -> io::Result<()> {
        let piece = match std::str::from_utf8(bytes) {
            Ok(text) => Piece::Text(text.to_owned()),
            Err(_) => Piece::Hex(to_hex(bytes)),
        };
        let after_us = self.lap();
        self.line(&Line { after_us, piece })
    }

    pub(super) fn cut(&mut self, why: &str) -> io::Result<()> {
        let after_us = self.lap();
        self.line(&Line { after_us, piece: Piece::Cut(why.to_owned()) })
    }

    fn lap(&mut self) -> u64 {
        let now = Instant::now();
        let passed = now.duration_since(std::mem::replace(&mut self.newest, now));
        u64::try_from(passed.as_micros()).unwrap_or(u64::MAX)
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.file.write_all(&bytes)
    }
}

fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn from_hex(hex: &str) -> Result<Bytes, serde_json::Error> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(pair).collect();
    let odd = || serde::de::Error::custom("`hex` holds something else than pairs of digits");
    bytes.map(Bytes::from).ok_or_else(odd)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::{Act, Recording, Tape};

    #[tokio::test(start_paused = true)]
    async fn a_tape_gives_back_the_same_bytes_at_the_same_pace() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.jsonl");
        let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        let mut tape = Tape::new(&path).unwrap();
        tokio::time::advance(Duration::from_millis(20)).await;
        tape.head(200, headers.clone()).unwrap();
        tokio::time::advance(Duration::from_millis(7)).await;
        tape.piece("event: ä\n\n".as_bytes()).unwrap();
        tape.piece(b"\xc3").unwrap();
        tape.cut("reset").unwrap();
        let (pause, none) = (Act::Pause(Duration::from_millis(7)), Act::Pause(Duration::ZERO));
        let acts = vec![
            pause,
            Act::Send("event: ä\n\n".into()),
            none.clone(),
            Act::Send(b"\xc3"[..].into()),
            none,
            Act::Break,
        ];
        let wait = Duration::from_millis(20);
        let expected = Recording { status: 200, headers, wait, acts };
        assert_eq!(Recording::load(&path).unwrap(), expected);
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_line() {
        let parse = |text: &str| Recording::parse(text, Path::new("x")).unwrap_err().to_string();
        let head = r#"{"after_us":0,"status":200,"headers":[]}"#;
        assert_eq!(parse(""), "the recording `x` is empty");
        assert_eq!(parse("{}"), "`x` is no recording of a reply: line 1");
        for line in [r#"{"after_us":1}"#, r#"{"after_us":1,"hex":"abc"}"#, "?"] {
            let text = format!("{head}\n{line}\n");
            assert_eq!(parse(&text), "`x` is no recording of a reply: line 2", "{line}");
        }
    }
}
