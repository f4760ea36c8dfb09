//! A transcript of the CLI with its side directory, as one sequence of bytes.
//!
//! The form is a JSON line with the names and sizes of the files, then their bytes. Names come from another
//! machine, so only plain names below the folder are written.

use std::fs;
use std::io;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use transcripts::TranscriptDirectory;
use uuid::Uuid;

/// The most that the files may take together.
const MAX_BYTES: u64 = 200 << 20;

/// The most files.
const MAX_FILES: usize = 10_000;

#[derive(Debug, Serialize, Deserialize)]
struct TranscriptHead {
    id: Uuid,
    files: Vec<FileHead>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FileHead {
    /// Relative to the folder.
    path: String,
    size: usize,
}

/// Reads the transcript of a conversation; none if the CLI does not have it.
pub(super) fn read(store: &TranscriptDirectory, id: Uuid) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = store.find(&id.to_string()).into_iter().next() else { return Ok(None) };
    let Some(folder) = file.path.parent() else { return Ok(None) };
    let mut contents = vec![(format!("{id}.jsonl"), fs::read(&file.path)?)];
    let mut total = contents[0].1.len() as u64;
    let mut waiting = vec![folder.join(id.to_string())];
    while let Some(directory) = waiting.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                total += entry.metadata()?.len();
                if total > MAX_BYTES || contents.len() >= MAX_FILES {
                    return Err(io::Error::other("it is too large"));
                }
                let path = entry.path();
                let name = path.strip_prefix(folder).ok().and_then(Path::to_str);
                let Some(name) = name else { continue };
                contents.push((name.to_owned(), fs::read(&path)?));
            }
        }
    }
    let files =
        contents.iter().map(|(path, bytes)| FileHead { path: path.clone(), size: bytes.len() });
    let head = TranscriptHead { id, files: files.collect() };
    let mut part = serde_json::to_vec(&head)?;
    part.push(b'\n');
    for (_, bytes) in contents {
        part.extend_from_slice(&bytes);
    }
    Ok(Some(part))
}

/// Writes a transcript into a folder, in place of what is there of the same conversation.
pub(super) fn write(folder: &Path, part: &[u8]) -> io::Result<()> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "what was saved cannot be read");
    let end = part.iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
    let head: TranscriptHead = serde_json::from_slice(&part[..end])?;
    let mut rest = &part[end + 1..];
    let id = head.id.to_string();
    for FileHead { path, size } in head.files {
        let (bytes, behind) = rest.split_at_checked(size).ok_or_else(invalid)?;
        rest = behind;
        let path = Path::new(&path);
        let is_plain = path.components().all(|it| matches!(it, Component::Normal(_)));
        let is_own = path == Path::new(&format!("{id}.jsonl")) || path.starts_with(&id);
        if !is_plain || !is_own {
            return Err(invalid());
        }
        let target = folder.join(path);
        fs::create_dir_all(target.parent().unwrap_or(folder))?;
        fs::write(target, bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use transcripts::TranscriptDirectory;
    use uuid::Uuid;

    use super::{read, write};

    #[test]
    fn a_transcript_arrives_with_its_side_directory_and_nothing_is_written_elsewhere() {
        let from = tempfile::tempdir().unwrap();
        let id = Uuid::from_u128(7);
        let folder = from.path().join("-old-place");
        fs::create_dir_all(folder.join(format!("{id}/subagents"))).unwrap();
        fs::write(folder.join(format!("{id}.jsonl")), "{}\n").unwrap();
        fs::write(folder.join(format!("{id}/subagents/a.jsonl")), "side").unwrap();
        let store = TranscriptDirectory::new(from.path().to_owned());
        assert_eq!(read(&store, Uuid::from_u128(8)).unwrap(), None);
        let part = read(&store, id).unwrap().unwrap();

        let to = tempfile::tempdir().unwrap();
        let folder = to.path().join("-new-place");
        write(&folder, &part).unwrap();
        assert_eq!(fs::read(folder.join(format!("{id}.jsonl"))).unwrap(), b"{}\n");
        assert_eq!(fs::read(folder.join(format!("{id}/subagents/a.jsonl"))).unwrap(), b"side");

        for path in ["../up", "/etc/up", "other.jsonl", &format!("{id}/../../up")] {
            let hostile =
                format!("{{\"id\":\"{id}\",\"files\":[{{\"path\":\"{path}\",\"size\":1}}]}}\nx");
            assert!(write(&folder, hostile.as_bytes()).is_err(), "{path}");
        }
        assert!(!to.path().join("up").exists());
        assert!(write(&folder, &part[..part.len() - 1]).is_err(), "it is cut off");
    }
}
