//! The inputs, files and stdin, read line by line.
//!
//! A thread of its own reads ahead: copying out of the page cache takes a third of the time of an
//! inspection and does not depend on the rest. A few buffers circulate between the two threads.

use std::fs::{File, Metadata};
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anstream::eprintln;
use wire::{Rejoiner, Splitter};

use super::InspectArgs;

/// An input that the arguments name.
pub(super) enum InspectSource {
    Stdin,
    File(PathBuf),
}

/// A line of an input with its position.
pub(super) struct InputLine<'a> {
    /// The name of the input, `-` for stdin.
    pub(super) file: &'a str,
    /// Counted from 1.
    pub(super) number: u64,
    /// How many lines of the input it covers: more than one if it was rejoined.
    pub(super) lines: u64,
    /// How many bytes of the input it covers, newlines included.
    pub(super) size: u64,
    pub(super) text: InputText<'a>,
}

pub(super) enum InputText<'a> {
    /// The line without its newline.
    Whole(&'a [u8]),
    /// Longer than `--max-line`.
    TooLong,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    #[error("could not read `{file}`")]
    Read { file: String, source: io::Error },
    #[error("`{file}` is a directory")]
    Directory { file: String },
    #[error("`{file}` is not text: {looks}")]
    Binary { file: String, looks: &'static str, remedy: &'static str },
    #[error("could not write the output")]
    Write(#[from] io::Error),
}

impl InputError {
    pub(super) fn hint(&self) -> Option<&str> {
        match self {
            Self::Directory { .. } => Some("name the files in it, such as `DIR/*.jsonl`"),
            Self::Binary { remedy, .. } => Some(remedy),
            Self::Read { .. } | Self::Write(_) => None,
        }
    }
}

impl InspectSource {
    /// The inputs that the arguments name; stdin if they name none.
    pub(super) fn all(files: &[PathBuf]) -> Vec<Self> {
        if files.is_empty() {
            return vec![Self::Stdin];
        }
        let is_stdin = |path: &PathBuf| path == Path::new("-");
        files
            .iter()
            .map(|path| if is_stdin(path) { Self::Stdin } else { Self::File(path.clone()) })
            .collect()
    }
}

/// Reads one input line by line.
pub(super) struct InputReader {
    name: String,
    reader: ReadAhead,
    splitter: Splitter,
    rejoiner: Option<Rejoiner>,
    cap: usize,
}

impl InputReader {
    pub(super) fn open(source: &InspectSource, options: &InspectArgs) -> Result<Self, InputError> {
        let (name, reader): (String, Box<dyn Read + Send>) = match source {
            InspectSource::Stdin => {
                if io::stdin().is_terminal() {
                    print_stdin_note();
                }
                ("-".to_owned(), Box::new(io::stdin()))
            }
            InspectSource::File(path) => {
                let name = path.display().to_string();
                (name.clone(), Box::new(open_file(path, name)?))
            }
        };
        let cap = (options.max_line as usize) << 20;
        Ok(Self {
            name,
            reader: ReadAhead::new(reader),
            splitter: Splitter::with_cap(cap),
            rejoiner: options.rejoin.then(|| Rejoiner::with_cap(cap)),
            cap,
        })
    }

    /// Calls `visit` with every line, to the end of the input.
    pub(super) fn each_line(
        &mut self,
        progress: &mut ProgressLine,
        mut visit: impl FnMut(InputLine<'_>) -> io::Result<()>,
    ) -> Result<(), InputError> {
        let mut lines = LineNumberer {
            file: &self.name,
            started: self.rejoiner.is_some(),
            rejoiner: &mut self.rejoiner,
            cap: self.cap,
            number: 0,
            size: 0,
        };
        let read_error = |source| InputError::Read { file: self.name.clone(), source };
        let mut first = true;
        while let Some(chunk) = self.reader.next().map_err(read_error)? {
            if std::mem::take(&mut first) {
                reject_binary(chunk.bytes(), &self.name)?;
            }
            progress.advance(chunk.bytes().len());
            let mut pieces = self.splitter.feed(chunk.bytes());
            while let Some(piece) = pieces.next() {
                lines.take(piece, &mut visit)?;
            }
            self.reader.reuse(chunk);
        }
        if let Some(piece) = self.splitter.finish() {
            lines.take(piece, &mut visit)?;
        }
        Ok(lines.finish(&mut visit)?)
    }
}

/// Numbers lines, and rejoins them with `--rejoin`, if the input is pretty-printed, or from the first
/// row of a terminal on.
struct LineNumberer<'a> {
    file: &'a str,
    rejoiner: &'a mut Option<Rejoiner>,
    cap: usize,
    /// Whether it is known if lines must be rejoined.
    started: bool,
    /// Lines visited so far.
    number: u64,
    /// Bytes of the current line so far.
    size: u64,
}

impl LineNumberer<'_> {
    fn take(
        &mut self,
        piece: wire::Piece<'_>,
        visit: &mut impl FnMut(InputLine<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.size += piece.bytes.len() as u64 + u64::from(piece.end == wire::PieceEnd::Newline);
        if piece.end == wire::PieceEnd::More {
            return Ok(());
        }
        if !piece.is_whole() {
            self.release(visit)?;
            return self.show(InputText::TooLong, 1, visit);
        }
        if !self.started
            && self.rejoiner.is_none()
            && let Some(needed) = Rejoiner::is_needed_after(piece.bytes)
        {
            self.started = true;
            *self.rejoiner = needed.then(|| Rejoiner::with_cap(self.cap));
        }
        if self.rejoiner.is_none() && Rejoiner::looks_wrapped(piece.bytes) {
            *self.rejoiner = Some(Rejoiner::with_cap(self.cap));
        }
        let Some(rejoiner) = self.rejoiner.as_mut() else {
            return self.show(InputText::Whole(piece.bytes), 1, visit);
        };
        for rejoined in rejoiner.push(piece.bytes) {
            self.show(InputText::Whole(&rejoined.text), rejoined.lines as u64, visit)?;
        }
        Ok(())
    }

    fn finish(
        &mut self,
        visit: &mut impl FnMut(InputLine<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.release(visit)
    }

    /// Visits what the rejoiner still holds.
    fn release(
        &mut self,
        visit: &mut impl FnMut(InputLine<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(rejoiner) = self.rejoiner.as_mut() else { return Ok(()) };
        for rejoined in rejoiner.finish() {
            self.show(InputText::Whole(&rejoined.text), rejoined.lines as u64, visit)?;
        }
        Ok(())
    }

    fn show(
        &mut self,
        text: InputText<'_>,
        lines: u64,
        visit: &mut impl FnMut(InputLine<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let number = self.number + 1;
        self.number += lines;
        let size = std::mem::take(&mut self.size);
        visit(InputLine { file: self.file, number, lines, size, text })
    }
}

fn open_file(path: &Path, name: String) -> Result<File, InputError> {
    // On Linux, opening a directory succeeds and only reading it fails.
    if path.is_dir() {
        return Err(InputError::Directory { file: name });
    }
    File::open(path).map_err(|source| InputError::Read { file: name, source })
}

/// Rejects files that cannot contain events: archives, UTF-16, programs.
///
/// A NUL byte alone is no proof, because a crashed machine leaves runs of them in intact logs. So a
/// file is rejected only if it also has no brace where an event could begin.
fn reject_binary(start: &[u8], name: &str) -> Result<(), InputError> {
    let rejected = |looks, remedy| Err(InputError::Binary { file: name.to_owned(), looks, remedy });
    match start {
        [0x1f, 0x8b, ..] => rejected("it is gzipped", "unpack it: `zcat FILE | towpath inspect`"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            rejected("it is zstd-compressed", "unpack it: `zstdcat FILE | towpath inspect`")
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => rejected(
            "it is UTF-16",
            "convert it: `iconv -f UTF-16 -t UTF-8 FILE | towpath inspect`",
        ),
        _ if start.contains(&0) && !start.windows(2).any(|pair| pair == b"{\"") => {
            rejected("it has NUL bytes and no JSON", "name a file with one JSON event per line")
        }
        _ => Ok(()),
    }
}

fn print_stdin_note() {
    eprintln!("reading events from the terminal; press Ctrl-D to end the input");
}

const BUFFERS: usize = 3;
const CHUNK_SIZE: usize = 512 << 10;

/// Reads the next chunks in a thread while the caller processes the current one.
struct ReadAhead {
    filled: Receiver<io::Result<InspectChunk>>,
    spent: SyncSender<Vec<u8>>,
}

/// A buffer and how much of it is filled.
struct InspectChunk {
    buffer: Vec<u8>,
    length: usize,
}

impl InspectChunk {
    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl ReadAhead {
    fn new(mut reader: Box<dyn Read + Send>) -> Self {
        // A full channel means that the other thread is busy, so the sender waits.
        let (fill, filled) = sync_channel(BUFFERS);
        let (spent, free) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            let _ = spent.send(vec![0; CHUNK_SIZE]);
        }
        // The thread ends with the input or when its receiver is dropped. It is not joined: it may be
        // blocked on a terminal while the process is about to exit.
        thread::spawn(move || {
            for mut buffer in free {
                let chunk =
                    read(&mut *reader, &mut buffer).map(|length| InspectChunk { buffer, length });
                let last = !matches!(chunk, Ok(InspectChunk { length: 1.., .. }));
                if fill.send(chunk).is_err() || last {
                    break;
                }
            }
        });
        Self { filled, spent }
    }

    /// The next chunk; none at the end of the input.
    fn next(&mut self) -> io::Result<Option<InspectChunk>> {
        match self.filled.recv() {
            Ok(Ok(chunk)) => Ok((chunk.length > 0).then_some(chunk)),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Returns a buffer to the reading thread.
    fn reuse(&mut self, chunk: InspectChunk) {
        // The thread may have ended already.
        let _ = self.spent.send(chunk.buffer);
    }
}

fn read(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Work that is done sooner shows no progress.
const DELAY: Duration = Duration::from_millis(500);
const INTERVAL: Duration = Duration::from_millis(100);

/// A progress line on stderr, if that is a terminal.
pub(super) struct ProgressLine {
    /// Bytes of all inputs, if all are files.
    total: Option<u64>,
    read: u64,
    next_shown: Instant,
    shown: bool,
    on_terminal: bool,
}

impl ProgressLine {
    pub(super) fn new(files: &[PathBuf]) -> Self {
        let size =
            |file: &PathBuf| file.metadata().ok().filter(Metadata::is_file).map(|it| it.len());
        let sizes: Option<Vec<u64>> = files.iter().map(size).collect();
        Self {
            total: sizes.map(|sizes| sizes.iter().sum()).filter(|&total| total > 0),
            read: 0,
            next_shown: Instant::now() + DELAY,
            shown: false,
            on_terminal: std::io::stderr().is_terminal(),
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.read += bytes as u64;
        if !self.on_terminal || Instant::now() < self.next_shown {
            return;
        }
        self.next_shown = Instant::now() + INTERVAL;
        self.shown = true;
        let read = self.read >> 20;
        let text = match self.total {
            Some(total) => {
                format!("{read} of {} MiB ({} %)", total >> 20, self.read * 100 / total)
            }
            None => format!("{read} MiB"),
        };
        // Progress is optional: reading goes on if the terminal cannot be written to.
        let _ = write!(std::io::stderr(), "\r\u{1b}[Kinspecting: {text}");
    }

    /// Erases the line.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ReadAhead;

    #[test]
    fn chunks_arrive_in_order_and_an_error_at_its_place() {
        struct Broken(u8);
        impl std::io::Read for Broken {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0 += 1;
                buffer[0] = self.0;
                if self.0 < 50 { Ok(1) } else { Err(std::io::Error::other("broken")) }
            }
        }
        let mut ahead = ReadAhead::new(Box::new(Broken(0)));
        for expected in 1..50 {
            let chunk = ahead.next().unwrap().unwrap();
            assert_eq!(chunk.bytes(), [expected]);
            ahead.reuse(chunk);
        }
        assert!(ahead.next().is_err());
        assert!(ahead.next().unwrap().is_none());
    }
}
