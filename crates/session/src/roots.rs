//! The directories in which sessions may work.

use std::io;
use std::path::{Component, Path, PathBuf};

/// Directories below which sessions may work, with all symbolic links resolved.
#[derive(Clone, Debug)]
pub struct Roots(Vec<PathBuf>);

impl Roots {
    /// Fails if one of the directories does not exist.
    pub fn new(directories: &[PathBuf]) -> io::Result<Self> {
        directories.iter().map(|it| it.canonicalize()).collect::<io::Result<_>>().map(Self)
    }

    pub fn directories(&self) -> &[PathBuf] {
        &self.0
    }

    /// Resolves a path to an existing directory below one of the roots. Blocks.
    ///
    /// A path outside gets the same answer as one that does not exist, so that a client cannot find
    /// out what exists outside.
    pub fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let real = path.is_absolute().then(|| path.canonicalize().ok()).flatten()?;
        (self.contains(&real) && real.is_dir()).then_some(real)
    }

    /// Resolves a directory that may not exist yet, below one of the roots and outside any `.git`.
    /// Blocks.
    pub fn resolve_new(&self, path: &Path) -> Option<PathBuf> {
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        if !path.is_absolute() || !path.components().all(plain) {
            return None;
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
        self.0.iter().any(|root| real.starts_with(root))
    }
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
