//! Where sessions may work.

use std::io;
use std::path::{Component, Path, PathBuf};

/// Directories below which sessions may work, with every link in them followed.
#[derive(Clone, Debug)]
pub struct Roots(Vec<PathBuf>);

impl Roots {
    /// These directories, which must be there.
    pub fn new(directories: &[PathBuf]) -> io::Result<Self> {
        directories.iter().map(|it| it.canonicalize()).collect::<io::Result<_>>().map(Self)
    }

    /// The directories.
    pub fn directories(&self) -> &[PathBuf] {
        &self.0
    }

    /// Where a path really leads, if that is a directory and below one of them. Blocks.
    ///
    /// Said of a path outside as of one that is not there, so that nobody learns what is there.
    pub fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let real = path.is_absolute().then(|| path.canonicalize().ok()).flatten()?;
        (self.have(&real) && real.is_dir()).then_some(real)
    }

    /// Where a directory is or would be, if that is below one of them and no repository's own. Blocks.
    pub fn resolve_new(&self, path: &Path) -> Option<PathBuf> {
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        if !path.is_absolute() || !path.components().all(plain) {
            return None;
        }
        let known = path.ancestors().find(|it| it.symlink_metadata().is_ok())?;
        // A link to nowhere is not followed by canonicalizing, but may be by whoever comes later.
        let mut real = known.canonicalize().ok()?;
        if !real.is_dir() {
            return None;
        }
        real.extend(path.strip_prefix(known).ok()?);
        let of_git = real.components().any(|part| part.as_os_str() == ".git");
        (self.have(&real) && !of_git).then_some(real)
    }

    /// Whether a path with all links followed is below one of them.
    pub fn have(&self, real: &Path) -> bool {
        self.0.iter().any(|root| real.starts_with(root))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::Roots;

    #[test]
    fn no_path_leads_out() {
        let place = tempfile::tempdir().unwrap();
        let (inside, outside) = (place.path().join("in"), place.path().join("in-not"));
        std::fs::create_dir_all(inside.join("a")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink(inside.join("a"), place.path().join("back")).unwrap();
        std::fs::write(inside.join("file"), "").unwrap();
        let roots = Roots::new(std::slice::from_ref(&inside)).unwrap();
        assert!(roots.resolve(&inside).is_some());
        assert!(roots.resolve(&inside.join("a/../a")).is_some());
        assert!(roots.resolve(&place.path().join("back")).is_some(), "it leads inside");
        for path in ["in/link", "in-not", "in/..", "in/a/../../in-not", "in/file", "in/none"] {
            assert_eq!(roots.resolve(&place.path().join(path)), None, "{path}");
        }
        assert_eq!(roots.resolve("in/a".as_ref()), None, "relative to what?");
    }

    #[test]
    fn no_path_that_is_yet_to_be_leads_out() {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().canonicalize().unwrap();
        let (inside, outside) = (place.path().join("in"), place.path().join("in-not"));
        std::fs::create_dir_all(inside.join("a")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink(outside.join("none"), inside.join("dangling")).unwrap();
        symlink(inside.join("a"), place.path().join("back")).unwrap();
        std::fs::write(inside.join("file"), "").unwrap();
        let roots = Roots::new(std::slice::from_ref(&inside)).unwrap();
        let resolve = |path: &str| roots.resolve_new(&place.path().join(path));
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
