//! What a grant covers.
//!
//! A grant spares a person the next question of the same sort, so it must never cover more than the
//! person who gave it had in mind. Where a shell command could do anything beyond its first words,
//! a prefix does not cover it: `git status:*` says nothing of `git status; rm -rf ~`.

use journal::{Grant, RequestRecord};
use wire::json::Raw;

/// Characters that let a command line do more than one thing.
const SHELL: &[char] = &[
    ';', '&', '|', '<', '>', '$', '`', '(', ')', '{', '}', '\\', '\n', '\r', '\'', '"', '*', '?',
    '~', '#', '!', '=',
];

/// Whether a grant in force allows what is asked. Session and directory are the caller's to check.
pub(crate) fn covers(grant: &Grant, request: &RequestRecord, now: u64) -> bool {
    if grant.tool != request.tool_name || grant.until.is_some_and(|until| until <= now) {
        return false;
    }
    let Some(pattern) = &grant.pattern else { return true };
    let Some(input) = Raw::parse(&request.input) else { return false };
    let field = |name| input.get(name).and_then(Raw::text).map(String::from);
    if let Some(command) = field("command") {
        return covers_command(pattern, &command);
    }
    let path = field("file_path").or_else(|| field("notebook_path")).or_else(|| field("path"));
    if let Some(path) = path {
        return covers_path(pattern, &path);
    }
    field("url").is_some_and(|url| covers_url(pattern, &url))
}

/// `npm test` covers just that; `git diff:*` also everything that only adds plain words to it.
fn covers_command(pattern: &str, command: &str) -> bool {
    let Some(prefix) = pattern.strip_suffix(":*") else { return pattern == command };
    let Some(rest) = command.strip_prefix(prefix) else { return false };
    (rest.is_empty() || rest.starts_with(' ')) && !command.contains(SHELL)
}

/// `src/main.rs` covers that file, `src/**` whatever lies below.
fn covers_path(pattern: &str, path: &str) -> bool {
    if path.split('/').any(|part| part == "..") {
        return false;
    }
    match pattern.strip_suffix("/**") {
        Some(directory) => path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/')),
        None => pattern == path,
    }
}

/// `domain:example.org` covers that host.
fn covers_url(pattern: &str, url: &str) -> bool {
    let Some(domain) = pattern.strip_prefix("domain:") else { return pattern == url };
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return false;
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A name before an `@` is not the host, and a browser knows more tricks than these.
    !host.contains(['@', '\\', '%']) && host.split(':').next() == Some(domain)
}

#[cfg(test)]
mod tests {
    use super::covers;
    use journal::{Grant, RequestRecord};
    use wire::note::{Actor, Wants};

    fn check(tool: &str, pattern: Option<&str>, input: &serde_json::Value) -> bool {
        let grant = Grant {
            id: uuid::Uuid::nil(),
            session: None,
            directory: None,
            tool: tool.to_owned(),
            pattern: pattern.map(str::to_owned),
            until: Some(100),
            by: Actor { name: "ann".to_owned(), via: "terminal".to_owned() },
            created: 0,
        };
        let request = RequestRecord {
            id: "r".to_owned(),
            wants: Wants::Permission,
            tool_name: "Bash".to_owned(),
            tool_use_id: None,
            input: input.to_string(),
            suggestions: None,
            agent: None,
            opened: 0,
            expires: None,
            resolution: None,
        };
        assert!(!covers(&grant, &request, 100), "a grant ends with its time");
        covers(&grant, &request, 99)
    }

    #[test]
    fn a_prefix_covers_plain_words_and_nothing_a_shell_would_make_of_them() {
        let bash = |pattern, command: &str| {
            check("Bash", Some(pattern), &serde_json::json!({ "command": command }))
        };
        assert!(bash("git diff:*", "git diff"));
        assert!(bash("git diff:*", "git diff --stat HEAD"));
        assert!(bash("npm test", "npm test"));
        for command in [
            "git difftool",
            "git diff; rm -rf x",
            "git diff && id",
            "git diff | sh",
            "git diff > ~/.profile",
            "git diff $(id)",
            "git diff `id`",
            "git diff\nid",
            "git diff & id",
            "x=1 git diff",
            " git diff",
        ] {
            assert!(!bash("git diff:*", command), "{command}");
        }
        assert!(!bash("npm test", "npm test; id"));
    }

    #[test]
    fn a_path_covers_what_lies_below_it_and_not_beside() {
        let file = |pattern, path: &str| {
            check("Bash", Some(pattern), &serde_json::json!({ "file_path": path }))
        };
        assert!(file("/p/src/**", "/p/src/a/b.rs"));
        assert!(file("/p/a.rs", "/p/a.rs"));
        for path in ["/p/src", "/p/srcs/a", "/p/src/../../etc/passwd", "/q/p/src/a"] {
            assert!(!file("/p/src/**", path), "{path}");
        }
    }

    #[test]
    fn a_domain_covers_its_host_only() {
        let url = |url: &str| {
            check("Bash", Some("domain:example.org"), &serde_json::json!({ "url": url }))
        };
        assert!(url("https://example.org/x"));
        assert!(url("https://example.org:8443/"));
        for no in [
            "https://example.org.evil.com/",
            "https://example.org@evil.com/",
            "https://evil.com/?example.org",
            "ftp://example.org/",
        ] {
            assert!(!url(no), "{no}");
        }
    }

    #[test]
    fn a_grant_is_for_its_tool() {
        assert!(check("Bash", None, &serde_json::json!({})));
        assert!(!check("Write", None, &serde_json::json!({})));
    }
}
