//! The tools for files: `Read`, `Write`, `Edit` and `NotebookEdit`.

use std::fmt::Write as _;
use std::io::ErrorKind;

use serde::Serialize as _;
use serde_json::{Value, json};

use crate::play::event::ToolOutcome;
use crate::play::release::{PlayerBehavior, PlayerRelease};
use crate::play::tools::ToolRunner;
use crate::play::tools::changes::hunks;

/// The largest file that is read without `offset` and `limit`, in bytes.
const MAX_READ: usize = 256 * 1024;

/// For a change of a file that the model has not seen.
pub(super) const NOT_READ: &str = "File has not been read yet. Read it first before writing to it.";

impl ToolRunner {
    pub(crate) fn read(&self, input: &Value) -> ToolOutcome {
        let path = self.path(&input["file_path"]);
        let named = input["file_path"].as_str().unwrap_or_default();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::IsADirectory => {
                return ToolOutcome::failure(&format!(
                    "EISDIR: illegal operation on a directory, read '{named}'"
                ));
            }
            Err(_) => return ToolOutcome::failure(&self.missing_file()),
        };
        self.mark_read(&path);
        let kind = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if let Some(media) = media_type(kind) {
            return read_image(&bytes, media);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if kind == "ipynb" {
            return read_notebook(named, &text);
        }
        let partial = input["offset"].as_u64().is_some() || input["limit"].as_u64().is_some();
        if bytes.len() > MAX_READ && !partial && input["allow_large"] != true {
            return ToolOutcome::failure(&too_large(bytes.len()));
        }
        read_lines(named, &text, input, self.release)
    }

    /// The error for a missing file.
    pub(crate) fn missing_file(&self) -> String {
        let cwd = self.environment.cwd.display();
        format!("File does not exist. Note: your current working directory is {cwd}.")
    }

    pub(crate) fn inspect_write(&self, input: &Value) -> Result<(), String> {
        let path = self.path(&input["file_path"]);
        if path.exists() && !self.has_read(&path) {
            return Err(NOT_READ.to_owned());
        }
        Ok(())
    }

    pub(crate) fn write_file(&self, input: &Value) -> ToolOutcome {
        let path = self.path(&input["file_path"]);
        let named = input["file_path"].as_str().unwrap_or_default();
        let content = input["content"].as_str().unwrap_or_default();
        let before = std::fs::read_to_string(&path).ok();
        if let Err(error) = self.write(&path, content) {
            return ToolOutcome::failure(&error.to_string());
        }
        let current = "(file state is current in your context — no need to Read it back)";
        let (kind, text, changes) = match &before {
            None => {
                ("create", format!("File created successfully at: {named} {current}"), json!([]))
            }
            Some(before) => (
                "update",
                format!("The file {named} has been updated successfully. {current}"),
                hunks(before, content),
            ),
        };
        let report = json!({
            "type": kind, "filePath": named, "content": content, "structuredPatch": changes,
            "originalFile": before, "userModified": false,
        });
        ToolOutcome::plain(text, report)
    }

    pub(crate) fn inspect_edit(&self, input: &Value) -> Result<(), String> {
        let edit = TextEdit::parse(input);
        let path = self.path(&input["file_path"]);
        if edit.old.is_empty() && !path.exists() {
            return Ok(());
        }
        if self.release.has(PlayerBehavior::EditNeedsRead) && !self.has_read(&path) {
            return Err(NOT_READ.to_owned());
        }
        let content = std::fs::read_to_string(path).map_err(|_| self.missing_file())?;
        edit.check(&content)
    }

