//! Files that went through the API, kept in memory.

use bytes::Bytes;
use serde_json::{Value, json};

use super::refusal::Refusal;

/// The largest file a bot can download.
const LARGEST_DOWNLOAD: usize = 20 << 20;

/// All files so far. A file's number is its place.
#[derive(Debug, Default)]
pub(super) struct Files(Vec<File>);

#[derive(Debug)]
struct File {
    path: String,
    bytes: Bytes,
}

/// A file among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileNumber(usize);

impl FileNumber {
    /// The name by which the bot gets it. A photo has several sizes; here they share their bytes.
    pub(super) fn id(self, size: &str) -> String {
        format!("BQACAgQAAxkBAAI{}-{size}", self.0)
    }

    pub(super) fn unique_id(self, size: &str) -> String {
        format!("AgAD{}{size}", self.0)
    }
}

impl Files {
    pub(super) fn add(&mut self, folder: &str, extension: &str, bytes: Bytes) -> FileNumber {
        let number = self.0.len();
        self.0.push(File { path: format!("{folder}/file_{number}{extension}"), bytes });
        FileNumber(number)
    }

    pub(super) fn find(&self, id: &str) -> Option<FileNumber> {
        let (number, _) = id.strip_prefix("BQACAgQAAxkBAAI")?.split_once('-')?;
        number.parse().ok().filter(|it| *it < self.0.len()).map(FileNumber)
    }

    pub(super) fn bytes(&self, number: FileNumber) -> Bytes {
        self.0.get(number.0).map(|it| it.bytes.clone()).unwrap_or_default()
    }

    /// `getFile`
    pub(super) fn get(&self, id: &str) -> Result<Value, Refusal> {
        let wrong = || Refusal::bad("wrong file_id or the file is temporarily unavailable");
        let number = self.find(id).ok_or_else(wrong)?;
        let file = self.0.get(number.0).ok_or_else(wrong)?;
        let size = file.bytes.len();
        if size > LARGEST_DOWNLOAD {
            return Err(Refusal::bad("file is too big"));
        }
        let (unique, path) = (number.unique_id(""), &file.path);
        Ok(json!({"file_id": id, "file_unique_id": unique, "file_size": size, "file_path": path}))
    }

    /// The file under a path that `getFile` gave.
    pub(super) fn at(&self, path: &str) -> Option<Bytes> {
        let file = self.0.iter().find(|it| it.path == path)?;
        (file.bytes.len() <= LARGEST_DOWNLOAD).then(|| file.bytes.clone())
    }
}
