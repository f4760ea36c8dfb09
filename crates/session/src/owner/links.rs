//! Files that a symbolic link leads to.
//!
//! A rule that allows edits names a directory or a file. The agent could have a link lead from there
//! to any other place, and a project from an untrusted source may contain one. So a rule covers no
//! edit through a link: a person is asked each time.

use std::path::{Component, Path};
use std::time::Duration;

/// How long the file system may take. After that, all files count as linked.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A longer path cannot be opened anywhere, and would take long to look at.
const MAX_PATH: usize = 4096;

/// Those of the files that are reached through a symbolic link, or that could not be looked at.
/// Relative paths start at `directory`.
pub(super) async fn find_linked(directory: &Path, files: Vec<String>) -> Vec<String> {
    if files.is_empty() {
        return files;
    }
    let (directory, all) = (directory.to_owned(), files.clone());
    let find = tokio::task::spawn_blocking(move || {
        files.into_iter().filter(|file| is_linked(&directory.join(file))).collect()
    });
    match tokio::time::timeout(TIMEOUT, find).await {
        Ok(Ok(linked)) => linked,
        Ok(Err(_)) | Err(_) => all,
    }
}

/// Whether a link is on the way to a file. The file and its directories need not exist.
fn is_linked(path: &Path) -> bool {
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    let too_long = path.as_os_str().len() > MAX_PATH;
    if too_long || !path.is_absolute() || !path.components().all(plain) {
        return true;
    }
    // A dangling link exists here, and cannot be resolved.
    let Some(known) = path.ancestors().find(|it| it.symlink_metadata().is_ok()) else {
        return true;
    };
    known.canonicalize().map_or(true, |real| real != known)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::find_linked;

    #[tokio::test]
    async fn a_file_behind_a_link_is_found_at_any_depth() {
        let directory = tempfile::tempdir().unwrap();
        let project = directory.path().canonicalize().unwrap().join("project");
        std::fs::create_dir_all(project.join("src/deep")).unwrap();
        std::fs::write(project.join("src/file"), "").unwrap();
        symlink("/etc", project.join("src/link")).unwrap();
        symlink("/no/such/file", project.join("src/dangling")).unwrap();
        symlink(project.join("src/file"), project.join("src/alias")).unwrap();
        let plain = ["src/file", "src/new", "src/deep/new/file"];
        let linked = [
            "src/link/passwd",
            "src/link/new/file",
            "src/link/../../x",
            "src/dangling",
            "src/dangling/x",
            "src/alias",
        ];
        let absolute = |name: &str| project.join(name).to_str().unwrap().to_owned();
        for name in plain {
            let files = vec![name.to_owned(), absolute(name)];
            assert_eq!(find_linked(&project, files).await, Vec::<String>::new(), "{name}");
        }
        for name in linked {
            let files = vec![name.to_owned(), absolute(name)];
            assert_eq!(find_linked(&project, files.clone()).await, files, "{name}");
        }
    }

    #[tokio::test]
    async fn many_files_are_looked_at_and_a_huge_path_counts_as_linked() {
        let directory = tempfile::tempdir().unwrap();
        let files = (0..10_000).map(|number| format!("{number}")).collect();
        let root = directory.path().canonicalize().unwrap();
        assert!(find_linked(&root, files).await.is_empty());
        let long = vec!["x/".repeat(50_000)];
        assert_eq!(find_linked(&root, long.clone()).await, long);
    }
}
