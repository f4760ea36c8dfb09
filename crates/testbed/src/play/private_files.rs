//! Files below the home directory: like the CLI's, they can be read by their user alone.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Creates a directory, and those above it, for this user alone.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Opens a file to append to it.
pub(crate) fn append_to(path: &Path) -> io::Result<File> {
    options().append(true).open(path)
}

/// Writes a file, as [`std::fs::write`] does.
pub(crate) fn write(path: &Path, content: &str) -> io::Result<()> {
    options().write(true).truncate(true).open(path)?.write_all(content.as_bytes())
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
