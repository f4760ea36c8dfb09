//! The examples of the `CommonMark` specification, and those of the tables', strikethrough's and
//! regressions' beside them.
//!
//! The specification's licence does not allow a copy here. The parser's own source, which cargo has
//! fetched to build it, holds the examples as tests; they are read from there.

use std::path::PathBuf;

/// Texts in Markdown, from the parser's source; none where its source is not at hand.
#[expect(
    clippy::disallowed_methods,
    reason = "where cargo keeps sources is said by the environment"
)]
pub(crate) fn examples() -> Vec<String> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let folders = |path: PathBuf| {
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let Some(home) = home else { return Vec::new() };
    let mut examples = Vec::new();
    for source in folders(home.join("registry/src")).flat_map(folders) {
        let name = source.file_name().map(|name| name.to_string_lossy().into_owned());
        if !name.is_some_and(|name| name.starts_with("pulldown-cmark-0.13")) {
            continue;
        }
        for file in folders(source.join("tests/suite")) {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            // `let original = r##"…"##;`
            examples.extend(
                text.split("let original = r##\"")
                    .skip(1)
                    .filter_map(|rest| rest.split_once("\"##;"))
                    .map(|(example, _)| example.to_owned()),
            );
        }
    }
    examples
}
