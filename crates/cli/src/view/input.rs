//! The lines of the input: a file, a growing file, or stdin.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wire::{Rejoiner, Splitter};

use super::{ViewArgs, ViewError};

/// Bytes read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// How many chunks of stdin may be buffered; then the writing program has to wait.
const BUFFERED_CHUNKS: usize = 8;

/// How often a live stream is polled, so that times on the screen advance.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Only the beginning of a longer line is shown.
const MAX_LINE_BYTES: usize = 64 << 20;

pub(super) struct ViewInput {
    name: String,
    source: InputSource,
    splitter: Splitter,
    rejoining: LineRejoining,
    chunk: Vec<u8>,
    ended: bool,
}

/// Whether lines are joined to events.
enum LineRejoining {
    /// No JSON was read yet.
    Undecided,
    /// The first JSON was not pretty-printed, and no line so far was a row of a terminal.
    Off,
    On(Rejoiner),
}

impl LineRejoining {
    fn on() -> Self {
        Self::On(Rejoiner::with_cap(MAX_LINE_BYTES))
    }

    /// Calls `each` for the lines that are complete with this one, and returns their number.
    fn push(&mut self, line: &[u8], mut each: impl FnMut(&[u8])) -> usize {
        let needed = match self {
            Self::Undecided => Rejoiner::is_needed_after(line),
            Self::Off | Self::On(_) => None,
        };
        let is_on = matches!(self, Self::On(_));
        if needed == Some(true) || (!is_on && Rejoiner::looks_wrapped(line)) {
            *self = Self::on();
        } else if needed == Some(false) {
            *self = Self::Off;
        }
        let Self::On(rejoiner) = self else {
            each(line);
            return 1;
        };
        let complete = rejoiner.push(line);
        for line in &complete {
            each(&line.text);
        }
        complete.len()
    }

    /// The same for the lines that are not complete at the end of the input.
    fn finish(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let Self::On(rejoiner) = self else { return 0 };
        let rest = rejoiner.finish();
        for line in &rest {
            each(&line.text);
        }
        rest.len()
    }
}

enum InputSource {
    File(File),
    /// A followed file, and how much of it was read.
    Growing(File, PathBuf, u64),
    Stdin(Receiver<io::Result<Vec<u8>>>),
}

impl ViewInput {
    pub(super) fn open(args: &ViewArgs) -> Result<Self, ViewError> {
        let (file, follow) = (args.file.as_deref(), args.follow);
        let (name, source) = match file.filter(|path| *path != Path::new("-")) {
            None => ("-".to_owned(), InputSource::Stdin(read_stdin())),
            Some(path) => {
                let name = path.display().to_string();
                let opened = File::open(path).and_then(|file| {
                    let folder = file.metadata()?.is_dir();
                    if folder { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
                });
                let file =
                    opened.map_err(|source| ViewError::Read { name: name.clone(), source })?;
                let source = if follow {
                    InputSource::Growing(file, path.to_owned(), 0)
                } else {
                    InputSource::File(file)
                };
                (name, source)
            }
        };
        Ok(Self {
            name,
            source,
            splitter: Splitter::with_cap(MAX_LINE_BYTES),
            rejoining: if args.rejoin { LineRejoining::on() } else { LineRejoining::Undecided },
            chunk: vec![0; CHUNK_BYTES],
            ended: false,
        })
    }

    /// Whether it may grow while it is read.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.source, InputSource::Growing(..) | InputSource::Stdin(_))
    }

    /// Calls `each` for the lines of the next chunk, with the current time if the input is live.
    /// Returns their number, which is 0 if nothing arrived for a while, or `None` at the end.
    pub(super) fn next(
        &mut self,
        mut each: impl FnMut(&[u8], Option<u64>),
    ) -> Result<Option<usize>, ViewError> {
        if self.ended {
            return Ok(None);
        }
        let at = self.is_live().then(now).flatten();
        let read =
            self.read().map_err(|source| ViewError::Read { name: self.name.clone(), source })?;
        let mut count = 0;
        match read {
            InputChunk::Bytes(length) => {
                let mut lines = self.splitter.feed(&self.chunk[..length]);
                while let Some(line) = lines.next() {
                    if !line.continued {
                        count += self.rejoining.push(line.bytes, |line| each(line, at));
                    }
                }
            }
            InputChunk::NothingYet => {}
            InputChunk::End => {
                self.ended = true;
                if let Some(line) = self.splitter.finish().filter(|line| !line.continued) {
                    count += self.rejoining.push(line.bytes, |line| each(line, at));
                }
                count += self.rejoining.finish(|line| each(line, at));
            }
        }
        Ok(Some(count))
    }

    fn read(&mut self) -> io::Result<InputChunk> {
        match &mut self.source {
            InputSource::File(file) => match file.read(&mut self.chunk)? {
                0 => Ok(InputChunk::End),
                length => Ok(InputChunk::Bytes(length)),
            },
            InputSource::Growing(file, path, position) => match file.read(&mut self.chunk)? {
                0 => {
                    std::thread::sleep(POLL_INTERVAL);
                    // A file that was truncated is read from its beginning.
                    let length = path.metadata().map_or(*position, |it| it.len());
                    if length < *position {
                        *file = File::open(path)?;
                        file.rewind()?;
                        *position = 0;
                    }
                    Ok(InputChunk::NothingYet)
                }
                length => {
                    *position += length as u64;
                    Ok(InputChunk::Bytes(length))
                }
            },
            InputSource::Stdin(chunks) => match chunks.recv_timeout(POLL_INTERVAL) {
                Ok(chunk) => {
                    self.chunk = chunk?;
                    Ok(InputChunk::Bytes(self.chunk.len()))
                }
                Err(RecvTimeoutError::Timeout) => Ok(InputChunk::NothingYet),
                Err(RecvTimeoutError::Disconnected) => Ok(InputChunk::End),
            },
        }
    }
}

enum InputChunk {
    Bytes(usize),
    NothingYet,
    End,
}

/// Reads stdin on its own thread, so that the screen can be redrawn while no input arrives. The thread
/// ends with the input or the receiver.
fn read_stdin() -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = sync_channel(BUFFERED_CHUNKS);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            let read = match stdin.read(&mut chunk) {
                Ok(0) => return,
                Ok(length) => {
                    chunk.truncate(length);
                    Ok(chunk)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = read.is_err();
            if sender.send(read).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

/// The time in milliseconds since 1970.
pub(super) fn now() -> Option<u64> {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(passed.as_millis()).ok()
}
