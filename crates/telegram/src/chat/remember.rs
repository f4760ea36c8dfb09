//! What "always" would mean.
//!
//! The rule that is offered is the narrowest that spares the next question of the same sort, and it
//! is shown before it is given. A command that does more than one thing is covered by its exact
//! words only.

use session::machine::{Reach, Remember};
use view::Request;
use wire::json::Raw;

/// Which calls of the tool would be allowed; all of them where nothing is said.
pub(super) fn pattern(request: &Request) -> Option<String> {
    let input = Raw::parse(&request.input)?;
    let field = |name: &str| Some(input.get(name)?.text()?.decode().into_owned());
    if let Some(command) = field("command") {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_./@:+,% -".contains(c);
        if !command.chars().all(plain) {
            return Some(command);
        }
        let first: Vec<_> = command.split_whitespace().take(2).collect();
        return Some(format!("{}:*", first.join(" ")));
    }
    let path = field("file_path").or_else(|| field("notebook_path")).or_else(|| field("path"));
    if let Some(path) = path {
        return match path.rsplit_once('/') {
            Some((directory, _)) if !directory.is_empty() => Some(format!("{directory}/**")),
            _ => Some(path),
        };
    }
    let url = field("url")?;
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let host = rest.split(['/', '?', '#', ':']).next().filter(|host| !host.is_empty())?;
    Some(format!("domain:{host}"))
}

/// The same in words.
pub(super) fn in_words(request: &Request) -> String {
    match pattern(request) {
        Some(pattern) => format!("{}({pattern})", request.tool),
        None => format!("every call of {}", request.tool),
    }
}

/// The rule itself.
pub(super) fn rule(request: &Request, reach: Reach) -> Remember {
    Remember { pattern: pattern(request), until: None, reach }
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn a_rule_is_as_narrow_as_it_can_be() {
        let check = |input: &str, expected: Option<&str>| {
            let request: view::Request = serde_json::from_value(serde_json::json!({
                "id": "r", "wants": "permission", "tool": "T", "verb": "use", "input": input,
            }))
            .unwrap();
            assert_eq!(pattern(&request).as_deref(), expected, "{input}");
        };
        check(r#"{"command":"git diff --stat HEAD"}"#, Some("git diff:*"));
        check(r#"{"command":"ls"}"#, Some("ls:*"));
        check(r#"{"command":"ls; rm x"}"#, Some("ls; rm x"));
        check(r#"{"file_path":"/p/src/a.rs"}"#, Some("/p/src/**"));
        check(r#"{"file_path":"/a.rs"}"#, Some("/a.rs"));
        check(r#"{"url":"https://example.org:81/x"}"#, Some("domain:example.org"));
        check(r#"{"n":1}"#, None);
    }
}
