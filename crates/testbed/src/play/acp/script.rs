//! What the player does for a prompt: a word in it chooses.

use serde_json::{Value, json};

/// The words that choose a reply, and what they choose. The first that a prompt contains counts.
pub(crate) const WORDS: &[(&str, &str)] = &[
    ("tour", "everything below once"),
    ("wait", "writes a few words and waits until it is stopped"),
    ("slow", "60 words, one after another"),
    ("think", "a thought, then text"),
    ("run", "a shell command, with permission"),
    ("fail", "a shell command that fails, with permission"),
    ("write", "a new file, with permission"),
    ("edit", "a new file and a change to it, each with permission"),
    ("parallel", "two calls that ask for permission at the same time"),
    ("plan", "a list of tasks"),
    ("question", "a form for the user, if the client has forms"),
    ("link", "a page for the user to open, if the client has that"),
    ("mode", "switches to another mode by itself"),
    ("recall", "the earlier prompts of the session"),
    ("long", "12,000 characters"),
    ("huge", "5 MB of text and a command with 1 MB of output"),
    ("error", "an error instead of a reply"),
];

/// A part of a reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AcpStep {
    Text(String),
    /// Text of which each word is a chunk.
    Words(String),
    Thought(String),
    /// Calls that are made at the same time.
    Calls(Vec<PlayedCall>),
    Plan,
    Form,
    Link,
    SwitchMode,
    Wait,
    Error,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlayedCall {
    Shell(String),
    Write { path: String, content: String },
    Edit { path: String, old: String, new: String },
}

impl PlayedCall {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Shell(_) => "shell",
            Self::Write { .. } => "write",
            Self::Edit { .. } => "edit",
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Shell(_) => "execute",
            Self::Write { .. } | Self::Edit { .. } => "edit",
        }
    }

    pub(crate) fn title(&self) -> String {
        match self {
            Self::Shell(command) => command.clone(),
            Self::Write { path, .. } => format!("Write {path}"),
            Self::Edit { path, .. } => format!("Edit {path}"),
        }
    }

    pub(crate) fn input(&self) -> Value {
        match self {
            Self::Shell(command) => json!({ "command": command }),
            Self::Write { path, content } => json!({ "path": path, "content": content }),
            Self::Edit { path, old, new } => json!({ "path": path, "old": old, "new": new }),
        }
    }

    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Self::Shell(_) => None,
            Self::Write { path, .. } | Self::Edit { path, .. } => Some(path),
        }
    }
}

/// What a prompt contains beside its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlayedPrompt {
    pub(crate) text: String,
    /// Names of images, files and links.
    pub(crate) attachments: Vec<String>,
}

impl PlayedPrompt {
    /// Reads the blocks of a prompt.
    pub(crate) fn new(blocks: &[Value]) -> Self {
        let mut content = Self::default();
        for block in blocks {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            match block["type"].as_str() {
                Some("text") => {
                    if !content.text.is_empty() {
                        content.text.push('\n');
                    }
                    content.text.push_str(&text(&block["text"]));
                }
                Some("image") => {
                    let size = block["data"].as_str().map_or(0, decoded_length);
                    let kind = text(&block["mimeType"]);
                    content.attachments.push(format!("an image ({kind}, {size} bytes)"));
                }
                Some("resource") => {
                    content.attachments.push(format!("the file {}", block["resource"]["uri"]));
                }
                Some("resource_link") => {
                    content.attachments.push(format!("a link to {}", block["uri"]));
                }
                _ => content.attachments.push("something unknown".to_owned()),
            }
        }
        content
    }
}

/// The length of what is encoded in base64.
fn decoded_length(text: &str) -> usize {
    let digits = text.trim_end_matches('=').len();
    digits * 3 / 4
}

/// The parts of the reply to a prompt. `earlier` are the prompts before it.
pub(crate) fn reply(prompt: &PlayedPrompt, cwd: &str, earlier: &[&str]) -> Vec<AcpStep> {
    let text = |text: &str| AcpStep::Text(text.to_owned());
    let commands = prompt.text.lines().filter_map(|line| line.trim().strip_prefix("$ "));
    let commands: Vec<PlayedCall> = commands.map(|it| PlayedCall::Shell(it.to_owned())).collect();
    if !commands.is_empty() {
        let calls = commands.into_iter().map(|it| AcpStep::Calls(vec![it]));
        return calls.chain([text("That was the last command.")]).collect();
    }
    let lower = prompt.text.to_lowercase();
    let has = |word: &str| lower.split(|it: char| !it.is_alphanumeric()).any(|it| it == word);
    let chosen = WORDS.iter().map(|(word, _)| *word).find(|word| has(word));
    let mut steps = chosen.map_or_else(
        || vec![AcpStep::Words(format!("You said: {}", prompt.text.trim()))],
        |word| steps(word, cwd, earlier),
    );
    if !prompt.attachments.is_empty() {
        let list = prompt.attachments.join(", ");
        steps.push(AcpStep::Text(format!("\n\nI was given {list}.")));
    }
    steps
}

