//! Words and the marks on them.

/// Words and the marks on them. Marks are nested: one that begins inside another ends inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    pub(super) words: String,
    pub(super) marks: Vec<Marked>,
}

/// A mark and what it covers, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marked {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) mark: Mark,
}

/// What Telegram can do to words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Heavy.
    Bold,
    /// Slanted.
    Italic,
    /// With a line through it.
    Strike,
    /// In the letters of code, within a line.
    Code,
    /// A block of code, in a language where one is known.
    Block(Option<String>),
    /// A link to the web.
    Link(String),
    /// Somebody's words.
    Quote,
    /// The same, folded until somebody opens it.
    Folded,
}

impl Text {
    /// Words without marks.
    pub fn plain(words: &str) -> Self {
        let mut text = Self::default();
        text.push(words);
        text
    }

    /// The words alone.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.words.trim().is_empty()
    }

    /// Adds words. Control characters have no place in a message.
    pub fn push(&mut self, words: &str) {
        self.words.extend(words.chars().filter(|&c| !c.is_control() || matches!(c, '\n' | '\t')));
    }

    /// Adds words under a mark.
    pub fn push_marked(&mut self, mark: Mark, words: &str) {
        let start = self.words.len();
        self.push(words);
        self.mark(start, mark);
    }

    /// Puts a mark on everything from `start` on. It goes outside the marks that are there already.
    pub fn mark(&mut self, start: usize, mark: Mark) {
        let end = self.words.len();
        if start < end {
            let at = self.marks.partition_point(|marked| marked.start < start);
            self.marks.insert(at, Marked { start, end, mark });
        }
    }

    /// Adds another text.
    pub fn append(&mut self, other: &Self) {
        let offset = self.words.len();
        self.words.push_str(&other.words);
        self.marks.extend(other.marks.iter().map(|marked| Marked {
            start: marked.start + offset,
            end: marked.end + offset,
            mark: marked.mark.clone(),
        }));
    }

    /// Begins a new line, if words stand in this one.
    pub(super) fn new_line(&mut self) {
        if !self.words.is_empty() && !self.words.ends_with('\n') {
            self.words.push('\n');
        }
    }

    /// Leaves a blank line, if words stand before it.
    pub(super) fn blank_line(&mut self) {
        self.new_line();
        if !self.words.is_empty() && !self.words.ends_with("\n\n") {
            self.words.push('\n');
        }
    }
}
