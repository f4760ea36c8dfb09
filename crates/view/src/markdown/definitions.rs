//! Link references that were defined so far.

use std::collections::HashMap;

use pulldown_cmark::{CowStr, RefDefs};

/// What `[label]` leads to, for the labels met so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Definitions(HashMap<String, Target>);

#[derive(Clone, Debug)]
struct Target {
    address: String,
    title: String,
}

impl Definitions {
    /// Adds what a block defined; a label keeps its first meaning.
    pub(super) fn learn(&mut self, found: &RefDefs<'_>) {
        for (label, definition) in found.iter() {
            self.0.entry(normal(label)).or_insert_with(|| Target {
                address: definition.dest.to_string(),
                title: definition.title.as_ref().map(ToString::to_string).unwrap_or_default(),
            });
        }
    }

    /// Address and title of a label.
    pub(super) fn find<'a>(&'a self, label: &str) -> Option<(CowStr<'a>, CowStr<'a>)> {
        if self.0.is_empty() {
            return None;
        }
        let target = self.0.get(&normal(label))?;
        Some((target.address.as_str().into(), target.title.as_str().into()))
    }
}

/// Labels are the same if they differ in nothing but case and the width of white space.
fn normal(label: &str) -> String {
    let words: Vec<_> = label.split_whitespace().collect();
    words.join(" ").to_lowercase()
}
