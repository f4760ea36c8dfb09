//! Commit messages and branch names.

use std::path::Path;

use crate::stream_event::AgentSessionId;

/// The default template of the message.
pub const DEFAULT_MESSAGE: &str = "{summary}\n\nPrompt: {prompt}\n";

/// The default trailers.
pub const DEFAULT_TRAILERS: [&str; 2] =
    ["Agent-Session: {session}", "Co-Authored-By: Claude <noreply@anthropic.com>"];

/// The maximum length of the first line, and of the prompt, in characters.
const MAX_SUBJECT: usize = 72;
const MAX_PROMPT: usize = 200;

/// What the message of a commit is made from.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommitContext {
    /// The agent's last text.
    pub(crate) text: Option<String>,
    pub(crate) prompt: Option<String>,
    pub(crate) session: Option<AgentSessionId>,
    pub(crate) tool: Option<String>,
}

impl CommitContext {
    /// The whole message.
    pub(super) fn message(&self, template: &str, trailers: &[String], files: &[&Path]) -> String {
        let mut message = self.fill(template, files);
        if message.trim().is_empty() {
            message = self.summary(files);
        }
        let trailers: Vec<String> = trailers
            .iter()
            .map(|line| self.fill(line, files).trim().replace('\n', " "))
            .filter(|line| !line.is_empty())
            .collect();
        message.truncate(message.trim_end().len());
        if !trailers.is_empty() {
            message.push_str("\n\n");
            message.push_str(&trailers.join("\n"));
        }
        message.push('\n');
        message
    }

    /// A branch name that git accepts.
    pub(super) fn branch(&self, template: &str) -> String {
        let name = template.replace(
            "{session}",
            self.session.as_ref().map_or("session", |session| session.0.as_str()),
        );
        let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '/' | '.');
        let name: String = name.chars().map(|it| if plain(it) { it } else { '-' }).collect();
        let parts = name.split('/').map(|part| part.trim_matches('.')).filter(|it| !it.is_empty());
        parts.collect::<Vec<_>>().join("/").replace("..", "-")
    }

    /// Fills in the placeholders. A line whose placeholders are all empty is left out.
    fn fill(&self, template: &str, files: &[&Path]) -> String {
        let names: Vec<String> =
            files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        let values = [
            ("{summary}", self.summary(files)),
            (
                "{prompt}",
                self.prompt.as_deref().map(|it| one_line(it, MAX_PROMPT)).unwrap_or_default(),
            ),
            ("{session}", self.session.as_ref().map(ToString::to_string).unwrap_or_default()),
            ("{files}", names.join(", ")),
            ("{tool}", self.tool.clone().unwrap_or_default()),
            ("{count}", files.len().to_string()),
        ];
        let mut filled = String::new();
        for line in template.lines() {
            let mut used = values.iter().filter(|(name, _)| line.contains(name)).peekable();
            if used.peek().is_some() && used.all(|(_, value)| value.is_empty()) {
                continue;
            }
            // In one pass, because a value may itself contain a placeholder.
            let mut rest = line;
            while let Some((at, name, value)) = first_placeholder(rest, &values) {
                filled.push_str(&rest[..at]);
                filled.push_str(value);
                rest = &rest[at + name.len()..];
            }
            filled.push_str(rest);
            filled.push('\n');
        }
        filled
    }

    /// The agent's last sentence, or a description of the change.
    fn summary(&self, files: &[&Path]) -> String {
        let sentence = self.text.as_deref().and_then(last_sentence);
        sentence.map_or_else(|| self.description(files), |sentence| one_line(sentence, MAX_SUBJECT))
    }

    fn description(&self, files: &[&Path]) -> String {
        match files {
            [file] => {
                let tool = self.tool.as_deref().unwrap_or("Change");
                one_line(&format!("{tool} {}", file.display()), MAX_SUBJECT)
            }
            files => format!("Change {} files", files.len()),
        }
    }
}

