//! Words, files and images: what the lines of a session are filled with.

use std::fmt::Write as _;

use super::random::Random;

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

/// Characters of base64 that images are cut from.
const IMAGE_POOL: usize = 8_000_000;

/// A stock of text to cut from: writing every file afresh would make the corpus slow to write.
pub(super) struct Prose {
    code: Vec<String>,
    images: String,
}

impl Prose {
    pub(super) fn new(random: &mut Random) -> Self {
        Self { code: (0..64).map(|_| words(random, 400)).collect(), images: String::new() }
    }

    /// About `size` bytes of a file with numbered lines, as the agent's tools print it.
    pub(super) fn file(&self, random: &mut Random, size: usize) -> String {
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
    pub(super) fn image(&mut self, random: &mut Random) -> &str {
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
pub(super) fn words(random: &mut Random, count: usize) -> String {
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
pub(super) fn path(random: &mut Random) -> String {
    let folder = random.pick(WORDS);
    let name = random.pick(&["main", "lib", "日本語", "é_mod"]);
    format!("/home/dev/proj/src/{folder}/{name}{}.rs", random.between(0, 400))
}

/// The id of a tool call.
pub(super) fn tool_use_id(random: &mut Random) -> String {
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
