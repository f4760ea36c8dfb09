//! Read and Write.

use std::io::ErrorKind;

use serde_json::{Value, json};

use super::Workshop;
use super::patch::hunks;
use crate::play::input::Outcome;

/// Files larger than this are only read in parts.
const LARGEST: usize = 256 * 1024;

impl Workshop {
    pub(super) fn read(&self, input: &Value) -> Outcome {
        let path = self.path(&input["file_path"]);
        let named = input["file_path"].as_str().unwrap_or_default();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::IsADirectory => {
                return Outcome::failure(&format!(
                    "EISDIR: illegal operation on a directory, read '{named}'"
                ));
            }
            Err(_) => return Outcome::failure(&self.missing()),
        };
        self.remember(&path);
        let kind = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if let Some(media) = media_type(kind) {
            return picture(&bytes, media);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if kind == "ipynb" {
            return super::notebook::read(named, &text);
        }
        let part = input["offset"].as_u64().is_some() || input["limit"].as_u64().is_some();
        if bytes.len() > LARGEST && !part && input["allow_large"] != true {
            return Outcome::failure(&too_large(bytes.len()));
        }
        lines(named, &text, input)
    }

    /// What is said about a file that is not there.
    pub(super) fn missing(&self) -> String {
        let cwd = self.around.cwd.display();
        format!("File does not exist. Note: your current working directory is {cwd}.")
    }

    pub(super) fn inspect_write(&self, input: &Value) -> Result<(), String> {
        let path = self.path(&input["file_path"]);
        if path.exists() && !self.knows(&path) {
            return Err(
                "File has not been read yet. Read it first before writing to it.".to_owned()
            );
        }
        Ok(())
    }

    pub(super) fn write_file(&self, input: &Value) -> Outcome {
        let path = self.path(&input["file_path"]);
        let named = input["file_path"].as_str().unwrap_or_default();
        let content = input["content"].as_str().unwrap_or_default();
        let before = std::fs::read_to_string(&path).ok();
        if let Err(error) = self.write(&path, content) {
            return Outcome::failure(&error.to_string());
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
        Outcome::plain(text, report)
    }
}

/// A file with its lines numbered.
fn lines(named: &str, text: &str, input: &Value) -> Outcome {
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
        return Outcome::plain(warning, report);
    }
    let numbered =
        shown.iter().enumerate().map(|(place, line)| format!("{}\t{line}", first + place));
    Outcome::plain(numbered.collect::<Vec<_>>().join("\n"), report)
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

fn picture(bytes: &[u8], media: &str) -> Outcome {
    let data = base64(bytes);
    let source = json!({ "type": "base64", "data": data, "media_type": media });
    let report = json!({
        "type": "image",
        "file": { "base64": data, "type": media, "originalSize": bytes.len() },
    });
    Outcome::plain(json!([{ "type": "image", "source": source }]), report)
}

/// Base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |place: usize| u32::from(chunk.get(place).copied().unwrap_or_default());
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for place in 0..4 {
            let index = (bits >> (18 - 6 * place)) & 63;
            let index = usize::try_from(index).unwrap_or_default();
            let filled = usize::try_from(place).unwrap_or_default() <= chunk.len();
            text.push(if filled { char::from(ALPHABET[index]) } else { '=' });
        }
    }
    text
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
