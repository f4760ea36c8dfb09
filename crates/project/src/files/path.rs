//! Paths of clients: relative, without `..`, and without loss for names that are not UTF-8.

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use super::error::FileError;

/// The longest path, in bytes.
const MAX_PATH_BYTES: usize = 4096;

/// The longest name of most file systems, in bytes.
pub(super) const MAX_NAME_BYTES: usize = 255;

/// A path relative to a project's directory; empty for the directory itself.
///
/// As text it has `/` between names, `\\` for a backslash and `\xNN` for a byte that is not UTF-8.
/// All other characters stand for themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectPath(PathBuf);

impl ProjectPath {
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let invalid = || FileError::InvalidPath(text.chars().take(200).collect());
        let bytes = decode(text).filter(|it| it.len() <= MAX_PATH_BYTES).ok_or_else(invalid)?;
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        // Checked by hand, because `Path::components` drops `.` and empty names silently.
        let plain = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
        if !bytes.split(|it| *it == b'/').all(plain) {
            return Err(invalid());
        }
        let path = PathBuf::from(OsString::from_vec(bytes));
        let normal = path.components().all(|it| matches!(it, Component::Normal(_)));
        if normal { Ok(Self(path)) } else { Err(invalid()) }
    }

    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The path for an operation on an open directory, which has no empty path.
    pub(super) fn or_dot(&self) -> &Path {
        if self.is_root() { Path::new(".") } else { &self.0 }
    }

    /// Whether it is the project's directory itself.
    pub fn is_root(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    pub fn name(&self) -> Option<&OsStr> {
        self.0.file_name()
    }

    #[must_use]
    pub fn parent(&self) -> Self {
        Self(self.0.parent().map(Path::to_owned).unwrap_or_default())
    }

    #[must_use]
    pub fn join(&self, name: &OsStr) -> Self {
        Self(self.0.join(name))
    }
}

impl fmt::Display for ProjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_text(self.0.as_os_str()))
    }
}

/// A name as the text of a [`ProjectPath`].
pub fn name_text(name: &OsStr) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.as_bytes().utf8_chunks() {
        for (number, part) in chunk.valid().split('\\').enumerate() {
            if number > 0 {
                text.push_str("\\\\");
            }
            text.push_str(part);
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        rest = if let Some(rest) = escape.strip_prefix('\\') {
            bytes.push(b'\\');
            rest
        } else {
            let digits = escape.strip_prefix('x')?.get(..2)?;
            let byte = u8::from_str_radix(digits, 16).ok().filter(|it| !it.is_ascii())?;
            bytes.push(byte);
            &escape[3..]
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::{ProjectPath, name_text};

    #[test]
    fn every_name_survives_as_text() {
        for name in [
            &b"plain.rs"[..],
            b"caf\xc3\xa9",
            b"caf\xe9 \xff",
            b"back\\slash",
            b"\\x41",
            b"new\nline\tand \x1b[31m",
            "\u{202e}gnp.exe".as_bytes(),
            b" ",
            b"...",
            b"100%25",
        ] {
            let text = name_text(OsStr::from_bytes(name));
            let path = ProjectPath::parse(&text).unwrap();
            assert_eq!(path.as_path().as_os_str().as_bytes(), name, "{text}");
            assert_eq!(path.to_string(), text);
        }
    }

    #[test]
    fn only_relative_paths_without_tricks_are_paths() {
        for text in [
            "/etc/passwd",
            "..",
            "a/../b",
            "a/..",
            "./a",
            "a/.",
            "a//b",
            "a/",
            "/",
            "a\0b",
            "\\",
            "\\x",
            "\\x4",
            "\\x41",
            "\\x2f",
            "\\q",
            "\\xzz",
            "a/\\x2e\\x2e/b",
        ] {
            assert!(ProjectPath::parse(text).is_err(), "{text:?}");
        }
        assert!(ProjectPath::parse(&"a/".repeat(3000)).is_err());
        let path = ProjectPath::parse("a/b c/d.txt").unwrap();
        assert_eq!(path.parent().to_string(), "a/b c");
        assert_eq!(path.name(), Some(OsStr::new("d.txt")));
        assert!(
            ProjectPath::parse("").unwrap().is_root() && path.parent().parent().parent().is_root()
        );
    }
}
