//! An invented home of the CLI: session files of realistic sizes, with words as often as in real text.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uuid::Uuid;

/// Different words. The most frequent ones are in almost every line.
const WORDS: usize = 60_000;
const PROJECTS: usize = 40;

/// A session of weeks.
const LARGE_BYTES: usize = 100_000_000;

/// A home with session files.
pub(crate) struct TranscriptHome {
    /// `$CLAUDE_CONFIG_DIR`.
    pub(crate) config: PathBuf,
    /// A session file of 100 MB, which is not in the home.
    pub(crate) large: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) files: usize,
}

impl TranscriptHome {
    /// Writes so many files with about so many bytes together, unless they are there.
    pub(crate) fn write(directory: &Path, files: usize, megabytes: u64) -> io::Result<Self> {
        let config = directory.join(format!("claude-{megabytes}mb"));
        let large = directory.join(format!("{}.jsonl", id(files)));
        let done = config.join("written");
        let vocabulary = Vocabulary::new();
        if !done.exists() {
            eprintln!("bench: writing {megabytes} MB to {}", config.display());
            let average = usize::try_from(megabytes).unwrap_or(0) * 1_000_000 / files.max(1);
            for number in 0..files {
                let folder = format!("projects/-home-dev-project-{}", number % PROJECTS);
                let folder = config.join(folder);
                fs::create_dir_all(&folder)?;
                // Half of the sessions are short, and one in fifty is ten times as long as the average.
                let bytes = match number % 50 {
                    0 => 10 * average,
                    it if it % 2 == 0 => average / 10,
                    _ => average * 3 / 2,
                };
                let path = folder.join(format!("{}.jsonl", id(number)));
                write_session(&path, &vocabulary, number, bytes)?;
            }
            // Written last: an interrupted run starts again.
            File::create(&done)?;
        }
        if !large.exists() {
            let partial = large.with_extension("partial");
            write_session(&partial, &vocabulary, files, LARGE_BYTES)?;
            fs::rename(partial, &large)?;
        }
        let mut bytes = 0;
        for folder in fs::read_dir(config.join("projects"))? {
            for file in fs::read_dir(folder?.path())? {
                bytes += file?.metadata()?.len();
            }
        }
        Ok(Self { config, large, bytes, files })
    }

    /// Queries as a user would type them: words of all frequencies, beginnings of words and phrases.
    pub(crate) fn queries(count: usize) -> Vec<String> {
        let (vocabulary, mut random) = (Vocabulary::new(), Random(7));
        let query = |number: usize| {
            let word = |random: &mut Random| vocabulary.word(random).to_owned();
            match number % 5 {
                0 => word(&mut random),
                1 => format!("{} {}", word(&mut random), word(&mut random)),
                2 => word(&mut random).chars().take(3).collect(),
                3 => format!("\"{} {}\"", word(&mut random), word(&mut random)),
                _ => {
                    let last: String = word(&mut random).chars().take(2).collect();
                    format!("{} {} {last}", word(&mut random), word(&mut random))
                }
            }
        };
        (0..count).map(query).collect()
    }
}

fn id(number: usize) -> Uuid {
    Uuid::from_u128(0x0f0c_5d2e_58d1_4d1c_9f6c_0000_0000_0000 + number as u128)
}

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap_or(0) % end.max(1)
    }

    /// Small numbers are as likely as large ones, by their orders of magnitude.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the numbers are small"
    )]
    fn scaled(&mut self, end: usize) -> usize {
        let part = self.below(1 << 20) as f64 / f64::from(1 << 20);
        ((end as f64).powf(part) as usize).saturating_sub(1).min(end - 1)
    }
}

/// Invented words.
struct Vocabulary(Vec<String>);

