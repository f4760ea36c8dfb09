//! `Edit` and `MultiEdit`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Workshop;
use super::patch::hunks;
use crate::play::input::Outcome;

/// One replacement.
struct Edit<'a> {
    old: &'a str,
    new: &'a str,
    all: bool,
}

impl<'a> Edit<'a> {
    fn read(input: &'a Value) -> Self {
        let text = |key: &str| input[key].as_str().unwrap_or_default();
        Self { old: text("old_string"), new: text("new_string"), all: input["replace_all"] == true }
    }

    /// What is wrong with it, if anything is.
    fn check(&self, content: &str) -> Result<(), String> {
        let Self { old, .. } = self;
        if self.old == self.new {
            return Err(
                "No changes to make: old_string and new_string are exactly the same.".into()
            );
        }
        match content.matches(old).count() {
            0 => Err(format!("String to replace not found in file.\nString: {old}")),
            1 => Ok(()),
            _ if self.all => Ok(()),
            count => Err(format!(
                "Found {count} matches of the string to replace, but replace_all is false. To \
                 replace all occurrences, set replace_all to true. To replace only one occurrence, \
                 please provide more context to uniquely identify the instance.\nString: {old}"
            )),
        }
    }

    fn apply(&self, content: &str) -> String {
        if self.all {
            content.replace(self.old, self.new)
        } else {
            content.replacen(self.old, self.new, 1)
        }
    }
}

impl Workshop {
    pub(super) fn inspect_edit(&self, input: &Value) -> Result<(), String> {
        let edit = Edit::read(input);
        let path = self.path(&input["file_path"]);
        if edit.old.is_empty() && !path.exists() {
            return Ok(());
        }
        let content = std::fs::read_to_string(path).map_err(|_| self.missing())?;
        edit.check(&content)
    }

    pub(super) fn edit(&self, input: &Value) -> Outcome {
        let edit = Edit::read(input);
        let path = self.path(&input["file_path"]);
        let named = input["file_path"].as_str().unwrap_or_default();
        let known = self.knows(&path);
        let fresh = !path.exists();
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let after = if before.is_empty() { edit.new.to_owned() } else { edit.apply(&before) };
        if let Err(error) = self.write(&path, &after) {
            return Outcome::failure(&error.to_string());
        }
        let current = if known || fresh {
            " (file state is current in your context — no need to Read it back)"
        } else {
            ""
        };
        let content = if edit.all {
            format!(
                "The file {named} has been updated. All occurrences were successfully replaced.{current}"
            )
        } else {
            format!("The file {named} has been updated successfully.{current}")
        };
        let mut report = json!({
            "filePath": named, "oldString": edit.old, "newString": edit.new,
            "originalFile": before, "structuredPatch": hunks(&before, &after),
            "userModified": false, "replaceAll": edit.all,
        });
        if current.is_empty() {
            report["contentNotInModelContext"] = true.into();
        }
        Outcome::plain(content, report)
    }

    pub(super) fn inspect_edits(&self, input: &Value) -> Result<(), String> {
        let path = self.path(&input["file_path"]);
        let mut content = std::fs::read_to_string(path).map_err(|_| self.missing())?;
        for edit in input["edits"].as_array().into_iter().flatten() {
            let edit = Edit::read(edit);
            edit.check(&content)?;
            content = edit.apply(&content);
        }
        Ok(())
    }

    pub(super) fn multi_edit(&self, input: &Value) -> Outcome {
        let path = self.path(&input["file_path"]);
        let named = input["file_path"].as_str().unwrap_or_default();
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let mut after = before.clone();
        let edits = input["edits"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut content = format!("Applied {} edits to {named}:", edits.len());
        for (place, edit) in edits.iter().enumerate() {
            let edit = Edit::read(edit);
            after = edit.apply(&after);
            let _ =
                write!(content, "\n{}. Replaced \"{}\" with \"{}\"", place + 1, edit.old, edit.new);
        }
        if let Err(error) = self.write(&path, &after) {
            return Outcome::failure(&error.to_string());
        }
        let report = json!({
            "filePath": named, "edits": edits, "originalFileContents": before,
            "structuredPatch": hunks(&before, &after), "userModified": false,
        });
        Outcome::plain(content, report)
    }
}
