//! What is written can be read again, and is never a line the CLI would die of.

use proptest::prelude::*;
use towpath_wire::event::{Block, Body, Request as Asked, Response};
use towpath_wire::json::{Raw, Shape};
use towpath_wire::say::{
    Answer, Behavior, Destination, Image, Initialize, JsonObject, PermissionMode, PermissionUpdate,
    Priority, Prompt, Refusal, Request, Rule, Saying, SettingsSource,
};
use towpath_wire::{Event, Reading, read};
use uuid::Uuid;

const GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;";

/// The event a line says, after checking what makes the CLI exit.
fn heard(saying: &Saying) -> Event<'_> {
    let line = saying.as_str();
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
    fn a_prompt_is_heard_as_it_was_said(
        text in any::<String>().prop_filter("not empty", |text| !text.trim().is_empty()),
        id in any::<u128>(),
        images in 0_usize..3,
        priority in prop::option::of(prop::sample::select(
            vec![(Priority::Now, "now"), (Priority::Next, "next"), (Priority::Later, "later")])),
    ) {
        let id = Uuid::from_u128(id);
        let images = vec![Image::new(GIF).unwrap(); images];
        let mut prompt = Prompt::with_images(id, text.clone(), images.clone()).unwrap();
        if let Some((priority, _)) = priority {
            prompt = prompt.priority(priority);
        }
        let saying = prompt.to_saying();
        let event = heard(&saying);
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
    fn an_answer_is_heard_as_it_was_said(
        id in any::<String>(), reason in any::<String>(), path in any::<String>(), interrupt in any::<bool>(),
    ) {
        let input = serde_json::json!({ "file_path": path, "n": 1 });
        let pretty = serde_json::to_string_pretty(&input).unwrap();
        let saying = Saying::answer(&id, &Answer::allow(object(&pretty)));
        let Body::ControlResponse(answer) = heard(&saying).body else { panic!() };
        prop_assert_eq!(answer.request_id.unwrap(), id.as_str());
        let Response::Success(Some(payload)) = answer.response else { panic!() };
        prop_assert_eq!(payload.get("behavior").unwrap().as_str(), "\"allow\"");
        let updated = payload.get("updatedInput").unwrap().as_str();
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(updated).unwrap(), input);

        let refusal = if interrupt { Refusal::and_interrupt(&reason) } else { Refusal::because(&reason) };
        let saying = Saying::answer(&id, &Answer::Deny(refusal));
        let Body::ControlResponse(answer) = heard(&saying).body else { panic!() };
        let Response::Success(Some(payload)) = answer.response else { panic!() };
        let message = payload.get("message").and_then(Raw::text).unwrap();
        prop_assert!(!message.decode().trim().is_empty(), "a denial needs a message");
        if !reason.trim().is_empty() {
            prop_assert_eq!(message, reason.as_str());
        }
        prop_assert_eq!(payload.get("interrupt").is_some(), interrupt);
    }

    #[test]
    fn an_object_of_any_content_stays_what_it_was(text in any::<String>(), number in any::<f64>()) {
        let value = serde_json::json!({ text.clone(): [text, number, null, {}] });
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(object(&pretty), object(&value.to_string()));
        prop_assert!(!object(&pretty).as_str().contains('\n'));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a row for each request there is")]
fn every_request_is_heard_under_its_own_name() {
    let s = String::from;
    let settings = || object(r#"{"effortLevel":"low"}"#);
    let requests = [
        (Request::Initialize(Box::default()), r#"{"subtype":"initialize"}"#),
        (
            Request::Initialize(Box::new(Initialize {
                sdk_mcp_servers: vec![s("calc")],
                forward_subagent_text: true,
                json_schema: Some(object("{}")),
                ..Initialize::default()
            })),
            r#"{"subtype":"initialize","sdkMcpServers":["calc"],"jsonSchema":{},"forwardSubagentText":true}"#,
        ),
        (Request::Interrupt { cancel_queued: false }, r#"{"subtype":"interrupt"}"#),
        (
            Request::Interrupt { cancel_queued: true },
            r#"{"subtype":"interrupt","cancel_queued":true}"#,
        ),
        (
            Request::SetPermissionMode { mode: PermissionMode::AcceptEdits },
            r#"{"subtype":"set_permission_mode","mode":"acceptEdits"}"#,
        ),
        (Request::SetModel { model: None }, r#"{"subtype":"set_model","model":null}"#),
        (
            Request::SetMaxThinkingTokens { max_thinking_tokens: Some(0) },
            r#"{"subtype":"set_max_thinking_tokens","max_thinking_tokens":0}"#,
        ),
        (
            Request::ApplyFlagSettings { settings: settings() },
            r#"{"subtype":"apply_flag_settings","settings":{"effortLevel":"low"}}"#,
        ),
        (
            Request::UpdateSettings { source: SettingsSource::LocalSettings, settings: settings() },
            r#"{"subtype":"update_settings","source":"localSettings","settings":{"effortLevel":"low"}}"#,
        ),
        (
            Request::CancelAsyncMessage { message_uuid: s("u") },
            r#"{"subtype":"cancel_async_message","message_uuid":"u"}"#,
        ),
        (
            Request::RewindFiles { user_message_id: s("u"), dry_run: true },
            r#"{"subtype":"rewind_files","user_message_id":"u","dry_run":true}"#,
        ),
        (
            Request::RewindConversation { target_message_uuid: s("u") },
            r#"{"subtype":"rewind_conversation","target_message_uuid":"u"}"#,
        ),
        (Request::McpStatus {}, r#"{"subtype":"mcp_status"}"#),
        (
            Request::McpSetServers { servers: object("{}") },
            r#"{"subtype":"mcp_set_servers","servers":{}}"#,
        ),
        (
            Request::McpReconnect { server_name: s("x") },
            r#"{"subtype":"mcp_reconnect","serverName":"x"}"#,
        ),
        (
            Request::McpToggle { server_name: s("x"), enabled: false },
            r#"{"subtype":"mcp_toggle","serverName":"x","enabled":false}"#,
        ),
        (
            Request::McpCall { tool: s("t"), arguments: object("{}") },
            r#"{"subtype":"mcp_call","tool":"t","arguments":{}}"#,
        ),
        (
            Request::McpReadResource { server_name: s("x"), uri: s("u") },
            r#"{"subtype":"mcp_read_resource","serverName":"x","uri":"u"}"#,
        ),
        (
            Request::McpAuthenticate { server_name: s("x") },
            r#"{"subtype":"mcp_authenticate","serverName":"x"}"#,
        ),
        (
            Request::McpClearAuth { server_name: s("x") },
            r#"{"subtype":"mcp_clear_auth","serverName":"x"}"#,
        ),
        (Request::GetContextUsage {}, r#"{"subtype":"get_context_usage"}"#),
        (Request::GetSessionCost {}, r#"{"subtype":"get_session_cost"}"#),
        (Request::GetUsage {}, r#"{"subtype":"get_usage"}"#),
        (Request::GetBinaryVersion {}, r#"{"subtype":"get_binary_version"}"#),
        (Request::GetSettings {}, r#"{"subtype":"get_settings"}"#),
        (Request::GetStatus {}, r#"{"subtype":"get_status"}"#),
        (Request::GetPlan {}, r#"{"subtype":"get_plan"}"#),
        (Request::GetWorkspaceDiff {}, r#"{"subtype":"get_workspace_diff"}"#),
        (
            Request::GetTaskOutput { task_id: s("t") },
            r#"{"subtype":"get_task_output","task_id":"t"}"#,
        ),
        (Request::GetHooksListing {}, r#"{"subtype":"get_hooks_listing"}"#),
        (Request::ListModels {}, r#"{"subtype":"list_models"}"#),
        (Request::ListPermissionRules {}, r#"{"subtype":"list_permission_rules"}"#),
        (Request::ExportConversation {}, r#"{"subtype":"export_conversation"}"#),
        (
            Request::FileSuggestions { query: s("q") },
            r#"{"subtype":"file_suggestions","query":"q"}"#,
        ),
        (Request::ReadFile { path: s("p") }, r#"{"subtype":"read_file","path":"p"}"#),
        (
            Request::SeedReadState { path: s("p"), mtime: 1 },
            r#"{"subtype":"seed_read_state","path":"p","mtime":1}"#,
        ),
        (
            Request::RegisterRepoRoot { directory: s("d") },
            r#"{"subtype":"register_repo_root","directory":"d"}"#,
        ),
        (Request::ReloadPlugins {}, r#"{"subtype":"reload_plugins"}"#),
        (Request::ReloadSkills {}, r#"{"subtype":"reload_skills"}"#),
        (Request::ReloadOutputStyles {}, r#"{"subtype":"reload_output_styles"}"#),
        (Request::RenameSession { title: s("t") }, r#"{"subtype":"rename_session","title":"t"}"#),
        (
            Request::GenerateSessionTitle { description: s("d") },
            r#"{"subtype":"generate_session_title","description":"d"}"#,
        ),
        (Request::StopTask { task_id: s("t") }, r#"{"subtype":"stop_task","task_id":"t"}"#),
        (Request::BackgroundTasks { tool_use_id: None }, r#"{"subtype":"background_tasks"}"#),
        (
            Request::SideQuestion { question: s("q") },
            r#"{"subtype":"side_question","question":"q"}"#,
        ),
        (
            Request::SetHasSubscribers { has_subscribers: true },
            r#"{"subtype":"set_has_subscribers","has_subscribers":true}"#,
        ),
        (Request::EndSession {}, r#"{"subtype":"end_session"}"#),
    ];
    for (request, expected) in requests {
        let saying = Saying::request("r1", &request);
        let event = heard(&saying);
        let subtype = Raw::parse(expected).unwrap().get("subtype").and_then(Raw::text);
        assert_eq!(event.kind.subtype, subtype);
        let Body::ControlRequest(asked) = event.body else { panic!("{saying:?}") };
        assert_eq!(asked.request_id, "r1");
        let Asked::Other(body) = asked.request else { panic!("{saying:?}") };
        assert_eq!(body.as_str(), expected);
    }
}

#[test]
fn rules_hooks_and_servers_are_answered_in_the_protocols_words() {
    let rules = vec![Rule { tool_name: "Bash".into(), rule_content: Some("touch:*".into()) }];
    let update = PermissionUpdate::AddRules {
        rules,
        behavior: Behavior::Allow,
        destination: Destination::Session,
    };
    let mode = PermissionUpdate::SetMode {
        mode: PermissionMode::AcceptEdits,
        destination: Destination::LocalSettings,
    };
    let allow = Answer::Allow {
        updated_input: JsonObject::empty(),
        updated_permissions: vec![update, mode],
    };
    for (answer, expected) in [
        (
            allow,
            r#"{"behavior":"allow","updatedInput":{},"updatedPermissions":[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"touch:*"}],"behavior":"allow","destination":"session"},{"type":"setMode","mode":"acceptEdits","destination":"localSettings"}]}"#,
        ),
        (Answer::deny("not here"), r#"{"behavior":"deny","message":"not here"}"#),
        (Answer::deny(" "), r#"{"behavior":"deny","message":"The user said no."}"#),
        (Answer::Hook(object(r#"{"continue":true}"#)), r#"{"continue":true}"#),
        (Answer::Mcp(object(r#"{"id":1}"#)), r#"{"mcp_response":{"id":1}}"#),
    ] {
        let saying = Saying::answer("r", &answer);
        let Body::ControlResponse(heard) = heard(&saying).body else { panic!() };
        let Response::Success(Some(payload)) = heard.response else { panic!() };
        assert_eq!(payload.as_str(), expected);
    }
    let saying = Saying::answer("r", &Answer::Error("no such\nthing".into()));
    let Body::ControlResponse(answer) = heard(&saying).body else { panic!() };
    assert!(matches!(answer.response, Response::Error(Some(error)) if error == "no such\nthing"));
}

#[test]
fn cancels_and_signs_of_life_are_lines_too() {
    let saying = Saying::cancel("r");
    assert!(matches!(heard(&saying).body, Body::ControlCancel(cancel) if cancel.request_id == "r"));
    let saying = Saying::keep_alive();
    assert_eq!(saying.as_str(), r#"{"type":"keep_alive"}"#);
    assert_eq!(saying.into_bytes(), b"{\"type\":\"keep_alive\"}\n");
}

#[test]
fn an_empty_prompt_is_refused_and_a_picture_alone_is_not() {
    assert!(Prompt::text(Uuid::nil(), " \n").is_err());
    let picture = Prompt::with_images(Uuid::nil(), "", vec![Image::new(GIF).unwrap()]).unwrap();
    let saying = picture.to_saying();
    let Body::User(user) = heard(&saying).body else { panic!() };
    assert!(matches!(user.message.content.blocks().collect::<Vec<_>>()[..], [Block::Media { .. }]));
}
