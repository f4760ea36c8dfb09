//! A session that never ends: which lines follow each other, and how large they are.

use super::Mix;
use super::line::Ids;
use super::prose::{self, Prose, quoted, words};
use super::random::Random;

/// An invented session of one mix.
pub(super) struct Session {
    mix: Mix,
    random: Random,
    prose: Prose,
    id: String,
    lines: Vec<String>,
}

/// How large what a tool reads and writes is.
#[derive(Clone, Copy)]
enum Load {
    /// A few kilobytes.
    Light,
    /// 1 to 200 KB, and now and then an image.
    Heavy,
}

impl Load {
    fn size(self, random: &mut Random, light: usize) -> usize {
        match self {
            Self::Light => light,
            Self::Heavy => random.magnitude(1000.0, 200.0),
        }
    }
}

impl Session {
    pub(super) fn new(mix: Mix) -> Self {
        // Images are few and huge, so the mean line depends on luck: with these seeds it is the
        // one given at `Mix`, at 200 MB.
        let mut random = Random::new(match mix {
            Mix::A => 1,
            Mix::B => 4,
            Mix::C => 6,
        });
        let prose = Prose::new(&mut random);
        let id = random.uuid();
        Self { mix, random, prose, id, lines: Vec::new() }
    }

    /// The lines of its next turn, from `system/init` to `result`.
    pub(super) fn turn(&mut self) -> std::vec::Drain<'_, String> {
        self.say(Ids::init);
        match self.mix {
            Mix::A => {
                for _ in 0..4 {
                    self.message(30, 90);
                }
                self.tool_call(Load::Light);
            }
            Mix::B => {
                for _ in 0..self.random.between(3, 12) {
                    self.tool_call(Load::Heavy);
                }
            }
            Mix::C => {
                let prompt = quoted(&words(&mut self.random, 20));
                self.say(|ids| ids.user(&prompt, None));
                self.message(20, 200);
                for _ in 0..self.random.between(1, 5) {
                    self.input_deltas();
                    let heavy = self.random.between(0, 4) == 0;
                    self.tool_call(if heavy { Load::Heavy } else { Load::Light });
                }
            }
        }
        let (text, cost) = (words(&mut self.random, 30), 0.099 * self.random.unit());
        self.say(|ids| ids.result(&text, cost));
        self.lines.drain(..)
    }

    fn say(&mut self, line: impl FnOnce(&Ids) -> String) {
        let ids = Ids { session: self.id.clone(), uuid: self.random.uuid() };
        self.lines.push(line(&ids));
    }

    /// A message of text, first in deltas and then whole.
    fn message(&mut self, fewest: usize, most: usize) {
        self.say(Ids::message_start);
        self.say(|ids| {
            ids.stream_event(
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            )
        });
        let mut whole = String::new();
        for _ in 0..self.random.between(fewest, most) {
            let count = self.random.between(1, 14);
            let text = words(&mut self.random, count);
            whole.push_str(&text);
            self.say(|ids| ids.text_delta(&text));
        }
        let block = format!(r#"{{"type":"text","text":{}}}"#, quoted(&whole));
        self.say(|ids| ids.assistant(&block));
        self.say(|ids| ids.stream_event(r#"{"type":"content_block_stop","index":0}"#));
        self.say(|ids| {
            ids.stream_event(
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}}"#,
            )
        });
        self.say(|ids| ids.stream_event(r#"{"type":"message_stop"}"#));
    }

    fn input_deltas(&mut self) {
        for _ in 0..self.random.between(3, 25) {
            let piece = format!("{{\"file_path\":\"/w{}", words(&mut self.random, 2));
            self.say(|ids| ids.input_delta(&piece));
        }
    }

    /// A tool's call and its result.
    fn tool_call(&mut self, load: Load) {
        let call = prose::tool_use_id(&mut self.random);
        match (self.random.between(0, 1000), load) {
            (0..300, _) => self.edit(&call, load),
            (300..420, _) => self.write(&call, load),
            (420..720, _) => self.read(&call, load),
            (985.., Load::Heavy) => self.read_image(&call),
            _ => self.run_command(&call, load),
        }
    }

    fn edit(&mut self, call: &str, load: Load) {
        let Self { random, prose, .. } = self;
        let path = prose::path(random);
        let light = random.magnitude(300.0, 20.0);
        let size = load.size(random, light);
        let mut file = |size| quoted(&prose.file(random, size));
        let input = format!(
            r#"{{"file_path":"{path}","old_string":{},"new_string":{}}}"#,
            file(size / 2),
            file(size / 2)
        );
        let result = format!(
            r#"{{"filePath":"{path}","oldString":{},"structuredPatch":[],"userModified":false}}"#,
            file(200)
        );
        self.say(|ids| ids.tool_use(call, "Edit", &input));
        let content = format!(r#""The file {path} has been updated.""#);
        self.say(|ids| ids.tool_result(call, &content, Some(&result)));
    }

    fn write(&mut self, call: &str, load: Load) {
        let Self { random, prose, .. } = self;
        let path = prose::path(random);
        let size = load.size(random, 2000);
        let file = quoted(&prose.file(random, size));
        let input = format!(r#"{{"file_path":"{path}","content":{file}}}"#);
        self.say(|ids| ids.tool_use(call, "Write", &input));
        let content = format!(r#""File created successfully at: {path}""#);
        self.say(|ids| ids.tool_result(call, &content, None));
    }

    fn read(&mut self, call: &str, load: Load) {
        let Self { random, prose, .. } = self;
        let path = prose::path(random);
        let size = load.size(random, 4000);
        let file = prose.file(random, size);
        let input = format!(r#"{{"file_path":"{path}"}}"#);
        self.say(|ids| ids.tool_use(call, "Read", &input));
        let half = quoted(&file[..file.floor_char_boundary(file.len() / 2)]);
        let count = file.lines().count();
        let result = format!(
            r#"{{"type":"text","file":{{"filePath":"{path}","content":{half},"numLines":{count}}}}}"#
        );
        self.say(|ids| ids.tool_result(call, &quoted(&file), Some(&result)));
    }

    fn read_image(&mut self, call: &str) {
        self.say(|ids| ids.tool_use(call, "Read", r#"{"file_path":"/home/dev/proj/shot.png"}"#));
        let image = self.prose.image(&mut self.random);
        let content = format!(
            r#"[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{image}"}}}}]"#
        );
        self.say(|ids| ids.tool_result(call, &content, None));
    }

    fn run_command(&mut self, call: &str, load: Load) {
        let Self { random, prose, .. } = self;
        let description = quoted(&words(random, 5));
        let size = load.size(random, 1500);
        let output = quoted(&prose.file(random, size));
        let input = format!(
            r#"{{"command":"cargo test -- --nocapture 2>&1 | grep \"Edit\"","description":{description}}}"#
        );
        self.say(|ids| ids.tool_use(call, "Bash", &input));
        let result =
            format!(r#"{{"stdout":{output},"stderr":"","interrupted":false,"isImage":false}}"#);
        self.say(|ids| ids.tool_result(call, &output, Some(&result)));
    }
}
