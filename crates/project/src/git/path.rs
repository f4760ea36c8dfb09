//! Paths of files in a repository.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::GitError;

/// The longest path that a client may name.
const MAX_BYTES: usize = 4096;

/// The path of a file, relative to the top of the repository. It need not be text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath(Vec<u8>);

impl RepoPath {
    pub(super) fn from_git(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// Reads a [key](Self::key). What could lead out of the repository, or into git's own directory, is
    /// an error.
    pub fn from_key(key: &str) -> Result<Self, GitError> {
        let invalid = || GitError::InvalidPath(key.chars().take(200).collect());
        let mut bytes = Vec::with_capacity(key.len());
        let mut rest = key.as_bytes();
        while let [first, more @ ..] = rest {
            rest = more;
            if *first != b'%' {
                bytes.push(*first);
                continue;
            }
            let (digits, more) = rest.split_at_checked(2).ok_or_else(invalid)?;
            let digits = std::str::from_utf8(digits).map_err(|_| invalid())?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| invalid())?);
            rest = more;
        }
        let odd_part = |part: &[u8]| {
            part.is_empty() || part == b"." || part == b".." || part.eq_ignore_ascii_case(b".git")
        };
        // An untracked repository is listed as a directory.
        let path = bytes.strip_suffix(b"/").unwrap_or(&bytes);
        if bytes.len() > MAX_BYTES
            || bytes.contains(&0)
            || path.split(|it| *it == b'/').any(odd_part)
        {
            return Err(invalid());
        }
        Ok(Self(bytes))
    }

    /// The path as text that names exactly this path: what is not UTF-8, and `%`, is percent-encoded.
    pub fn key(&self) -> String {
        let mut key = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '%' => key.push_str("%25"),
                    character => key.push(character),
                }
            }
            for byte in chunk.invalid() {
                let _ = write!(key, "%{byte:02X}");
            }
        }
        key
    }

    /// The path as text to read.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The path in a patch, in quotes if it must be.
    pub(super) fn in_patch(&self, prefix: &str) -> Vec<u8> {
        let plain = |byte: &u8| (b'!'..=b'~').contains(byte) && !matches!(byte, b'"' | b'\\');
        let mut out = Vec::new();
        if self.0.iter().all(plain) {
            out.extend_from_slice(prefix.as_bytes());
            out.extend_from_slice(&self.0);
            return out;
        }
        out.push(b'"');
        out.extend_from_slice(prefix.as_bytes());
        for byte in &self.0 {
            if plain(byte) || *byte == b' ' {
                out.push(*byte);
            } else {
                out.extend_from_slice(format!("\\{byte:03o}").as_bytes());
            }
        }
        out.push(b'"');
        out
    }
}

impl std::fmt::Debug for RepoPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.key())
    }
}

/// Paths for `--pathspec-from-file=-`: no number of them is too many, and none becomes an option.
pub(super) fn path_list(paths: &[RepoPath]) -> Vec<u8> {
    let mut list = Vec::new();
    for path in paths {
        list.extend_from_slice(&path.0);
        list.push(0);
    }
    list
}
