//! Where a path that the model wrote really is.
//!
//! The model writes absolute paths, paths relative to its working directory, paths through links and
//! `..`; what counts is the file that the system finds there. It is resolved as the system resolves
//! it, and if that is not below the project's own resolved root, nothing is done with it.

use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The directory that is watched.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// Resolved, so that what is below it can be told by comparing.
    root: PathBuf,
    /// As it was named, for telling a link that leads out from a path that never led in.
    named: PathBuf,
}

/// A file of the project.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProjectFile {
    /// Where it is below the project.
    pub(crate) relative: PathBuf,
}

/// Why nothing is done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathRejection {
    /// It is somewhere else.
    Outside,
    /// A link on its way leads out of the project.
    LeadsOut,
    /// It is part of the repository's own bookkeeping.
    Git,
    /// It names the project itself, or nothing.
    Nothing,
}

impl fmt::Display for PathRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outside => "outside the project",
            Self::LeadsOut => "a link leads out of the project",
            Self::Git => "inside `.git`",
            Self::Nothing => "names no file",
        })
    }
}

impl Project {
    /// The project at a directory that exists.
    pub(crate) fn at(named: &Path) -> io::Result<Self> {
        let root = named.canonicalize()?;
        let named = std::path::absolute(named)?;
        Ok(Self { root, named })
    }

    /// Its directory, resolved.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where a file of the project is.
    pub(crate) fn absolute(&self, placed: &ProjectFile) -> PathBuf {
        self.root.join(&placed.relative)
    }

    /// The file that a path means, taken from the directory the agent works in.
    pub(crate) fn place(&self, written: &str, cwd: &Path) -> Result<ProjectFile, PathRejection> {
        if written.is_empty() || written.contains('\0') {
            return Err(PathRejection::Nothing);
        }
        let path = self.root.join(cwd).join(written);
        let real = resolved(&path);
        let Ok(relative) = real.strip_prefix(&self.root) else {
            let seems_inside =
                [&self.root, &self.named].iter().any(|root| without_dots(&path).starts_with(root));
            return Err(if seems_inside {
                PathRejection::LeadsOut
            } else {
                PathRejection::Outside
            });
        };
        if relative.as_os_str().is_empty() {
            return Err(PathRejection::Nothing);
        }
        if relative.components().any(|part| part.as_os_str() == ".git") {
            return Err(PathRejection::Git);
        }
        Ok(ProjectFile { relative: relative.to_owned() })
    }
}

/// The path with every link followed; what does not exist has none, and is taken as it stands.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let mut missing: Vec<Component<'_>> = Vec::new();
    let mut known = path;
    let mut real = loop {
        match known.canonicalize() {
            Ok(real) => break real,
            Err(_) => match (known.parent(), known.components().next_back()) {
                (Some(parent), Some(last)) => {
                    missing.push(last);
                    known = parent;
                }
                _ => break known.to_owned(),
            },
        }
    };
    for part in missing.into_iter().rev() {
        step(&mut real, part);
    }
    real
}

/// The path with `.` and `..` taken by their words alone.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        step(&mut plain, part);
    }
    plain
}

fn step(path: &mut PathBuf, part: Component<'_>) {
    match part {
        Component::ParentDir => {
            path.pop();
        }
        Component::CurDir => {}
        part => path.push(part),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::{PathRejection, Project};

    #[test]
    fn paths_are_what_the_system_finds_there() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let root = home.join("real");
        fs::create_dir_all(root.join("src/deep")).unwrap();
        fs::create_dir(home.join("elsewhere")).unwrap();
        fs::write(root.join("src/a.rs"), "").unwrap();
        fs::write(home.join("elsewhere/secret"), "").unwrap();
        symlink(&root, home.join("link")).unwrap();
        symlink(root.join("src"), root.join("inner")).unwrap();
        symlink(home.join("elsewhere"), root.join("out")).unwrap();
        symlink(home.join("elsewhere/secret"), root.join("secret")).unwrap();
        fs::create_dir(root.join(".git")).unwrap();
        // The project may be named through a link, and the agent may name it through another.
        for named in ["real", "link"] {
            let project = Project::at(&home.join(named)).unwrap();
            let check = |written: &str, expected: Result<&str, PathRejection>| {
                let found = project.place(written, Path::new("src"));
                let expected = expected.map(Path::new);
                assert_eq!(
                    found.as_ref().map(|it| &*it.relative),
                    expected.as_ref().copied(),
                    "{written}"
                );
            };
            let below = |place: &str, rest: &str| format!("{}/{rest}", home.join(place).display());
            check(&below("real", "src/a.rs"), Ok("src/a.rs"));
            check(&below("link", "src/a.rs"), Ok("src/a.rs"));
            check("a.rs", Ok("src/a.rs"));
            check("./deep/../a.rs", Ok("src/a.rs"));
            check("../new/file", Ok("new/file"));
            check("gone/../../x y\u{2028}\"'$(z)", Ok("x y\u{2028}\"'$(z)"));
            check(&below("real", "inner/a.rs"), Ok("src/a.rs"));
            check(&below("real", "inner/new"), Ok("src/new"));
            check(&below("real", "..a/...b"), Ok("..a/...b"));
            check(&below("real", "out/secret"), Err(PathRejection::LeadsOut));
            check(&below("real", "out/new"), Err(PathRejection::LeadsOut));
            check(&below(named, "secret"), Err(PathRejection::LeadsOut));
            check("../../elsewhere/secret", Err(PathRejection::Outside));
            check("../../real-not/x", Err(PathRejection::Outside));
            check("/etc/passwd", Err(PathRejection::Outside));
            check(&below("real", ".git/config"), Err(PathRejection::Git));
            check(&below("real", ""), Err(PathRejection::Nothing));
            check("", Err(PathRejection::Nothing));
            check("a\0b", Err(PathRejection::Nothing));
        }
    }

    #[test]
    fn a_link_to_nowhere_is_itself() {
        let home = tempfile::tempdir().unwrap();
        symlink("/nowhere/at/all", home.path().join("dangling")).unwrap();
        let project = Project::at(home.path()).unwrap();
        let placed = project.place("dangling", Path::new("")).unwrap();
        assert_eq!(placed.relative, Path::new("dangling"));
    }
}
