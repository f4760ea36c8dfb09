//! Files that clients may not write like others, because programs run what is in them.

use std::path::Path;

/// Why a file may not be written like others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// It belongs to git, whose hooks and configuration name programs.
    Git,
    /// It tells the agent which programs to run.
    Agent,
}

/// What a client may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAccess {
    /// All but protected files.
    Ordinary,
    /// Also files with [`Protection::Agent`].
    Admin,
}

/// What is in the agent's directory and names programs: hooks, or commands in a front matter.
const AGENT_PARTS: [&str; 5] = ["hooks", "agents", "commands", "skills", "plugins"];

/// Whether an absolute path is protected. Case does not matter, because some file systems ignore it.
pub fn protection(path: &Path) -> Option<Protection> {
    let names = path.components().map(|it| it.as_os_str().to_string_lossy().to_ascii_lowercase());
    let names: Vec<String> = names.collect();
    if names.iter().any(|it| it == ".git") {
        return Some(Protection::Git);
    }
    let in_agent = |pair: &[String]| {
        let settings = pair[1].starts_with("settings");
        pair[0] == ".claude" && (settings || AGENT_PARTS.contains(&pair[1].as_str()))
    };
    // A directory that is moved to or away from the agent's name takes its files with it.
    let last = names.last().is_some_and(|it| it == ".claude" || it == ".mcp.json");
    (last || names.windows(2).any(in_agent)).then_some(Protection::Agent)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Protection, protection};

    #[test]
    fn what_programs_run_is_protected() {
        let check = |path: &str| protection(Path::new(path));
        for path in ["/p/.git", "/p/.git/hooks/pre-commit", "/p/a/.GIT/config", "/p/.git/.claude"] {
            assert_eq!(check(path), Some(Protection::Git), "{path}");
        }
        for path in [
            "/p/.claude/settings.json",
            "/p/.claude/settings.local.json",
            "/p/a/.Claude/Settings.json",
            "/p/.claude/hooks/x.sh",
            "/p/.claude/skills/a/SKILL.md",
            "/p/.claude",
            "/p/.mcp.json",
        ] {
            assert_eq!(check(path), Some(Protection::Agent), "{path}");
        }
        for path in [
            "/p/.gitignore",
            "/p/git/config",
            "/p/.claude/worktrees/a/src/main.rs",
            "/p/settings.json",
            "/p/CLAUDE.md",
            "/p/hooks/a",
        ] {
            assert_eq!(check(path), None, "{path}");
        }
    }
}
