//! The random words, files and images that the lines of a session contain.

use std::fmt::Write as _;

const WORDS: &[&str] = &[
    "the", "file", "function", "returns", "error", "value", "test", "update", "config", "parse",
    "stream", "event", "session", "token", "client", "server", "path", "buffer", "async", "await",
    "result", "option", "string", "vector", "match", "struct", "impl", "pub", "use", "crate",
    "self", "mut", "let", "const", "type",
];
const MULTI_BYTE: &[&str] = &[
    "naïve",
    "日本語",
    "ツール",
    "実行",
    "→",
    "✓",
    "😀",
    "Straße",
    "données",
    "“quoted”",
    "файл",
    "—",
    "…",
    "结果",
    "é",
];
const NEED_ESCAPES: &[&str] = &[
    "\n",
    "\n\n",
    "\t",
    "\"quoted\"",
    r"C:\path\x",
    "\n    ",
    "\u{1b}[32mok\u{1b}[0m",
    "</div>",
    r"\n",
    "`code`",
    "\r\n",
];
const BASE64: [char; 64] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut chars = ['\0'; 64];
    let mut n = 0;
    while n < 64 {
        chars[n] = alphabet[n] as char;
        n += 1;
    }
    chars
};

/// How many characters of base64 there are to take images from.
const IMAGE_POOL: usize = 8_000_000;

/// Prepared text that files and images are taken from. Generating each of them would make the corpus
/// slow to write.
pub(super) struct CorpusText {
    code: Vec<String>,
    images: String,
}

impl CorpusText {
    pub(super) fn new(random: &mut CorpusRandom) -> Self {
        Self { code: (0..64).map(|_| words(random, 400)).collect(), images: String::new() }
    }

    /// About `size` bytes of a file with numbered lines, as Claude Code's tools print it.
    pub(super) fn file(&self, random: &mut CorpusRandom, size: usize) -> String {
        let mut file = String::with_capacity(size + 100);
        for line in 1.. {
            if file.len() >= size {
                break;
            }
            let code = &self.code[random.between(0, self.code.len())];
            let start = code.floor_char_boundary(random.between(0, code.len() - 100));
            let end = code.floor_char_boundary(start + random.between(12, 100));
            let _ = writeln!(file, "{line:6}→{}", &code[start..end]);
        }
        file
    }

    /// Base64 of a picture of 1 to 5 MB.
    pub(super) fn image(&mut self, random: &mut CorpusRandom) -> &str {
        while self.images.len() < IMAGE_POOL {
            let bits = random.bits();
            self.images.extend(bits.to_le_bytes().map(|byte| BASE64[usize::from(byte % 64)]));
        }
        let length = random.between(1_000_000, 5_000_000) / 4 * 4;
        let start = random.between(0, IMAGE_POOL - length) / 4 * 4;
        &self.images[start..start + length]
    }
}

/// `count` words, some of them with characters that JSON escapes or that take several bytes.
pub(super) fn words(random: &mut CorpusRandom, count: usize) -> String {
    let mut text = String::with_capacity(count * 7);
    for n in 0..count {
        if n > 0 {
            text.push(' ');
        }
        text.push_str(match random.between(0, 100) {
            0..5 => random.pick(MULTI_BYTE),
            5..11 => random.pick(NEED_ESCAPES),
            _ => random.pick(WORDS),
        });
    }
    text
}

/// The path of a source file.
pub(super) fn path(random: &mut CorpusRandom) -> String {
    let folder = random.pick(WORDS);
    let name = random.pick(&["main", "lib", "日本語", "é_mod"]);
    format!("/home/dev/proj/src/{folder}/{name}{}.rs", random.between(0, 400))
}

/// The id of a tool call.
pub(super) fn tool_use_id(random: &mut CorpusRandom) -> String {
    let alphabet = b"ABCDEFGHJKMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";
    "toolu_01".chars().chain((0..22).map(|_| char::from(random.pick(alphabet)))).collect()
}

/// `text` as a JSON string, written as JavaScript's `JSON.stringify` writes it.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8 + 2);
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|char: char| char < ' ' || char == '"' || char == '\\') {
        let (run, special) = rest.split_at(at);
        out.push_str(run);
        match special.as_bytes()[0] {
            b'\n' => out.push_str(r"\n"),
            b'\r' => out.push_str(r"\r"),
            b'\t' => out.push_str(r"\t"),
            byte @ (b'"' | b'\\') => out.extend(['\\', char::from(byte)]),
            byte => {
                let _ = write!(out, "\\u{byte:04x}");
            }
        }
        rest = &special[1..];
    }
    out.push_str(rest);
    out.push('"');
    out
}

/// A seeded `SplitMix64` generator: the same numbers on every machine and with every release of Rust.
pub(super) struct CorpusRandom(u64);

impl CorpusRandom {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn half(&mut self) -> u32 {
        u32::try_from(self.bits() >> 32).unwrap_or_default()
    }

    /// From 0 up to, not including, 1.
    pub(super) fn unit(&mut self) -> f64 {
        f64::from(self.half()) / 4_294_967_296.0
    }

    /// From `low` up to, not including, `high`.
    pub(super) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.half() as usize % (high - low)
    }

    /// From `low` to `low` × `times`, with equal probability for each order of magnitude.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes of lines are far below the limits and never negative"
    )]
    pub(super) fn magnitude(&mut self, low: f64, times: f64) -> usize {
        (low * times.powf(self.unit())) as usize
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.between(0, choices.len())]
    }

    /// A random UUID, as text.
    pub(super) fn uuid(&mut self) -> String {
        let (high, low) = (self.bits(), self.bits());
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0xfff,
            low & 0xffff_ffff_ffff
        )
    }
}
