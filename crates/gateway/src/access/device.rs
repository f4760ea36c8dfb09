//! A name for the device that a browser runs on, so that people recognise who answered from where.
//!
//! It is shown and never trusted: a client can claim anything.

/// The longest name that is kept, in characters.
const MAX_NAME: usize = 40;

/// The name that a page gave, or else what the browser says in its `User-Agent`.
pub(crate) fn device_name(given: Option<&str>, user_agent: Option<&str>) -> Option<String> {
    let given = given.map(readable).filter(|it| !it.is_empty());
    given.or_else(|| user_agent.and_then(from_user_agent))
}

fn from_user_agent(text: &str) -> Option<String> {
    let known = [
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("CrOS", "Chromebook"),
        ("Macintosh", "Mac"),
        ("Windows", "Windows"),
    ];
    if let Some((_, name)) = known.iter().find(|(mark, _)| text.contains(mark)) {
        return Some((*name).to_owned());
    }
    if !text.contains("Android") {
        return text.contains("Linux").then(|| "Linux".to_owned());
    }
    // `(Linux; Android 14; Pixel 8 Build/UD1A)`. Browsers that hide the model say `K`.
    let details = text.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let model = details.and_then(|(details, _)| {
        let after = details.split(';').skip_while(|it| !it.contains("Android")).nth(1)?;
        Some(readable(after.split(" Build/").next()?))
    });
    let hidden = ["", "K", "Mobile", "Tablet", "wv"];
    let model = model.filter(|it| !hidden.contains(&it.as_str()) && !it.starts_with("rv:"));
    Some(model.unwrap_or_else(|| "Android".to_owned()))
}

/// What can be shown of a name, on one line.
fn readable(name: &str) -> String {
    let shown = |it: &char| it.is_alphanumeric() || " -_.+()'’".contains(*it);
    let name: String = name.trim().chars().filter(shown).take(MAX_NAME).collect();
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME, device_name};

    #[test]
    fn browsers_say_what_they_run_on() {
        let check = |user_agent: &str, name: Option<&str>| {
            assert_eq!(device_name(None, Some(user_agent)).as_deref(), name, "{user_agent}");
        };
        let chrome = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Mobile Safari/537.36";
        check(
            &format!("Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/UD1A) {chrome}"),
            Some("Pixel 8"),
        );
        check(&format!("Mozilla/5.0 (Linux; Android 10; K) {chrome}"), Some("Android"));
        check(
            "Mozilla/5.0 (Android 14; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0",
            Some("Android"),
        );
        check(
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Safari/604.1",
            Some("iPhone"),
        );
        check("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Safari/605.1.15", Some("Mac"));
        check("Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0", Some("Windows"));
        check("Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/140.0", Some("Linux"));
        check("curl/8.5.0", None);
        check("", None);
        check("Android", Some("Android"));
    }

    #[test]
    fn a_name_that_is_given_comes_first_and_cannot_pretend_to_be_more() {
        assert_eq!(device_name(Some(" Pixel  8 "), Some("X11; Linux")).as_deref(), Some("Pixel 8"));
        assert_eq!(device_name(Some("\u{202e}\n"), Some("X11; Linux")).as_deref(), Some("Linux"));
        let hostile = device_name(Some("<b>x</b>\n\u{202e}by root"), None).expect("a name");
        assert_eq!(hostile, "bxbby root");
        let long = device_name(Some(&"x".repeat(100_000)), None).expect("a name");
        assert_eq!(long.chars().count(), MAX_NAME);
    }
}
