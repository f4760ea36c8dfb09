//! How the two versions write the vocabulary.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::line::{Elicitation, PermissionAsk};
use super::rpc::{RpcErrorCode, RpcId};
use super::update::{
    AcpUpdate, CallContent, CallDiff, ConfigCategory, ConfigOption, OfferedCommand,
    PermissionChoice, PlanStep, SessionActivity, Speaker, StopReason, TokenUsage, ToolCallUpdate,
};
use super::version::AcpVersion;
use crate::outgoing::JsonObject;

/// The id of the one to-do list of a session.
const PLAN_ID: &str = "todos";

#[derive(Serialize)]
pub(super) struct CallLine<P> {
    pub(super) jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<RpcId>,
    pub(super) method: &'static str,
    pub(super) params: P,
}

#[derive(Serialize)]
pub(super) struct ResponseLine<'a> {
    pub(super) jsonrpc: &'static str,
    pub(super) id: &'a RpcId,
    pub(super) result: Value,
}

#[derive(Serialize)]
pub(super) struct ErrorLine<'a> {
    pub(super) jsonrpc: &'static str,
    pub(super) id: &'a RpcId,
    pub(super) error: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpdateParams<'a> {
    pub(super) session_id: &'a str,
    pub(super) update: UpdateBody<'a>,
}

/// An update as either version writes it.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum UpdateBody<'a> {
    Call(CallBody<'a>),
    Other(Value),
}

/// A call is the one update with JSON of others in it, whose bytes stay as they are.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_update: Option<&'static str>,
    tool_call_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locations: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_input: Option<&'a JsonObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_output: Option<&'a str>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Value>,
}

/// A request for permission in version 1.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PermissionV1<'a> {
    session_id: &'a str,
    tool_call: CallBody<'a>,
    options: Vec<Value>,
}

/// A request for permission in version 2.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PermissionV2<'a> {
    session_id: &'a str,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    subject: PermissionSubject<'a>,
    options: Vec<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PermissionSubject<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    tool_call: CallBody<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum PermissionBody<'a> {
    V1(PermissionV1<'a>),
    V2(PermissionV2<'a>),
}

/// The updates that say the same in a version.
#[expect(clippy::too_many_lines, reason = "there is one arm for each kind of update")]
pub(super) fn bodies(version: AcpVersion, update: &AcpUpdate) -> Vec<UpdateBody<'_>> {
    let is_v2 = version == AcpVersion::V2;
    let other = |body: Value| vec![UpdateBody::Other(body)];
    match update {
        AcpUpdate::UserMessage { id, text, by } => {
            let mut body = if is_v2 {
                json!({ "sessionUpdate": "user_message", "messageId": id, "content": [text_block(text)] })
            } else {
                chunk("user_message_chunk", id, text)
            };
            if let Some(by) = by {
                body["_meta"] = json!({ "towpath": { "by": { "name": by.name, "via": by.via } } });
            }
            other(body)
        }
        AcpUpdate::Chunk { author, id, text, parent } => {
            other(with_parent(chunk(chunk_name(*author), id, text), parent.as_deref()))
        }
        AcpUpdate::Replaced { author, id, text, parent } => {
            let body = if is_v2 {
                let name = match author {
                    Speaker::Agent => "agent_message",
                    Speaker::Thought => "agent_thought",
                };
                let blocks = if text.is_empty() { Vec::new() } else { vec![text_block(text)] };
                json!({ "sessionUpdate": name, "messageId": id, "content": blocks })
            } else if text.is_empty() {
                return Vec::new();
            } else {
                chunk(chunk_name(*author), &format!("{id}+"), text)
            };
            other(with_parent(body, parent.as_deref()))
        }
        AcpUpdate::ToolCall(call) => {
            let name = if call.is_new && !is_v2 { "tool_call" } else { "tool_call_update" };
            vec![UpdateBody::Call(call_body(version, Some(name), call))]
        }
        AcpUpdate::Plan(steps) => {
            let entries: Vec<Value> = steps.iter().map(plan_step).collect();
            other(if is_v2 {
                let plan = json!({ "type": "items", "planId": PLAN_ID, "entries": entries });
                json!({ "sessionUpdate": "plan_update", "plan": plan })
            } else {
                json!({ "sessionUpdate": "plan", "entries": entries })
            })
        }
        AcpUpdate::Commands(list) => other(json!({
            "sessionUpdate": "available_commands_update",
            "availableCommands": commands(version, list),
        })),
        AcpUpdate::Options(options) => {
            let mode = options.iter().find(|it| it.category == ConfigCategory::Mode);
            let mode = mode.filter(|_| !is_v2).map(|mode| {
                json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode.current })
            });
            let all = json!({
                "sessionUpdate": "config_option_update",
                "configOptions": config_options(version, options),
            });
            mode.into_iter().chain([all]).map(UpdateBody::Other).collect()
        }
        AcpUpdate::Info { title, updated_at } => {
            let mut body = json!({ "sessionUpdate": "session_info_update" });
            if let Some(title) = title {
                body["title"] = json!(title);
            }
            if let Some(at) = updated_at {
                body["updatedAt"] = json!(at);
            }
            other(body)
        }
        AcpUpdate::Usage { used, size, cost } => {
            let mut body = json!({ "sessionUpdate": "usage_update", "used": used, "size": size });
            if let Some(cost) = cost {
                body["cost"] = json!({ "amount": cost, "currency": "USD" });
            }
            other(body)
        }
        AcpUpdate::Notice { severity, title, description } => {
            let mut body = json!({
                "sessionUpdate": "notice", "severity": severity.name(), "title": title,
            });
            if let Some(description) = description {
                body["description"] = json!(description);
            }
            other(body)
        }
        AcpUpdate::Compaction { id, summary } => {
            let mut body = json!({
                "sessionUpdate": "compaction_update", "compactionId": id, "status": "completed",
            });
            if let Some(summary) = summary {
                body["summary"] = json!([text_block(summary)]);
            }
            other(body)
        }
        AcpUpdate::SubAgent { session, title, description, activity } => {
            let mut body = json!({
                "sessionUpdate": "subagent_update", "sessionId": session, "state": state(activity),
            });
            if let Some(title) = title {
                body["title"] = json!(title);
            }
            if let Some(description) = description {
                body["description"] = json!(description);
            }
            other(body)
        }
        AcpUpdate::Activity(activity) if is_v2 => {
            let mut body = state(activity);
            body["sessionUpdate"] = json!("state_update");
            other(body)
        }
        AcpUpdate::Activity(_) => Vec::new(),
    }
}

