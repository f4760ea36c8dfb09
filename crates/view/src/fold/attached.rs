//! What session files attach to the conversation.
//!
//! Most of it is for the model alone. Runs of hooks, and prompts that were sent while the agent
//! worked, are in no other line of the file, so they are shown.

use wire::Event;
use wire::json::{Raw, Shape};

use super::{Fold, Heard};
use crate::item::{Body, HookRun};

impl Fold {
    /// An `attachment`, which the protocol crate only names.
    pub(super) fn attached(&mut self, event: &Event<'_>, bytes: &[u8]) -> Heard {
        let line = std::str::from_utf8(bytes).ok().and_then(Raw::parse);
        let Some(attachment) = line.and_then(|line| line.get("attachment")) else {
            return Heard::Housekeeping;
        };
        match string(attachment, "type").as_deref() {
            Some("queued_command") => {
                let prompt = attachment.get("prompt").map(words).unwrap_or_default();
                if prompt.is_empty() {
                    return Heard::Housekeeping;
                }
                self.sent_meanwhile(prompt, event)
            }
            Some(kind) if kind.starts_with("hook_") => self.hook_ran(kind, attachment),
            _ => Heard::Housekeeping,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "exit codes are small")]
    fn hook_ran(&mut self, kind: &str, attachment: Raw<'_>) -> Heard {
        let Some(name) = string(attachment, "hookName") else { return Heard::Housekeeping };
        let output = string(attachment, "stdout").filter(|output| !output.is_empty());
        let exit_code = attachment.get("exitCode").and_then(Raw::number);
        let run = HookRun {
            name,
            event: string(attachment, "hookEvent").unwrap_or_default(),
            output: output.or_else(|| string(attachment, "stderr")).unwrap_or_default(),
            exit_code: exit_code.map(|code| code as i64),
            outcome: Some(kind.trim_start_matches("hook_").to_owned()),
        };
        self.put_line(Body::Hook(run))
    }
}

fn string(object: Raw<'_>, key: &str) -> Option<String> {
    Some(object.get(key)?.text()?.decode().into_owned())
}

/// The words of a prompt, written as a string or as blocks.
fn words(prompt: Raw<'_>) -> String {
    if prompt.shape() == Shape::String {
        return prompt.text().map(|it| it.decode().into_owned()).unwrap_or_default();
    }
    let texts: Vec<_> = prompt.items().filter_map(|block| string(block, "text")).collect();
    texts.join("\n")
}
