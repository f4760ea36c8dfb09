//! Kinds of lines and fields that came with a release, from the captures.

use serde_json::Value;

use crate::history::line_kind;
use crate::scenario::{AgentVersion, AgentVersionRange};

/// The kinds that not all releases print.
const KINDS: &[(&str, &[&str])] = &[
    (">=2.0.60", &["system/hook_response"]),
    (">=2.1.37", &["system/hook_started"]),
    (">=2.1.71", &["system/task_notification", "system/task_progress", "system/task_started"]),
    (">=2.1.120", &["system/session_state_changed", "system/task_updated"]),
    (">=2.1.197", &["system/api_retry", "system/thinking_tokens"]),
    (
        ">=2.1.260",
        &[
            "command_lifecycle",
            "system/background_tasks_changed",
            "system/control_request_progress",
            "system/informational",
            "system/notification",
        ],
    ),
    (
        ">=2.1.325",
        &["conversation_reset", "system/permission_denied", "system/session_title_changed"],
    ),
];

/// The fields that not all releases have, by the kind of their line or by the `type` of several kinds.
const FIELDS: &[(&str, &str, &[&str])] = &[
    ("assistant", ">=2.0.60", &["error"]),
    (
        "assistant",
        ">=2.1.197",
        &["request_id", "subagent_type", "task_description", "tool_use_meta"],
    ),
    ("assistant", ">=2.1.260", &["is_api_error_message", "timestamp"]),
    (
        "assistant",
        ">=2.1.325",
        &[
            "aborted",
            "agent_id",
            "api_error",
            "api_error_params",
            "api_error_status",
            "api_error_type",
            "local_command_source",
            "thinking_display",
            "thinking_duration_ms",
            "user_message_uuid",
            "user_message_uuids",
        ],
    ),
    ("result", ">=2.1.37", &["stop_reason"]),
    ("result", ">=2.1.71", &["fast_mode_state"]),
    ("result", ">=2.1.120", &["api_error_status", "terminal_reason"]),
    ("result", ">=2.1.197", &["time_to_request_ms", "ttft_ms", "ttft_stream_ms"]),
    (
        "result",
        ">=2.1.260",
        &[
            "fast_mode_disabled_reason",
            "first_content_frame_ms",
            "origin",
            "queued_turn_count",
            "request_sent_wall_ms",
            "subagent_stats",
            "user_message_uuid",
            "user_message_uuids",
        ],
    ),
    (
        "result",
        ">=2.1.325",
        &[
            "api_error",
            "api_error_type",
            "first_request_cache_read_input_tokens",
            "first_request_input_tokens",
            "local_command",
            "model_usage_since_last_result",
            "result_index",
            "safety_stops",
        ],
    ),
    ("stream_event", ">=2.1.120", &["ttft_ms"]),
    ("stream_event", ">=2.1.260", &["user_message_uuid", "user_message_uuids"]),
    (
        "stream_event",
        ">=2.1.325",
        &["abandoned_blocks", "api_message_id", "owed_rows", "thinking_display"],
    ),
    ("system/init", ">=2.0.60", &["claude_code_version", "plugins", "skills"]),
    ("system/init", ">=2.1.71", &["fast_mode_state"]),
    ("system/init", ">=2.1.120", &["analytics_disabled", "memory_paths"]),
    ("system/init", ">=2.1.197", &["product_feedback_disabled"]),
    (
        "system/init",
        ">=2.1.260",
        &[
            "capabilities",
            "fast_mode_disabled_reason",
            "messaging_socket_path",
            "terminal_slash_commands",
        ],
    ),
    (
        "system/init",
        ">=2.1.325",
        &[
            "additional_directories",
            "original_cwd",
            "per_turn_effort_active",
            "ultrathink_available",
            "ultrathink_typed_raises",
            "user_message_uuids",
            "view_mode",
        ],
    ),
    ("system/status", ">=2.1.37", &["permissionMode"]),
    ("user", ">=2.0.14", &["isReplay"]),
    ("user", ">=2.0.60", &["tool_use_result"]),
    ("user", ">=2.1.120", &["timestamp"]),
    ("user", ">=2.1.197", &["isSynthetic", "subagent_type", "task_description"]),
    ("user", ">=2.1.260", &["tool_result_meta"]),
    ("user", ">=2.1.325", &["agent_id"]),
];

/// A line without the fields that a release does not know. `None` if it does not know the line.
pub(super) fn as_printed_by(version: AgentVersion, mut line: Value) -> Option<Value> {
    let kind = line_kind(&line)?;
    let unknown = |range: &str| {
        let range: AgentVersionRange = range.parse().unwrap_or_default();
        !range.contains(version)
    };
    if KINDS.iter().any(|(range, kinds)| kinds.contains(&kind.as_str()) && unknown(range)) {
        return None;
    }
    let family = kind.split('/').next().unwrap_or_default();
    for (name, range, fields) in FIELDS {
        if (*name == kind || *name == family)
            && unknown(range)
            && let Some(object) = line.as_object_mut()
        {
            object.retain(|field, _| !fields.contains(&field.as_str()));
        }
    }
    // A release that does not report the mode here prints no line without it.
    let is_empty = kind == "system/status"
        && line["status"].is_null()
        && ["permissionMode", "compact_result"].iter().all(|field| line.get(field).is_none());
    (!is_empty).then_some(line)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::{FIELDS, KINDS, as_printed_by};
    use crate::history::CaptureKinds;
    use crate::scenario::{AgentVersion, AgentVersionRange};

    #[test]
    fn older_releases_leave_out_what_they_do_not_know() {
        let init = json!({"type": "system", "subtype": "init", "cwd": "/", "skills": [], "view_mode": "default"});
        let printed = as_printed_by(AgentVersion(2, 0, 60), init.clone());
        assert_eq!(
            printed,
            Some(json!({"type": "system", "subtype": "init", "cwd": "/", "skills": []}))
        );
        let printed = as_printed_by(AgentVersion(1, 0, 128), init);
        assert_eq!(printed, Some(json!({"type": "system", "subtype": "init", "cwd": "/"})));
        let retry = json!({"type": "system", "subtype": "api_retry"});
        assert_eq!(as_printed_by(AgentVersion(2, 1, 37), retry.clone()), None);
        assert_eq!(as_printed_by(AgentVersion(2, 1, 197), retry.clone()), Some(retry));
    }

    /// No release outside a range has what the range is about, and one inside has it.
    #[test]
    fn the_tables_are_those_of_the_captures() {
        let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
        let captures = CaptureKinds::load(&captures).unwrap();
        let check = |what: &str, range: &str, found: &dyn Fn(AgentVersion) -> bool| {
            let range: AgentVersionRange = range.parse().unwrap();
            let (inside, outside): (Vec<AgentVersion>, Vec<AgentVersion>) =
                captures.versions().partition(|version| range.contains(*version));
            assert!(inside.into_iter().any(found), "no capture has {what}");
            let wrong: Vec<_> = outside.into_iter().filter(|it| found(*it)).collect();
            assert!(wrong.is_empty(), "{what} is in captures of {wrong:?}");
        };
        for (range, kinds) in KINDS {
            for kind in *kinds {
                check(kind, range, &|version| captures.has_kind(version, kind));
            }
        }
        for (kind, range, fields) in FIELDS {
            for field in *fields {
                let what = format!("`{field}` of {kind}");
                check(&what, range, &|version| captures.has_field(version, kind, field));
            }
        }
    }
}
