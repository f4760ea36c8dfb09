//! `towpath verify --history`: the page about versions, and the list of published ones.

use std::io::{self, Write as _};
use std::path::Path;

use testbed::history::{HistoryStore, HistoryStoreError, VersionsPage};
use testbed::verify::PublishedVersions;

use super::VerifyError;
use crate::exit::CommandStatus;

/// Prints the page of the project in the working directory.
pub(super) fn print_page() -> Result<CommandStatus, VerifyError> {
    let page = VersionsPage::load(Path::new("."))?;
    write!(io::stdout().lock(), "{}", page.markdown())?;
    Ok(CommandStatus::Success)
}

/// Writes the published versions of Claude Code beside its results.
pub(super) fn save_published(
    directory: &Path,
    published: &PublishedVersions,
) -> Result<(), HistoryStoreError> {
    HistoryStore::new(directory.to_owned()).save_published("claude", published.all())
}
