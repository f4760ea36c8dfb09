//! Invented sessions to measure with: as large as wanted, the same bytes every time.
//!
//! Three mixes, because what is fast on one may be slow on another: many small deltas, few huge
//! tool results, and both as a session at work has them.

mod line;
mod prose;
mod random;
mod session;

use std::io::{self, Write};

use session::Session;

/// What a corpus is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Token deltas: lines of about 342 bytes.
    A,
    /// Tool traffic: lines of about 41 KB, with images of up to 5 MB.
    B,
    /// A session at work: lines of about 813 bytes.
    C,
}

impl Mix {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::A, Self::B, Self::C].into_iter().find(|mix| mix.name() == name)
    }
}

/// What was written.
pub(crate) struct Written {
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
}

/// Writes whole lines until at least `bytes` are written.
pub(crate) fn write(mix: Mix, bytes: u64, out: &mut impl Write) -> io::Result<Written> {
    let mut session = Session::new(mix);
    let mut written = Written { bytes: 0, lines: 0 };
    loop {
        for line in session.turn() {
            out.write_all(line.as_bytes())?;
            out.write_all(b"\n")?;
            written.bytes += line.len() as u64 + 1;
            written.lines += 1;
            if written.bytes >= bytes {
                out.flush()?;
                return Ok(written);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{Mix, write};

    fn corpus(mix: Mix, bytes: u64) -> String {
        let mut out = Vec::new();
        let written = write(mix, bytes, &mut out).unwrap();
        assert_eq!(written.bytes, out.len() as u64);
        let out = String::from_utf8(out).unwrap();
        assert_eq!(written.lines, out.lines().count() as u64);
        out
    }

    /// The share of lines whose kind is `name`, in thousandths.
    fn share(lines: &[Value], name: &str) -> usize {
        lines.iter().filter(|line| line["type"] == name).count() * 1000 / lines.len()
    }

    fn parsed(corpus: &str) -> Vec<Value> {
        corpus.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_corpus_is_the_same_every_time() {
        for mix in [Mix::A, Mix::B, Mix::C] {
            let short = corpus(mix, 300_000);
            assert_eq!(short, corpus(mix, 300_000));
            assert!(corpus(mix, 600_000).starts_with(&short), "a longer one begins the same");
        }
    }

    #[test]
    fn token_deltas_are_short_lines_and_nearly_all_of_a() {
        let corpus = corpus(Mix::A, 2_000_000);
        let lines = parsed(&corpus);
        assert!((320..365).contains(&(corpus.len() / lines.len())));
        assert!((960..980).contains(&share(&lines, "stream_event")));
    }

    #[test]
    fn tool_traffic_is_long_lines_in_pairs_with_images() {
        let corpus = corpus(Mix::B, 16_000_000);
        let lines = parsed(&corpus);
        assert!((25_000..60_000).contains(&(corpus.len() / lines.len())));
        assert!((400..460).contains(&share(&lines, "assistant")));
        assert!((400..460).contains(&share(&lines, "user")));
        assert!(lines.iter().any(|line| {
            line["message"]["content"][0]["content"][0]["source"]["data"]
                .as_str()
                .is_some_and(|image| image.len() >= 1_000_000)
        }));
    }

    #[test]
    fn a_session_at_work_has_a_little_of_everything() {
        let corpus = corpus(Mix::C, 16_000_000);
        let lines = parsed(&corpus);
        assert!((600..1000).contains(&(corpus.len() / lines.len())));
        assert!((930..950).contains(&share(&lines, "stream_event")));
        for kind in ["system", "user", "assistant", "result"] {
            assert!(share(&lines, kind) > 0, "{kind}");
        }
    }

    #[test]
    fn text_has_escapes_and_characters_of_several_bytes() {
        let corpus = corpus(Mix::A, 300_000);
        for part in [r"\n", r"\t", r#"\"quoted\""#, r"C:\\path", r"\u001b[32m", "😀", "日本語"]
        {
            assert!(corpus.contains(part), "{part}");
        }
    }
}
