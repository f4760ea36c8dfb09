//! What commands of the shell changed: the project before and after.
//!
//! A file is known by its size, its times, its mode and its place on the disk, which is cheap to
//! look at and changes whenever it is written. What `.gitignore` names is not looked at. Whoever
//! else writes in the project at the same time is taken for the shell.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ignore::WalkBuilder;

use crate::project::{Project, ProjectFile};
use crate::source_file::FileVersion;

/// The files of a project at some time.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileIndex {
    files: HashMap<ProjectFile, FileVersion>,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScanChange {
    Written(ProjectFile),
    Deleted(ProjectFile),
    Renamed { from: ProjectFile, to: ProjectFile },
}

impl FileIndex {
    /// Looks at every file, but not below `without`.
    pub(crate) fn of(project: &Project, without: &[PathBuf]) -> Self {
        let without = without.to_vec();
        let walk = WalkBuilder::new(project.root())
            .hidden(false)
            .require_git(false)
            .filter_entry(move |entry| {
                entry.file_name() != ".git" && !without.iter().any(|it| it == entry.path())
            })
            .build();
        let files = walk
            .flatten()
            .filter(|entry| entry.file_type().is_some_and(|sort| sort.is_file()))
            .filter_map(|entry| {
                let relative = entry.path().strip_prefix(project.root()).ok()?.to_owned();
                // One that is gone by now will be missed as well as noticed.
                Some((ProjectFile { relative }, FileVersion::of(&entry.metadata().ok()?)))
            });
        Self { files: files.collect() }
    }

    /// Forgets files that changed at a time or later, so that they are found. What was deleted since
    /// is not.
    pub(crate) fn leave_out_since(&mut self, project: &Project, since: SystemTime) {
        self.files.retain(|file, _| {
            let metadata = std::fs::symlink_metadata(project.absolute(file));
            let changed = metadata.ok().and_then(|it| {
                // The time of the last change also tells of a file that was moved here, or given
                // older times; copies and archives do that.
                let seconds = u64::try_from(it.ctime()).ok()?;
                UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
            });
            changed.is_some_and(|changed| changed + Duration::from_secs(1) <= since)
        });
    }

    /// Takes note of a file that is known to have changed, so that it is not found again.
    pub(crate) fn note(&mut self, project: &Project, file: &ProjectFile) {
        match std::fs::symlink_metadata(project.absolute(file)) {
            Ok(metadata) if metadata.is_file() => {
                self.files.insert(file.clone(), FileVersion::of(&metadata));
            }
            _ => {
                self.files.remove(file);
            }
        }
    }

    /// Takes a file for what it was before, so that it is found again.
    pub(crate) fn keep(&mut self, before: &Self, file: &ProjectFile) {
        match before.files.get(file) {
            Some(version) => {
                self.files.insert(file.clone(), *version);
            }
            None => {
                self.files.remove(file);
            }
        }
    }

    /// What became of the files since, in the order of their names.
    pub(crate) fn until(&self, later: &Self) -> Vec<ScanChange> {
        let mut deleted: HashMap<u64, &ProjectFile> = HashMap::new();
        let mut findings = Vec::new();
        for (file, version) in &self.files {
            if !later.files.contains_key(file) {
                deleted.insert(version.inode(), file);
            }
        }
        for (file, version) in &later.files {
            match self.files.get(file) {
                Some(before) if before == version => {}
                Some(_) => findings.push(ScanChange::Written(file.clone())),
                None => findings.push(match deleted.remove(&version.inode()) {
                    // The place on the disk moved to another name; a file that was made anew in the
                    // same place is not told from that, and comes to the same.
                    Some(from) => ScanChange::Renamed { from: from.clone(), to: file.clone() },
                    None => ScanChange::Written(file.clone()),
                }),
            }
        }
        findings.extend(deleted.into_values().map(|file| ScanChange::Deleted(file.clone())));
        findings.sort_by(|a, b| a.path().cmp(b.path()));
        findings
    }
}

impl ScanChange {
    fn path(&self) -> &Path {
        match self {
            Self::Written(file) | Self::Deleted(file) | Self::Renamed { to: file, .. } => {
                &file.relative
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{FileIndex, ScanChange};
    use crate::project::{Project, ProjectFile};

    #[test]
    fn what_was_made_written_renamed_and_deleted_is_found_and_what_is_ignored_is_not() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
        fs::create_dir_all(root.join("src")).unwrap();
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir_all(root.join("copy")).unwrap();
        write(".gitignore", "*.log\n");
        for file in ["same", "src/edited", "old name", "gone", "noted"] {
            write(file, "before");
        }
        let project = Project::at(root).unwrap();
        let without = [project.root().join("copy")];
        let mut before = FileIndex::of(&project, &without);
        write("src/edited", "after, longer");
        write("src/new", "");
        write(".hidden", "");
        write("x.log", "");
        write(".git/index", "");
        write("copy/same", "");
        write("noted", "by another tool");
        fs::rename(root.join("old name"), root.join("src/new name")).unwrap();
        fs::remove_file(root.join("gone")).unwrap();
        let file = |path: &str| ProjectFile { relative: path.into() };
        before.note(&project, &file("noted"));
        let after = FileIndex::of(&project, &without);
        assert_eq!(
            before.until(&after),
            [
                ScanChange::Written(file(".hidden")),
                ScanChange::Deleted(file("gone")),
                ScanChange::Written(file("src/edited")),
                ScanChange::Written(file("src/new")),
                ScanChange::Renamed { from: file("old name"), to: file("src/new name") },
            ]
        );
        assert_eq!(after.until(&after), []);
    }
}
