//! What the agent asks a person: permissions with its own choices, and forms.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wire::acp::event::{AcpCall, AcpCallBody, AcpResponse, AcpResult};
use wire::acp::{PermissionChoice, PermissionChoiceKind};
use wire::json::{Raw, Text};
use wire::note::{Outcome, RequestKind};

use super::{UpdateSource, id_of, short_id};
use crate::call::{Call, CallPermission, CallState, Request};
use crate::fold::calls::call_mut;
use crate::fold::requests::RequestResult;
use crate::fold::{Fold, RAW_BYTES, Visibility, prefix};
use crate::item::{ItemBody, ItemId};
use crate::tool::{self, ToolAction};

/// Questions have the form that Claude Code gives them.
const QUESTION_TOOL: &str = "AskUserQuestion";

/// How many open forms are remembered.
const MAX_FORMS: usize = 32;

/// How many fields of a form, and options of a field, are shown.
const MAX_FIELDS: usize = 100;

/// A form that a person fills in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::fold) struct OpenForm {
    request: String,
    /// The question of each field, by its key.
    questions: Vec<(String, String)>,
}

impl Fold {
    /// Opens a request of the agent.
    pub(super) fn acp_request(&mut self, call: &AcpCall<'_>) -> Visibility {
        let Some(id) = call.id.map(|id| short_id(id.as_str()).into_owned()) else {
            return Visibility::Hidden;
        };
        self.separate_messages(None);
        match &call.body {
            AcpCallBody::Permission {
                session,
                call: about,
                command,
                title,
                description,
                options,
            } => {
                // The main agent or a sub-agent asks; in both cases the agent waits.
                let parent = match self.update_source(*session, None) {
                    UpdateSource::SubAgent(item) => Some(item),
                    UpdateSource::Main | UpdateSource::OtherSession => None,
                };
                let item = about.as_ref().map(|about| self.update_acp_call(parent, about));
                let about = match item.as_ref().and_then(|item| self.items.get(item)) {
                    Some(item) => match &item.body {
                        ItemBody::Call(call) => (**call).clone(),
                        _ => Call::new(String::new()),
                    },
                    None => command_call(*command, *title),
                };
                let words = [*title, *description].into_iter().flatten().map(Text::decode);
                let words = words.collect::<Vec<_>>().join("\n");
                let words = Some(words).filter(|it| !it.is_empty()).or_else(|| about.title.clone());
                let description = words.filter(|it| *it != about.target);
                let choices = PermissionChoice::list(*options);
                self.open_acp_request(
                    id,
                    item,
                    RequestKind::Permission,
                    &about,
                    description,
                    choices,
                )
            }
            AcpCallBody::Elicitation { message, schema, url, .. } => {
                let message = message.map(|it| prefix(&it.decode(), RAW_BYTES)).unwrap_or_default();
                let about = call.params.and_then(|params| params.get("toolCallId")?.text());
                self.acp_form(id, about, message, *schema, *url)
            }
            _ => Visibility::Hidden,
        }
    }

    fn open_acp_request(
        &mut self,
        id: String,
        item: Option<ItemId>,
        kind: RequestKind,
        call: &Call,
        description: Option<String>,
        choices: Vec<PermissionChoice>,
    ) -> Visibility {
        if let Some(item) = &item {
            self.change(item, |item| {
                let Some(call) = call_mut(item) else { return };
                if call.state.is_open() {
                    call.state = CallState::Waiting;
                }
                call.permission = Some(CallPermission::new(Some(id.clone()), kind));
            });
        }
        self.add_request(Request {
            id,
            item,
            kind,
            tool: call.tool.clone(),
            action: call.action,
            target: call.target.clone(),
            input: visible_input(call),
            description,
            reason: None,
            blocked_path: None,
            suggestions: None,
            at: self.entry.at,
            expires: None,
            rules: Vec::new(),
            choices,
        })
    }

