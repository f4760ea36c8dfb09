//! Content as the protocol writes it: blocks of text, images and resources, diffs and terminals.

use std::borrow::Cow;

use wire::json::{Raw, Shape, Text};

use super::id_of;
use crate::call::ResultImage;
use crate::diff::{StructuredHunk, hunks_between, hunks_of_patch};
use crate::fold::prefix;

/// How many files, images and terminals of a call are kept.
const MAX_PARTS: usize = 200;

/// How many bytes of diffs a call keeps.
const MAX_DIFF_BYTES: usize = 256 << 10;

fn text_field<'a>(object: Raw<'a>, key: &str) -> Option<Text<'a>> {
    object.get(key)?.text()
}

fn type_of(block: Raw<'_>) -> Cow<'_, str> {
    text_field(block, "type").map(Text::decode).unwrap_or_default()
}

/// Whether a block is nothing that can be read.
pub(super) fn is_media(block: Raw<'_>) -> bool {
    match &*type_of(block) {
        "image" | "audio" => true,
        "resource" => block.get("resource").and_then(|it| it.get("blob")).is_some(),
        _ => false,
    }
}

/// The text of a block; `None` if it has none.
pub(super) fn block_text(block: Raw<'_>) -> Option<Cow<'_, str>> {
    if block.shape() == Shape::String {
        return block.text().map(Text::decode);
    }
    match &*type_of(block) {
        "resource_link" => {
            let uri = text_field(block, "uri")?.decode();
            Some(Cow::Owned(match text_field(block, "name") {
                Some(name) => format!("{} ({uri})", name.decode()),
                None => uri.into_owned(),
            }))
        }
        "resource" => text_field(block.get("resource")?, "text").map(Text::decode),
        _ => text_field(block, "text").map(Text::decode),
    }
}

/// The text of a block or of a list of blocks, and how many images it has.
pub(super) fn prompt_text(content: Raw<'_>, max_bytes: usize) -> (String, usize) {
    let mut images = 0;
    let mut text = String::new();
    let mut add = |block: Raw<'_>| {
        if is_media(block) {
            images += 1;
        } else if let Some(more) = block_text(block) {
            if !text.is_empty() {
                text.push('\n');
            }
            let room = max_bytes.saturating_sub(text.len());
            text.push_str(&more[..more.floor_char_boundary(room)]);
        }
    };
    if content.shape() == Shape::Array {
        content.items().for_each(add);
    } else {
        add(content);
    }
    (text, images)
}

/// What the content of a call has.
#[derive(Default)]
pub(super) struct CallParts {
    pub(super) text: String,
    /// How many bytes of text were left out.
    pub(super) omitted: u64,
    pub(super) images: Vec<ResultImage>,
    pub(super) hunks: Vec<StructuredHunk>,
    pub(super) has_diff: bool,
    /// The files that its diffs change.
    pub(super) files: Vec<String>,
    pub(super) terminals: Vec<String>,
    diff_bytes: usize,
}

impl CallParts {
    /// Reads a list of blocks, or one. `lines` are the first lines of its diffs, if they are known.
    pub(super) fn read(content: Raw<'_>, lines: &[usize], max_text: usize) -> Self {
        let mut this = Self::default();
        if content.shape() == Shape::Array {
            let mut diffs = 0;
            for block in content.items() {
                this.add(block, lines.get(diffs).copied(), max_text);
                diffs += usize::from(type_of(block) == "diff");
            }
        } else {
            this.add(content, None, max_text);
        }
        this
    }

    fn add(&mut self, block: Raw<'_>, line: Option<usize>, max_text: usize) {
        match &*type_of(block) {
            "diff" => self.add_diff(block, line),
            "terminal" => {
                if let Some(id) = text_field(block, "terminalId")
                    && self.terminals.len() < MAX_PARTS
                {
                    self.terminals.push(id_of(id));
                }
            }
            "content" => {
                if let Some(inner) = block.get("content") {
                    self.add_block(inner, max_text);
                }
            }
            _ => self.add_block(block, max_text),
        }
    }

    fn add_block(&mut self, block: Raw<'_>, max_text: usize) {
        if is_media(block) {
            let data = block.get("resource").unwrap_or(block);
            let data_text = text_field(data, "data").or_else(|| text_field(data, "blob"));
            if self.images.len() < MAX_PARTS {
                self.images.push(ResultImage {
                    media_type: text_field(data, "mimeType").map(id_of).unwrap_or_default(),
                    bytes: data_text.map_or(0, |it| it.raw().len() as u64 / 4 * 3),
                });
            }
            return;
        }
        let Some(text) = block_text(block) else { return };
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        let kept = &text[..text.floor_char_boundary(max_text.saturating_sub(self.text.len()))];
        self.text.push_str(kept);
        self.omitted += (text.len() - kept.len()) as u64;
    }

    fn add_diff(&mut self, diff: Raw<'_>, line: Option<usize>) {
        self.has_diff = true;
        let room = MAX_DIFF_BYTES.saturating_sub(self.diff_bytes);
        let hunks = if let Some(patch) = diff.get("patch") {
            for change in diff.get("changes").into_iter().flat_map(Raw::items) {
                self.add_file(text_field(change, "path"));
            }
            let text = text_field(patch, "text").or_else(|| patch.text()).map(Text::decode);
            hunks_of_patch(&text.unwrap_or_default(), room)
        } else {
            self.add_file(text_field(diff, "path"));
            let text = |key| text_field(diff, key).map(Text::decode).unwrap_or_default();
            hunks_between(&text("oldText"), &text("newText"), line, room)
        };
        self.diff_bytes += hunks.iter().map(StructuredHunk::text_bytes).sum::<usize>();
        self.hunks.extend(hunks);
    }

    fn add_file(&mut self, path: Option<Text<'_>>) {
        let Some(path) = path.map(|path| prefix(&path.decode(), 4 << 10)) else { return };
        if self.files.len() < MAX_PARTS && !self.files.contains(&path) {
            self.files.push(path);
        }
    }
}

/// What a call returned, for a person: the text that it is or has, or all of it as JSON.
pub(super) fn output_text(output: Raw<'_>) -> Cow<'_, str> {
    if let Some(text) = output.text() {
        return text.decode();
    }
    let keys = ["output", "content", "stdout", "text", "message", "error", "result"];
    let text = keys.into_iter().find_map(|key| text_field(output, key));
    match text {
        Some(text) => text.decode(),
        None if output.items().next().is_some() => {
            let texts: Vec<_> = output.items().take(MAX_PARTS).filter_map(block_text).collect();
            if texts.is_empty() {
                Cow::Borrowed(output.as_str())
            } else {
                Cow::Owned(texts.join("\n"))
            }
        }
        None => Cow::Borrowed(output.as_str()),
    }
}
