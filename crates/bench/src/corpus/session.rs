//! An endless invented session: the order of its lines, their sizes, and their JSON.

use super::Corpus;
use super::text::{self, CorpusRandom, CorpusText, quoted, words};

const USAGE: &str = r#"{"input_tokens":3,"cache_creation_input_tokens":5355,"cache_read_input_tokens":21989,"cache_creation":{"ephemeral_5m_input_tokens":5355,"ephemeral_1h_input_tokens":0},"output_tokens":42,"service_tier":"standard"}"#;

/// An invented session that a corpus is written from.
pub(super) struct CorpusSession {
    corpus: Corpus,
    random: CorpusRandom,
    text: CorpusText,
    id: String,
    lines: Vec<String>,
}

/// How large the input and output of tools are.
#[derive(Clone, Copy)]
enum ToolSize {
    /// A few kilobytes.
    Light,
    /// 1 to 200 KB, and sometimes an image.
    Heavy,
}

impl ToolSize {
    fn size(self, random: &mut CorpusRandom, light: usize) -> usize {
        match self {
            Self::Light => light,
            Self::Heavy => random.magnitude(1000.0, 200.0),
        }
    }
}

impl CorpusSession {
    pub(super) fn new(corpus: Corpus) -> Self {
        // Images are few and very large, so the average length of a line depends on the seed. With
        // these it is the one documented at `Corpus`, at 200 MB.
        let mut random = CorpusRandom::new(match corpus {
            Corpus::A => 1,
            Corpus::B => 4,
            Corpus::C => 6,
        });
        let text = CorpusText::new(&mut random);
        let id = random.uuid();
        Self { corpus, random, text, id, lines: Vec::new() }
    }

