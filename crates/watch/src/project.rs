//! The watched project: which file a path of the model refers to, and which files are selected.
//!
//! The model writes absolute paths, paths relative to its working directory, paths through symbolic
//! links and paths with `..`. Each is resolved as the operating system resolves it. If the result is not
//! below the resolved root of the project, the file is left alone.

use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// The directory that is watched.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// With all symbolic links resolved, so that paths can be compared with it.
    root: PathBuf,
    /// As the user wrote it. It tells a link that leads out of the project from a path that was never
    /// inside.
    original: PathBuf,
}

/// A file of the project.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProjectFile {
    /// The path relative to the root of the project.
    pub(crate) relative: PathBuf,
}

/// Why a path is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathRejection {
    Outside,
    /// A symbolic link in the path leads out of the project.
    LinkOutside,
    /// It is inside `.git`.
    Git,
    /// It is empty, or the project itself.
    NoFile,
}

impl fmt::Display for PathRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outside => "outside the project",
            Self::LinkOutside => "a link leads out of the project",
            Self::Git => "inside `.git`",
            Self::NoFile => "not a file",
        })
    }
}

impl Project {
    /// The project at an existing directory.
    pub(crate) fn at(directory: &Path) -> io::Result<Self> {
        let root = directory.canonicalize()?;
        let original = std::path::absolute(directory)?;
        Ok(Self { root, original })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn absolute(&self, file: &ProjectFile) -> PathBuf {
        self.root.join(&file.relative)
    }

    /// The file that a path refers to, relative to the agent's working directory.
    pub(crate) fn resolve(&self, written: &str, cwd: &Path) -> Result<ProjectFile, PathRejection> {
        if written.is_empty() || written.contains('\0') {
            return Err(PathRejection::NoFile);
        }
        let path = self.root.join(cwd).join(written);
        let real = resolve_links(&path);
        let Ok(relative) = real.strip_prefix(&self.root) else {
            let seems_inside = [&self.root, &self.original]
                .iter()
                .any(|root| without_dots(&path).starts_with(root));
            return Err(if seems_inside {
                PathRejection::LinkOutside
            } else {
                PathRejection::Outside
            });
        };
        if relative.as_os_str().is_empty() {
            return Err(PathRejection::NoFile);
        }
        if relative.components().any(|part| part.as_os_str() == ".git") {
            return Err(PathRejection::Git);
        }
        Ok(ProjectFile { relative: relative.to_owned() })
    }
}

/// The path with every symbolic link resolved. Parts that do not exist are kept as written.
pub(crate) fn resolve_links(path: &Path) -> PathBuf {
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
        append(&mut real, part);
    }
    real
}

/// The path without `.` and `..`, which are removed without looking at links.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        append(&mut plain, part);
    }
    plain
}

fn append(path: &mut PathBuf, part: Component<'_>) {
    match part {
        Component::ParentDir => {
            path.pop();
        }
        Component::CurDir => {}
        part => path.push(part),
    }
}

/// Which files are selected: `--include` and `--exclude`.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    include: Option<GlobSet>,
    exclude: GlobSet,
}

#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` is not a valid pattern")]
pub struct PatternError {
    pattern: String,
    source: globset::Error,
}

impl Selection {
    /// All files that match `include`, or all files if it is empty, except those that match `exclude`.
    /// A pattern without a slash matches the name in any directory. A directory matches everything
    /// below it.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, PatternError> {
        let include = if include.is_empty() { None } else { Some(glob_set(include)?) };
        Ok(Self { include, exclude: glob_set(exclude)? })
    }

    pub(crate) fn matches(&self, relative: &Path) -> bool {
        self.include.as_ref().is_none_or(|include| include.is_match(relative))
            && !self.exclude.is_match(relative)
    }
}

