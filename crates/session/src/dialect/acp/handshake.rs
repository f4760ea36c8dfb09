//! Opening the agent's session: `initialize`, then a session, then its settings.

use std::collections::{BTreeMap, BTreeSet};

use wire::acp::event::{AcpFailure, AcpResult};
use wire::acp::{AcpVersion, McpServerSpec, McpTransport};
use wire::json::{Raw, Shape, Text};
use wire::note::Note;
use wire::outgoing::{AcpRequest, OutgoingLine, PermissionMode, SessionStart};

use super::state::{AcpPhase, AgentCapabilities, OpeningWay};
use super::{AcpDriver, DialectStep};
use crate::agent_event::AgentEvent;
use crate::agent_message::SettingKey;
use crate::options::SessionOptions;

pub(super) const INITIALIZE: &str = "towpath-initialize";

/// The ids of requests that open a session.
pub(super) const OPENING: [(&str, OpeningWay); 4] = [
    ("towpath-new", OpeningWay::New),
    ("towpath-resume", OpeningWay::Resume),
    ("towpath-load", OpeningWay::Load),
    ("towpath-fork", OpeningWay::Fork),
];

/// The beginning of the ids of requests that make the first settings.
pub(super) const FIRST_SETTING: &str = "towpath-set-";

/// The agent wants someone to sign in.
pub(super) const SIGN_IN_NEEDED: i64 = -32000;

impl AcpDriver {
    /// The machine wants to know when the agent is ready.
    pub(super) fn initialize(&mut self, control: String) {
        if self.state.phase == AcpPhase::Ready {
            return self.answer_ready(control);
        }
        self.waiting = Some(control);
        if self.state.phase == AcpPhase::New {
            self.state.phase = AcpPhase::Initializing;
            let request = AcpRequest::Initialize { product_version: env!("CARGO_PKG_VERSION") };
            self.send(OutgoingLine::acp_request(INITIALIZE, &request));
        }
    }

    fn answer_ready(&mut self, control: String) {
        let answer = Ok(self.state.initialized.clone());
        self.event(AgentEvent::RequestAnswered { id: control, answer });
    }

    /// The agent answered `initialize`.
    pub(super) fn initialized(
        &mut self,
        result: Result<&AcpResult<'_>, &AcpFailure<'_>>,
        options: &SessionOptions,
    ) {
        if self.state.phase != AcpPhase::Initializing {
            return;
        }
        let (version, capabilities, raw) = match result {
            Err(failure) => return self.fail_to_open(failure, "initialize"),
            Ok(AcpResult::Initialized { version, agent, capabilities, auth_methods, meta }) => {
                let raw = rebuild(&[
                    ("protocolVersion", *version),
                    ("agentInfo", *agent),
                    ("agentCapabilities", *capabilities),
                    ("authMethods", *auth_methods),
                    ("_meta", *meta),
                ]);
                (version.and_then(Raw::number).unwrap_or(1.0), *capabilities, raw)
            }
            Ok(_) => (1.0, None, "{}".to_owned()),
        };
        let number = if version >= 2.0 { 2 } else { 1 };
        if version > 2.0 {
            let reason =
                format!("the agent speaks version {version} of the protocol, Towpath 1 and 2");
            return self.give_up(reason, false);
        }
        self.state.version = number;
        // Version 2 has the same object under another name.
        let shaped = match (number, capabilities) {
            (2, Some(it)) => raw.replacen(
                &format!("\"agentCapabilities\":{}", it.as_str()),
                &format!("\"capabilities\":{}", it.as_str()),
                1,
            ),
            _ => raw.clone(),
        };
        if let Some(result) = Raw::parse(&shaped) {
            self.state.capabilities = AgentCapabilities::of(result, number);
        }
        self.state.initialized = Some(shaped);
        let way = self.first_way();
        self.open(way, options);
    }

