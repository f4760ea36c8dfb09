//! Patches as git writes them: files, and hunks of lines.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::path::RepoPath;

/// The mode of a file that is a commit of another repository.
const SUBMODULE_MODE: &str = "160000";
const LINK_MODE: &str = "120000";

/// The change of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "git says each of them by itself")]
pub struct FilePatch {
    pub added: bool,
    pub deleted: bool,
    pub binary: bool,
    /// The mode before, if it is known.
    pub old_mode: Option<String>,
    pub new_mode: Option<String>,
    pub hunks: Vec<PatchHunk>,
    /// Whether the patch was too long to be read to its end.
    pub cut: bool,
}

/// Adjacent lines that differ, with a few around them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PatchHunk {
    pub old_start: usize,
    pub old_lines: usize,
    pub new_start: usize,
    pub new_lines: usize,
    /// What follows the ranges: the function around it.
    pub heading: Vec<u8>,
    /// The lines, each with its sign and its newline.
    pub body: Vec<u8>,
}

impl FilePatch {
    /// Reads the patch of a file. If a file became another kind of thing, there are two.
    pub(super) fn parse(bytes: &[u8]) -> Vec<Self> {
        let mut patches: Vec<Self> = Vec::new();
        // How many lines of the hunk are still to come, before and after.
        let mut missing = (0_usize, 0_usize);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if missing == (0, 0) {
                if line.starts_with(b"diff --git ") {
                    patches.push(Self::default());
                } else if let Some(patch) = patches.last_mut() {
                    if let Some(hunk) = PatchHunk::from_header(line) {
                        missing = (hunk.old_lines, hunk.new_lines);
                        patch.hunks.push(hunk);
                    } else {
                        patch.read_header(line);
                    }
                }
                continue;
            }
            let Some(hunk) = patches.last_mut().and_then(|it| it.hunks.last_mut()) else { break };
            let (before, after) = match line.first() {
                Some(b'+') => (0, 1),
                Some(b'-') => (1, 0),
                Some(b'\\') => (0, 0),
                _ => (1, 1),
            };
            missing = (missing.0.saturating_sub(before), missing.1.saturating_sub(after));
            hunk.body.extend_from_slice(line);
        }
        if missing != (0, 0)
            && let Some(patch) = patches.last_mut()
        {
            patch.cut = true;
        }
        patches
    }

    fn read_header(&mut self, line: &[u8]) {
        // It follows the last line of a hunk.
        if line.starts_with(b"\\") {
            if let Some(hunk) = self.hunks.last_mut() {
                hunk.body.extend_from_slice(line);
            }
            return;
        }
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end();
        let mode = |it: &str| Some(it.to_owned());
        if let Some(it) = line.strip_prefix("new file mode ") {
            (self.added, self.new_mode) = (true, mode(it));
        } else if let Some(it) = line.strip_prefix("deleted file mode ") {
            (self.deleted, self.old_mode) = (true, mode(it));
        } else if let Some(it) = line.strip_prefix("old mode ") {
            self.old_mode = mode(it);
        } else if let Some(it) = line.strip_prefix("new mode ") {
            self.new_mode = mode(it);
        } else if line.starts_with("index ")
            && let Some((_, it)) = line.rsplit_once(' ')
            && it.len() == SUBMODULE_MODE.len()
        {
            (self.old_mode, self.new_mode) = (mode(it), mode(it));
        } else if line.starts_with("Binary files ") || line == "GIT binary patch" {
            self.binary = true;
        }
    }

    /// Whether single hunks of it can be staged: it is a file before and after.
    pub fn can_split(&self) -> bool {
        let special =
            |mode: &Option<String>| matches!(mode.as_deref(), Some(SUBMODULE_MODE | LINK_MODE));
        let whole = self.added || self.deleted || self.binary || self.cut;
        !whole && !special(&self.old_mode) && !special(&self.new_mode)
    }
}

impl PatchHunk {
    /// Reads `@@ -1,3 +1,4 @@ heading`.
    fn from_header(line: &[u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\n").unwrap_or(line).strip_prefix(b"@@ ")?;
        let end = line.windows(3).position(|it| it == b" @@")?;
        let ranges = std::str::from_utf8(&line[..end]).ok()?;
        let (old, new) = ranges.split_once(' ')?;
        let range = |text: &str, sign: char| -> Option<(usize, usize)> {
            let text = text.strip_prefix(sign)?;
            let (start, count) = text.split_once(',').unwrap_or((text, "1"));
            Some((start.parse().ok()?, count.parse().ok()?))
        };
        let (old_start, old_lines) = range(old, '-')?;
        let (new_start, new_lines) = range(new, '+')?;
        let heading = line[end + 3..].trim_ascii().to_vec();
        Some(Self { old_start, old_lines, new_start, new_lines, heading, body: Vec::new() })
    }

    /// Identifies its content and its place.
    pub fn id(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// A patch with only this hunk. Git looks for it where `at` says it is in the file that the patch is
    /// applied to, whatever other hunks there are.
    pub(super) fn as_patch(&self, path: &RepoPath, at: usize) -> Vec<u8> {
        let (old, new) = (path.in_patch("a/"), path.in_patch("b/"));
        let mut out = Vec::new();
        let ranges = format!("@@ -{at},{} +{at},{} @@", self.old_lines, self.new_lines);
        for part in [
            b"diff --git ",
            &old[..],
            b" ",
            &new,
            b"\n--- ",
            &old,
            b"\n+++ ",
            &new,
            b"\n",
            ranges.as_bytes(),
            b"\n",
            &self.body,
        ] {
            out.extend_from_slice(part);
        }
        out
    }

    /// The lines with their signs, without newlines.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let body = self.body.strip_suffix(b"\n").unwrap_or(&self.body);
        body.split(|byte| *byte == b'\n')
    }

    /// A hunk that adds all lines of a text.
    pub(super) fn added_text(text: &[u8]) -> Option<Self> {
        let mut hunk = Self { new_start: 1, ..Self::default() };
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            hunk.body.push(b'+');
            hunk.body.extend_from_slice(line);
            hunk.new_lines += 1;
        }
        if !text.is_empty() && !text.ends_with(b"\n") {
            hunk.body.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
        (hunk.new_lines > 0).then_some(hunk)
    }
}
