//! What "yes, always" covers: never more than the person can read beside the key.

use std::path::Path;

use session::machine::{Reach, Remember};
use view::Request;
use wire::json::Raw;

/// What is remembered when a request is always allowed, and that in words.
pub(super) struct Permit {
    pub(super) remember: Remember,
    pub(super) words: String,
}

impl Permit {
    /// For a request of a session that works in `directory`.
    pub(super) fn of(request: &Request, directory: &Path) -> Self {
        let input = Raw::parse(&request.input);
        let field = |name: &str| input.and_then(|it| it.get(name)?.text()).map(String::from);
        let tool = &request.tool;
        let path = field("file_path").or_else(|| field("notebook_path")).or_else(|| field("path"));
        let (pattern, words) = if field("command").is_some() {
            (field("command"), "this very command".to_owned())
        } else if let Some(path) = path {
            if Path::new(&path).starts_with(directory) {
                let pattern = format!("{}/**", directory.display());
                (Some(pattern), format!("{tool} in this directory"))
            } else {
                let words = format!("{tool} of {path}");
                (Some(path), words)
            }
        } else if let Some(host) = field("url").as_deref().and_then(host) {
            (Some(format!("domain:{host}")), format!("{tool} from {host}"))
        } else {
            (None, format!("any {tool}"))
        };
        let remember = Remember { pattern, until: None, reach: Reach::Session };
        Self { remember, words }
    }
}

/// The host of a plain address; nothing where there is more to it.
fn host(url: &str) -> Option<String> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let host = rest.split(['/', '?', '#', ':']).next()?;
    let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-');
    (!host.is_empty() && host.chars().all(plain)).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::Permit;
    use std::path::Path;
    use view::{Request, Verb};
    use wire::note::Wants;

    fn permit(tool: &str, input: &str) -> (Option<String>, String) {
        let request = Request {
            id: "r".to_owned(),
            item: None,
            wants: Wants::Permission,
            tool: tool.to_owned(),
            verb: Verb::of(tool),
            target: String::new(),
            input: input.to_owned(),
            description: None,
            reason: None,
            blocked_path: None,
            suggestions: None,
            at: None,
            expires: None,
        };
        let permit = Permit::of(&request, Path::new("/p"));
        (permit.remember.pattern, permit.words)
    }

    #[test]
    fn always_covers_what_the_words_beside_the_key_say() {
        let check = |tool, input, pattern: Option<&str>, words: &str| {
            assert_eq!(permit(tool, input), (pattern.map(str::to_owned), words.to_owned()));
        };
        check("Bash", r#"{"command":"npm test"}"#, Some("npm test"), "this very command");
        check("Write", r#"{"file_path":"/p/a"}"#, Some("/p/**"), "Write in this directory");
        check("Write", r#"{"file_path":"/pq/a"}"#, Some("/pq/a"), "Write of /pq/a");
        check(
            "WebFetch",
            r#"{"url":"https://a.org/x"}"#,
            Some("domain:a.org"),
            "WebFetch from a.org",
        );
        check("WebFetch", r#"{"url":"https://a@b.org/x"}"#, None, "any WebFetch");
        check("mcp__x", "{}", None, "any mcp__x");
    }
}