    fn first_way(&mut self) -> OpeningWay {
        let capabilities = &self.state.capabilities;
        match self.state.session {
            None => OpeningWay::New,
            Some(_) if self.state.copies && capabilities.fork => OpeningWay::Fork,
            // What this conversation says must not become part of the other one.
            Some(_) if self.state.copies => {
                self.lose_conversation("it cannot copy a session");
                OpeningWay::New
            }
            Some(_) if capabilities.resume => OpeningWay::Resume,
            Some(_) if capabilities.load => OpeningWay::Load,
            Some(_) => {
                self.lose_conversation("it cannot continue a session");
                OpeningWay::New
            }
        }
    }

    fn lose_conversation(&mut self, reason: &str) {
        self.state.session = None;
        self.event(AgentEvent::ConversationLost);
        self.report_problem(format!(
            "the agent does not go on with its session ({reason}); it starts a new one and does not \
             know what was said before"
        ));
    }

    fn open(&mut self, way: OpeningWay, options: &SessionOptions) {
        self.state.phase = AcpPhase::Opening(way);
        let (mcp_servers, left_out) = self.mcp_servers(options);
        if let Some(left_out) = left_out {
            self.report_problem(left_out);
        }
        let directory = options.directory.to_string_lossy();
        let extra: Vec<_> =
            options.extra_directories.iter().map(|it| it.to_string_lossy()).collect();
        let version = if self.state.version == 2 { AcpVersion::V2 } else { AcpVersion::V1 };
        let takes_extra = self.state.capabilities.extra_directories;
        let start = SessionStart {
            version,
            directory: &directory,
            extra_directories: extra.iter().filter(|_| takes_extra).map(|it| &**it).collect(),
            mcp_servers,
        };
        let session = self.state.session.clone().unwrap_or_default();
        let session = session.as_str();
        let request = match way {
            OpeningWay::New => AcpRequest::NewSession(start),
            OpeningWay::Resume => AcpRequest::ResumeSession { session, start },
            OpeningWay::Load => AcpRequest::LoadSession { session, start },
            OpeningWay::Fork => AcpRequest::ForkSession { session, start },
        };
        let id = OPENING.iter().find(|(_, it)| *it == way).map_or("", |(id, _)| id);
        self.send(OutgoingLine::acp_request(id, &request));
    }

    /// The agent answered a request that opens a session.
    pub(super) fn opened(
        &mut self,
        way: OpeningWay,
        result: Result<&AcpResult<'_>, &AcpFailure<'_>>,
        options: &SessionOptions,
    ) {
        if self.state.phase != AcpPhase::Opening(way) {
            return;
        }
        match result {
            Ok(result) => {
                if way == OpeningWay::Fork {
                    // Without an id of its own the copy cannot be told from the original.
                    self.state.session = None;
                    self.state.copies = false;
                }
                if let AcpResult::Session { id, .. } = result {
                    let id = id.map(String::from).filter(|id| !id.is_empty());
                    self.state.session = id.or_else(|| self.state.session.take());
                }
                self.learn_settings(result);
                let Some(session) = self.state.session.clone() else {
                    let reason = "the agent opened a session and did not say its id".to_owned();
                    return self.give_up(reason, false);
                };
                self.state.replays = way == OpeningWay::Load;
                self.event(AgentEvent::ConversationOpened(session));
                let listed = listed_values(result);
                if way == OpeningWay::New {
                    self.report_unknown_mode(options, &listed);
                }
                self.configure(options, &listed);
            }
            Err(failure) if failure.code == SIGN_IN_NEEDED || way == OpeningWay::New => {
                self.fail_to_open(failure, "a session could not be opened");
            }
            Err(_) if way == OpeningWay::Resume && self.state.capabilities.load => {
                self.open(OpeningWay::Load, options);
            }
            Err(failure) => {
                self.lose_conversation(&failure_text(failure));
                self.open(OpeningWay::New, options);
            }
        }
    }

