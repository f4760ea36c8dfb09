//! The directories in which sessions may work.

use std::io;
use std::path::{Component, Path, PathBuf};

/// Directories below which sessions may work, with all symbolic links resolved.
#[derive(Clone, Debug)]
pub struct Roots {
    directories: Vec<PathBuf>,
    /// Whether the sessions are on other machines.
    is_elsewhere: bool,
}

impl Roots {
    /// Fails if one of the directories does not exist.
    pub fn new(directories: &[PathBuf]) -> io::Result<Self> {
        let real = directories.iter().map(|it| it.canonicalize());
        Ok(Self { directories: real.collect::<io::Result<_>>()?, is_elsewhere: false })
    }

    /// For a process that passes everything on to other machines, which have roots of their own and check
    /// every directory themselves. Nothing is looked up on this machine: any absolute path without `..` will
    /// do.
    pub fn elsewhere() -> Self {
        Self { directories: Vec::new(), is_elsewhere: true }
    }

    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Resolves a path to an existing directory below one of the roots. Blocks.
    ///
    /// A path outside gets the same answer as one that does not exist, so that a client cannot find
    /// out what exists outside.
    pub fn resolve(&self, path: &Path) -> Option<PathBuf> {
        if self.is_elsewhere {
            return is_plain(path).then(|| path.to_owned());
        }
        let real = path.is_absolute().then(|| path.canonicalize().ok()).flatten()?;
        (self.contains(&real) && real.is_dir()).then_some(real)
    }

    /// Resolves a directory that may not exist yet, below one of the roots and outside any `.git`.
    /// Blocks.
    pub fn resolve_new(&self, path: &Path) -> Option<PathBuf> {
        if !is_plain(path) {
            return None;
        }
        if self.is_elsewhere {
            return Some(path.to_owned());
        }
        let known = path.ancestors().find(|it| it.symlink_metadata().is_ok())?;
        // A dangling link fails here: its target could be created later.
        let mut real = known.canonicalize().ok()?;
        if !real.is_dir() {
            return None;
        }
        real.extend(path.strip_prefix(known).ok()?);
        let in_git = real.components().any(|part| part.as_os_str() == ".git");
        (self.contains(&real) && !in_git).then_some(real)
    }

    /// Whether a resolved path is below one of the roots.
    pub fn contains(&self, real: &Path) -> bool {
        self.is_elsewhere || self.directories.iter().any(|root| real.starts_with(root))
    }
}

/// Whether a path is absolute and leads nowhere else by itself.
fn is_plain(path: &Path) -> bool {
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    path.is_absolute() && path.components().all(plain)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::Roots;

    #[test]
    fn no_path_leads_outside() {
        let directory = tempfile::tempdir().unwrap();
        let (inside, outside) = (directory.path().join("in"), directory.path().join("in-not"));
        std::fs::create_dir_all(inside.join("a")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink(inside.join("a"), directory.path().join("back")).unwrap();
        std::fs::write(inside.join("file"), "").unwrap();
        let roots = Roots::new(std::slice::from_ref(&inside)).unwrap();
        assert!(roots.resolve(&inside).is_some());
        assert!(roots.resolve(&inside.join("a/../a")).is_some());
        assert!(roots.resolve(&directory.path().join("back")).is_some(), "it leads inside");
        for path in ["in/link", "in-not", "in/..", "in/a/../../in-not", "in/file", "in/none"] {
            assert_eq!(roots.resolve(&directory.path().join(path)), None, "{path}");
        }
        assert_eq!(roots.resolve("in/a".as_ref()), None, "relative to what?");
    }

    #[test]
    fn paths_of_other_machines_are_not_looked_up_here() {
        let roots = Roots::elsewhere();
        let path = std::path::Path::new("/not/on/this/machine");
        assert_eq!(roots.resolve(path).as_deref(), Some(path));
        assert!(roots.contains(path) && roots.directories().is_empty());
        for path in ["relative", "/a/../b", "/a/..", ""] {
            assert_eq!(roots.resolve(path.as_ref()), None, "{path}");
        }
    }

    #[test]
    fn no_new_path_leads_outside() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap();
        let (inside, outside) = (directory.path().join("in"), directory.path().join("in-not"));
        std::fs::create_dir_all(inside.join("a")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink(outside.join("none"), inside.join("dangling")).unwrap();
        symlink(inside.join("a"), directory.path().join("back")).unwrap();
        std::fs::write(inside.join("file"), "").unwrap();
        let roots = Roots::new(std::slice::from_ref(&inside)).unwrap();
        let resolve = |path: &str| roots.resolve_new(&directory.path().join(path));
        for (path, leads) in [("in/a", "in/a"), ("in/x/y", "in/x/y"), ("back/new", "in/a/new")] {
            assert_eq!(resolve(path), Some(real.join(leads)), "{path}");
        }
        for path in [
            "in/link",
            "in/link/new",
            "in-not/new",
            "in/..",
            "in/new/../../in-not",
            "in/file",
            "in/file/new",
            "in/dangling",
            "in/dangling/new",
            "in/.git/hooks",
            "in/a/.git",
            "new",
        ] {
            assert_eq!(resolve(path), None, "{path}");
        }
        assert_eq!(roots.resolve_new("in/a".as_ref()), None, "relative to what?");
    }
}