    pub(crate) fn edit(&self, input: &Value) -> ToolOutcome {
        let edit = TextEdit::parse(input);
        let path = self.path(&input["file_path"]);
        let named = input["file_path"].as_str().unwrap_or_default();
        let was_read = self.has_read(&path);
        let is_new = !path.exists();
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let after = if before.is_empty() { edit.new.to_owned() } else { edit.apply(&before) };
        if let Err(error) = self.write(&path, &after) {
            return ToolOutcome::failure(&error.to_string());
        }
        let current = if was_read || is_new {
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
        ToolOutcome::plain(content, report)
    }

    pub(crate) fn inspect_notebook(&self, input: &Value) -> Result<(), String> {
        let path = self.path(&input["notebook_path"]);
        if !path.exists() {
            return Err("Notebook file does not exist.".to_owned());
        }
        if !self.has_read(&path) {
            return Err(NOT_READ.to_owned());
        }
        Ok(())
    }

    pub(crate) fn edit_notebook(&self, input: &Value) -> ToolOutcome {
        let path = self.path(&input["notebook_path"]);
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let Ok(mut notebook) = serde_json::from_str::<Value>(&before) else {
            return ToolOutcome::failure("Notebook is not valid JSON.");
        };
        let language = notebook["metadata"]["language_info"]["name"].as_str();
        let language = language.unwrap_or("python").to_owned();
        let mode = input["edit_mode"].as_str().unwrap_or("replace");
        let text = input["new_source"].as_str().unwrap_or_default();
        let kind = input["cell_type"].as_str().unwrap_or("code");
        let wanted = input["cell_id"].as_str().unwrap_or_default();
        let Some(cells) = notebook["cells"].as_array_mut() else {
            return ToolOutcome::failure("Notebook has no cells.");
        };
        let position = cells.iter().position(|cell| cell["id"] == wanted);
        let new_id = uuid::Uuid::new_v4().simple().to_string()[..8].to_owned();
        let (id, content) = match (mode, position) {
            ("insert", _) => {
                let cell = json!({
                    "cell_type": kind, "id": new_id, "source": text, "metadata": {},
                    "execution_count": null, "outputs": [],
                });
                cells.insert(position.map_or(0, |position| position + 1), cell);
                (new_id.clone(), format!("Inserted cell {new_id} with {text}"))
            }
            (_, None) => {
                let text = format!("Cell with ID \"{wanted}\" not found in notebook.");
                return ToolOutcome::failure(&text);
            }
            ("delete", Some(position)) => {
                cells.remove(position);
                (wanted.to_owned(), format!("Deleted cell {wanted}"))
            }
            (_, Some(position)) => {
                cells[position]["source"] = text.into();
                (wanted.to_owned(), format!("Updated cell {wanted} with {text}"))
            }
        };
        let after = indented(&notebook);
        if let Err(error) = self.write(&path, &after) {
            return ToolOutcome::failure(&error.to_string());
        }
        let report = json!({
            "new_source": text, "cell_type": kind, "language": language, "edit_mode": mode,
            "cell_id": id, "error": "", "notebook_path": input["notebook_path"],
            "original_file": before, "updated_file": after,
        });
        ToolOutcome::plain(content, report)
    }
}

/// The replacement of an `Edit` call.
pub(super) struct TextEdit<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    all: bool,
}

impl<'a> TextEdit<'a> {
    pub(super) fn parse(input: &'a Value) -> Self {
        let text = |key: &str| input[key].as_str().unwrap_or_default();
        Self { old: text("old_string"), new: text("new_string"), all: input["replace_all"] == true }
    }

