//! Files that other agents change, in the streams of their own. The lines follow captures, and
//! published shapes for Cursor and Droid.

use std::fs;

use crate::process::Project;

/// The lines of a call that changes the file `PATH`, and of one that fails to change `BAD`.
struct AgentLines {
    agent: &'static str,
    /// Before the file is changed.
    call: &'static str,
    /// After it was changed.
    result: &'static str,
    failed: &'static str,
    end: &'static str,
}

const AGENTS: [AgentLines; 9] = [
    AgentLines {
        agent: "codex exec",
        call: r#"{"type":"item.started","item":{"id":"item_1","type":"file_change","changes":[{"path":"PATH","kind":"update"}],"status":"in_progress"}}"#,
        result: r#"{"type":"item.completed","item":{"id":"item_1","type":"file_change","changes":[{"path":"PATH","kind":"update"}],"status":"completed"}}"#,
        failed: r#"{"type":"item.completed","item":{"id":"item_2","type":"file_change","changes":[{"path":"BAD","kind":"update"}],"status":"failed"}}"#,
        end: r#"{"type":"turn.completed","usage":{}}"#,
    },
    AgentLines {
        agent: "codex rollout",
        call: r#"{"type":"response_item","payload":{"type":"custom_tool_call","call_id":"c1","name":"apply_patch","input":"*** Begin Patch\n*** Update File: PATH\n@@\n-a\n+b\n*** End Patch"}}"#,
        result: r#"{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"FileChange","id":"c1","changes":{"PATH":{"type":"update"}},"status":"completed"}}}"#,
        failed: r#"{"type":"event_msg","payload":{"type":"patch_apply_end","call_id":"c2","success":false,"changes":{"BAD":{"type":"add","content":"x"}}}}"#,
        end: r#"{"type":"event_msg","payload":{"type":"task_complete"}}"#,
    },
    AgentLines {
        agent: "gemini",
        call: r#"{"type":"tool_use","timestamp":"t","tool_name":"write_file","tool_id":"g1","parameters":{"file_path":"PATH","content":"b"}}"#,
        result: r#"{"type":"tool_result","timestamp":"t","tool_id":"g1","status":"success"}"#,
        failed: r#"[{"type":"tool_use","tool_name":"replace","tool_id":"g2","parameters":{"file_path":"BAD"}},{"type":"tool_result","tool_id":"g2","status":"error","error":{"type":"x","message":"no"}}]"#,
        end: r#"{"type":"result","timestamp":"t","status":"success","stats":{}}"#,
    },
    AgentLines {
        agent: "cursor",
        call: r#"{"type":"tool_call","subtype":"started","call_id":"k1","tool_call":{"editToolCall":{"args":{"path":"PATH"}}}}"#,
        result: r#"{"type":"tool_call","subtype":"completed","call_id":"k1","tool_call":{"editToolCall":{"args":{"path":"PATH"},"result":{"success":{}}}}}"#,
        failed: r#"{"type":"tool_call","subtype":"completed","call_id":"k2","tool_call":{"writeToolCall":{"args":{"path":"BAD"},"result":{"error":{"errorMessage":"no"}}}}}"#,
        end: r#"{"type":"result","subtype":"success","is_error":false,"result":"x"}"#,
    },
    AgentLines {
        agent: "opencode",
        call: "",
        result: r#"{"type":"tool_use","timestamp":1,"sessionID":"s","part":{"type":"tool","tool":"edit","callID":"o1","state":{"status":"completed","input":{"filePath":"PATH","oldString":"a","newString":"b"},"output":"ok"}}}"#,
        failed: r#"{"type":"tool_use","timestamp":1,"sessionID":"s","part":{"type":"tool","tool":"write","callID":"o2","state":{"status":"error","input":{"filePath":"BAD"},"error":"no"}}}"#,
        end: r#"{"type":"step_finish","timestamp":1,"sessionID":"s","part":{"type":"step-finish","reason":"stop"}}"#,
    },
    AgentLines {
        agent: "droid",
        call: r#"{"type":"tool_call","id":"d1","toolId":"Edit","toolName":"Edit","parameters":{"file_path":"PATH","old_string":"a","new_string":"b"}}"#,
        result: r#"{"type":"tool_result","id":"d1","toolId":"Edit","isError":false,"value":"ok"}"#,
        failed: r#"[{"type":"tool_call","id":"d2","toolName":"Create","parameters":{"file_path":"BAD"}},{"type":"tool_result","id":"d2","toolId":"Create","isError":true,"value":"no"}]"#,
        end: r#"{"type":"completion","finalText":"x","session_id":"s"}"#,
    },
    AgentLines {
        agent: "copilot",
        call: r#"{"type":"tool.execution_start","data":{"toolCallId":"p1","toolName":"edit","arguments":{"path":"PATH","old_str":"a","new_str":"b"}}}"#,
        result: r#"{"type":"tool.execution_complete","data":{"toolCallId":"p1","success":true,"result":{"content":"ok"}}}"#,
        failed: r#"[{"type":"tool.execution_start","data":{"toolCallId":"p2","toolName":"create","arguments":{"path":"BAD"}}},{"type":"tool.execution_complete","data":{"toolCallId":"p2","success":false,"error":{"message":"no"}}}]"#,
        end: r#"{"type":"assistant.idle","data":{}}"#,
    },
    AgentLines {
        agent: "pi",
        call: r#"{"type":"tool_execution_start","toolCallId":"q1","toolName":"write","args":{"path":"PATH","content":"b"}}"#,
        result: r#"{"type":"tool_execution_end","toolCallId":"q1","toolName":"write","result":{"content":[]},"isError":false}"#,
        failed: r#"[{"type":"tool_execution_start","toolCallId":"q2","toolName":"edit","args":{"path":"BAD"}},{"type":"tool_execution_end","toolCallId":"q2","result":{"content":[]},"isError":true}]"#,
        end: r#"{"type":"agent_end","messages":[]}"#,
    },
    AgentLines {
        agent: "an agent over ACP",
        call: r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"a1","title":"Edit","kind":"edit","status":"pending","locations":[{"path":"PATH"}]}}}"#,
        result: r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"a1","status":"completed"}}}"#,
        failed: r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"a2","status":"failed","kind":"edit","content":[{"type":"diff","path":"BAD","oldText":"a","newText":"b"}]}}}"#,
        end: r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#,
    },
];

