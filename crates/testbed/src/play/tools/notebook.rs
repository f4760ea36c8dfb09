//! Notebooks: cells to read, to replace, to insert and to delete.

use std::fmt::Write as _;

use serde::Serialize as _;
use serde_json::{Value, json};

use super::Workshop;
use crate::play::input::Outcome;

/// A notebook as the model reads it.
pub(super) fn read(named: &str, text: &str) -> Outcome {
    let Ok(notebook) = serde_json::from_str::<Value>(text) else {
        return Outcome::failure("The notebook is no JSON.");
    };
    let language = notebook["metadata"]["language_info"]["name"].as_str().unwrap_or("python");
    let mut shown = String::new();
    let mut cells = Vec::new();
    for (place, cell) in notebook["cells"].as_array().into_iter().flatten().enumerate() {
        let id = cell["id"].as_str().map_or_else(|| format!("cell-{place}"), str::to_owned);
        let source = source(&cell["source"]);
        let _ = write!(shown, "<cell id=\"{id}\">{source}</cell id=\"{id}\">");
        cells.push(json!({
            "cellType": cell["cell_type"], "source": source, "cell_id": id, "language": language,
        }));
    }
    let content = json!([{ "text": shown, "type": "text" }]);
    let report = json!({ "type": "notebook", "file": { "filePath": named, "cells": cells } });
    Outcome::plain(content, report)
}

fn source(source: &Value) -> String {
    match source {
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

impl Workshop {
    pub(super) fn inspect_notebook(&self, input: &Value) -> Result<(), String> {
        let path = self.path(&input["notebook_path"]);
        if !path.exists() {
            return Err("Notebook file does not exist.".to_owned());
        }
        if !self.knows(&path) {
            return Err(
                "File has not been read yet. Read it first before writing to it.".to_owned()
            );
        }
        Ok(())
    }

    pub(super) fn edit_notebook(&self, input: &Value) -> Outcome {
        let path = self.path(&input["notebook_path"]);
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let Ok(mut notebook) = serde_json::from_str::<Value>(&before) else {
            return Outcome::failure("Notebook is not valid JSON.");
        };
        let language = notebook["metadata"]["language_info"]["name"].as_str();
        let language = language.unwrap_or("python").to_owned();
        let mode = input["edit_mode"].as_str().unwrap_or("replace");
        let text = input["new_source"].as_str().unwrap_or_default();
        let kind = input["cell_type"].as_str().unwrap_or("code");
        let wanted = input["cell_id"].as_str().unwrap_or_default();
        let Some(cells) = notebook["cells"].as_array_mut() else {
            return Outcome::failure("Notebook has no cells.");
        };
        let place = cells.iter().position(|cell| cell["id"] == wanted);
        let fresh = uuid::Uuid::new_v4().simple().to_string()[..8].to_owned();
        let (id, content) = match (mode, place) {
            ("insert", _) => {
                let cell = json!({
                    "cell_type": kind, "id": fresh, "source": text, "metadata": {},
                    "execution_count": null, "outputs": [],
                });
                cells.insert(place.map_or(0, |place| place + 1), cell);
                (fresh.clone(), format!("Inserted cell {fresh} with {text}"))
            }
            (_, None) => {
                let text = format!("Cell with ID \"{wanted}\" not found in notebook.");
                return Outcome::failure(&text);
            }
            ("delete", Some(place)) => {
                cells.remove(place);
                (wanted.to_owned(), format!("Deleted cell {wanted}"))
            }
            (_, Some(place)) => {
                cells[place]["source"] = text.into();
                (wanted.to_owned(), format!("Updated cell {wanted} with {text}"))
            }
        };
        let after = indented(&notebook);
        if let Err(error) = self.write(&path, &after) {
            return Outcome::failure(&error.to_string());
        }
        let report = json!({
            "new_source": text, "cell_type": kind, "language": language, "edit_mode": mode,
            "cell_id": id, "error": "", "notebook_path": input["notebook_path"],
            "original_file": before, "updated_file": after,
        });
        Outcome::plain(content, report)
    }
}

/// JSON with one space a level, as notebooks have it.
fn indented(value: &Value) -> String {
    let mut bytes = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(b" ");
    let mut writer = serde_json::Serializer::with_formatter(&mut bytes, format);
    if value.serialize(&mut writer).is_err() {
        return value.to_string();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
