//! Two texts as the hunks of a patch: removed lines before added ones, three lines around them.

use serde_json::{Value, json};

const AROUND: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// The `structuredPatch` of a change.
pub(crate) fn hunks(before: &str, after: &str) -> Value {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let lines = difference(&old, &new);
    let changes: Vec<usize> =
        (0..lines.len()).filter(|place| !matches!(lines[*place], Line::Same(_))).collect();
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    for place in changes {
        let (from, to) = (place.saturating_sub(AROUND), (place + AROUND + 1).min(lines.len()));
        match hunks.last_mut() {
            Some((_, end)) if *end >= from => *end = to,
            _ => hunks.push((from, to)),
        }
    }
    hunks.into_iter().map(|(from, to)| hunk(&lines, from, to)).collect()
}

fn hunk(lines: &[Line<'_>], from: usize, to: usize) -> Value {
    let count = |lines: &[Line<'_>], old: bool| {
        let counts = |line: &&Line<'_>| match line {
            Line::Same(_) => true,
            Line::Removed(_) => old,
            Line::Added(_) => !old,
        };
        lines.iter().filter(counts).count()
    };
    let texts: Vec<String> = lines[from..to]
        .iter()
        .map(|line| match line {
            Line::Same(text) => format!(" {text}"),
            Line::Removed(text) => format!("-{text}"),
            Line::Added(text) => format!("+{text}"),
        })
        .collect();
    json!({
        "oldStart": count(&lines[..from], true) + 1, "oldLines": count(&lines[from..to], true),
        "newStart": count(&lines[..from], false) + 1, "newLines": count(&lines[from..to], false),
        "lines": texts,
    })
}

/// The lines of both texts, by their longest common subsequence; beyond a size only what they share
/// at both ends counts as the same.
fn difference<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let head = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let rest = old.len().min(new.len()) - head;
    let ends = old.iter().rev().zip(new.iter().rev()).take(rest);
    let tail = ends.take_while(|(one, other)| one == other).count();
    let (middle_old, middle_new) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut lines: Vec<Line<'a>> = old[..head].iter().map(|line| Line::Same(line)).collect();
    if middle_old.len() * middle_new.len() > 4_000_000 {
        lines.extend(middle_old.iter().map(|line| Line::Removed(line)));
        lines.extend(middle_new.iter().map(|line| Line::Added(line)));
    } else {
        lines.extend(common(middle_old, middle_new));
    }
    lines.extend(old[old.len() - tail..].iter().map(|line| Line::Same(line)));
    lines
}

fn common<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    for one in (0..old.len()).rev() {
        for other in (0..new.len()).rev() {
            lengths[one * width + other] = if old[one] == new[other] {
                lengths[(one + 1) * width + other + 1] + 1
            } else {
                lengths[(one + 1) * width + other].max(lengths[one * width + other + 1])
            };
        }
    }
    let (mut one, mut other) = (0, 0);
    let (mut lines, mut added) = (Vec::new(), Vec::new());
    while one < old.len() || other < new.len() {
        if one < old.len() && other < new.len() && old[one] == new[other] {
            lines.append(&mut added);
            lines.push(Line::Same(old[one]));
            (one, other) = (one + 1, other + 1);
        } else if one < old.len()
            && (other == new.len()
                || lengths[(one + 1) * width + other] >= lengths[one * width + other + 1])
        {
            lines.push(Line::Removed(old[one]));
            one += 1;
        } else {
            added.push(Line::Added(new[other]));
            other += 1;
        }
    }
    lines.append(&mut added);
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::hunks;

    #[test]
    fn patches_are_those_of_2_1_325() {
        let one = json!([{"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3,
            "lines": ["-a", " b", "-a", "+b", "+b"]}]);
        assert_eq!(hunks("a\nb\na\n", "b\nb\nb\n"), one);
        let numbers: Vec<String> = (1..=10).map(|number| format!("line {number}")).collect();
        let many = numbers.join("\n") + "\n";
        let two = json!([{"oldStart": 2, "oldLines": 7, "newStart": 2, "newLines": 8, "lines": [
            " line 2", " line 3", " line 4", "-line 5", "+LINE five", "+and more", " line 6",
            " line 7", " line 8"]}]);
        assert_eq!(hunks(&many, &many.replace("line 5", "LINE five\nand more")), two);
        let fresh = json!([{"oldStart": 1, "oldLines": 0, "newStart": 1, "newLines": 2,
            "lines": ["+made", "+by edit"]}]);
        assert_eq!(hunks("", "made\nby edit\n"), fresh);
    }
}