    /// A form with fields, or a page that is to be opened.
    fn acp_form(
        &mut self,
        id: String,
        about: Option<Text<'_>>,
        message: String,
        schema: Option<Raw<'_>>,
        url: Option<Text<'_>>,
    ) -> Visibility {
        let about = about.map(|about| ItemId::call(&id_of(about)));
        let about = about.filter(|item| self.items.has(item));
        if let Some(url) = url {
            let input = json!({"message": message, "url": prefix(&url.decode(), RAW_BYTES)});
            let call = Call {
                action: ToolAction::Fetch,
                target: input["url"].as_str().unwrap_or_default().to_owned(),
                input: input.to_string(),
                ..Call::new("elicitation".to_owned())
            };
            return self.open_acp_request(
                id,
                about,
                RequestKind::Permission,
                &call,
                Some(message),
                Vec::new(),
            );
        }
        let (input, questions) = form_questions(&message, schema);
        let call = Call {
            target: Raw::parse(&input).map(tool::target).unwrap_or_default(),
            input,
            started: self.entry.at,
            ..Call::new(QUESTION_TOOL.to_owned())
        };
        self.acp.forms.push_back(OpenForm { request: id.clone(), questions });
        if self.acp.forms.len() > MAX_FORMS {
            self.acp.forms.pop_front();
        }
        let item = about.unwrap_or_else(|| {
            self.finish_acp_message(None);
            let turn = self.working_turn();
            let position = self.next_position();
            let item = ItemId::line(position);
            let body = ItemBody::Call(Box::new(call.clone()));
            self.add_item(item.clone(), turn, None, position, body);
            self.calls.add_open(item.clone());
            item
        });
        self.open_acp_request(id, Some(item), RequestKind::Question, &call, None, Vec::new())
    }

    pub(super) fn acp_request_withdrawn(&mut self, request: Raw<'_>) -> Visibility {
        let id = short_id(request.as_str());
        let open = self.requests.value.iter().rev().find(|it| is_request(&it.id, &id));
        let Some(id) = open.map(|it| it.id.clone()) else { return Visibility::Hidden };
        self.resolve(&id, RequestResult::with_outcome(Outcome::Withdrawn))
    }

    /// The client's answer to a request of the agent. In a journal notes have another id for it, so this
    /// is only about requests that Towpath refused without asking anybody.
    pub(super) fn client_answered(&mut self, response: &AcpResponse<'_>) -> Visibility {
        let id = short_id(response.id.as_str());
        let Some(request) = self.requests.value.iter().find(|request| request.id == id) else {
            return Visibility::Hidden;
        };
        let answer = match response.result {
            Ok(AcpResult::Outcome(outcome)) => chosen(request, outcome),
            Ok(AcpResult::Other(result)) if result.get("action").is_some() => {
                let form = self.acp.forms.iter().position(|form| form.request == id);
                let form = form.and_then(|at| self.acp.forms.remove(at));
                form_answer(form.as_ref(), result)
            }
            Ok(_) => return Visibility::Hidden,
            Err(_) => RequestResult::with_outcome(Outcome::Denied),
        };
        let id = id.into_owned();
        self.resolve(&id, answer)
    }

    /// Gives a request the id that a note has for it. Agents count their requests from zero in each
    /// process, so notes say the process too.
    pub(in crate::fold) fn name_acp_request(&mut self, key: &str) {
        let Some((_, id)) = key.split_once(':').filter(|_| self.acp.is_used) else { return };
        let requests = &self.requests.value;
        if requests.iter().any(|request| request.id == key) {
            return;
        }
        let Some(at) = requests.iter().rposition(|request| request.id == short_id(id)) else {
            return;
        };
        let rev = self.rev();
        let item = self.requests.change(rev, |requests| {
            key.clone_into(&mut requests[at].id);
            requests[at].item.clone()
        });
        for form in &mut self.acp.forms {
            if form.request == short_id(id) {
                key.clone_into(&mut form.request);
            }
        }
        let Some(item) = item else { return };
        self.change(&item, |item| {
            if let Some(permission) = call_mut(item).and_then(|call| call.permission.as_mut()) {
                permission.request = Some(key.to_owned());
            }
        });
    }

