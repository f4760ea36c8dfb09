//! Outgoing lines read back as written and are never lines that make the CLI exit.

use proptest::prelude::*;
use towpath_wire::event::{Block, Body, ControlRequestKind, ControlResult};
use towpath_wire::json::{Raw, Shape};
use towpath_wire::outgoing::{
    Behavior, ControlReply, DenyReply, Destination, Image, Initialize, JsonObject, OutgoingLine,
    OutgoingPrompt, OutgoingRequest, PermissionMode, PermissionRule, PermissionUpdate, Priority,
    SettingsSource,
};
use towpath_wire::{Event, Reading, read};
use uuid::Uuid;

const GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;";

/// Reads the event of a line and checks that the line cannot make the CLI exit.
fn event_of(line: &OutgoingLine) -> Event<'_> {
    let line = line.as_str();
    assert!(!line.contains(['\n', '\r']), "{line}");
    assert_eq!(Raw::parse(line).map(Raw::shape), Some(Shape::Object));
    let mut readings = read(line.as_bytes());
    match readings.next().expect("a reading").reading {
        Reading::Event(event) => event,
        other => panic!("{line}: {other:?}"),
    }
}

fn object(text: &str) -> JsonObject {
    JsonObject::parse(text).expect("an object")
}

proptest! {
    #[test]
    fn a_prompt_reads_back_as_written(
        text in any::<String>().prop_filter("not empty", |text| !text.trim().is_empty()),
        id in any::<u128>(),
        images in 0_usize..3,
        priority in prop::option::of(prop::sample::select(
            vec![(Priority::Now, "now"), (Priority::Next, "next"), (Priority::Later, "later")])),
    ) {
        let id = Uuid::from_u128(id);
        let images = vec![Image::new(GIF).unwrap(); images];
        let mut prompt = OutgoingPrompt::with_images(id, text.clone(), images.clone()).unwrap();
        if let Some((priority, _)) = priority {
            prompt = prompt.priority(priority);
        }
        let line = prompt.to_line();
        let event = event_of(&line);
        prop_assert_eq!(event.envelope.uuid.map(String::from), Some(id.to_string()));
        let Body::User(user) = event.body else { panic!() };
        prop_assert_eq!(user.message.role.unwrap(), "user");
        prop_assert_eq!(user.priority.map(String::from), priority.map(|it| it.1.to_owned()));
        let mut blocks = user.message.content.blocks();
        let Some(Block::Text(first)) = blocks.next() else { panic!() };
        prop_assert_eq!(first.decode(), text.as_str());
        let media: Vec<_> = blocks.collect();
        prop_assert_eq!(media.len(), images.len());
        for block in media {
            let Block::Media { source: Some(source), .. } = block else { panic!() };
            prop_assert_eq!(source.get("media_type").unwrap().as_str(), "\"image/gif\"");
            prop_assert_eq!(source.get("data").unwrap().as_str(), "\"R0lGODlhAQABAAAAADs=\"");
        }
    }

    #[test]
    fn a_reply_reads_back_as_written(
        id in any::<String>(), reason in any::<String>(), path in any::<String>(), interrupt in any::<bool>(),
    ) {
        let input = serde_json::json!({ "file_path": path, "n": 1 });
        let pretty = serde_json::to_string_pretty(&input).unwrap();
        let line = OutgoingLine::reply(&id, &ControlReply::allow(object(&pretty)));
        let Body::ControlResponse(answer) = event_of(&line).body else { panic!() };
        prop_assert_eq!(answer.request_id.unwrap(), id.as_str());
        let ControlResult::Success(Some(payload)) = answer.response else { panic!() };
        prop_assert_eq!(payload.get("behavior").unwrap().as_str(), "\"allow\"");
        let updated = payload.get("updatedInput").unwrap().as_str();
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(updated).unwrap(), input);

        let denial = if interrupt { DenyReply::and_interrupt(&reason) } else { DenyReply::because(&reason) };
        let line = OutgoingLine::reply(&id, &ControlReply::Deny(denial));
        let Body::ControlResponse(answer) = event_of(&line).body else { panic!() };
        let ControlResult::Success(Some(payload)) = answer.response else { panic!() };
        let message = payload.get("message").and_then(Raw::text).unwrap();
        prop_assert!(!message.decode().trim().is_empty(), "a denial needs a message");
        if !reason.trim().is_empty() {
            prop_assert_eq!(message, reason.as_str());
        }
        prop_assert_eq!(payload.get("interrupt").is_some(), interrupt);
    }

    #[test]
    fn an_object_with_any_content_is_unchanged(text in any::<String>(), number in any::<f64>()) {
        let value = serde_json::json!({ text.clone(): [text, number, null, {}] });
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(object(&pretty), object(&value.to_string()));
        prop_assert!(!object(&pretty).as_str().contains('\n'));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one row per request")]
fn every_request_reads_back_with_its_subtype() {
    let s = String::from;
    let settings = || object(r#"{"effortLevel":"low"}"#);
    let requests = [
        (OutgoingRequest::Initialize(Box::default()), r#"{"subtype":"initialize"}"#),
        (
            OutgoingRequest::Initialize(Box::new(Initialize {
                sdk_mcp_servers: vec![s("calc")],
                forward_subagent_text: true,
                json_schema: Some(object("{}")),
                ..Initialize::default()
            })),
            r#"{"subtype":"initialize","sdkMcpServers":["calc"],"jsonSchema":{},"forwardSubagentText":true}"#,
        ),
        (OutgoingRequest::Interrupt { cancel_queued: false }, r#"{"subtype":"interrupt"}"#),
        (
            OutgoingRequest::Interrupt { cancel_queued: true },
            r#"{"subtype":"interrupt","cancel_queued":true}"#,
        ),
        (
            OutgoingRequest::SetPermissionMode { mode: PermissionMode::AcceptEdits },
            r#"{"subtype":"set_permission_mode","mode":"acceptEdits"}"#,
        ),
        (OutgoingRequest::SetModel { model: None }, r#"{"subtype":"set_model","model":null}"#),
        (
            OutgoingRequest::SetMaxThinkingTokens { max_thinking_tokens: Some(0) },
            r#"{"subtype":"set_max_thinking_tokens","max_thinking_tokens":0}"#,
        ),
        (
            OutgoingRequest::ApplyFlagSettings { settings: settings() },
            r#"{"subtype":"apply_flag_settings","settings":{"effortLevel":"low"}}"#,
        ),
        (
            OutgoingRequest::UpdateSettings {
                source: SettingsSource::LocalSettings,
                settings: settings(),
            },
            r#"{"subtype":"update_settings","source":"localSettings","settings":{"effortLevel":"low"}}"#,
        ),
        (
            OutgoingRequest::CancelAsyncMessage { message_uuid: s("u") },
            r#"{"subtype":"cancel_async_message","message_uuid":"u"}"#,
        ),
        (
            OutgoingRequest::RewindFiles { user_message_id: s("u"), dry_run: true },
            r#"{"subtype":"rewind_files","user_message_id":"u","dry_run":true}"#,
        ),
        (
            OutgoingRequest::RewindConversation { target_message_uuid: s("u") },
            r#"{"subtype":"rewind_conversation","target_message_uuid":"u"}"#,
        ),
        (OutgoingRequest::McpStatus {}, r#"{"subtype":"mcp_status"}"#),
        (
            OutgoingRequest::McpSetServers { servers: object("{}") },
            r#"{"subtype":"mcp_set_servers","servers":{}}"#,
        ),
        (
            OutgoingRequest::McpReconnect { server_name: s("x") },
            r#"{"subtype":"mcp_reconnect","serverName":"x"}"#,
        ),
        (
            OutgoingRequest::McpToggle { server_name: s("x"), enabled: false },
            r#"{"subtype":"mcp_toggle","serverName":"x","enabled":false}"#,
        ),
        (
            OutgoingRequest::McpCall { tool: s("t"), arguments: object("{}") },
            r#"{"subtype":"mcp_call","tool":"t","arguments":{}}"#,
        ),
        (
            OutgoingRequest::McpReadResource { server_name: s("x"), uri: s("u") },
            r#"{"subtype":"mcp_read_resource","serverName":"x","uri":"u"}"#,
        ),
        (
            OutgoingRequest::McpAuthenticate { server_name: s("x") },
            r#"{"subtype":"mcp_authenticate","serverName":"x"}"#,
        ),
        (
            OutgoingRequest::McpClearAuth { server_name: s("x") },
            r#"{"subtype":"mcp_clear_auth","serverName":"x"}"#,
        ),
        (OutgoingRequest::GetContextUsage {}, r#"{"subtype":"get_context_usage"}"#),
        (OutgoingRequest::GetSessionCost {}, r#"{"subtype":"get_session_cost"}"#),
        (OutgoingRequest::GetUsage {}, r#"{"subtype":"get_usage"}"#),
        (OutgoingRequest::GetBinaryVersion {}, r#"{"subtype":"get_binary_version"}"#),
        (OutgoingRequest::GetSettings {}, r#"{"subtype":"get_settings"}"#),
        (OutgoingRequest::GetStatus {}, r#"{"subtype":"get_status"}"#),
        (OutgoingRequest::GetPlan {}, r#"{"subtype":"get_plan"}"#),
        (OutgoingRequest::GetWorkspaceDiff {}, r#"{"subtype":"get_workspace_diff"}"#),
        (
            OutgoingRequest::GetTaskOutput { task_id: s("t") },
            r#"{"subtype":"get_task_output","task_id":"t"}"#,
        ),
        (OutgoingRequest::GetHooksListing {}, r#"{"subtype":"get_hooks_listing"}"#),
        (OutgoingRequest::ListModels {}, r#"{"subtype":"list_models"}"#),
        (OutgoingRequest::ListPermissionRules {}, r#"{"subtype":"list_permission_rules"}"#),
        (OutgoingRequest::ExportConversation {}, r#"{"subtype":"export_conversation"}"#),
        (
            OutgoingRequest::FileSuggestions { query: s("q") },
            r#"{"subtype":"file_suggestions","query":"q"}"#,
        ),
        (OutgoingRequest::ReadFile { path: s("p") }, r#"{"subtype":"read_file","path":"p"}"#),
        (
            OutgoingRequest::SeedReadState { path: s("p"), mtime: 1 },
            r#"{"subtype":"seed_read_state","path":"p","mtime":1}"#,
        ),
        (
            OutgoingRequest::RegisterRepoRoot { directory: s("d") },
            r#"{"subtype":"register_repo_root","directory":"d"}"#,
        ),
        (OutgoingRequest::ReloadPlugins {}, r#"{"subtype":"reload_plugins"}"#),
        (OutgoingRequest::ReloadSkills {}, r#"{"subtype":"reload_skills"}"#),
        (OutgoingRequest::ReloadOutputStyles {}, r#"{"subtype":"reload_output_styles"}"#),
        (
            OutgoingRequest::RenameSession { title: s("t") },
            r#"{"subtype":"rename_session","title":"t"}"#,
        ),
        (
            OutgoingRequest::GenerateSessionTitle { description: s("d") },
            r#"{"subtype":"generate_session_title","description":"d"}"#,
        ),
        (OutgoingRequest::StopTask { task_id: s("t") }, r#"{"subtype":"stop_task","task_id":"t"}"#),
        (
            OutgoingRequest::BackgroundTasks { tool_use_id: None },
            r#"{"subtype":"background_tasks"}"#,
        ),
        (
            OutgoingRequest::SideQuestion { question: s("q") },
            r#"{"subtype":"side_question","question":"q"}"#,
        ),
        (
            OutgoingRequest::SetHasSubscribers { has_subscribers: true },
            r#"{"subtype":"set_has_subscribers","has_subscribers":true}"#,
        ),
        (OutgoingRequest::EndSession {}, r#"{"subtype":"end_session"}"#),
    ];
    for (request, expected) in requests {
        let line = OutgoingLine::request("r1", &request);
        let event = event_of(&line);
        let subtype = Raw::parse(expected).unwrap().get("subtype").and_then(Raw::text);
        assert_eq!(event.kind.subtype, subtype);
        let Body::ControlRequest(control) = event.body else { panic!("{line:?}") };
        assert_eq!(control.request_id, "r1");
        let ControlRequestKind::Other(body) = control.request else { panic!("{line:?}") };
        assert_eq!(body.as_str(), expected);
    }
}

#[test]
fn replies_have_the_json_of_the_protocol() {
    let rules =
        vec![PermissionRule { tool_name: "Bash".into(), rule_content: Some("touch:*".into()) }];
    let update = PermissionUpdate::AddRules {
        rules,
        behavior: Behavior::Allow,
        destination: Destination::Session,
    };
    let mode = PermissionUpdate::SetMode {
        mode: PermissionMode::AcceptEdits,
        destination: Destination::LocalSettings,
    };
    let allow = ControlReply::Allow {
        updated_input: JsonObject::empty(),
        updated_permissions: vec![update, mode],
    };
    for (answer, expected) in [
        (
            allow,
            r#"{"behavior":"allow","updatedInput":{},"updatedPermissions":[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"touch:*"}],"behavior":"allow","destination":"session"},{"type":"setMode","mode":"acceptEdits","destination":"localSettings"}]}"#,
        ),
        (ControlReply::deny("not here"), r#"{"behavior":"deny","message":"not here"}"#),
        (
            ControlReply::deny(" "),
            r#"{"behavior":"deny","message":"The user denied this request."}"#,
        ),
        (ControlReply::Hook(object(r#"{"continue":true}"#)), r#"{"continue":true}"#),
        (ControlReply::Mcp(object(r#"{"id":1}"#)), r#"{"mcp_response":{"id":1}}"#),
    ] {
        let line = OutgoingLine::reply("r", &answer);
        let Body::ControlResponse(response) = event_of(&line).body else { panic!() };
        let ControlResult::Success(Some(payload)) = response.response else { panic!() };
        assert_eq!(payload.as_str(), expected);
    }
    let line = OutgoingLine::reply("r", &ControlReply::Error("no such\nthing".into()));
    let Body::ControlResponse(answer) = event_of(&line).body else { panic!() };
    assert!(
        matches!(answer.response, ControlResult::Error(Some(error)) if error == "no such\nthing")
    );
}

#[test]
fn cancel_and_keep_alive_lines_are_valid() {
    let line = OutgoingLine::cancel("r");
    assert!(
        matches!(event_of(&line).body, Body::ControlCancel(cancel) if cancel.request_id == "r")
    );
    let line = OutgoingLine::keep_alive();
    assert_eq!(line.as_str(), r#"{"type":"keep_alive"}"#);
    assert_eq!(line.into_bytes(), b"{\"type\":\"keep_alive\"}\n");
}

#[test]
fn an_empty_prompt_is_rejected_but_an_image_alone_is_accepted() {
    assert!(OutgoingPrompt::text(Uuid::nil(), " \n").is_err());
    let prompt =
        OutgoingPrompt::with_images(Uuid::nil(), "", vec![Image::new(GIF).unwrap()]).unwrap();
    let line = prompt.to_line();
    let Body::User(user) = event_of(&line).body else { panic!() };
    assert!(matches!(user.message.content.blocks().collect::<Vec<_>>()[..], [Block::Media { .. }]));
}
