//! A conversation with an agent as lines of text that are the same in every run, to compare versions.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::normalizer::{VerifyNormalizer, type_first};
use super::result_store::text_digest;
use super::{VerifyAgent, VerifyDirection, VerifyResult};
use crate::api::ApiRequestKind;

/// What was written to an agent, what it printed, and what it asked of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyConversation {
    lines: Vec<String>,
}

/// The fields of a request that are left out: they are long, and hardly anything depends on them.
const LONG_FIELDS: [&str; 3] = ["system", "tools", "metadata"];

impl VerifyConversation {
    /// The conversation of a run. Ids are numbered, and paths, times and the agent's own version are
    /// replaced.
    pub fn of(result: &VerifyResult, agent: &VerifyAgent) -> Self {
        let normalizer = VerifyNormalizer::new(&result.variables);
        let version = agent.version.to_string();
        let line = |sign: &str, value: &Value| {
            let value = type_first(&normalizer.value(value));
            format!("{sign} {value}").replace(&version, "$version")
        };
        let entries = result.capture.entries.iter().map(|entry| match entry.direction {
            VerifyDirection::Input => line("←", &entry.value),
            VerifyDirection::Output => line("→", &entry.value),
            VerifyDirection::Action => format!("· {}", normalizer.text(&entry.text)),
        });
        let mut lines: Vec<String> = entries.collect();
        let requests = result.capture.requests.iter().filter(|it| it.kind == ApiRequestKind::Main);
        lines.extend(requests.map(|request| line("api", &short_request(&request.body))));
        let exits = result.capture.processes.iter().filter_map(|process| process.exit.as_ref());
        lines.extend(exits.map(|exit| format!("· {exit}")));
        Self { lines }
    }

    /// Reads what `to_text` has written.
    pub fn from_text(text: &str) -> Self {
        Self { lines: text.lines().map(str::to_owned).collect() }
    }

    /// All lines, each with a newline.
    pub fn to_text(&self) -> String {
        self.lines.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{line}");
            text
        })
    }

    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// A digest of all lines.
    pub fn digest(&self) -> String {
        text_digest(&self.to_text())
    }
}

fn short_request(body: &Value) -> Value {
    let Value::Object(fields) = body else { return body.clone() };
    let fields = fields.iter().filter(|(key, _)| !LONG_FIELDS.contains(&key.as_str()));
    Value::Object(fields.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>())
}

/// How many equal lines are shown before and after different ones.
const CONTEXT: usize = 2;

/// Two conversations in two columns of this many characters. Lines that differ are marked, and longer
/// stretches of equal lines are left out.
pub fn side_by_side(
    (left_title, left): (&str, &VerifyConversation),
    (right_title, right): (&str, &VerifyConversation),
    width: usize,
) -> String {
    let rows = align(&left.lines, &right.lines);
    let mut text = String::new();
    let mut row = |left: &str, mark: char, right: &str| {
        let _ = writeln!(text, "{}", format!("{left:<width$} {mark} {right}").trim_end());
    };
    row(left_title, ' ', right_title);
    let mut omitted = 0;
    for (index, (one, other)) in rows.iter().enumerate() {
        let near = index.saturating_sub(CONTEXT)..rows.len().min(index + CONTEXT + 1);
        if rows[near].iter().all(|(one, other)| one == other) {
            omitted += 1;
            continue;
        }
        write_omitted(&mut row, &mut omitted);
        let (one, other) = (one.unwrap_or_default(), other.unwrap_or_default());
        let from = first_difference(one, other);
        let (mark, from) = if one == other { (' ', 0) } else { ('|', from) };
        row(&window(one, from, width), mark, &window(other, from, width));
    }
    write_omitted(&mut row, &mut omitted);
    text
}

fn write_omitted(row: &mut impl FnMut(&str, char, &str), omitted: &mut usize) {
    if *omitted > 0 {
        let lines = if *omitted == 1 { "line" } else { "lines" };
        row(&format!("  … {omitted} equal {lines}"), ' ', "");
        *omitted = 0;
    }
}

/// The number of characters that two texts start with in common.
fn first_difference(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
}

