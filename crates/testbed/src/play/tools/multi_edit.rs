//! `MultiEdit`: several replacements in one file, all of them or none. Older releases have it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::play::event::ToolOutcome;
use crate::play::tools::ToolRunner;
use crate::play::tools::changes::hunks;
use crate::play::tools::files::{NOT_READ, TextEdit};

impl ToolRunner {
    pub(crate) fn inspect_multi_edit(&self, input: &Value) -> Result<(), String> {
        let path = self.path(&input["file_path"]);
        if !self.has_read(&path) {
            return Err(NOT_READ.to_owned());
        }
        let content = std::fs::read_to_string(&path).map_err(|_| self.missing_file())?;
        apply_all(&content, input).map(drop)
    }

    pub(crate) fn multi_edit(&self, input: &Value) -> ToolOutcome {
        let path = self.path(&input["file_path"]);
        let named = input["file_path"].as_str().unwrap_or_default();
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let after = match apply_all(&before, input) {
            Ok(after) => after,
            Err(problem) => return ToolOutcome::invalid_call(&problem),
        };
        if let Err(error) = self.write(&path, &after) {
            return ToolOutcome::failure(&error.to_string());
        }
        let edits = input["edits"].as_array().map(Vec::as_slice).unwrap_or_default();
        let plural = if edits.len() == 1 { "" } else { "s" };
        let mut content = format!("Applied {} edit{plural} to {named}:", edits.len());
        for (position, edit) in edits.iter().map(TextEdit::parse).enumerate() {
            let number = position + 1;
            let _ = write!(content, "\n{number}. Replaced \"{}\" with \"{}\"", edit.old, edit.new);
        }
        let report = json!({
            "filePath": named, "edits": edits, "originalFileContents": before,
            "structuredPatch": hunks(&before, &after), "userModified": false,
        });
        ToolOutcome::plain(content, report)
    }
}

/// The content after all replacements, each of which sees those before it.
fn apply_all(content: &str, input: &Value) -> Result<String, String> {
    let edits = input["edits"].as_array().into_iter().flatten().map(TextEdit::parse);
    let mut content = content.to_owned();
    for edit in edits {
        edit.check(&content)?;
        content = edit.apply(&content);
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::apply_all;

    #[test]
    fn each_edit_sees_those_before_it_and_one_that_fails_fails_all() {
        let edit = |old: &str, new: &str| json!({"old_string": old, "new_string": new});
        let input = json!({"edits": [edit("a", "b c"), edit("c", "d")]});
        assert_eq!(apply_all("a\n", &input), Ok("b d\n".to_owned()));
        let input = json!({"edits": [edit("a", "b"), edit("x", "y")]});
        assert!(apply_all("a\n", &input).is_err());
    }
}
