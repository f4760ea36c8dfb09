//! Changes of files as hunks of lines, with the words marked that differ.
//!
//! Where the tool says what it changed (`structuredPatch`), its hunks are taken: they have the real
//! line numbers. Otherwise the two texts of the call are compared. Both are bounded: comparing two
//! long texts that share nothing takes time with the square of their length, so those are shown as
//! one taken out and the other put in.

mod hunks;
mod patch;
mod words;

use crate::call::Call;
use crate::subject::Subject;

/// A change of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// What changed, with a few lines around it, in the order of the file.
    pub hunks: Vec<Hunk>,
    /// How many lines were put in.
    pub added: usize,
    /// How many lines were taken out.
    pub removed: usize,
}

/// Lines of a file that lie together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// The lines.
    pub lines: Vec<DiffLine>,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    /// What happened to it.
    pub change: LineChange,
    /// Its number in the file: the new one, for a line that was taken out the old one. Nothing where
    /// only a part of the file is known.
    pub number: Option<usize>,
    /// Its text, without the newline.
    pub pieces: Vec<Piece>,
}

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What it says.
    pub text: String,
    /// Whether it is what differs between the old line and the new.
    pub marked: bool,
}

/// What happened to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineChange {
    /// Nothing.
    Kept,
    /// It was put in.
    Added,
    /// It was taken out.
    Removed,
}

impl Diff {
    /// What a call changes or changed; nothing where it changes no part of a file.
    ///
    /// A file that is written for the first time is no change: it is shown as what it holds.
    pub fn of(call: &Call) -> Option<Self> {
        let told = call.outcome.as_ref().and_then(|outcome| outcome.hunks.as_deref());
        if let Some(diff) = told.and_then(Self::from_patch) {
            return Some(diff);
        }
        let Subject::Edit { changes, .. } = call.subject() else { return None };
        let mut whole = Self::default();
        for change in changes {
            whole.append(Self::between(&change.before, &change.after));
        }
        (!whole.hunks.is_empty()).then_some(whole)
    }

    fn append(&mut self, other: Self) {
        self.hunks.extend(other.hunks);
        self.added += other.added;
        self.removed += other.removed;
    }

    /// How many lines it shows.
    pub fn len(&self) -> usize {
        self.hunks.iter().map(|hunk| hunk.lines.len()).sum()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.hunks.is_empty()
    }

    /// Marks words and counts lines, once the lines are there.
    fn finished(mut self) -> Self {
        for hunk in &mut self.hunks {
            words::mark(&mut hunk.lines);
        }
        let lines = self.hunks.iter().flat_map(|hunk| &hunk.lines);
        (self.added, self.removed) =
            lines.fold((0, 0), |(added, removed), line| match line.change {
                LineChange::Kept => (added, removed),
                LineChange::Added => (added + 1, removed),
                LineChange::Removed => (added, removed + 1),
            });
        self
    }
}

impl DiffLine {
    fn new(change: LineChange, number: Option<usize>, text: &str) -> Self {
        let text = text.trim_end_matches(['\n', '\r']).to_owned();
        Self { change, number, pieces: vec![Piece { text, marked: false }] }
    }

    /// Its text in one piece.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }
}

impl LineChange {
    /// The sign in front of the line.
    pub fn sign(self) -> char {
        match self {
            Self::Kept => ' ',
            Self::Added => '+',
            Self::Removed => '-',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Diff, LineChange};

    /// A diff in short: signs, numbers, text, marks in brackets.
    fn shown(diff: &Diff) -> String {
        let mut out = String::new();
        for hunk in &diff.hunks {
            for line in &hunk.lines {
                out.push(line.change.sign());
                for piece in &line.pieces {
                    let (open, close) = if piece.marked { ("[", "]") } else { ("", "") };
                    out.extend([open, &piece.text, close]);
                }
                out.push('\n');
            }
            out.push_str("~\n");
        }
        out
    }

    fn numbered(word: &str, lines: usize) -> String {
        let lines: Vec<_> = (0..lines).map(|number| format!("{word}{number}")).collect();
        lines.join("\n") + "\n"
    }

    #[test]
    fn lines_are_compared_and_words_marked() {
        let diff = Diff::between("a\nlet x = 1;\nc\n", "a\nlet x = 2;\nc\nd\n");
        assert_eq!(shown(&diff), " a\n-let x = [1];\n+let x = [2];\n c\n+d\n~\n");
        assert_eq!((diff.added, diff.removed), (2, 1));
    }

    #[test]
    fn lines_that_share_little_are_not_marked() {
        let diff = Diff::between("one thing\n", "completely other words\n");
        assert_eq!(shown(&diff), "-one thing\n+completely other words\n~\n");
    }

    #[test]
    fn far_apart_changes_are_hunks_of_their_own() {
        let before = numbered("", 40);
        let after = before.replace("\n5\n", "\nfive\n").replace("\n30\n", "\nthirty\n");
        let diff = Diff::between(&before, &after);
        assert_eq!(diff.hunks.len(), 2);
        assert_eq!(diff.len(), 16);
    }

    #[test]
    fn nothing_changed_is_no_hunk() {
        assert!(Diff::between("a\n", "a\n").is_empty());
        assert!(Diff::between("", "").is_empty());
    }

    #[test]
    fn the_tools_own_hunks_have_the_numbers_of_the_file() {
        let patch = r#"[{"oldStart":10,"oldLines":2,"newStart":10,"newLines":2,"lines":[" keep","-old words here","+new words here","\\ No newline at end of file"]}]"#;
        let diff = Diff::from_patch(patch).unwrap();
        assert_eq!(shown(&diff), " keep\n-[old] words here\n+[new] words here\n~\n");
        let numbers: Vec<_> = diff.hunks[0].lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [Some(10), Some(11), Some(11)]);
        for odd in ["", "[]", "{}", "[1]", r#"[{"lines":5}]"#, r#"[{"oldStart":1}]"#] {
            assert_eq!(Diff::from_patch(odd), None, "{odd}");
        }
    }

    #[test]
    fn long_texts_that_share_nothing_are_shown_at_once() {
        let before = numbered("before ", 30_000);
        let after = numbered("after ", 30_000);
        let diff = Diff::between(&format!("head\n{before}tail\n"), &format!("head\n{after}tail\n"));
        assert_eq!((diff.added, diff.removed), (30_000, 30_000));
        assert_eq!(diff.hunks[0].lines[0].change, LineChange::Kept);
    }
}
