//! What has changed in a file.

use std::io::{self, Read as _};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::patch::{FilePatch, PatchHunk};
use super::path::RepoPath;
use super::{GitError, GitRepository};

/// How much of a patch is read.
const MAX_PATCH_BYTES: usize = 4 << 20;

/// How much of a file that git does not know is shown.
const MAX_FILE_BYTES: u64 = 2 << 20;

/// In how many bytes of a file git looks for a NUL, which makes it a binary one.
const BINARY_BYTES: usize = 8000;

/// Which two states of a file are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffSide {
    /// The working tree with the index.
    Unstaged,
    /// The index with the last commit.
    Staged,
    /// The working tree with the last commit.
    Head,
}

/// The same format whatever is configured, and without programs that the configuration names.
pub(super) const PATCH_FORMAT: [&str; 10] = [
    "--patch",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--unified=3",
    "--inter-hunk-context=0",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--submodule=short",
    "--ignore-submodules=dirty",
];

impl GitRepository {
    /// The change of a file; there are two if it became another kind of thing, and none if it has not
    /// changed. `from` is its path before it was renamed.
    pub async fn diff(
        &self,
        path: &RepoPath,
        from: Option<&RepoPath>,
        side: DiffSide,
    ) -> Result<Vec<FilePatch>, GitError> {
        let command = self.read("diff").await?.args(PATCH_FORMAT);
        let command = match side {
            DiffSide::Unstaged => command.args(["--no-renames", "--ours"]),
            DiffSide::Staged => command.args(["--cached", "--find-renames"]),
            DiffSide::Head if self.has_commit().await? => command.args(["--find-renames", "HEAD"]),
            DiffSide::Head => command.args(["--no-renames"]),
        };
        let from = from.filter(|_| side != DiffSide::Unstaged).map(RepoPath::as_path);
        let command = command.args(["--"]).args(from).args([path.as_path()]);
        let output = command.max_output(MAX_PATCH_BYTES).run().await?;
        let cut = output.cut;
        let mut patches = FilePatch::parse(&output.checked()?);
        if let Some(last) = patches.last_mut() {
            last.cut |= cut;
        }
        if patches.is_empty() && side != DiffSide::Staged && self.is_untracked(path).await? {
            let (top, path) = (self.top().to_owned(), path.clone());
            let read = move || untracked_file(&top, &path);
            let whole = tokio::task::spawn_blocking(read).await;
            patches.push(
                whole.map_err(|it| GitError::Run { what: "diff".into(), source: it.into() })??,
            );
        }
        Ok(patches)
    }

    pub(super) async fn is_untracked(&self, path: &RepoPath) -> Result<bool, GitError> {
        let command = self.query("ls-files");
        let command = command.args(["-z", "--others", "--exclude-standard", "--"]);
        let listed = command.args([path.as_path()]).max_output(64 << 10).run().await?.checked()?;
        Ok(listed.split(|byte| *byte == 0).any(|it| it == path.as_bytes()))
    }
}

/// The content of a file that git does not know. No link leads out of the repository.
fn untracked_file(top: &Path, path: &RepoPath) -> Result<FilePatch, GitError> {
    let failed = |source: io::Error| GitError::File { path: path.text(), source };
    let mut change = FilePatch { added: true, ..FilePatch::default() };
    let top = Dir::open_ambient_dir(top, ambient_authority()).map_err(failed)?;
    let about = top.symlink_metadata(path.as_path()).map_err(failed)?;
    let mut bytes = Vec::new();
    if about.is_symlink() {
        let target = top.read_link_contents(path.as_path()).map_err(failed)?;
        bytes.extend_from_slice(target.as_os_str().as_encoded_bytes());
    } else if about.is_file() {
        let file = top.open(path.as_path()).map_err(failed)?;
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        change.cut = about.len() > MAX_FILE_BYTES;
    }
    if bytes[..bytes.len().min(BINARY_BYTES)].contains(&0) {
        change.binary = true;
        return Ok(change);
    }
    change.hunks.extend(PatchHunk::added_text(&bytes));
    Ok(change)
}