/// The part of a text that a column shows, so that the character at `from` is in it.
fn window(text: &str, from: usize, width: usize) -> String {
    // The start of the line says what it is, and some characters before the difference what it is in.
    let (kind_length, before) = (width / 3, width / 6);
    let length = text.chars().count();
    let skip = if from + before < width { 0 } else { from.min(length).saturating_sub(before) };
    let kind: String = text.chars().take(if skip > 0 { kind_length } else { 0 }).collect();
    let start = if skip > 0 { format!("{kind}…") } else { String::new() };
    let room = width.saturating_sub(start.chars().count());
    let rest = text.chars().skip(skip);
    if length - skip.min(length) > room {
        let cut: String = rest.take(room.saturating_sub(1)).collect();
        return format!("{start}{cut}…");
    }
    format!("{start}{}", rest.collect::<String>())
}

type AlignedRow<'a> = (Option<&'a str>, Option<&'a str>);

/// Pairs the lines of both sides, with the longest common subsequence of equal lines. Different lines
/// between two equal ones are paired in order, those of the same kind first.
fn align<'a>(left: &'a [String], right: &'a [String]) -> Vec<AlignedRow<'a>> {
    // `common[i][j]` is the number of equal lines of `left[i..]` and `right[j..]`.
    let mut common = vec![vec![0_usize; right.len() + 1]; left.len() + 1];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            common[i][j] = if left[i] == right[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut rows = Vec::new();
    while i < left.len() || j < right.len() {
        match (left.get(i), right.get(j)) {
            (Some(one), Some(other)) if one == other || same_kind(one, other, &common, (i, j)) => {
                rows.push((Some(one.as_str()), Some(other.as_str())));
                i += 1;
                j += 1;
            }
            (Some(one), other) if other.is_none() || common[i + 1][j] >= common[i][j + 1] => {
                rows.push((Some(one.as_str()), None));
                i += 1;
            }
            (_, Some(other)) => {
                rows.push((None, Some(other.as_str())));
                j += 1;
            }
            (_, None) => break,
        }
    }
    rows
}

/// Whether two different lines start alike, and pairing them costs no pair of equal lines.
fn same_kind(one: &str, other: &str, common: &[Vec<usize>], (i, j): (usize, usize)) -> bool {
    /// Enough for the direction and the type of a line.
    const START: usize = 20;
    first_difference(one, other) >= START && common[i + 1][j + 1] == common[i][j]
}

#[cfg(test)]
mod tests {
    use super::{VerifyConversation, side_by_side};

    #[test]
    fn different_lines_are_shown_beside_each_other_with_some_context() {
        let left = "· started\na\nb\nc\n→ {\"type\":\"assistant\",\"text\":\"one\"}\n→ {\"type\":\"result\"}\n";
        let right = "· started\na\nb\nc\n→ {\"type\":\"assistant\",\"text\":\"two\"}\n→ {\"type\":\"status\"}\n→ {\"type\":\"result\"}\n";
        let conversations = [left, right].map(VerifyConversation::from_text);
        let text = side_by_side(("2.1.1", &conversations[0]), ("2.1.2", &conversations[1]), 40);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[0].split_whitespace().collect::<Vec<_>>(), ["2.1.1", "2.1.2"]);
        assert_eq!(rows[1], "  … 2 equal lines");
        assert_eq!(rows[2].split_whitespace().collect::<Vec<_>>(), ["b", "b"]);
        let (one, other) = rows[4].split_once(" | ").unwrap();
        assert!(one.contains("one") && other.contains("two"), "{text}");
        assert_eq!(rows[5].trim_start(), "| → {\"type\":\"status\"}");
        assert_eq!(rows[6].matches("result").count(), 2);
        assert_eq!(rows.len(), 7);
        assert_eq!(conversations[0].to_text(), left);
        assert_ne!(conversations[0].digest(), conversations[1].digest());
    }

    #[test]
    fn a_late_difference_in_a_long_line_is_visible() {
        let long =
            |end: &str| format!("→ {{\"type\":\"system\",\"x\":\"{}{end}\"}}\n", "y".repeat(200));
        let conversations = [long("old"), long("new")].map(|it| VerifyConversation::from_text(&it));
        let text = side_by_side(("a", &conversations[0]), ("b", &conversations[1]), 60);
        let row = text.lines().nth(1).unwrap();
        assert!(row.contains("old") && row.contains("new") && row.contains("system"), "{text}");
    }
}
