//! Reading a file: what it is, its text in parts, and its tag.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::time::UNIX_EPOCH;

use sha2::{Digest as _, Sha256};

use super::directory::{ProjectFiles, reading};
use super::error::FileError;
use super::path::ProjectPath;

/// The largest file that can be edited, compared and saved.
pub const MAX_EDIT_BYTES: u64 = 2 << 20;

/// How much is looked at to find out what a file is.
const SAMPLE_BYTES: usize = 8 << 10;

/// How far the end of a long line is searched.
const MAX_SCAN_BYTES: u64 = 256 << 20;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentKind {
    Text,
    /// A raster image, with its media type.
    Image(&'static str),
    Pdf,
    Binary,
}

/// How the lines of a text end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnding {
    Lf,
    Crlf,
    /// Some of both, or a carriage return alone.
    Mixed,
}

/// An open regular file.
#[derive(Debug)]
pub struct RegularFile {
    file: File,
    size: u64,
    /// In milliseconds since 1970.
    modified: u64,
    /// Changes whenever the file is written.
    version: String,
}

/// Some whole lines of a text.
#[derive(Debug)]
pub struct TextChunk {
    /// Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Where the next part starts; `None` at the end.
    pub next: Option<u64>,
    /// How many bytes at the end of the last line are left out.
    pub omitted: u64,
}

impl ProjectFiles {
    /// Opens a regular file, wherever in the project a link leads.
    pub fn open_file(&self, path: &ProjectPath) -> Result<RegularFile, FileError> {
        if path.is_root() {
            return Err(FileError::NotAFile);
        }
        let file = self.root.open_with(path.as_path(), &reading())?.into_std();
        RegularFile::new(file)
    }
}

impl RegularFile {
    pub(super) fn new(file: File) -> Result<Self, FileError> {
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(FileError::NotAFile);
        }
        let modified = about.modified().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
        let modified = modified.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
        let version = format!(
            "{:x}-{:x}-{:x}-{:x}",
            about.ino(),
            about.len(),
            about.mtime(),
            about.mtime_nsec()
        );
        Ok(Self { size: about.len(), modified, version, file })
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// When it was last written, in milliseconds since 1970.
    pub fn modified(&self) -> u64 {
        self.modified
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub fn into_file(self) -> File {
        self.file
    }

    pub fn kind(&self) -> Result<ContentKind, FileError> {
        let mut sample = vec![0; SAMPLE_BYTES];
        let length = self.fill(&mut sample, 0)?;
        Ok(kind_of(&sample[..length]))
    }

    /// Identifies the content: a digest of a file that can be edited, else its version.
    pub fn tag(&self) -> Result<String, FileError> {
        if self.size > MAX_EDIT_BYTES {
            return Ok(self.version.clone());
        }
        Ok(content_tag(&self.read(MAX_EDIT_BYTES)?))
    }

    /// The whole content.
    pub fn read(&self, max_bytes: u64) -> Result<Vec<u8>, FileError> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.size.min(max_bytes)).unwrap_or(0));
        let mut buffer = vec![0; 64 << 10];
        loop {
            let length = self.file.read_at(&mut buffer, bytes.len() as u64)?;
            if length == 0 {
                return Ok(bytes);
            }
            bytes.extend_from_slice(&buffer[..length]);
            // The size is not to be trusted: the file may be growing.
            if bytes.len() as u64 > max_bytes {
                return Err(FileError::TooLarge(max_bytes));
            }
        }
    }

    /// Whole lines from `offset` on, about `max_bytes` of them. Of a line that is longer, the rest is
    /// left out.
    pub fn text_part(&self, offset: u64, max_bytes: usize) -> Result<TextChunk, FileError> {
        let mut bytes = vec![0; max_bytes];
        let length = self.fill(&mut bytes, offset)?;
        bytes.truncate(length);
        let mut end = offset + length as u64;
        let mut omitted = 0;
        if length == max_bytes {
            if let Some(last) = bytes.iter().rposition(|it| *it == b'\n') {
                bytes.truncate(last + 1);
                end = offset + bytes.len() as u64;
            } else {
                let line_end = self.line_end(end)?;
                omitted = line_end - end;
                end = line_end;
            }
        }
        let next = (end < self.size && end > offset).then_some(end);
        Ok(TextChunk { text: String::from_utf8_lossy(&bytes).into_owned(), next, omitted })
    }

    /// Where the line that contains `offset` ends, behind its line break.
    fn line_end(&self, offset: u64) -> Result<u64, FileError> {
        let (mut at, mut buffer) = (offset, vec![0; 256 << 10]);
        while at - offset < MAX_SCAN_BYTES {
            let length = self.file.read_at(&mut buffer, at)?;
            if let Some(found) = buffer[..length].iter().position(|it| *it == b'\n') {
                return Ok(at + found as u64 + 1);
            }
            if length == 0 {
                break;
            }
            at += length as u64;
        }
        Ok(at)
    }

    /// Reads until the buffer is full or the file ends.
    fn fill(&self, buffer: &mut [u8], offset: u64) -> Result<usize, FileError> {
        let mut length = 0;
        while length < buffer.len() {
            match self.file.read_at(&mut buffer[length..], offset + length as u64)? {
                0 => break,
                more => length += more,
            }
        }
        Ok(length)
    }
}

impl LineEnding {
    pub fn of(text: &str) -> Self {
        let crlf = text.matches("\r\n").count();
        let (lf, cr) = (text.matches('\n').count(), text.matches('\r').count());
        match (crlf, lf - crlf, cr - crlf) {
            (0, _, 0) => Self::Lf,
            (_, 0, 0) => Self::Crlf,
            _ => Self::Mixed,
        }
    }
}

/// Identifies a content.
pub(super) fn content_tag(bytes: &[u8]) -> String {
    let mut tag = String::with_capacity(32);
    for byte in Sha256::digest(bytes).iter().take(16) {
        let _ = write!(tag, "{byte:02x}");
    }
    tag
}

fn kind_of(sample: &[u8]) -> ContentKind {
    let image = match sample {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', b'f', ..] => Some("image/avif"),
        [0, 0, 1, 0, 1..=64, 0, ..] => Some("image/x-icon"),
        _ => None,
    };
    if let Some(media_type) = image {
        return ContentKind::Image(media_type);
    }
    if sample.starts_with(b"%PDF-") {
        return ContentKind::Pdf;
    }
    if sample.contains(&0) {
        return ContentKind::Binary;
    }
    // Text in an old encoding has few bytes that are not UTF-8; anything else has many.
    let wrong: usize = sample.utf8_chunks().map(|it| it.invalid().len()).sum();
    let controls = sample.iter().filter(|it| matches!(**it, 1..=8 | 14..=26 | 28..=31)).count();
    if (wrong + controls) * 10 > sample.len() { ContentKind::Binary } else { ContentKind::Text }
}
