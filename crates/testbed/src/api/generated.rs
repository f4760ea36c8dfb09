//! Replies without a script: to each message the same one, chosen by words in it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::scenario::{ScenarioBlock, ScenarioFault, ScenarioReply};

use super::request::ApiUserMessage;

/// The files in the client's directory that generated calls write. They are two, because some agents
/// only overwrite what they have read.
const OUTPUT: &str = "stub-output.txt";
const FILE: &str = "stub-notes.txt";

/// The reply to a message. Only a client with tools gets tool calls.
///
/// The message must start with the word, because a client may add instructions that contain it.
pub(super) fn reply(latest: &ApiUserMessage, has_tools: bool) -> ScenarioReply {
    let text = |text: &str| ScenarioBlock::Text(text.to_owned());
    let shell = |command: &str| call("shell", json!({ "command": command }));
    let with = |blocks: Vec<ScenarioBlock>| ScenarioReply { blocks, ..ScenarioReply::default() };
    let default = || with(vec![text(&generate_text(latest))]);
    if !latest.results.is_empty() {
        return default();
    }
    let prompt = latest.text.trim();
    let commands: Vec<&str> = prompt.lines().filter_map(|it| it.strip_prefix("$ ")).collect();
    if has_tools && !commands.is_empty() {
        return with(commands.into_iter().map(shell).collect());
    }
    let write = || call("write", json!({ "path": FILE, "content": "one\ntwo\n" }));
    let word = prompt.split(|it: char| !it.is_alphanumeric()).next().unwrap_or_default();
    let calls = match word.to_lowercase().as_str() {
        "think" => {
            let thought = ScenarioBlock::Thinking("Let me think about that.".to_owned());
            return with(vec![thought, text("I have thought about it.")]);
        }
        "slow" => {
            let words: Vec<String> = (1..=60).map(|number| format!("word{number}")).collect();
            let pace = Duration::from_millis(250);
            return ScenarioReply { pace, ..with(vec![text(&words.join(" "))]) };
        }
        "long" => return with(vec![text(&"This reply is long on purpose. ".repeat(400))]),
        "error" => {
            let fault = ScenarioFault::Status {
                status: 400,
                kind: "invalid_request_error".to_owned(),
                message: "The stub was asked for an error.".to_owned(),
                headers: Vec::new(),
            };
            return ScenarioReply { fault: Some(fault), ..ScenarioReply::default() };
        }
        "run" => vec![shell(&format!("echo from the stub > {OUTPUT}; cat {OUTPUT}"))],
        "write" => vec![write()],
        "read" => vec![call("read", json!({ "path": FILE }))],
        "edit" => vec![call("edit", json!({ "path": FILE, "old": "two", "new": "2" }))],
        "parallel" => vec![shell("echo one > one.txt"), shell("echo two > two.txt")],
        _ => Vec::new(),
    };
    if !has_tools || calls.is_empty() {
        return default();
    }
    with(std::iter::once(text("I will use a tool.")).chain(calls).collect())
}

fn call(name: &str, input: Value) -> ScenarioBlock {
    ScenarioBlock::Tool { name: name.to_owned(), input, id: None }
}

/// The maximum number of characters that a generated reply quotes.
const MAX_QUOTE: usize = 200;

/// A short reply to the latest message, always the same for the same message.
fn generate_text(latest: &ApiUserMessage) -> String {
    match (latest.results.as_slice(), latest.text.trim()) {
        ([], "") => "Your message contains no text.".to_owned(),
        ([], text) => {
            let images = match latest.images {
                0 => String::new(),
                1 => " and sent an image".to_owned(),
                count => format!(" and sent {count} images"),
            };
            let text = quote(text);
            format!("You wrote: “{text}”{images}. This reply comes from a scripted API.")
        }
        ([result], _) if result.trim().is_empty() => "The tool returned no output.".to_owned(),
        ([result], _) => format!("The tool returned: “{}”.", quote(result)),
        (results, _) => {
            let quotes = results.iter().map(|result| format!("\n- “{}”", quote(result)));
            format!("{} tools returned:{}", results.len(), quotes.collect::<String>())
        }
    }
}

/// The start of a text on one line.
fn quote(text: &str) -> String {
    // A prompt can have megabytes, of which only the start is needed.
    let start = text.char_indices().nth(8 * MAX_QUOTE).map_or(text, |(end, _)| &text[..end]);
    let line = start.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_QUOTE) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiUserMessage, ScenarioBlock, generate_text, reply};

    #[test]
    fn the_first_word_of_a_message_chooses_a_call_if_the_client_has_tools() {
        let calls = |text: &str, has_tools| {
            let latest = ApiUserMessage { text: text.to_owned(), ..ApiUserMessage::default() };
            let blocks = reply(&latest, has_tools).blocks.into_iter();
            let name = |block| match block {
                ScenarioBlock::Tool { name, .. } => Some(name),
                _ => None,
            };
            blocks.filter_map(name).collect::<Vec<String>>()
        };
        assert_eq!(calls("Run it", true), ["shell"]);
        assert_eq!(calls("write please", true), ["write"]);
        assert_eq!(calls("parallel", true), ["shell", "shell"]);
        assert_eq!(calls("do this:\n$ ls\n$ pwd", true), ["shell", "shell"]);
        assert!(calls("run it", false).is_empty() && calls("please run it", true).is_empty());
    }

    #[test]
    fn a_generated_reply_quotes_the_latest_message() {
        let cases: &[(&str, &[&str], &str)] = &[
            ("what is\n this?", &[], "You wrote: “what is this?”."),
            ("", &[], "Your message contains no text."),
            ("", &["remember the milk"], "The tool returned: “remember the milk”."),
            ("", &[" "], "The tool returned no output."),
            ("", &["one", "two"], "2 tools returned:\n- “one”\n- “two”"),
        ];
        for (text, results, expected) in cases {
            let results = results.iter().map(ToString::to_string).collect();
            let latest = ApiUserMessage { text: (*text).to_owned(), results, images: 0 };
            let reply = generate_text(&latest);
            assert!(reply.starts_with(expected), "{reply}");
        }
        let long = ApiUserMessage { text: "ö ".repeat(500), results: Vec::new(), images: 0 };
        let reply = generate_text(&long);
        assert!(reply.contains("ö…”") && reply.chars().count() < 300);
    }
}
