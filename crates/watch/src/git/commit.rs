//! One commit, from files to its id.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::repository::{LITERALLY, Repository};
use super::{CommitOccasion, CommitSettings, Committed, Error};
use crate::process::{Program, ProgramError};
use crate::project::{Project, ProjectFile};
use crate::source_file::{FileLookup, SourceFile};

/// How many paths are named on a command line, which must not get too long.
const PATHS_AT_ONCE: usize = 200;

/// A file's mode and content, as git writes them.
type Blob = (Vec<u8>, Vec<u8>);

impl Repository {
    /// Commits these files as they are now, and nothing else.
    pub(super) async fn commit(
        &self,
        settings: &CommitSettings,
        project: &Project,
        files: &[ProjectFile],
        occasion: &CommitOccasion,
    ) -> Result<Committed, Error> {
        if let Some(what) = self.under_way() {
            return Err(Error::UnderWay(what));
        }
        if self.is_apart() {
            for file in files {
                self.carry(project, file).await?;
            }
        }
        let head = self.head(settings).await?;
        let aside = tempfile::Builder::new().prefix("towpath-").tempdir_in(&self.git_dir)?;
        let index = aside.path().join("index");
        let git = || self.git().env("GIT_INDEX_FILE", &index);
        if let Some(head) = &head {
            // A copy of the index knows which files have not changed, so git need not read them all.
            let _ = tokio::fs::copy(self.git_dir.join("index"), &index).await;
            call(git(), settings, &["read-tree", "--reset", head], Vec::new()).await?;
        }
        let ignored = self.ignored(git(), settings, files).await?;
        let taken: Vec<&ProjectFile> =
            files.iter().filter(|file| !ignored.contains(file)).collect();
        let paths: Vec<PathBuf> =
            taken.iter().map(|file| self.prefix.join(&file.relative)).collect();
        if paths.is_empty() {
            return Ok(Committed { commit: None, ignored });
        }
        let update = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"];
        call(git(), settings, &update, joined(&paths)).await?;
        if !self.has_difference(git(), settings, head.as_deref()).await? {
            return Ok(Committed { commit: None, ignored });
        }
        let unstaged = self.not_staged_by_the_user(settings, head.as_deref(), &paths).await?;
        let names: Vec<&Path> = taken.iter().map(|file| &*file.relative).collect();
        let message = occasion.message(&settings.message, &settings.trailers, &names);
        let mut commit = vec!["commit", "--quiet", "--file", "-"];
        if let Some(author) = &settings.author {
            commit.extend(["--author", author]);
        }
        call(git(), settings, &commit, message.clone().into_bytes()).await?;
        let id = self.ask(settings, ["rev-parse", "--short", "HEAD"]).await?;
        if self.has_index() && !unstaged.is_empty() {
            let reset =
                ["reset", "--quiet", "HEAD", "--pathspec-from-file=-", "--pathspec-file-nul"];
            call(self.git(), settings, &reset, joined(&unstaged)).await?;
        }
        let id = String::from_utf8_lossy(&id).trim().to_owned();
        let subject = message.lines().next().unwrap_or_default().to_owned();
        Ok(Committed { commit: Some((id, subject)), ignored })
    }

    /// Brings a file to the working tree that is committed from.
    async fn carry(&self, project: &Project, file: &ProjectFile) -> Result<(), Error> {
        let trouble = |it| Error::Carry(format!("{it:?}"));
        let target = crate::target::DirectoryTarget::new(&self.tree.join(&self.prefix))?;
        match FileLookup::at(&project.absolute(file), None).await? {
            FileLookup::File(source) => copy(&target, file, *source).await.map_err(trouble),
            FileLookup::Gone => target.delete(file).await.map_err(trouble),
            FileLookup::Odd(_) => Ok(()),
        }
    }

