//! Slash commands and shell commands, as the CLI wraps them into words of the user.

use std::borrow::Cow;

/// What a slash command or a shell command printed, as the CLI wraps it.
pub(super) fn command_output(text: &str) -> Option<Cow<'_, str>> {
    if text.starts_with("<local-command-std") {
        let tags = ["local-command-stdout", "local-command-stderr"];
        return tags.into_iter().find_map(|tag| inside(text, tag)).map(Cow::Borrowed);
    }
    if text.starts_with("<bash-stdout>") {
        let both = ["bash-stdout", "bash-stderr"].map(|tag| inside(text, tag).unwrap_or_default());
        return Some(Cow::Owned(unescaped(both.join("\n").trim())));
    }
    None
}

/// The slash command or shell command that a text stands for, as somebody typed it.
pub(super) fn command_line(text: &str) -> Option<String> {
    if text.starts_with("<bash-input>") {
        return Some(format!("! {}", unescaped(inside(text, "bash-input")?)));
    }
    if !text.starts_with("<command-") {
        return None;
    }
    let name = inside(text, "command-name")?.trim();
    let arguments = inside(text, "command-args").unwrap_or_default().trim();
    Some(if arguments.is_empty() { name.to_owned() } else { format!("{name} {arguments}") })
}

/// The text as it was before it was put between tags.
fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

fn inside<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let from = text.find(&format!("<{tag}>"))? + tag.len() + 2;
    let to = text[from..].find(&format!("</{tag}>"))?;
    Some(&text[from..from + to])
}

#[cfg(test)]
mod tests {
    use super::{command_line, command_output};

    #[test]
    fn a_slash_command_is_shown_as_it_was_typed() {
        let wrapped = "<command-message>hello</command-message>\n<command-name>/hello</command-name>\n<command-args>world</command-args>";
        assert_eq!(command_line(wrapped).as_deref(), Some("/hello world"));
        assert_eq!(command_line("<command-name>/clear</command-name>").as_deref(), Some("/clear"));
        assert_eq!(command_line("what is <command-name>?"), None);
        let shell = "<bash-input>echo hi &gt;&amp;2</bash-input>";
        assert_eq!(command_line(shell).as_deref(), Some("! echo hi >&2"));
    }

    #[test]
    fn the_output_of_a_command_is_found_inside_its_tags() {
        let wrapped = "<local-command-stdout>Compacted </local-command-stdout>";
        assert_eq!(command_output(wrapped).as_deref(), Some("Compacted "));
        let wrapped = "<bash-stdout>a &lt; b</bash-stdout><bash-stderr>err</bash-stderr>";
        assert_eq!(command_output(wrapped).as_deref(), Some("a < b\nerr"));
        assert_eq!(command_output("what is <bash-stdout>?"), None);
    }
}