fn first_placeholder<'a>(
    text: &str,
    values: &'a [(&'static str, String)],
) -> Option<(usize, &'static str, &'a str)> {
    values
        .iter()
        .filter_map(|(name, value)| Some((text.find(name)?, *name, &**value)))
        .min_by_key(|(at, ..)| *at)
}

/// The last sentence that contains a letter.
fn last_sentence(text: &str) -> Option<&str> {
    let line = text
        .lines()
        .map(|line| line.trim_start_matches(['#', '-', '*', '>', ' ', '\t']).trim())
        .rfind(|line| line.contains(char::is_alphabetic))?;
    let end = line.trim_end_matches(['.', '!', '?', ':', '…']).len();
    let start = line[..end]
        .match_indices(['.', '!', '?'])
        .map(|(at, mark)| at + mark.len())
        .rfind(|&at| line[at..].starts_with(' ') && line[at..].contains(char::is_alphabetic));
    Some(line[start.unwrap_or(0)..].trim())
}

/// The text in one line of at most `max` characters.
fn one_line(text: &str, max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max {
        return line;
    }
    let mut short: String = line.chars().take(max - 1).collect();
    if let Some(space) = short.rfind(' ').filter(|&space| space > max / 2) {
        short.truncate(space);
    }
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{CommitContext, DEFAULT_MESSAGE, DEFAULT_TRAILERS, last_sentence, one_line};
    use crate::stream_event::AgentSessionId;

    #[test]
    fn a_message_has_the_summary_the_prompt_and_the_session() {
        let context = CommitContext {
            text: Some("I looked. Now {prompt} works!\n\n".to_owned()),
            prompt: Some("make it\nwork".to_owned()),
            session: Some(AgentSessionId("s-1".to_owned())),
            tool: Some("Edit".to_owned()),
        };
        let trailers = DEFAULT_TRAILERS.map(str::to_owned);
        let files = [Path::new("a"), Path::new("b")];
        assert_eq!(
            context.message(DEFAULT_MESSAGE, &trailers, &files),
            "Now {prompt} works!\n\nPrompt: make it work\n\nAgent-Session: s-1\n\
             Co-Authored-By: Claude <noreply@anthropic.com>\n"
        );
        let message = context.message("{count} by {tool}: {files}", &[], &files);
        assert_eq!(message, "2 by Edit: a, b\n");
    }

    #[test]
    fn lines_without_a_value_are_left_out() {
        let context = CommitContext { tool: Some("Write".to_owned()), ..CommitContext::default() };
        let trailers = DEFAULT_TRAILERS.map(str::to_owned);
        assert_eq!(
            context.message(DEFAULT_MESSAGE, &trailers, &[Path::new("src/a.rs")]),
            "Write src/a.rs\n\nCo-Authored-By: Claude <noreply@anthropic.com>\n"
        );
        assert_eq!(context.message("{prompt}", &[], &[]), "Change 0 files\n");
    }

    #[test]
    fn the_last_sentence_is_found_and_shortened() {
        assert_eq!(last_sentence("Done. I fixed `a.rs`."), Some("I fixed `a.rs`."));
        assert_eq!(last_sentence("One\n\n- Two things\n\n---\n"), Some("Two things"));
        assert_eq!(last_sentence("Version 2.1.37 works"), Some("Version 2.1.37 works"));
        assert_eq!(last_sentence("完成しました。"), Some("完成しました。"));
        assert_eq!(last_sentence("\n…\n"), None);
        assert_eq!(one_line("a b\tc", 10), "a b c");
        assert_eq!(one_line("one two three four", 12), "one two…");
        assert_eq!(one_line("ééééééééé", 5), "éééé…");
    }

    #[test]
    fn a_branch_name_is_valid_for_git() {
        let context = CommitContext {
            session: Some(AgentSessionId("a b:c..d".to_owned())),
            ..CommitContext::default()
        };
        assert_eq!(context.branch("towpath/{session}"), "towpath/a-b-c-d");
        assert_eq!(CommitContext::default().branch("/x/{session}/"), "x/session");
    }
}