fn chunk_name(author: Speaker) -> &'static str {
    match author {
        Speaker::Agent => "agent_message_chunk",
        Speaker::Thought => "agent_thought_chunk",
    }
}

fn chunk(name: &str, id: &str, text: &str) -> Value {
    json!({ "sessionUpdate": name, "messageId": id, "content": text_block(text) })
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Clients look there for the call whose sub-agent says something.
fn with_parent(mut body: Value, parent: Option<&str>) -> Value {
    if let Some(parent) = parent {
        body["_meta"] = json!({ "claudeCode": { "parentToolUseId": parent } });
    }
    body
}

fn plan_step(step: &PlanStep) -> Value {
    json!({ "content": step.text, "priority": "medium", "status": step.status.name() })
}

fn state(activity: &SessionActivity) -> Value {
    match activity {
        SessionActivity::Running => json!({ "state": "running" }),
        SessionActivity::RequiresAction => json!({ "state": "requires_action" }),
        SessionActivity::Idle { stop, usage: tokens } => {
            let mut body = json!({ "state": "idle" });
            if let Some(stop) = stop {
                body["stopReason"] = json!(stop.name());
                if let StopReason::Error(message) = stop {
                    let code = RpcErrorCode::Internal.number();
                    body["error"] = json!({ "code": code, "message": message });
                }
            }
            if let Some(tokens) = tokens {
                body["usage"] = usage(*tokens);
            }
            body
        }
    }
}

pub(super) fn usage(tokens: TokenUsage) -> Value {
    json!({
        "inputTokens": tokens.input,
        "outputTokens": tokens.output,
        "cachedReadTokens": tokens.cache_read,
        "cachedWriteTokens": tokens.cache_write,
        "totalTokens": tokens.total(),
    })
}

pub(super) fn commands(version: AcpVersion, list: &[OfferedCommand]) -> Value {
    let command = |it: &OfferedCommand| {
        let mut command = json!({ "name": it.name, "description": it.description });
        let mut input = it.hint.as_ref().map(|hint| json!({ "hint": hint }));
        if version == AcpVersion::V2 {
            command["type"] = json!("command");
            if let Some(input) = &mut input {
                input["type"] = json!("text");
            }
        }
        if let Some(input) = input {
            command["input"] = input;
        }
        command
    };
    list.iter().map(command).collect()
}

pub(super) fn config_options(version: AcpVersion, options: &[ConfigOption]) -> Value {
    let id = match version {
        AcpVersion::V1 => "id",
        AcpVersion::V2 => "configId",
    };
    let option = |it: &ConfigOption| {
        let values = it.values.iter().map(|it| {
            let mut value = json!({ "value": it.value, "name": it.name });
            if let Some(description) = &it.description {
                value["description"] = json!(description);
            }
            value
        });
        json!({
            id: it.id,
            "name": it.name,
            "description": it.description,
            "category": it.category.name(),
            "type": "select",
            "currentValue": it.current,
            "options": values.collect::<Vec<_>>(),
        })
    };
    options.iter().map(option).collect()
}

/// The modes as clients expect them that do not know configuration options.
pub(super) fn modes(mode: &ConfigOption) -> Value {
    let modes = mode.values.iter().map(|it| {
        let mut mode = json!({ "id": it.value, "name": it.name });
        if let Some(description) = &it.description {
            mode["description"] = json!(description);
        }
        mode
    });
    json!({ "currentModeId": mode.current, "availableModes": modes.collect::<Vec<_>>() })
}

fn call_body<'a>(
    version: AcpVersion,
    session_update: Option<&'static str>,
    call: &'a ToolCallUpdate,
) -> CallBody<'a> {
    let content = call
        .content
        .as_ref()
        .map(|content| content.iter().map(|it| call_content(version, it)).collect::<Vec<Value>>());
    let locations = call.locations.as_ref().map(|locations| {
        let location = |(path, line): &(String, Option<u64>)| match line {
            Some(line) => json!({ "path": path, "line": line }),
            None => json!({ "path": path }),
        };
        locations.iter().map(location).collect()
    });
    let mut meta = Map::new();
    if let Some(name) = &call.name {
        meta.insert("toolName".to_owned(), json!(name));
    }
    if let Some(parent) = &call.parent {
        meta.insert("parentToolUseId".to_owned(), json!(parent));
    }
    CallBody {
        session_update,
        tool_call_id: &call.id,
        title: call.title.as_deref(),
        name: call.name.as_deref(),
        kind: call.kind.map(super::update::CallKind::name),
        status: call.status.map(super::update::CallStatus::name),
        content,
        locations,
        raw_input: call.raw_input.as_ref(),
        raw_output: call.raw_output.as_deref(),
        meta: (!meta.is_empty()).then(|| json!({ "claudeCode": meta })),
    }
}