    /// A denied call does not run, and a question is over with its answer. Some agents never mention
    /// either again.
    pub(in crate::fold) fn acp_request_resolved(&mut self, id: &ItemId) {
        if !self.acp.is_used {
            return;
        }
        let at = self.entry.at;
        let closed = self.change(id, |item| {
            let is_form = item.id.is_line();
            let call = call_mut(item)?;
            let outcome = call.permission.as_ref().and_then(|it| it.outcome);
            call.state = match outcome {
                _ if !call.state.is_open() => return None,
                Some(Outcome::Denied | Outcome::Expired) => CallState::Denied,
                Some(Outcome::Withdrawn) if is_form => CallState::Unanswered,
                Some(_) if is_form => CallState::Done,
                _ => return None,
            };
            call.ended = at;
            call.progress = None;
            Some(())
        });
        if closed.flatten().is_some() {
            self.calls.close(id);
        }
    }
}

/// Whether a request is the agent's with this id, whatever its process.
fn is_request(key: &str, id: &str) -> bool {
    key == id || key.split_once(':').is_some_and(|(_, rest)| rest == id)
}

/// A command that is not a tool call.
fn command_call(command: Option<Raw<'_>>, title: Option<Text<'_>>) -> Call {
    let text = command.map(Raw::readable).unwrap_or_default();
    let title = title.map(|it| prefix(&it.decode(), RAW_BYTES));
    let mut call = Call { title, ..Call::new(String::new()) };
    if let Some(command) = command {
        call.action = ToolAction::Run;
        call.target = super::headline(&text);
        call.input = match command.text() {
            Some(text) => json!({"command": &*text.decode()}).to_string(),
            None => command.as_str().to_owned(),
        };
    }
    call
}

/// What a person must see before an answer. Where the agent gives no input, it is all that the call says.
fn visible_input(call: &Call) -> String {
    if !matches!(call.input.as_str(), "{}" | "") {
        return call.input.clone();
    }
    let mut input = serde_json::Map::new();
    if let Some(title) = &call.title {
        let key = if call.action == ToolAction::Run { "command" } else { "title" };
        input.insert(key.to_owned(), json!(title));
    }
    if !call.files.is_empty() {
        input.insert("files".to_owned(), json!(call.files));
    }
    if let Some(progress) = &call.progress {
        input.insert("description".to_owned(), json!(progress.text));
    }
    let hunks = call.result.as_ref().and_then(|result| result.hunks.as_deref());
    if let Some(changes) = hunks.and_then(|hunks| serde_json::from_str::<Value>(hunks).ok()) {
        input.insert("changes".to_owned(), changes);
    }
    Value::Object(input).to_string()
}

/// What the choice of a person means.
fn chosen(request: &Request, outcome: Raw<'_>) -> RequestResult {
    let option = outcome.get("optionId").and_then(Raw::text);
    let choice = option.and_then(|id| request.choices.iter().find(|choice| id == *choice.id));
    let Some(choice) = choice else {
        return RequestResult::with_outcome(Outcome::Withdrawn);
    };
    RequestResult {
        choice: Some(choice.name.clone()),
        ..RequestResult::with_outcome(match choice.kind {
            PermissionChoiceKind::AllowOnce => Outcome::Allowed,
            PermissionChoiceKind::AllowAlways => Outcome::AllowedAndRemembered,
            PermissionChoiceKind::RejectOnce | PermissionChoiceKind::RejectAlways => {
                Outcome::Denied
            }
        })
    }
}

