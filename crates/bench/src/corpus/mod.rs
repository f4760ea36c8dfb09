//! Invented sessions to measure with: of any size, and the same bytes every time.
//!
//! There are three, because code that is fast on one may be slow on another: many small deltas, few
//! very large tool results, and a mix of both as a real session has.

mod session;
mod text;

use std::io::{self, Write};

use session::CorpusSession;

/// What the lines of a corpus are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Corpus {
    /// Token deltas: lines of about 342 bytes.
    A,
    /// Tool calls: lines of about 41 KB, with images of up to 5 MB.
    B,
    /// A mix as in a real session: lines of about 813 bytes.
    C,
}

/// How much was written.
pub(crate) struct CorpusSize {
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
}

impl Corpus {
    pub(crate) const ALL: [Self; 3] = [Self::A, Self::B, Self::C];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|corpus| corpus.name() == name)
    }

    /// Writes whole lines until at least `bytes` are written.
    pub(crate) fn write(self, bytes: u64, out: &mut impl Write) -> io::Result<CorpusSize> {
        let mut session = CorpusSession::new(self);
        let mut size = CorpusSize { bytes: 0, lines: 0 };
        loop {
            for line in session.turn() {
                out.write_all(line.as_bytes())?;
                out.write_all(b"\n")?;
                size.bytes += line.len() as u64 + 1;
                size.lines += 1;
                if size.bytes >= bytes {
                    out.flush()?;
                    return Ok(size);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::Corpus;

    fn corpus(corpus: Corpus, bytes: u64) -> String {
        let mut out = Vec::new();
        let size = corpus.write(bytes, &mut out).unwrap();
        assert_eq!(size.bytes, out.len() as u64);
        let out = String::from_utf8(out).unwrap();
        assert_eq!(size.lines, out.lines().count() as u64);
        out
    }

    /// The share of lines of type `name`, in thousandths.
    fn share(lines: &[Value], name: &str) -> usize {
        lines.iter().filter(|line| line["type"] == name).count() * 1000 / lines.len()
    }

    fn parsed(corpus: &str) -> Vec<Value> {
        corpus.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_corpus_is_the_same_every_time() {
        for kind in [Corpus::A, Corpus::B, Corpus::C] {
            let short = corpus(kind, 300_000);
            assert_eq!(short, corpus(kind, 300_000));
            assert!(
                corpus(kind, 600_000).starts_with(&short),
                "a longer one starts with the same bytes"
            );
        }
    }

    #[test]
    fn corpus_a_is_short_lines_nearly_all_of_them_token_deltas() {
        let corpus = corpus(Corpus::A, 2_000_000);
        let lines = parsed(&corpus);
        assert!((320..365).contains(&(corpus.len() / lines.len())));
        assert!((960..980).contains(&share(&lines, "stream_event")));
    }

    #[test]
    fn corpus_b_is_long_lines_in_pairs_with_images() {
        let corpus = corpus(Corpus::B, 16_000_000);
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
    fn corpus_c_has_every_kind_of_line() {
        let corpus = corpus(Corpus::C, 16_000_000);
        let lines = parsed(&corpus);
        assert!((600..1000).contains(&(corpus.len() / lines.len())));
        assert!((930..950).contains(&share(&lines, "stream_event")));
        for kind in ["system", "user", "assistant", "result"] {
            assert!(share(&lines, kind) > 0, "{kind}");
        }
    }

    #[test]
    fn text_has_escapes_and_multi_byte_characters() {
        let corpus = corpus(Corpus::A, 300_000);
        for part in [r"\n", r"\t", r#"\"quoted\""#, r"C:\\path", r"\u001b[32m", "😀", "日本語"]
        {
            assert!(corpus.contains(part), "{part}");
        }
    }
}
