//! Where lines come from: files and stdin.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::{Path, PathBuf};

use anstream::eprintln;
use wire::{Rejoiner, Splitter};

use super::ahead::ReadAhead;
use super::progress::Progress;
use crate::arguments::InspectOptions;

/// Something to read.
pub(super) enum Input {
    Stdin,
    File(PathBuf),
}

/// A line of an input, and where it stands.
pub(super) struct SourceLine<'a> {
    /// The input, `-` for stdin.
    pub(super) file: &'a str,
    /// Its number, from 1 on.
    pub(super) number: u64,
    /// How many lines of the input it is: more than one where it was rejoined.
    pub(super) lines: u64,
    /// How many bytes of the input it is, newlines included.
    pub(super) size: u64,
    pub(super) text: LineText<'a>,
}

pub(super) enum LineText<'a> {
    /// The line without its newline.
    Whole(&'a [u8]),
    /// Longer than what is read.
    TooLong,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("could not read `{file}`")]
    Read { file: String, source: io::Error },
    #[error("`{file}` is a directory")]
    Directory { file: String },
    #[error("`{file}` is not text: {looks}")]
    Binary { file: String, looks: &'static str, remedy: &'static str },
    #[error("could not write")]
    Write(#[from] io::Error),
}

impl Error {
    pub(super) fn hint(&self) -> Option<&str> {
        match self {
            Self::Directory { .. } => Some("name the files in it, as in `DIR/*.jsonl`"),
            Self::Binary { remedy, .. } => Some(remedy),
            Self::Read { .. } | Self::Write(_) => None,
        }
    }
}

impl Input {
    /// What the arguments name; stdin where they name nothing.
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

/// An input being read.
pub(super) struct Source {
    name: String,
    reader: ReadAhead,
    splitter: Splitter,
    rejoiner: Option<Rejoiner>,
}

impl Source {
    pub(super) fn open(input: &Input, options: &InspectOptions) -> Result<Self, Error> {
        let (name, reader): (String, Box<dyn Read + Send>) = match input {
            Input::Stdin => {
                if io::stdin().is_terminal() {
                    note_that_stdin_is_read();
                }
                ("-".to_owned(), Box::new(io::stdin()))
            }
            Input::File(path) => {
                let name = path.display().to_string();
                (name.clone(), Box::new(open_file(path, name)?))
            }
        };
        let cap = (options.max_line as usize) << 20;
        Ok(Self {
            name,
            reader: ReadAhead::of(reader),
            splitter: Splitter::with_cap(cap),
            rejoiner: options.rejoin.then(|| Rejoiner::with_cap(cap)),
        })
    }

    /// Shows `visit` every line to the end of the input.
    pub(super) fn each_line(
        &mut self,
        progress: &mut Progress,
        mut visit: impl FnMut(SourceLine<'_>) -> io::Result<()>,
    ) -> Result<(), Error> {
        let mut lines =
            Numbered { file: &self.name, rejoiner: self.rejoiner.as_mut(), number: 0, size: 0 };
        let unreadable = |source| Error::Read { file: self.name.clone(), source };
        let mut first = true;
        while let Some(chunk) = self.reader.next().map_err(unreadable)? {
            if std::mem::take(&mut first) {
                refuse_binary(chunk.bytes(), &self.name)?;
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

/// Numbers lines, and rejoins them where that was asked for.
struct Numbered<'a> {
    file: &'a str,
    rejoiner: Option<&'a mut Rejoiner>,
    /// Lines shown so far.
    number: u64,
    /// Bytes of the pieces of the line at hand.
    size: u64,
}

impl Numbered<'_> {
    fn take(
        &mut self,
        piece: wire::Piece<'_>,
        visit: &mut impl FnMut(SourceLine<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.size += piece.bytes.len() as u64 + u64::from(piece.end == wire::End::Newline);
        if piece.end == wire::End::More {
            return Ok(());
        }
        if !piece.is_whole() {
            self.release(visit)?;
            return self.show(LineText::TooLong, 1, visit);
        }
        let Some(rejoiner) = &mut self.rejoiner else {
            return self.show(LineText::Whole(piece.bytes), 1, visit);
        };
        for rejoined in rejoiner.push(piece.bytes) {
            self.show(LineText::Whole(&rejoined.text), rejoined.lines as u64, visit)?;
        }
        Ok(())
    }

    fn finish(
        &mut self,
        visit: &mut impl FnMut(SourceLine<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.release(visit)
    }

    /// Shows what the rejoiner still holds.
    fn release(
        &mut self,
        visit: &mut impl FnMut(SourceLine<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(rejoiner) = &mut self.rejoiner else { return Ok(()) };
        for rejoined in rejoiner.finish() {
            self.show(LineText::Whole(&rejoined.text), rejoined.lines as u64, visit)?;
        }
        Ok(())
    }

    fn show(
        &mut self,
        text: LineText<'_>,
        lines: u64,
        visit: &mut impl FnMut(SourceLine<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let number = self.number + 1;
        self.number += lines;
        let size = std::mem::take(&mut self.size);
        visit(SourceLine { file: self.file, number, lines, size, text })
    }
}

fn open_file(path: &Path, name: String) -> Result<File, Error> {
    // Opening a directory works on Linux and fails only when it is read.
    if path.is_dir() {
        return Err(Error::Directory { file: name });
    }
    File::open(path).map_err(|source| Error::Read { file: name, source })
}

/// Refuses what can hold no event: archives, UTF-16, programs.
///
/// A NUL alone proves nothing, since a crashed machine leaves runs of them in good logs; so a file
/// is refused only if it also has no brace where an event could begin.
fn refuse_binary(start: &[u8], name: &str) -> Result<(), Error> {
    let refused = |looks, remedy| Err(Error::Binary { file: name.to_owned(), looks, remedy });
    match start {
        [0x1f, 0x8b, ..] => refused("it is gzipped", "unpack it: `zcat FILE | towpath inspect`"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            refused("it is zstd-compressed", "unpack it: `zstdcat FILE | towpath inspect`")
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            refused("it is UTF-16", "convert it: `iconv -f UTF-16 -t UTF-8 FILE | towpath inspect`")
        }
        _ if start.contains(&0) && !start.windows(2).any(|pair| pair == b"{\"") => {
            refused("it has NUL bytes and no JSON", "name a file with one JSON event a line")
        }
        _ => Ok(()),
    }
}

fn note_that_stdin_is_read() {
    eprintln!("reading events from the terminal; end with Ctrl-D");
}