    /// Takes in which settings the session offers.
    pub(super) fn learn_settings(&mut self, result: &AcpResult<'_>) {
        let AcpResult::Session { modes, models, options, .. } = result else { return };
        let offered = &mut self.state.offered;
        if let Some(modes) = modes.filter(|it| it.shape() == Shape::Object) {
            offered.modes = true;
            let available = modes.get("availableModes").into_iter().flat_map(Raw::items);
            let ids = available.filter_map(|mode| mode.get("id")?.text());
            offered.mode_ids.extend(ids.map(String::from));
        }
        offered.models |= models.is_some_and(|it| it.shape() == Shape::Object);
        if let Some(options) = options {
            offered.read_options(*options);
        }
    }

    /// Makes the settings of the session before any prompt: the first of them may be the mode in which
    /// the agent asks a person.
    fn configure(&mut self, options: &SessionOptions, listed: &ListedValues) {
        let mut pending = std::collections::BTreeSet::new();
        for (key, value) in self.wanted_settings(options) {
            let known = listed.get(key.name()).filter(|it| !it.is_empty());
            if let Some(known) = known.filter(|it| !it.contains(&value)) {
                self.report_problem(unknown_value(key.name(), &value, known));
                continue;
            }
            let id = format!("{FIRST_SETTING}{}", key.name());
            match self.setting_line(&id, &key, &value) {
                Ok(line) => {
                    pending.insert(id);
                    self.send(line);
                }
                Err(reason) => self.report_problem(format!(
                    "the setting `{}` of this session could not be made: {reason}",
                    key.name()
                )),
            }
        }
        self.state.phase = AcpPhase::Configuring(pending);
        self.finish_configuring();
    }

    /// Reports a mode of the CLI that was asked for and that this agent does not have.
    fn report_unknown_mode(&mut self, options: &SessionOptions, listed: &ListedValues) {
        let mode = options.permission_mode.filter(|_| !options.agent_settings.contains_key("mode"));
        let Some(mode) = mode.map(PermissionMode::name) else { return };
        if self.state.offered.mode_ids.contains(mode) {
            return;
        }
        let none = BTreeSet::new();
        let known = listed.get("mode").unwrap_or(&none);
        self.report_problem(unknown_value("mode", mode, known));
    }

    /// The settings that a new process does not have yet. Those of the session come before the one that
    /// the catalog has for the agent.
    fn wanted_settings(&self, options: &SessionOptions) -> Vec<(SettingKey, String)> {
        let mut wanted = BTreeMap::new();
        let spec = self.spec.as_ref();
        // The modes of the CLI are those of few other agents.
        let mode = options.permission_mode.map(|mode| mode.name().to_owned());
        let mode = mode.filter(|mode| self.state.offered.mode_ids.contains(mode));
        let first = [
            (SettingKey::Mode, mode.or_else(|| spec.and_then(|spec| spec.mode.clone()))),
            (SettingKey::Model, options.model.clone()),
            (SettingKey::Effort, options.effort.clone()),
        ];
        for (key, value) in first {
            wanted.extend(value.map(|value| (key, value)));
        }
        for (name, value) in &options.agent_settings {
            wanted.insert(SettingKey::named(name), value.clone());
        }
        wanted.into_iter().collect()
    }

    /// The agent answered one of the first settings.
    pub(super) fn configured(&mut self, id: &str, failure: Option<&AcpFailure<'_>>) {
        let AcpPhase::Configuring(pending) = &mut self.state.phase else { return };
        if !pending.remove(id) {
            return;
        }
        if let Some(failure) = failure {
            let setting = id.strip_prefix(FIRST_SETTING).unwrap_or(id);
            self.report_problem(format!(
                "the agent refused the setting `{setting}` of this session: {}",
                failure_text(failure)
            ));
        }
        self.finish_configuring();
    }

    fn finish_configuring(&mut self) {
        if !matches!(&self.state.phase, AcpPhase::Configuring(pending) if pending.is_empty()) {
            return;
        }
        if self.state.replays {
            self.state.phase = AcpPhase::Settling;
        } else {
            self.become_ready();
        }
    }

