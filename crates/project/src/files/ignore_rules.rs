//! Which files git ignores.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::directory::{ProjectFiles, reading};
use super::path::ProjectPath;

/// How much of a file with rules is read, and how many of its rules count.
const MAX_RULES_BYTES: u64 = 256 << 10;
const MAX_RULES: usize = 5000;

/// The file with the rules of a directory.
const FILE_NAME: &str = ".gitignore";

/// The rules for the content of one directory.
#[derive(Debug)]
pub(super) struct IgnoreRules {
    /// The innermost ones last.
    levels: Vec<Gitignore>,
    /// Whether the directory itself is ignored, and so everything in it.
    all: bool,
}

impl IgnoreRules {
    /// The rules for what is in a directory of the project.
    pub(super) fn new(files: &ProjectFiles, directory: &ProjectPath) -> Self {
        let project = &files.path;
        let has_git = |it: &&Path| it.join(".git").symlink_metadata().is_ok();
        let repository = project.ancestors().find(has_git).unwrap_or(project).to_owned();
        let mut rules = Self { levels: Vec::new(), all: false };
        rules.add(&repository, ambient_rules(&repository, ".git/info/exclude"));
        // Directories of the repository that are above the project.
        let above: Vec<PathBuf> = project
            .ancestors()
            .skip(1)
            .take_while(|it| it.starts_with(&repository))
            .map(Path::to_owned)
            .collect();
        for level in above.iter().rev() {
            rules.enter(level);
            rules.add(level, ambient_rules(level, FILE_NAME));
        }
        let mut level = ProjectPath::default();
        for name in [None].into_iter().chain(directory.as_path().iter().map(Some)) {
            if let Some(name) = name {
                level = level.join(name);
            }
            let path = project.join(level.as_path());
            rules.enter(&path);
            let rules_path = level.as_path().join(FILE_NAME);
            rules.add(&path, project_rules(&files.root, &rules_path));
        }
        rules
    }

    /// Notices whether a directory is ignored by the rules so far.
    fn enter(&mut self, directory: &Path) {
        self.all = self.all || self.matches(directory, true);
    }

    fn add(&mut self, directory: &Path, text: Option<String>) {
        let Some(text) = text else { return };
        let mut builder = GitignoreBuilder::new(directory);
        for line in text.lines().take(MAX_RULES) {
            // A rule that cannot be read is no rule, as in git.
            let _ = builder.add_line(None, line);
        }
        self.levels.extend(builder.build());
    }

    /// Whether an absolute path in the directory is ignored.
    pub(super) fn ignores(&self, path: &Path, is_directory: bool) -> bool {
        self.all || self.matches(path, is_directory)
    }

    fn matches(&self, path: &Path, is_directory: bool) -> bool {
        for level in self.levels.iter().rev() {
            match level.matched(path, is_directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

fn project_rules(root: &Dir, path: &Path) -> Option<String> {
    let file = root.open_with(path, &reading()).ok()?.into_std();
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_RULES_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn ambient_rules(directory: &Path, name: &str) -> Option<String> {
    let directory = Dir::open_ambient_dir(directory, cap_std::ambient_authority()).ok()?;
    project_rules(&directory, Path::new(name))
}