fn glob_set(patterns: &[String]) -> Result<GlobSet, PatternError> {
    let mut set = GlobSetBuilder::new();
    let error = |pattern: &str| {
        let pattern = pattern.to_owned();
        move |source| PatternError { pattern, source }
    };
    for pattern in patterns {
        let trimmed = pattern.trim_end_matches('/');
        let path = if trimmed.contains('/') {
            trimmed.trim_start_matches('/').to_owned()
        } else {
            format!("**/{trimmed}")
        };
        for glob in [path.clone(), format!("{path}/**")] {
            let glob = GlobBuilder::new(&glob).literal_separator(true).build();
            set.add(glob.map_err(error(pattern))?);
        }
    }
    set.build().map_err(error(""))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::{PathRejection, Project, Selection};

    #[test]
    fn paths_are_resolved_as_the_system_resolves_them() {
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
        // The user may write the project as a link, and the agent may write another one.
        for directory in ["real", "link"] {
            let project = Project::at(&home.join(directory)).unwrap();
            let check = |written: &str, expected: Result<&str, PathRejection>| {
                let found = project.resolve(written, Path::new("src"));
                let expected = expected.map(Path::new);
                assert_eq!(
                    found.as_ref().map(|it| &*it.relative),
                    expected.as_ref().copied(),
                    "{written}"
                );
            };
            let below =
                |directory: &str, rest: &str| format!("{}/{rest}", home.join(directory).display());
            check(&below("real", "src/a.rs"), Ok("src/a.rs"));
            check(&below("link", "src/a.rs"), Ok("src/a.rs"));
            check("a.rs", Ok("src/a.rs"));
            check("./deep/../a.rs", Ok("src/a.rs"));
            check("../new/file", Ok("new/file"));
            check("gone/../../x y\u{2028}\"'$(z)", Ok("x y\u{2028}\"'$(z)"));
            check(&below("real", "inner/a.rs"), Ok("src/a.rs"));
            check(&below("real", "inner/new"), Ok("src/new"));
            check(&below("real", "..a/...b"), Ok("..a/...b"));
            check(&below("real", "out/secret"), Err(PathRejection::LinkOutside));
            check(&below("real", "out/new"), Err(PathRejection::LinkOutside));
            check(&below(directory, "secret"), Err(PathRejection::LinkOutside));
            check("../../elsewhere/secret", Err(PathRejection::Outside));
            check("../../real-not/x", Err(PathRejection::Outside));
            check("/etc/passwd", Err(PathRejection::Outside));
            check(&below("real", ".git/config"), Err(PathRejection::Git));
            check(&below("real", ""), Err(PathRejection::NoFile));
            check("", Err(PathRejection::NoFile));
            check("a\0b", Err(PathRejection::NoFile));
        }
    }

    #[test]
    fn a_dangling_link_is_a_file_of_the_project() {
        let home = tempfile::tempdir().unwrap();
        symlink("/nowhere/at/all", home.path().join("dangling")).unwrap();
        let project = Project::at(home.path()).unwrap();
        let file = project.resolve("dangling", Path::new("")).unwrap();
        assert_eq!(file.relative, Path::new("dangling"));
    }

    #[test]
    fn a_pattern_selects_a_path_a_directory_or_a_name_anywhere() {
        let owned = |texts: &[&str]| texts.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        let check = |include: &[&str], exclude: &[&str], path: &str| {
            Selection::new(&owned(include), &owned(exclude)).unwrap().matches(Path::new(path))
        };
        assert!(check(&[], &[], "any/thing"));
        assert!(check(&["*.rs"], &[], "src/deep/a.rs"));
        assert!(!check(&["*.rs"], &[], "src/a.toml"));
        assert!(check(&["src/"], &[], "src/deep/a.toml"));
        assert!(!check(&["/src/*.rs"], &[], "src/deep/a.rs"));
        assert!(!check(&[], &["target"], "sub/target/x/y"));
        assert!(!check(&["*.rs"], &["src/gen.rs"], "src/gen.rs"));
        assert!(check(&[], &["src/gen.rs"], "lib/src/gen.rs"));
        Selection::new(&owned(&["a{"]), &[]).unwrap_err();
    }
}