    pub(super) fn become_ready(&mut self) {
        self.state.phase = AcpPhase::Ready;
        self.event(AgentEvent::SteeringOffered(self.state.capabilities.steering));
        if let Some(control) = self.waiting.take() {
            self.answer_ready(control);
        }
    }

    fn fail_to_open(&mut self, failure: &AcpFailure<'_>, what: &str) {
        let text = failure_text(failure);
        if failure.code == SIGN_IN_NEEDED {
            self.ask_to_sign_in(&text);
            return self.give_up("someone has to sign in".to_owned(), false);
        }
        self.give_up(format!("{what}: {text}"), true);
    }

    pub(super) fn ask_to_sign_in(&mut self, text: &str) {
        let initialized = self.state.initialized.as_deref().and_then(Raw::parse);
        let methods = initialized.and_then(|it| it.get("authMethods")).into_iter();
        let name = |method: Raw<'_>| {
            let text = |key: &str| Some(method.get(key)?.text()?.decode().into_owned());
            let name = text("name").or_else(|| text("id")).or_else(|| text("methodId"))?;
            Some(match text("description") {
                Some(description) if description != name => format!("{name}: {description}"),
                _ => name,
            })
        };
        let methods: Vec<String> = methods.flat_map(Raw::items).filter_map(name).collect();
        let spec = self.spec.as_ref();
        let title = spec.map_or("The agent", |spec| spec.title.as_str());
        let how = spec.and_then(|spec| spec.sign_in.as_deref());
        let how = how.unwrap_or("use the agent's own program in a terminal");
        let how = how.trim_end_matches('.');
        let text = format!("{title} needs you to sign in ({text}): {how}. Then try again.");
        self.steps.push(DialectStep::Note(Note::SignInNeeded { text, methods }));
    }

    pub(super) fn give_up(&mut self, reason: String, retry: bool) {
        self.state.phase = AcpPhase::Failed;
        self.event(AgentEvent::StartFailed { reason, retry });
    }

    /// The MCP servers of the session, as far as the agent can use them, and what is left out.
    fn mcp_servers(&self, options: &SessionOptions) -> (Vec<McpServerSpec>, Option<String>) {
        let Some(config) = options.mcp_config.as_deref() else { return (Vec::new(), None) };
        let parsed = Raw::parse(config).filter(|it| it.shape() == Shape::Object);
        let Some(servers) = parsed.map(|it| it.get("mcpServers").unwrap_or(it)) else {
            let text = "the file with the MCP servers of this session could not be read when the \
                        session was created; this agent is started without them";
            return (Vec::new(), Some(text.to_owned()));
        };
        let (mut all, mut left_out) = (Vec::new(), Vec::new());
        for (name, server) in servers.fields() {
            let name = name.decode().into_owned();
            let capabilities = &self.state.capabilities;
            match read_server(server) {
                Some(McpTransport::Http { .. }) if !capabilities.mcp_http => left_out.push(name),
                Some(McpTransport::Sse { .. }) if !capabilities.mcp_sse => left_out.push(name),
                Some(transport) => all.push(McpServerSpec { name, transport }),
                None => left_out.push(name),
            }
        }
        let text = (!left_out.is_empty())
            .then(|| format!("this agent cannot use the MCP servers {}", left_out.join(", ")));
        (all, text)
    }
}

/// The ids of values by the name of their setting, where the agent lists them. They are only needed while a
/// session is opened, and there may be thousands, so they are not part of the state.
type ListedValues = BTreeMap<String, BTreeSet<String>>;