fn steps(word: &str, cwd: &str, earlier: &[&str]) -> Vec<AcpStep> {
    let text = |text: &str| AcpStep::Words(text.to_owned());
    let shell = |command: &str| PlayedCall::Shell(command.to_owned());
    let path = format!("{cwd}/towpath-player.txt");
    let write =
        || PlayedCall::Write { path: path.clone(), content: "one\ntwo\nthree\n".to_owned() };
    let (old, new) = ("two".to_owned(), "2\ntwo and a half".to_owned());
    let edit = || PlayedCall::Edit { path: path.clone(), old: old.clone(), new: new.clone() };
    let run = || shell("printf 'from the player\\n'");
    let calls = |calls: Vec<PlayedCall>| AcpStep::Calls(calls);
    let end = || text("That is what it looks like.");
    match word {
        "tour" => vec![
            AcpStep::Thought("The user wants to see what I can do.".to_owned()),
            text("# A tour\n\nText with `code`, and then some calls."),
            AcpStep::Plan,
            calls(vec![run()]),
            calls(vec![write()]),
            calls(vec![edit()]),
            AcpStep::Form,
            text("That is the end of the tour."),
        ],
        "wait" => vec![text("I wait until I am stopped."), AcpStep::Wait],
        "slow" => {
            let words: Vec<String> = (1..=60).map(|number| format!("word{number}")).collect();
            vec![AcpStep::Words(words.join(" "))]
        }
        "think" => vec![
            AcpStep::Thought("Let me think about that.".to_owned()),
            text("I have thought about it."),
        ],
        "run" => vec![text("I will run a command."), calls(vec![run()]), end()],
        "fail" => vec![calls(vec![shell("echo 'it went wrong' >&2; exit 3")]), end()],
        "write" => vec![text("I will write a file."), calls(vec![write()]), end()],
        "edit" => vec![calls(vec![write()]), calls(vec![edit()]), end()],
        "parallel" => vec![calls(vec![run(), write()]), end()],
        "plan" => vec![AcpStep::Plan, end()],
        "question" => vec![AcpStep::Form],
        "link" => vec![AcpStep::Link],
        "mode" => vec![AcpStep::SwitchMode, end()],
        "recall" => {
            let text = if earlier.is_empty() {
                "This is your first prompt.".to_owned()
            } else {
                format!("Before, you said: {}", earlier.join(" | "))
            };
            vec![AcpStep::Text(text)]
        }
        "long" => vec![AcpStep::Text("This reply is long on purpose. ".repeat(400))],
        "huge" => vec![
            AcpStep::Text("This reply is huge on purpose.\n".repeat(160_000)),
            calls(vec![shell("yes 'a line of output' | head -c 1000000")]),
            end(),
        ],
        _ => vec![text("I will fail now."), AcpStep::Error],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{AcpStep, PlayedCall, PlayedPrompt, WORDS, reply, steps};

    fn steps_for(text: &str) -> Vec<AcpStep> {
        let prompt = PlayedPrompt { text: text.to_owned(), attachments: Vec::new() };
        reply(&prompt, "/project", &["first", "second"])
    }

    #[test]
    fn a_word_chooses_a_reply_only_as_a_whole_word() {
        assert_eq!(steps_for("Please wait!")[1], AcpStep::Wait);
        let repeated = AcpStep::Words("You said: awaiting rewrites".to_owned());
        assert_eq!(steps_for("awaiting rewrites"), [repeated]);
        for (word, _) in WORDS {
            assert!(!steps(word, "/project", &[]).is_empty(), "{word}");
        }
    }

    #[test]
    fn lines_with_a_dollar_sign_are_run() {
        let call = AcpStep::Calls(vec![PlayedCall::Shell("touch a".to_owned())]);
        assert_eq!(steps_for("do this:\n$ touch a")[0], call);
    }

    #[test]
    fn earlier_prompts_are_recalled() {
        let text = AcpStep::Text("Before, you said: first | second".to_owned());
        assert_eq!(steps_for("recall"), [text]);
    }

    #[test]
    fn attachments_are_named_with_their_size() {
        let data = "iVBORw0KGgo=";
        let blocks = [
            json!({ "type": "text", "text": "look" }),
            json!({ "type": "image", "mimeType": "image/png", "data": data }),
            json!({ "type": "resource_link", "uri": "file:///a.txt", "name": "a.txt" }),
        ];
        let content = PlayedPrompt::new(&blocks);
        assert_eq!(
            content.attachments,
            ["an image (image/png, 8 bytes)", "a link to \"file:///a.txt\""]
        );
    }
}
