//! Which words differ between a line that was taken out and the one put in for it.

use similar::{ChangeTag, TextDiff};

use super::{DiffLine, LineChange, Piece};

/// Lines beyond this many bytes are not compared word by word.
const LONGEST: usize = 400;

/// A pair of which less than this part is the same is two lines, not one line changed.
const ALIKE: f32 = 0.5;
const MUCH_ALIKE: f32 = 0.7;

/// Marks what differs in lines that follow each other as old and new.
///
/// The first line out is compared with the first one in, and so on. Which belongs to which is a
/// guess where more came in than went out, so those must be more alike to be marked.
pub(super) fn mark(lines: &mut [DiffLine]) {
    let mut at = 0;
    while at < lines.len() {
        let run = |from: usize, change: LineChange, lines: &[DiffLine]| {
            lines[from..].iter().take_while(|line| line.change == change).count()
        };
        let removed = run(at, LineChange::Removed, lines);
        let added = run(at + removed, LineChange::Added, lines);
        let least = if removed == added { ALIKE } else { MUCH_ALIKE };
        let (old, new) = lines[at..at + removed + added].split_at_mut(removed);
        for (old, new) in old.iter_mut().zip(new) {
            mark_pair(old, new, least);
        }
        at += (removed + added).max(1);
    }
}

fn mark_pair(old: &mut DiffLine, new: &mut DiffLine, least: f32) {
    let (before, after) = (old.text(), new.text());
    if before.len() > LONGEST || after.len() > LONGEST {
        return;
    }
    let (old_words, new_words) = (words(&before), words(&after));
    let diff = TextDiff::from_slices(&old_words, &new_words);
    if diff.ratio() < least {
        return;
    }
    old.pieces.clear();
    new.pieces.clear();
    for change in diff.iter_all_changes() {
        let text = change.value();
        match change.tag() {
            ChangeTag::Equal => {
                add(&mut old.pieces, text, false);
                add(&mut new.pieces, text, false);
            }
            ChangeTag::Delete => add(&mut old.pieces, text, true),
            ChangeTag::Insert => add(&mut new.pieces, text, true),
        }
    }
}

/// Names, runs of blanks, and every other character by itself.
fn words(line: &str) -> Vec<&str> {
    let sort = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 1,
        c if c.is_whitespace() => 2,
        _ => 0,
    };
    let mut words = Vec::new();
    let mut start = 0;
    let mut last = 0;
    for (at, c) in line.char_indices() {
        if at > start && (sort(c) != last || last == 0) {
            words.push(&line[start..at]);
            start = at;
        }
        last = sort(c);
    }
    if start < line.len() {
        words.push(&line[start..]);
    }
    words
}

fn add(pieces: &mut Vec<Piece>, text: &str, marked: bool) {
    match pieces.last_mut() {
        Some(last) if last.marked == marked => last.text.push_str(text),
        _ => pieces.push(Piece { text: text.to_owned(), marked }),
    }
}