#[test]
fn a_file_that_any_agent_changed_is_copied_after_its_result_and_a_failed_change_is_not() {
    for AgentLines { agent, call, result, failed, end } in AGENTS {
        let project = Project::new();
        project.write("src/a b.txt", "old");
        project.write("bad.txt", "unchanged");
        let path = project.root().join("src/a b.txt").display().to_string();
        let with_paths = |line: &str| line.replace("PATH", &path).replace("BAD", "bad.txt");
        let mut watch = project.watch(&["--to", "../copy"]);
        if !call.is_empty() {
            watch.line(&with_paths(call));
            watch.wait_for("is about to change");
            assert!(!project.sibling("copy").exists(), "{agent}");
        }
        project.write("src/a b.txt", "new");
        watch.line(&with_paths(result));
        watch.wait_for("src/a b.txt → ../copy");
        watch.line(&with_paths(failed));
        watch.line(end);
        let outcome = watch.finish();
        assert_eq!(fs::read_to_string(project.sibling("copy/src/a b.txt")).unwrap(), "new");
        let changes = outcome.changes();
        assert_eq!(changes.len(), 2, "{agent}: {changes:?}");
        assert!(changes[0].starts_with("src/a b.txt | "), "{agent}: {changes:?}");
        assert!(changes[0].contains("| pushed | ../copy"), "{agent}: {changes:?}");
        assert!(changes[1].ends_with("| skipped | - | the call failed"), "{agent}: {changes:?}");
        assert_eq!(outcome.report["turns"], 1, "{agent}");
    }
}

#[test]
fn every_file_of_one_patch_is_copied_also_if_the_line_is_too_long_to_keep() {
    let project = Project::new();
    for file in ["one", "two", "three"] {
        project.write(file, "content");
    }
    let mut watch = project.watch(&["--to", "../copy"]);
    let root = project.root().display().to_string();
    // Strings that long are not kept, so the files are known only from the keys of the event.
    let long = "+x\\n".repeat(300_000);
    watch.line(&format!(
        r#"{{"type":"response_item","payload":{{"type":"custom_tool_call","call_id":"c1","name":"apply_patch","input":"*** Begin Patch\n*** Add File: one\n{long}*** End Patch"}}}}"#
    ));
    watch.line(&format!(
        r#"{{"type":"event_msg","payload":{{"type":"item_completed","item":{{"type":"FileChange","id":"c1","changes":{{"{root}/one":{{"type":"add","content":"{long}"}},"{root}/two":{{"type":"update","unified_diff":"","move_path":"{root}/three"}}}},"status":"completed"}}}}}}"#
    ));
    for file in ["one", "two", "three"] {
        watch.wait_for(&format!("{file} → ../copy"));
    }
    let outcome = watch.finish();
    assert_eq!(outcome.changes().len(), 3, "{:?}", outcome.changes());
}