    /// The lines of its next turn, from `system/init` to `result`.
    pub(super) fn turn(&mut self) -> std::vec::Drain<'_, String> {
        self.push(LineIds::init);
        match self.corpus {
            Corpus::A => {
                for _ in 0..4 {
                    self.message(30, 90);
                }
                self.tool_call(ToolSize::Light);
            }
            Corpus::B => {
                for _ in 0..self.random.between(3, 12) {
                    self.tool_call(ToolSize::Heavy);
                }
            }
            Corpus::C => {
                let prompt = quoted(&words(&mut self.random, 20));
                self.push(|ids| ids.user(&prompt, None));
                self.message(20, 200);
                for _ in 0..self.random.between(1, 5) {
                    self.input_deltas();
                    let heavy = self.random.between(0, 4) == 0;
                    self.tool_call(if heavy { ToolSize::Heavy } else { ToolSize::Light });
                }
            }
        }
        let (text, cost) = (words(&mut self.random, 30), 0.099 * self.random.unit());
        self.push(|ids| ids.result(&text, cost));
        self.lines.drain(..)
    }

    fn push(&mut self, line: impl FnOnce(&LineIds) -> String) {
        let ids = LineIds { session: self.id.clone(), uuid: self.random.uuid() };
        self.lines.push(line(&ids));
    }

    /// A text message: its deltas, then the whole message.
    fn message(&mut self, fewest: usize, most: usize) {
        self.push(LineIds::message_start);
        self.push(|ids| {
            ids.stream_event(
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            )
        });
        let mut whole = String::new();
        for _ in 0..self.random.between(fewest, most) {
            let count = self.random.between(1, 14);
            let text = words(&mut self.random, count);
            whole.push_str(&text);
            self.push(|ids| ids.text_delta(&text));
        }
        let block = format!(r#"{{"type":"text","text":{}}}"#, quoted(&whole));
        self.push(|ids| ids.assistant(&block));
        self.push(|ids| ids.stream_event(r#"{"type":"content_block_stop","index":0}"#));
        self.push(|ids| {
            ids.stream_event(
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}}"#,
            )
        });
        self.push(|ids| ids.stream_event(r#"{"type":"message_stop"}"#));
    }

    fn input_deltas(&mut self) {
        for _ in 0..self.random.between(3, 25) {
            let piece = format!("{{\"file_path\":\"/w{}", words(&mut self.random, 2));
            self.push(|ids| ids.input_delta(&piece));
        }
    }

    /// A tool call and its result.
    fn tool_call(&mut self, tool_size: ToolSize) {
        let call = text::tool_use_id(&mut self.random);
        match (self.random.between(0, 1000), tool_size) {
            (0..300, _) => self.edit(&call, tool_size),
            (300..420, _) => self.write(&call, tool_size),
            (420..720, _) => self.read(&call, tool_size),
            (985.., ToolSize::Heavy) => self.read_image(&call),
            _ => self.run_command(&call, tool_size),
        }
    }

    fn edit(&mut self, call: &str, tool_size: ToolSize) {
        let Self { random, text, .. } = self;
        let path = text::path(random);
        let light = random.magnitude(300.0, 20.0);
        let size = tool_size.size(random, light);
        let mut file = |size| quoted(&text.file(random, size));
        let input = format!(
            r#"{{"file_path":"{path}","old_string":{},"new_string":{}}}"#,
            file(size / 2),
            file(size / 2)
        );
        let result = format!(
            r#"{{"filePath":"{path}","oldString":{},"structuredPatch":[],"userModified":false}}"#,
            file(200)
        );
        self.push(|ids| ids.tool_use(call, "Edit", &input));
        let content = format!(r#""The file {path} has been updated.""#);
        self.push(|ids| ids.tool_result(call, &content, Some(&result)));
    }

    fn write(&mut self, call: &str, tool_size: ToolSize) {
        let Self { random, text, .. } = self;
        let path = text::path(random);
        let size = tool_size.size(random, 2000);
        let file = quoted(&text.file(random, size));
        let input = format!(r#"{{"file_path":"{path}","content":{file}}}"#);
        self.push(|ids| ids.tool_use(call, "Write", &input));
        let content = format!(r#""File created successfully at: {path}""#);
        self.push(|ids| ids.tool_result(call, &content, None));
    }

    fn read(&mut self, call: &str, tool_size: ToolSize) {
        let Self { random, text, .. } = self;
        let path = text::path(random);
        let size = tool_size.size(random, 4000);
        let file = text.file(random, size);
        let input = format!(r#"{{"file_path":"{path}"}}"#);
        self.push(|ids| ids.tool_use(call, "Read", &input));
        let half = quoted(&file[..file.floor_char_boundary(file.len() / 2)]);
        let count = file.lines().count();
        let result = format!(
            r#"{{"type":"text","file":{{"filePath":"{path}","content":{half},"numLines":{count}}}}}"#
        );
        self.push(|ids| ids.tool_result(call, &quoted(&file), Some(&result)));
    }

    fn read_image(&mut self, call: &str) {
        self.push(|ids| ids.tool_use(call, "Read", r#"{"file_path":"/home/dev/proj/shot.png"}"#));
        let image = self.text.image(&mut self.random);
        let content = format!(
            r#"[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{image}"}}}}]"#
        );
        self.push(|ids| ids.tool_result(call, &content, None));
    }

    fn run_command(&mut self, call: &str, tool_size: ToolSize) {
        let Self { random, text, .. } = self;
        let description = quoted(&words(random, 5));
        let size = tool_size.size(random, 1500);
        let output = quoted(&text.file(random, size));
        let input = format!(
            r#"{{"command":"cargo test -- --nocapture 2>&1 | grep \"Edit\"","description":{description}}}"#
        );
        self.push(|ids| ids.tool_use(call, "Bash", &input));
        let result =
            format!(r#"{{"stdout":{output},"stderr":"","interrupted":false,"isImage":false}}"#);
        self.push(|ids| ids.tool_result(call, &output, Some(&result)));
    }
}

/// Writes lines in the shape that Claude Code 2.1.197 prints, with these ids.
///
/// Arguments named `…_json` are JSON already; all others are plain text.
struct LineIds {
    session: String,
    uuid: String,
}

impl LineIds {
    fn init(&self) -> String {
        let Self { session, uuid } = self;
        format!(
            r#"{{"type":"system","subtype":"init","cwd":"/home/dev/proj","session_id":"{session}","tools":["Task","Bash","CronCreate","Edit","EnterWorktree","ExitWorktree","NotebookEdit","Read","SendMessage","Skill","TaskCreate","WebFetch","WebSearch","Write"],"mcp_servers":[{{"name":"mise","status":"connected"}}],"model":"claude-opus-4-8[1m]","permissionMode":"default","slash_commands":["clear","compact","config","context","init","review"],"apiKeySource":"ANTHROPIC_API_KEY","claude_code_version":"2.1.197","output_style":"default","agents":["Explore","Plan"],"skills":["verify"],"plugins":[],"uuid":"{uuid}","memory_paths":{{"auto":"/h/.claude/projects/p/memory/"}},"fast_mode_state":"off"}}"#
        )
    }

    fn stream_event(&self, event_json: &str) -> String {
        let Self { session, uuid } = self;
        format!(
            r#"{{"type":"stream_event","event":{event_json},"session_id":"{session}","parent_tool_use_id":null,"uuid":"{uuid}"}}"#
        )
    }

    fn text_delta(&self, text: &str) -> String {
        let text = quoted(text);
        self.stream_event(&format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{text}}}}}"#
        ))
    }

    fn input_delta(&self, piece: &str) -> String {
        let piece = quoted(piece);
        self.stream_event(&format!(
            r#"{{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":{piece}}}}}"#
        ))
    }

    fn message_start(&self) -> String {
        let id = &self.uuid[..8];
        self.stream_event(&format!(
            r#"{{"type":"message_start","message":{{"id":"msg_{id}","type":"message","role":"assistant","model":"claude-opus-4-8","content":[],"stop_reason":null,"stop_sequence":null,"usage":{USAGE}}}}}"#
        ))
    }

    fn assistant(&self, block_json: &str) -> String {
        let Self { session, uuid } = self;
        let id = &uuid[..8];
        format!(
            r#"{{"type":"assistant","message":{{"id":"msg_{id}","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{block_json}],"stop_reason":null,"stop_sequence":null,"usage":{USAGE},"context_management":null}},"parent_tool_use_id":null,"session_id":"{session}","uuid":"{uuid}"}}"#
        )
    }

    fn tool_use(&self, call: &str, name: &str, input_json: &str) -> String {
        self.assistant(&format!(
            r#"{{"type":"tool_use","id":"{call}","name":"{name}","input":{input_json}}}"#
        ))
    }

    fn user(&self, content_json: &str, tool_use_result_json: Option<&str>) -> String {
        let Self { session, uuid } = self;
        let result = tool_use_result_json
            .map(|result| format!(r#","tool_use_result":{result}"#))
            .unwrap_or_default();
        format!(
            r#"{{"type":"user","message":{{"role":"user","content":{content_json}}},"parent_tool_use_id":null,"session_id":"{session}","uuid":"{uuid}","timestamp":"2026-11-15T07:37:18.523Z"{result}}}"#
        )
    }

    fn tool_result(
        &self,
        call: &str,
        content_json: &str,
        tool_use_result_json: Option<&str>,
    ) -> String {
        let block = format!(
            r#"[{{"tool_use_id":"{call}","type":"tool_result","content":{content_json}}}]"#
        );
        self.user(&block, tool_use_result_json)
    }

    fn result(&self, text: &str, cost: f64) -> String {
        let Self { session, uuid } = self;
        let text = quoted(text);
        format!(
            r#"{{"type":"result","subtype":"success","is_error":false,"api_error_status":null,"duration_ms":26284,"duration_api_ms":23020,"num_turns":2,"result":{text},"stop_reason":"end_turn","session_id":"{session}","total_cost_usd":{cost},"usage":{USAGE},"modelUsage":{{"claude-opus-4-8[1m]":{{"inputTokens":3,"outputTokens":9,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"webSearchRequests":0,"costUSD":0.00024,"contextWindow":1000000,"maxOutputTokens":64000}}}},"permission_denials":[],"terminal_reason":"completed","fast_mode_state":"off","uuid":"{uuid}"}}"#
        )
    }
}
