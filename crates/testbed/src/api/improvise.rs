//! Answers where nobody wrote one: short, sensible, and the same every time.

use super::request::Newest;

/// As much of someone's words as is worth repeating.
const QUOTED: usize = 200;

/// What to say to the newest message.
pub(super) fn answer(newest: &Newest) -> String {
    match (newest.results.as_slice(), newest.typed.trim()) {
        ([], "") => "I see no words in that, but I am here.".to_owned(),
        ([], typed) => format!(
            "You said: “{}”. I am a stand-in for the model, and that is all I know about it.",
            quote(typed)
        ),
        ([result], _) if result.trim().is_empty() => {
            "The tool is done and had nothing to say.".to_owned()
        }
        ([result], _) => format!("The tool answered: “{}”. That is all I wanted.", quote(result)),
        (results, _) => {
            let quoted = results.iter().map(|result| format!("\n- “{}”", quote(result)));
            format!("{} tools answered:{}", results.len(), quoted.collect::<String>())
        }
    }
}

/// The words on one line, shortened.
fn quote(words: &str) -> String {
    // A prompt may be megabytes long, and only its beginning is repeated.
    let beginning = words.char_indices().nth(8 * QUOTED).map_or(words, |(end, _)| &words[..end]);
    let line = beginning.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::{Newest, answer};

    #[test]
    fn it_answers_to_what_was_said_or_seen() {
        let cases: &[(&str, &[&str], &str)] = &[
            ("what is\n this?", &[], "You said: “what is this?”."),
            ("", &[], "I see no words"),
            ("", &["remember the milk"], "The tool answered: “remember the milk”."),
            ("", &[" "], "The tool is done"),
            ("", &["one", "two"], "2 tools answered:\n- “one”\n- “two”"),
        ];
        for (typed, results, expected) in cases {
            let results = results.iter().map(ToString::to_string).collect();
            let newest = Newest { typed: (*typed).to_owned(), results };
            let text = answer(&newest);
            assert!(text.starts_with(expected), "{text}");
        }
        let long = Newest { typed: "ö ".repeat(500), results: Vec::new() };
        assert!(answer(&long).contains("ö…”") && answer(&long).chars().count() < 300);
    }
}