fn call_content(version: AcpVersion, content: &CallContent) -> Value {
    match (content, version) {
        (CallContent::Text(text), _) => json!({ "type": "content", "content": text_block(text) }),
        (CallContent::Diff(CallDiff { path, before, after, .. }), AcpVersion::V1) => {
            json!({ "type": "diff", "path": path, "oldText": before, "newText": after })
        }
        (CallContent::Diff(diff), AcpVersion::V2) => {
            let operation = if diff.before.is_some() { "modify" } else { "add" };
            json!({
                "type": "diff",
                "changes": [{ "operation": operation, "path": diff.path, "fileType": "text" }],
                "patch": { "format": "git_patch", "text": diff.git_patch() },
            })
        }
    }
}

fn choice(it: &PermissionChoice) -> Value {
    json!({ "optionId": it.id, "name": it.name, "kind": it.kind.name() })
}

pub(super) fn permission(version: AcpVersion, ask: &PermissionAsk) -> impl Serialize {
    let options = ask.choices.iter().map(choice).collect();
    let tool_call = call_body(version, None, &ask.call);
    match version {
        AcpVersion::V1 => {
            PermissionBody::V1(PermissionV1 { session_id: &ask.session, tool_call, options })
        }
        AcpVersion::V2 => PermissionBody::V2(PermissionV2 {
            session_id: &ask.session,
            title: &ask.title,
            description: ask.description.as_deref(),
            subject: PermissionSubject { kind: "tool_call", tool_call },
            options,
        }),
    }
}

pub(super) fn elicitation(form: &Elicitation) -> Value {
    let mut properties = Map::new();
    for field in &form.fields {
        let options: Vec<Value> = field
            .options
            .iter()
            .map(|(label, description)| {
                let mut option = json!({ "const": label, "title": label });
                if !description.is_empty() {
                    option["description"] = json!(description);
                }
                option
            })
            .collect();
        let title: Cow<'_, str> =
            if field.title.is_empty() { "Question".into() } else { field.title.as_str().into() };
        let mut schema = json!({ "title": title, "description": field.question });
        let has_options = !options.is_empty();
        if field.multiple && has_options {
            schema["type"] = json!("array");
            schema["items"] = json!({ "anyOf": options });
        } else {
            schema["type"] = json!("string");
            if has_options {
                schema["oneOf"] = json!(options);
            }
        }
        properties.insert(field.key.clone(), schema);
        if has_options {
            let custom = json!({
                "type": "string",
                "title": format!("{title}: other"),
                "description": "An answer in your own words (optional)",
            });
            properties.insert(field.custom_key.clone(), custom);
        }
    }
    json!({
        "mode": "form",
        "sessionId": form.session,
        "toolCallId": form.call,
        "message": form.message,
        "requestedSchema": { "type": "object", "properties": properties },
    })
}
