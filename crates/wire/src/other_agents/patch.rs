//! Patches in the format of Codex's `apply_patch`: the files they change.

use std::borrow::Cow;

use super::step::{ChangedFile, FileContent};

/// The files that a patch changes, with the texts it has of them. A moved file is two changes.
pub(super) fn patched_files<'a>(patch: &str) -> Vec<ChangedFile<'a>> {
    let mut files: Vec<ChangedFile<'a>> = Vec::new();
    for line in patch.lines() {
        let Some(header) = line.trim_end().strip_prefix("*** ") else {
            if let Some(file) = files.last_mut() {
                add_line(&mut file.change, line);
            }
            continue;
        };
        let named = |prefix: &str| {
            header.strip_prefix(prefix).map(|path| Cow::Owned(path.trim().to_owned()))
        };
        let (file, change) = if let Some(path) = named("Add File: ") {
            (path, FileContent::Written(Some(Cow::Borrowed(""))))
        } else if let Some(path) = named("Update File: ") {
            (path, FileContent::Replaced(Vec::new()))
        } else if let Some(path) = named("Move to: ") {
            // The hunks that follow belong to the file before it.
            let at = files.len().saturating_sub(1);
            files.insert(at, ChangedFile { path, change: FileContent::Patched(None) });
            continue;
        } else if let Some(path) = named("Delete File: ") {
            (path, FileContent::Deleted)
        } else if header == "End Patch" {
            break;
        } else {
            continue;
        };
        files.push(ChangedFile { path: file, change });
    }
    files
}

/// Adds a line of a new file, or of a hunk: ` ` before the text is context, `-` before and `+` after.
fn add_line(change: &mut FileContent<'_>, line: &str) {
    let append = |text: &mut Cow<'_, str>, line: &str| {
        let text = text.to_mut();
        text.push_str(line);
        text.push('\n');
    };
    match change {
        FileContent::Written(Some(content)) => {
            if let Some(added) = line.strip_prefix('+') {
                append(content, added);
            }
        }
        FileContent::Replaced(texts) if line.starts_with("@@") => {
            texts.push((Cow::Borrowed(""), Cow::Borrowed("")));
        }
        FileContent::Replaced(texts) => {
            if texts.is_empty() {
                texts.push((Cow::Borrowed(""), Cow::Borrowed("")));
            }
            let Some((before, after)) = texts.last_mut() else { return };
            let text = line.get(1..).unwrap_or_default();
            match line.as_bytes().first() {
                Some(b'-') => append(before, text),
                Some(b'+') => append(after, text),
                Some(b' ') | None => {
                    append(before, text);
                    append(after, text);
                }
                Some(_) => {}
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{FileContent, patched_files};

    #[test]
    fn a_patch_names_every_file_it_changes() {
        let patch = "*** Begin Patch\n*** Add File: a b.txt\n+one\n+two\n*** Update File: old.rs\n\
                     *** Move to: new.rs\n@@\n-x\n+*** not a header\n*** Delete File: gone\n*** End Patch\n\
                     *** Add File: after the end\n";
        let files = patched_files(patch);
        let paths: Vec<_> = files.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, ["a b.txt", "new.rs", "old.rs", "gone"]);
        let hunk = ("x\n".into(), "*** not a header\n".into());
        assert_eq!(files[2].change, FileContent::Replaced(vec![hunk]));
        assert_eq!(files[0].change, FileContent::Written(Some("one\ntwo\n".into())));
        assert_eq!(files[3].change, FileContent::Deleted);
        assert!(patched_files("echo hi").is_empty());
    }
}