fn listed_values(result: &AcpResult<'_>) -> ListedValues {
    let mut listed = ListedValues::new();
    let AcpResult::Session { modes, models, options, .. } = result else { return listed };
    let ids = |list: Option<Raw<'_>>, key: &str| -> BTreeSet<String> {
        let items = list.into_iter().flat_map(Raw::items);
        items.filter_map(|it| Some(it.get(key)?.text()?.decode().into_owned())).collect()
    };
    if let Some(modes) = modes {
        listed.insert("mode".to_owned(), ids(modes.get("availableModes"), "id"));
    }
    if let Some(models) = models {
        listed.insert("model".to_owned(), ids(models.get("availableModels"), "modelId"));
    }
    for option in (*options).into_iter().flat_map(Raw::items) {
        let text = |key: &str| Some(option.get(key)?.text()?.decode().into_owned());
        let name = match text("category").as_deref() {
            Some("mode") => Some("mode".to_owned()),
            Some("model") => Some("model".to_owned()),
            Some("thought_level") => Some("effort".to_owned()),
            _ => text("id").or_else(|| text("configId")),
        };
        let Some(name) = name else { continue };
        // Values may be in groups.
        let mut values = ids(option.get("options"), "value");
        for group in option.get("options").into_iter().flat_map(Raw::items) {
            values.extend(ids(group.get("options"), "value"));
        }
        listed.entry(name).or_default().extend(values);
    }
    listed
}

/// What is said about a value that the agent does not have.
fn unknown_value(name: &str, value: &str, known: &BTreeSet<String>) -> String {
    const SHOWN: usize = 20;
    let value: String = value.chars().take(80).collect();
    let mut shown: Vec<String> = known.iter().take(SHOWN).map(|it| format!("`{it}`")).collect();
    if known.len() > SHOWN {
        shown.push(format!("{} more", known.len() - SHOWN));
    }
    match shown.as_slice() {
        [] => format!("this agent has no {name} `{value}`, so it was not set"),
        shown => format!(
            "this agent has no {name} `{value}`, so it was not set; it has {}",
            shown.join(", ")
        ),
    }
}

/// An MCP server as the CLI's configuration has it.
fn read_server(server: Raw<'_>) -> Option<McpTransport> {
    let text = |key: &str| Some(server.get(key)?.text()?.decode().into_owned());
    let pairs = |key: &str| -> Vec<(String, String)> {
        let fields = server.get(key).into_iter().flat_map(Raw::fields);
        let pair = |(name, value): (Text<'_>, Raw<'_>)| {
            Some((name.decode().into_owned(), value.text()?.decode().into_owned()))
        };
        fields.filter_map(pair).collect()
    };
    match text("type").as_deref() {
        Some("http") => Some(McpTransport::Http { url: text("url")?, headers: pairs("headers") }),
        Some("sse") => Some(McpTransport::Sse { url: text("url")?, headers: pairs("headers") }),
        _ => {
            let arguments = server.get("args").into_iter().flat_map(Raw::items);
            Some(McpTransport::Stdio {
                command: text("command")?,
                arguments: arguments.filter_map(Raw::text).map(String::from).collect(),
                environment: pairs("env"),
            })
        }
    }
}

/// What an agent says about a failure: its message, and the details if they say more.
pub(super) fn failure_text(failure: &AcpFailure<'_>) -> String {
    let message = failure.message.map(String::from).unwrap_or_default();
    let data = failure.data;
    let details = data.and_then(|data| data.get("details").or_else(|| data.get("message")));
    let details = details.and_then(Raw::text).map(String::from);
    let text = match details.filter(|details| !message.contains(details.as_str())) {
        Some(details) if message.is_empty() => details,
        Some(details) => format!("{message}: {details}"),
        None => message,
    };
    if text.is_empty() { format!("error {}", failure.code) } else { text }
}

/// An object with those of the fields that there are.
fn rebuild(fields: &[(&str, Option<Raw<'_>>)]) -> String {
    let fields = fields.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
    let fields: Vec<String> =
        fields.map(|(key, value)| format!("\"{key}\":{}", value.as_str())).collect();
    format!("{{{}}}", fields.join(","))
}