impl Vocabulary {
    fn new() -> Self {
        const SYLLABLES: [&str; 40] = [
            "con", "fig", "re", "ta", "ble", "par", "se", "str", "ing", "er", "ror", "val", "ue",
            "in", "dex", "no", "de", "list", "map", "get", "set", "do", "ne", "run", "ner", "que",
            "ry", "time", "out", "buf", "fer", "log", "ger", "is", "a", "the", "of", "to", "ap",
            "ply",
        ];
        let mut random = Random(1);
        let word = |number: usize| {
            // Frequent words are short.
            let count = 1 + usize::from(number > 30) + usize::from(number > 800) + random.below(2);
            let syllables = (0..count).map(|_| SYLLABLES[random.below(SYLLABLES.len())]);
            let mut word: String = syllables.collect();
            if number > 20_000 {
                let _ = write!(word, "{}", number % 977);
            }
            word
        };
        Self((0..WORDS).map(word).collect())
    }

    /// A word; the frequencies are those of natural text.
    fn word(&self, random: &mut Random) -> &str {
        &self.0[random.scaled(WORDS)]
    }

    fn prose(&self, random: &mut Random, words: usize) -> String {
        let mut text = String::new();
        for number in 0..words {
            text.push_str(self.word(random));
            text.push_str(if number % 11 == 10 { ".\n" } else { " " });
        }
        text
    }

    /// Lines of code or of a log: names, numbers, paths and hashes.
    fn output(&self, random: &mut Random, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 100);
        let mut line = 0;
        while text.len() < bytes {
            line += 1;
            let (one, two) = (self.word(random).to_owned(), self.word(random).to_owned());
            let three = self.word(random);
            let number = random.next() % 10_000;
            let _ = match line % 8 {
                0 => writeln!(text, "src/{one}/{two}.rs:{number}: {three}"),
                1 => writeln!(text, "{:012x} {one} {two}", random.next() * 7_919),
                _ => writeln!(text, "{line:6}→    let {one}_{two} = {three}({number});"),
            };
        }
        text
    }
}

/// Writes a session of about so many bytes: prompts, calls with results, and answers.
fn write_session(path: &Path, words: &Vocabulary, number: usize, bytes: usize) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut random = Random(number as u64 + 17);
    let session = path.file_stem().map(|it| it.to_string_lossy().into_owned());
    let (mut written, mut line, mut parent, mut round) = (0, 0_u128, None, 0_usize);
    while written < bytes {
        round += 1;
        let mut put = |kind: &str, message: Value| -> io::Result<()> {
            line += 1;
            let uuid = Uuid::from_u128((number as u128) << 64 | line);
            let second = number * 6_000 + usize::try_from(line).unwrap_or(0) * 7;
            let (day, hour) = (second / 86_400 % 28 + 1, second / 3_600 % 24);
            let month = second / 2_419_200 % 12 + 1;
            let (minute, second) = (second / 60 % 60, second % 60);
            let text = json!({"parentUuid": parent, "isSidechain": false, "type": kind,
                "message": message, "uuid": uuid,
                "timestamp": format!("2025-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.026Z"),
                "cwd": format!("/home/dev/project/{}", number % PROJECTS), "sessionId": session,
                "version": "2.1.260", "gitBranch": "main"})
            .to_string();
            parent = Some(uuid);
            written += text.len() + 1;
            writeln!(file, "{text}")
        };
        let call = format!("toolu_{number}_{round}");
        let length = 5 + random.below(40);
        put("user", json!({"role": "user", "content": words.prose(&mut random, length)}))?;
        let usage =
            json!({"input_tokens": 3, "cache_read_input_tokens": 5000, "output_tokens": 90});
        let said = |id: usize, content: Value| {
            json!({"id": format!("msg_{number}_{round}_{id}"), "role": "assistant",
                "model": "claude-opus-5", "usage": usage, "content": content})
        };
        let command = words.prose(&mut random, 6);
        let input = json!([{"type": "tool_use", "id": call, "name": "Bash",
            "input": {"command": command}}]);
        put("assistant", said(1, input))?;
        let size = 200 + random.scaled(30_000);
        let output = words.output(&mut random, size);
        put(
            "user",
            json!({"role": "user", "content": [{"type": "tool_result",
            "tool_use_id": call, "content": output}]}),
        )?;
        let length = 20 + random.below(200);
        let text = json!([{"type": "text", "text": words.prose(&mut random, length)}]);
        put("assistant", said(2, text))?;
    }
    file.flush()
}
