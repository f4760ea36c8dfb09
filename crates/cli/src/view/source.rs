//! Where lines come from: a file, a file that grows, or stdin.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wire::Splitter;

use super::Error;

/// How much is read at a time.
const CHUNK: usize = 64 << 10;

/// How many chunks of stdin may wait; whoever writes waits beyond that.
const WAITING: usize = 8;

/// How often a live stream is looked at when nothing comes, so that clocks on the screen move.
const BEAT: Duration = Duration::from_millis(200);

/// The longest line that is read; what is longer is shown by its beginning.
const LONGEST: usize = 64 << 20;

/// Lines of one input.
pub(super) struct Source {
    name: String,
    input: Input,
    splitter: Splitter,
    chunk: Vec<u8>,
    ended: bool,
}

enum Input {
    File(File),
    /// A file that is followed, and how much of it was read.
    Growing(File, PathBuf, u64),
    Stdin(Receiver<io::Result<Vec<u8>>>),
}

impl Source {
    pub(super) fn open(file: Option<&Path>, follow: bool) -> Result<Self, Error> {
        let (name, input) = match file.filter(|path| *path != Path::new("-")) {
            None => ("-".to_owned(), Input::Stdin(read_stdin())),
            Some(path) => {
                let name = path.display().to_string();
                let opened = File::open(path).and_then(|file| {
                    let folder = file.metadata()?.is_dir();
                    if folder { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
                });
                let file = opened.map_err(|source| Error::Read { name: name.clone(), source })?;
                let input = if follow {
                    Input::Growing(file, path.to_owned(), 0)
                } else {
                    Input::File(file)
                };
                (name, input)
            }
        };
        Ok(Self {
            name,
            input,
            splitter: Splitter::with_cap(LONGEST),
            chunk: vec![0; CHUNK],
            ended: false,
        })
    }

    /// Whether somebody writes it while it is read.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.input, Input::Growing(..) | Input::Stdin(_))
    }

    /// Tells `each` the lines of the next chunk, with the time they came where they come live. Says
    /// how many there were, none when a while has passed without any; nothing at the end.
    pub(super) fn next(
        &mut self,
        mut each: impl FnMut(&[u8], Option<u64>),
    ) -> Result<Option<usize>, Error> {
        if self.ended {
            return Ok(None);
        }
        let at = self.is_live().then(now).flatten();
        let read = self.read().map_err(|source| Error::Read { name: self.name.clone(), source })?;
        let mut count = 0;
        match read {
            Chunk::Bytes(length) => {
                let mut pieces = self.splitter.feed(&self.chunk[..length]);
                while let Some(piece) = pieces.next() {
                    // Of a line that is too long only the beginning can be shown.
                    if !piece.continued {
                        each(piece.bytes, at);
                        count += 1;
                    }
                }
            }
            Chunk::NothingYet => {}
            Chunk::End => {
                self.ended = true;
                if let Some(piece) = self.splitter.finish().filter(|piece| !piece.continued) {
                    each(piece.bytes, at);
                    count += 1;
                }
            }
        }
        Ok(Some(count))
    }

    fn read(&mut self) -> io::Result<Chunk> {
        match &mut self.input {
            Input::File(file) => match file.read(&mut self.chunk)? {
                0 => Ok(Chunk::End),
                length => Ok(Chunk::Bytes(length)),
            },
            Input::Growing(file, path, position) => match file.read(&mut self.chunk)? {
                0 => {
                    std::thread::sleep(BEAT);
                    // A file that was begun anew is read from its beginning.
                    let length = path.metadata().map_or(*position, |it| it.len());
                    if length < *position {
                        *file = File::open(path)?;
                        file.rewind()?;
                        *position = 0;
                    }
                    Ok(Chunk::NothingYet)
                }
                length => {
                    *position += length as u64;
                    Ok(Chunk::Bytes(length))
                }
            },
            Input::Stdin(chunks) => match chunks.recv_timeout(BEAT) {
                Ok(chunk) => {
                    self.chunk = chunk?;
                    Ok(Chunk::Bytes(self.chunk.len()))
                }
                Err(RecvTimeoutError::Timeout) => Ok(Chunk::NothingYet),
                Err(RecvTimeoutError::Disconnected) => Ok(Chunk::End),
            },
        }
    }
}

enum Chunk {
    Bytes(usize),
    NothingYet,
    End,
}

/// Reads stdin on a thread of its own, so that the screen lives while nothing comes. The thread ends
/// with the input, or with the receiver.
fn read_stdin() -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = sync_channel(WAITING);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut chunk = vec![0; CHUNK];
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
