//! The lines of a session in the shapes that claude 2.1.197 prints.
//!
//! Arguments named `…_json` are JSON already; all others are plain text.

use super::prose::quoted;

const USAGE: &str = r#"{"input_tokens":3,"cache_creation_input_tokens":5355,"cache_read_input_tokens":21989,"cache_creation":{"ephemeral_5m_input_tokens":5355,"ephemeral_1h_input_tokens":0},"output_tokens":42,"service_tier":"standard"}"#;

/// The ids that a line carries.
pub(super) struct Ids {
    pub(super) session: String,
    pub(super) uuid: String,
}

impl Ids {
    pub(super) fn init(&self) -> String {
        let Self { session, uuid } = self;
        format!(
            r#"{{"type":"system","subtype":"init","cwd":"/home/dev/proj","session_id":"{session}","tools":["Task","Bash","CronCreate","Edit","EnterWorktree","ExitWorktree","NotebookEdit","Read","SendMessage","Skill","TaskCreate","WebFetch","WebSearch","Write"],"mcp_servers":[{{"name":"mise","status":"connected"}}],"model":"claude-opus-4-8[1m]","permissionMode":"default","slash_commands":["clear","compact","config","context","init","review"],"apiKeySource":"ANTHROPIC_API_KEY","claude_code_version":"2.1.197","output_style":"default","agents":["Explore","Plan"],"skills":["verify"],"plugins":[],"uuid":"{uuid}","memory_paths":{{"auto":"/h/.claude/projects/p/memory/"}},"fast_mode_state":"off"}}"#
        )
    }

    pub(super) fn stream_event(&self, event_json: &str) -> String {
        let Self { session, uuid } = self;
        format!(
            r#"{{"type":"stream_event","event":{event_json},"session_id":"{session}","parent_tool_use_id":null,"uuid":"{uuid}"}}"#
        )
    }

    pub(super) fn text_delta(&self, text: &str) -> String {
        let text = quoted(text);
        self.stream_event(&format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{text}}}}}"#
        ))
    }

    pub(super) fn input_delta(&self, piece: &str) -> String {
        let piece = quoted(piece);
        self.stream_event(&format!(
            r#"{{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":{piece}}}}}"#
        ))
    }

    pub(super) fn message_start(&self) -> String {
        let id = &self.uuid[..8];
        self.stream_event(&format!(
            r#"{{"type":"message_start","message":{{"id":"msg_{id}","type":"message","role":"assistant","model":"claude-opus-4-8","content":[],"stop_reason":null,"stop_sequence":null,"usage":{USAGE}}}}}"#
        ))
    }

    pub(super) fn assistant(&self, block_json: &str) -> String {
        let Self { session, uuid } = self;
        let id = &uuid[..8];
        format!(
            r#"{{"type":"assistant","message":{{"id":"msg_{id}","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{block_json}],"stop_reason":null,"stop_sequence":null,"usage":{USAGE},"context_management":null}},"parent_tool_use_id":null,"session_id":"{session}","uuid":"{uuid}"}}"#
        )
    }

    pub(super) fn tool_use(&self, call: &str, name: &str, input_json: &str) -> String {
        self.assistant(&format!(
            r#"{{"type":"tool_use","id":"{call}","name":"{name}","input":{input_json}}}"#
        ))
    }

    pub(super) fn user(&self, content_json: &str, tool_use_result_json: Option<&str>) -> String {
        let Self { session, uuid } = self;
        let result = tool_use_result_json
            .map(|result| format!(r#","tool_use_result":{result}"#))
            .unwrap_or_default();
        format!(
            r#"{{"type":"user","message":{{"role":"user","content":{content_json}}},"parent_tool_use_id":null,"session_id":"{session}","uuid":"{uuid}","timestamp":"2026-11-15T07:37:18.523Z"{result}}}"#
        )
    }

    pub(super) fn tool_result(
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

    pub(super) fn result(&self, text: &str, cost: f64) -> String {
        let Self { session, uuid } = self;
        let text = quoted(text);
        format!(
            r#"{{"type":"result","subtype":"success","is_error":false,"api_error_status":null,"duration_ms":26284,"duration_api_ms":23020,"num_turns":2,"result":{text},"stop_reason":"end_turn","session_id":"{session}","total_cost_usd":{cost},"usage":{USAGE},"modelUsage":{{"claude-opus-4-8[1m]":{{"inputTokens":3,"outputTokens":9,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"webSearchRequests":0,"costUSD":0.00024,"contextWindow":1000000,"maxOutputTokens":64000}}}},"permission_denials":[],"terminal_reason":"completed","fast_mode_state":"off","uuid":"{uuid}"}}"#
        )
    }
}
