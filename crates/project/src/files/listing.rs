//! The content of a directory, in pages.

use std::cmp::Ordering;
use std::ffi::OsString;
use std::time::UNIX_EPOCH;

use cap_std::fs::{Dir, Metadata};

use super::directory::ProjectFiles;
use super::error::FileError;
use super::ignore_rules::IgnoreRules;
use super::path::{ProjectPath, name_text};

/// How many entries of a directory are seen at all.
const MAX_ENTRIES: usize = 100_000;

/// A part of the content of a directory: directories first, then by name.
#[derive(Debug)]
pub struct DirectoryPage {
    pub items: Vec<DirectoryItem>,
    /// How many entries there are, as far as they were counted.
    pub total: usize,
    /// What to ask for the next page with.
    pub more: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct DirectoryItem {
    /// As the text of a [`ProjectPath`].
    pub name: String,
    pub item_type: ItemType,
    /// Whether it is a symbolic link; the type is that of what it leads to.
    pub is_link: bool,
    pub size: u64,
    /// In milliseconds since 1970.
    pub modified: u64,
    pub is_ignored: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemType {
    Directory,
    File,
    /// A pipe, a device, a socket, or a link that leads nowhere or out of the project.
    Other,
}

/// What the order is decided by.
struct SortedEntry {
    is_directory: bool,
    is_link: bool,
    folded: String,
    name: OsString,
}

impl ProjectFiles {
    /// A page of at most `limit` entries, after the page that ended with `after`.
    pub fn list(
        &self,
        path: &ProjectPath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<DirectoryPage, FileError> {
        let directory = self.root.open_dir(path.or_dot())?;
        let mut entries = read_entries(&directory)?;
        let total = entries.len();
        entries.sort_unstable_by(compare);
        let start = match after {
            Some(after) => entries.partition_point(|it| it.is_before_or_at(after)),
            None => 0,
        };
        let rules = IgnoreRules::new(self, path);
        let end = total.min(start + limit);
        let place = self.path.join(path.as_path());
        let item = |entry: &SortedEntry| {
            let is_ignored = rules.ignores(&place.join(&entry.name), entry.is_directory);
            describe(&directory, entry, is_ignored)
        };
        let items = entries[start..end].iter().map(item).collect();
        let more = (end < total && end > start).then(|| entries[end - 1].cursor());
        Ok(DirectoryPage { items, total, more })
    }
}

fn read_entries(directory: &Dir) -> Result<Vec<SortedEntry>, FileError> {
    let mut found = Vec::new();
    for entry in directory.entries()?.take(MAX_ENTRIES) {
        let entry = entry?;
        let name = entry.file_name();
        if name.eq_ignore_ascii_case(".git") {
            continue;
        }
        let entry_type = entry.file_type()?;
        let is_link = entry_type.is_symlink();
        let is_directory = if is_link {
            directory.metadata(&name).is_ok_and(|it| it.is_dir())
        } else {
            entry_type.is_dir()
        };
        let folded = name.to_string_lossy().to_lowercase();
        found.push(SortedEntry { is_directory, is_link, folded, name });
    }
    Ok(found)
}

fn describe(directory: &Dir, entry: &SortedEntry, is_ignored: bool) -> DirectoryItem {
    // A file that is gone by now is shown as it was found; opening it says so.
    let about = directory.metadata(&entry.name).ok();
    let item_type = match &about {
        _ if entry.is_directory => ItemType::Directory,
        Some(about) if about.is_file() => ItemType::File,
        _ => ItemType::Other,
    };
    DirectoryItem {
        name: name_text(&entry.name),
        item_type,
        is_link: entry.is_link,
        size: about.as_ref().map_or(0, Metadata::len),
        modified: about.as_ref().map_or(0, modified),
        is_ignored,
    }
}

fn modified(about: &Metadata) -> u64 {
    let modified = about.modified().ok().map(cap_std::time::SystemTime::into_std);
    let since = modified.and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}

fn compare(one: &SortedEntry, other: &SortedEntry) -> Ordering {
    let key = |it: &SortedEntry| !it.is_directory;
    key(one)
        .cmp(&key(other))
        .then_with(|| one.folded.cmp(&other.folded))
        .then_with(|| one.name.cmp(&other.name))
}

impl SortedEntry {
    /// The place of this entry in the order.
    fn cursor(&self) -> String {
        let group = if self.is_directory { 'd' } else { 'f' };
        format!("{group}{}", name_text(&self.name))
    }

    fn is_before_or_at(&self, cursor: &str) -> bool {
        let is_directory = cursor.starts_with('d');
        let name = ProjectPath::parse(cursor.get(1..).unwrap_or_default()).unwrap_or_default();
        let name = name.as_path().as_os_str().to_owned();
        let folded = name.to_string_lossy().to_lowercase();
        let place = Self { is_directory, is_link: false, folded, name };
        compare(self, &place).is_le()
    }
}
