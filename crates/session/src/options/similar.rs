//! The words that someone may have meant who wrote another one.

/// A word as someone wrote it. `maxTurns`, `max-turns` and `max_turns` are the same word.
pub(super) struct WrittenWord(String);

/// The words of a list that someone may have meant, the nearest first.
pub(crate) fn similar_words<'a>(
    written: &str,
    words: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    let Some(written) = WrittenWord::new(written) else { return Vec::new() };
    let near = written.nearest(words.map(|word| (written.distance(word), word)));
    near.into_iter().map(str::to_owned).collect()
}

impl WrittenWord {
    /// None if a user cannot have meant a short word with it.
    pub(super) fn new(written: &str) -> Option<Self> {
        let normalized = normalize(written);
        (!normalized.is_empty() && normalized.len() <= 64).then_some(Self(normalized))
    }

    /// How far it is from another word.
    pub(super) fn distance(&self, word: &str) -> usize {
        let word = normalize(word);
        let contained = word.contains(&self.0) || self.0.contains(&word);
        let distance = edit_distance(&word, &self.0);
        if contained { distance.min(1) } else { distance }
    }

    /// Those of some words with their distances that are near, the nearest first.
    pub(super) fn nearest<'a>(
        &self,
        words: impl Iterator<Item = (usize, &'a str)>,
    ) -> Vec<&'a str> {
        let near = 1 + self.0.len() / 4;
        let mut similar: Vec<_> = words.filter(|(distance, _)| *distance <= near).collect();
        similar.sort_unstable();
        similar.into_iter().map(|(_, word)| word).take(3).collect()
    }
}

fn normalize(word: &str) -> String {
    let letters = word.chars().filter(char::is_ascii_alphanumeric).take(65);
    letters.map(|it| it.to_ascii_lowercase()).collect()
}

/// How many letters must be inserted, removed or replaced to get from one word to the other.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, left) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, right) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