    async fn ignored(
        &self,
        git: Program,
        settings: &CommitSettings,
        files: &[ProjectFile],
    ) -> Result<Vec<ProjectFile>, Error> {
        // It refuses to take paths literally, so they must not begin with what could be magic.
        let plain = |it: &ProjectFile| Path::new(".").join(&self.prefix).join(&it.relative);
        let paths: Vec<PathBuf> = files.iter().map(plain).collect();
        let check = git
            .without_env(LITERALLY)
            .args(["check-ignore", "-z", "--stdin"])
            .called("git check-ignore".to_owned());
        let run = check.stdin(joined(&paths)).run(settings.limit).await?;
        if !matches!(run.status.code(), Some(0 | 1)) {
            let (status, said) = (run.status, run.said());
            let name = "git check-ignore".to_owned();
            return Err(ProgramError::Failed { name, status, said }.into());
        }
        let found = split(&run.stdout);
        Ok(files.iter().filter(|it| found.contains(&plain(it))).cloned().collect())
    }

    async fn has_difference(
        &self,
        git: Program,
        settings: &CommitSettings,
        head: Option<&str>,
    ) -> Result<bool, Error> {
        let Some(head) = head else { return Ok(true) };
        let compare = git.args(["diff-index", "--cached", "--quiet", head]);
        Ok(!compare.run(settings.limit).await?.status.success())
    }

    /// The files whose entry in the user's index is what was committed last.
    async fn not_staged_by_the_user(
        &self,
        settings: &CommitSettings,
        head: Option<&str>,
        paths: &[PathBuf],
    ) -> Result<Vec<PathBuf>, Error> {
        if !self.has_index() {
            return Ok(Vec::new());
        }
        let mut unstaged = Vec::new();
        for paths in paths.chunks(PATHS_AT_ONCE) {
            let list = |first: &[&str]| {
                let words = first.iter().map(OsString::from).chain([OsString::from("--")]);
                words.chain(paths.iter().map(OsString::from)).collect::<Vec<OsString>>()
            };
            let staged = self.ask(settings, list(&["ls-files", "--stage", "-z"])).await?;
            let committed = match head {
                Some(head) => self.ask(settings, list(&["ls-tree", "-z", head])).await?,
                None => Vec::new(),
            };
            // `mode id stage`, and `mode type id`, each before a tab.
            let (staged, committed) = (blobs(&staged, 0, 1), blobs(&committed, 0, 2));
            let same = |it: &&PathBuf| staged.get(*it) == committed.get(*it);
            unstaged.extend(paths.iter().filter(same).cloned());
        }
        Ok(unstaged)
    }
}

async fn copy(
    target: &crate::target::DirectoryTarget,
    file: &ProjectFile,
    source: SourceFile,
) -> Result<(), crate::target::PushError> {
    target.write(file, source, || async { true }).await
}

async fn call(
    git: Program,
    settings: &CommitSettings,
    arguments: &[&str],
    stdin: Vec<u8>,
) -> Result<(), Error> {
    let name = format!("git {}", arguments[0]);
    git.args(arguments).called(name).stdin(stdin).succeed(settings.limit).await?;
    Ok(())
}

fn joined(paths: &[PathBuf]) -> Vec<u8> {
    paths.iter().flat_map(|path| path.as_os_str().as_bytes().iter().copied().chain([0])).collect()
}

fn split(output: &[u8]) -> Vec<PathBuf> {
    output.split(|&byte| byte == 0).filter(|it| !it.is_empty()).map(path).collect()
}

fn path(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}

/// Mode and content of each path, from lists whose fields before the tab are numbered.
fn blobs(output: &[u8], mode: usize, id: usize) -> HashMap<PathBuf, Blob> {
    let entries = output.split(|&byte| byte == 0).filter_map(|entry| {
        let tab = entry.iter().position(|&byte| byte == b'\t')?;
        let fields: Vec<&[u8]> = entry[..tab].split(|&byte| byte == b' ').collect();
        let field = |n: usize| fields.get(n).map(|it| it.to_vec());
        Some((path(&entry[tab + 1..]), (field(mode)?, field(id)?)))
    });
    entries.collect()
}
