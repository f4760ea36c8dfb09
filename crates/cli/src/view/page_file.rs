//! A conversation as one HTML file: where the page is written.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, BufWriter, Seek as _, Write};
use std::path::Path;

use view::ViewDocument;
use view::html::{CspNonce, ExportOptions, HtmlExport};

/// A page whose turns are in a temporary file.
pub(super) type PageFile = HtmlExport<BufWriter<File>>;

pub(super) fn begin_page(full: bool) -> io::Result<PageFile> {
    let options = ExportOptions { full, ..ExportOptions::default() };
    Ok(HtmlExport::new(options, BufWriter::new(tempfile::tempfile()?)))
}

/// Writes the page.
pub(super) fn write_page(
    page: PageFile,
    document: &ViewDocument,
    out: &mut impl Write,
) -> io::Result<()> {
    let (top, turns, foot) = page.into_parts(document, nonce());
    let mut turns = turns.into_inner().map_err(io::IntoInnerError::into_error)?;
    turns.rewind()?;
    out.write_all(top.as_bytes())?;
    io::copy(&mut turns, out)?;
    out.write_all(foot.as_bytes())
}

/// Writes the page to a file atomically.
pub(super) fn save_page(page: PageFile, document: &ViewDocument, path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // The umask applies, as for any other file of the user.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.prefix(".towpath-").tempfile_in(folder)?;
    write_page(page, document, &mut file)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// A random nonce: the standard library seeds its hash maps from the system's random source.
fn nonce() -> CspNonce {
    let draw = || u128::from(RandomState::new().build_hasher().finish());
    CspNonce(draw() << 64 | draw())
}
