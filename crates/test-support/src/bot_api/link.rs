//! Which addresses a link may lead to.

/// The address as Telegram keeps it, where it is one.
pub(super) fn address(url: &str) -> Option<String> {
    let url = url.trim();
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let name = host.split(':').next().unwrap_or_default();
    match scheme.to_ascii_lowercase().as_str() {
        "tg" | "ton" if !rest.is_empty() => Some(url.to_owned()),
        "http" | "https" if name.contains('.') && !name.contains(char::is_whitespace) => {
            let slash = if rest == host { "/" } else { "" };
            Some(format!("{}://{rest}{slash}", scheme.to_ascii_lowercase()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn only_whole_addresses_are_links() {
        let cases = [
            ("https://a.example/b?c#d", Some("https://a.example/b?c#d")),
            ("HTTPS://a.example", Some("https://a.example/")),
            ("a.example/b", Some("http://a.example/b")),
            ("https://me@a.example:8080/", Some("https://me@a.example:8080/")),
            ("tg://user?id=7", Some("tg://user?id=7")),
            ("docs/page.md", None),
            ("/etc/passwd", None),
            ("http://localhost:3000/", None),
            ("file:///etc/passwd", None),
            ("javascript:alert(1)", None),
            ("#there", None),
        ];
        for (url, kept) in cases {
            assert_eq!(address(url).as_deref(), kept, "{url}");
        }
    }
}