fn form_answer(form: Option<&OpenForm>, result: Raw<'_>) -> RequestResult {
    let action = result.get("action").and_then(Raw::text).map(Text::decode);
    match action.as_deref() {
        Some("accept") => {}
        Some("cancel") => return RequestResult::with_outcome(Outcome::Withdrawn),
        _ => return RequestResult::with_outcome(Outcome::Denied),
    }
    let content = result.get("content");
    let answers =
        form.into_iter().flat_map(|form| &form.questions).filter_map(|(key, question)| {
            let value = content?.get(key)?;
            let values: Vec<_> = value.items().map(Raw::readable).collect();
            let answer =
                if values.is_empty() { value.readable() } else { values.join(", ").into() };
            Some((question.clone(), answer.into_owned()))
        });
    RequestResult { answers: answers.collect(), ..RequestResult::with_outcome(Outcome::Allowed) }
}

/// The fields of a form as questions, and the question of each field by its key.
///
/// What a field asks for is unique, because answers name it. The session that passes answers on to the
/// agent builds the same questions.
fn form_questions(message: &str, schema: Option<Raw<'_>>) -> (String, Vec<(String, String)>) {
    let properties = schema.and_then(|schema| schema.get("properties"));
    let fields: Vec<_> = properties.into_iter().flat_map(Raw::fields).take(MAX_FIELDS).collect();
    let keys: Vec<String> = fields.iter().map(|(key, _)| key.decode().into_owned()).collect();
    let is_custom =
        |key: &str| key.strip_suffix("_custom").is_some_and(|it| keys.iter().any(|key| key == it));
    let shown = keys.iter().zip(&fields).filter(|(key, _)| !is_custom(key));
    let shown: Vec<_> = shown.map(|(key, (_, field))| (key, *field)).collect();
    let mut questions = Vec::new();
    let mut by_key: Vec<(String, String)> = Vec::new();
    for (key, field) in &shown {
        let text = |name: &str| Some(prefix(&field.get(name)?.text()?.decode(), RAW_BYTES));
        let title = text("title").unwrap_or_else(|| (*key).clone());
        let question = match text("description") {
            Some(description) => description,
            None if shown.len() == 1 && !message.is_empty() => message.to_owned(),
            None => title.clone(),
        };
        let is_taken = by_key.iter().any(|(_, it)| *it == question);
        let question = if is_taken { format!("{question} ({key})") } else { question };
        let (options, multiple) = field_options(*field);
        questions.push(json!({
            "question": question,
            "header": title,
            "options": options,
            "multiSelect": multiple,
        }));
        by_key.push(((*key).clone(), question));
    }
    (json!({"questions": questions}).to_string(), by_key)
}

/// The options of a field, and whether several may be chosen.
fn field_options(field: Raw<'_>) -> (Vec<Value>, bool) {
    let text = |object: Raw<'_>, key: &str| Some(object.get(key)?.text()?.decode().into_owned());
    let option = |label: &str, description: Option<String>| json!({"label": label, "description": description.unwrap_or_default()});
    let kind = text(field, "type");
    let multiple = kind.as_deref() == Some("array");
    let values = if multiple { field.get("items").unwrap_or(field) } else { field };
    let list = values.get("oneOf").or_else(|| values.get("anyOf"));
    let mut options: Vec<Value> = if let Some(list) = list {
        let options = list.items().take(MAX_FIELDS).filter_map(|it| {
            let label = text(it, "title").or_else(|| text(it, "const"))?;
            Some(option(&label, text(it, "description")))
        });
        options.collect()
    } else {
        let texts = |key: &str| -> Vec<String> {
            let items = values.get(key).into_iter().flat_map(Raw::items).take(MAX_FIELDS);
            items.filter_map(Raw::text).map(|it| it.decode().into_owned()).collect()
        };
        let names = texts("enumNames");
        let labels = texts("enum").into_iter().enumerate();
        labels.map(|(at, value)| option(names.get(at).unwrap_or(&value), None)).collect()
    };
    if kind.as_deref() == Some("boolean") && options.is_empty() {
        options = vec![option("Yes", None), option("No", None)];
    }
    (options, multiple)
}