    /// Checks that the text to replace occurs, and only once unless all occurrences are replaced.
    pub(super) fn check(&self, content: &str) -> Result<(), String> {
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

    pub(super) fn apply(&self, content: &str) -> String {
        if self.all {
            content.replace(self.old, self.new)
        } else {
            content.replacen(self.old, self.new, 1)
        }
    }
}

/// The lines of a file with their numbers.
fn read_lines(named: &str, text: &str, input: &Value, release: PlayerRelease) -> ToolOutcome {
    let all: Vec<&str> = text.split('\n').collect();
    let number = |key: &str| input[key].as_u64().and_then(|it| usize::try_from(it).ok());
    let first = number("offset").unwrap_or(1).max(1);
    let most = number("limit").unwrap_or(2000);
    let shown: Vec<&str> = all.iter().skip(first - 1).take(most).copied().collect();
    let report = json!({
        "type": "text",
        "file": {
            "filePath": named, "content": shown.join("\n"), "numLines": shown.len(),
            "startLine": first, "totalLines": all.len(),
        },
    });
    if text.is_empty() {
        let warning = "<system-reminder>Warning: the file exists but the contents are \
                       empty.</system-reminder>";
        return ToolOutcome::plain(warning, report);
    }
    let has_arrows = release.has(PlayerBehavior::ArrowLineNumbers);
    let numbered = shown.iter().enumerate().map(|(position, line)| match first + position {
        number if has_arrows => format!("{number:>6}→{line}"),
        number => format!("{number}\t{line}"),
    });
    ToolOutcome::plain(numbered.collect::<Vec<_>>().join("\n"), report)
}

#[expect(clippy::cast_precision_loss, reason = "a size for people")]
fn too_large(bytes: usize) -> String {
    format!(
        "File content ({:.1}KB) exceeds maximum allowed size (256KB). Use offset and limit \
         parameters to read specific portions of the file, or search for specific content instead of \
         reading the whole file. To read it anyway, up to what still fits in your context, call Read \
         again with allow_large: true — only if you genuinely need all of it or the user asked for \
         the whole file.",
        bytes as f64 / 1024.0
    )
}

fn media_type(ending: &str) -> Option<&'static str> {
    Some(match ending {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        _ => return None,
    })
}

fn read_image(bytes: &[u8], media: &str) -> ToolOutcome {
    let data = base64(bytes);
    let source = json!({ "type": "base64", "data": data, "media_type": media });
    let report = json!({
        "type": "image",
        "file": { "base64": data, "type": media, "originalSize": bytes.len() },
    });
    ToolOutcome::plain(json!([{ "type": "image", "source": source }]), report)
}

/// Base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |position: usize| u32::from(chunk.get(position).copied().unwrap_or_default());
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for position in 0..4 {
            let index = (bits >> (18 - 6 * position)) & 63;
            let index = usize::try_from(index).unwrap_or_default();
            let filled = usize::try_from(position).unwrap_or_default() <= chunk.len();
            text.push(if filled { char::from(ALPHABET[index]) } else { '=' });
        }
    }
    text
}

/// The cells of a notebook as the model reads them.
fn read_notebook(named: &str, text: &str) -> ToolOutcome {
    let Ok(notebook) = serde_json::from_str::<Value>(text) else {
        return ToolOutcome::failure("Notebook is not valid JSON.");
    };
    let language = notebook["metadata"]["language_info"]["name"].as_str().unwrap_or("python");
    let mut shown = String::new();
    let mut cells = Vec::new();
    for (position, cell) in notebook["cells"].as_array().into_iter().flatten().enumerate() {
        let id = cell["id"].as_str().map_or_else(|| format!("cell-{position}"), str::to_owned);
        let source = source(&cell["source"]);
        let _ = write!(shown, "<cell id=\"{id}\">{source}</cell id=\"{id}\">");
        cells.push(json!({
            "cellType": cell["cell_type"], "source": source, "cell_id": id, "language": language,
        }));
    }
    let content = json!([{ "text": shown, "type": "text" }]);
    let report = json!({ "type": "notebook", "file": { "filePath": named, "cells": cells } });
    ToolOutcome::plain(content, report)
}

fn source(source: &Value) -> String {
    match source {
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

/// JSON indented by one space, as notebooks are.
fn indented(value: &Value) -> String {
    let mut bytes = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(b" ");
    let mut writer = serde_json::Serializer::with_formatter(&mut bytes, format);
    if value.serialize(&mut writer).is_err() {
        return value.to_string();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_padded() {
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
