//! Which files a rule for edits covers.
//!
//! Paths are compared as text: only who can see the file system knows where links lead. So a path
//! that could be read in two ways is asked about every time.

use super::visible;

/// Names that a rule for a directory never covers, at any depth: tools execute what is written
/// there without asking again.
const PROTECTED: &[&str] = &[
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".claude",
    ".claude.json",
    ".codex",
    ".cursor",
    ".devcontainer",
    ".envrc",
    ".gemini",
    ".git",
    ".gitconfig",
    ".gitmodules",
    ".husky",
    ".idea",
    ".mcp.json",
    ".profile",
    ".ripgreprc",
    ".ssh",
    ".vscode",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "towpath.toml",
];

/// Directories of the system, and those that hold the homes of users or whole disks.
const SYSTEM_DIRECTORIES: &[&str] = &[
    "applications",
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "library",
    "media",
    "mnt",
    "opt",
    "private",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "system",
    "tmp",
    "users",
    "usr",
    "var",
    "volumes",
];

/// Whether a path means the same file whatever the working directory and the user are: absolute,
/// with names only, and none that a reader could take for a pattern.
pub(super) fn is_unambiguous(path: &str) -> bool {
    has_only_names(path) && !path.contains(['*', '\0', '\\'])
}

/// Whether a rule may cover everything below a directory: not the root, a home directory, or a
/// directory with protected files.
pub(super) fn is_project_directory(directory: &str) -> bool {
    if !has_only_names(directory) {
        return false;
    }
    let names: Vec<String> = directory.split('/').skip(1).map(folded).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // What macOS calls `/tmp` and `/var` lies in `/private`.
    let below = names.strip_prefix(&["private"]).unwrap_or(&names);
    let is_wide = match below {
        [] | ["home" | "users" | "media" | "volumes", _] => true,
        [name] => SYSTEM_DIRECTORIES.contains(name),
        // Drives of Windows, and the homes there.
        ["mnt", drive, home @ ..] => {
            drive.len() == 1 && (home.is_empty() || matches!(home, ["users"] | ["users", _]))
        }
        _ => false,
    };
    // Working trees lie in `.claude/worktrees`, and have a `.claude` of their own.
    let is_worktree = |at: usize| {
        names[at] == ".claude" && names[at + 1..].len() >= 2 && names[at + 1] == "worktrees"
    };
    !is_wide && (0..names.len()).all(|at| !is_protected(names[at]) || is_worktree(at))
}

/// Whether a file is below a directory and has no protected name in between.
pub(super) fn is_below(directory: &str, path: &str) -> bool {
    let Some(rest) = path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/')) else {
        return false;
    };
    directory.starts_with('/')
        // A NUL ends the path for the system, and Windows separates with backslashes.
        && !path.contains(['\0', '\\'])
        && rest.split('/').all(|name| !is_protected(name))
}

fn has_only_names(path: &str) -> bool {
    // A line break could make the text of a rule look like another one.
    let names = path.strip_prefix('/').filter(|rest| !rest.contains(char::is_control));
    names.is_some_and(|rest| rest.split('/').all(|name| !matches!(name, "" | "." | "..")))
}

/// Whether a name is protected, or could be another one than it looks.
fn is_protected(name: &str) -> bool {
    let name = folded(name);
    // Windows reads a name up to a colon, and ignores blanks and dots at the end.
    let name = name.split(':').next().unwrap_or_default().trim_end_matches([' ', '.']);
    name.is_empty() || PROTECTED.contains(&name) || is_short_name(name)
}

/// Whether Windows could have given the name to a file with a long one: `git~1` is `.git`.
fn is_short_name(name: &str) -> bool {
    let (stem, tail) = name.rsplit_once('~').unwrap_or_default();
    let number = tail.split('.').next().unwrap_or_default();
    !stem.is_empty()
        && stem.len() <= 6
        && !number.is_empty()
        && number.bytes().all(|it| it.is_ascii_digit())
}

/// A name as file systems compare it: those of macOS and Windows ignore case, and the older one of
/// macOS ignores characters that cannot be seen.
fn folded(name: &str) -> String {
    let seen: String = name.chars().filter(|&c| !visible::is_hidden(c)).collect();
    seen.to_uppercase().to_lowercase()
}
